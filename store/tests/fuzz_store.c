// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fuzz target: bytes are operations on a small store, compared with an array.
 * Each operation is two bytes, what and on which slot; a write takes a third,
 * the content. Anything unexpected aborts.
 */
#include "harness.h"

#define SLOTS 16

static void fuzz_check(struct zm_store *store, u8 (*pages)[ZM_PAGE_SIZE])
{
	u8 page[ZM_PAGE_SIZE];
	char text[2048];
	u64 index;

	if (zm_store_check(store, ZM_CHECK_CONTENTS, text, sizeof(text))) {
		fprintf(stderr, "%s", text);
		abort();
	}
	for (index = 0; index < SLOTS; index++)
		if (zm_page_read(store, index, page) ||
		    memcmp(page, pages[index], ZM_PAGE_SIZE))
			abort();
}

static void fuzz_write(struct zm_store *store, u8 (*pages)[ZM_PAGE_SIZE],
		       u64 index, u8 content)
{
	u8 page[ZM_PAGE_SIZE];
	int err;

	page_make(page, content);
	err = zm_page_write(store, index, page);
	if (!err)
		memcpy(pages[index], page, ZM_PAGE_SIZE);
	else if (err != -ENOMEM)
		abort();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static u8 pages[SLOTS][ZM_PAGE_SIZE];
	struct zm_meld_options options = { 0 };
	struct zm_meld_result result;
	struct zm_store_options create;
	struct zm_store *store;
	size_t at = 1;
	u64 index;
	u8 what;

	if (!size)
		return 0;
	memset(pages, 0, sizeof(pages));
	create = test_options("lz4", SLOTS, data[0] % 4);
	if (zm_store_create(&create, &store))
		abort();
	while (at + 3 <= size) {
		what = data[at] % 16;
		index = data[at + 1] % SLOTS;
		if (what < 8) {
			fuzz_write(store, pages, index, data[at + 2]);
		} else if (what < 10) {
			zm_page_discard(store, index);
			memset(pages[index], 0, ZM_PAGE_SIZE);
		} else if (what < 12) {
			options.memory_max = data[at + 2];
			options.resume = data[at + 1] & 1;
			if (zm_meld_run(store, &options, &result) &&
			    !zm_fault_asked())
				abort();
		} else if (what == 12) {
			zm_meld_mode_set(store, data[at + 2] % 4);
		} else if (what == 13) {
			zm_store_compact(store);
		} else if (what == 14) {
			zm_store_limit_set(store, data[at + 2] % 20 *
						  ZM_PAGE_SIZE);
		} else {
			zm_fault_set(data[at + 2]);
		}
		at += 3;
	}
	zm_fault_set(0);
	fuzz_check(store, pages);
	zm_store_destroy(store);
	return 0;
}

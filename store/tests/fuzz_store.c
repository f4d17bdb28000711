// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fuzz target: bytes are operations on a small store, compared with an array.
 * Each operation is three bytes: what, on which slot, and a parameter, such as
 * a write's content. Anything unexpected aborts.
 */
#include "disk.h"
#include "harness.h"

#define SLOTS 16

static struct disk disk;

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
		if (disk_page_read(&disk, store, index, page) ||
		    memcmp(page, pages[index], ZM_PAGE_SIZE))
			abort();
}

static void fuzz_recompress(struct zm_store *store, u8 how)
{
	struct zm_recompress_options options = {
		.which = how & 3,
		.size_min = how & 4 ? how * 8 : 0,
		.pages_max = how & 8 ? how >> 4 : 0,
		.priority_first = 1,
		.priority_end = ZM_PRIORITIES,
	};
	struct zm_recompress_result result;
	int err = zm_recompress_run(store, &options, &result);

	if (result.pages_damaged || result.raced ||
	    (err && err != -ENOMEM))
		abort();
}

static void fuzz_write_back(struct zm_store *store, u64 index, u8 how)
{
	struct disk_write *write = &disk.writes[how % DISK_REQUESTS];
	int err;

	if (write->active) {
		disk_write_end(&disk, store, write, how & 0x80);
		return;
	}
	err = disk_write_begin(&disk, store, write, index, how >> 3 & 7,
			       how & 0x40);
	if (err && err != -ENOENT && err != -ENOSPC && err != -ENOMEM)
		abort();
}

static void fuzz_read(struct zm_store *store, u8 (*pages)[ZM_PAGE_SIZE],
		      u64 index, u8 how)
{
	struct disk_read *read = &disk.reads[how % DISK_REQUESTS];
	int io_err = how & 0x80 ? -EIO : 0, ret;
	u8 page[ZM_PAGE_SIZE];

	if (!read->active) {
		ret = disk_read_begin(store, read, index, page);
		memcpy(read->expected, pages[index], ZM_PAGE_SIZE);
		if (ret && ret != ZM_BACKED)
			abort();
		return;
	}
	ret = disk_read_end(&disk, store, read, io_err, page);
	if (ret != io_err ||
	    (!ret && memcmp(page, read->expected, ZM_PAGE_SIZE)))
		abort();
}

static void fuzz_end_requests(struct zm_store *store)
{
	u8 page[ZM_PAGE_SIZE];
	u32 i;

	for (i = 0; i < DISK_REQUESTS; i++) {
		if (disk.writes[i].active)
			disk_write_end(&disk, store, &disk.writes[i], true);
		if (disk.reads[i].active &&
		    disk_read_end(&disk, store, &disk.reads[i], 0, page))
			abort();
	}
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
	test_codec(&create, 1, "deflate");
	test_codec(&create, 2, "zstd");
	if (zm_store_create(&create, &store) ||
	    (data[0] & 4 && zm_backing_attach(store, DISK_BLOCKS)))
		abort();
	while (at + 3 <= size) {
		what = data[at] % 32;
		index = data[at + 1] % SLOTS;
		if (what < 10) {
			fuzz_write(store, pages, index, data[at + 2]);
		} else if (what < 13) {
			zm_page_discard(store, index);
			memset(pages[index], 0, ZM_PAGE_SIZE);
		} else if (what < 16) {
			options.memory_max = data[at + 2];
			options.resume = data[at + 1] & 1;
			if (zm_meld_run(store, &options, &result) &&
			    !zm_fault_asked())
				abort();
		} else if (what < 18) {
			fuzz_recompress(store, data[at + 2]);
		} else if (what < 24) {
			fuzz_write_back(store, index, data[at + 2]);
		} else if (what < 27) {
			fuzz_read(store, pages, index, data[at + 2]);
		} else if (what == 27) {
			zm_idle_mark(store, 0, 0);
		} else if (what == 28) {
			zm_meld_mode_set(store, data[at + 2] % 4);
		} else if (what == 29) {
			zm_store_compact(store);
		} else if (what == 30) {
			zm_store_limit_set(store, data[at + 2] % 20 *
						  ZM_PAGE_SIZE);
		} else {
			zm_fault_set(data[at + 2]);
		}
		at += 3;
	}
	zm_fault_set(0);
	fuzz_check(store, pages);
	fuzz_end_requests(store);
	fuzz_check(store, pages);
	zm_store_destroy(store);
	return 0;
}

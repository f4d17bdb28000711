// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Small cases, all of them: every sequence of operations up to a length on
 * three slots and three pages, in every mode, each state checked.
 *
 *	exhaustive [length]	default 4
 */
#include "harness.h"

#define SLOTS 3
#define CONTENTS 3

enum {
	WRITES = SLOTS * CONTENTS,
	DISCARDS = SLOTS,
	MELD = WRITES + DISCARDS,
	COMPACT,
	OPERATIONS,
};

static u8 contents[CONTENTS][ZM_PAGE_SIZE];
static const u8 zeros[ZM_PAGE_SIZE];

/* What each slot must hold: a content, or none. */
static int held[SLOTS];

static void apply(struct zm_store *store, u32 op)
{
	static const struct zm_meld_options all = { .threshold_permille = 0 };
	struct zm_meld_result result;
	int err = 0;

	if (op < WRITES) {
		err = zm_page_write(store, op % SLOTS, contents[op / SLOTS]);
		held[op % SLOTS] = (int)(op / SLOTS);
	} else if (op < MELD) {
		zm_page_discard(store, op - WRITES);
		held[op - WRITES] = -1;
	} else if (op == MELD) {
		err = zm_meld_run(store, &all, &result);
	} else {
		zm_store_compact(store);
	}
	if (err)
		DIE("operation %u: %d", op, err);
}

/* After a pass nothing equal may be left apart. */
static void expect_melded(struct zm_store *store, u64 sequence)
{
	struct zm_stats stats;
	u64 distinct = 0;
	int content, slot;

	for (content = 0; content < CONTENTS - 1; content++)
		for (slot = 0; slot < SLOTS; slot++)
			if (held[slot] == content) {
				distinct++;
				break;
			}
	zm_store_stats(store, &stats);
	if (stats.objects != distinct)
		DIE("sequence %llu: %llu objects for %llu contents",
		    (unsigned long long)sequence,
		    (unsigned long long)stats.objects,
		    (unsigned long long)distinct);
}

static void run(struct zm_store *store, u64 sequence, u32 length, u32 mode)
{
	u8 page[ZM_PAGE_SIZE];
	u64 rest = sequence;
	u32 i, slot, op;

	for (slot = 0; slot < SLOTS; slot++)
		held[slot] = -1;
	for (i = 0; i < length; i++, rest /= OPERATIONS) {
		op = rest % OPERATIONS;
		apply(store, op);
		if (op == MELD && mode != ZM_MELD_OFF)
			expect_melded(store, sequence);
		check_store(store, ZM_CHECK_COUNTS, "in a sequence", sequence);
		for (slot = 0; slot < SLOTS; slot++) {
			if (zm_page_read(store, slot, page))
				DIE("sequence %llu: read",
				    (unsigned long long)sequence);
			if (memcmp(page, held[slot] < 0 ? zeros :
				   contents[held[slot]], ZM_PAGE_SIZE))
				DIE("sequence %llu: other bytes",
				    (unsigned long long)sequence);
		}
	}
	for (slot = 0; slot < SLOTS; slot++)
		zm_page_discard(store, slot);
}

int main(int argc, char **argv)
{
	u32 length = argc > 1 ? (u32)atoi(argv[1]) : 4;
	struct zm_store_options options;
	struct zm_store *store;
	struct zm_stats stats;
	u64 sequences = 1, i;
	u32 mode, n;

	/* Two that only their bytes tell apart; the last is same-filled. */
	collision_find(contents[0], contents[1]);
	page_make(contents[2], 72);
	for (n = 0; n < length; n++)
		sequences *= OPERATIONS;
	for (mode = 0; mode <= ZM_MELD_INLINE; mode++) {
		options = test_options("lz4", SLOTS, mode);
		options.verify = mode != ZM_MELD_OFF;
		if (zm_store_create(&options, &store))
			DIE("create");
		for (i = 0; i < sequences; i++)
			run(store, i, length, mode);
		zm_store_stats(store, &stats);
		if (stats.objects || stats.memory_used)
			DIE("something is left when all is discarded");
		zm_store_destroy(store);
		printf("exhaustive: mode %s: %llu sequences of %u ok\n",
		       zm_meld_mode_name(mode), (unsigned long long)sequences,
		       length);
	}
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Small cases, all of them: every sequence of operations up to a length on
 * three slots and three pages, in every mode, each state checked; and, from
 * several states that two slots can be in, every sequence in which pages also
 * are recompressed, go to a backing device and come back.
 *
 *	exhaustive [length]	default 4
 */
#include "disk.h"
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

/* -- With a backing device -------------------------------------------------- */

#define PAIR 2

enum {
	PAIR_DISCARD = PAIR * PAIR,	/* before it: write each page to each */
	PAIR_MELD = PAIR_DISCARD + PAIR,
	PAIR_RECOMPRESS,
	PAIR_WRITE_BEGIN,
	PAIR_WRITE_END = PAIR_WRITE_BEGIN + PAIR,
	PAIR_WRITE_FAIL,
	PAIR_READ_BEGIN,
	PAIR_READ_END = PAIR_READ_BEGIN + PAIR,
	PAIR_OPERATIONS,
};

/* Both slots hold the same page in all of them. */
enum start {
	START_APART,
	START_MELDED,
	START_BACKED,
	START_BEING_WRITTEN,
	STARTS,
};

static const char *const start_names[STARTS] = {
	"apart", "melded", "backed", "being written",
};

static struct disk disk;
/* Requests under way, the oldest first, as places in the disk's tables. */
static u32 writes_begun, writes_ended, reads_begun, reads_ended;

static void pair_write_begin(struct zm_store *store, u64 slot)
{
	struct disk_write *write = &disk.writes[writes_begun % DISK_REQUESTS];
	int err;

	if (write->active)
		return;
	/* The first slot's page goes as it is, the other's compressed. */
	err = disk_write_begin(&disk, store, write, slot, 0, slot);
	if (!err)
		writes_begun++;
	else if (err != -ENOENT)
		DIE("writeback: %d", err);
}

static void pair_write_end(struct zm_store *store, bool written)
{
	if (writes_ended == writes_begun)
		return;
	disk_write_end(&disk, store,
		       &disk.writes[writes_ended++ % DISK_REQUESTS], written);
}

static void pair_read_begin(struct zm_store *store, u64 slot)
{
	struct disk_read *read = &disk.reads[reads_begun % DISK_REQUESTS];
	u8 page[ZM_PAGE_SIZE];
	int ret;

	if (read->active)
		return;
	ret = disk_read_begin(store, read, slot, page);
	if (ret && ret != ZM_BACKED)
		DIE("read: %d", ret);
	if (!ret)
		return;
	if (held[slot] < 0)
		DIE("an empty slot is backed");
	memcpy(read->expected, contents[held[slot]], ZM_PAGE_SIZE);
	reads_begun++;
}

static void pair_read_end(struct zm_store *store)
{
	struct disk_read *read = &disk.reads[reads_ended % DISK_REQUESTS];
	u8 page[ZM_PAGE_SIZE];

	if (reads_ended == reads_begun)
		return;
	reads_ended++;
	if (disk_read_end(&disk, store, read, 0, page) ||
	    memcmp(page, read->expected, ZM_PAGE_SIZE))
		DIE("a block reads other bytes");
}

static void pair_apply(struct zm_store *store, u32 op)
{
	static const struct zm_recompress_options harder = {
		.priority_first = 1,
		.priority_end = ZM_PRIORITIES,
	};
	static const struct zm_meld_options all = { .threshold_permille = 0 };
	struct zm_recompress_result recompressed;
	struct zm_meld_result melded;
	int err = 0;

	if (op < PAIR_DISCARD) {
		err = zm_page_write(store, op % PAIR, contents[op / PAIR]);
		held[op % PAIR] = (int)(op / PAIR);
	} else if (op < PAIR_MELD) {
		zm_page_discard(store, op - PAIR_DISCARD);
		held[op - PAIR_DISCARD] = -1;
	} else if (op == PAIR_MELD) {
		err = zm_meld_run(store, &all, &melded);
	} else if (op == PAIR_RECOMPRESS) {
		err = zm_recompress_run(store, &harder, &recompressed);
	} else if (op < PAIR_WRITE_END) {
		pair_write_begin(store, op - PAIR_WRITE_BEGIN);
	} else if (op < PAIR_READ_BEGIN) {
		pair_write_end(store, op == PAIR_WRITE_END);
	} else if (op < PAIR_READ_END) {
		pair_read_begin(store, op - PAIR_READ_BEGIN);
	} else {
		pair_read_end(store);
	}
	if (err)
		DIE("operation %u: %d", op, err);
}

static void pair_expect(struct zm_store *store, u64 sequence)
{
	u8 page[ZM_PAGE_SIZE];
	u32 slot;

	check_store(store, ZM_CHECK_COUNTS, "in a sequence", sequence);
	for (slot = 0; slot < PAIR; slot++)
		if (disk_page_read(&disk, store, slot, page) ||
		    memcmp(page, held[slot] < 0 ? zeros : contents[held[slot]],
			   ZM_PAGE_SIZE))
			DIE("sequence %llu: slot %u reads other bytes",
			    (unsigned long long)sequence, slot);
}

static void pair_start(struct zm_store *store, enum start start)
{
	pair_apply(store, 0);
	pair_apply(store, 1);
	if (start >= START_MELDED)
		pair_apply(store, PAIR_MELD);
	if (start >= START_BACKED)
		pair_apply(store, PAIR_WRITE_BEGIN);
	if (start == START_BACKED)
		pair_apply(store, PAIR_WRITE_END);
}

static void pair_run(struct zm_store *store, enum start start, u64 sequence,
		     u32 length)
{
	struct zm_stats stats;
	u64 rest = sequence;
	u32 i;

	pair_start(store, start);
	for (i = 0; i < length; i++, rest /= PAIR_OPERATIONS) {
		pair_apply(store, rest % PAIR_OPERATIONS);
		pair_expect(store, sequence);
	}
	for (i = 0; i < PAIR; i++)
		pair_apply(store, PAIR_DISCARD + i);
	check_store(store, ZM_CHECK_COUNTS, "without pages", sequence);
	while (reads_ended != reads_begun)
		pair_read_end(store);
	while (writes_ended != writes_begun)
		pair_write_end(store, sequence % 2);
	zm_store_stats(store, &stats);
	if (stats.shares || stats.blocks_used || stats.memory_used)
		DIE("sequence %llu from %s: something is left",
		    (unsigned long long)sequence, start_names[start]);
}

static void run_pairs(u32 length, u32 mode)
{
	struct zm_store_options options = test_options("lz4", PAIR, mode);
	struct zm_stats before, after;
	struct zm_store *store;
	u64 sequences = 1, i;
	enum start start;
	u32 n;

	for (n = 0; n < length; n++)
		sequences *= PAIR_OPERATIONS;
	test_codec(&options, 1, "deflate");
	store = test_store(&options, DISK_BLOCKS);
	for (start = 0; start < STARTS; start++) {
		zm_store_stats(store, &before);
		for (i = 0; i < sequences; i++)
			pair_run(store, start, i, length);
		zm_store_stats(store, &after);
		if (after.recompressed == before.recompressed ||
		    after.writebacks == before.writebacks)
			DIE("nothing was recompressed, or written back");
		printf("exhaustive: mode %s, %s: %llu sequences of %u ok\n",
		       zm_meld_mode_name(mode), start_names[start],
		       (unsigned long long)sequences, length);
	}
	if (zm_backing_detach(store))
		DIE("blocks are left");
	zm_store_destroy(store);
}

/* -- The whole -------------------------------------------------------------- */

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
		store = test_store(&options, 0);
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
	run_pairs(length, ZM_MELD_MANUAL);
	run_pairs(length - 1, ZM_MELD_INLINE);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Small cases, all of them: from several states that two slots can be in, every
 * sequence of operations of a length on two pages, in every mode, each state
 * checked. Pages are melded, recompressed, go to a backing device and come back.
 *
 *	exhaustive [length]	default 4
 */
#include "disk.h"
#include "harness.h"

#define PAIR 2

enum {
	WRITES = PAIR * PAIR,		/* each page to each slot */
	MELD = WRITES + PAIR,		/* before it: discard each slot */
	RECOMPRESS,
	WRITE_BEGIN,
	WRITE_END = WRITE_BEGIN + PAIR,
	WRITE_FAIL,
	READ_BEGIN,
	READ_END = READ_BEGIN + PAIR,
	OPERATIONS,
};

static u8 contents[PAIR][ZM_PAGE_SIZE];
static const u8 zeros[ZM_PAGE_SIZE];

/* What each slot must hold: a content, or none. */
static int held[PAIR];

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

static void write_begin(struct zm_store *store, u64 slot)
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

static void write_end(struct zm_store *store, bool written)
{
	if (writes_ended == writes_begun)
		return;
	disk_write_end(&disk, store,
		       &disk.writes[writes_ended++ % DISK_REQUESTS], written);
}

static void read_begin(struct zm_store *store, u64 slot)
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

static void read_end(struct zm_store *store)
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

static void apply(struct zm_store *store, u32 op)
{
	if (op < WRITES) {
		test_write(store, op % PAIR, contents[op / PAIR]);
		held[op % PAIR] = (int)(op / PAIR);
	} else if (op < MELD) {
		zm_page_discard(store, op - WRITES);
		held[op - WRITES] = -1;
	} else if (op == MELD) {
		test_meld(store);
	} else if (op == RECOMPRESS) {
		test_recompress(store);
	} else if (op < WRITE_END) {
		write_begin(store, op - WRITE_BEGIN);
	} else if (op < READ_BEGIN) {
		write_end(store, op == WRITE_END);
	} else if (op < READ_END) {
		read_begin(store, op - READ_BEGIN);
	} else {
		read_end(store);
	}
}

static void expect(struct zm_store *store, u64 sequence)
{
	u8 page[ZM_PAGE_SIZE];
	u32 slot;

	check_store(store, ZM_CHECK_COUNTS, "in a sequence", sequence);
	for (slot = 0; slot < PAIR; slot++)
		if (disk_page_read(&disk, store, slot, page) ||
		    memcmp(page, held[slot] < 0 ? zeros : contents[held[slot]],
			   ZM_PAGE_SIZE))
			DIE("sequence %llu: slot %u reads other bytes",
			    sequence, slot);
}

static void start_from(struct zm_store *store, enum start start)
{
	apply(store, 0);
	apply(store, 1);
	if (start >= START_MELDED)
		apply(store, MELD);
	if (start >= START_BACKED)
		apply(store, WRITE_BEGIN);
	if (start == START_BACKED)
		apply(store, WRITE_END);
}

static void run(struct zm_store *store, enum start start, u64 sequence,
		u32 length)
{
	struct zm_stats stats;
	u64 rest = sequence;
	u32 i;

	start_from(store, start);
	for (i = 0; i < length; i++, rest /= OPERATIONS) {
		apply(store, rest % OPERATIONS);
		expect(store, sequence);
	}
	for (i = 0; i < PAIR; i++)
		apply(store, WRITES + i);
	check_store(store, ZM_CHECK_COUNTS, "without pages", sequence);
	while (reads_ended != reads_begun)
		read_end(store);
	while (writes_ended != writes_begun)
		write_end(store, sequence % 2);
	zm_store_stats(store, &stats);
	if (stats.shares || stats.blocks_used || stats.memory_used)
		DIE("sequence %llu from %s: something is left", sequence,
		    start_names[start]);
}

static void run_all(u32 length, u32 mode)
{
	struct zm_store_options options = test_options("lz4", PAIR, mode);
	struct zm_stats before, after;
	struct zm_store *store;
	u64 sequences = 1, i;
	enum start start;
	u32 n;

	for (n = 0; n < length; n++)
		sequences *= OPERATIONS;
	test_codec(&options, 1, "deflate");
	store = test_store(&options, DISK_BLOCKS);
	for (start = 0; start < STARTS; start++) {
		zm_store_stats(store, &before);
		for (i = 0; i < sequences; i++)
			run(store, start, i, length);
		zm_store_stats(store, &after);
		if (after.recompressed == before.recompressed ||
		    after.writebacks == before.writebacks)
			DIE("nothing was recompressed, or written back");
		printf("exhaustive: mode %s, %s: %llu sequences of %u ok\n",
		       zm_meld_mode_name(mode), start_names[start], sequences,
		       length);
	}
	if (zm_backing_detach(store))
		DIE("blocks are left");
	zm_store_destroy(store);
}

int main(int argc, char **argv)
{
	u32 length = argc > 1 ? (u32)atoi(argv[1]) : 4;

	/* Two that only their bytes tell apart. */
	collision_find(contents[0], contents[1]);
	run_all(length, ZM_MELD_MANUAL);
	run_all(length - 1, ZM_MELD_OFF);
	run_all(length - 1, ZM_MELD_AUTO);
	run_all(length - 1, ZM_MELD_INLINE);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The model test: random operations on a store and on a plain array of pages,
 * which must never disagree. Pages are melded, recompressed and written back on
 * the way; requests to the backing device end late, in any order, well or badly;
 * allocations fail.
 *
 *	model [seed] [operations]	one run; without arguments, the suite
 *	model soak SEED OPERATIONS	short runs, one after the other
 *
 * The suite runs several codecs and modes from several seeds, and then one
 * short sequence again and again with the first, second, third ... allocation
 * failing, until none is left to fail. The store is checked after each
 * operation of the latter.
 *
 * The soak is for many operations in little time: stores of few slots, whose mode,
 * codec and settings the seed chooses for each run, with allocations that fail
 * now and then, and recompression, which costs most, less often.
 */
#include "disk.h"
#include "harness.h"

#define SLOTS 96
#define CONTENTS 48
/* Of a soak's stores: the fewest slots, and the operations of each. */
#define SOAK_SLOTS 8
#define SOAK_OPERATIONS 2000

/* Page number 0, 1, 2 ...: made once, since making them costs more than all else. */
static u8 contents[CONTENTS][ZM_PAGE_SIZE];

/* Two pages that only their bytes tell apart. */
static u8 colliding[2][ZM_PAGE_SIZE];

struct model {
	struct zm_store *store;
	u8 pages[SLOTS][ZM_PAGE_SIZE];
	struct rng rng;
	u64 seed;
	u64 failed_writes;
	u64 limit;
	u64 slots;
	bool check_each;
	bool soaks;
	bool attached;
	const char *codec;
	struct disk disk;
	u32 writing[DISK_REQUESTS];	/* fingerprints of what is written */
	u64 recompressed;
	u64 incompressible;
	u64 block_reads;
};

static void expect_page(struct model *m, u64 index)
{
	u8 page[ZM_PAGE_SIZE];
	int err = disk_page_read(&m->disk, m->store, index, page);

	if (err)
		DIE("seed %llu, %s: read of page %llu: %d", m->seed, m->codec,
		    index, err);
	if (memcmp(page, m->pages[index], ZM_PAGE_SIZE))
		DIE("seed %llu, %s: page %llu reads other bytes", m->seed,
		    m->codec, index);
}

/* Where a page is changed by one bit: its ends as often as the rest. */
static u32 choose_byte(struct model *m)
{
	if (rng_below(&m->rng, 2))
		return rng_below(&m->rng, ZM_PAGE_SIZE);
	if (rng_below(&m->rng, 2))
		return rng_below(&m->rng, 24);
	return ZM_PAGE_SIZE - 1 - rng_below(&m->rng, 24);
}

static void choose_page(struct model *m, u8 *page)
{
	u32 content = rng_below(&m->rng, CONTENTS + 8);

	if (content >= CONTENTS)
		memcpy(page, colliding[content % 2], ZM_PAGE_SIZE);
	else
		memcpy(page, contents[content], ZM_PAGE_SIZE);
	if (rng_below(&m->rng, 16) == 0)
		page[choose_byte(m)] ^= 1u << rng_below(&m->rng, 8);
}

static u64 memory_used(struct model *m)
{
	return test_stats(m->store).memory_used;
}

static void do_write(struct model *m, u64 index)
{
	u8 page[ZM_PAGE_SIZE];
	u64 used = memory_used(m);
	int err;

	choose_page(m, page);
	err = zm_page_write(m->store, index, page);
	if (m->limit && memory_used(m) > m->limit && memory_used(m) > used)
		DIE("seed %llu: a write passed the memory limit", m->seed);
	if (!err)
		memcpy(m->pages[index], page, ZM_PAGE_SIZE);
	else if (err == -ENOMEM)
		m->failed_writes++;
	else
		DIE("seed %llu: write: %d", m->seed, err);
	expect_page(m, index);
}

static void do_meld(struct model *m)
{
	struct zm_meld_options options = {
		.threshold_permille = rng_below(&m->rng, 2) * 50,
		.memory_max = rng_below(&m->rng, 2) ? 0 : 1,
		.resume = rng_below(&m->rng, 2),
		.estimate_only = rng_below(&m->rng, 8) == 0,
	};
	struct zm_meld_result result;
	int err = zm_meld_run(m->store, &options, &result);

	if (err && err != -ENOMEM)
		DIE("seed %llu: meld: %d", m->seed, err);
}

/* Exactly what the result says has become smaller, and nothing else. */
static void do_recompress(struct model *m)
{
	struct zm_recompress_options options = {
		.which = rng_below(&m->rng, 4) & (ZM_PICK_IDLE | ZM_PICK_HUGE),
		.size_min = rng_below(&m->rng, 2) * rng_below(&m->rng, 3000),
		.pages_max = rng_below(&m->rng, 2) * rng_below(&m->rng, 20),
		.priority = rng_below(&m->rng, 2) ? 1 : 3,
	};
	struct zm_recompress_result result;
	struct zm_stats before, after;
	int err;

	zm_store_stats(m->store, &before);
	err = zm_recompress_run(m->store, &options, &result);
	if (err && err != -ENOMEM)
		DIE("seed %llu: recompress: %d", m->seed, err);
	zm_store_stats(m->store, &after);
	if (before.bytes_compressed - after.bytes_compressed !=
	    result.bytes_before - result.bytes_after ||
	    before.objects != after.objects || result.pages_damaged ||
	    result.raced)
		DIE("seed %llu: recompression does not add up", m->seed);
	if (options.pages_max && result.pages_tried > options.pages_max)
		DIE("seed %llu: more objects tried than allowed", m->seed);
	m->recompressed += result.pages_recompressed;
	m->incompressible += result.pages_incompressible;
}

static void do_idle(struct model *m)
{
	struct zm_slot_info info;
	u64 index;

	if (zm_idle_mark(m->store, 0, 0))
		DIE("idle");
	for (index = 0; index < m->slots; index++) {
		info = test_info(m->store, index);
		if (info.idle != (info.size && !info.backed))
			DIE("seed %llu: slot %llu is %sidle", m->seed,
			    index, info.idle ? "" : "not ");
	}
	index = rng_below(&m->rng, (u32)m->slots);
	expect_page(m, index);
	if (test_info(m->store, index).idle)
		DIE("seed %llu: a page that was read is idle", m->seed);
}

static bool is_picked(struct zm_slot_info info, u32 which)
{
	return info.size && !info.backed &&
	       (!(which & ZM_PICK_IDLE) || info.idle) &&
	       (!(which & ZM_PICK_HUGE) || info.huge) &&
	       (!(which & ZM_PICK_INCOMPRESSIBLE) || info.incompressible);
}

/* Whether a write under way is of a page with this slot's fingerprint. */
static bool is_being_written(struct model *m, struct zm_slot_info info)
{
	u32 i;

	for (i = 0; i < DISK_REQUESTS; i++)
		if (m->disk.writes[i].active &&
		    m->writing[i] == info.fingerprint)
			return true;
	return false;
}

static void do_writeback(struct model *m, u64 index)
{
	struct disk_write *write = disk_write_free(&m->disk);
	u32 which = rng_below(&m->rng, 2) ? 0 : rng_below(&m->rng, 8);
	bool keep = rng_below(&m->rng, 2);
	struct zm_slot_info info = test_info(m->store, index);
	bool may_rest = which & ZM_PICK_IDLE && info.kind == ZM_KIND_SHARE;
	struct zm_stats stats;
	int err;

	if (!write)
		return;
	err = disk_write_begin(&m->disk, m->store, write, index, which, keep);
	zm_store_stats(m->store, &stats);
	if (err == -ENOMEM && zm_fault_asked())
		return;
	if (err == -ENOSPC && stats.blocks_used == stats.blocks)
		return;
	/* An idle slot's share is idle only if its others are. */
	if (err == -ENOENT && (!is_picked(info, which) || may_rest ||
			       is_being_written(m, info)))
		return;
	if (err || !is_picked(info, which))
		DIE("seed %llu: writeback of slot %llu: %d", m->seed, index,
		    err);
	if (keep ? write->wb.size != info.size :
		   memcmp(write->bytes, m->pages[index], ZM_PAGE_SIZE) != 0)
		DIE("seed %llu: other bytes to write for slot %llu", m->seed,
		    index);
	m->writing[write - m->disk.writes] = info.fingerprint;
}

/* Ends the oldest, or any, of what is under way. */
static void do_complete(struct model *m)
{
	u32 at = rng_below(&m->rng, DISK_REQUESTS);
	struct disk_write *write = &m->disk.writes[at];
	struct disk_read *read = &m->disk.reads[at];
	int io_err = rng_below(&m->rng, 8) ? 0 : -EIO;
	u8 page[ZM_PAGE_SIZE];
	int err;

	if (write->active)
		disk_write_end(&m->disk, m->store, write,
			       rng_below(&m->rng, 4));
	if (!read->active)
		return;
	err = disk_read_end(&m->disk, m->store, read, io_err, page);
	if (err != io_err)
		DIE("seed %llu: read of a block: %d", m->seed, err);
	if (!err && memcmp(page, read->expected, ZM_PAGE_SIZE))
		DIE("seed %llu: a block of page %llu reads other bytes",
		    m->seed, read->index);
	m->block_reads++;
}

/* A read that ends later, if it takes the backing device. */
static void do_slow_read(struct model *m, u64 index)
{
	struct disk_read *read = disk_read_free(&m->disk);
	u8 page[ZM_PAGE_SIZE];
	int ret;

	if (!read)
		return;
	ret = disk_read_begin(m->store, read, index, page);
	memcpy(read->expected, m->pages[index], ZM_PAGE_SIZE);
	if (ret && ret != ZM_BACKED)
		DIE("seed %llu: slow read: %d", m->seed, ret);
	if (!ret && memcmp(page, m->pages[index], ZM_PAGE_SIZE))
		DIE("seed %llu: page %llu reads other bytes", m->seed, index);
	if (ret == ZM_BACKED &&
	    zm_page_read(m->store, index, page) != -EREMOTE)
		DIE("seed %llu: a backed page is read without its block",
		    m->seed);
}

static void do_attach(struct model *m)
{
	struct zm_stats stats;
	int err;

	zm_store_stats(m->store, &stats);
	if (!m->attached) {
		err = zm_backing_attach(m->store, DISK_BLOCKS);
		if (err && err != -ENOMEM)
			DIE("attach: %d", err);
		m->attached = !err;
		return;
	}
	if (zm_backing_attach(m->store, DISK_BLOCKS) != -EBUSY)
		DIE("attached twice");
	err = zm_backing_detach(m->store);
	if (err != (stats.blocks_used ? -EBUSY : 0))
		DIE("seed %llu: detach with %llu blocks in use: %d", m->seed,
		    stats.blocks_used, err);
	m->attached = err;
}

static void do_setting(struct model *m)
{
	int err;

	switch (rng_below(&m->rng, 4)) {
	case 0:
		err = zm_meld_mode_set(m->store, rng_below(&m->rng, 4));
		if (err && err != -ENOMEM)
			DIE("mode: %d", err);
		break;
	case 1:
		zm_store_compact(m->store);
		break;
	case 2:
		m->limit = rng_below(&m->rng, 3) ? 0 :
			   rng_below(&m->rng, 40) * ZM_PAGE_SIZE;
		zm_store_limit_set(m->store, m->limit);
		break;
	default:
		do_attach(m);
	}
}

static void do_something(struct model *m)
{
	u64 index = rng_below(&m->rng, (u32)m->slots);
	u32 what = rng_below(&m->rng, 100);

	if (what < 40) {
		do_write(m, index);
	} else if (what < 50) {
		expect_page(m, index);
	} else if (what < 60) {
		zm_page_discard(m->store, index);
		memset(m->pages[index], 0, ZM_PAGE_SIZE);
		expect_page(m, index);
	} else if (what < 65) {
		do_meld(m);
	} else if (what < 69) {
		if (m->soaks && rng_below(&m->rng, 8))
			do_write(m, index);
		else
			do_recompress(m);
	} else if (what < 71) {
		do_idle(m);
	} else if (what < 81) {
		do_writeback(m, index);
	} else if (what < 86) {
		do_slow_read(m, index);
	} else if (what < 95) {
		do_complete(m);
	} else {
		do_setting(m);
	}
}

static void expect_all(struct model *m, const char *when)
{
	u64 index;

	check_store(m->store, ZM_CHECK_CONTENTS, when, m->seed);
	for (index = 0; index < m->slots; index++)
		expect_page(m, index);
}

/* Opens a store; false where a failing allocation prevented it. */
static bool model_open(struct model *m, const char *codec, u32 mode, u64 seed,
		       u64 slots)
{
	struct zm_store_options options = test_options(codec, slots, mode);
	int err;

	/* Two more codecs, with a priority left out. */
	test_codec(&options, 1, "deflate");
	test_codec(&options, 3, "zstd");
	memset(m, 0, sizeof(*m));
	m->seed = seed;
	m->rng.state = seed;
	m->codec = codec;
	m->slots = slots;
	err = zm_store_create(&options, &m->store);
	if (err && err != -ENOMEM)
		DIE("create: %d", err);
	return !err;
}

static void run(struct model *m, u64 operations)
{
	u64 i;

	for (i = 0; i < operations; i++) {
		if (m->soaks && rng_below(&m->rng, 32) == 0)
			zm_fault_set(1 + rng_below(&m->rng, 16));
		/* Now and then what is not waited for is not there. */
		zm_fault_scarce_set(i / 64 % 4 == 3);
		do_something(m);
		if (m->check_each || i % 64 == 0)
			check_store(m->store, ZM_CHECK_COUNTS,
				    "during the run", m->seed);
		if (i % 512 == 0)
			expect_all(m, "during the run");
	}
}

/* Ends what is under way, before or after the pages go, and the store. */
static void model_close(struct model *m)
{
	bool late = rng_below(&m->rng, 2);
	struct zm_stats stats;
	u64 index;
	u32 i;

	for (i = 0; !late && i < 100; i++)
		do_complete(m);
	for (index = 0; index < m->slots; index++) {
		zm_page_discard(m->store, index);
		memset(m->pages[index], 0, ZM_PAGE_SIZE);
	}
	check_store(m->store, ZM_CHECK_COUNTS, "without pages", m->seed);
	for (i = 0; i < 1000; i++)
		do_complete(m);
	check_store(m->store, ZM_CHECK_COUNTS, "at the end", m->seed);
	zm_store_stats(m->store, &stats);
	if (stats.objects || stats.shares || stats.memory_used ||
	    stats.blocks_used || stats.bytes_compressed || stats.bytes_melded)
		DIE("seed %llu: something is left when all is discarded",
		    m->seed);
	if (zm_backing_detach(m->store))
		DIE("seed %llu: blocks are left", m->seed);
	zm_store_destroy(m->store);
}

static void run_once(const char *codec, u32 mode, u64 seed, u64 operations)
{
	static struct model m;
	bool tested;

	if (!model_open(&m, codec, mode, seed, SLOTS))
		DIE("create without memory");
	run(&m, operations);
	expect_all(&m, "at the end");
	model_close(&m);
	/* Nothing here compresses better than zstd. */
	tested = (m.recompressed || !strcmp(codec, "zstd")) &&
		 m.incompressible && m.block_reads;
	if (operations >= 2000 && !tested)
		DIE("seed %llu: %llu recompressed, %llu incompressible, %llu block reads: the test tested too little",
		    seed, m.recompressed, m.incompressible, m.block_reads);
}

/* The nth allocation fails; true where there were that many. */
static bool run_failing(const char *codec, u32 mode, u64 seed, u64 nth)
{
	static struct model m;
	bool opened, failed;

	zm_fault_set(nth);
	opened = model_open(&m, codec, mode, seed, SLOTS);
	if (opened) {
		m.check_each = nth % 8 == 0;
		run(&m, 200);
	}
	failed = zm_fault_asked() >= nth;
	zm_fault_set(0);
	if (opened) {
		expect_all(&m, "after a failed allocation");
		model_close(&m);
	}
	return failed;
}

/* What the seed says: the mode, the codec, how many slots. */
static void soak_once(u64 seed, u64 operations)
{
	static const char *const codecs[] = { "lz4", "zstd", "lzo-rle", "lzo",
					      "deflate", "lz4hc" };
	struct rng rng = { seed };
	static struct model m;
	/* The slow codecs are among the others' priorities, too. */
	u32 which = rng_below(&rng, rng_below(&rng, 4) ? 4 : 6);
	u32 mode = rng_below(&rng, ZM_MELD_INLINE + 1);
	u64 slots = SOAK_SLOTS + rng_below(&rng, 4 * SOAK_SLOTS);

	if (!model_open(&m, codecs[which], mode, seed, slots))
		DIE("create without memory");
	m.soaks = true;
	run(&m, operations);
	zm_fault_set(0);
	expect_all(&m, "at the end of a soak");
	model_close(&m);
}

/* The first run has this seed, so that a run can be repeated alone. */
static void soak(u64 seed, u64 operations)
{
	struct rng rng = { seed };
	u64 done, now;

	for (done = 0; done < operations; done += now) {
		now = operations - done;
		if (now > SOAK_OPERATIONS)
			now = SOAK_OPERATIONS;
		soak_once(rng.state, now);
		rng.state = rng_next(&rng);
	}
	printf("model: soak of %llu operations ok\n", done);
}

int main(int argc, char **argv)
{
	static const char *const codecs[] = { "lz4", "zstd", "lzo-rle" };
	u64 operations = argc > 2 ? strtoull(argv[2], NULL, 0) : 6000;
	u64 seed, nth;
	u32 mode, i;

	collision_find(colliding[0], colliding[1]);
	for (i = 0; i < CONTENTS; i++)
		page_make(contents[i], i);
	if (argc == 4 && !strcmp(argv[1], "soak")) {
		soak(strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
		return 0;
	}
	if (argc > 1) {
		seed = strtoull(argv[1], NULL, 0);
		for (mode = 0; mode <= ZM_MELD_INLINE; mode++)
			for (i = 0; i < 3; i++)
				run_once(codecs[i], mode, seed, operations);
		printf("model: seed %llu ok\n", seed);
		return 0;
	}
	for (mode = 0; mode <= ZM_MELD_INLINE; mode++) {
		for (i = 0; i < 3; i++)
			for (seed = 1; seed <= 3; seed++)
				run_once(codecs[i], mode, seed, operations);
		printf("model: mode %s: 9 runs of %llu operations ok\n",
		       zm_meld_mode_name(mode), operations);
	}
	for (mode = 0; mode <= ZM_MELD_INLINE; mode++) {
		for (nth = 1; run_failing("lz4", mode, 7, nth); nth++)
			;
		printf("model: mode %s: each of %llu allocations failed in turn: ok\n",
		       zm_meld_mode_name(mode), nth - 1);
		if (nth < 20)
			DIE("the fault hook was hardly reached");
	}
	return 0;
}

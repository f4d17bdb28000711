// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The model test: random operations on a store and on a plain array of pages,
 * which must never disagree; allocations fail on the way.
 *
 *	model [seed] [operations]	one run; without arguments, the suite
 *
 * The suite runs several codecs and modes from several seeds, and then one
 * short sequence again and again with the first, second, third ... allocation
 * failing, until none is left to fail. The store is checked after each
 * operation of the latter.
 */
#include "harness.h"

#define SLOTS 96
#define CONTENTS 48

/* Two pages that only their bytes tell apart. */
static u8 colliding[2][ZM_PAGE_SIZE];

struct model {
	struct zm_store *store;
	u8 pages[SLOTS][ZM_PAGE_SIZE];
	struct rng rng;
	u64 seed;
	u64 failed_writes;
	u64 limit;
	bool check_each;
	const char *codec;
};

static void expect_page(struct model *m, u64 index)
{
	u8 page[ZM_PAGE_SIZE];
	int err = zm_page_read(m->store, index, page);

	if (err)
		DIE("seed %llu, %s: read of page %llu: %d",
		    (unsigned long long)m->seed, m->codec,
		    (unsigned long long)index, err);
	if (memcmp(page, m->pages[index], ZM_PAGE_SIZE))
		DIE("seed %llu, %s: page %llu reads other bytes",
		    (unsigned long long)m->seed, m->codec,
		    (unsigned long long)index);
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
		page_make(page, content);
	if (rng_below(&m->rng, 16) == 0)
		page[choose_byte(m)] ^= 1u << rng_below(&m->rng, 8);
}

static u64 memory_used(struct model *m)
{
	struct zm_stats stats;

	zm_store_stats(m->store, &stats);
	return stats.memory_used;
}

static void do_write(struct model *m, u64 index)
{
	u8 page[ZM_PAGE_SIZE];
	u64 used = memory_used(m);
	int err;

	choose_page(m, page);
	err = zm_page_write(m->store, index, page);
	if (m->limit && memory_used(m) > m->limit && memory_used(m) > used)
		DIE("seed %llu: a write passed the memory limit",
		    (unsigned long long)m->seed);
	if (!err)
		memcpy(m->pages[index], page, ZM_PAGE_SIZE);
	else if (err == -ENOMEM)
		m->failed_writes++;
	else
		DIE("seed %llu: write: %d", (unsigned long long)m->seed, err);
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
		DIE("seed %llu: meld: %d", (unsigned long long)m->seed, err);
}

static void do_something(struct model *m)
{
	u64 index = rng_below(&m->rng, SLOTS);
	u32 what = rng_below(&m->rng, 100);
	int err;

	if (what < 55) {
		do_write(m, index);
	} else if (what < 75) {
		expect_page(m, index);
	} else if (what < 88) {
		zm_page_discard(m->store, index);
		memset(m->pages[index], 0, ZM_PAGE_SIZE);
		expect_page(m, index);
	} else if (what < 94) {
		do_meld(m);
	} else if (what < 96) {
		err = zm_meld_mode_set(m->store, rng_below(&m->rng, 4));
		if (err && err != -ENOMEM)
			DIE("mode: %d", err);
	} else if (what < 98) {
		zm_store_compact(m->store);
	} else {
		m->limit = rng_below(&m->rng, 3) ? 0 :
			   rng_below(&m->rng, 40) * ZM_PAGE_SIZE;
		zm_store_limit_set(m->store, m->limit);
	}
}

static void expect_all(struct model *m, const char *when)
{
	u64 index;

	check_store(m->store, ZM_CHECK_CONTENTS, when, m->seed);
	for (index = 0; index < SLOTS; index++)
		expect_page(m, index);
}

/* Opens a store; false where a failing allocation prevented it. */
static bool model_open(struct model *m, const char *codec, u32 mode, u64 seed)
{
	struct zm_store_options options = test_options(codec, SLOTS, mode);
	int err;

	memset(m, 0, sizeof(*m));
	m->seed = seed;
	m->rng.state = seed;
	m->codec = codec;
	err = zm_store_create(&options, &m->store);
	if (err && err != -ENOMEM)
		DIE("create: %d", err);
	return !err;
}

static void run(struct model *m, u64 operations)
{
	u64 i;

	for (i = 0; i < operations; i++) {
		do_something(m);
		if (m->check_each || i % 64 == 0)
			check_store(m->store, ZM_CHECK_COUNTS,
				    "during the run", m->seed);
		if (i % 512 == 0)
			expect_all(m, "during the run");
	}
}

static void run_once(const char *codec, u32 mode, u64 seed, u64 operations)
{
	static struct model m;

	if (!model_open(&m, codec, mode, seed))
		DIE("create without memory");
	run(&m, operations);
	expect_all(&m, "at the end");
	zm_store_destroy(m.store);
}

/* The nth allocation fails; true where there were that many. */
static bool run_failing(const char *codec, u32 mode, u64 seed, u64 nth)
{
	static struct model m;
	bool opened, failed;

	zm_fault_set(nth);
	opened = model_open(&m, codec, mode, seed);
	if (opened) {
		m.check_each = nth % 8 == 0;
		run(&m, 120);
	}
	failed = zm_fault_asked() >= nth;
	zm_fault_set(0);
	if (opened) {
		expect_all(&m, "after a failed allocation");
		zm_store_destroy(m.store);
	}
	return failed;
}

int main(int argc, char **argv)
{
	static const char *const codecs[] = { "lz4", "zstd", "lzo-rle" };
	u64 operations = argc > 2 ? strtoull(argv[2], NULL, 0) : 6000;
	u64 seed, nth;
	u32 mode, i;

	collision_find(colliding[0], colliding[1]);
	if (argc > 1) {
		seed = strtoull(argv[1], NULL, 0);
		for (mode = 0; mode <= ZM_MELD_INLINE; mode++)
			for (i = 0; i < 3; i++)
				run_once(codecs[i], mode, seed, operations);
		printf("model: seed %llu ok\n", (unsigned long long)seed);
		return 0;
	}
	for (mode = 0; mode <= ZM_MELD_INLINE; mode++) {
		for (i = 0; i < 3; i++)
			for (seed = 1; seed <= 3; seed++)
				run_once(codecs[i], mode, seed, operations);
		printf("model: mode %s: 9 runs of %llu operations ok\n",
		       zm_meld_mode_name(mode), (unsigned long long)operations);
	}
	for (mode = 0; mode <= ZM_MELD_INLINE; mode++) {
		for (nth = 1; run_failing("lz4", mode, 7, nth); nth++)
			;
		printf("model: mode %s: each of %llu allocations failed in turn: ok\n",
		       zm_meld_mode_name(mode), (unsigned long long)nth - 1);
		if (nth < 20)
			DIE("the fault hook was hardly reached");
	}
	return 0;
}

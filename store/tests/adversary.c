// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An adversary: somebody who may write pages, sees whether a write found a page
 * with its fingerprint (a counter tells, and so would time), and wants the store
 * to work without end, to take memory without end, or to break.
 *
 *	adversary [pages]
 *
 * It has fingerprints of few bits, so that it finds pages of one fingerprint
 * where in truth nobody could, and learns which they are as it would in truth.
 * Then each operation meets a crowd of them, and has to keep its bounds: pages
 * compared, pages decompressed, memory borrowed, work done after a stop. What
 * every other test looks at, that reads are right, is looked at here as well.
 */

#include "../core/store.h"
#include "harness.h"

/* Comparisons that may follow a stop before somebody looks, with slack. */
#define AFTER_STOP_MAX	(2 * 16 + 4)

/* A few times what a share of this build holds. */
#define FULL_SLOTS	16

static u64 pages = 12000;
static u64 *crowd;		/* numbers of pages with one fingerprint */

/* A codec that counts, and asks for a stop at a certain count. */
static struct zm_codec_ops counting[2];
static struct zm_store *counted_store;
static u64 decompressed, stop_at;

static void count_work(void)
{
	if (++decompressed == stop_at)
		zm_pass_stop(counted_store);
}

static int lz4_decompress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t dst_size)
{
	count_work();
	return zm_codec_find("lz4")->decompress(ctx, params, src, src_size,
						dst, dst_size);
}

static int lz4hc_decompress(void *ctx, const struct zm_codec_params *params,
			    const void *src, size_t src_size,
			    void *dst, size_t dst_size)
{
	count_work();
	return zm_codec_find("lz4hc")->decompress(ctx, params, src, src_size,
						  dst, dst_size);
}

/* Two codecs, of which the second makes a little less of such a page. */
static void make(u8 *page, u64 number)
{
	struct rng rng = { number };
	u64 word = rng_next(&rng), i;

	for (i = 0; i < ZM_PAGE_SIZE; i++)
		page[i] = "abcdabcaabdcabca"[(i * 7 + i / 60) % 16];
	memcpy(page + 64, &word, sizeof(word));
	memcpy(page + ZM_PAGE_SIZE - 16, &word, sizeof(word));
}

static struct zm_store *open_store(u64 slots, u32 mode)
{
	struct zm_store_options options = test_options("lz4", slots, mode);

	test_codec(&options, 1, "lz4hc");
	counting[0] = *options.codecs[0].ops;
	counting[0].decompress = lz4_decompress;
	counting[1] = *options.codecs[1].ops;
	counting[1].decompress = lz4hc_decompress;
	options.codecs[0].ops = &counting[0];
	options.codecs[1].ops = &counting[1];
	options.verify = false;
	stop_at = 0;
	decompressed = 0;
	counted_store = test_store(&options, 0);
	return counted_store;
}

static void put(struct zm_store *store, u64 slot, u64 number)
{
	u8 page[ZM_PAGE_SIZE];

	make(page, number);
	test_write(store, slot, page);
}

static void expect(struct zm_store *store, u64 slot, u64 number)
{
	u8 page[ZM_PAGE_SIZE], wanted[ZM_PAGE_SIZE];

	make(wanted, number);
	if (zm_page_read(store, slot, page) ||
	    memcmp(page, wanted, ZM_PAGE_SIZE))
		DIE("slot %llu reads other bytes", slot);
}

static u64 collisions(struct zm_store *store)
{
	return test_stats(store).inline_collisions;
}

/* Pages of one fingerprint, found by what a write tells. */
static void find_crowd(void)
{
	struct zm_store *store = open_store(2, ZM_MELD_INLINE);
	u64 found = 0, number, before;

	crowd = malloc(pages * sizeof(*crowd));
	if (!crowd)
		DIE("no memory");
	for (number = 1; found < pages; number++) {
		zm_page_discard(store, 1);
		put(store, 0, 0);
		before = collisions(store);
		put(store, 1, number);
		if (collisions(store) > before)
			crowd[found++] = number;
	}
	printf("adversary: %llu pages of one fingerprint among %llu tried\n",
	       found, number);
	zm_store_destroy(store);
}

static struct zm_store *crowded_store(u32 mode)
{
	struct zm_store *store = open_store(pages, mode);
	u64 i;

	for (i = 0; i < pages; i++)
		put(store, i, crowd[i]);
	return store;
}

static void expect_crowd(struct zm_store *store, const char *when)
{
	u64 i;

	check_store(store, ZM_CHECK_CONTENTS, when, 0);
	for (i = 0; i < pages; i += 13)
		expect(store, i, crowd[i]);
}

/* A pass is bounded in what it compares and what it borrows. */
static void try_pass(u64 memory_max)
{
	struct zm_meld_options options = { .memory_max = memory_max };
	struct zm_store *store = crowded_store(ZM_MELD_MANUAL);
	u64 bound = memory_max ? memory_max : 8 * pages;
	struct zm_meld_result result;
	int err = zm_meld_run(store, &options, &result);

	if (err)
		DIE("pass: %d", err);
	if (bound < 64 << 10)
		bound = 64 << 10;
	if (result.memory_borrowed > bound + 2 * ZM_PAGE_SIZE)
		DIE("the pass borrowed %llu bytes", result.memory_borrowed);
	/* Leaders stay, and are candidates again with the next piece. */
	if (result.collisions > ZM_LEADERS_MAX * (pages + pages / 100) ||
	    !result.pages_crowded)
		DIE("the pass compared %llu times, %llu passed over",
		    result.collisions, result.pages_crowded);
	expect_crowd(store, "after a pass over a crowd");
	printf("adversary: pass: %llu pages, %llu comparisons, %llu passed over\n",
	       pages, result.collisions, result.pages_crowded);
	zm_store_destroy(store);
}

/* Twins of the first pages in a crowd are still found. */
static void try_twins(void)
{
	struct zm_store *store = crowded_store(ZM_MELD_MANUAL);
	u64 i;

	for (i = 0; i < ZM_LEADERS_MAX; i++)
		put(store, pages - 1 - i, crowd[i]);
	EXPECT(test_meld(store).pages_melded == ZM_LEADERS_MAX);
	zm_store_destroy(store);
}

/*
 * Shares that get full in the midst of a pass: the rest of their pages share among
 * themselves, so that a content has as few objects as shares can hold it in.
 */
static void try_full_shares(u64 seed)
{
	struct zm_store *store = open_store(FULL_SLOTS, ZM_MELD_MANUAL);
	struct rng rng = { seed };
	u64 of[FULL_SLOTS] = { 0 }, least, i, k;
	struct zm_meld_result result;

	for (k = 0; k < 3; k++) {
		if (rng_below(&rng, 2))
			test_recompress(store);
		for (i = 0; i < FULL_SLOTS; i++) {
			if (of[i] || rng_below(&rng, 2))
				continue;
			of[i] = 1 + rng_below(&rng, 3);
			put(store, i, crowd[of[i]]);
		}
	}
	result = test_meld(store);
	for (least = 0, k = 1; k < 4; k++) {
		u64 count = 0;

		for (i = 0; i < FULL_SLOTS; i++)
			count += of[i] == k;
		least += (count + ZM_SHARE_SLOTS_MAX - 1) / ZM_SHARE_SLOTS_MAX;
	}
	check_store(store, ZM_CHECK_CONTENTS, "after a pass with full shares",
		    seed);
	for (i = 0; i < FULL_SLOTS; i++)
		if (of[i])
			expect(store, i, crowd[of[i]]);
	if (test_stats(store).objects != least ||
	    test_stats(store).pages_melded != result.pages_melded)
		DIE("seed %llu: %llu objects where %llu do, %llu melded", seed,
		    test_stats(store).objects, least, result.pages_melded);
	zm_store_destroy(store);
}

/* Shares that were full before: the pages beside them share, wherever they are. */
static void try_full_before(u64 first)
{
	struct zm_store *store = open_store(ZM_SHARE_SLOTS_MAX + 2,
					    ZM_MELD_MANUAL);
	u64 i;

	for (i = 0; i < ZM_SHARE_SLOTS_MAX; i++)
		put(store, first + i, crowd[0]);
	EXPECT(test_meld(store).pages_melded == ZM_SHARE_SLOTS_MAX - 1);
	for (i = 0; i < ZM_SHARE_SLOTS_MAX + 2; i++)
		if (i < first || i >= first + ZM_SHARE_SLOTS_MAX)
			put(store, i, crowd[0]);
	EXPECT(test_meld(store).pages_melded == 1);
	EXPECT(test_stats(store).objects == 2);
	check_store(store, ZM_CHECK_CONTENTS, "beside a full share", 0);
	zm_store_destroy(store);
}

/* A stop in the middle of a group: pages decompressed after it. */
static void try_stop_in_pass(void)
{
	struct zm_store *store = crowded_store(ZM_MELD_MANUAL);
	struct zm_meld_options all = { .threshold_permille = 0 };
	struct zm_recompress_options harder = {
		.priority = 1,
		.pages_max = pages / 2,
	};
	struct zm_recompress_result recompressed;
	struct zm_meld_result result;
	u64 at;

	if (zm_recompress_run(store, &harder, &recompressed) ||
	    recompressed.pages_recompressed < pages / 4)
		DIE("%llu pages have another codec: too few to test with",
		    recompressed.pages_recompressed);
	for (at = 1; at < pages; at = at * 5 + 1) {
		decompressed = 0;
		stop_at = at;
		if (zm_meld_run(store, &all, &result) || !result.stopped)
			DIE("a pass did not stop");
		if (decompressed > at + AFTER_STOP_MAX)
			DIE("%llu pages decompressed after a stop",
			    decompressed - at);
	}
	expect_crowd(store, "after stopped passes");
	printf("adversary: a stop in a group: at most %u pages more\n",
	       AFTER_STOP_MAX);
	zm_store_destroy(store);
}

/* A stop from before the pass began, but after it was asked for, counts. */
static void try_early_stop(void)
{
	struct zm_store *store = open_store(pages, ZM_MELD_MANUAL);
	struct zm_meld_options options = { .threshold_permille = 0 };
	struct zm_recompress_options harder = {
		.priority = 1,
	};
	struct zm_recompress_result recompressed;
	struct zm_meld_result result;
	u64 i;

	for (i = 0; i < 100; i++)
		put(store, i, i / 2);
	options.stops_seen = zm_pass_stops(store);
	harder.stops_seen = zm_pass_stops(store);
	zm_pass_stop(store);
	if (zm_meld_run(store, &options, &result) || !result.stopped ||
	    result.pages_melded)
		DIE("a pass lost a stop that came before it began");
	if (zm_recompress_run(store, &harder, &recompressed) ||
	    !recompressed.stopped || recompressed.pages_tried)
		DIE("recompression lost a stop that came before it began");
	if (zm_idle_mark(store, 0, harder.stops_seen) != -EINTR ||
	    zm_idle_mark(store, 0, zm_pass_stops(store)))
		DIE("marking lost a stop that came before, or took an old one");
	/* It is not for those who are asked for afterwards. */
	options.stops_seen = zm_pass_stops(store);
	if (zm_meld_run(store, &options, &result) || result.stopped)
		DIE("a pass was stopped by an old stop");
	harder.stops_seen = zm_pass_stops(store);
	if (zm_recompress_run(store, &harder, &recompressed) ||
	    recompressed.stopped)
		DIE("recompression was stopped by an old stop");
	options.stops_seen = 0;
	if (zm_meld_run(store, &options, &result) || result.stopped)
		DIE("a pass was stopped by an old stop");
	zm_store_destroy(store);
}

/* A write looks at no more pages than its bucket of the index has places. */
static void try_inline(void)
{
	struct zm_store *store = open_store(pages, ZM_MELD_INLINE);
	u64 i, most = 0, before;

	for (i = 0; i < pages; i++) {
		before = decompressed + collisions(store);
		put(store, i, crowd[i]);
		before = decompressed + collisions(store) - before;
		if (most < before)
			most = before;
	}
	if (most > 2 * ZM_INDEX_WAYS || most < 2)
		DIE("a write compared with %llu pages", most / 2);
	expect_crowd(store, "after inline writes of a crowd");
	printf("adversary: a write compared with at most %llu pages\n",
	       most / 2);
	zm_store_destroy(store);
}

/* A codec that cuts what is zero at a page's end, so that objects begin alike. */
static int cut(void *ctx, const struct zm_codec_params *params, const void *src,
	       size_t src_size, void *dst, size_t *dst_size)
{
	(void)ctx;
	(void)params;
	while (src_size && !((const u8 *)src)[src_size - 1])
		src_size--;
	memcpy(dst, src, src_size);
	*dst_size = src_size;
	return 0;
}

static int uncut(void *ctx, const struct zm_codec_params *params,
		 const void *src, size_t src_size, void *dst, size_t dst_size)
{
	(void)ctx;
	(void)params;
	memset(dst, 0, dst_size);
	memcpy(dst, src, src_size);
	return 0;
}

static void make_long(u8 *page, u64 number)
{
	u64 i;

	memset(page, 0, ZM_PAGE_SIZE);
	for (i = 0; i < 500 + number; i++)
		page[i] = i % 251 + 1;
}

/* An object that begins with all of another is another, of the same fingerprint or not. */
static void try_beginnings(u32 mode)
{
	struct zm_store_options options = test_options("lz4", 200, mode);
	u8 page[ZM_PAGE_SIZE], wanted[ZM_PAGE_SIZE];
	struct zm_codec_ops cutting = *options.codecs[0].ops;
	struct zm_store *store;
	u64 i;

	cutting.compress = cut;
	cutting.decompress = uncut;
	options.codecs[0].ops = &cutting;
	options.verify = false;
	store = test_store(&options, 0);
	for (i = 0; i < 200; i++) {
		make_long(page, i / 2);
		test_write(store, i, page);
	}
	if (mode == ZM_MELD_MANUAL)
		test_meld(store);
	if (!test_stats(store).pages_melded)
		DIE("nothing was melded: the test tested nothing");
	for (i = 0; i < 200; i++) {
		make_long(wanted, i / 2);
		if (zm_page_read(store, i, page) ||
		    memcmp(page, wanted, ZM_PAGE_SIZE))
			DIE("slot %llu reads other bytes", i);
	}
	zm_store_destroy(store);
}

int main(int argc, char **argv)
{
	u64 seed;

	if (argc > 1)
		pages = strtoull(argv[1], NULL, 0);
	if (ZM_FINGERPRINT_BITS > 4)
		DIE("fingerprints of few bits are needed: ZM_FINGERPRINT_BITS");
	find_crowd();
	try_pass(1);
	try_pass(0);
	try_twins();
	for (seed = 1; seed <= 300; seed++)
		try_full_shares(seed);
	for (seed = 0; seed <= 2; seed++)
		try_full_before(seed);
	try_stop_in_pass();
	try_early_stop();
	try_inline();
	try_beginnings(ZM_MELD_INLINE);
	try_beginnings(ZM_MELD_MANUAL);
	free(crowd);
	printf("adversary: all bounds kept\n");
	return 0;
}

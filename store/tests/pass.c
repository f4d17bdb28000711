// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pass at size: that it finds every duplicate, whatever memory it is given,
 * in how many rounds it takes, and however often it is stopped and resumed.
 *
 *	pass [pages]	default 60000
 *
 * Each case fills a store with known duplicates, melds, and counts objects:
 * there must be one for each content. Then all pages are read back.
 */
#define _GNU_SOURCE
#include <time.h>

#include "harness.h"

#include "../core/store.h"

static u64 pages = 60000;

/* The store's clock, instead of the library's: a nanosecond each time that it is looked at. */
static long looks;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){ .tv_nsec = ++looks };
	return 0;
}

/* Page i has content `content[i]`; what a content is made of costs little. */
struct plan {
	const char *name;
	u32 *content;
	u64 contents;
};

static void make_content(u8 *page, u32 content)
{
	static const u8 pattern[32] = "zmeld pass test, content number ";
	u32 i;

	for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(pattern))
		memcpy(page + i, pattern, sizeof(pattern));
	for (i = 0; i < ZM_PAGE_SIZE; i += 512)
		memcpy(page + i + 32, &content, sizeof(content));
}

/* The plan's pages in the slots from first on, before end. */
static void write_plan(struct zm_store *store, const struct plan *plan,
		       u64 first, u64 end)
{
	u8 page[ZM_PAGE_SIZE];
	u64 i;

	for (i = first; i < end; i++) {
		make_content(page, plan->content[i]);
		test_write(store, i, page);
	}
}

static struct zm_store *fill(const struct plan *plan)
{
	struct zm_store_options options =
		test_options("lz4", pages, ZM_MELD_MANUAL);
	struct zm_store *store = test_store(&options, 0);

	write_plan(store, plan, 0, pages);
	return store;
}

static void expect_melded(struct zm_store *store, const struct plan *plan,
			  const char *how)
{
	u8 page[ZM_PAGE_SIZE], expected[ZM_PAGE_SIZE];
	struct zm_stats stats;
	u64 i;

	zm_store_stats(store, &stats);
	if (stats.objects != plan->contents)
		DIE("%s, %s: %llu objects for %llu contents", plan->name, how,
		    stats.objects, plan->contents);
	check_store(store, ZM_CHECK_CONTENTS, how, 0);
	for (i = 0; i < pages; i += 7) {
		make_content(expected, plan->content[i]);
		if (zm_page_read(store, i, page) ||
		    memcmp(page, expected, ZM_PAGE_SIZE))
			DIE("%s, %s: page %llu reads other bytes", plan->name,
			    how, i);
	}
}

static void meld(struct zm_store *store, const struct zm_meld_options *options,
		 struct zm_meld_result *result)
{
	int err = zm_meld_run(store, options, result);

	if (err)
		DIE("meld: %d", err);
}

static void try_memory(const struct plan *plan, u64 memory_max)
{
	struct zm_meld_options options = { .memory_max = memory_max };
	struct zm_store *store = fill(plan);
	struct zm_meld_result result;
	u64 bound = memory_max ? memory_max : 8 * pages, room, suspects;

	/* Of what is offered it takes what it can use. */
	if (bound > 16 * pages)
		bound = 16 * pages;
	looks = 0;
	meld(store, &options, &result);
	/* Each step took some of the time that there was, in each round. */
	if (!result.time_sample_ns || result.time_find_ns <= result.rounds ||
	    result.time_meld_ns < result.rounds ||
	    result.time_sample_ns + result.time_find_ns +
	    result.time_meld_ns > (u64)looks)
		DIE("%s: of %ld looks at the clock, sampling has %llu, finding %llu, melding %llu",
		    plan->name, looks, result.time_sample_ns,
		    result.time_find_ns, result.time_meld_ns);
	if (bound < 64 << 10)
		bound = 64 << 10;
	/* Two tables of whole words, and two pages. */
	if (result.memory_borrowed !=
	    bound / 16 * 16 + 2 * ZM_PAGE_SIZE)
		DIE("%s: borrowed %llu of %llu bytes", plan->name,
		    result.memory_borrowed, bound);
	if (result.pages_melded != pages - plan->contents)
		DIE("%s: %llu pages melded of %llu", plan->name,
		    result.pages_melded, pages - plan->contents);
	if (plan->contents == pages && result.candidates)
		DIE("%s: %llu pages are compared with others", plan->name,
		    result.candidates);
	/*
	 * Half of the memory are suspects, and each round but the last fills half of it:
	 * pages that have a twin, and at most a quarter of the others.
	 */
	room = (result.memory_borrowed - 2 * ZM_PAGE_SIZE) / (2 * sizeof(u64));
	suspects = 2 * (pages - plan->contents) + pages / 4;
	if (suspects > pages)
		suspects = pages;
	if (result.rounds > 1 + 2 * suspects / room)
		DIE("%s: %llu rounds with room for %llu pages", plan->name,
		    result.rounds, room);
	expect_melded(store, plan, "one pass");
	printf("pass: %s, %llu bytes: all %llu duplicates in %llu rounds\n",
	       plan->name, result.memory_borrowed, result.pages_melded,
	       result.rounds);
	meld(store, &options, &result);
	if (result.pages_melded)
		DIE("%s: a second pass melded something", plan->name);
	zm_store_destroy(store);
}

/* Each pass has a moment; the next goes on where it stopped. */
static void try_stopping(const struct plan *plan)
{
	struct zm_meld_options options = {
		.memory_max = 1,
		.time_ns_max = 8,
		.resume = true,
	};
	struct zm_store *store = fill(plan);
	struct zm_meld_result result;
	u64 passes = 0, stopped = 0;

	do {
		meld(store, &options, &result);
		stopped += result.stopped;
		options.time_ns_max += 4;
	} while (result.stopped && ++passes < 10000);
	if (!stopped)
		DIE("%s: no pass was stopped: the test tested nothing",
		    plan->name);
	expect_melded(store, plan, "in pieces");
	printf("pass: %s: all found in %llu pieces\n", plan->name, stopped + 1);
	zm_store_destroy(store);
}

/* Part of a pass, some pages of which are melded. */
static u64 meld_part(struct zm_store *store)
{
	struct zm_meld_options options = {
		.memory_max = 1,
		.time_ns_max = 8,
		.resume = true,
	};
	struct zm_meld_result result;

	do {
		meld(store, &options, &result);
		options.time_ns_max += 4;
	} while (result.stopped && !result.pages_melded);
	EXPECT(result.stopped);
	return result.pages_melded;
}

/*
 * A pass that goes on after one that ended begins anew, and so does any that is not to
 * go on; what goes on after an estimate does so where the pass before it was.
 */
static void try_ended(const struct plan *plan)
{
	/* All suspects at once, so that none counts twice. */
	struct zm_meld_options options = { .memory_max = 1ull << 30 };
	const struct zm_meld_options estimate = { .estimate_only = true };
	struct zm_store *store = fill(plan);
	struct zm_meld_result result;
	u64 unshared, passes;
	u32 round;

	for (round = 0; round < 3; round++) {
		write_plan(store, plan, 0, pages);
		unshared = pages - plan->contents;
		if (round != 1)
			unshared -= meld_part(store);
		passes = test_stats(store).passes;
		meld(store, &estimate, &result);
		EXPECT(test_stats(store).passes == passes);
		options.resume = round < 2;
		/* One that has no memory has gone nowhere. */
		zm_fault_set(2);
		EXPECT(!options.resume ||
		       zm_meld_run(store, &options, &result) == -ENOMEM);
		zm_fault_set(0);
		meld(store, &options, &result);
		if (result.stopped || result.pages_melded != unshared ||
		    (result.candidates < pages) != (round == 0))
			DIE("%s: after a pass that ended %llu of %llu are melded, of %llu",
			    plan->name, result.pages_melded, unshared,
			    result.candidates);
	}
	expect_melded(store, plan, "after passes that ended");
	zm_store_destroy(store);
}

static struct plan plan_make(const char *name, u32 *content,
			     u32 (*choose)(struct rng *rng, u64 page))
{
	struct plan plan = { .name = name, .content = content };
	u8 *seen = calloc(1, pages + 1);
	struct rng rng = { 1 };
	u64 i;

	if (!seen)
		DIE("no memory");
	for (i = 0; i < pages; i++) {
		content[i] = choose(&rng, i);
		plan.contents += !seen[content[i]];
		seen[content[i]] = 1;
	}
	free(seen);
	return plan;
}

static u32 in_forties(struct rng *rng, u64 page)
{
	(void)rng;
	return (u32)(page % (pages / 40));
}

/*
 * A pass that goes on begins with the group in which it was stopped, wherever that was, and
 * compares nothing of it twice.
 */
static void try_resumed(u32 *content)
{
	struct zm_meld_options options = { .memory_max = 1ull << 30 };
	struct zm_meld_result result, rest;
	const u64 usual = pages;
	struct zm_store *store;
	u64 all, compared, at;
	struct plan plan;

	pages = 2000;
	plan = plan_make("groups of forty", content, in_forties);
	store = fill(&plan);
	options.time_ns_max = 1u << 30;
	looks = 0;
	meld(store, &options, &result);
	all = looks;
	EXPECT(result.candidates == pages);
	for (at = 2; at < all; at += 5) {
		write_plan(store, &plan, 0, pages);
		options.resume = false;
		options.time_ns_max = at;
		meld(store, &options, &result);
		compared = result.pages_melded;
		options.resume = true;
		options.time_ns_max = 0;
		meld(store, &options, &rest);
		if (result.candidates + rest.candidates > pages + 40 ||
		    compared + rest.pages_melded != pages - plan.contents)
			DIE("stopped at look %llu of %llu: of %llu pages %llu were looked at, then %llu",
			    at, all, pages, result.candidates, rest.candidates);
	}
	expect_melded(store, &plan, "stopped and gone on with");
	zm_store_destroy(store);
	pages = usual;
}

/* Many words are sorted, or left where somebody wants that to end, wherever it is. */
static void try_sort(void)
{
	enum { WORDS = 300000 };
	struct zm_store_options options = test_options("lz4", 1, ZM_MELD_OFF);
	struct zm_store *store = test_store(&options, 0);
	u64 *words = malloc(WORDS * sizeof(*words)), limit, i;
	struct zm_stop stop;
	struct rng rng = { 1 };

	if (!words)
		DIE("no memory");
	for (i = 0; i < WORDS; i++)
		words[i] = rng_next(&rng);
	for (limit = 1;; limit++) {
		stop = zm_stop_watch(store, 0, limit);
		looks = 0;
		stop.started_ns = 0;
		if (zm_sort64(words, WORDS, &stop))
			break;
		if ((u64)looks != limit + 1)
			DIE("sorting ends at look %ld and not %llu", looks,
			    limit + 1);
	}
	/* Four times among what is short, and while parts that are long are split. */
	EXPECT(limit >= 20);
	for (i = 1; i < WORDS; i++)
		EXPECT(words[i - 1] <= words[i]);
	free(words);
	zm_store_destroy(store);
}

/* The sample tells a store where melding pays from one where it does not. */
static void try_threshold(const struct plan *plan, bool pays)
{
	struct zm_meld_options options = { .threshold_permille = 50 };
	struct zm_store *store = fill(plan);
	struct zm_meld_result result;

	meld(store, &options, &result);
	if (result.below_threshold == pays || !result.pages_sampled)
		DIE("%s: %llu of %llu sampled pages repeat", plan->name,
		    result.duplicates_sampled, result.pages_sampled);
	zm_store_destroy(store);
}

/* What one codec made is the twin of what another made. */
static void try_priorities(const struct plan *plan)
{
	struct zm_store_options options =
		test_options("lz4", pages, ZM_MELD_MANUAL);
	struct zm_store *store;
	u64 recompressed;

	test_codec(&options, 1, "zstd");
	store = test_store(&options, 0);
	write_plan(store, plan, 0, pages / 2);
	recompressed = test_recompress(store).pages_recompressed;
	write_plan(store, plan, pages / 2, pages);
	if (recompressed < pages / 3)
		DIE("%s: few pages were recompressed: the test tested little",
		    plan->name);
	test_meld(store);
	expect_melded(store, plan, "of two codecs");
	printf("pass: %s: all found among pages of two codecs\n", plan->name);
	zm_store_destroy(store);
}

static u32 all_unique(struct rng *rng, u64 page)
{
	(void)rng;
	return (u32)page;
}

static u32 one_percent(struct rng *rng, u64 page)
{
	return rng_below(rng, 100) ? (u32)page : rng_below(rng, (u32)page + 1);
}

static u32 in_pairs(struct rng *rng, u64 page)
{
	(void)rng;
	return (u32)(page % (pages / 2));
}

/* What the many pages of one content have. */
static u32 giant;

static u32 one_giant(struct rng *rng, u64 page)
{
	return rng_below(rng, 10) < 7 ? giant : (u32)page;
}

/* Beside small groups. */
static u32 giant_and_pairs(struct rng *rng, u64 page)
{
	return rng_below(rng, 10) < 4 ? giant : (u32)(page % (pages * 9 / 10));
}

static u32 all_equal(struct rng *rng, u64 page)
{
	(void)rng;
	(void)page;
	return giant;
}

/* A content that every sample of fingerprints has, or that none has. */
static u32 content_in_samples(bool in)
{
	static const u8 zeros[ZM_KEY_SIZE];
	struct zm_fingerprint_key *key = zm_fingerprint_key_create(zeros);
	u8 page[ZM_PAGE_SIZE];
	u32 content = 0;

	if (!key)
		DIE("no memory");
	do
		make_content(page, ++content);
	while ((zm_fingerprint(key, page) < 1u << 25) != in);
	zm_fingerprint_key_destroy(key);
	return content;
}

/* The sample's share of duplicates, per mille; *sampled: of so many pages. */
static u64 estimate(struct zm_store *store, u64 *sampled)
{
	const struct zm_meld_options options = { .estimate_only = true };
	struct zm_meld_result result;

	meld(store, &options, &result);
	*sampled = result.pages_sampled;
	return result.duplicates_sampled * 1000 / result.pages_sampled;
}

static void expect_near(const struct plan *plan, u64 found, u64 real)
{
	if (found > real + 60 || found + 60 < real)
		DIE("%s, %llu pages: %llu per mille repeat, by the sample %llu",
		    plan->name, pages, real, found);
}

/*
 * The sample is one page in 32, no fewer than 512 and no more than 2,048 where chance
 * says so; in it repeats what repeats in the whole, and what shares does no more.
 */
static void try_estimates(void)
{
	static const struct {
		const char *name;
		u64 pages;
		u32 (*choose)(struct rng *rng, u64 page);
		u32 wanted;	/* in the sample; 0: as many as fit, or are picked */
		bool giant_in;
	} cases[] = {
		{ "one page", 1, all_unique, 1, false },
		{ "unique", 511, all_unique, 511, false },
		{ "in pairs", 512, in_pairs, 512, false },
		{ "in pairs", 600, in_pairs, 512, false },
		{ "unique", 600, all_unique, 512, false },
		{ "in pairs", 20000, in_pairs, 625, false },
		{ "in pairs", 140000, in_pairs, 2048, false },
		{ "a giant group that is not sampled", 20000, one_giant, 0, false },
		{ "that and pairs", 20000, giant_and_pairs, 0,
		  false },
		{ "a giant group that is sampled", 20000, all_equal, 0, true },
	};
	const u64 usual = pages;
	struct zm_store *store;
	struct plan plan;
	u64 sampled, j;
	u32 i, *content = calloc(140000, sizeof(*content));

	if (!content)
		DIE("no memory");
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pages = cases[i].pages;
		giant = content_in_samples(cases[i].giant_in);
		plan = plan_make(cases[i].name, content, cases[i].choose);
		store = fill(&plan);
		expect_near(&plan, estimate(store, &sampled),
			    (pages - plan.contents) * 1000 / pages);
		if (cases[i].wanted &&
		    (sampled * 5 < cases[i].wanted * 2 ||
		     sampled * 5 > cases[i].wanted * 6 ||
		     (pages <= 512 && sampled != pages)))
			DIE("%s, %llu pages: %llu are sampled", plan.name,
			    pages, sampled);
		test_meld(store);
		EXPECT(!estimate(store, &sampled));
		/* Half are alone again; their twins still share. */
		write_plan(store, &plan, 0, pages / 2);
		if (cases[i].choose == in_pairs)
			expect_near(&plan, estimate(store, &sampled), 500);
		for (j = 0; cases[i].choose == all_unique && j < pages; j += 2)
			zm_page_discard(store, j);
		if (cases[i].choose == all_unique && pages > 1)
			expect_near(&plan, estimate(store, &sampled), 0);
		zm_store_destroy(store);
	}
	free(content);
	pages = usual;
	giant = 0;
}

/*
 * A write finds its twin, however full the store: few buckets of its index overflow.
 * Where all was written over, every second does, whose entry took an untrue one's place.
 */
static void try_index(u32 *content)
{
	struct plan plan = plan_make("nearly full", content, all_unique);
	struct zm_store *store = fill(&plan);
	u64 i, times, first = pages / 20 * 19;
	u8 page[ZM_PAGE_SIZE];

	for (i = 0; i < pages; i++)
		zm_page_discard(store, i);
	EXPECT(!zm_meld_mode_set(store, ZM_MELD_INLINE));
	for (times = 1; times <= 2; times++) {
		for (i = 0; i < pages; i++) {
			make_content(page, content[i < first ? i : i - first] +
					   (u32)times * (1u << 30));
			test_write(store, i, page);
		}
		if (test_stats(store).pages_melded <
		    (pages - first) * (times == 1 ? 90 : 57) / 100)
			DIE("written %llu times, of %llu pages %llu are melded",
			    times, pages - first,
			    test_stats(store).pages_melded);
	}
	zm_store_destroy(store);
}

/* Of nothing nothing is sampled. */
static void try_empty(void)
{
	const struct zm_meld_options options = { .estimate_only = true };
	struct zm_store_options small = test_options("lz4", 100, ZM_MELD_MANUAL);
	struct zm_store *store = test_store(&small, 0);
	struct zm_meld_result result;

	meld(store, &options, &result);
	EXPECT(!result.pages_sampled && !result.duplicates_sampled);
	zm_store_destroy(store);
}

int main(int argc, char **argv)
{
	static const u64 memory[] = { 0, 1, 256 << 10 };
	struct plan plans[5];
	u32 *content;
	u32 i, j;

	if (argc > 1)
		pages = strtoull(argv[1], NULL, 0);
	content = malloc((pages + 2000) * sizeof(*content));
	if (!content)
		DIE("no memory");
	try_estimates();
	try_resumed(content);
	try_index(content);
	try_empty();
	try_sort();
	for (i = 0; i < 5; i++) {
		static const struct {
			const char *name;
			u32 (*choose)(struct rng *rng, u64 page);
		} kinds[] = {
			{ "all unique", all_unique },
			{ "1 % duplicates", one_percent },
			{ "all in pairs", in_pairs },
			{ "one giant group", one_giant },
			{ "all equal", all_equal },
		};

		plans[i] = plan_make(kinds[i].name, content, kinds[i].choose);
		for (j = 0; j < 3; j++)
			try_memory(&plans[i], memory[j]);
		try_memory(&plans[i], 50ull << 30);
		if (i > 1)
			try_stopping(&plans[i]);
		if (i == 2 || i == 4)
			try_ended(&plans[i]);
		if (i > 1)
			try_priorities(&plans[i]);
		try_threshold(&plans[i], i > 1);
	}
	free(content);
	return 0;
}

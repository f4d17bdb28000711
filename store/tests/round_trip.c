// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages that know zword's limits come back as they were: page after page of
 * zword/grammar.h is encoded and decoded, always in the same working memory, and
 * compared. Most are of 4 KiB, one in 64 is larger.
 *
 *	round_trip [LEVEL [SEED [FIRST [COUNT]]]]
 *	round_trip same
 *
 * FIRST is the number of the first page: a run goes on where another one ended.
 *
 * `same` damages each object in some places, too, and compares a hash of all objects
 * and of what the damaged ones give with what it is on each processor and by each
 * compiler. It is another as well where zword got better or worse; who meant that writes
 * down the new one.
 */
#include <time.h>

#include "harness.h"

#include "grammar.h"

/* More than any object of a page. */
#define ROOM(page_size)	((page_size) + (page_size) / 8)

struct bench {
	struct zword_tables *tables;
	struct zword_work *work;
	u8 *page[3];		/* of 1, 4 and 16 blocks, each of just its size */
	u8 *back[3];
	u8 *object;
	u8 *exact;		/* an object ends where this does */
	const char *program;
	int level;
	u64 seed;
	bool is_hashed;
	u64 hash;
};

static const u32 page_blocks[3] = { 1, 4, 16 };

static void *memory(size_t size)
{
	void *bytes = malloc(size);

	if (!bytes)
		DIE("no memory");
	return bytes;
}

static void bench_make(struct bench *bench)
{
	bench->tables = memory(zword_tables_size());
	bench->work = memory(sizeof(struct zword_work));
	bench->object = memory(ROOM(ZWORD_PAGE_SIZE_MAX));
	bench->exact = memory(ROOM(ZWORD_PAGE_SIZE_MAX));
	for (u32 k = 0; k < 3; k++) {
		bench->page[k] = memory(page_blocks[k] * ZWORD_BLOCK_SIZE);
		bench->back[k] = memory(page_blocks[k] * ZWORD_BLOCK_SIZE);
	}
	if (zword_tables_build(bench->tables, zword_lengths,
			       zword_lengths_size))
		DIE("no tables");
}

static void bench_free(struct bench *bench)
{
	free(bench->tables);
	free(bench->work);
	free(bench->object);
	free(bench->exact);
	for (u32 k = 0; k < 3; k++) {
		free(bench->page[k]);
		free(bench->back[k]);
	}
}

static void wrong(const struct bench *bench, u64 number, const char *what)
{
	const unsigned long long seed = bench->seed, page = number;

	DIE("level %d, seed %llu, page %llu: %s; replay with\n"
	    "  %s %d %llu %llu 1", bench->level, seed, page, what,
	    bench->program, bench->level, seed, page);
}

/* FNV-1a, of 64 bits. */
static void hash_add(struct bench *bench, const u8 *bytes, size_t size)
{
	for (size_t k = 0; k < size; k++)
		bench->hash = (bench->hash ^ bytes[k]) * 0x100000001b3ull;
}

/* The object, and what it gives where a byte is another: an error, or a page. */
static void object_hash(struct bench *bench, u64 number, u8 *object,
			size_t object_size, u8 *back, u32 size)
{
	struct rng rng = { number };
	int ret;

	hash_add(bench, object, object_size);
	for (u32 k = 0; k < 8; k++) {
		u8 *at = object + rng_below(&rng, (u32)object_size), was = *at;

		*at ^= (u8)(1 + rng_below(&rng, 255));
		memset(back, 0, size);
		ret = zword_decompress(bench->tables, bench->work, object,
				       object_size, back, size);
		hash_add(bench, (const u8[]){ ret == 0 }, 1);
		if (!ret)
			hash_add(bench, back, size);
		*at = was;
	}
}

/* Whether the page became smaller. */
static bool round_trip(struct bench *bench, u64 number)
{
	const u32 which = number % 64 ? 0 : number % 512 ? 1 : 2;
	const u32 size = page_blocks[which] * ZWORD_BLOCK_SIZE;
	u8 *page = bench->page[which], *back = bench->back[which];
	size_t object_size = ROOM(size);
	u8 *end = bench->exact + ROOM(ZWORD_PAGE_SIZE_MAX);

	zword_grammar_page(bench->seed, number, page, size);
	if (zword_compress(bench->tables, bench->work, bench->level, page,
			   size, bench->object, &object_size))
		wrong(bench, number, "not encoded");
	/* Nothing is read behind it; nor, of a small one, in front of it. */
	memcpy(end - object_size, bench->object, object_size);
	if (zword_decompress(bench->tables, bench->work, end - object_size,
			     object_size, back, size))
		wrong(bench, number, "not decoded");
	if (object_size < 64) {
		u8 *alone = memory(object_size);

		memcpy(alone, bench->object, object_size);
		if (zword_decompress(bench->tables, bench->work, alone,
				     object_size, back, size))
			wrong(bench, number, "not decoded alone");
		free(alone);
	}
	if (memcmp(page, back, size))
		wrong(bench, number, "comes back as other bytes");
	if (bench->is_hashed)
		object_hash(bench, number, end - object_size, object_size, back,
			    size);
	return object_size < size;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static u64 round_trips(struct bench *bench, u64 first, u64 count)
{
	u64 smaller = 0;

	bench->hash = 0xcbf29ce484222325ull;
	for (u64 k = 0; k < count; k++)
		smaller += round_trip(bench, first + k);
	return smaller;
}

static void expect_same(struct bench *bench)
{
	static const struct {
		int level;
		u64 pages;
		u64 hash;
	} known[] = {
		{ ZWORD_LEVEL_RAW, 100, 0x4900e389b03affb4 },
		{ ZWORD_LEVEL_GLANCE, 4000, 0x59ba64e30a9443e2 },
		{ ZWORD_LEVEL_ALL, 1000, 0x1ea0e0ad724618c5 },
	};

	bench->is_hashed = true;
	for (u32 k = 0; k < 3; k++) {
		bench->level = known[k].level;
		round_trips(bench, 0, known[k].pages);
		if (bench->hash != known[k].hash)
			DIE("level %d: the objects, or what damaged ones give, are others: hash %016llx",
			    bench->level, bench->hash);
	}
}

int main(int argc, char **argv)
{
	struct bench bench = {
		.program = argv[0], .level = ZWORD_LEVEL_GLANCE, .seed = 1,
	};
	const bool is_same = argc > 1 && !strcmp(argv[1], "same");
	u64 first = 0, count = 100000, smaller;
	double begin;

	if (argc > 1 && !is_same)
		bench.level = atoi(argv[1]);
	if (argc > 2)
		bench.seed = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		first = strtoull(argv[3], NULL, 0);
	if (argc > 4)
		count = strtoull(argv[4], NULL, 0);
	bench_make(&bench);
	if (is_same) {
		expect_same(&bench);
	} else {
		begin = now();
		smaller = round_trips(&bench, first, count);
		printf("level %d, seed %llu, from page %llu on: %llu pages came back, %llu smaller; %.0f pages/s\n",
		       bench.level, bench.seed, first, count, smaller,
		       (double)count / (now() - begin));
	}
	bench_free(&bench);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The contract of zmeld/codec.h, held against every codec, at several levels, on
 * pages of many kinds.
 *
 *	codec [SEED] [FILE...]
 *
 * Pages of the files (without any: of the program itself) join the made ones.
 * Prints a line per case; the first failure ends it, names its page and prints the
 * seed that makes the same pages again.
 */
#include "grammar.h"
#include "harness.h"

#define PAGE		ZM_PAGE_SIZE
#define OBJECT_MAX	(2 * PAGE + 256)
#define GUARD_SIZE	64
#define GUARD_BYTE	0xa5
#define PAGES_MAX	600

struct page {
	char kind[40];
	u8 bytes[PAGE];
};

/* What is under test, and the memory that each check works in. */
struct bed {
	const struct zm_codec_ops *ops;
	struct zm_codec_params params;
	void *ctx;
	char name[64];
	u8 object[OBJECT_MAX];
	u8 other[OBJECT_MAX];
};

static struct page pages[PAGES_MAX];
static size_t page_count;
static unsigned long long seed = 1;
static struct rng rng;

static void random_fill(u8 *to, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = (u8)rng_next(&rng);
}

static void fail(const struct bed *bed, const struct page *page, const char *why)
{
	printf("%s: page %td (%s): %s; replay with seed %llu\n", bed->name,
	       page - pages, page->kind, why, seed);
	exit(1);
}

static void expect(bool fine, const char *what)
{
	printf("%s: %s\n", what, fine ? "ok" : "FAILED");
	if (!fine)
		exit(1);
}

/* ------------------------------------------------------------------- pages */

static struct page *page_add(const char *kind)
{
	struct page *page;

	if (page_count == PAGES_MAX)
		return NULL;
	page = &pages[page_count++];
	memset(page, 0, sizeof(*page));
	snprintf(page->kind, sizeof(page->kind), "%s", kind);
	return page;
}

static void make_period(u8 *to, size_t period)
{
	random_fill(to, period);
	for (size_t i = period; i < PAGE; i++)
		to[i] = to[i - period];
}

static void pages_make(void)
{
	struct page *page;

	page_add("zeros");
	page = page_add("ones");
	memset(page->bytes, 0xff, PAGE);
	page_add("last byte only")->bytes[PAGE - 1] = 1;
	for (size_t i = 1; i <= 40; i++)
		make_period(page_add("period")->bytes, i);
	for (size_t i = 0; i < 40; i++) {
		page = page_add("zeros, then noise");
		random_fill(page->bytes + PAGE - 64 - i, 64 + i);
	}
	for (size_t i = 0; i < 80; i++)
		page_make(page_add("made")->bytes, i);
	for (size_t i = 0; i < 160; i++)
		zword_grammar_page(seed, i, page_add("grammar")->bytes, PAGE);
}

static void pages_read(const char *path, size_t count_max)
{
	FILE *file = fopen(path, "rb");
	u8 bytes[PAGE];

	if (!file)
		return;
	while (count_max && fread(bytes, PAGE, 1, file) == 1) {
		struct page *page;

		if (rng_below(&rng, 8))
			continue;
		page = page_add(path);
		if (!page)
			break;
		memcpy(page->bytes, bytes, PAGE);
		count_max--;
	}
	fclose(file);
}

/* ------------------------------------------------------------------ checks */

/* Compresses into a heap block of exactly capacity bytes and its guard. */
static int compress_guarded(struct bed *bed, const struct page *page,
			    size_t capacity, u8 *object, size_t *size)
{
	u8 *room = malloc(capacity + GUARD_SIZE);
	int ret;

	if (!room)
		abort();
	memset(room, GUARD_BYTE, capacity + GUARD_SIZE);
	*size = capacity;
	ret = bed->ops->compress(bed->ctx, &bed->params, page->bytes, PAGE,
				 room, size);
	for (size_t i = 0; i < GUARD_SIZE; i++) {
		if (room[capacity + i] != GUARD_BYTE)
			ret = 1;
	}
	if (ret == 0 && *size <= capacity)
		memcpy(object, room, *size);
	free(room);
	return ret;
}

/*
 * Decompresses from and into heap blocks of exactly the sizes, so that the
 * address sanitizer sees each byte too many.
 */
static int decompress_guarded(struct bed *bed, const u8 *object, size_t size,
			      u8 *page, size_t page_size)
{
	u8 *from = malloc(size ? size : 1);
	u8 *to = malloc(page_size + GUARD_SIZE);
	int ret;

	if (!from || !to)
		abort();
	memcpy(from, object, size);
	memset(to, GUARD_BYTE, page_size + GUARD_SIZE);
	ret = bed->ops->decompress(bed->ctx, &bed->params, from, size, to,
				   page_size);
	for (size_t i = 0; i < GUARD_SIZE; i++) {
		if (to[page_size + i] != GUARD_BYTE)
			ret = 1;
	}
	if (page)
		memcpy(page, to, page_size);
	free(from);
	free(to);
	return ret;
}

/* A page comes back; nothing else than a page of this size does. */
static void check_round_trip(struct bed *bed, const struct page *page)
{
	u8 back[PAGE + 1];
	size_t size;

	if (compress_guarded(bed, page, OBJECT_MAX, bed->object, &size))
		fail(bed, page, "was not compressed");
	if (decompress_guarded(bed, bed->object, size, back, PAGE))
		fail(bed, page, "was not decompressed");
	if (memcmp(back, page->bytes, PAGE))
		fail(bed, page, "came back as other bytes");
	if (decompress_guarded(bed, bed->object, size, NULL, PAGE - 1) !=
	    -EBADMSG)
		fail(bed, page, "fits a page that is too small");
	if (decompress_guarded(bed, bed->object, size, NULL, PAGE + 1) !=
	    -EBADMSG)
		fail(bed, page, "fills a page that is too big");
}

/* Exactly its size is enough, one byte less is not, whatever is between. */
static void check_capacity(struct bed *bed, const struct page *page)
{
	size_t size, fits, capacity = 0;
	int ret;

	compress_guarded(bed, page, OBJECT_MAX, bed->object, &size);
	if (compress_guarded(bed, page, size, bed->other, &fits))
		fail(bed, page, "does not fit into its own size");
	if (fits != size || memcmp(bed->other, bed->object, size))
		fail(bed, page, "changes with the capacity");
	while (capacity < size) {
		ret = compress_guarded(bed, page, capacity, bed->other, &fits);
		if (ret == 1)
			fail(bed, page, "was written too far");
		if (ret != -ENOSPC)
			fail(bed, page, "fits into too little");
		if (capacity == size - 1)
			break;
		capacity += 1 + rng_below(&rng, (u32)size / 4 + 1);
		if (capacity >= size)
			capacity = size - 1;
	}
}

/* A used context and a new one write the same. */
static void check_determinism(struct bed *bed, const struct page *page)
{
	void *used = bed->ctx;
	size_t size, size_new;
	int ret;

	compress_guarded(bed, page, OBJECT_MAX, bed->object, &size);
	if (bed->ops->context_create(&bed->params, &bed->ctx))
		fail(bed, page, "no context");
	ret = compress_guarded(bed, page, OBJECT_MAX, bed->other, &size_new);
	bed->ops->context_destroy(bed->ctx);
	bed->ctx = used;
	if (ret || size != size_new || memcmp(bed->object, bed->other, size))
		fail(bed, page, "changes with the context's past");
}

/*
 * Cut at every length and flipped at every bit: an error, or a full page. Of
 * the libraries' objects one bit of each byte does; they have their own tests.
 * Where pages are large, only some lengths and bits have their turn.
 */
static void check_damage(struct bed *bed, const struct page *page)
{
	const bool ours = !strncmp(bed->ops->name, "lzo", 3);
	const size_t large = PAGE / 4096, step = (ours ? 1 : 8) * large * large;
	size_t size;
	int ret;

	compress_guarded(bed, page, OBJECT_MAX, bed->object, &size);
	for (size_t cut = 0; cut < size; cut += large * large) {
		ret = decompress_guarded(bed, bed->object, cut, NULL, PAGE);
		if (ret != -EBADMSG)
			fail(bed, page, "is whole though cut short");
	}
	for (size_t at = 0; at + step <= size * 8; at += step) {
		size_t bit = at + rng_below(&rng, (u32)step);

		bed->object[bit / 8] ^= (u8)(1u << bit % 8);
		ret = decompress_guarded(bed, bed->object, size, NULL, PAGE);
		bed->object[bit / 8] ^= (u8)(1u << bit % 8);
		if (ret != 0 && ret != -EBADMSG)
			fail(bed, page, "broke on a flipped bit");
	}
	/* And still works. */
	check_round_trip(bed, page);
}

static void check_noise(struct bed *bed, const struct page *page)
{
	size_t size = rng_below(&rng, PAGE);
	int ret;

	random_fill(bed->object, size);
	ret = decompress_guarded(bed, bed->object, size, NULL, PAGE);
	if (ret != 0 && ret != -EBADMSG)
		fail(bed, page, "broke on noise");
}

/* Every step'th page has its turn, fewer where pages are large. */
static void check_each(struct bed *bed, const char *what, size_t step,
		       void (*check)(struct bed *, const struct page *))
{
	const size_t large = PAGE / 4096;
	size_t count = 0;

	for (size_t i = 0; i < page_count; i += step * large, count++)
		check(bed, &pages[i]);
	printf("%s: %s, %zu pages: ok\n", bed->name, what, count);
}

/* ------------------------------------------------------------------- cases */

static void run(const struct zm_codec_ops *ops, int level)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	if (!bed)
		abort();
	bed->ops = ops;
	bed->params.level = level;
	if (zm_codec_setup(ops, &bed->params) ||
	    ops->context_create(&bed->params, &bed->ctx))
		expect(false, ops->name);
	snprintf(bed->name, sizeof(bed->name), "%s level %d", ops->name,
		 bed->params.level);
	if (level == ZM_CODEC_LEVEL_DEFAULT) {
		check_each(bed, "round trip", 1, check_round_trip);
		check_each(bed, "noise", 1, check_noise);
		check_each(bed, "damage", 29, check_damage);
	} else {
		check_each(bed, "round trip", 5, check_round_trip);
	}
	check_each(bed, "capacity", 7, check_capacity);
	check_each(bed, "determinism", 7, check_determinism);
	ops->context_destroy(bed->ctx);
	zm_codec_release(ops, &bed->params);
	free(bed);
}

static bool is_level(const struct zm_codec_ops *ops, int level)
{
	struct zm_codec_params params = { .level = level };
	int ret = zm_codec_setup(ops, &params);

	if (ret == 0)
		zm_codec_release(ops, &params);
	else if (ret != -EINVAL)
		abort();
	return ret == 0;
}

static void run_refusals(const struct zm_codec_ops *ops)
{
	expect(!is_level(ops, ops->level_min - 1) && is_level(ops, ops->level_min) &&
	       is_level(ops, ops->level_max) && !is_level(ops, ops->level_max + 1),
	       ops->name);
}

/* zword's tables stand once, and stay until the last choice is given back. */
static void run_shared_tables(void)
{
	const struct zm_codec_ops *ops = zm_codec_find("zword");
	struct zm_codec_params first = { .level = ops->level_min };
	struct zm_codec_params last = { .level = ops->level_max };
	static u8 page[ZM_PAGE_SIZE], object[2 * ZM_PAGE_SIZE];
	static u8 back[ZM_PAGE_SIZE];
	size_t size = sizeof(object);
	void *ctx;
	bool fine;

	memset(page, 'z', sizeof(page) / 2);
	if (zm_codec_setup(ops, &first) || zm_codec_setup(ops, &last) ||
	    ops->context_create(&last, &ctx))
		abort();
	fine = first.prepared && first.prepared == last.prepared;
	zm_codec_release(ops, &first);
	zm_codec_release(ops, &first);	/* of one that is no longer set up */
	fine &= !ops->compress(ctx, &last, page, sizeof(page), object, &size) &&
		!ops->decompress(ctx, &last, object, size, back, sizeof(back)) &&
		!memcmp(page, back, sizeof(page));
	ops->context_destroy(ctx);
	zm_codec_release(ops, &last);
	expect(fine, "zword: one set of tables for all");
}

static void run_names(void)
{
	bool fine = !zm_codec_find("") && !zm_codec_find("lz");

	for (size_t i = 0; i < zm_codec_count; i++)
		fine &= zm_codec_find(zm_codecs[i]->name) == zm_codecs[i];
	expect(fine, "every codec is found by its name");
}

/*
 * Letters without a match, then the same once more: no part of the block that begins
 * with a match may be charged with all that stands before it.
 */
static void run_late_match(void)
{
	const struct zm_codec_ops *ops = zm_codec_find("zword");
	struct zm_codec_params params = { .level = ops->level_min };
	static u8 page[ZM_PAGE_SIZE], object[2 * ZM_PAGE_SIZE];
	const size_t first = ZM_PAGE_SIZE * 5 / 8;
	size_t size = sizeof(object);
	void *ctx;

	if (ZM_PAGE_SIZE != 4096)
		return;
	for (size_t i = 0; i < first; i++)
		page[i] = (u8)(' ' + rng_below(&rng, 64));
	memcpy(page + first, page, sizeof(page) - first);
	if (zm_codec_setup(ops, &params) || ops->context_create(&params, &ctx) ||
	    ops->compress(ctx, &params, page, sizeof(page), object, &size))
		abort();
	ops->context_destroy(ctx);
	zm_codec_release(ops, &params);
	expect(size < ZM_PAGE_SIZE * 6 / 8, "zword: a late match is small");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	rng.state = seed;
	setvbuf(stdout, NULL, _IOLBF, 0);
	pages_make();
	for (int i = 2; i < argc; i++)
		pages_read(argv[i], 200);
	if (argc <= 2)
		pages_read(argv[0], 200);

	run_shared_tables();
	run_names();
	run_late_match();
	for (size_t i = 0; i < zm_codec_count; i++) {
		const struct zm_codec_ops *ops = zm_codecs[i];

		run_refusals(ops);
		run(ops, ZM_CODEC_LEVEL_DEFAULT);
		if (ops->level_min == ops->level_max)
			continue;
		run(ops, ops->level_min);
		run(ops, ops->level_max);
		run(ops, (ops->level_default + ops->level_max) / 2);
	}
	printf("seed %llu, %zu pages: ok\n", seed, page_count);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the store's test programs share: numbers from a seed, pages of known
 * kinds, and an end with the seed in it when something is wrong.
 */
#ifndef ZM_TESTS_HARNESS_H
#define ZM_TESTS_HARNESS_H

#include <stdio.h>
#include <stdlib.h>

#include <zmeld/store.h>

#include "fault.h"

struct rng {
	u64 state;
};

/* SplitMix64 (G. Steele, D. Lea, C. Flood, 2014). */
static inline u64 rng_next(struct rng *rng)
{
	u64 z = rng->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline u32 rng_below(struct rng *rng, u32 bound)
{
	return (u32)((rng_next(rng) >> 32) * bound >> 32);
}

#define DIE(...)							\
	do {								\
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);		\
		fprintf(stderr, __VA_ARGS__);				\
		fprintf(stderr, "\n");					\
		exit(1);						\
	} while (0)

#define EXPECT(condition)						\
	do {								\
		if (!(condition))					\
			DIE("not so: %s", #condition);			\
	} while (0)

/*
 * Page number `content` of a kind that the number chooses: zeros, a repeated
 * word, text-like, pointers and zeros as in a heap, raw. The same number makes
 * the same page.
 */
static inline void page_make(u8 *page, u64 content)
{
	struct rng rng = { content * 0x2545f4914f6cdd1dull + 1 };
	u64 word, i;
	u32 kind = content % 8;

	switch (kind) {
	case 0:
		word = content < 64 ? 0 : rng_next(&rng);
		for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(word))
			memcpy(page + i, &word, sizeof(word));
		return;
	case 1:
		for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(word)) {
			word = rng_next(&rng);
			memcpy(page + i, &word, sizeof(word));
		}
		return;
	case 2:
	case 3:
		memset(page, 0, ZM_PAGE_SIZE);
		for (i = 0; i < ZM_PAGE_SIZE / 4; i += 32) {
			word = 0x00007f0000000000ull |
			       rng_below(&rng, 1 << 20) * 16;
			memcpy(page + i, &word, sizeof(word));
		}
		return;
	default:
		for (i = 0; i < ZM_PAGE_SIZE; i++)
			page[i] = "etaoin shrdlu\n0_"[rng_below(&rng, 16) &
						     rng_below(&rng, 16)];
		memcpy(page, &content, sizeof(content));
	}
}

/*
 * Two different pages with one fingerprint under the key of all zeros, which
 * test_options() gives. Found by trying, as nobody could who does not know the
 * key: among 2^18 pages some eight pairs collide.
 */
#define COLLISION_TRIES (1u << 18)

static inline int collision_order(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static inline void collision_make(u8 *page, u32 number)
{
	static u8 base[ZM_PAGE_SIZE];
	struct rng rng = { number };
	u64 words[2] = { rng_next(&rng), rng_next(&rng) };

	if (!base[0])
		page_make(base, 12);
	/* In two places: pages that differ in one word collide less than chance. */
	memcpy(page, base, ZM_PAGE_SIZE);
	memcpy(page + 1024, &words[0], sizeof(words[0]));
	memcpy(page + 2048, &words[1], sizeof(words[1]));
}

static inline void collision_find(u8 *first, u8 *second)
{
	static const u8 zeros[ZM_KEY_SIZE];
	struct zm_fingerprint_key *key = zm_fingerprint_key_create(zeros);
	u64 *tries = malloc(COLLISION_TRIES * sizeof(*tries));
	u32 i;

	if (!key || !tries)
		DIE("no memory for a collision");
	for (i = 0; i < COLLISION_TRIES; i++) {
		collision_make(first, i);
		tries[i] = (u64)zm_fingerprint(key, first) << 32 | i;
	}
	qsort(tries, COLLISION_TRIES, sizeof(*tries), collision_order);
	for (i = 1; i < COLLISION_TRIES; i++)
		if (tries[i] >> 32 == tries[i - 1] >> 32)
			break;
	if (i == COLLISION_TRIES)
		DIE("no two of %u pages collide", COLLISION_TRIES);
	collision_make(first, (u32)tries[i - 1]);
	collision_make(second, (u32)tries[i]);
	free(tries);
	zm_fingerprint_key_destroy(key);
}

static inline void check_store(struct zm_store *store, u32 level,
			       const char *when, u64 seed)
{
	char text[4096];
	int err = zm_store_check(store, level, 0, text, sizeof(text));

	/* The failing allocation may be one of the check's own. */
	if (err == -ENOMEM && zm_fault_asked())
		return;
	if (err)
		DIE("check %s failed (%d), seed %llu:\n%s", when, err, seed,
		    text);
}

/* The codec of that name, or NULL. */
static inline const struct zm_codec_ops *zm_codec_find(const char *name)
{
	for (size_t i = 0; i < zm_codec_count; i++) {
		if (strcmp(zm_codecs[i]->name, name) == 0)
			return zm_codecs[i];
	}
	return NULL;
}

static inline void test_codec(struct zm_store_options *options, u32 priority,
			      const char *codec)
{
	struct zm_codec_choice *choice = &options->codecs[priority];

	choice->ops = zm_codec_find(codec);
	choice->params.level = ZM_CODEC_LEVEL_DEFAULT;
	if (!choice->ops)
		DIE("no codec %s", codec);
}

static inline struct zm_store_options test_options(const char *codec, u64 slots,
						   u32 mode)
{
	struct zm_store_options options = {
		.slots = slots,
		.mode = mode,
		.streams = 2,
		.verify = true,
		.keyed = true,
	};

	test_codec(&options, 0, codec);
	return options;
}

/* A store of its own, with a backing device of so many blocks where that is not 0. */
static inline struct zm_store *
test_store(const struct zm_store_options *options, u64 blocks)
{
	struct zm_store *store;

	if (zm_store_create(options, &store))
		DIE("no store of %llu slots", options->slots);
	if (blocks && zm_backing_attach(store, blocks))
		DIE("no backing device of %llu blocks", blocks);
	return store;
}

static inline void test_write(struct zm_store *store, u64 index,
			      const void *page)
{
	int err = zm_page_write(store, index, page);

	if (err)
		DIE("slot %llu is not written: %d", index, err);
}

static inline struct zm_stats test_stats(struct zm_store *store)
{
	struct zm_stats stats;

	zm_store_stats(store, &stats);
	return stats;
}

static inline struct zm_slot_info test_info(struct zm_store *store, u64 index)
{
	struct zm_slot_info info;

	if (zm_slot_info(store, index, &info))
		DIE("no information on slot %llu", index);
	if (info.sharers > ZM_SHARE_SLOTS_MAX)
		DIE("slot %llu is one of %u of its share", index, info.sharers);
	return info;
}

/* A pass over everything. */
static inline struct zm_meld_result test_meld(struct zm_store *store)
{
	const struct zm_meld_options all = { .threshold_permille = 0 };
	struct zm_meld_result result;
	int err = zm_meld_run(store, &all, &result);

	if (err)
		DIE("meld: %d", err);
	return result;
}

/* All that the codec of priority 1 makes smaller. */
static inline struct zm_recompress_result
test_recompress(struct zm_store *store)
{
	const struct zm_recompress_options options = { .priority = 1 };
	struct zm_recompress_result result;
	int err = zm_recompress_run(store, &options, &result);

	if (err)
		DIE("recompress: %d", err);
	return result;
}

#endif /* ZM_TESTS_HARNESS_H */

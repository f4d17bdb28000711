// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * KUnit tests of zword: pages that know the encoder's limits (grammar.h) come back in
 * every mode; no capacity is passed; whatever is decoded gives a page or an error, and
 * nothing is written outside of the page.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/zword.h>

#include "grammar.h"

#define SEED		1
#define CANARY		0xa5
#define CANARY_SIZE	64
#define ROOM		(ZWORD_PAGE_SIZE_MAX + SZ_4K)

struct zword_trial {
	struct zword_context *context;
	u8 *page;
	u8 *object;	/* with canaries behind each, too */
	u8 *back;
};

static int zword_trial_init(struct kunit *test)
{
	struct zword_trial *trial = kunit_kzalloc(test, sizeof(*trial), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, trial);
	trial->page = kunit_kmalloc(test, ROOM, GFP_KERNEL);
	trial->object = kunit_kmalloc(test, ROOM, GFP_KERNEL);
	trial->back = kunit_kmalloc(test, ROOM, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, trial->page);
	KUNIT_ASSERT_NOT_NULL(test, trial->object);
	KUNIT_ASSERT_NOT_NULL(test, trial->back);
	trial->context = zword_context_new();
	KUNIT_ASSERT_NOT_NULL(test, trial->context);
	test->priv = trial;
	return 0;
}

static void zword_trial_exit(struct kunit *test)
{
	struct zword_trial *trial = test->priv;

	if (trial)
		zword_context_free(trial->context);
}

/* Decodes between canaries. */
static int zword_trial_decode(struct kunit *test, unsigned int size,
			      unsigned int page_size)
{
	struct zword_trial *trial = test->priv;
	u8 *behind = trial->back + page_size;
	int err;

	memset(behind, CANARY, CANARY_SIZE);
	err = zword_page_decode(trial->context, trial->object, size,
				trial->back, page_size);
	KUNIT_ASSERT_PTR_EQ(test, memchr_inv(behind, CANARY, CANARY_SIZE), NULL);
	return err;
}

/* Encodes between canaries; the size, or an error. */
static int zword_trial_encode(struct kunit *test, enum zword_level level,
			      unsigned int page_size, unsigned int capacity)
{
	struct zword_trial *trial = test->priv;
	u8 *behind = trial->object + capacity;
	unsigned int size = capacity;
	int err;

	memset(behind, CANARY, CANARY_SIZE);
	err = zword_page_encode(level, trial->context, trial->page, page_size,
				trial->object, &size);
	KUNIT_ASSERT_PTR_EQ(test, memchr_inv(behind, CANARY, CANARY_SIZE), NULL);
	if (err)
		return err;
	KUNIT_ASSERT_LE(test, size, capacity);
	return size;
}

static int zword_trial_page(struct kunit *test, enum zword_level level,
			    u32 number, unsigned int page_size)
{
	struct zword_trial *trial = test->priv;
	int size;

	zword_grammar_page(SEED, number, trial->page, page_size);
	size = zword_trial_encode(test, level, page_size,
				  page_size + page_size / 512);
	KUNIT_ASSERT_GT(test, size, 0);
	return size;
}

static const enum zword_level zword_levels[] = { ZWORD_QUICK, ZWORD_DENSE };

static void zword_level_name(const enum zword_level *level, char *name)
{
	strscpy(name, *level == ZWORD_QUICK ? "quick" : "dense",
		KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(zword_level, zword_levels, zword_level_name);

static void zword_pages_come_back(struct kunit *test)
{
	static const unsigned int sizes[] = { SZ_4K, SZ_4K, SZ_4K, SZ_16K, SZ_64K };
	enum zword_level level = *(const enum zword_level *)test->param_value;
	struct zword_trial *trial = test->priv;
	unsigned int modes = 0, size;
	u32 number;

	for (number = 0; number < 400; number++) {
		unsigned int page_size = sizes[number % ARRAY_SIZE(sizes)];

		size = zword_trial_page(test, level, number, page_size);
		if (page_size == SZ_4K)
			modes |= 1u << (trial->object[0] & 3);
		KUNIT_ASSERT_EQ(test, zword_trial_decode(test, size, page_size), 0);
		KUNIT_ASSERT_MEMEQ(test, trial->page, trial->back, page_size);
		cond_resched();
	}
	KUNIT_EXPECT_EQ(test, modes, 1u << ZWORD_WORDS_64 | 1u << ZWORD_WORDS_32 |
				     1u << ZWORD_BYTES | 1u << ZWORD_RAW);
}

/* An object fits its own size and no smaller one, and is the same in any. */
static void zword_capacities_are_kept(struct kunit *test)
{
	enum zword_level level = *(const enum zword_level *)test->param_value;
	struct zword_trial *trial = test->priv;
	u32 number;

	for (number = 0; number < 60; number++) {
		int size = zword_trial_page(test, level, number, SZ_4K), less;

		memcpy(trial->back, trial->object, size);
		KUNIT_ASSERT_EQ(test, zword_trial_encode(test, level, SZ_4K, size), size);
		KUNIT_ASSERT_MEMEQ(test, trial->object, trial->back, size);
		for (less = size - 1; less >= 0; less -= 1 + less / 8)
			KUNIT_ASSERT_EQ(test, zword_trial_encode(test, level, SZ_4K, less),
					-ENOSPC);
		cond_resched();
	}
}

/* What is damaged or cut gives a page or an error. */
static void zword_hostile_objects_are_survived(struct kunit *test)
{
	enum zword_level level = *(const enum zword_level *)test->param_value;
	struct zword_trial *trial = test->priv;
	unsigned int refused = 0, at, k;
	u64 state = SEED;
	u32 number;

	for (number = 0; number < 60; number++) {
		unsigned int size = zword_trial_page(test, level, number, SZ_4K);

		for (k = 0; k < 64; k++) {
			/* The header's bytes often, whatever else is there, too. */
			at = zword_grammar_below(&state, k % 2 ? size : min(size, 12u));
			trial->object[at] ^= 1 + zword_grammar_below(&state, 255);
			refused += zword_trial_decode(test, size, SZ_4K) == -EINVAL;
			refused += zword_trial_decode(test, at, SZ_4K) == -EINVAL;
			refused += zword_trial_decode(test, size, SZ_16K) == -EINVAL;
		}
		cond_resched();
	}
	KUNIT_EXPECT_GT(test, refused, 0u);
}

static void zword_noise_is_survived(struct kunit *test)
{
	struct zword_trial *trial = test->priv;
	u64 state = SEED;
	unsigned int round, k;

	for (round = 0; round < 2000; round++) {
		unsigned int size = zword_grammar_below(&state, SZ_4K);

		for (k = 0; k < size; k++)
			trial->object[k] = zword_grammar_next(&state);
		zword_trial_decode(test, size, SZ_4K);
		cond_resched();
	}
}

static void zword_other_sizes_are_refused(struct kunit *test)
{
	static const unsigned int none[] = { 0, 1, SZ_4K - 1, SZ_4K + 1, SZ_64K + SZ_4K };
	struct zword_trial *trial = test->priv;
	unsigned int k, size, object;

	object = zword_trial_page(test, ZWORD_QUICK, 0, SZ_4K);
	for (k = 0; k < ARRAY_SIZE(none); k++) {
		size = ROOM;
		KUNIT_EXPECT_EQ(test, -EINVAL,
				zword_page_encode(ZWORD_QUICK, trial->context, trial->page,
						  none[k], trial->object, &size));
		KUNIT_EXPECT_EQ(test, -EINVAL,
				zword_page_decode(trial->context, trial->object, object,
						  trial->back, none[k]));
	}
	KUNIT_EXPECT_EQ(test, -EINVAL, zword_trial_decode(test, 0, SZ_4K));
}

static struct kunit_case zword_cases[] = {
	KUNIT_CASE_PARAM(zword_pages_come_back, zword_level_gen_params),
	KUNIT_CASE_PARAM(zword_capacities_are_kept, zword_level_gen_params),
	KUNIT_CASE_PARAM(zword_hostile_objects_are_survived, zword_level_gen_params),
	KUNIT_CASE(zword_noise_is_survived),
	KUNIT_CASE(zword_other_sizes_are_refused),
	{}
};

static struct kunit_suite zword_suite = {
	.name = "zword",
	.init = zword_trial_init,
	.exit = zword_trial_exit,
	.test_cases = zword_cases,
};

kunit_test_suite(zword_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of zword");

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer's target for the codecs. The first byte chooses codec, dictionary and
 * level, the second one the size of a page; the rest is used three times, always by
 * the same context: as a hostile object, as the recipe of a page that must come
 * back, and, where the codec takes any size, as bytes that must, too.
 * ZMELD_FUZZ_CODEC in the environment names one codec to attack alone.
 *
 * At the end it says of each codec how many pages it encoded that came back.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined ... fuzz_codec.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <zmeld/codec.h>

#define PAGE		4096u
#define DICT_SIZE	4096
#define LEVELS		3
#define CODECS_MAX	8

struct target {
	const struct zm_codec_ops *ops;
	struct zm_codec_params params;
	void *ctx;
	size_t codec;	/* its place among all */
};

static struct target targets[CODECS_MAX * LEVELS * 2];
static size_t target_count;
static u8 dict[DICT_SIZE];
/* By codec: pages that came back. */
static unsigned long long encoded[CODECS_MAX];

/* `cargo xtask` reads these lines. */
static void encoded_tell(void)
{
	const char *only = getenv("ZMELD_FUZZ_CODEC");

	for (size_t i = 0; i < zm_codec_count && i < CODECS_MAX; i++)
		if (!only || !strcmp(only, zm_codecs[i]->name))
			fprintf(stderr, "pages encoded with %s: %llu\n",
				zm_codecs[i]->name, encoded[i]);
}

static void target_add(size_t codec, int level, bool with_dict)
{
	const struct zm_codec_ops *ops = zm_codecs[codec];
	struct target *target = &targets[target_count++];

	target->codec = codec;
	target->ops = ops;
	target->params.level = level;
	if (with_dict) {
		target->params.dict = dict;
		target->params.dict_size = DICT_SIZE;
	}
	if (ops->params_setup(&target->params) ||
	    ops->context_create(&target->params, &target->ctx))
		abort();
}

static void targets_make(void)
{
	const char *only = getenv("ZMELD_FUZZ_CODEC");

	for (size_t i = 0; i < DICT_SIZE; i++)
		dict[i] = (u8)(i * 31 + (i >> 5));
	for (size_t i = 0; i < zm_codec_count && i < CODECS_MAX; i++) {
		const struct zm_codec_ops *ops = zm_codecs[i];

		if (only && strcmp(only, ops->name))
			continue;
		target_add(i, ops->level_default, false);
		if (ops->takes_dict)
			target_add(i, ops->level_default, true);
		if (ops->level_min != ops->level_max) {
			target_add(i, ops->level_min, false);
			target_add(i, ops->level_max, false);
		}
	}
	if (!target_count || atexit(encoded_tell))
		abort();
}

static void fail(const struct target *target, const char *why)
{
	fprintf(stderr, "%s level %d%s: %s\n", target->ops->name,
		target->params.level, target->params.dict ? " with a dictionary"
							  : "", why);
	abort();
}

/* Blocks of exactly the sizes, for the address sanitizer. */
static void meet_hostile_object(struct target *t, const u8 *data, size_t size,
				size_t page_size)
{
	u8 *object = malloc(size ? size : 1), *page = malloc(page_size);
	int ret;

	if (!object || !page)
		abort();
	memcpy(object, data, size);
	ret = t->ops->decompress(t->ctx, &t->params, object, size, page,
				 page_size);
	if (ret != 0 && ret != -EBADMSG)
		fail(t, "neither a page nor damaged");
	free(object);
	free(page);
}

/* What is left of a recipe, which begins anew at its end. */
struct recipe {
	const u8 *data;
	size_t size;
	size_t at;
};

static u8 take(struct recipe *recipe)
{
	return recipe->data[recipe->at++ % recipe->size];
}

static u64 take_word(struct recipe *recipe, u32 bytes)
{
	u64 word = 0;

	for (u32 k = 0; k < bytes; k++)
		word |= (u64)take(recipe) << 8 * k;
	return word;
}

/* A word again and again, each more than the one before by a step. */
static size_t make_words(struct recipe *recipe, u8 *to, size_t room, u32 count,
			 u32 width)
{
	u64 word = take_word(recipe, width), step = take(recipe);
	size_t at = 0;

	step = (step ^ 0x80) - 0x80;
	for (u32 k = 0; k < count; k++, word += step)
		for (u32 b = 0; b < width && at < room; b++)
			to[at++] = (u8)(word >> 8 * b);
	return at;
}

/* What stands some bytes before, to overlap or not. */
static size_t make_copy(struct recipe *recipe, u8 *to, size_t made, size_t room,
			u32 count)
{
	size_t back = 1 + take_word(recipe, 2) % made, k;

	for (k = 0; k < count && k < room; k++)
		to[k] = *(to + k - back);
	return k;
}

/* Bytes that nothing predicts, of as many values as one byte of the recipe says. */
static size_t make_noise(struct recipe *recipe, u8 *to, size_t room, u32 count)
{
	u64 state = take_word(recipe, 2) * 0x9e3779b97f4a7c15ull + 1;
	u8 mask = take(recipe);
	size_t k;

	for (k = 0; k < count && k < room; k++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		to[k] = (u8)(state >> 32) & mask;
	}
	return k;
}

/* Pages are made of parts, so that a short input makes whole ones of all kinds. */
static void make_page(struct recipe *recipe, u8 *page, size_t size)
{
	size_t at = 0, room, k;
	u32 part, count;

	while (at < size) {
		part = take(recipe);
		count = 1 + (part >> 3);
		room = size - at;
		switch (part & 7) {
		case 0:
		case 1:
			at += make_words(recipe, page + at, room, count, 8);
			break;
		case 2:
			at += make_words(recipe, page + at, room, 2 * count, 4);
			break;
		case 3:
			at += make_noise(recipe, page + at, room, 16 * count);
			break;
		case 4:
			at += make_words(recipe, page + at, room, 16 * count, 1);
			break;
		case 5:
		case 6:
			if (at) {
				at += make_copy(recipe, page + at, at, room,
						part & 1 ? count : 16 * count);
				break;
			}
			/* fallthrough */
		default:
			for (k = 0; k < count && k < room; k++)
				page[at++] = take(recipe);
		}
	}
}

/* Made for pages, it refuses what is none. */
static bool takes_pages_only(const struct target *t)
{
	return !strcmp(t->ops->name, "zword");
}

static void refuse(struct target *t, const u8 *data, size_t size)
{
	size_t room = 2 * size + 256;
	u8 *object = malloc(room);

	if (!object)
		abort();
	if (size % 4096 && !t->ops->compress(t->ctx, &t->params, data, size,
					     object, &room))
		fail(t, "takes what is no page");
	free(object);
}

static void round_trip(struct target *t, const u8 *data, size_t size)
{
	size_t room = 2 * size + 256, object_size = room, tight;
	u8 *object = malloc(room), *page = malloc(size ? size : 1);
	u8 *exact;

	if (!object || !page)
		abort();
	if (t->ops->compress(t->ctx, &t->params, data, size, object,
			     &object_size))
		fail(t, "does not compress into twice the room");
	if (t->ops->decompress(t->ctx, &t->params, object, object_size, page,
			       size) || memcmp(page, data, size))
		fail(t, "does not come back");

	tight = object_size;
	exact = malloc(tight ? tight : 1);
	if (!exact)
		abort();
	if (t->ops->compress(t->ctx, &t->params, data, size, exact, &tight) ||
	    tight != object_size || memcmp(exact, object, tight))
		fail(t, "is not the same in exactly the room");
	if (tight > 0) {
		tight--;
		if (t->ops->compress(t->ctx, &t->params, data, size, exact,
				     &tight) != -ENOSPC)
			fail(t, "fits into one byte too few");
	}
	free(exact);
	free(object);
	free(page);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	/* Large pages take long, and are many small ones. */
	static const u32 scale[] = { 1, 1, 1, 1, 1, 4, 4, 16 };
	struct recipe recipe;
	struct target *target;
	size_t page_size;
	u8 *page;

	if (!target_count)
		targets_make();
	if (size < 3)
		return 0;
	target = &targets[data[0] % target_count];
	page_size = scale[data[1] % 8] * PAGE;
	recipe = (struct recipe){ .data = data + 2, .size = size - 2 };
	meet_hostile_object(target, recipe.data, recipe.size, page_size);
	page = malloc(page_size);
	if (!page)
		abort();
	make_page(&recipe, page, page_size);
	round_trip(target, page, page_size);
	encoded[target->codec]++;
	free(page);
	if (takes_pages_only(target))
		refuse(target, recipe.data, recipe.size);
	else
		round_trip(target, recipe.data, recipe.size);
	return 0;
}

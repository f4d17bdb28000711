// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer's target for the codecs. The first byte chooses codec, dictionary
 * and level; the rest is used twice: as a hostile object, and as a page that
 * must come back, from a context that has just met the hostile object.
 * ZMELD_FUZZ_CODEC in the environment names one codec to attack alone.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined ... fuzz_codec.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <zmeld/codec.h>

#define PAGE		ZM_PAGE_SIZE
#define DICT_SIZE	4096
#define LEVELS		3
#define CODECS_MAX	8

struct target {
	const struct zm_codec_ops *ops;
	struct zm_codec_params params;
	void *ctx;
};

static struct target targets[CODECS_MAX * LEVELS * 2];
static size_t target_count;
static u8 dict[DICT_SIZE];

static void target_add(const struct zm_codec_ops *ops, int level,
		       bool with_dict)
{
	struct target *target = &targets[target_count++];

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
		target_add(ops, ops->level_default, false);
		if (ops->takes_dict)
			target_add(ops, ops->level_default, true);
		if (ops->level_min != ops->level_max) {
			target_add(ops, ops->level_min, false);
			target_add(ops, ops->level_max, false);
		}
	}
	if (!target_count)
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
static void meet_hostile_object(struct target *t, const u8 *data, size_t size)
{
	u8 *object = malloc(size ? size : 1), *page = malloc(PAGE);
	int ret;

	if (!object || !page)
		abort();
	memcpy(object, data, size);
	ret = t->ops->decompress(t->ctx, &t->params, object, size, page, PAGE);
	if (ret != 0 && ret != -EBADMSG)
		fail(t, "neither a page nor damaged");
	free(object);
	free(page);
}

/* Made for pages, it refuses what is none. */
static bool refuses(const struct target *t, size_t size)
{
	return !strcmp(t->ops->name, "zword") && (!size || size % 4096);
}

static void round_trip(struct target *t, const u8 *data, size_t size)
{
	size_t room = 2 * size + 256, object_size = room, tight;
	u8 *object = malloc(room), *page = malloc(size ? size : 1);
	u8 *exact;

	if (!object || !page)
		abort();
	if (refuses(t, size)) {
		if (!t->ops->compress(t->ctx, &t->params, data, size, object,
				      &object_size))
			fail(t, "takes what is no page");
		goto free;
	}
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
free:
	free(object);
	free(page);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct target *target;

	if (!target_count)
		targets_make();
	if (size < 2)
		return 0;
	target = &targets[data[0] % target_count];
	meet_hostile_object(target, data + 1, size - 1);
	round_trip(target, data + 1, size - 1);
	return 0;
}

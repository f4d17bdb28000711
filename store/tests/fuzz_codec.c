// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer's target for the codecs. The first byte chooses codec and level, the
 * second one the size of a page; the rest is used three times, always by
 * the same context: as a hostile object, as the recipe of a page that must come
 * back (zword/grammar.h), and, where the codec takes any size, as bytes that must,
 * too. The mutator changes recipes by whole operations.
 * ZMELD_FUZZ_CODEC in the environment names one codec to attack alone.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined ... fuzz_codec.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <zmeld/codec.h>

#include "grammar.h"

#define PAGE		4096u
#define HEAD		2	/* bytes before the recipe */
#define LEVELS		3
#define OP_SIZE		12u	/* of a recipe, in bytes */

struct target {
	const struct zm_codec_ops *ops;
	struct zm_codec_params params;
	void *ctx;
};

static struct target targets[8 * LEVELS];
static size_t target_count;

static void target_add(const struct zm_codec_ops *ops, int level)
{
	struct target *target = &targets[target_count++];

	target->ops = ops;
	target->params.level = level;
	if (zm_codec_setup(ops, &target->params) ||
	    ops->context_create(&target->params, &target->ctx))
		abort();
}

static void targets_make(void)
{
	const char *only = getenv("ZMELD_FUZZ_CODEC");

	for (size_t i = 0; i < zm_codec_count; i++) {
		const struct zm_codec_ops *ops = zm_codecs[i];

		if (only && strcmp(only, ops->name))
			continue;
		target_add(ops, ops->level_default);
		if (ops->level_min != ops->level_max) {
			target_add(ops, ops->level_min);
			target_add(ops, ops->level_max);
		}
	}
	if (!target_count)
		abort();
}

static void fail(const struct target *target, const char *why)
{
	fprintf(stderr, "%s level %d: %s\n", target->ops->name,
		target->params.level, why);
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

/* A recipe's operation in bytes, as a fuzzer has it. */
static void recipe_read(const u8 *from, struct zword_grammar_op *op)
{
	op->kind = from[0] % ZWORD_GRAMMAR_KINDS;
	op->value = from[1];
	op->at = (u16)get_unaligned_le16(from + 2);
	op->length = (u16)get_unaligned_le16(from + 4);
	op->other = (u16)get_unaligned_le16(from + 6);
	op->seed = get_unaligned_le32(from + 8);
}

static void recipe_write(u8 *to, const struct zword_grammar_op *op)
{
	to[0] = op->kind;
	to[1] = op->value;
	to[2] = (u8)op->at;
	to[3] = (u8)(op->at >> 8);
	to[4] = (u8)op->length;
	to[5] = (u8)(op->length >> 8);
	to[6] = (u8)op->other;
	to[7] = (u8)(op->other >> 8);
	put_unaligned_le32(op->seed, to + 8);
}

/* A page by the operations of a recipe; what is too short for one is left. */
static void make_page(const u8 *recipe, size_t size, u8 *page, u32 page_size)
{
	struct zword_grammar_op op;

	memset(page, 0, page_size);
	for (; size >= OP_SIZE; size -= OP_SIZE) {
		recipe_read(recipe, &op);
		zword_grammar_do(&op, page, page_size);
		recipe += OP_SIZE;
	}
}

/* Large pages take long, and are many small ones. */
static u32 page_size_of(u8 byte)
{
	static const u32 scale[] = { 1, 1, 1, 1, 1, 4, 4, 16 };

	return scale[byte % 8] * PAGE;
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
	struct target *target;
	size_t page_size;
	u8 *page;

	if (!target_count)
		targets_make();
	if (size <= HEAD)
		return 0;
	target = &targets[data[0] % target_count];
	page_size = page_size_of(data[1]);
	data += HEAD;
	size -= HEAD;
	meet_hostile_object(target, data, size, page_size);
	page = malloc(page_size);
	if (!page)
		abort();
	make_page(data, size, page, (u32)page_size);
	round_trip(target, page, page_size);
	free(page);
	if (takes_pages_only(target))
		refuse(target, data, size);
	else
		round_trip(target, data, size);
	return 0;
}

/* A whole new recipe. */
static u32 recipe_draw(struct zword_grammar *grammar, u8 *recipe, u32 room)
{
	struct zword_grammar_op ops[ZWORD_GRAMMAR_OPS_MAX];
	u32 count = zword_grammar_draw(grammar, ops), k;

	for (k = 0; k < count && k < room; k++)
		recipe_write(recipe + k * OP_SIZE,
			     &ops[k]);
	return k;
}

/* One operation more, less, or another one; a whole new recipe. The new count. */
static u32 recipe_mutate(struct zword_grammar *grammar, u8 *recipe, u32 count,
			 u32 room)
{
	u32 at = zword_grammar_below(&grammar->state, count), last = count - 1;
	u8 *op_at = recipe + at * OP_SIZE;
	u8 *next = op_at + OP_SIZE;
	size_t behind = (last - at) * OP_SIZE;
	struct zword_grammar_op op;

	switch (zword_grammar_random(grammar) & 7) {
	case 0:
		return recipe_draw(grammar, recipe, room);
	case 1:
	case 2:
		if (!last)
			break;
		memmove(op_at, next, behind);
		return last;
	case 3:
	case 4:
	case 5:
		if (count == room)
			break;
		memmove(next, op_at, behind + OP_SIZE);
		count++;
		break;
	}
	zword_grammar_draw_op(grammar, &op);
	recipe_write(op_at, &op);
	return count;
}

/* libFuzzer's own mutations. */
size_t LLVMFuzzerMutate(u8 *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(u8 *data, size_t size, size_t size_max,
			       unsigned int seed);

size_t LLVMFuzzerCustomMutator(u8 *data, size_t size, size_t size_max,
			       unsigned int seed)
{
	struct zword_grammar grammar = { .state = seed };
	u32 count, room;
	u64 random = zword_grammar_random(&grammar);

	if (size_max < HEAD + OP_SIZE || !(random & 3))
		return LLVMFuzzerMutate(data, size, size_max);
	if (size < HEAD || !(random & 7 << 2)) {
		data[0] = (u8)(random >> 8);
		data[1] = (u8)(random >> 16);
	}
	grammar.page_size = page_size_of(data[1]);
	room = (u32)((size_max - HEAD) / OP_SIZE);
	count = size < HEAD ? 0 :
		(u32)((size - HEAD) / OP_SIZE);
	count = count ? recipe_mutate(&grammar, data + HEAD, count, room) :
			recipe_draw(&grammar, data + HEAD, room);
	return HEAD + count * OP_SIZE;
}

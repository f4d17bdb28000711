/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages for tests: what an encoder's limits are, in contents.
 *
 * A recipe is a list of operations, and each writes one region of the page: noise of
 * any alphabet, words, text, a copy of another region, a changed byte. Lengths,
 * distances and places are mostly those at which the codec does something else.
 * A recipe is drawn from a seed.
 *
 * Invariants:
 *   - the same recipe makes the same page, on every machine;
 *   - any recipe makes a page, and writes within it alone;
 *   - no memory but what the caller gives, no floating point.
 */
#ifndef ZWORD_GRAMMAR_H
#define ZWORD_GRAMMAR_H

#include "block.h"

enum zword_grammar_kind {
	ZWORD_GRAMMAR_NOISE,	/* letters of an alphabet: value + 1 of them */
	ZWORD_GRAMMAR_WORDS_64,	/* a sequence of words: value is its step */
	ZWORD_GRAMMAR_WORDS_32,
	ZWORD_GRAMMAR_POINTERS,	/* value: how many bits differ */
	ZWORD_GRAMMAR_FLOATS,	/* the same, of the mantissas; bit 0: 32 bits */
	ZWORD_GRAMMAR_TEXT,
	ZWORD_GRAMMAR_FIELD,	/* a word of each structure of `other` bytes */
	ZWORD_GRAMMAR_CHANGE,	/* one byte */
	ZWORD_GRAMMAR_COPY,	/* of what is at `other`, overlapping or not */
	ZWORD_GRAMMAR_KINDS,
};

struct zword_grammar_op {
	u8 kind;
	u8 value;
	u16 at;
	u16 length;	/* 0: up to the page's end */
	u16 other;	/* where a copy is from, a stride, a first letter, a shift */
	u32 seed;
};

#define ZWORD_GRAMMAR_OPS_MAX	10u	/* of one that is drawn */

/* SplitMix64 (G. Steele, D. Lea, C. Flood, 2014). */
static inline u64 zword_grammar_next(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline u32 zword_grammar_below(u64 *state, u32 bound)
{
	return (u32)((zword_grammar_next(state) >> 32) * bound >> 32);
}

/* Letters of an alphabet of size + 1, each in its byte, from 64 random bits. */
static inline u64 zword_grammar_letters(u64 word, u32 size)
{
	const u64 even = 0x00ff00ff00ff00ffull;
	u64 count = size + 1;

	if (size == 255)
		return word;
	return ((word & even) * count >> 8 & even) |
	       ((word >> 8 & even) * count & ~even);
}

/* A byte in each byte; a sum of bytes without a carry from one to the next. */
static inline u64 zword_grammar_add_bytes(u64 word, u32 byte)
{
	u64 other = (byte & 0xff) * 0x0101010101010101ull;

	return ((word & ~ZWORD_HIGH_BITS) + (other & ~ZWORD_HIGH_BITS)) ^
	       ((word ^ other) & ZWORD_HIGH_BITS);
}

static inline u64 zword_grammar_float(const struct zword_grammar_op *op,
				      u64 random)
{
	u32 zeros = op->value >> 1;

	if (op->value & 1)
		return 0x3f8000003f800000ull |
		       (random & 0x007fffff007fffffull & ~0ull << zeros % 23);
	return 0x3ff0000000000000ull | (random >> 12 & ~0ull << zeros % 52);
}

static inline u64 zword_grammar_step(const struct zword_grammar_op *op)
{
	return (u64)((op->value ^ 0x80ull) - 0x80) << op->other % 32;
}

/* The word of 8 bytes that comes k'th. */
static __always_inline u64 zword_grammar_word(const struct zword_grammar_op *op,
					      u32 kind, u64 *state, u32 k)
{
	u64 first = op->seed * 0x9e3779b97f4a7c15ull >> op->other / 32 % 64;
	u64 step = zword_grammar_step(op), word;

	switch (kind) {
	case ZWORD_GRAMMAR_NOISE:
		word = zword_grammar_letters(zword_grammar_next(state),
					     op->value);
		return zword_grammar_add_bytes(word, op->other);
	case ZWORD_GRAMMAR_WORDS_64:
		return first + step * k;
	case ZWORD_GRAMMAR_WORDS_32:
		word = (u32)(first + step * 2 * k);
		return word | (u64)(u32)(word + step) << 32;
	case ZWORD_GRAMMAR_POINTERS:
		return 0x7f0000000000ull + ((u64)op->seed << 8) +
		       ((zword_grammar_next(state) >> 1 &
			 ((1ull << op->value % 32) - 1)) << 3);
	default:
		return zword_grammar_float(op, zword_grammar_next(state));
	}
}

/* The first bytes of a word, at most 8. */
static inline void zword_grammar_put(u8 *to, u32 room, u64 word)
{
	if (room >= 8) {
		put_unaligned_le64(word, to);
		return;
	}
	for (; room; room--, word >>= 8)
		*to++ = (u8)word;
}

/* One loop for each kind, since the kind is known where this is inlined. */
static __always_inline void zword_grammar_fill(const struct zword_grammar_op *op,
					       u32 kind, u64 *state, u8 *to,
					       u32 length)
{
	u32 k;

	for (k = 0; k + 8 <= length; k += 8)
		put_unaligned_le64(zword_grammar_word(op, kind, state, k / 8),
				   to + k);
	zword_grammar_put(to + k, length - k,
			  zword_grammar_word(op, kind, state, k / 8));
}

/* Words of at most 8 letters, of which `value` says how many there are. */
static inline void zword_grammar_text(const struct zword_grammar_op *op,
				      u64 *state, u8 *to, u32 length)
{
	static const char words[16][9] = {
		"the     ", "of      ", "static  ", "return  ",
		"\n\t\t     ", "=       ", "if (    ", "};\n     ",
		"error   ", "0x00    ", "page->  ", "struct  ",
		"http:// ", ".com/   ", "12,     ", "name    ",
	};
	const u32 count = 2 + op->value % 14;
	u32 k = 0, word, size;
	u64 random;

	while (k < length) {
		random = zword_grammar_next(state);
		word = (u32)(random & 0xff) * count >> 8;
		for (size = 8; words[word][size - 1] == ' '; )
			size--;
		zword_grammar_put(to + k, length - k,
				  get_unaligned_le64((const u8 *)words[word]));
		k += size + 1;
	}
}

/* One word of each structure. */
static inline void zword_grammar_field(const struct zword_grammar_op *op,
				       u64 *state, u8 *to, u32 length)
{
	u32 stride = op->other ? op->other : 8, k;
	u64 mask = ~0ull >> op->value % 64;

	for (k = 0; k < length; k += stride)
		zword_grammar_put(to + k, length - k,
				  zword_grammar_next(state) & mask);
}

/* Byte by byte in effect: what overlaps is repeated. */
static inline void zword_grammar_copy(u8 *page, u32 at, u32 length, u32 from)
{
	u32 size;

	if (from >= at) {
		memmove(page + at, page + from, length);
		return;
	}
	/* Each piece makes the period that can be copied longer. */
	for (; length; length -= size, at += size) {
		size = length < at - from ? length : at - from;
		memcpy(page + at, page + from, size);
	}
}

static inline void zword_grammar_do(const struct zword_grammar_op *op,
				    u8 *page, u32 page_size)
{
	u32 at = op->at % page_size, length = page_size - at, from;
	u64 state = (u64)op->seed << 32 ^ (u64)op->other << 16 ^ op->value;
	u8 *to = page + at;

	if (op->length && op->length < length)
		length = op->length;
	switch (op->kind) {
	case ZWORD_GRAMMAR_NOISE:
		zword_grammar_fill(op, ZWORD_GRAMMAR_NOISE, &state, to, length);
		break;
	case ZWORD_GRAMMAR_WORDS_64:
		zword_grammar_fill(op, ZWORD_GRAMMAR_WORDS_64, &state, to,
				   length);
		break;
	case ZWORD_GRAMMAR_WORDS_32:
		zword_grammar_fill(op, ZWORD_GRAMMAR_WORDS_32, &state, to,
				   length);
		break;
	case ZWORD_GRAMMAR_POINTERS:
		zword_grammar_fill(op, ZWORD_GRAMMAR_POINTERS, &state, to,
				   length);
		break;
	case ZWORD_GRAMMAR_FLOATS:
		zword_grammar_fill(op, ZWORD_GRAMMAR_FLOATS, &state, to, length);
		break;
	case ZWORD_GRAMMAR_TEXT:
		zword_grammar_text(op, &state, to, length);
		break;
	case ZWORD_GRAMMAR_FIELD:
		zword_grammar_field(op, &state, to, length);
		break;
	case ZWORD_GRAMMAR_CHANGE:
		*to ^= op->value;
		break;
	case ZWORD_GRAMMAR_COPY:
		from = op->other % page_size;
		if (length > page_size - from)
			length = page_size - from;
		zword_grammar_copy(page, at, length, from);
		break;
	}
}

/* What a recipe leaves out is zero. */
static inline void zword_grammar_make(const struct zword_grammar_op *ops,
				      u32 count, u8 *page, u32 page_size)
{
	u32 k;

	memset(page, 0, page_size);
	for (k = 0; k < count; k++)
		zword_grammar_do(&ops[k], page, page_size);
}

/* What a recipe is drawn with. */
struct zword_grammar {
	u64 state;
	u32 page_size;
	u32 limit;	/* of the lengths of all copies; 0: any */
};

static inline u64 zword_grammar_random(struct zword_grammar *grammar)
{
	return zword_grammar_next(&grammar->state);
}

static inline u32 zword_grammar_upto(struct zword_grammar *grammar, u32 bound)
{
	return 1 + zword_grammar_below(&grammar->state, bound);
}

/* A length or a distance at or around a limit, or some of them. */
static inline u32 zword_grammar_near(struct zword_grammar *grammar, u32 limit)
{
	static const u16 limits[16] = {
		ZWORD_MATCH_MAX, ZWORD_MATCH_MAX, ZWORD_MATCH_MAX,
		ZWORD_MATCH_MIN, ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG,
		ZWORD_LITERALS_LONG, ZWORD_LITERALS_LONG + 255,
		8 * ZWORD_RUN_LONG, 4 * ZWORD_RUN_MAX, 8 * ZWORD_RUN_MAX,
		/* The last near offset, in bytes and in words of either width. */
		256, 4 * 256, 8 * 256,
		/* Places that positions hold; literals until one is skipped. */
		ZWORD_POSITIONS, 64, ZWORD_BLOCK_SIZE,
	};
	/* Around it by one, by the shortest match, by a word. */
	static const signed char around[16] = {
		-8, -4, -3, -1, 0, 0, 1, 2, 3, 4, 4, 4, 4, 5, 8, 12,
	};
	u64 random = zword_grammar_random(grammar);
	u32 times = random & 1 << 8 ? 1 : 1 + (random >> 9 & 3);
	int number;

	if (!limit)
		limit = limits[random & 15];
	number = (int)(limit * times) + around[random >> 4 & 15];
	return number > 0 ? (u32)number : 1;
}

/* A copy that may end where a block does, from a distance that may be a limit's. */
static inline void zword_grammar_draw_copy(struct zword_grammar *grammar,
					   struct zword_grammar_op *op)
{
	u32 at = zword_grammar_upto(grammar, grammar->page_size - 1), end;
	u32 length = zword_grammar_near(grammar, grammar->limit), distance;
	u64 random = zword_grammar_random(grammar);

	if (!grammar->limit && !(random & 7))
		length = zword_grammar_upto(grammar, grammar->page_size);
	if (!(random & 7 << 3)) {
		end = (at | (ZWORD_BLOCK_SIZE - 1)) + 1 - (random >> 6 & 15);
		at = end > length + 1 ? end - length : 1;
	}
	if (random & 3 << 10)
		distance = zword_grammar_upto(grammar, at);
	else if (random & 1 << 12)
		distance = zword_grammar_near(grammar, 0);
	else
		distance = 1 + (random >> 13 & 63);
	*op = (struct zword_grammar_op){
		.kind = ZWORD_GRAMMAR_COPY,
		.at = (u16)at,
		.length = (u16)length,
		.other = (u16)(distance < at ? at - distance : 0),
	};
}

/* What a kind takes besides its place. */
static inline void zword_grammar_draw_value(struct zword_grammar *grammar,
					    struct zword_grammar_op *op)
{
	u64 random = zword_grammar_random(grammar);

	op->seed = (u32)(random >> 32);
	op->value = (u8)(random >> 24);
	op->other = (u16)random;
	if (op->kind == ZWORD_GRAMMAR_NOISE && random & 3 << 16) {
		/* Letters: they compress, though nothing in them repeats. */
		op->value = 8 + op->value % (random & 1 << 16 ? 24 : 56);
		op->other = random & 1 << 16 ? 'a' : '@';
	}
	if ((op->kind == ZWORD_GRAMMAR_WORDS_64 ||
	     op->kind == ZWORD_GRAMMAR_WORDS_32) && random & 1 << 16)
		op->value = random & 1 << 17 ? 0 : 8;
	if (op->kind == ZWORD_GRAMMAR_FIELD)
		op->other = random & 1 << 16 ? 8u << (random & 7) :
			    zword_grammar_near(grammar, 0) & ~3u;
	if (op->kind == ZWORD_GRAMMAR_CHANGE)
		op->value |= !op->value;
}

/* Half are copies; of the others all kinds have their share. */
static inline void zword_grammar_draw_op(struct zword_grammar *grammar,
					 struct zword_grammar_op *op)
{
	u64 random = zword_grammar_random(grammar);
	u32 at = zword_grammar_below(&grammar->state, grammar->page_size);

	if (grammar->limit || random & 1) {
		zword_grammar_draw_copy(grammar, op);
		return;
	}
	op->kind = (u8)(random >> 32) * ZWORD_GRAMMAR_KINDS >> 8;
	/* Words are where words are, mostly. */
	op->at = (u16)(random & 3 << 1 ? at & ~7u : at);
	op->length = (u16)(random & 3 << 3 ? zword_grammar_near(grammar, 0) :
			   zword_grammar_upto(grammar, grammar->page_size));
	if (random & 1 << 5)
		op->length &= ~7u;
	zword_grammar_draw_value(grammar, op);
}

/*
 * A recipe of at most ZWORD_GRAMMAR_OPS_MAX operations: one for the whole page, or two
 * for its parts, and then some for regions. How many there are.
 */
static inline u32 zword_grammar_draw(struct zword_grammar *grammar,
				     struct zword_grammar_op *ops)
{
	u64 random = zword_grammar_random(grammar);
	u32 count = 1 + !(random & 7), edits, k;

	for (k = 0; k < count; k++) {
		/* Half are noise, since nothing in it is found by accident. */
		ops[k].kind = random & 8 << k ? ZWORD_GRAMMAR_NOISE :
			      zword_grammar_below(&grammar->state,
						  ZWORD_GRAMMAR_CHANGE);
		zword_grammar_draw_value(grammar, &ops[k]);
		ops[k].at = k ? (u16)(random >> 16) : 0;
		ops[k].length = 0;
	}
	/* Half of the pages have copies alone, all around one limit. */
	grammar->limit = 0;
	if (random & 1 << 5)
		grammar->limit = ops[0].kind == ZWORD_GRAMMAR_NOISE ||
				 ops[0].kind == ZWORD_GRAMMAR_TEXT ?
				 ZWORD_MATCH_MAX : 8 * ZWORD_RUN_MAX;
	edits = zword_grammar_below(&grammar->state, 2 + (random >> 7 & 7));
	for (; edits; edits--)
		zword_grammar_draw_op(grammar, &ops[count++]);
	return count;
}

/* Page number `number` of a seed, as the tests count them. */
static inline void zword_grammar_page(u64 seed, u64 number, u8 *page,
				      u32 page_size)
{
	struct zword_grammar_op ops[ZWORD_GRAMMAR_OPS_MAX];
	struct zword_grammar grammar = {
		.state = zword_grammar_next(&seed) +
			 number * 0xd1342543de82ef95ull,
		.page_size = page_size,
	};

	zword_grammar_make(ops, zword_grammar_draw(&grammar, ops), page,
			   page_size);
}

#endif /* ZWORD_GRAMMAR_H */

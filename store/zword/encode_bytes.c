// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encoding blocks of bytes: literals and matches. A bucket remembers the four
 * newest places of four bytes; a match waits for one byte if a longer one begins
 * there.
 *
 * What was read once may read otherwise a moment later; every length is counted
 * here and every place checked, so the source can change and nothing but the
 * page that comes out of it.
 */
#include "block.h"

/* Bits that a match saves a byte, and what it costs, about; and a literal. */
#define GAIN_BYTE	5
#define COST_AGAIN	5
#define COST_NEAR	13
#define COST_FAR	19
#define GAIN_WAIT	5
#define BITS_LITERAL	6
/* Literals in a row, as a shift, after which a match is looked for less often. */
#define SKIP_SHIFT	7

struct match {
	u32 length;	/* 0: none */
	u32 offset;
	u32 kind;
	int gain;
};

static inline u32 bucket_of(const u8 *at)
{
	return (u32)(((zword_get_word(at, 4) * 2654435761u) & 0xffffffffu) >> 22);
}

/* The newest place first; the oldest is forgotten. */
static inline void bucket_put(u16 *bucket, u32 at)
{
	bucket[3] = bucket[2];
	bucket[2] = bucket[1];
	bucket[1] = bucket[0];
	bucket[0] = (u16)at;
}

static inline u32 length_at(const u8 *page, u32 one, u32 other, u32 end)
{
	u32 length = 0;
	u64 differ;

	while (other + length + 8 <= end) {
		differ = zword_get_le64(page + one + length) ^
			 zword_get_le64(page + other + length);
		if (differ)
			return length + (u32)__builtin_ctzll(differ) / 8;
		length += 8;
	}
	while (other + length < end && page[one + length] == page[other + length])
		length++;
	return length;
}

static inline void consider(struct match *best, const u8 *page, u32 from,
			    u32 at, u32 end, u32 kind)
{
	u32 length, offset = at - from, cost;
	int gain;

	if (zword_get_word(page + from, 4) != zword_get_word(page + at, 4))
		return;
	length = length_at(page, from, at, end);
	cost = kind == ZWORD_MATCH_AGAIN ? COST_AGAIN :
	       offset <= 256 ? COST_NEAR : COST_FAR;
	gain = (int)(length * GAIN_BYTE) - (int)cost;
	if (length < ZWORD_MATCH_MIN || gain <= best->gain)
		return;
	best->length = length;
	best->offset = offset;
	best->gain = gain;
	best->kind = kind == ZWORD_MATCH_AGAIN ? kind :
		     offset <= 256 ? ZWORD_MATCH_NEAR : ZWORD_MATCH_FAR;
}

static inline struct match match_at(struct zword_encoding *work, const u8 *page,
				    u32 at, u32 end, u32 again)
{
	struct match best = { 0, 0, 0, 0 };
	u16 *bucket;
	u32 k;

	if (at + ZWORD_MATCH_MIN > end)
		return best;
	bucket = work->bytes[bucket_of(page + at)];
	if (at >= again)
		consider(&best, page, at - again, at, end, ZWORD_MATCH_AGAIN);
	for (k = 0; k < ZWORD_BYTE_WAYS; k++)
		if (bucket[k] < at)
			consider(&best, page, bucket[k], at, end,
				 ZWORD_MATCH_NEAR);
	bucket_put(bucket, at);
	return best;
}

static void remember(struct zword_encoding *work, const u8 *page, u32 at,
		     u32 to, u32 end)
{
	u16 *bucket;

	for (; at < to && at + ZWORD_MATCH_MIN <= end; at++) {
		bucket = work->bytes[bucket_of(page + at)];
		bucket_put(bucket, at);
	}
}

static void put_token(struct zword_byte_parse *parse, const u8 *page,
		      u32 anchor, u32 at, const struct match *match)
{
	u32 literals = at - anchor, k;

	for (k = 0; k < literals; k++)
		parse->literal[parse->literals + k] = page[anchor + k];
	parse->literals += literals;
	parse->token[parse->tokens++] = (struct zword_byte_token){
		.literals = (u16)literals,
		.length = (u16)match->length,
		.offset = match->offset,
		.match = (u8)match->kind,
	};
}

bool zword_bytes_parse(struct zword_encoding *work, const u8 *page, u32 from,
		       u32 limit)
{
	struct zword_byte_parse *parse = &work->parse.byte;
	const struct match none = { 0, 0, ZWORD_MATCH_NONE, 0 };
	u32 end = from + ZWORD_BLOCK_SIZE, at = from, anchor = from;
	u32 again = ZWORD_AGAIN_FIRST;
	struct zword_budget budget;
	struct match match, later;

	zword_budget_start(&budget, from, limit);
	parse->tokens = 0;
	parse->literals = 0;
	while (at < end) {
		match = match_at(work, page, at, end, again);
		if (!match.length) {
			if (at >= budget.check &&
			    !zword_budget_left(&budget, (at - anchor) *
							BITS_LITERAL))
				return false;
			at += 1 + ((at - anchor) >> SKIP_SHIFT);
			continue;
		}
		while (match.length < 24) {
			later = match_at(work, page, at + 1, end, again);
			if (later.gain <= match.gain + GAIN_WAIT)
				break;
			match = later;
			at++;
		}
		budget.spent += (at - anchor) * BITS_LITERAL +
				match.length * GAIN_BYTE - (u32)match.gain;
		if (match.length > ZWORD_MATCH_MAX)
			match.length = ZWORD_MATCH_MAX;
		put_token(parse, page, anchor, at, &match);
		again = match.offset;
		remember(work, page, at + 2, at + match.length, end);
		at += match.length;
		anchor = at;
		if (at >= budget.check && !zword_budget_left(&budget, 0))
			return false;
	}
	if (anchor < end)
		put_token(parse, page, anchor, end, &none);
	return true;
}

/* The symbol of a token, whose longer counts follow it. */
static inline u32 symbol_of(const struct zword_byte_token *token)
{
	u32 literals = token->literals < ZWORD_LITERALS_LONG ?
		       token->literals : ZWORD_LITERALS_LONG;
	u32 length = (u32)token->length - ZWORD_MATCH_MIN;

	if (length > ZWORD_LENGTH_LONG)
		length = ZWORD_LENGTH_LONG;
	return zword_byte_token(literals, length, token->match);
}

static inline u32 bits_of(const struct zword_byte_encoder *tables, u32 table,
			  u32 byte)
{
	return tables->table[table][byte] & ZWORD_ENTRY_LENGTH;
}

static u32 token_bits(const struct zword_byte_encoder *tables,
		      const struct zword_byte_token *token)
{
	u32 bits = tables->token[symbol_of(token)] & ZWORD_ENTRY_LENGTH;
	u32 more, offset = token->offset - 1;

	if (token->literals >= ZWORD_LITERALS_LONG) {
		more = token->literals - ZWORD_LITERALS_LONG;
		for (; more >= 255; more -= 255)
			bits += bits_of(tables, ZWORD_BYTE_LENGTH, 255);
		bits += bits_of(tables, ZWORD_BYTE_LENGTH, more);
	}
	if (token->length >= ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
		bits += bits_of(tables, ZWORD_BYTE_LENGTH, token->length -
				ZWORD_MATCH_MIN - ZWORD_LENGTH_LONG);
	if (token->match == ZWORD_MATCH_NEAR)
		bits += bits_of(tables, ZWORD_BYTE_NEAR, offset);
	if (token->match == ZWORD_MATCH_FAR)
		bits += bits_of(tables, ZWORD_BYTE_FAR, offset >> 8) + 8;
	return bits;
}

void zword_bytes_measure(const struct zword_byte_encoder *tables,
			 const struct zword_byte_parse *parse,
			 struct zword_size *size)
{
	u32 quarter = (parse->literals + 3) / 4, class = 0, lane = 0, next = 0, k;

	*size = (struct zword_size){ .wide = 0 };
	for (k = 0; k < parse->tokens; k++)
		size->bits[0] += token_bits(tables, &parse->token[k]);
	for (k = 0; k < parse->literals; k++) {
		if (k == next) {
			class = tables->class_of[0];
			next += quarter;
			lane++;
		}
		size->bits[lane] += bits_of(tables, class, parse->literal[k]);
		class = tables->class_of[parse->literal[k]];
	}
	zword_size_sum(size);
}

static inline void add_byte(const struct zword_byte_encoder *tables,
			    struct zword_writer *writer, u32 table, u32 byte)
{
	u32 code = tables->table[table][byte];

	zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
}

/* Behind each flush there is room for 56 bits: a token and all but its literals. */
static bool token_write(const struct zword_byte_encoder *tables,
			const struct zword_byte_token *token,
			struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 code = tables->token[symbol_of(token)];
	u32 more, offset = token->offset - 1;

	if (!zword_flush(writer, dst, capacity))
		return false;
	zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
	if (token->literals >= ZWORD_LITERALS_LONG) {
		more = token->literals - ZWORD_LITERALS_LONG;
		for (; more >= 255; more -= 255) {
			add_byte(tables, writer, ZWORD_BYTE_LENGTH, 255);
			if (!zword_flush(writer, dst, capacity))
				return false;
		}
		add_byte(tables, writer, ZWORD_BYTE_LENGTH, more);
	}
	if (token->length >= ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
		add_byte(tables, writer, ZWORD_BYTE_LENGTH, token->length -
			 ZWORD_MATCH_MIN - ZWORD_LENGTH_LONG);
	if (token->match == ZWORD_MATCH_NEAR)
		add_byte(tables, writer, ZWORD_BYTE_NEAR, offset);
	if (token->match == ZWORD_MATCH_FAR) {
		add_byte(tables, writer, ZWORD_BYTE_FAR, offset >> 8);
		zword_add(writer, offset & 0xff, 8);
	}
	return true;
}

static bool lane_write(const struct zword_byte_encoder *tables,
		       const u8 *literal, u32 count,
		       struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 class = tables->class_of[0], k;

	for (k = 0; k < count; k++) {
		add_byte(tables, writer, class, literal[k]);
		class = tables->class_of[literal[k]];
		if (writer->count > 63 - ZWORD_LITERAL_CODE_MAX &&
		    !zword_flush(writer, dst, capacity))
			return false;
	}
	return zword_finish(writer, dst, capacity);
}

bool zword_bytes_write(const struct zword_byte_encoder *tables,
		       const struct zword_byte_parse *parse,
		       const struct zword_size *size, u8 *dst, u32 capacity)
{
	struct zword_writer writer = { .bits = 0 };
	u32 quarter = (parse->literals + 3) / 4, k, first, last;

	if (size->all > capacity)
		return false;
	writer.at = zword_header_write(dst, ZWORD_BYTES, parse->literals, size);
	for (k = 0; k < parse->tokens; k++)
		if (!token_write(tables, &parse->token[k], &writer, dst,
				 capacity))
			return false;
	if (!zword_finish(&writer, dst, capacity))
		return false;
	for (k = 0; k < ZWORD_LANES; k++) {
		first = k * quarter < parse->literals ? k * quarter :
							parse->literals;
		last = first + quarter < parse->literals ? first + quarter :
							   parse->literals;
		if (!lane_write(tables, parse->literal + first, last - first,
				&writer, dst, capacity))
			return false;
	}
	return true;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decoding blocks of bytes: first all literals, from four lanes of a quarter
 * each, in which the class of a literal says the table of the next one; then the
 * tokens, each of which copies literals and a match.
 */
#include "block.h"

#define LITERALS_A_REFILL	(ZWORD_REFILLED / ZWORD_LITERAL_CODE_MAX)

/* An entry holds the class of its literal where its length ends. */
static inline u32 literal_read(const struct zword_byte_decoder *tables,
			       struct zword_reader *lane, u32 before,
			       u8 *literal)
{
	u32 class = (before & ZWORD_ENTRY_CLASS) >> 4;
	u32 entry = tables->table[class][lane->bits & (ZWORD_LITERAL_CODES - 1)];

	zword_skip(lane, entry & ZWORD_ENTRY_LENGTH);
	*literal = (u8)(entry >> ZWORD_ENTRY_SHIFT);
	return entry;
}

/* What is left of a lane, or all of it. */
static bool lane_end(const struct zword_byte_decoder *tables,
		     struct zword_reader lane, u32 entry, u8 *literal,
		     u8 *end, const struct zword_decoding *job, u32 stream)
{
	for (; literal < end; literal++) {
		zword_refill(&lane, job->src, job->src_size);
		entry = literal_read(tables, &lane, entry, literal);
	}
	return zword_reader_used(&lane) == job->header.start[stream + 1];
}

static inline u8 *lane_limit(u8 *limit, u8 *end)
{
	return limit < end ? limit : end;
}

static int literals_read(const struct zword_byte_decoder *tables, u8 *literal,
			 const struct zword_decoding *job)
{
	const u32 *start = job->header.start;
	u32 count = job->header.count, quarter = (count + 3) / 4;
	struct zword_reader a = { .at = start[1] }, b = { .at = start[2] };
	struct zword_reader c = { .at = start[3] }, d = { .at = start[4] };
	u32 ea = tables->first, eb = ea, ec = ea, ed = ea, k;
	u8 *la = literal, *lb = la + quarter, *lc = lb + quarter;
	u8 *ld = lc + quarter, *end = literal + count;
	/* The last lane may be shorter: what all have, then the others' rest. */
	u32 common = count > 3 * quarter ? count - 3 * quarter : 0;

	for (; common >= LITERALS_A_REFILL; common -= LITERALS_A_REFILL) {
		zword_refill(&a, job->src, job->src_size);
		zword_refill(&b, job->src, job->src_size);
		zword_refill(&c, job->src, job->src_size);
		zword_refill(&d, job->src, job->src_size);
		for (k = 0; k < LITERALS_A_REFILL; k++) {
			ea = literal_read(tables, &a, ea, la++);
			eb = literal_read(tables, &b, eb, lb++);
			ec = literal_read(tables, &c, ec, lc++);
			ed = literal_read(tables, &d, ed, ld++);
		}
	}
	if (!lane_end(tables, a, ea, la, lane_limit(literal + quarter, end), job, 1) ||
	    !lane_end(tables, b, eb, lb, lane_limit(literal + 2 * quarter, end), job, 2) ||
	    !lane_end(tables, c, ec, lc, lane_limit(literal + 3 * quarter, end), job, 3) ||
	    !lane_end(tables, d, ed, ld, end, job, 4))
		return -EBADMSG;
	return 0;
}

/* A byte of one of the tables behind the literals'. */
static inline u32 byte_read(const struct zword_byte_decoder *tables,
			    struct zword_reader *reader, u32 table)
{
	u32 entry = tables->table[table][reader->bits &
					 (ZWORD_LITERAL_CODES - 1)];

	zword_skip(reader, entry & ZWORD_ENTRY_LENGTH);
	return entry >> ZWORD_ENTRY_SHIFT;
}

struct token {
	u32 literals;
	u32 length;	/* of the match, 0: none */
	u32 offset;	/* in: of the match before */
};

/* More literals than a block has are the caller's to refuse. */
static inline void token_read(const struct zword_byte_decoder *tables,
			      struct zword_reader *reader,
			      const struct zword_decoding *job,
			      struct token *token)
{
	u32 entry, symbol, match, more;

	zword_refill(reader, job->src, job->src_size);
	entry = tables->token[reader->bits & (ZWORD_TOKEN_CODES - 1)];
	zword_skip(reader, entry & ZWORD_ENTRY_LENGTH);
	symbol = entry >> ZWORD_ENTRY_SHIFT;
	match = ZWORD_MATCH_NONE;
	token->literals = symbol - 8 * ZWORD_LENGTH_CODES * 3;
	token->length = 0;
	if (symbol < 8 * ZWORD_LENGTH_CODES * 3) {
		match = symbol % 3 + 1;
		symbol /= 3;
		token->length = ZWORD_MATCH_MIN + symbol % ZWORD_LENGTH_CODES;
		token->literals = symbol / ZWORD_LENGTH_CODES;
	}
	if (token->literals == ZWORD_LITERALS_LONG) {
		do {
			more = byte_read(tables, reader, ZWORD_BYTE_LENGTH);
			token->literals += more;
			zword_refill(reader, job->src, job->src_size);
		} while (more == 255 && token->literals <= ZWORD_BLOCK_SIZE);
	}
	if (token->length == ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
		token->length += byte_read(tables, reader, ZWORD_BYTE_LENGTH);
	if (match == ZWORD_MATCH_NEAR) {
		token->offset = 1 + byte_read(tables, reader, ZWORD_BYTE_NEAR);
	} else if (match == ZWORD_MATCH_FAR) {
		token->offset = 1 + 256 * byte_read(tables, reader,
						    ZWORD_BYTE_FAR);
		token->offset += reader->bits & 0xff;
		zword_skip(reader, 8);
	}
}

/* May write up to 7 bytes behind length, before end. */
static inline void match_copy(u8 *to, u32 length, u32 offset, const u8 *end)
{
	const u8 *from = to - offset;
	u32 k;

	if (offset >= 8 && (u32)(end - to) >= length + 7) {
		for (k = 0; k < length; k += 8)
			zm_put64(to + k, zm_get64(from + k));
		return;
	}
	for (k = 0; k < length; k++)
		to[k] = from[k];
}

/* The same; behind the literals there is room to read. */
static inline void literals_copy(u8 *to, const u8 *from, u32 count,
				 const u8 *end)
{
	u32 k;

	if ((u32)(end - to) < count + 7) {
		memcpy(to, from, count);
		return;
	}
	for (k = 0; k < count; k += 8)
		zm_put64(to + k, zm_get64(from + k));
}

int zword_bytes_decode(const struct zword_byte_decoder *tables,
		       struct zword_byte_memory *memory,
		       const struct zword_decoding *job)
{
	const u8 *literal = memory->literal;
	u8 *page = job->page;
	u32 at = job->from, end = at + ZWORD_BLOCK_SIZE;
	u32 left = job->header.count;
	struct token token = { .offset = ZWORD_AGAIN_FIRST };
	struct zword_reader reader;

	if (left > ZWORD_BLOCK_SIZE || literals_read(tables, memory->literal, job))
		return -EBADMSG;
	zword_reader_start(&reader, job->header.start[0]);
	while (at < end) {
		token_read(tables, &reader, job, &token);
		if (token.literals > left || token.literals > end - at)
			return -EBADMSG;
		/* A token that makes nothing could be read for ever. */
		if (token.literals + token.length == 0)
			return -EBADMSG;
		literals_copy(page + at, literal, token.literals, page + end);
		literal += token.literals;
		left -= token.literals;
		at += token.literals;
		if (!token.length)
			continue;
		if (token.length > end - at || token.offset > at)
			return -EBADMSG;
		match_copy(page + at, token.length, token.offset, page + end);
		at += token.length;
	}
	if (left || zword_reader_used(&reader) != job->header.start[1])
		return -EBADMSG;
	return 0;
}

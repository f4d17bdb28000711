// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encoding blocks of words: what parse_words.c left becomes codes. All that is
 * written is bounded by the words of a block.
 */
#include "block.h"

static inline u32 literal_code(const struct zword_word_codes *codes,
			       const struct zword_word_parse *parse, u32 k)
{
	return codes->literal[parse->table[k]][parse->literal[k]];
}

/* One token of so many has a vote, and one literal; offsets and runs have none. */
#define VOTE_TOKENS	4u
#define VOTE_LITERALS	8u

u32 zword_words_elect(const struct zword_word_encoder *tables,
		      const struct zword_word_parse *parse)
{
	u32 count = 0, context, k;
	u64 votes = 0, literals = 0;

	for (k = 1; k < parse->tokens; k += VOTE_TOKENS) {
		context = zword_context(zword_token_kind(parse->token[k - 1]));
		votes += zword_vote(tables->vote.token[context]
					[tables->symbol[parse->token[k]]]);
		count += VOTE_TOKENS;
	}
	for (k = 0; k < parse->literals; k += VOTE_LITERALS) {
		if (parse->table[k] >= ZWORD_WORD_LITERALS)
			continue;
		literals += zword_vote(tables->vote.literal[parse->table[k]]
							   [parse->literal[k]]);
		count += VOTE_LITERALS;
	}
	return zword_set_elect(VOTE_TOKENS * votes + VOTE_LITERALS * literals,
			       count);
}

static inline u32 lane_bits(const struct zword_word_codes *codes,
			    const struct zword_word_parse *parse, u32 k)
{
	u32 bits = 0;

	for (; k < parse->literals; k += ZWORD_LANES)
		bits += literal_code(codes, parse, k) & ZWORD_ENTRY_LENGTH;
	return bits;
}

void zword_words_measure(const struct zword_word_encoder *tables,
			 const struct zword_word_parse *parse, u32 set,
			 struct zword_size *size)
{
	const struct zword_word_codes *codes = &tables->codes[set];
	u32 second = parse->tokens - parse->tokens / 2;
	u32 context = 0, stream = 0, symbol, k;

	*size = (struct zword_size){ .all = 0 };
	for (k = 0; k < parse->tokens; k++) {
		if (k == second) {
			context = 0;
			stream = 1;
		}
		symbol = tables->symbol[parse->token[k]];
		size->bits[stream] += codes->token[context][symbol] &
				      ZWORD_ENTRY_LENGTH;
		if (symbol == ZWORD_ESCAPE)
			size->bits[stream] += ZWORD_TOKEN_BITS;
		context = zword_context(zword_token_kind(parse->token[k]));
	}
	for (k = 0; k < ZWORD_LANES; k++)
		size->bits[2 + k] = lane_bits(codes, parse, k);
	zword_size_sum(size, ZWORD_WORD_STREAMS);
}

/* The context of the next token. */
static __always_inline u32 token_add(const struct zword_word_encoder *tables,
				     const struct zword_word_codes *codes,
				     u32 context, u32 token,
				     struct zword_writer *writer)
{
	u32 symbol = tables->symbol[token];
	u32 code = codes->token[context][symbol];

	zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
	if (symbol == ZWORD_ESCAPE)
		zword_add(writer, token, ZWORD_TOKEN_BITS);
	return zword_context(zword_token_kind(token));
}

/* Two tokens a flush, escaped even. */
static_assert(7 + 2 * (ZWORD_TOKEN_CODE_MAX + ZWORD_TOKEN_BITS) <= 63,
	      "bits of a writer");

static bool tokens_write(const struct zword_word_encoder *tables,
			 const struct zword_word_codes *codes,
			 const u16 *token, const u16 *end,
			 struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 context = 0;

	for (; token + 2 <= end; token += 2) {
		context = token_add(tables, codes, context, token[0], writer);
		context = token_add(tables, codes, context, token[1], writer);
		if (!zword_flush(writer, dst, capacity))
			return false;
	}
	if (token < end)
		token_add(tables, codes, context, *token, writer);
	return zword_finish(writer, dst, capacity);
}

static __always_inline void literal_add(const struct zword_word_codes *codes,
					const struct zword_word_parse *parse,
					u32 k, struct zword_writer *writer)
{
	u32 code = literal_code(codes, parse, k);

	zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
}

/* What stands in the lane that begins with literal k. */
static bool lane_write(const struct zword_word_codes *codes,
		       const struct zword_word_parse *parse, u32 k,
		       struct zword_writer *writer, u8 *dst, u32 capacity)
{
	for (; k + 4 * ZWORD_LANES < parse->literals; k += 5 * ZWORD_LANES) {
		literal_add(codes, parse, k, writer);
		literal_add(codes, parse, k + ZWORD_LANES, writer);
		literal_add(codes, parse, k + 2 * ZWORD_LANES, writer);
		literal_add(codes, parse, k + 3 * ZWORD_LANES, writer);
		literal_add(codes, parse, k + 4 * ZWORD_LANES, writer);
		if (!zword_flush(writer, dst, capacity))
			return false;
	}
	for (; k < parse->literals; k += ZWORD_LANES)
		literal_add(codes, parse, k, writer);
	return zword_finish(writer, dst, capacity);
}

u32 zword_words_write(const struct zword_word_encoder *tables,
		      const struct zword_word_parse *parse, u32 mode, u32 set,
		      u8 *dst, u32 capacity)
{
	const struct zword_word_codes *codes = &tables->codes[set];
	struct zword_writer writer = {
		.at = ZWORD_HEADER_SIZE(ZWORD_WORD_STREAMS, false),
	};
	const u16 *token = parse->token, *end = token + parse->tokens;
	const u16 *second = end - parse->tokens / 2;
	u32 start[ZWORD_WORD_STREAMS], k;

	if (!tokens_write(tables, codes, token, second, &writer, dst, capacity))
		return 0;
	start[0] = writer.at;
	if (!tokens_write(tables, codes, second, end, &writer, dst, capacity))
		return 0;
	for (k = 0; k < ZWORD_LANES; k++) {
		start[1 + k] = writer.at;
		if (!lane_write(codes, parse, k, &writer, dst, capacity))
			return 0;
	}
	start[1 + k] = writer.at;
	return zword_header_write(dst, capacity, mode | set << ZWORD_SET_SHIFT |
				  parse->tokens << ZWORD_COUNT_SHIFT,
				  ZWORD_WORD_STREAMS, start);
}

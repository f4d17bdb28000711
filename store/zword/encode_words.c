// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encoding blocks of words: the parse chooses a reference for each word, the
 * writer codes what the parse left.
 *
 * The source may change while it is read, so nothing that was seen once is
 * counted on: a word is in a register when its literals are taken, positions are
 * made of a hash, and all that is written is bounded by the words of a block.
 */
#include "block.h"

#define COST_BIT	16u
/* What a reference is worth that also fits the next word. */
#define COST_NEXT	(5 * COST_BIT / 2)
/* A word at the stride that costs no more is taken without a look elsewhere. */
#define COST_CHEAP	(11 * COST_BIT)

#define HASH_BITS	10

/* A word before the page. */
static const u64 nothing[2];

enum { HERE, ZERO, LINEAR, WHOLE, HIGH, CHOICES };

/* The choice's number stands below its cost. */
#define CHOICE_BITS	3

static inline u32 hash_of(u64 word)
{
	return (u32)(word * 0x9e3779b97f4a7c15ull >> (64 - HASH_BITS));
}

static inline u64 word_before(const u8 *page, u32 at, u32 back, u32 width)
{
	const u8 *from = page + (at - back);

	if (at < back)
		from = (const u8 *)nothing;
	return zword_get_word(from, width);
}

static inline u32 lesser(u32 one, u32 other)
{
	return one < other ? one : other;
}

/* Whole words of so many bytes that are equal. */
static inline u32 equal_of(u64 differ, u32 width)
{
	return (u32)__builtin_ctzll(differ) / 8 & -width;
}

/*
 * How many words from here on equal their reference, or are 0; all in bytes. Where
 * words of 32 bits are read in pairs, both are in the block.
 */
static inline u32 run_of(const u8 *page, u32 at, u32 end, u32 back, u32 width)
{
	u32 begin = at;
	u64 differ;

	if (end - at > ZWORD_RUN_MAX * width)
		end = at + ZWORD_RUN_MAX * width;
	for (; at < end && at < back; at += width)
		if (zword_get_word(page + at, width))
			return at - begin;
	for (; at + 8 <= end; at += 8) {
		differ = zword_get_le64(page + at) ^
			 zword_get_le64(page + at - back);
		if (differ)
			return at - begin + equal_of(differ, width);
	}
	if (width == 4 && at < end &&
	    zword_get_word(page + at, 4) == zword_get_word(page + at - back, 4))
		at += width;
	return at - begin;
}

static inline u32 zeros_of(const u8 *page, u32 at, u32 end, u32 width)
{
	u32 begin = at;
	u64 word;

	if (end - at > ZWORD_RUN_MAX * width)
		end = at + ZWORD_RUN_MAX * width;
	for (; at + 8 <= end; at += 8) {
		word = zword_get_le64(page + at);
		if (word)
			return at - begin + equal_of(word, width);
	}
	if (width == 4 && at < end && !zword_get_word(page + at, 4))
		at += width;
	return at - begin;
}

static inline bool parse(const struct zword_word_encoder *tables,
			 const struct zword_word_decoder *masks,
			 struct zword_encoding *work, u32 width,
			 const u8 *page, u32 from, u32 size, u32 limit)
{
	const u64 low_half = width == 8 ? ~0ull : 0xffffffffull;
	struct zword_word_parse *parse = &work->parse.word;
	u16 *whole = work->positions.word.whole, *high = work->positions.word.high;
	u32 at = from, end = from + size, back = width;
	u16 *token = parse->token;
	u8 *literal = parse->literal, *table = parse->table;
	struct zword_budget budget;

	zword_budget_start(&budget, from, limit);
	while (at < end) {
		u64 word = zword_get_word(page + at, width);
		u64 reference = word_before(page, at, back, width);
		u32 w = hash_of(word), h = hash_of(word >> (width == 8 ? 16 : 8));
		u32 wholes = whole[w], highs = high[h];
		u32 set = zword_bytes_set(word ^ reference);
		u32 cost = tables->cost[ZWORD_STRIDE][set];
		u32 kind = ZWORD_STRIDE, m, run, run_class, offset;
		const struct zword_mask *mask;
		u64 differ, linear;

		whole[w] = (u16)(at / width);
		high[h] = (u16)(at / width);
		linear = (2 * reference -
			  word_before(page, at, 2 * back, width)) & low_half;
		if (word == linear && word != reference) {
			kind = ZWORD_LINEAR;
			reference = word;
			set = 0;
			cost = tables->cost[ZWORD_LINEAR][0];
		} else if (cost > COST_CHEAP && at) {
			u64 a = zword_get_word(page + wholes * width, width);

			if (!word) {
				kind = ZWORD_ZERO;
				reference = 0;
				set = 0;
				cost = tables->cost[ZWORD_ZERO][0];
			} else if (a == word) {
				kind = ZWORD_NEAR;
				reference = word;
				set = 0;
				back = at - wholes * width;
				cost = tables->cost[ZWORD_NEAR][0] + tables->offset_cost[lesser(back / width, 257) - 1];
				kind += back > 256 * width;
			} else {
			u64 b = zword_get_word(page + highs * width, width);
			u32 bb = at - highs * width;
			u32 best, other, from_choice, zero_set, linear_set, high_set;
			u32 ahead = at + width < end ? width : 0;
			u64 next = zword_get_word(page + at + ahead, width);
			u32 bonus;

			bonus = word_before(page, at + ahead, back, width) == next ? 0 : COST_NEXT;
			cost += bonus;
			best = cost << 2;
			zero_set = zword_bytes_set(word);
			linear_set = zword_bytes_set(word ^ linear);
			high_set = zword_bytes_set(word ^ b);
			other = (tables->cost[ZWORD_ZERO][zero_set] + bonus) << 2 | 1;
			best = lesser(best, other);
			other = (tables->cost[ZWORD_LINEAR][linear_set] + bonus) << 2 | 2;
			best = lesser(best, other);
			bonus = zword_get_word(page + highs * width + ahead, width) == next ? 0 : COST_NEXT;
			other = (tables->cost[ZWORD_NEAR][high_set] + bonus + tables->offset_cost[lesser(bb / width, 257) - 1]) << 2 | 3;
			best = lesser(best, other);
			from_choice = best & 3;
			cost = best >> 2;
			kind = 0x2410 >> 4 * from_choice & 15;
			set = from_choice == 1 ? zero_set : set;
			set = from_choice == 2 ? linear_set : set;
			set = from_choice == 3 ? high_set : set;
			reference = from_choice == 1 ? 0 : reference;
			reference = from_choice == 2 ? linear : reference;
			reference = from_choice == 3 ? b : reference;
			back = from_choice == 3 ? bb : back;
			kind += kind == ZWORD_NEAR && back > 256 * width;
			}
		}
		budget.spent += cost;
		at += width;
		run = kind == ZWORD_ZERO ? zeros_of(page, at, end, width) :
					   run_of(page, at, end, back, width);
		at += run;
		run /= width;
		differ = zword_bytes_sub(word, reference);
		m = tables->mask[set];
		mask = &masks->mask[m];
		run_class = run < ZWORD_RUN_LONG ? run : ZWORD_RUN_LONG;
		offset = back / width - 1;
		*token++ = (u16)zword_token(kind, m, run_class);
		zword_put_le64(literal, (differ & mask->low) >> mask->low_shift |
			       (differ & mask->high) >> mask->high_shift);
		zword_put_le64(table, tables->table_of[zword_group(kind)][m]);
		literal += mask->count;
		table += mask->count;
		if (kind == ZWORD_FAR) {
			*literal++ = (u8)(offset >> 8);
			*table++ = ZWORD_RUNS;
		}
		*literal = (u8)offset;
		*table = kind == ZWORD_FAR ? ZWORD_RUNS : ZWORD_OFFSETS;
		literal += kind == ZWORD_NEAR || kind == ZWORD_FAR;
		table += kind == ZWORD_NEAR || kind == ZWORD_FAR;
		*literal = (u8)(run - ZWORD_RUN_LONG);
		*table = ZWORD_RUNS;
		literal += run_class == ZWORD_RUN_LONG;
		table += run_class == ZWORD_RUN_LONG;
		if (at >= budget.check) {
			budget.spent /= COST_BIT;
			if (!zword_budget_left(&budget, 0))
				return false;
			budget.spent *= COST_BIT;
		}
	}
	parse->spent = budget.spent / COST_BIT;
	parse->tokens = (u32)(token - parse->token);
	parse->literals = (u32)(literal - parse->literal);
	return true;
}

bool zword_words_parse(const struct zword_word_encoder *tables,
		       const struct zword_word_decoder *masks,
		       struct zword_encoding *work, u32 width,
		       const u8 *page, u32 from, u32 size, u32 limit)
{
	return width == 8 ? parse(tables, masks, work, 8, page, from, size, limit) :
			    parse(tables, masks, work, 4, page, from, size, limit);
}

static inline u32 literal_code(const struct zword_word_codes *codes,
			       const struct zword_word_parse *parse, u32 k)
{
	return codes->literal[parse->table[k]][parse->literal[k]];
}

/* Every other literal has a vote, for two. */
#define VOTE_STEP	2u

u32 zword_words_elect(const struct zword_word_encoder *tables,
		      const struct zword_word_parse *parse)
{
	u32 context = 0, k;
	u64 votes = 0;

	for (k = 0; k < parse->tokens; k++) {
		u32 token = parse->token[k];

		votes += zword_vote(tables->vote.token[context]
					[tables->symbol[token]]);
		context = zword_context(zword_token_kind(token));
	}
	for (k = 0; k < parse->literals; k += VOTE_STEP)
		votes += VOTE_STEP *
			 zword_vote(literal_code(&tables->vote, parse, k));
	return zword_set_elect(votes, parse->tokens +
				      (k / VOTE_STEP) * VOTE_STEP);
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
	u32 context = 0, symbol, k;

	*size = (struct zword_size){ .all = 0 };
	for (k = 0; k < parse->tokens; k++) {
		symbol = tables->symbol[parse->token[k]];
		size->bits[0] += codes->token[context][symbol] &
				 ZWORD_ENTRY_LENGTH;
		if (symbol == ZWORD_ESCAPE)
			size->bits[0] += ZWORD_TOKEN_BITS;
		context = zword_context(zword_token_kind(parse->token[k]));
	}
	for (k = 0; k < ZWORD_LANES; k++)
		size->bits[1 + k] = lane_bits(codes, parse, k);
	zword_size_sum(size, ZWORD_WORD_STREAMS);
}

static bool tokens_write(const struct zword_word_encoder *tables,
			 const struct zword_word_codes *codes,
			 const struct zword_word_parse *parse,
			 struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 context = 0, symbol, k;

	for (k = 0; k < parse->tokens; k++) {
		u32 token = parse->token[k], code;

		symbol = tables->symbol[token];
		code = codes->token[context][symbol];
		zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
		if (symbol == ZWORD_ESCAPE)
			zword_add(writer, token, ZWORD_TOKEN_BITS);
		context = zword_context(zword_token_kind(token));
		if (writer->count > 63 - ZWORD_TOKEN_CODE_MAX -
				    ZWORD_TOKEN_BITS &&
		    !zword_flush(writer, dst, capacity))
			return false;
	}
	return zword_finish(writer, dst, capacity);
}

static bool lane_write(const struct zword_word_codes *codes,
		       const struct zword_word_parse *parse, u32 lane,
		       struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 k = lane, few, code;

	while (k < parse->literals) {
		for (few = 0; few < ZWORD_LITERALS_A_FLUSH &&
			      k < parse->literals; few++, k += ZWORD_LANES) {
			code = literal_code(codes, parse, k);
			zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
		}
		if (!zword_flush(writer, dst, capacity))
			return false;
	}
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
	u32 start[ZWORD_WORD_STREAMS], k;

	if (!tokens_write(tables, codes, parse, &writer, dst, capacity))
		return 0;
	for (k = 0; k < ZWORD_LANES; k++) {
		start[k] = writer.at;
		if (!lane_write(codes, parse, k, &writer, dst, capacity))
			return 0;
	}
	start[k] = writer.at;
	return zword_header_write(dst, capacity, mode | set << ZWORD_SET_SHIFT |
				  parse->tokens << ZWORD_COUNT_SHIFT,
				  ZWORD_WORD_STREAMS, start);
}

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
#define COST_CHEAP	(6 * COST_BIT)
#define COST_FAR	(2 * 9 * COST_BIT)

#define HASH_BITS	10

/* What 7 bits left of the last byte leave room for. */
#define LITERALS_A_FLUSH	((63 - 7) / ZWORD_LITERAL_CODE_MAX)

/* One word and where it could come from. */
struct choice {
	u64 word;
	u64 literals;	/* bytes that differ from the reference's */
	u32 kind;
	u32 back;	/* words */
	u32 cost;
};

struct scan {
	const struct zword_word_encoder *tables;
	struct zword_positions *positions;
	const u8 *page;
	u32 at;		/* bytes, as is end */
	u32 end;
	u32 back;	/* the stride, in words */
};

static inline u32 hash_of(u64 word)
{
	return (u32)(word * 0x9e3779b97f4a7c15ull >> (64 - HASH_BITS));
}

static inline u64 word_before(const struct scan *scan, u32 back, u32 width)
{
	back *= width;
	return scan->at >= back ?
	       zword_get_word(scan->page + scan->at - back, width) : 0;
}

/* Whether the word behind this one equals its reference. */
static inline bool next_fits(const struct scan *scan, u32 back, u32 width,
			     u64 next)
{
	u32 at = scan->at + width;

	back *= width;
	return at >= back &&
	       zword_get_word(scan->page + at - back, width) == next;
}

static inline void consider(const struct scan *scan, struct choice *best,
			    u32 kind, u32 back, u64 reference, u32 extra)
{
	u64 literals = zword_bytes_sub(best->word, reference);
	u32 cost = scan->tables->cost[kind][zword_bytes_set(literals)] + extra;

	if (cost >= best->cost)
		return;
	best->literals = literals;
	best->kind = kind;
	best->back = back;
	best->cost = cost;
}

/* The word at a position where one of the same hash stood. */
static inline void consider_position(const struct scan *scan,
				     struct choice *best, u32 position,
				     u32 width, u64 next)
{
	u32 where = position * 4, back, extra;
	bool is_far;

	if (where >= scan->at || (scan->at - where) % width)
		return;
	back = (scan->at - where) / width;
	if (back == scan->back)
		return;
	is_far = back > 256;
	extra = is_far ? COST_FAR :
			 scan->tables->offset_cost[back - 1] * COST_BIT;
	if (!next_fits(scan, back, width, next))
		extra += COST_NEXT;
	consider(scan, best, is_far ? ZWORD_FAR : ZWORD_NEAR, back,
		 zword_get_word(scan->page + where, width), extra);
}

static inline void look_elsewhere(const struct scan *scan, struct choice *best,
				  u64 reference, u32 whole, u32 high, u32 width)
{
	u64 low_half = width == 8 ? ~0ull : 0xffffffffull, next = 0;
	u32 extra = COST_NEXT, position;

	if (scan->at + width < scan->end) {
		next = zword_get_word(scan->page + scan->at + width, width);
		if (next_fits(scan, scan->back, width, next))
			extra = 0;
	}
	best->cost += extra;
	consider(scan, best, ZWORD_ZERO, scan->back, 0, extra);
	consider(scan, best, ZWORD_LINEAR, scan->back,
		 (2 * reference - word_before(scan, 2 * scan->back, width)) &
		 low_half, extra);
	position = scan->positions->whole[whole];
	consider_position(scan, best, position, width, next);
	if (scan->positions->high[high] != position)
		consider_position(scan, best, scan->positions->high[high],
				  width, next);
}

static inline void choose(const struct scan *scan, struct choice *best,
			  u32 width)
{
	u64 reference = word_before(scan, scan->back, width);
	u32 whole = hash_of(best->word);
	u32 high = hash_of(best->word >> (width == 8 ? 16 : 8));

	best->literals = zword_bytes_sub(best->word, reference);
	best->kind = ZWORD_STRIDE;
	best->back = scan->back;
	best->cost = scan->tables->cost[ZWORD_STRIDE]
				       [zword_bytes_set(best->literals)];
	if (best->cost > COST_CHEAP)
		look_elsewhere(scan, best, reference, whole, high, width);
	scan->positions->whole[whole] = (u16)(scan->at / 4);
	scan->positions->high[high] = (u16)(scan->at / 4);
}

/* How many words from here on equal their reference. */
static inline u32 run_take(struct scan *scan, u32 kind, u32 width)
{
	u32 run = 0;
	u64 word;

	for (; scan->at < scan->end && run < ZWORD_RUN_MAX; run++) {
		word = zword_get_word(scan->page + scan->at, width);
		if (word != (kind == ZWORD_ZERO ? 0 :
			     word_before(scan, scan->back, width)))
			break;
		if (kind != ZWORD_ZERO) {
			scan->positions->whole[hash_of(word)] =
				(u16)(scan->at / 4);
			scan->positions->high[hash_of(word >>
				(width == 8 ? 16 : 8))] = (u16)(scan->at / 4);
		}
		scan->at += width;
	}
	return run;
}

static inline void put_token(struct zword_word_parse *parse,
			     const struct zword_word_decoder *masks,
			     const struct zword_word_encoder *tables,
			     const struct choice *choice, u32 run)
{
	u32 m = tables->mask[zword_bytes_set(choice->literals)];
	const struct zword_mask *mask = &masks->mask[m];
	u32 run_class = run < ZWORD_RUN_LONG ? run : ZWORD_RUN_LONG;
	u32 at = parse->literals, offset = choice->back - 1;

	parse->token[parse->tokens++] =
		(u16)zword_token(choice->kind, m, run_class);
	parse->literal[at] = (u8)(run - ZWORD_RUN_LONG);
	parse->table[at] = ZWORD_RUNS;
	at += run_class == ZWORD_RUN_LONG;
	if (choice->kind == ZWORD_FAR) {
		parse->literal[at] = (u8)(offset >> 8);
		parse->table[at++] = ZWORD_RUNS;
	}
	parse->literal[at] = (u8)offset;
	parse->table[at] = choice->kind == ZWORD_FAR ? ZWORD_RUNS :
						       ZWORD_OFFSETS;
	at += choice->kind == ZWORD_NEAR || choice->kind == ZWORD_FAR;
	zword_put_le64(parse->literal + at,
		       (choice->literals & mask->low) >> mask->low_shift |
		       (choice->literals & mask->high) >> mask->high_shift);
	zword_put_le64(parse->table + at,
		       masks->table_of[zword_group(choice->kind)][m]);
	parse->literals = at + mask->count;
}

static inline bool parse(const struct zword_word_encoder *tables,
			 const struct zword_word_decoder *masks,
			 struct zword_encoding *work, u32 width,
			 const u8 *page, u32 from, u32 limit)
{
	struct scan scan = {
		.tables = tables,
		.positions = &work->words,
		.page = page,
		.at = from,
		.end = from + ZWORD_BLOCK_SIZE,
		.back = 1,
	};
	struct zword_budget budget;
	struct choice choice;

	zword_budget_start(&budget, from, limit);
	work->parse.word.tokens = 0;
	work->parse.word.literals = 0;
	while (scan.at < scan.end) {
		choice.word = zword_get_word(page + scan.at, width);
		choose(&scan, &choice, width);
		scan.back = choice.back;
		scan.at += width;
		put_token(&work->parse.word, masks, tables, &choice,
			  run_take(&scan, choice.kind, width));
		budget.spent += choice.cost / COST_BIT;
		if (scan.at >= budget.check && !zword_budget_left(&budget, 0))
			return false;
	}
	return true;
}

bool zword_words_parse(const struct zword_word_encoder *tables,
		       const struct zword_word_decoder *masks,
		       struct zword_encoding *work, u32 width,
		       const u8 *page, u32 from, u32 limit)
{
	return width == 8 ? parse(tables, masks, work, 8, page, from, limit) :
			    parse(tables, masks, work, 4, page, from, limit);
}

static inline u32 literal_code(const struct zword_word_encoder *tables,
			       const struct zword_word_parse *parse, u32 k)
{
	return tables->literal[parse->table[k]][parse->literal[k]];
}

static inline u32 lane_bits(const struct zword_word_encoder *tables,
			    const struct zword_word_parse *parse, u32 k)
{
	u32 bits = 0;

	for (; k < parse->literals; k += ZWORD_LANES)
		bits += literal_code(tables, parse, k) & ZWORD_ENTRY_LENGTH;
	return bits;
}

void zword_words_measure(const struct zword_word_encoder *tables,
			 const struct zword_word_parse *parse,
			 struct zword_size *size)
{
	u32 context = 0, symbol, k;

	*size = (struct zword_size){ .wide = 0 };
	for (k = 0; k < parse->tokens; k++) {
		symbol = tables->symbol[parse->token[k]];
		size->bits[0] += tables->token[context][symbol] &
				 ZWORD_ENTRY_LENGTH;
		if (symbol == ZWORD_ESCAPE)
			size->bits[0] += ZWORD_TOKEN_BITS;
		context = zword_token_kind(parse->token[k]) == ZWORD_ZERO;
	}
	for (k = 0; k < ZWORD_LANES; k++)
		size->bits[1 + k] = lane_bits(tables, parse, k);
	zword_size_sum(size);
}

static bool tokens_write(const struct zword_word_encoder *tables,
			 const struct zword_word_parse *parse,
			 struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 context = 0, symbol, k;

	for (k = 0; k < parse->tokens; k++) {
		u32 token = parse->token[k], code;

		symbol = tables->symbol[token];
		code = tables->token[context][symbol];
		zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
		if (symbol == ZWORD_ESCAPE)
			zword_add(writer, token, ZWORD_TOKEN_BITS);
		context = zword_token_kind(token) == ZWORD_ZERO;
		if (writer->count > 63 - ZWORD_TOKEN_CODE_MAX -
				    ZWORD_TOKEN_BITS &&
		    !zword_flush(writer, dst, capacity))
			return false;
	}
	return zword_finish(writer, dst, capacity);
}

static bool lane_write(const struct zword_word_encoder *tables,
		       const struct zword_word_parse *parse, u32 lane,
		       struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 k = lane, few, code;

	while (k < parse->literals) {
		for (few = 0; few < LITERALS_A_FLUSH && k < parse->literals;
		     few++, k += ZWORD_LANES) {
			code = literal_code(tables, parse, k);
			zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
		}
		if (!zword_flush(writer, dst, capacity))
			return false;
	}
	return zword_finish(writer, dst, capacity);
}

bool zword_words_write(const struct zword_word_encoder *tables,
		       const struct zword_word_parse *parse, u32 mode,
		       const struct zword_size *size, u8 *dst, u32 capacity)
{
	struct zword_writer writer = { .bits = 0 };
	u32 k;

	if (size->all > capacity)
		return false;
	writer.at = zword_header_write(dst, mode, parse->tokens, size);
	if (!tokens_write(tables, parse, &writer, dst, capacity))
		return false;
	for (k = 0; k < ZWORD_LANES; k++)
		if (!lane_write(tables, parse, k, &writer, dst, capacity))
			return false;
	return true;
}

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
static const u64 nothing[1];

/* One word and where it comes from. */
struct choice {
	u64 word;
	u64 reference;
	u32 set;	/* which bytes differ between them */
	u32 kind;
	u32 back;	/* bytes */
	u32 cost;
};

struct scan {
	const struct zword_word_encoder *tables;
	struct zword_positions *positions;
	const u8 *page;
	u32 at;		/* bytes, as are the others */
	u32 end;
	u32 back;
};

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
static inline u32 run_of(const struct scan *scan, u32 width)
{
	u32 at = scan->at, begin = at, back = scan->back;
	u32 end = lesser(scan->end, at + ZWORD_RUN_MAX * width);
	const u8 *page = scan->page;
	u64 differ;

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

static inline u32 zeros_of(const struct scan *scan, u32 width)
{
	u32 at = scan->at, begin = at;
	u32 end = lesser(scan->end, at + ZWORD_RUN_MAX * width);
	const u8 *page = scan->page;
	u64 word;

	for (; at + 8 <= end; at += 8) {
		word = zword_get_le64(page + at);
		if (word)
			return at - begin + equal_of(word, width);
	}
	if (width == 4 && at < end && !zword_get_word(page + at, 4))
		at += width;
	return at - begin;
}

static inline u32 near_cost(const struct scan *scan, u32 back, u32 width)
{
	return scan->tables->offset_cost[lesser(back / width, 257) - 1];
}

/*
 * Zero, the linear prediction, or the last word with the same upper bits: which is
 * cheapest, without a branch, since none could be foreseen. Their numbers, below
 * their costs, are 0 for the stride, then 1, 2, 3.
 */
static inline void look_elsewhere(const struct scan *scan,
				  struct choice *choice, u64 linear, u32 place,
				  u32 width)
{
	const u8 *page = scan->page, *there = page + place;
	const u16 (*costs)[256] = scan->tables->cost;
	u32 ahead = scan->at + width < scan->end ? width : 0;
	u64 next = zword_get_word(page + scan->at + ahead, width);
	u64 other = zword_get_word(there, width);
	u32 zero_set = zword_bytes_set(choice->word);
	u32 linear_set = zword_bytes_set(choice->word ^ linear);
	u32 other_set = zword_bytes_set(choice->word ^ other);
	u32 back = scan->at - place, best, number, extra;

	extra = word_before(page, scan->at + ahead, scan->back, width) == next ?
		0 : COST_NEXT;
	best = (choice->cost + extra) << 2;
	best = lesser(best, (costs[ZWORD_ZERO][zero_set] + extra) << 2 | 1);
	best = lesser(best, (costs[ZWORD_LINEAR][linear_set] + extra) << 2 | 2);
	extra = zword_get_word(there + ahead, width) == next ? 0 : COST_NEXT;
	extra += near_cost(scan, back, width);
	best = lesser(best, (costs[ZWORD_NEAR][other_set] + extra) << 2 | 3);
	number = best & 3;
	choice->cost = best >> 2;
	/* ZWORD_STRIDE, ZWORD_ZERO, ZWORD_LINEAR, ZWORD_NEAR, by number. */
	choice->kind = 0x2410 >> 4 * number & 15;
	choice->set = number == 1 ? zero_set : choice->set;
	choice->set = number == 2 ? linear_set : choice->set;
	choice->set = number == 3 ? other_set : choice->set;
	choice->reference = number == 1 ? 0 : choice->reference;
	choice->reference = number == 2 ? linear : choice->reference;
	choice->reference = number == 3 ? other : choice->reference;
	choice->back = number == 3 ? back : choice->back;
	choice->kind += choice->kind == ZWORD_NEAR && back > 256 * width;
}

/* The word is one that has no bytes to tell. */
static inline void take_whole(const struct scan *scan, struct choice *choice,
			      u32 kind)
{
	choice->kind = kind;
	choice->reference = choice->word;
	choice->set = 0;
	choice->cost = scan->tables->cost[kind][0];
}

static inline void choose(const struct scan *scan, struct choice *choice,
			  u32 width)
{
	const u64 low_half = width == 8 ? ~0ull : 0xffffffffull;
	u16 *whole = &scan->positions->whole[hash_of(choice->word)];
	u16 *high = &scan->positions->high[hash_of(choice->word >>
						   (width == 8 ? 16 : 8))];
	u32 whole_place = *whole * width, high_place = *high * width;
	u64 linear;

	*whole = (u16)(scan->at / width);
	*high = (u16)(scan->at / width);
	choice->back = scan->back;
	choice->kind = ZWORD_STRIDE;
	choice->reference = word_before(scan->page, scan->at, scan->back, width);
	choice->set = zword_bytes_set(choice->word ^ choice->reference);
	choice->cost = scan->tables->cost[ZWORD_STRIDE][choice->set];
	linear = (2 * choice->reference -
		  word_before(scan->page, scan->at, 2 * scan->back, width)) &
		 low_half;
	if (choice->word == linear && choice->set) {
		take_whole(scan, choice, ZWORD_LINEAR);
		return;
	}
	/* Before the first word there are no others. */
	if (choice->cost <= COST_CHEAP || !scan->at)
		return;
	if (!choice->word) {
		take_whole(scan, choice, ZWORD_ZERO);
	} else if (zword_get_word(scan->page + whole_place, width) ==
		   choice->word) {
		choice->back = scan->at - whole_place;
		take_whole(scan, choice, choice->back > 256 * width ?
					 ZWORD_FAR : ZWORD_NEAR);
		choice->cost += near_cost(scan, choice->back, width);
	} else {
		look_elsewhere(scan, choice, linear, high_place, width);
	}
}

/* Where what was parsed goes: the tables of literals beside the literals. */
struct output {
	u16 *token;
	u8 *literal;
	u8 *table;
};

static inline void put_byte(struct output *output, u32 byte, u32 table,
			    bool is_there)
{
	*output->literal = (u8)byte;
	*output->table = (u8)table;
	output->literal += is_there;
	output->table += is_there;
}

static inline void put_token(const struct zword_word_encoder *tables,
			     const struct zword_word_decoder *masks,
			     struct output *output, const struct choice *choice,
			     u32 run, u32 width)
{
	u32 m = tables->mask[choice->set], kind = choice->kind;
	const struct zword_mask *mask = &masks->mask[m];
	u64 literals = zword_bytes_sub(choice->word, choice->reference);
	u32 offset = choice->back / width - 1;
	bool is_far = kind == ZWORD_FAR;

	*output->token++ = (u16)zword_token(kind, m, lesser(run,
							    ZWORD_RUN_LONG));
	zword_put_le64(output->literal,
		       (literals & mask->low) >> mask->low_shift |
		       (literals & mask->high) >> mask->high_shift);
	zword_put_le64(output->table, tables->table_of[zword_group(kind)][m]);
	output->literal += mask->count;
	output->table += mask->count;
	if (is_far)
		put_byte(output, offset >> 8, ZWORD_RUNS, true);
	put_byte(output, offset, is_far ? ZWORD_RUNS : ZWORD_OFFSETS,
		 is_far || kind == ZWORD_NEAR);
	put_byte(output, run - ZWORD_RUN_LONG, ZWORD_RUNS,
		 run >= ZWORD_RUN_LONG);
}

static inline bool parse(const struct zword_word_encoder *tables,
			 const struct zword_word_decoder *masks,
			 struct zword_encoding *work, u32 width,
			 const struct zword_part *part)
{
	struct zword_word_parse *parsed = &work->parse.word;
	struct scan scan = {
		.tables = tables,
		.positions = &work->positions.word,
		.page = part->page,
		.at = part->from,
		.end = part->from + part->size,
		.back = width,
	};
	struct output output = {
		parsed->token, parsed->literal, parsed->table,
	};
	struct zword_budget budget;
	struct choice choice;
	u32 run;

	zword_budget_start(&budget, part);
	while (scan.at < scan.end) {
		choice.word = zword_get_word(part->page + scan.at, width);
		choose(&scan, &choice, width);
		scan.back = choice.back;
		scan.at += width;
		run = choice.kind == ZWORD_ZERO ? zeros_of(&scan, width) :
						  run_of(&scan, width);
		scan.at += run;
		put_token(tables, masks, &output, &choice, run / width, width);
		budget.spent += choice.cost;
		if (scan.at >= budget.check &&
		    !zword_budget_left(&budget, budget.spent / COST_BIT))
			return false;
	}
	parsed->spent = budget.spent / COST_BIT;
	parsed->tokens = (u32)(output.token - parsed->token);
	parsed->literals = (u32)(output.literal - parsed->literal);
	return true;
}

bool zword_words_parse(const struct zword_word_encoder *tables,
		       const struct zword_word_decoder *masks,
		       struct zword_encoding *work, u32 width,
		       const struct zword_part *part)
{
	return width == 8 ? parse(tables, masks, work, 8, part) :
			    parse(tables, masks, work, 4, part);
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

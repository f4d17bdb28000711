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

#define COST_BIT	2u
/* A word at the stride that costs no more is taken without a look elsewhere. */
#define COST_CHEAP	(11 * COST_BIT)

#define HASH_BITS	10

/* A word before the page. */
static const u64 nothing[1];

/* One word and where it comes from. */
struct choice {
	u64 word;
	u64 reference;	/* before a choice: the word at the stride */
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

static __always_inline u32 near_cost(const struct scan *scan, u32 back,
				     u32 width)
{
	return scan->tables->offset_cost[lesser(back / width, 257) - 1];
}

/* A reference, in one number: what is cheapest is least. */
static inline u32 candidate(u32 cost, u32 number, u32 set)
{
	return cost << 10 | number << 8 | set;
}

/*
 * Zero, the linear prediction, or the last word with the same upper bits: which is
 * cheapest, without a branch, since none could be foreseen.
 */
static __always_inline void look_elsewhere(const struct scan *scan,
					   struct choice *choice, u64 linear,
					   u32 place, u32 width)
{
	u64 word = choice->word, other = zword_get_word(scan->page + place, width);
	u32 zero_set = zword_bytes_set(word);
	u32 linear_set = zword_bytes_set(word ^ linear);
	u32 other_set = zword_bytes_set(word ^ other);
	const u8 (*costs)[256] = scan->tables->cost;
	u32 back = scan->at - place, best, number;

	best = candidate(choice->cost, 0, choice->set);
	best = lesser(best, candidate(costs[ZWORD_ZERO][zero_set], 1, zero_set));
	best = lesser(best, candidate(costs[ZWORD_LINEAR][linear_set], 2,
				      linear_set));
	best = lesser(best, candidate(costs[ZWORD_NEAR][other_set] +
				      near_cost(scan, back, width), 3,
				      other_set));
	number = best >> 8 & 3;
	choice->cost = best >> 10;
	choice->set = best & 0xff;
	/* ZWORD_STRIDE, ZWORD_ZERO, ZWORD_LINEAR, ZWORD_NEAR, by number. */
	choice->kind = 0x2410 >> 4 * number & 15;
	choice->reference = number == 1 ? 0 : choice->reference;
	choice->reference = number == 2 ? linear : choice->reference;
	choice->reference = number == 3 ? other : choice->reference;
	choice->back = number == 3 ? back : choice->back;
	choice->kind += number == 3 && back > 256 * width;
}

/* The word is one that has no bytes to tell. */
static __always_inline void take_whole(const struct scan *scan,
				       struct choice *choice, u32 kind)
{
	choice->kind = kind;
	choice->reference = choice->word;
	choice->set = 0;
	choice->cost = scan->tables->cost[kind][0];
}

/* In come the word and the one at the stride. */
static __always_inline void choose(const struct scan *scan,
				   struct choice *choice, u32 width)
{
	u32 whole_place, high_place;
	u16 *whole, *high;
	u64 linear;

	choice->back = scan->back;
	choice->kind = ZWORD_STRIDE;
	choice->set = zword_bytes_set(choice->word ^ choice->reference);
	choice->cost = scan->tables->cost[ZWORD_STRIDE][choice->set];
	linear = 2 * choice->reference -
		 word_before(scan->page, scan->at, 2 * scan->back, width);
	if (width == 4)
		linear &= 0xffffffff;
	if (choice->word == linear && choice->set) {
		take_whole(scan, choice, ZWORD_LINEAR);
		return;
	}
	if (choice->cost <= COST_CHEAP)
		return;
	whole = &scan->positions->whole[hash_of(choice->word)];
	high = &scan->positions->high[hash_of(choice->word >>
					      (width == 8 ? 16 : 8))];
	whole_place = *whole * width;
	high_place = *high * width;
	*whole = (u16)(scan->at / width);
	*high = (u16)(scan->at / width);
	/* Before the first word there are no others. */
	if (!scan->at)
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

static __always_inline void put_byte(struct output *output, u32 byte, u32 table)
{
	*output->literal++ = (u8)byte;
	*output->table++ = (u8)table;
}

/* A token without a run, as most are. */
static __always_inline void put_token(const struct zword_word_encoder *tables,
				      const struct zword_word_decoder *masks,
				      struct output *output,
				      const struct choice *choice, u32 width)
{
	u32 m = tables->mask[choice->set], kind = choice->kind;
	const struct zword_mask *mask = &masks->mask[m];
	u64 literals = zword_bytes_sub(choice->word, choice->reference);
	u32 offset = choice->back / width - 1;
	bool is_near = kind == ZWORD_NEAR;

	*output->token++ = (u16)zword_token(kind, m, 0);
	zword_put_le64(output->literal,
		       (literals & mask->low) >> mask->low_shift |
		       (literals & mask->high) >> mask->high_shift);
	zword_put_le64(output->table, tables->table_of[kind][m]);
	output->literal += mask->count;
	output->table += mask->count;
	if (kind == ZWORD_FAR) {
		put_byte(output, offset >> 8, ZWORD_RUNS);
		put_byte(output, offset, ZWORD_RUNS);
	}
	*output->literal = (u8)offset;
	*output->table = ZWORD_OFFSETS;
	output->literal += is_near;
	output->table += is_near;
}

/* The run of the last token. */
static inline void put_run(struct output *output, u32 run)
{
	output->token[-1] |= (u16)zword_token(0, 0, lesser(run, ZWORD_RUN_LONG));
	if (run >= ZWORD_RUN_LONG)
		put_byte(output, run - ZWORD_RUN_LONG, ZWORD_RUNS);
}

static __always_inline void look_at(const struct scan *scan,
				    struct choice *choice, u32 width)
{
	choice->word = zword_get_word(scan->page + scan->at, width);
	choice->reference = word_before(scan->page, scan->at, scan->back, width);
}

static __always_inline bool parse(const struct zword_word_encoder *tables,
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
	look_at(&scan, &choice, width);
	for (;;) {
		choose(&scan, &choice, width);
		put_token(tables, masks, &output, &choice, width);
		budget.spent += choice.cost;
		scan.back = choice.back;
		scan.at += width;
		if (scan.at >= scan.end)
			break;
		look_at(&scan, &choice, width);
		if (choice.word == (choice.kind == ZWORD_ZERO ?
				    0 : choice.reference)) {
			run = choice.kind == ZWORD_ZERO ?
			      zeros_of(&scan, width) : run_of(&scan, width);
			put_run(&output, run / width);
			scan.at += run;
			if (scan.at >= scan.end)
				break;
			look_at(&scan, &choice, width);
		}
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

/* One token of so many has a vote, and one literal; offsets and runs have none. */
#define VOTE_TOKENS	2u
#define VOTE_LITERALS	4u

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
_Static_assert(7 + 2 * (ZWORD_TOKEN_CODE_MAX + ZWORD_TOKEN_BITS) <= 63,
	       "bits of a writer");

static bool tokens_write(const struct zword_word_encoder *tables,
			 const struct zword_word_codes *codes,
			 const struct zword_word_parse *parse,
			 struct zword_writer *writer, u8 *dst, u32 capacity)
{
	const u16 *token = parse->token, *end = token + parse->tokens;
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
	for (; k + 5 * ZWORD_LANES < parse->literals; k += 6 * ZWORD_LANES) {
		literal_add(codes, parse, k, writer);
		literal_add(codes, parse, k + ZWORD_LANES, writer);
		literal_add(codes, parse, k + 2 * ZWORD_LANES, writer);
		literal_add(codes, parse, k + 3 * ZWORD_LANES, writer);
		literal_add(codes, parse, k + 4 * ZWORD_LANES, writer);
		literal_add(codes, parse, k + 5 * ZWORD_LANES, writer);
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

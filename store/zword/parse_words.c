// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parsing blocks of words: a reference for each word, and the run behind it. Quickly,
 * where a cheap reference is taken at once; or thoroughly, where many are compared.
 *
 * The source may change while it is read, so nothing that was seen once is
 * counted on: a word is in a register when its literals are taken, positions are
 * made of a hash, and each token takes a word of the block or more.
 */
#include "block.h"

#define COST_BIT	2u
/* A word at the stride that costs no more is taken without a look elsewhere. */
#define COST_CHEAP	(12 * COST_BIT)

/* A word before the page. */
static const u64 zero_word[1];

/* One word and where it comes from. */
struct choice {
	u64 word;
	u64 reference;	/* before a choice: the word at the stride */
	u32 set;	/* which bytes differ between them */
	u32 kind;
	u32 back;	/* bytes */
	u32 cost;
	u32 weight;	/* the cost, and more where it does not fit the next word */
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
	return (u32)(word * 0x9e3779b97f4a7c15ull >> (64 - ZWORD_POSITION_BITS));
}

static inline u64 word_before(const u8 *page, u32 at, u32 back, u32 width)
{
	const u8 *from = page + (at - back);

	if (at < back)
		from = (const u8 *)zero_word;
	return zword_get_word(from, width);
}

/* The bytes of a word that tell what it is more than its reference. */
static __always_inline u32 set_of(u64 word, u64 reference, u32 width)
{
	u32 set = zword_bytes_set(zword_digits(word, reference) ^
				  ZWORD_HIGH_BITS);

	return width == 4 ? set & 15 : set;
}

/* Whole words of so many bytes that are equal. */
static inline u32 equal_of(u64 differ, u32 width)
{
	return __ffs64(differ) / 8 & -width;
}

/*
 * How many words from here on equal their reference, or are 0; all in bytes. The
 * word before this one has its reference in the page, so they all have. Where words
 * of 32 bits are read in pairs, both are in the block.
 */
static inline u32 run_of(const struct scan *scan, u32 width)
{
	u32 at = scan->at, begin = at, back = scan->back;
	u32 end = min(scan->end, at + ZWORD_RUN_MAX * width);
	const u8 *page = scan->page;
	u64 differ;

	for (; at + 8 <= end; at += 8) {
		differ = get_unaligned_le64(page + at) ^
			 get_unaligned_le64(page + at - back);
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
	u32 end = min(scan->end, at + ZWORD_RUN_MAX * width);
	const u8 *page = scan->page;
	u64 word;

	for (; at + 8 <= end; at += 8) {
		word = get_unaligned_le64(page + at);
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
	u32 words = min(back / width, ZWORD_NEAR_MAX + 1);

	return scan->tables->offset_cost[words - 1];
}

/* What a reference is worth that also fits the next word. */
#define COST_NEXT	(9 * COST_BIT / 2)

static __always_inline void word_consider(const struct scan *scan,
					  struct choice *best, u32 kind,
					  u64 reference, u32 back, u32 width)
{
	u32 set = kind == ZWORD_ZERO ? zword_bytes_set(best->word) :
				       set_of(best->word, reference, width);
	u32 cost = scan->tables->cost[kind][set], next = scan->at + width;
	u64 expected = 0;
	u32 weight;

	if (kind == ZWORD_NEAR) {
		cost += near_cost(scan, back, width);
		kind += back > ZWORD_NEAR_MAX * width;
	}
	weight = cost;
	if (next < scan->end) {
		if (kind != ZWORD_ZERO)
			expected = word_before(scan->page, next, back, width);
		if (zword_get_word(scan->page + next, width) != expected)
			weight += COST_NEXT;
	}
	if (weight >= best->weight)
		return;
	best->weight = weight;
	best->cost = cost;
	best->kind = kind;
	best->set = set;
	best->reference = reference;
	best->back = back;
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
static __always_inline void word_choose(const struct scan *scan,
					struct choice *choice, u32 width)
{
	u64 word = choice->word, stride = choice->reference, linear;
	u32 whole_place, high_place;
	u16 *whole, *high;

	choice->back = scan->back;
	linear = 2 * stride -
		 word_before(scan->page, scan->at, 2 * scan->back, width);
	if (width == 4)
		linear &= 0xffffffff;
	if (word == linear && word != stride) {
		take_whole(scan, choice, ZWORD_LINEAR);
		return;
	}
	whole = &scan->positions->whole[hash_of(word)];
	high = &scan->positions->high[hash_of(word >> (width == 8 ? 16 : 8))];
	whole_place = *whole * width;
	high_place = *high * width;
	*whole = (u16)(scan->at / width);
	*high = (u16)(scan->at / width);
	choice->weight = ~0u;
	word_consider(scan, choice, ZWORD_STRIDE, stride, scan->back, width);
	/* Before the first word there are no others. */
	if (choice->weight <= COST_CHEAP || !scan->at)
		return;
	if (!word) {
		take_whole(scan, choice, ZWORD_ZERO);
	} else if (zword_get_word(scan->page + whole_place, width) == word) {
		choice->back = scan->at - whole_place;
		take_whole(scan, choice, choice->back > ZWORD_NEAR_MAX * width ?
					 ZWORD_FAR : ZWORD_NEAR);
		choice->cost += near_cost(scan, choice->back, width);
	} else {
		word_consider(scan, choice, ZWORD_ZERO, 0, scan->back, width);
		word_consider(scan, choice, ZWORD_LINEAR, linear, scan->back,
			      width);
		word_consider(scan, choice, ZWORD_NEAR,
			      zword_get_word(scan->page + high_place, width),
			      scan->at - high_place, width);
	}
}

/*
 * The thorough choice: places with the same upper bits are in a chain, from the last
 * one back, and all that costs count is compared.
 */
static __always_inline void word_choose_best(const struct scan *scan, u16 *before,
					     u32 from, struct choice *choice,
					     u32 width)
{
	u16 *whole = &scan->positions->whole[hash_of(choice->word)];
	u16 *high = &scan->positions->high[hash_of(choice->word >>
						   (width == 8 ? 24 : 8))];
	u32 place = *high * width, other = *whole * width, links, next;
	u64 reference = choice->reference, linear;

	before[(scan->at - from) / width] = *high;
	*high = (u16)(scan->at / width);
	*whole = *high;
	linear = 2 * reference -
		 word_before(scan->page, scan->at, 2 * scan->back, width);
	if (width == 4)
		linear &= 0xffffffff;
	choice->weight = ~0u;
	word_consider(scan, choice, ZWORD_STRIDE, reference, scan->back, width);
	word_consider(scan, choice, ZWORD_ZERO, 0, scan->back, width);
	word_consider(scan, choice, ZWORD_LINEAR, linear, scan->back, width);
	/* Before the first word there are no others. */
	if (!scan->at)
		return;
	word_consider(scan, choice, ZWORD_NEAR,
		      zword_get_word(scan->page + other, width), scan->at - other,
		      width);
	for (links = 0; links < ZWORD_CHAIN_LINKS; links++) {
		word_consider(scan, choice, ZWORD_NEAR,
			      zword_get_word(scan->page + place, width),
			      scan->at - place, width);
		if (place < from)
			return;
		next = before[(place - from) / width] * width;
		if (next >= place)
			return;
		place = next;
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
				      struct output *output,
				      const struct choice *choice, u32 width)
{
	u32 m = tables->mask[choice->set], kind = choice->kind;
	const struct zword_pack *mask = &tables->pack[m];
	u64 literals = kind == ZWORD_ZERO ? choice->word :
		       zword_digits(choice->word, choice->reference);
	u32 offset = choice->back / width - 1;
	bool is_near = kind == ZWORD_NEAR;

	*output->token++ = (u16)zword_token(kind, m, 0);
	put_unaligned_le64((literals & mask->low) >> mask->low_shift |
			   (literals & mask->high) >> mask->high_shift,
			   output->literal);
	put_unaligned_le64(tables->table_of[kind][m], output->table);
	output->literal += mask->count;
	output->table += mask->count;
	if (kind == ZWORD_FAR) {
		put_byte(output, offset, ZWORD_RUNS);
		put_byte(output, offset >> 8, ZWORD_RUNS);
	}
	*output->literal = (u8)offset;
	*output->table = ZWORD_OFFSETS;
	output->literal += is_near;
	output->table += is_near;
}

/* The run of the last token. */
static inline void put_run(struct output *output, u32 run)
{
	output->token[-1] |= (u16)zword_token(0, 0, min(run, ZWORD_RUN_LONG));
	if (run >= ZWORD_RUN_LONG)
		put_byte(output, run - ZWORD_RUN_LONG, ZWORD_RUNS);
}

static __always_inline void look_at(const struct scan *scan,
				    struct choice *choice, u32 width)
{
	choice->word = zword_get_word(scan->page + scan->at, width);
	choice->reference = word_before(scan->page, scan->at, scan->back, width);
}

/*
 * Whether a reference stands before its word, in the page or, of the first word,
 * in front of it. All do; if one did not, the block is kept raw.
 */
static __always_inline bool is_behind(u32 at, u32 back, u32 width)
{
	return back - 1 < (at ? at : width);
}

static __always_inline bool words_parse(const struct zword_word_encoder *tables,
					struct zword_encoding *work, u32 width,
					const struct zword_part *part,
					bool thoroughly)
{
	struct zword_word_parse *parsed = &work->word;
	struct scan scan = {
		.tables = tables,
		.positions = &work->word_positions,
		.page = part->page,
		.at = part->from,
		.end = part->from + part->size,
		.back = width,
	};
	struct output output = {
		parsed->token, parsed->literal, parsed->table,
	};
	const u8 *last = parsed->literal + ZWORD_PARSE_LAST;
	struct zword_budget budget;
	struct choice choice;
	u32 run;

	zword_budget_start(&budget, part);
	look_at(&scan, &choice, width);
	for (;;) {
		if (thoroughly)
			word_choose_best(&scan, work->word_before, part->from,
					 &choice, width);
		else
			word_choose(&scan, &choice, width);
		if (!is_behind(scan.at, choice.back, width) ||
		    output.literal > last)
			return false;
		put_token(tables, &output, &choice, width);
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
		    !zword_budget_left(&budget, scan.at,
				       budget.spent / COST_BIT))
			return false;
	}
	parsed->spent = budget.spent / COST_BIT;
	parsed->tokens = (u32)(output.token - parsed->token);
	parsed->literals = (u32)(output.literal - parsed->literal);
	return true;
}

bool zword_words_parse(const struct zword_word_encoder *tables,
		       struct zword_encoding *work, u32 width,
		       const struct zword_part *part)
{
	return width == 8 ? words_parse(tables, work, 8, part, false) :
			    words_parse(tables, work, 4, part, false);
}

bool zword_words_parse_thoroughly(const struct zword_word_encoder *tables,
				  struct zword_encoding *work, u32 width,
				  const struct zword_part *part)
{
	return width == 8 ? words_parse(tables, work, 8, part, true) :
			    words_parse(tables, work, 4, part, true);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parsing blocks of bytes into literals and matches: quickly, where two tables
 * remember where eight and where four bytes were seen last and a match is taken
 * where it is found; or thoroughly, where the best of many is.
 *
 * What was read once may read otherwise a moment later; every length is counted
 * here and every place checked, so the source can change and nothing but the
 * page that comes out of it.
 */
#include "block.h"

/* What is spent, about, in bits. */
#define BITS_LITERAL	6

/* The last place where eight bytes can be read. */
#define TAIL		8u

static inline u32 hash_of_8(u64 word)
{
	return (u32)(word * 0xcf1bbcdcb7a56463ull >> (64 - ZWORD_POSITION_BITS));
}

static inline u32 hash_of_4(u64 word)
{
	return (u32)((u32)word * 2654435761u) >> (32 - ZWORD_POSITION_BITS);
}

/* How many bytes are equal from here on. */
static inline u32 length_at(const u8 *page, u32 one, u32 other, u32 end)
{
	u32 begin = other;
	u64 differ;

	while (other + 8 <= end) {
		differ = get_unaligned_le64(page + one) ^
			 get_unaligned_le64(page + other);
		if (differ)
			return other - begin + __ffs64(differ) / 8;
		one += 8;
		other += 8;
	}
	while (other < end && page[one] == page[other]) {
		one++;
		other++;
	}
	return other - begin;
}

static inline void literals_take(struct zword_byte_parse *parse, const u8 *page,
				 u32 from, u32 count, u32 end)
{
	u8 *to = parse->literal + parse->literals;
	u32 k;

	parse->literals += count;
	if (from + ((count + 7) & ~7u) > end) {
		memcpy(to, page + from, count);
		return;
	}
	for (k = 0; k < count; k += 8)
		zword_copy_8(to + k, page + from + k);
}

static inline void token_take(struct zword_byte_parse *parse, u32 literals,
			      u32 length, u32 offset, u32 match)
{
	struct zword_byte_token *token = &parse->token[parse->tokens++];

	token->literals = (u16)literals;
	token->length = length & 0x3fff;
	token->match = match & 3;
	token->offset = (u16)offset;
}

struct scan {
	struct zword_byte_positions *positions;
	const u8 *page;
	u32 at;
	u32 anchor;	/* from here on nothing is taken yet */
	u32 end;
	u32 again;	/* the last offset */
};

struct match {
	u32 start;
	u32 from;	/* where the same bytes stand */
	u32 length;
};

static inline void place_remember(const struct scan *scan, u64 word, u32 at)
{
	scan->positions->longer[hash_of_8(word)] = (u16)at;
	scan->positions->shorter[hash_of_4(word)] = (u16)at;
}

/*
 * A match that begins here or at the next byte: at the last offset, else of eight
 * bytes, else of four. A place that was read from a table is before this one:
 * what is not set is the begin of the page.
 */
static inline bool match_find(const struct scan *scan, struct match *match)
{
	const u8 *page = scan->page;
	u32 at = scan->at;
	u64 word = get_unaligned_le64(page + at), next;
	u32 longer = scan->positions->longer[hash_of_8(word)];
	u32 shorter = scan->positions->shorter[hash_of_4(word)];

	place_remember(scan, word, at);
	match->start = at;
	if (at + 1 >= scan->again &&
	    (u32)(word >> 8) ==
	    (u32)zword_get_word(page + at + 1 - scan->again, 4)) {
		match->start = at + 1;
		match->from = at + 1 - scan->again;
		return true;
	}
	match->from = longer;
	if (get_unaligned_le64(page + longer) == word)
		return true;
	match->from = shorter;
	if ((u32)zword_get_word(page + shorter, 4) != (u32)word)
		return false;
	/* One more byte on, there may be a longer one. */
	next = get_unaligned_le64(page + at + 1);
	longer = scan->positions->longer[hash_of_8(next)];
	if (get_unaligned_le64(page + longer) == next) {
		match->start = at + 1;
		match->from = longer;
	}
	return true;
}

/*
 * To both sides, from the four bytes that are known to be equal. The length is
 * bounded while it grows, and these four bytes stay in: a match that was cut
 * afterwards could end before the place where it was found, and the parse would go
 * back there.
 */
static inline void match_extend(const struct scan *scan, struct match *match)
{
	const u8 *page = scan->page;
	u32 end = scan->end;

	match->length = 4;
	while (match->length < ZWORD_MATCH_MAX &&
	       match->start > scan->anchor && match->from &&
	       page[match->start - 1] == page[match->from - 1]) {
		match->start--;
		match->from--;
		match->length++;
	}
	if (end > match->start + ZWORD_MATCH_MAX)
		end = match->start + ZWORD_MATCH_MAX;
	match->length += length_at(page, match->from + match->length,
				   match->start + match->length, end);
}

/*
 * False: no decoder could follow it. No match is like that; if one were, the block
 * is kept raw.
 */
static inline bool match_put(struct scan *scan, struct zword_byte_parse *parsed,
			     const struct match *match)
{
	u32 literals = match->start - scan->anchor;
	u32 offset = match->start - match->from;
	u32 kind = offset == scan->again ? ZWORD_MATCH_AGAIN :
		   offset <= ZWORD_NEAR_MAX ? ZWORD_MATCH_NEAR : ZWORD_MATCH_FAR;

	if (match->from >= match->start || match->start < scan->anchor ||
	    match->length > scan->end - match->start)
		return false;
	literals_take(parsed, scan->page, scan->anchor, literals, scan->end);
	token_take(parsed, literals, match->length, offset, kind);
	scan->again = offset;
	scan->anchor = match->start + match->length;
	return true;
}

/* What no match took. */
static inline void rest_put(const struct scan *scan,
			    struct zword_byte_parse *parsed)
{
	u32 literals = scan->end - scan->anchor;

	if (!literals)
		return;
	literals_take(parsed, scan->page, scan->anchor, literals, scan->end);
	token_take(parsed, literals, 0, 0, ZWORD_MATCH_NONE);
}

static inline bool match_take(struct scan *scan,
			      struct zword_byte_parse *parsed,
			      const struct match *match)
{
	u32 found = scan->at;
	u64 word;

	if (!match_put(scan, parsed, match) || scan->anchor <= found)
		return false;
	scan->at = scan->anchor;
	if (scan->at >= scan->end - TAIL)
		return true;
	place_remember(scan, get_unaligned_le64(scan->page + match->start + 2),
		       match->start + 2);
	word = get_unaligned_le64(scan->page + scan->at - 2);
	scan->positions->longer[hash_of_8(word)] = (u16)(scan->at - 2);
	scan->positions->shorter[hash_of_4(word >> 8)] = (u16)(scan->at - 1);
	return true;
}

bool zword_bytes_parse(struct zword_encoding *work,
		       const struct zword_part *part)
{
	struct zword_byte_parse *parsed = &work->byte;
	struct scan scan = {
		.positions = &work->byte_positions,
		.page = part->page,
		/* Before the first byte there are no others. */
		.at = part->from ? part->from : 1,
		.anchor = part->from,
		.end = part->from + part->size,
		.again = ZWORD_AGAIN_FIRST,
	};
	struct zword_budget budget;
	struct match match;

	zword_budget_start(&budget, part);
	parsed->tokens = 0;
	parsed->literals = 0;
	while (scan.at < scan.end - TAIL) {
		if (!match_find(&scan, &match)) {
			scan.at += 1 + ((scan.at - scan.anchor) >>
					ZWORD_SKIP_SHIFT);
			continue;
		}
		match_extend(&scan, &match);
		budget.spent += (match.start - scan.anchor) * BITS_LITERAL +
				ZWORD_BITS_MATCH;
		if (!match_take(&scan, parsed, &match))
			return false;
		if (scan.at >= budget.check &&
		    !zword_budget_left(&budget, scan.at, budget.spent))
			return false;
	}
	rest_put(&scan, parsed);
	return true;
}

/*
 * The thorough parse. All places in the block where the same four bytes stand are
 * in a chain, from the last one back; what a match saves decides, in half bits.
 */
#define SAVED_BYTE	11u
#define COST_AGAIN	2u
#define COST_NEAR	18u
#define COST_FAR	26u

static_assert(sizeof(((struct zword_chains *)0)->head) <=
	       sizeof(struct zword_positions), "they are cleared");

struct chains {
	struct zword_chains *in;
	const u8 *page;
	u32 from;
	u32 end;
	u32 again;
};

struct best {
	struct match match;
	u32 saved;
};

/* Where the place before one stands; that of a place far behind it, too. */
static inline u16 *place_before(const struct chains *chains, u32 place)
{
	return &chains->in->before[(place - chains->from) % ZWORD_CHAIN_PLACES];
}

/* The place before this one; what is not set is the begin of the page. */
static inline u32 place_chain(const struct chains *chains, u32 at)
{
	u32 word = (u32)zword_get_word(chains->page + at, 4);
	u16 *head = &chains->in->head[hash_of_4(word)];
	u32 place = *head;

	*place_before(chains, at) = (u16)place;
	*head = (u16)at;
	return place;
}

static inline void match_consider(const struct chains *chains, u32 at, u32 place,
				  struct best *best)
{
	const u8 *page = chains->page;
	u32 offset = at - place, length, cost, most = best->match.length;

	/* It must be longer, or it is the last offset. */
	if (at + most < chains->end && page[place + most] != page[at + most])
		return;
	if ((u32)zword_get_word(page + place, 4) !=
	    (u32)zword_get_word(page + at, 4))
		return;
	length = 4 + length_at(page, place + 4, at + 4, chains->end);
	if (length > ZWORD_MATCH_MAX)
		length = ZWORD_MATCH_MAX;
	cost = offset == chains->again ? COST_AGAIN :
	       offset <= ZWORD_NEAR_MAX ? COST_NEAR : COST_FAR;
	if (length * SAVED_BYTE <= cost + best->saved)
		return;
	best->saved = length * SAVED_BYTE - cost;
	best->match = (struct match){ .start = at, .from = place,
				      .length = length };
}

static inline void match_find_best(const struct chains *chains, u32 at,
				   struct best *best)
{
	u32 place = place_chain(chains, at), links, next;

	*best = (struct best){ .saved = 0 };
	/* Before the first byte there are no others. */
	if (!at)
		return;
	if (at >= chains->again)
		match_consider(chains, at, at - chains->again, best);
	for (links = 0; links < ZWORD_CHAIN_LINKS; links++) {
		match_consider(chains, at, place, best);
		if (place < chains->from || at - place >= ZWORD_CHAIN_PLACES)
			return;
		next = *place_before(chains, place);
		if (next >= place)
			return;
		place = next;
	}
}

bool zword_bytes_parse_thoroughly(struct zword_encoding *work,
				  const struct zword_part *part)
{
	struct zword_byte_parse *parsed = &work->byte;
	struct scan scan = {
		.page = part->page,
		.at = part->from,
		.anchor = part->from,
		.end = part->from + part->size,
		.again = ZWORD_AGAIN_FIRST,
	};
	struct chains chains = {
		.in = &work->chains,
		.page = part->page,
		.from = part->from,
		.end = scan.end,
		.again = ZWORD_AGAIN_FIRST,
	};
	struct best best, next;

	parsed->tokens = 0;
	parsed->literals = 0;
	while (scan.at < scan.end - TAIL) {
		match_find_best(&chains, scan.at++, &best);
		if (!best.saved)
			continue;
		/* One that begins later is better if it saves more. */
		while (scan.at < scan.end - TAIL) {
			match_find_best(&chains, scan.at++, &next);
			if (next.saved <= best.saved)
				break;
			best = next;
		}
		if (!match_put(&scan, parsed, &best.match))
			return false;
		chains.again = scan.again;
		while (scan.at < scan.anchor && scan.at < scan.end - TAIL)
			place_chain(&chains, scan.at++);
		scan.at = scan.anchor > scan.at ? scan.anchor : scan.at;
	}
	rest_put(&scan, parsed);
	return true;
}

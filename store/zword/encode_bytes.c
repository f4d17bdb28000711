// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encoding blocks of bytes: literals and matches. Two tables remember where eight
 * and where four bytes were seen last; a match is taken where it is found.
 *
 * What was read once may read otherwise a moment later; every length is counted
 * here and every place checked, so the source can change and nothing but the
 * page that comes out of it.
 */
#include "block.h"

/* What is spent, about, in bits. */
#define BITS_LITERAL	6
#define BITS_MATCH	18

/* Literals in a row, as a shift, after which a match is looked for less often. */
#define SKIP_SHIFT	6

/* The last place where eight bytes can be read. */
#define TAIL		8u
static inline u32 hash_of_8(u64 word)
{
	return (u32)(word * 0xcf1bbcdcb7a56463ull >> (64 - 10));
}

static inline u32 hash_of_4(u64 word)
{
	return (u32)((u32)word * 2654435761u) >> (32 - 10);
}

/* How many bytes are equal from here on. */
static inline u32 length_at(const u8 *page, u32 one, u32 other, u32 end)
{
	u32 begin = other;
	u64 differ;

	while (other + 8 <= end) {
		differ = zword_get_le64(page + one) ^
			 zword_get_le64(page + other);
		if (differ)
			return other - begin + (u32)__builtin_ctzll(differ) / 8;
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
		zm_put64(to + k, zm_get64(page + from + k));
}

static inline void token_take(struct zword_byte_parse *parse, u32 literals,
			      u32 length, u32 offset, u32 match)
{
	struct zword_byte_token *token = &parse->token[parse->tokens++];

	token->literals = (u16)literals;
	token->length = (u16)length;
	token->offset = offset;
	token->match = (u8)match;
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

static inline void remember(const struct scan *scan, u64 word, u32 at)
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
	u64 word = zword_get_le64(page + at), next;
	u32 longer = scan->positions->longer[hash_of_8(word)];
	u32 shorter = scan->positions->shorter[hash_of_4(word)];

	remember(scan, word, at);
	match->start = at;
	if (at + 1 >= scan->again &&
	    (u32)(word >> 8) ==
	    (u32)zword_get_word(page + at + 1 - scan->again, 4)) {
		match->start = at + 1;
		match->from = at + 1 - scan->again;
		return true;
	}
	match->from = longer;
	if (zword_get_le64(page + longer) == word)
		return true;
	match->from = shorter;
	if ((u32)zword_get_word(page + shorter, 4) != (u32)word)
		return false;
	/* One more byte on, there may be a longer one. */
	next = zword_get_le64(page + at + 1);
	longer = scan->positions->longer[hash_of_8(next)];
	if (zword_get_le64(page + longer) == next) {
		match->start = at + 1;
		match->from = longer;
	}
	return true;
}

/* To both sides, from the four bytes that are known to be equal. */
static inline void match_extend(const struct scan *scan, struct match *match)
{
	const u8 *page = scan->page;

	match->length = 4 + length_at(page, match->from + 4, match->start + 4,
				      scan->end);
	while (match->start > scan->anchor && match->from &&
	       page[match->start - 1] == page[match->from - 1]) {
		match->start--;
		match->from--;
		match->length++;
	}
	if (match->length > ZWORD_MATCH_MAX)
		match->length = ZWORD_MATCH_MAX;
}

static inline void match_take(struct scan *scan,
			      struct zword_byte_parse *parsed,
			      const struct match *match)
{
	u32 literals = match->start - scan->anchor;
	u32 offset = match->start - match->from;
	u32 kind = offset == scan->again ? ZWORD_MATCH_AGAIN :
		   offset <= 256 ? ZWORD_MATCH_NEAR : ZWORD_MATCH_FAR;
	u64 word;

	literals_take(parsed, scan->page, scan->anchor, literals, scan->end);
	token_take(parsed, literals, match->length, offset, kind);
	scan->again = offset;
	scan->anchor = match->start + match->length;
	scan->at = scan->anchor;
	if (scan->at >= scan->end - TAIL)
		return;
	remember(scan, zword_get_le64(scan->page + match->start + 2),
		 match->start + 2);
	word = zword_get_le64(scan->page + scan->at - 2);
	scan->positions->longer[hash_of_8(word)] = (u16)(scan->at - 2);
	scan->positions->shorter[hash_of_4(word >> 8)] = (u16)(scan->at - 1);
}

bool zword_bytes_parse(struct zword_encoding *work,
		       const struct zword_part *part)
{
	struct zword_byte_parse *parsed = &work->parse.byte;
	struct scan scan = {
		.positions = &work->positions.byte,
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
			scan.at += 1 + ((scan.at - scan.anchor) >> SKIP_SHIFT);
			continue;
		}
		match_extend(&scan, &match);
		budget.spent += (match.start - scan.anchor) * BITS_LITERAL +
				BITS_MATCH;
		match_take(&scan, parsed, &match);
		if (scan.at >= budget.check &&
		    !zword_budget_left(&budget, budget.spent))
			return false;
	}
	if (scan.anchor < scan.end) {
		literals_take(parsed, scan.page, scan.anchor,
			      scan.end - scan.anchor, scan.end);
		token_take(parsed, scan.end - scan.anchor, 0, 0,
			   ZWORD_MATCH_NONE);
		budget.spent += (scan.end - scan.anchor) * BITS_LITERAL;
	}
	parsed->spent = budget.spent;
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

/*
 * The symbols of the numbers of a token, as they stand in the stream; how many.
 * A token has at most 2 + 4096 / 255 of them.
 */
#define NUMBERS_MAX	20u

struct number {
	u8 table;
	u8 byte;
};

static u32 numbers_of(const struct zword_byte_token *token,
		      struct number numbers[NUMBERS_MAX])
{
	u32 count = 0, more, offset = token->offset - 1;

	if (token->literals >= ZWORD_LITERALS_LONG) {
		more = token->literals - ZWORD_LITERALS_LONG;
		for (; more >= 255; more -= 255)
			numbers[count++] = (struct number){
				ZWORD_BYTE_LENGTH, 255 };
		numbers[count++] = (struct number){ ZWORD_BYTE_LENGTH, (u8)more };
	}
	if (token->length >= ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
		numbers[count++] = (struct number){ ZWORD_BYTE_LENGTH,
			(u8)(token->length - ZWORD_MATCH_MIN -
			     ZWORD_LENGTH_LONG) };
	if (token->match == ZWORD_MATCH_NEAR)
		numbers[count++] = (struct number){ ZWORD_BYTE_NEAR, (u8)offset };
	if (token->match == ZWORD_MATCH_FAR)
		numbers[count++] = (struct number){ ZWORD_BYTE_FAR,
						    (u8)(offset >> 8) };
	return count;
}

/* One literal of so many has a vote. */
#define VOTE_LITERALS	4u

u32 zword_bytes_elect(const struct zword_byte_encoder *tables,
		      const struct zword_byte_parse *parse)
{
	u32 count = parse->tokens, symbol, class, k;
	u64 votes = 0, literals = 0;

	for (k = 0; k < parse->tokens; k++) {
		symbol = symbol_of(&parse->token[k]);
		votes += zword_vote(tables->vote.token[symbol]);
	}
	for (k = 1; k < parse->literals; k += VOTE_LITERALS) {
		class = tables->class_of[parse->literal[k - 1]];
		literals += zword_vote(tables->vote.table[class]
						   [parse->literal[k]]);
		count += VOTE_LITERALS;
	}
	return zword_set_elect(votes + VOTE_LITERALS * literals, count);
}

static inline u32 bits_of(const struct zword_byte_codes *codes, u32 table,
			  u32 byte)
{
	return codes->table[table][byte] & ZWORD_ENTRY_LENGTH;
}

void zword_bytes_measure(const struct zword_byte_encoder *tables,
			 const struct zword_byte_parse *parse, u32 set,
			 struct zword_size *size)
{
	const struct zword_byte_codes *codes = &tables->codes[set];
	u32 quarter = (parse->literals + 3) / 4, class = 0, lane = 1, next = 0;
	struct number numbers[NUMBERS_MAX];
	u32 k, count;

	*size = (struct zword_size){ .all = 0 };
	for (k = 0; k < parse->tokens; k++) {
		size->bits[0] += codes->token[symbol_of(&parse->token[k])] &
				 ZWORD_ENTRY_LENGTH;
		count = numbers_of(&parse->token[k], numbers);
		while (count--)
			size->bits[1] += bits_of(codes, numbers[count].table,
						 numbers[count].byte);
		size->bits[1] += parse->token[k].match == ZWORD_MATCH_FAR ? 8 : 0;
	}
	for (k = 0; k < parse->literals; k++) {
		if (k == next) {
			class = tables->class_of[0];
			next += quarter;
			lane++;
		}
		size->bits[lane] += bits_of(codes, class, parse->literal[k]);
		class = tables->class_of[parse->literal[k]];
	}
	zword_size_sum(size, ZWORD_BYTE_STREAMS);
}

static inline void add_byte(const struct zword_byte_codes *codes,
			    struct zword_writer *writer, u32 table, u32 byte)
{
	u32 code = codes->table[table][byte];

	zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
}

static bool tokens_write(const struct zword_byte_codes *codes,
			 const struct zword_byte_parse *parse,
			 struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 k, code;

	for (k = 0; k < parse->tokens; k++) {
		code = codes->token[symbol_of(&parse->token[k])];
		zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
		if (k % 4 == 3 && !zword_flush(writer, dst, capacity))
			return false;
	}
	return zword_finish(writer, dst, capacity);
}

/* The counts that do not fit the symbol, rare as they are. */
static bool counts_write(const struct zword_byte_codes *codes,
			 const struct zword_byte_token *token,
			 struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 more;

	if (token->literals >= ZWORD_LITERALS_LONG) {
		more = token->literals - ZWORD_LITERALS_LONG;
		for (; more >= 255; more -= 255) {
			add_byte(codes, writer, ZWORD_BYTE_LENGTH, 255);
			if (!zword_flush(writer, dst, capacity))
				return false;
		}
		add_byte(codes, writer, ZWORD_BYTE_LENGTH, more);
	}
	if (token->length >= ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
		add_byte(codes, writer, ZWORD_BYTE_LENGTH, token->length -
			 ZWORD_MATCH_MIN - ZWORD_LENGTH_LONG);
	return true;
}

static bool numbers_write(const struct zword_byte_codes *codes,
			  const struct zword_byte_parse *parse,
			  struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 k;

	for (k = 0; k < parse->tokens; k++) {
		const struct zword_byte_token *token = &parse->token[k];
		u32 offset = token->offset - 1, code;
		bool is_far = token->match == ZWORD_MATCH_FAR;

		if ((token->literals >= ZWORD_LITERALS_LONG ||
		     token->length >= ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG) &&
		    !counts_write(codes, token, writer, dst, capacity))
			return false;
		code = codes->table[ZWORD_BYTE_NEAR + is_far]
				   [(is_far ? offset >> 8 : offset) & 0xff];
		code = token->match >= ZWORD_MATCH_NEAR ? code : 0;
		zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
		zword_add(writer, is_far ? offset & 0xff : 0, is_far ? 8 : 0);
		if (!zword_flush(writer, dst, capacity))
			return false;
	}
	return zword_finish(writer, dst, capacity);
}

/* The class that follows. */
static inline u32 literal_add(const struct zword_byte_codes *codes,
			      const u8 *class_of, u32 class, u8 literal,
			      struct zword_writer *writer)
{
	add_byte(codes, writer, class, literal);
	return class_of[literal];
}

static __always_inline bool lane_write(const struct zword_byte_codes *codes,
				       const u8 *class_of, const u8 *literal,
				       u32 count, struct zword_writer *writer,
				       u8 *dst, u32 capacity)
{
	const u8 *end = literal + count;
	u32 class = class_of[0];

	for (; literal + ZWORD_LITERALS_A_FLUSH <= end;
	     literal += ZWORD_LITERALS_A_FLUSH) {
		class = literal_add(codes, class_of, class, literal[0], writer);
		class = literal_add(codes, class_of, class, literal[1], writer);
		class = literal_add(codes, class_of, class, literal[2], writer);
		class = literal_add(codes, class_of, class, literal[3], writer);
		class = literal_add(codes, class_of, class, literal[4], writer);
		class = literal_add(codes, class_of, class, literal[5], writer);
		if (!zword_flush(writer, dst, capacity))
			return false;
	}
	for (; literal < end; literal++)
		class = literal_add(codes, class_of, class, *literal, writer);
	return zword_finish(writer, dst, capacity);
}

u32 zword_bytes_write(const struct zword_byte_encoder *tables,
		      const struct zword_byte_parse *parse, u32 set, u8 *dst,
		      u32 capacity)
{
	const struct zword_byte_codes *codes = &tables->codes[set];
	struct zword_writer writer = {
		.at = ZWORD_HEADER_SIZE(ZWORD_BYTE_STREAMS, false),
	};
	u32 quarter = (parse->literals + 3) / 4, k, first, last;
	u32 start[ZWORD_BYTE_STREAMS];

	if (!tokens_write(codes, parse, &writer, dst, capacity))
		return 0;
	start[0] = writer.at;
	if (!numbers_write(codes, parse, &writer, dst, capacity))
		return 0;
	for (k = 0; k < ZWORD_LANES; k++) {
		start[1 + k] = writer.at;
		first = k * quarter < parse->literals ? k * quarter :
							parse->literals;
		last = first + quarter < parse->literals ? first + quarter :
							   parse->literals;
		if (!lane_write(codes, tables->class_of, parse->literal + first,
				last - first, &writer, dst, capacity))
			return 0;
	}
	start[1 + k] = writer.at;
	return zword_header_write(dst, capacity, ZWORD_BYTES |
				  set << ZWORD_SET_SHIFT |
				  parse->tokens << ZWORD_COUNT_SHIFT,
				  ZWORD_BYTE_STREAMS, start);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encoding blocks of bytes: what parse_bytes.c left becomes codes.
 */
#include "block.h"

/* The symbol of a token, whose longer counts follow it. */
static inline u32 symbol_of(const struct zword_byte_token *token)
{
	u32 literals = min_t(u32, token->literals, ZWORD_LITERALS_LONG);
	u32 length = token->length - ZWORD_MATCH_MIN;

	return zword_byte_token(literals, min_t(u32, length, ZWORD_LENGTH_LONG),
				token->match);
}

/* The symbols of the numbers of a token, as they stand in the stream; how many. */
#define NUMBERS_MAX	(4 + ZWORD_BLOCK_SIZE / ZWORD_COUNT_MAX)

struct number {
	u8 table;
	u8 byte;
};

static u32 numbers_of(const struct zword_byte_token *token,
		      struct number numbers[NUMBERS_MAX])
{
	u32 count = 0, more, offset = token->offset - 1u;

	if (token->literals >= ZWORD_LITERALS_LONG) {
		more = token->literals - ZWORD_LITERALS_LONG;
		for (; more >= ZWORD_COUNT_MAX; more -= ZWORD_COUNT_MAX)
			numbers[count++] = (struct number){
				ZWORD_BYTE_LENGTH, ZWORD_COUNT_MAX };
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

/* One token of so many has a vote, and one literal. */
#define VOTE_TOKENS	4u
#define VOTE_LITERALS	8u

u32 zword_bytes_elect(const struct zword_byte_encoder *tables,
		      const struct zword_byte_parse *parse)
{
	u32 count = 0, symbol, class, k;
	u64 votes = 0, literals = 0;

	for (k = 0; k < parse->tokens; k += VOTE_TOKENS) {
		symbol = symbol_of(&parse->token[k]);
		votes += zword_vote(tables->vote.token[symbol]);
		count += VOTE_TOKENS;
	}
	for (k = 1; k < parse->literals; k += VOTE_LITERALS) {
		class = tables->class_of[parse->literal[k - 1]];
		literals += zword_vote(tables->vote.table[class]
						   [parse->literal[k]]);
		count += VOTE_LITERALS;
	}
	return zword_set_elect(VOTE_TOKENS * votes + VOTE_LITERALS * literals,
			       count);
}

static inline u32 bits_of(const struct zword_byte_codes *codes, u32 table,
			  u32 byte)
{
	return codes->table[table][byte] & ZWORD_ENTRY_LENGTH;
}

/* One literal of so many is looked at. */
#define GUESS_LITERALS	4u

u32 zword_bytes_guess(const struct zword_byte_encoder *tables,
		      const struct zword_byte_parse *parse)
{
	const struct zword_byte_codes *codes =
		&tables->codes[zword_bytes_elect(tables, parse)];
	u32 bits = 0, k;

	for (k = 1; k < parse->literals; k += GUESS_LITERALS)
		bits += bits_of(codes, tables->class_of[parse->literal[k - 1]],
				parse->literal[k]);
	return ZWORD_BITS_MATCH * parse->tokens + GUESS_LITERALS * bits;
}

void zword_bytes_measure(const struct zword_byte_encoder *tables,
			 const struct zword_byte_parse *parse, u32 set,
			 struct zword_size *size)
{
	const struct zword_byte_codes *codes = &tables->codes[set];
	u32 quarter = (parse->literals + 3) / 4, class = 0, lane = 2, next = 0;
	struct number numbers[NUMBERS_MAX];
	u32 k, count;

	*size = (struct zword_size){ .all = 0 };
	for (k = 0; k < parse->tokens; k++) {
		size->bits[0] += codes->token[symbol_of(&parse->token[k])] &
				 ZWORD_ENTRY_LENGTH;
		count = numbers_of(&parse->token[k], numbers);
		while (count--)
			size->bits[numbers[count].table == ZWORD_BYTE_LENGTH ?
				   2 : 1] +=
				bits_of(codes, numbers[count].table,
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

/* The counts that do not fit a symbol. */
static bool counts_write(const struct zword_byte_codes *codes,
			 const struct zword_byte_parse *parse,
			 struct zword_writer *writer, u8 *dst, u32 capacity)
{
	const struct zword_byte_token *token = parse->token;
	const struct zword_byte_token *end = token + parse->tokens;
	u32 more;

	for (; token < end; token++) {
		if (token->literals < ZWORD_LITERALS_LONG &&
		    token->length < ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
			continue;
		if (token->literals >= ZWORD_LITERALS_LONG) {
			more = token->literals - ZWORD_LITERALS_LONG;
			for (; more >= ZWORD_COUNT_MAX;
			     more -= ZWORD_COUNT_MAX) {
				add_byte(codes, writer, ZWORD_BYTE_LENGTH,
					 ZWORD_COUNT_MAX);
				if (!zword_flush(writer, dst, capacity))
					return false;
			}
			add_byte(codes, writer, ZWORD_BYTE_LENGTH, more);
		}
		if (token->length >= ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
			add_byte(codes, writer, ZWORD_BYTE_LENGTH,
				 token->length - ZWORD_MATCH_MIN -
				 ZWORD_LENGTH_LONG);
		if (!zword_flush(writer, dst, capacity))
			return false;
	}
	return zword_finish(writer, dst, capacity);
}

static bool offsets_write(const struct zword_byte_codes *codes,
			  const struct zword_byte_parse *parse,
			  struct zword_writer *writer, u8 *dst, u32 capacity)
{
	u32 k;

	for (k = 0; k < parse->tokens; k++) {
		const struct zword_byte_token *token = &parse->token[k];
		u32 offset = token->offset - 1u, code;
		bool is_far = token->match == ZWORD_MATCH_FAR;

		code = codes->table[ZWORD_BYTE_NEAR + is_far]
				   [(is_far ? offset >> 8 : offset) & 0xff];
		code = token->match >= ZWORD_MATCH_NEAR ? code : 0;
		zword_add(writer, code >> 4, code & ZWORD_ENTRY_LENGTH);
		zword_add(writer, is_far ? offset & 0xff : 0, is_far ? 8 : 0);
		if (k % 2 && !zword_flush(writer, dst, capacity))
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
	if (!offsets_write(codes, parse, &writer, dst, capacity))
		return 0;
	start[1] = writer.at;
	if (!counts_write(codes, parse, &writer, dst, capacity))
		return 0;
	for (k = 0; k < ZWORD_LANES; k++) {
		start[2 + k] = writer.at;
		first = min(k * quarter, parse->literals);
		last = min(first + quarter, parse->literals);
		if (!lane_write(codes, tables->class_of, parse->literal + first,
				last - first, &writer, dst, capacity))
			return 0;
	}
	start[2 + k] = writer.at;
	return zword_header_write(dst, capacity, ZWORD_BYTES |
				  set << ZWORD_SET_SHIFT |
				  parse->tokens << ZWORD_COUNT_SHIFT,
				  ZWORD_BYTE_STREAMS, start);
}

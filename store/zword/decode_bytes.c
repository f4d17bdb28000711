// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decoding blocks of bytes: first the tokens with their numbers; then all literals,
 * from four lanes of a quarter each, in which the class of a literal says the
 * table of the next one; then the copies.
 */
#include "block.h"

/* Tokens between two refills of all streams: an offset takes a code and 8 bits. */
#define TOKENS_A_REFILL		3u
static_assert(TOKENS_A_REFILL * (ZWORD_LITERAL_CODE_MAX + 8) <= ZWORD_REFILLED,
	      "bits of a reader");
#define LITERALS_A_REFILL	(ZWORD_REFILLED / ZWORD_LITERAL_CODE_MAX)

/* An entry holds the class of its literal where its length ends. */
static inline u32 literal_read(const struct zword_byte_set *tables,
			       struct zword_reader *lane, u32 before,
			       u8 *literal)
{
	u32 class = (before & ZWORD_ENTRY_CLASS) >> 4;
	u32 entry = zword_entry(tables->table[class], ZWORD_LITERAL_CODES,
				lane->bits);

	zword_skip(lane, entry & ZWORD_ENTRY_LENGTH);
	*literal = (u8)(entry >> ZWORD_ENTRY_SHIFT);
	return entry;
}

/* What is left of a lane, or all of it. */
static bool lane_end(const struct zword_byte_set *tables,
		     struct zword_reader lane, u32 entry, u8 *literal,
		     u8 *end, const struct zword_decoding *job, u32 stream)
{
	for (; literal < end; literal++) {
		zword_refill(&lane, job->src, job->src_size);
		entry = literal_read(tables, &lane, entry, literal);
	}
	return zword_reader_used(&lane) == job->header.start[stream + 1];
}

static int literals_read(const struct zword_byte_set *tables, u8 *literal,
			 u32 count, u32 first, const struct zword_decoding *job)
{
	const u32 *start = job->header.start + 2;
	u32 quarter = (count + 3) / 4;
	struct zword_reader a, b, c, d;
	u32 ea = first, eb = ea, ec = ea, ed = ea, k;
	u8 *la = literal, *lb = la + quarter, *lc = lb + quarter;
	u8 *ld = lc + quarter, *end = literal + count;
	/* The last lane may be shorter: what all have, then the others' rest. */
	u32 common = count > 3 * quarter ? count - 3 * quarter : 0;

	zword_reader_start(&a, start[1]);
	zword_reader_start(&b, start[2]);
	zword_reader_start(&c, start[3]);
	zword_reader_start(&d, start[4]);
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
	if (!lane_end(tables, a, ea, la, min(literal + quarter, end), job, 3) ||
	    !lane_end(tables, b, eb, lb, min(literal + 2 * quarter, end), job, 4) ||
	    !lane_end(tables, c, ec, lc, min(literal + 3 * quarter, end), job, 5) ||
	    !lane_end(tables, d, ed, ld, end, job, 6))
		return -EBADMSG;
	return 0;
}

/* A byte of one of the tables behind the literals'. */
static inline u32 byte_read(const struct zword_byte_set *tables,
			    struct zword_reader *reader, u32 table)
{
	u32 entry = zword_entry(tables->table[table], ZWORD_LITERAL_CODES,
				reader->bits);

	zword_skip(reader, entry & ZWORD_ENTRY_LENGTH);
	return entry >> ZWORD_ENTRY_SHIFT;
}

/* A token's counts. */
struct counts {
	u32 literals;
	u32 length;
};

/* The counts behind the first. False: no block has so many literals. */
static bool counts_read(const struct zword_byte_set *tables,
			struct zword_reader *reader,
			const struct zword_decoding *job,
			const struct zword_byte_symbol *symbol,
			struct counts *counts)
{
	u32 more = counts->literals - symbol->literals;

	zword_refill(reader, job->src, job->src_size);
	while (more == ZWORD_COUNT_MAX &&
	       counts->literals <= ZWORD_BLOCK_SIZE) {
		more = byte_read(tables, reader, ZWORD_BYTE_LENGTH);
		counts->literals += more;
		zword_refill(reader, job->src, job->src_size);
	}
	if (symbol->length == ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
		counts->length += byte_read(tables, reader, ZWORD_BYTE_LENGTH);
	zword_refill(reader, job->src, job->src_size);
	return counts->literals <= ZWORD_BLOCK_SIZE;
}

/* The first count that a symbol has no room for: there may be none, as below. */
static inline u32 count_read(const struct zword_byte_set *tables,
			     struct zword_reader *reader,
			     const struct zword_byte_symbol *symbol,
			     struct counts *counts)
{
	u32 told = -(u32)symbol->is_long, in_literals = -(u32)symbol->is_literals;
	u32 entry = zword_entry(tables->table[ZWORD_BYTE_LENGTH],
				ZWORD_LITERAL_CODES, reader->bits);
	u32 more = entry >> ZWORD_ENTRY_SHIFT & told;

	zword_skip(reader, entry & ZWORD_ENTRY_LENGTH & told);
	counts->literals = symbol->literals + (more & in_literals);
	counts->length = symbol->length + (more & ~in_literals);
	return more;
}

/*
 * The offset of a match without a branch on where it is: a code that is not there
 * is read with a length of 0.
 */
static inline u32 offset_read(const struct zword_byte_set *tables,
			      struct zword_reader *numbers, u32 match,
			      u32 again)
{
	u32 is_far = match == ZWORD_MATCH_FAR;
	u32 told = -(u32)(match >= ZWORD_MATCH_NEAR);
	u32 entry = zword_entry(tables->table[ZWORD_BYTE_NEAR + is_far],
				ZWORD_LITERAL_CODES, numbers->bits);
	u32 offset = entry >> ZWORD_ENTRY_SHIFT;
	u32 low;

	zword_skip(numbers, entry & ZWORD_ENTRY_LENGTH & told);
	low = (u32)numbers->bits & -is_far & 0xff;
	zword_skip(numbers, 8 * is_far);
	offset = 1 + (offset << 8 * is_far) + low;
	return again ^ ((again ^ offset) & told);
}

/* How many literals all tokens have, or a negative error. */
static int tokens_read(const struct zword_byte_decoder *tables,
		       struct zword_byte_memory *memory,
		       const struct zword_decoding *job)
{
	const struct zword_byte_set *set = &tables->set[job->header.set];
	struct zword_reader tokens, offsets, others;
	struct zword_byte_sequence *sequence = memory->sequence;
	struct zword_byte_sequence *end = sequence + job->header.count, *stop;
	u32 again = ZWORD_AGAIN_FIRST, entry, all = 0;
	const struct zword_byte_symbol *symbol;
	struct counts counts, many;

	zword_reader_start(&tokens, job->header.start[0]);
	zword_reader_start(&offsets, job->header.start[1]);
	zword_reader_start(&others, job->header.start[2]);
	while (sequence < end) {
		zword_refill(&tokens, job->src, job->src_size);
		zword_refill(&offsets, job->src, job->src_size);
		zword_refill(&others, job->src, job->src_size);
		stop = (u32)(end - sequence) < TOKENS_A_REFILL ? end :
						sequence + TOKENS_A_REFILL;
		for (; sequence < stop; sequence++) {
			entry = zword_entry(set->token, ZWORD_BYTE_CODES,
					    tokens.bits);
			zword_skip(&tokens, entry & ZWORD_ENTRY_LENGTH);
			symbol = zword_byte_symbol(tables, entry);
			if (count_read(set, &others, symbol, &counts) >=
			    symbol->more_from) {
				struct zword_reader reader = others;

				/* A copy: its address is taken, that of others is not. */
				many = counts;
				if (!counts_read(set, &reader, job, symbol,
						 &many))
					return -EBADMSG;
				counts = many;
				others = reader;
			}
			again = offset_read(set, &offsets, symbol->match, again);
			all += counts.literals;
			sequence->literals = (u16)counts.literals;
			sequence->length = (u16)counts.length;
			sequence->before = (u16)(again - 1);
		}
	}
	if (all > ZWORD_BLOCK_SIZE ||
	    zword_reader_used(&tokens) != job->header.start[1] ||
	    zword_reader_used(&offsets) != job->header.start[2] ||
	    zword_reader_used(&others) != job->header.start[3])
		return -EBADMSG;
	return (int)all;
}

/* How much a quick copy copies, and what all of a token write behind its end. */
#define COPY_STEP	16u
#define COPY_ROOM	(2 * COPY_STEP)

/* Any copy. */
static inline void bytes_copy(u8 *to, const u8 *from, u32 count)
{
	while (count--)
		*to++ = *from++;
}

/* For each offset below eight, its least multiple of eight and more. */
static const u8 multiples[8] = { 0, 8, 8, 9, 8, 10, 12, 14 };

/* At most COPY_STEP bytes, from eight bytes before or more. */
static inline void quick_copy(u8 *to, const u8 *from)
{
	zword_copy_8(to, from);
	zword_copy_8(to + 8, from + 8);
}

/* The same of more bytes. */
static inline void words_copy(u8 *to, const u8 *from, u32 count)
{
	u8 *end = to + count;

	do {
		quick_copy(to, from);
		to += COPY_STEP;
		from += COPY_STEP;
	} while (to < end);
}

/* From less than eight bytes before: eight of them, then from one more often. */
static inline void pattern_copy(u8 *to, u32 offset, u32 count)
{
	bytes_copy(to, to - offset, 8);
	if (count > 8)
		words_copy(to + 8, to + 8 - multiples[offset], count - 8);
}

static int copies_make(const struct zword_byte_memory *memory,
		       const struct zword_decoding *job)
{
	const struct zword_byte_sequence *sequence = memory->sequence;
	const struct zword_byte_sequence *last = sequence + job->header.count;
	const u8 *literal = memory->literal;
	u8 *to = job->page + job->from, *end = to + ZWORD_BLOCK_SIZE;

	for (; sequence < last; sequence++) {
		u32 literals = sequence->literals, length = sequence->length;
		u32 offset = sequence->before + 1u, left = (u32)(end - to);

		/* A token that makes nothing is none. */
		if (literals + length > left || literals + length == 0 ||
		    (length && offset > (u32)(to - job->page) + literals))
			return -EBADMSG;
		left -= literals + length;
		offset = length ? offset : 0;
		if (left < COPY_ROOM) {
			bytes_copy(to, literal, literals);
			to += literals;
			bytes_copy(to, to - offset, length);
		} else {
			quick_copy(to, literal);
			if (literals > COPY_STEP)
				words_copy(to, literal, literals);
			to += literals;
			if (length && offset < 8) {
				pattern_copy(to, offset, length);
				literal += literals;
				to += length;
				continue;
			}
			quick_copy(to, to - offset);
			quick_copy(to + COPY_STEP, to + COPY_STEP - offset);
			if (length > 2 * COPY_STEP)
				words_copy(to, to - offset, length);
		}
		literal += literals;
		to += length;
	}
	return to == end ? 0 : -EBADMSG;
}

int zword_bytes_decode(const struct zword_byte_decoder *tables,
		       struct zword_byte_memory *memory,
		       const struct zword_decoding *job)
{
	int literals, ret;

	if (job->header.count > ZWORD_BYTE_TOKENS_MAX)
		return -EBADMSG;
	literals = tokens_read(tables, memory, job);
	if (literals < 0)
		return literals;
	ret = literals_read(&tables->set[job->header.set], memory->literal,
			    (u32)literals, tables->first, job);
	return ret ? ret : copies_make(memory, job);
}

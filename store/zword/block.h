/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A block: its header, and the working memory of both directions.
 *
 *   16 bits  mode (2), wide (1), set (2), count of tokens (11), low byte first
 *   sizes    of all streams but the last, in one byte each, or in two if wide
 *   streams  of words: two of tokens, four lanes; of bytes: tokens, offsets, counts,
 *            four lanes; the last one takes the rest
 */
#ifndef ZWORD_BLOCK_H
#define ZWORD_BLOCK_H

#include "bits.h"
#include "tables.h"

#define ZWORD_WORD_STREAMS	(2 + ZWORD_LANES)
#define ZWORD_BYTE_STREAMS	(3 + ZWORD_LANES)
#define ZWORD_STREAMS_MAX	ZWORD_BYTE_STREAMS
#define ZWORD_HEADER_WIDE	4u
#define ZWORD_SET_SHIFT		3
#define ZWORD_COUNT_SHIFT	5
#define ZWORD_HEADER_SIZE(streams, wide) \
	(2u + ((streams) - 1) * ((wide) ? 2 : 1))

struct zword_header {
	u32 mode;
	u32 set;
	u32 count;
	u32 start[ZWORD_STREAMS_MAX + 1];	/* of each stream; last: the end */
};

/* What is read in front of a word's literals: so they come to their places. */
#define ZWORD_LITERAL_ROOM	8u
/* Literals of half of the tokens, with room in front and to write 16 at once. */
#define ZWORD_HALF_LITERALS \
	(ZWORD_LITERAL_ROOM + ZWORD_WORD_LITERALS_MAX / 2 + 16)

/* What a decoder writes beside the page. */
struct zword_word_memory {
	struct zword_step step[ZWORD_WORD_TOKENS_MAX];
	u8 literal[2][ZWORD_HALF_LITERALS];	/* first their tables */
};

struct zword_byte_sequence {
	u16 literals;
	u16 length;
	u16 before;	/* the offset, less 1 */
};

#define ZWORD_BYTE_TOKENS_MAX	(ZWORD_BLOCK_SIZE / ZWORD_MATCH_MIN + 1)

struct zword_byte_memory {
	struct zword_byte_sequence sequence[ZWORD_BYTE_TOKENS_MAX];
	u8 literal[ZWORD_BLOCK_SIZE + 32];
};

struct zword_decoding {
	const u8 *src;
	u32 src_size;		/* of this block */
	u8 *page;
	u32 from;		/* of the block in the page */
	struct zword_header header;
};

int zword_words_decode(const struct zword_word_decoder *tables,
		       struct zword_word_memory *memory,
		       const struct zword_decoding *job);
int zword_bytes_decode(const struct zword_byte_decoder *tables,
		       struct zword_byte_memory *memory,
		       const struct zword_decoding *job);

/* Positions in the page, hashed by what stands there; checked before use. */
#define ZWORD_POSITIONS		BIT(ZWORD_POSITION_BITS)

struct zword_positions {
	u16 whole[ZWORD_POSITIONS];	/* by the word, in 4 bytes */
	u16 high[ZWORD_POSITIONS];	/* without its low bits */
};

struct zword_byte_positions {
	u16 longer[ZWORD_POSITIONS];	/* by 8 bytes */
	u16 shorter[ZWORD_POSITIONS];	/* by 4 */
};

struct zword_word_parse {
	u32 spent;	/* about, in bits */
	u32 tokens;
	u32 literals;
	u16 token[ZWORD_WORD_TOKENS_MAX];
	u8 literal[ZWORD_PARSE_LITERALS + 16];
	u8 table[ZWORD_PARSE_LITERALS + 16];
};

struct zword_byte_token {
	u16 literals;
	u16 length : 14;
	u16 match : 2;
	u16 offset;	/* 1 and more; a place is 16 bits, so it is no more */
};

/* What a match takes, about, with its token. */
#define ZWORD_BITS_MATCH	18u

struct zword_byte_parse {
	u32 tokens;
	u32 literals;
	struct zword_byte_token token[ZWORD_BYTE_TOKENS_MAX];
	u8 literal[ZWORD_BLOCK_SIZE + 16];
};

struct zword_chains {
	u16 head[ZWORD_POSITIONS];			/* by 4 bytes */
	u16 before[ZWORD_CHAIN_PLACES];	/* by place: the one before it */
};

/* Positions stand first: they are cleared before a parse, what is behind them is not. */
struct zword_encoding {
	union {
		struct {
			struct zword_positions word_positions;
			u16 word_before[ZWORD_BLOCK_SIZE / 4];
			struct zword_word_parse word;
		};
		struct {
			union {
				struct zword_byte_positions byte_positions;
				struct zword_chains chains;
			};
			struct zword_byte_parse byte;
		};
	};
};

static_assert(sizeof(struct zword_word_memory) <= ZWORD_READ_SIZE &&
	      sizeof(struct zword_byte_memory) <= ZWORD_READ_SIZE &&
	      ZWORD_READ_SIZE % 8 == 0, "of a read");
static_assert(sizeof(struct zword_encoding) <= ZWORD_WORK_SIZE &&
	      ZWORD_READ_SIZE <= ZWORD_WORK_SIZE, "of a stream");

/* What a parse takes: bits of each stream; then bytes, and all with the header. */
struct zword_size {
	u32 bits[ZWORD_STREAMS_MAX];
	u32 all;
};

/* From bits to the rest. */
void zword_size_sum(struct zword_size *size, u32 streams);
/*
 * first: of the header, but for wide. The streams stand behind a narrow header: the
 * first of them, then those of the others, each at its start, up to the last one's
 * end. The bytes of all; 0: they pass the capacity.
 */
u32 zword_header_write(u8 *dst, u32 capacity, u32 first, u32 streams,
		       const u32 *start);

/* Sums of votes stand in one word, as many bits for each set but the first. */
#define ZWORD_SUM_BITS		21
#define ZWORD_VOTE_MASK		((1ull << ZWORD_VOTE_BITS) - 1)

static_assert((ZWORD_SETS - 1) * ZWORD_SUM_BITS <= 64, "sums in one word");
static_assert((ZWORD_WORD_LITERALS_MAX + ZWORD_WORD_TOKENS_MAX + 16ull) *
	       ZWORD_VOTE_MASK < 1ull << ZWORD_SUM_BITS,
	       "no sum of words reaches the next one");
static_assert((ZWORD_BLOCK_SIZE + ZWORD_BYTE_TOKENS_MAX + 16) * ZWORD_VOTE_MASK <
	       1ull << ZWORD_SUM_BITS, "no sum of bytes reaches the next one");

/* The set with the fewest bits, by the sum of votes; count: how many there were. */
u32 zword_set_elect(u64 votes, u32 count);

static inline u64 zword_vote(u32 vote)
{
	return (vote | (u64)vote << (ZWORD_SUM_BITS - ZWORD_VOTE_BITS) |
		(u64)vote << 2 * (ZWORD_SUM_BITS - ZWORD_VOTE_BITS)) &
	       (ZWORD_VOTE_MASK | ZWORD_VOTE_MASK << ZWORD_SUM_BITS |
		ZWORD_VOTE_MASK << 2 * ZWORD_SUM_BITS);
}

/* What 7 bits left of the last byte leave room for. */
#define ZWORD_LITERALS_A_FLUSH	5
static_assert(7 + ZWORD_LITERALS_A_FLUSH * ZWORD_LITERAL_CODE_MAX <= 63,
	      "bits of a writer");

/* What to parse, all in bytes. */
struct zword_part {
	const u8 *page;
	u32 from;
	u32 size;
	u32 limit;	/* a block that would pass it is of no use */
};

/*
 * What a parse has spent, in about as many bits as its symbols will take. Each
 * quarter of the block it looks whether it is going to pass the limit, and gives
 * up if so: a page that does not compress at all shows it early.
 */
struct zword_budget {
	u32 spent;
	u32 check;	/* where to look next, in bytes of the page */
	u32 from;
	u32 limit;	/* of the whole block, in bits */
};

static inline void zword_budget_start(struct zword_budget *budget,
				      const struct zword_part *part)
{
	budget->spent = 0;
	budget->check = part->from + ZWORD_BLOCK_SIZE / 4;
	budget->from = part->from;
	budget->limit = part->limit * 8;
}

/*
 * At or behind a check, with so many bits spent. False: it is not worth going on. The
 * begin of a block costs more than its rest: an eighth of a quarter is allowed.
 */
static inline bool zword_budget_left(struct zword_budget *budget, u32 at,
				     u32 bits)
{
	u32 done = at - budget->from;

	budget->check = at + ZWORD_BLOCK_SIZE / 4;
	return bits <= budget->limit / ZWORD_BLOCK_SIZE * done +
		       budget->limit / 32;
}

/*
 * The positions must have been cleared. False: given up, since it would pass the
 * limit.
 */
bool zword_words_parse(const struct zword_word_encoder *tables,
		       struct zword_encoding *work, u32 width,
		       const struct zword_part *part);
/* The same with many more places looked at; the limit is none. */
bool zword_words_parse_thoroughly(const struct zword_word_encoder *tables,
				  struct zword_encoding *work, u32 width,
				  const struct zword_part *part);
/* The set of codes that suits what was parsed. */
u32 zword_words_elect(const struct zword_word_encoder *tables,
		      const struct zword_word_parse *parse);
void zword_words_measure(const struct zword_word_encoder *tables,
			 const struct zword_word_parse *parse, u32 set,
			 struct zword_size *size);
/* The bytes written; 0: they would pass the capacity. */
u32 zword_words_write(const struct zword_word_encoder *tables,
		      const struct zword_word_parse *parse, u32 mode, u32 set,
		      u8 *dst, u32 capacity);

/* The same. */
bool zword_bytes_parse(struct zword_encoding *work,
		       const struct zword_part *part);
bool zword_bytes_parse_thoroughly(struct zword_encoding *work,
				  const struct zword_part *part);
u32 zword_bytes_elect(const struct zword_byte_encoder *tables,
		      const struct zword_byte_parse *parse);
/* The bits that it takes, about. */
u32 zword_bytes_guess(const struct zword_byte_encoder *tables,
		      const struct zword_byte_parse *parse);
void zword_bytes_measure(const struct zword_byte_encoder *tables,
			 const struct zword_byte_parse *parse, u32 set,
			 struct zword_size *size);
u32 zword_bytes_write(const struct zword_byte_encoder *tables,
		      const struct zword_byte_parse *parse, u32 set, u8 *dst,
		      u32 capacity);

#endif /* ZWORD_BLOCK_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The static tables and what they speak of. Both directions read them; nothing
 * writes them once they are built.
 *
 * What a decoder touches for one block are the codes of one set and what all sets
 * share, at most 34 KiB; what an encoder touches of its tables, 20 KiB.
 */
#ifndef ZWORD_TABLES_H
#define ZWORD_TABLES_H

#include "zword.h"

static_assert(ZWORD_BLOCK_SIZE % 8 == 0, "whole words");
static_assert(ZWORD_PAGE_SIZE_MAX <= 65536, "a place is 16 bits");
static_assert(ZWORD_COUNT_MAX >= 1 && ZWORD_COUNT_MAX <= 255, "a byte");
static_assert(ZWORD_NARROW_MAX <= 255 &&
	      !(ZWORD_NARROW_MAX & (ZWORD_NARROW_MAX + 1)), "a byte, all ones");
static_assert(ZWORD_NEAR_MAX >= 1 && ZWORD_NEAR_MAX <= 256, "a byte");
static_assert(ZWORD_POSITION_BITS >= 1, "a shift of a word");

enum zword_mode {
	ZWORD_WORDS_64,
	ZWORD_WORDS_32,
	ZWORD_BYTES,
	ZWORD_RAW,
};

/* Where the reference of a word is. */
enum zword_kind {
	ZWORD_STRIDE,	/* the word at the stride */
	ZWORD_ZERO,	/* zero */
	ZWORD_NEAR,	/* the stride becomes 1 + the offset byte */
	ZWORD_FAR,	/* the same with two offset bytes, the low one first */
	ZWORD_LINEAR,	/* 2 a - b: a at the stride, b at twice the stride */
	ZWORD_KINDS,
};

#define ZWORD_KIND_BITS		3
#define ZWORD_MASK_BITS		6
#define ZWORD_MASKS_64		48
#define ZWORD_MASKS_32		16

/* A run of this class has a byte of its own: what it is longer than this. */
#define ZWORD_RUN_LONG		3u
static_assert(ZWORD_RUN_MAX - ZWORD_RUN_LONG <= 255, "a class and a byte");

/*
 * A token in one number: its kind, the index of its mask, the class of its run.
 * The 255 most frequent ones have codes; the others stand behind an escape.
 */
#define ZWORD_TOKEN_BITS	11
#define ZWORD_TOKENS		2048u
#define ZWORD_SYMBOLS		256
#define ZWORD_ESCAPE		255

/*
 * Sets of codes: pages differ in what is frequent, and each block takes the set
 * that suits it best. Few blocks are words of 32 bits, which have one.
 */
#define ZWORD_SETS		4
#define ZWORD_SETS_32		1

#define ZWORD_CONTEXTS		4	/* by the kind of the token before */
#define ZWORD_TOKEN_CODE_MAX	10	/* bits */
#define ZWORD_LITERAL_CODE_MAX	10
#define ZWORD_TOKEN_CODES	BIT(ZWORD_TOKEN_CODE_MAX)
#define ZWORD_LITERAL_CODES	BIT(ZWORD_LITERAL_CODE_MAX)

/* Tables of literals: trained ones for the bytes of words, and two more. */
#define ZWORD_WORD_LITERALS	8
#define ZWORD_OFFSETS		8
#define ZWORD_RUNS		9	/* and the two bytes of a far offset */
#define ZWORD_WORD_TABLES	10

#define ZWORD_LANES		4

/* Literals of words: what a block can have at most, with room to write 16 at once. */
#define ZWORD_TOKEN_LITERALS	3	/* a run and an offset */
#define ZWORD_WORD_TOKENS_MAX	(ZWORD_BLOCK_SIZE / 4)
#define ZWORD_WORD_LITERALS_MAX \
	(ZWORD_WORD_TOKENS_MAX * (4 + ZWORD_TOKEN_LITERALS))
/* With more than these no token of a parse begins. */
#define ZWORD_PARSE_LAST	(ZWORD_PARSE_LITERALS - (8 + ZWORD_TOKEN_LITERALS))

/* An entry of a decoding table. */
#define ZWORD_ENTRY_LENGTH	0x000f
#define ZWORD_ENTRY_SKIP	0x003f	/* the same, where a shift takes 6 bits */
#define ZWORD_ENTRY_CONTEXT	0x00c0	/* the context that follows the token */
#define ZWORD_ENTRY_CONTEXT_SHIFT 6
#define ZWORD_ENTRY_CLASS	0x00f0	/* the class of a literal of bytes */
#define ZWORD_ENTRY_MORE	4	/* bits below either */
#define ZWORD_ENTRY_SHIFT	8	/* the symbol */

/* Bytes of a word, at most two ranges of them: how literals come to their places. */
struct zword_mask {
	u64 low;	/* the first range, in its place */
	u64 high;	/* the second one */
	u64 bias;	/* what the literals of both are more than they mean */
	u8 low_from;	/* 8 less the bytes from packed to its place */
	u8 high_from;
	u8 count;	/* bytes in both */
	u8 bytes;	/* bit k: byte k */
};

/* The way back. */
struct zword_pack {
	u64 low;
	u64 high;
	u8 low_shift;	/* bits from its place to packed */
	u8 high_shift;
	u8 count;
};

/* What a kind means for a decoder, so that no branch has to find out. */
struct zword_reference {
	u64 keep;	/* the word at the stride counts */
	u32 twice;	/* the one at twice the stride, too */
	u32 stay;	/* the stride stays */
	u32 offset;	/* which bits of the next literals tell a new one */
	u16 least;	/* what it is at least */
	u16 bytes;	/* of those literals */
};

/* How a word is made: places in tables in bytes, and words in bytes. */
struct zword_step {
	u16 mask;
	u8 reference;
	u8 advance;	/* the word and its run; 0: a long one */
};

/* A token: the tables of the literals of its word, its offset, its run. */
struct zword_symbol {
	u8 table[11];
	u8 count;
	struct zword_step step;
};

struct zword_word_set {
	u16 token[ZWORD_CONTEXTS][ZWORD_TOKEN_CODES];
	u16 literal[ZWORD_WORD_TABLES][ZWORD_LITERAL_CODES];
};

struct zword_word_decoder {
	struct zword_word_set *set;
	struct zword_symbol symbol[ZWORD_SYMBOLS];
	struct zword_mask mask[ZWORD_MASKS_64];
	struct zword_reference reference[ZWORD_KINDS];
	u32 width;
	u8 table_of[4 * 8 * 4];		/* by group, place, count */
};

/* Code and length: code << 4 | length. */
struct zword_word_codes {
	u16 token[ZWORD_CONTEXTS][ZWORD_SYMBOLS];
	u16 literal[ZWORD_WORD_TABLES][256];
};

/*
 * Votes: what a symbol costs with each set but the first, less what it costs with
 * that one, in 5 bits each. A set that a mode does not have costs the most.
 */
#define ZWORD_VOTE_BITS		5
#define ZWORD_VOTE_NONE		15u
#define ZWORD_VOTE_NEVER	31u

struct zword_word_votes {
	u16 token[ZWORD_CONTEXTS][ZWORD_SYMBOLS];
	u16 literal[ZWORD_WORD_LITERALS][256];
};

struct zword_word_encoder {
	struct zword_word_codes *codes;		/* by set */
	struct zword_word_votes vote;
	struct zword_pack pack[ZWORD_MASKS_64];
	u64 table_of[ZWORD_KINDS][ZWORD_MASKS_64];	/* of each packed byte */
	u8 symbol[ZWORD_TOKENS];		/* token to symbol or escape */
	u8 cost[ZWORD_KINDS][256];		/* by bytes that differ, half bits */
	u8 offset_cost[ZWORD_NEAR_MAX + 1];	/* half bits; last: of far ones */
	u8 mask[256];				/* bytes that differ to mask */
};

#define ZWORD_CLASSES		8	/* of the literal before */
#define ZWORD_BYTE_NEAR		8
#define ZWORD_BYTE_FAR		9	/* the high byte; the low one is plain */
#define ZWORD_BYTE_LENGTH	10
#define ZWORD_BYTE_TABLES	11
#define ZWORD_BYTE_CODE_MAX	10	/* bits of a token's code */
#define ZWORD_BYTE_CODES	BIT(ZWORD_BYTE_CODE_MAX)

/* A token of bytes: literals 0 to 7, length code 0 to 8, where the match is. */
enum zword_match {
	ZWORD_MATCH_NONE,
	ZWORD_MATCH_AGAIN,	/* at the offset before */
	ZWORD_MATCH_NEAR,	/* 1 to ZWORD_NEAR_MAX bytes back */
	ZWORD_MATCH_FAR,
};

#define ZWORD_LITERALS_LONG	7
#define ZWORD_LENGTH_CODES	9
#define ZWORD_LENGTH_LONG	(ZWORD_LENGTH_CODES - 1)
#define ZWORD_MATCH_MIN		4
static_assert(ZWORD_MATCH_MAX - ZWORD_MATCH_MIN - ZWORD_LENGTH_LONG <= 255,
	      "a code and a byte");
#define ZWORD_BYTE_TOKENS	(8 * ZWORD_LENGTH_CODES * 3 + 8)
#define ZWORD_AGAIN_FIRST	8	/* the offset before the first match */

struct zword_byte_set {
	u16 token[ZWORD_BYTE_CODES];
	u16 table[ZWORD_BYTE_TABLES][ZWORD_LITERAL_CODES];
};

/* What a symbol of bytes says. */
struct zword_byte_symbol {
	u8 literals;	/* 7: and more */
	u8 length;	/* 0: no match; 12: and more */
	u8 match;
	u8 is_long;	/* either has more */
	u8 is_literals;	/* and the literals have */
	u16 more_from;	/* from this count on another one follows */
};

struct zword_byte_decoder {
	struct zword_byte_set set[ZWORD_SETS];
	struct zword_byte_symbol symbol[ZWORD_SYMBOLS];
	u16 first;	/* an entry as if a 0 had been before */
};

struct zword_byte_codes {
	u16 token[ZWORD_SYMBOLS];
	u16 table[ZWORD_BYTE_TABLES][256];
};

struct zword_byte_votes {
	u16 token[ZWORD_SYMBOLS];
	u16 table[ZWORD_CLASSES][256];
};

struct zword_byte_encoder {
	struct zword_byte_codes codes[ZWORD_SETS];
	struct zword_byte_votes vote;
	u8 class_of[256];
};

struct zword_tables {
	struct zword_word_decoder word_decoder[2];	/* by mode */
	struct zword_word_encoder word_encoder[2];
	struct zword_byte_decoder byte_decoder;
	struct zword_byte_encoder byte_encoder;
	/* The sets of words of 64 bits, then those of 32. */
	struct zword_word_set word_set[ZWORD_SETS + ZWORD_SETS_32];
	struct zword_word_codes word_codes[ZWORD_SETS + ZWORD_SETS_32];
};

static inline u32 zword_sets_of(u32 mode)
{
	return mode == ZWORD_WORDS_32 ? ZWORD_SETS_32 : ZWORD_SETS;
}

static_assert(sizeof(struct zword_word_decoder) +
	      sizeof(struct zword_word_set) <= 34 << 10, "by a read");
static_assert(sizeof(struct zword_symbol) == 16, "two copies of eight bytes");
static_assert(sizeof(struct zword_byte_decoder) -
	      (ZWORD_SETS - 1) * sizeof(struct zword_byte_set) <= 34 << 10,
	      "by a read");
static_assert(sizeof(struct zword_word_encoder) +
	      sizeof(struct zword_word_codes) <= 20 << 10, "by a write");
static_assert(sizeof(struct zword_byte_encoder) -
	      (ZWORD_SETS - 1) * sizeof(struct zword_byte_codes) <= 20 << 10,
	      "by a write");

/* Of a token of words. */
static inline u32 zword_token(u32 kind, u32 mask, u32 run)
{
	return kind | mask << ZWORD_KIND_BITS |
	       run << (ZWORD_KIND_BITS + ZWORD_MASK_BITS);
}

static inline u32 zword_token_kind(u32 token)
{
	return token & ((1u << ZWORD_KIND_BITS) - 1);
}

static inline u32 zword_token_mask(u32 token)
{
	return token >> ZWORD_KIND_BITS & ((1u << ZWORD_MASK_BITS) - 1);
}

static inline u32 zword_token_run(u32 token)
{
	return token >> (ZWORD_KIND_BITS + ZWORD_MASK_BITS);
}

/* Kinds whose literals look alike. */
static inline u32 zword_group(u32 kind)
{
	return kind == ZWORD_STRIDE ? 0 : kind == ZWORD_ZERO ? 1 :
	       kind == ZWORD_LINEAR ? 3 : 2;
}

/* What a decoder looks up: the symbol of an entry, and what a step speaks of. */
static inline const struct zword_byte_symbol *
zword_byte_symbol(const struct zword_byte_decoder *tables, u32 entry)
{
	return &tables->symbol[entry >> ZWORD_ENTRY_SHIFT];
}

static __always_inline const struct zword_symbol *
zword_word_symbol(const struct zword_word_decoder *tables, u32 entry)
{
	return &tables->symbol[entry >> ZWORD_ENTRY_SHIFT];
}

static __always_inline const struct zword_mask *
zword_mask_of(const struct zword_word_decoder *tables,
	      const struct zword_step *step)
{
	return (const void *)((const u8 *)tables->mask + step->mask);
}

static __always_inline const struct zword_reference *
zword_reference_of(const struct zword_word_decoder *tables,
		   const struct zword_step *step)
{
	return (const void *)((const u8 *)tables->reference + step->reference);
}

/* Of any token. */
void zword_symbol_of(const struct zword_word_decoder *decoder, u32 token,
		     struct zword_symbol *symbol);

static inline u32 zword_symbol_kind(const struct zword_symbol *symbol)
{
	return symbol->step.reference / sizeof(struct zword_reference);
}

/* The context of the token behind one of this kind. */
static inline u32 zword_context(u32 kind)
{
	return kind <= ZWORD_NEAR ? kind : kind - 1;
}

/* Of a token of bytes; literals and length are codes, not counts. */
static inline u32 zword_byte_token(u32 literals, u32 length, u32 match)
{
	if (match == ZWORD_MATCH_NONE)
		return 8 * ZWORD_LENGTH_CODES * 3 + literals;
	return (literals * ZWORD_LENGTH_CODES + length) * 3 + match - 1;
}

/*
 * The layout of the lengths, in bytes. For each of the two widths of words:
 */
#define ZWORD_L_SYMBOLS		0	/* 255 tokens, 16 bits, low byte first */
#define ZWORD_L_TABLE_OF	512	/* group, place, count: which table */
#define ZWORD_L_COSTS		(ZWORD_L_TABLE_OF + 4 * 8 * 4)
					/* kind, mask: half bits; encoder only */
#define ZWORD_L_WORD_SETS	(ZWORD_L_COSTS + ZWORD_KINDS * ZWORD_MASKS_64)
/* for each set: lengths of tokens by context and symbol, of literals by table */
#define ZWORD_L_WORD_SET	((ZWORD_CONTEXTS + ZWORD_WORD_TABLES) * 256)
#define ZWORD_L_WORDS(sets)	(ZWORD_L_WORD_SETS + (sets) * ZWORD_L_WORD_SET)
#define ZWORD_L_WORDS_32	ZWORD_L_WORDS(ZWORD_SETS)
#define ZWORD_L_BYTES		(ZWORD_L_WORDS_32 + ZWORD_L_WORDS(ZWORD_SETS_32))
/* Then for bytes; for each set: lengths of tokens, of the rest by table. */
#define ZWORD_L_CLASS_OF	0
#define ZWORD_L_BYTE_SETS	256
#define ZWORD_L_BYTE_SET	((1 + ZWORD_BYTE_TABLES) * 256)
#define ZWORD_L_SIZE		(ZWORD_L_BYTES + ZWORD_L_BYTE_SETS + \
				 ZWORD_SETS * ZWORD_L_BYTE_SET)

#endif /* ZWORD_TABLES_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The codec's limits. With smaller ones, as tests have them, every page meets every
 * limit, and what is written is another format.
 */
#ifndef ZWORD_LIMITS_H
#define ZWORD_LIMITS_H

#define ZWORD_BLOCK_SIZE	4096u
#define ZWORD_PAGE_SIZE_MAX	(16 * ZWORD_BLOCK_SIZE)

/* The longest match, in bytes. */
#define ZWORD_MATCH_MAX		267u
/* The longest run behind a word, in words. */
#define ZWORD_RUN_MAX		258u
/* The most that one byte adds to a count of literals. */
#define ZWORD_COUNT_MAX		255u
/* The largest stream in a narrow header: all bits are set. */
#define ZWORD_NARROW_MAX	255u
/* The longest way back that is near: of matches in bytes, of words in words. */
#define ZWORD_NEAR_MAX		256u

/* Positions in each table, as a shift. */
#define ZWORD_POSITION_BITS	10
/* Places that a thorough parse compares, and how many places its chains hold. */
#define ZWORD_CHAIN_LINKS	16u
#define ZWORD_CHAIN_PLACES	(ZWORD_BLOCK_SIZE / 2 - 32)
/* Literals in a row, as a shift, after which a match is looked for less often. */
#define ZWORD_SKIP_SHIFT	6

/*
 * What a parse of words has room for: a block that takes as many literals as it has
 * bytes is not worth its object, and given up.
 */
#define ZWORD_PARSE_LITERALS	(ZWORD_BLOCK_SIZE - 24)

/* Of a glance at a block: how far apart its words are; of a probe, its bytes. */
#define ZWORD_GLANCE_STEP	(ZWORD_BLOCK_SIZE / 64)
#define ZWORD_PROBE_SIZE	(ZWORD_BLOCK_SIZE / 16)

#endif /* ZWORD_LIMITS_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The codec's limits, as parameters of its build.
 *
 * The values here are the format's. A test builds the codec with small ones, where
 * every page meets every limit: what it writes is another format. Places that are
 * looked at before a block is parsed, and checks of the budget, are fractions of the
 * block.
 */
#ifndef ZWORD_LIMITS_H
#define ZWORD_LIMITS_H

#ifndef ZWORD_BLOCK_SIZE
#define ZWORD_BLOCK_SIZE	4096u
#endif
#define ZWORD_PAGE_SIZE_MAX	(16 * ZWORD_BLOCK_SIZE)

/* The longest match, in bytes. */
#ifndef ZWORD_MATCH_MAX
#define ZWORD_MATCH_MAX		267u
#endif
/* The longest run behind a word, in words. */
#ifndef ZWORD_RUN_MAX
#define ZWORD_RUN_MAX		258u
#endif
/* The most that one byte adds to a count of literals. */
#ifndef ZWORD_COUNT_MAX
#define ZWORD_COUNT_MAX		255u
#endif
/* The largest stream in a narrow header: all bits are set. */
#ifndef ZWORD_NARROW_MAX
#define ZWORD_NARROW_MAX	255u
#endif
/* The longest way back that is near: of matches in bytes, of words in words. */
#ifndef ZWORD_NEAR_MAX
#define ZWORD_NEAR_MAX		256u
#endif

/* Positions in each table, as a shift. */
#ifndef ZWORD_POSITION_BITS
#define ZWORD_POSITION_BITS	10
#endif
/* Places that a thorough parse compares. */
#ifndef ZWORD_CHAIN_LINKS
#define ZWORD_CHAIN_LINKS	16u
#endif
/* Literals in a row, as a shift, after which a match is looked for less often. */
#ifndef ZWORD_SKIP_SHIFT
#define ZWORD_SKIP_SHIFT	6
#endif

_Static_assert(ZWORD_BLOCK_SIZE % 8 == 0, "whole words");
_Static_assert(ZWORD_PAGE_SIZE_MAX <= 65536, "a place is 16 bits");
_Static_assert(ZWORD_COUNT_MAX >= 1 && ZWORD_COUNT_MAX <= 255, "a byte");
_Static_assert(ZWORD_NARROW_MAX <= 255 &&
	       !(ZWORD_NARROW_MAX & (ZWORD_NARROW_MAX + 1)), "a byte, all ones");
_Static_assert(ZWORD_NEAR_MAX >= 1 && ZWORD_NEAR_MAX <= 256, "a byte");
_Static_assert(ZWORD_POSITION_BITS >= 1, "a shift of a word");

#endif /* ZWORD_LIMITS_H */

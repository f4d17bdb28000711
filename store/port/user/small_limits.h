/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zword's limits where a test makes them small, in the place of those of
 * zword/zword_limits.h: the build gives the others, and includes this before all else.
 */
#ifndef ZWORD_LIMITS_H
#define ZWORD_LIMITS_H

#define ZWORD_PAGE_SIZE_MAX	(16 * ZWORD_BLOCK_SIZE)
#define ZWORD_CHAIN_PLACES	(ZWORD_BLOCK_SIZE / 2)
/* A parse is never given up for its literals. */
#define ZWORD_PARSE_LITERALS	(ZWORD_WORD_LITERALS_MAX + 8)
#define ZWORD_GLANCE_STEP	16u
#define ZWORD_PROBE_SIZE	(ZWORD_BLOCK_SIZE < 256 ? 16 : ZWORD_BLOCK_SIZE / 16)

#endif /* ZWORD_LIMITS_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What tests of zword with small limits share: a mode and an effort that are forced,
 * and pages that know the limits.
 */
#ifndef ZM_TESTS_SMALL_SCOPE_H
#define ZM_TESTS_SMALL_SCOPE_H

#include "harness.h"

#include "../zword/block.h"

#define BLOCK	ZWORD_BLOCK_SIZE
#define BLOCKS_MAX	4u
/* More than any block takes, whatever its mode. */
#define ROOM	(8 * BLOCK)

static struct zword_tables *tables;

static inline void tables_make(void)
{
	tables = malloc(zword_tables_size());
	if (!tables ||
	    zword_tables_build(tables, zword_lengths, zword_lengths_size))
		DIE("no tables");
}

/* One block, which no parse gives up. */
static inline void block_parse(struct zword_encoding *work, u32 mode,
			       bool thoroughly, const u8 *page, u32 from)
{
	const struct zword_part part = {
		.page = page,
		.from = from,
		.size = BLOCK,
		.limit = ROOM,
	};
	const struct zword_word_encoder *encoder = &tables->word_encoder[mode];
	u32 width = mode == ZWORD_WORDS_64 ? 8 : 4;
	bool done;

	memset(work, 0, sizeof(struct zword_positions));
	if (mode == ZWORD_BYTES)
		done = thoroughly ? zword_bytes_parse_thoroughly(work, &part) :
				    zword_bytes_parse(work, &part);
	else
		done = thoroughly ?
		       zword_words_parse_thoroughly(encoder, work, width, &part) :
		       zword_words_parse(encoder, work, width, &part);
	if (!done)
		DIE("mode %u gives up a block without a limit", mode);
}

/* What was parsed, as a block; 0: it passes the capacity. */
static inline u32 block_write(const struct zword_encoding *work, u32 mode,
			      u32 set, u8 *dst, u32 capacity)
{
	return mode == ZWORD_BYTES ?
	       zword_bytes_write(&tables->byte_encoder, &work->byte, set,
				 dst, capacity) :
	       zword_words_write(&tables->word_encoder[mode],
				 &work->word, mode, set, dst, capacity);
}

static inline void put_words(u8 *to, u64 word, u64 step, u32 width, u32 bytes)
{
	for (; bytes >= width; bytes -= width, to += width, word += step)
		zword_put_word(to, word, width);
}

/*
 * Regions copied, at and around the longest match and the longest run; words that
 * count or repeat; few letters; noise; in the end some bytes changed.
 */
static inline void page_random(struct rng *rng, u8 *page, u32 size)
{
	u32 at, k, count, width, letters = 1 + rng_below(rng, 4), kinds;

	/* Seldom all kinds in one page. */
	kinds = 1 + (u32)rng_next(rng) % 63;
	for (at = 0; at < size; at += count) {
		do {
			k = rng_below(rng, 6);
		} while (!(kinds >> k & 1));
		count = 1 + rng_below(rng, 2 * ZWORD_MATCH_MAX + 4);
		width = rng_below(rng, 2) ? 8 : 4;
		if (k >= 4)
			count = width * (1 + rng_below(rng, ZWORD_RUN_MAX + 3));
		if (count > size - at)
			count = size - at;
		if (k < 2 || (k < 4 && !at)) {
			for (u32 i = 0; i < count; i++)
				page[at + i] = k == 1 ? (u8)rng_next(rng) :
					       (u8)('a' + rng_below(rng, letters));
		} else if (k < 4) {
			u32 back = k == 2 ? 1 + rng_below(rng, at) :
				   1 + rng_below(rng, at < 9 ? at : 9);

			for (u32 i = 0; i < count; i++)
				page[at + i] = page[at + i - back];
		} else {
			u32 bits = rng_below(rng, 64);

			memset(page + at, 0, count);
			put_words(page + at, rng_next(rng) >> bits,
				  k == 4 ? 0 : rng_next(rng) >> rng_below(rng, 64),
				  width, count);
		}
	}
	for (k = rng_below(rng, 8); k < 3; k++)
		page[rng_below(rng, size)] ^= (u8)(1u << rng_below(rng, 8));
}

#endif /* ZM_TESTS_SMALL_SCOPE_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zword: a codec for pages of memory. docs/zword.md is the format.
 *
 * A page of memory is not text: it is words, most of which resemble a word some
 * strides back. So words are predicted, what differs is coded byte by byte, and
 * all codes are static, trained on pages that kernels swapped out. Pages that
 * are rather text are coded as matches and literals, by the same kind of codes.
 *
 * Words:
 *   block    4 KiB of a page; each has a mode of its own and refers to all that
 *            stands before it in the page;
 *   mode     words of 64 bits, words of 32 bits, bytes, or raw;
 *   token    one word and the run of words behind it that equal their reference;
 *            in the mode of bytes, literals and a match;
 *   kind     where the reference of a word is, see tables.h;
 *   stride   how far back, in words; the last one that was told;
 *   lane     one of four interleaved streams of literals.
 *
 * Invariants:
 *   - nothing is allocated, nothing recurses, no floating point, no SIMD;
 *   - the encoder writes below the capacity it was given, whatever becomes of
 *     its source meanwhile: a page may change while it is swapped out;
 *   - the decoder reads in src and writes in dst only, whatever src holds, and
 *     its steps are bounded by the sizes of both;
 *   - the same page gives the same bytes, on every machine.
 */
#ifndef ZWORD_H
#define ZWORD_H

#include <zm_platform.h>

#include "zword_limits.h"

struct zword_tables;

/*
 * What makes tables. Where they are made only at load (ZWORD_AT_LOAD), this memory
 * is given back then.
 */
#ifdef ZWORD_AT_LOAD
#include <linux/init.h>
#define zword_at_load		__init
#define zword_data_at_load	__section(".init.rodata")
#else
#define zword_at_load
#define zword_data_at_load
#endif

/*
 * Working memory of either direction; what it held before does not matter. No more than a
 * whole power of two, which is what a kernel gives.
 */
#define ZWORD_WORK_SIZE		(16u << 10)

/* What decompressing writes of it, from its start. */
#define ZWORD_READ_SIZE		11312u

struct zword_work {
	u64 memory[ZWORD_WORK_SIZE / sizeof(u64)];
};

/*
 * The tables that all streams share, made from the trained code lengths: once,
 * before anything is coded. 0, or -EINVAL: these are no lengths of this format.
 */
int zword_tables_build(struct zword_tables *tables, const u8 *lengths,
		       size_t size);
size_t zword_tables_size(void);

/* The trained lengths. */
extern const u8 zword_lengths[] zword_data_at_load;
extern const size_t zword_lengths_size;

/*
 * The effort: none, each block is kept as it is; the mode that a glance at a block
 * and at parts of it speaks for, parsed quickly; or all three, the best of them
 * parsed thoroughly. What comes out is the same format.
 */
#define ZWORD_LEVEL_RAW		0
#define ZWORD_LEVEL_GLANCE	1
#define ZWORD_LEVEL_ALL		2

/*
 * Compresses a page of src_size bytes, a multiple of the block's up to
 * ZWORD_PAGE_SIZE_MAX. *dst_size: in the capacity, out the bytes written.
 * 0; -ENOSPC: it takes more than the capacity (dst then holds garbage);
 * -EINVAL: no such page.
 */
int zword_compress(const struct zword_tables *tables, struct zword_work *work,
		   int level, const u8 *src, size_t src_size,
		   u8 *dst, size_t *dst_size);

/* Into exactly dst_size bytes: 0, or -EBADMSG. */
int zword_decompress(const struct zword_tables *tables,
		     struct zword_work *work, const u8 *src, size_t src_size,
		     u8 *dst, size_t dst_size);

#endif /* ZWORD_H */

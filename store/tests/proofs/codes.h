/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What proofs of the decoder put in the place of what a stream holds: at each refill
 * any 56 bits, and of each code any entry that tables.c may have put there (see
 * tables.c, where that is proven). A code may take no more bits than there are.
 */
#ifndef ZM_TESTS_CODES_H
#define ZM_TESTS_CODES_H

#include "proof.h"

#include "../../zword/block.h"

static void any_refill(struct zword_reader *reader)
{
	u32 taken = nondet_u32();

	prove(reader->bits);
	assume(taken <= 7);
	reader->bits = (nondet_u64() | ZWORD_READER_MARK) >> taken;
}

static void checked_skip(struct zword_reader *reader, u32 bits)
{
	prove(bits < 64);
	prove(reader->bits >> bits);
	reader->bits >>= bits;
}

/* Of codes of bytes the upper bits below the symbol are a class, of words none. */
static u32 any_entry(const u16 *entries, u32 size, u32 symbols, u32 other)
{
	u32 length = nondet_u32(), symbol = nondet_u32();

	prove(__CPROVER_r_ok(entries, size * sizeof(u16)));
	assume(length >= 1 && length <= ZWORD_BYTE_CODE_MAX);
	assume(1u << length <= size && symbol < symbols);
	return symbol << ZWORD_ENTRY_SHIFT | (nondet_u32() & other) | length;
}

#define zword_refill(reader, src, size)	any_refill(reader)
#define zword_skip	checked_skip

#endif /* ZM_TESTS_CODES_H */

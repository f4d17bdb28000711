/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bytes of two letters, of which the solver has one bit each. */
#ifndef ZM_TESTS_LETTERS_H
#define ZM_TESTS_LETTERS_H

#include "proof.h"

/* size: in whole words of eight bytes. */
static void any_letters(u8 *at, u32 size)
{
	u32 k;

	for (k = 0; k < size; k += 8)
		zm_put64(at + k, nondet_u64() & 0x0101010101010101ull);
}

#endif /* ZM_TESTS_LETTERS_H */

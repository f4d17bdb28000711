/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the proofs share. Each PROOF() of these files is one; CBMC looks at all its paths, with all values of what
 * nondet_*() give, and at each access whether it is in bounds. The sources are included
 * as they are.
 *
 * That decoding gives the bytes back is proven in parts. Not proven: how these are joined,
 * the loops around steps, the sets of codes, the choice of a mode, more literals, offsets
 * and lengths than copies.c and streams.c have, the streams of words beside their header,
 * and of words of 64 bits the choice and the word made.
 */
#ifndef ZM_TESTS_PROOF_H
#define ZM_TESTS_PROOF_H

#include <small_limits.h>
#include <zm_platform.h>

/*
 * A proof; xtask reads this line. block, block_long: the bytes of zword's block, and
 * with --long; loops: how often a loop may go round, with --long as many more as the
 * block has.
 */
#define PROOF(name, block, block_long, loops)	void name(void)

/* Any value, another one at each call: CBMC makes it so where there is no body. */
u8 nondet_u8(void);
u16 nondet_u16(void);
u32 nondet_u32(void);
u64 nondet_u64(void);
bool nondet_bool(void);

#define assume(what)	__CPROVER_assume(what)
#define prove(what)	__CPROVER_assert(what, #what)
#define any_bytes(object)	__CPROVER_havoc_object(object)

#endif /* ZM_TESTS_PROOF_H */

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A run of words that the parse finds equals its reference, of a page that does not
 * change; a run of zeros is zero.
 */
#include "proof.h"

#include "../../zword/block.h"
#include "../../zword/parse_words.c"

static u8 page[ZWORD_BLOCK_SIZE];

/* Behind a first word, where the page ends with its block. */
PROOF(runs_equal_their_references, 32, 64, 6)
{
	u32 width = nondet_bool() ? 8 : 4, k = nondet_u32();
	struct scan scan = {
		.page = page, .at = nondet_u32(), .end = ZWORD_BLOCK_SIZE,
		.back = nondet_u32(),
	};

	any_bytes(page);
	assume(scan.at < scan.end && scan.at % width == 0);
	assume(scan.back >= width && scan.back % width == 0);
	assume(scan.back <= scan.at);
	if (k < run_of(&scan, width))
		prove(page[scan.at + k] == page[scan.at + k - scan.back]);
	if (k < zeros_of(&scan, width))
		prove(!page[scan.at + k]);
}

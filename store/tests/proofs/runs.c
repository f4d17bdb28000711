// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs of words: from any state of the parse, on a page whose words are others at each
 * read.
 */
#include "proof.h"

#include "../../zword/block.h"

static u64 changing_le64(const u8 *at)
{
	prove(__CPROVER_r_ok(at, 8));
	return nondet_u64();
}

static u64 changing_word(const u8 *at, u32 width)
{
	prove(__CPROVER_r_ok(at, width));
	return width == 8 ? nondet_u64() : nondet_u32();
}

#define zword_get_le64	changing_le64
#define zword_get_word	changing_word
#include "../../zword/parse_words.c"

#define SIZE	(2 * ZWORD_BLOCK_SIZE)

static u8 page[SIZE];

static struct scan any_scan(u32 width)
{
	struct scan scan = {
		.page = page,
		.at = nondet_u32(),
		.end = nondet_bool() ? ZWORD_BLOCK_SIZE : SIZE,
		.back = nondet_u32(),
	};

	/* Behind a first word, with a reference that is_behind() let through. */
	assume(scan.at < scan.end && scan.at % width == 0 && scan.at >= width);
	assume(scan.at >= scan.end - ZWORD_BLOCK_SIZE);
	assume(scan.back >= width && scan.back % width == 0);
	assume(scan.back <= scan.at);
	return scan;
}

static void run_prove(const struct scan *scan, u32 run, u32 width)
{
	prove(run % width == 0);
	prove(run <= ZWORD_RUN_MAX * width);
	prove(scan->at + run <= scan->end);
}

PROOF(run_of_keeps_to_the_block, 32, 128, 34)
{
	u32 width = nondet_bool() ? 8 : 4;
	struct scan scan = any_scan(width);

	run_prove(&scan, run_of(&scan, width), width);
}

PROOF(zeros_of_keeps_to_the_block, 32, 128, 34)
{
	u32 width = nondet_bool() ? 8 : 4;
	struct scan scan = any_scan(width);

	run_prove(&scan, zeros_of(&scan, width), width);
}

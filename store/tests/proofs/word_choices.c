// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the parse of words chooses stands for the page, if it does not change: the
 * reference of a word is the one that a decoder takes, with any costs; and a run equals
 * its own.
 */
#include "proof.h"

#include "../../zword/block.h"
#include "../../zword/parse_words.c"
#include "word_scan.h"

static u8 page[ZWORD_BLOCK_SIZE];

/* Of a page that ends with its block, which begins anywhere before. */
static struct scan any_scan(u32 width)
{
	struct scan scan = {
		.tables = &tables, .positions = &positions, .page = page,
		.at = nondet_u32(), .end = ZWORD_BLOCK_SIZE, .back = nondet_u32(),
	};

	any_bytes(page);
	assume_scan(&scan, width);
	return scan;
}

/* What a decoder adds the literals to, see docs/zword.md. */
static u64 reference_of(const struct scan *scan, const struct choice *choice,
			u32 width)
{
	u64 one = word_before(page, scan->at, choice->back, width);

	if (choice->kind == ZWORD_ZERO)
		return 0;
	if (choice->kind != ZWORD_LINEAR)
		return one;
	one = 2 * one - word_before(page, scan->at, 2 * choice->back, width);
	return width == 4 ? (u32)one : one;
}

static void choice_prove(bool thoroughly, u32 width)
{
	static u16 before[ZWORD_BLOCK_SIZE];
	struct scan scan = any_scan(width);
	struct choice choice;
	u64 word, reference;
	u32 set;

	any_bytes(before);
	any_bytes(&tables);
	look_at(&scan, &choice, width);
	word = choice.word;
	if (thoroughly)
		word_choose_best(&scan, before, 0, &choice, width);
	else
		word_choose(&scan, &choice, width);
	reference = reference_of(&scan, &choice, width);
	set = choice.kind == ZWORD_ZERO ? zword_bytes_set(word) :
					  set_of(word, reference, width);
	prove(choice.word == word && choice.set == set);
	prove(choice.kind == ZWORD_ZERO || choice.reference == reference);
	prove(choice.back == scan.back || choice.kind == ZWORD_NEAR ||
	      choice.kind == ZWORD_FAR);
}

/* Of words of 32 bits. */
PROOF(quick_choices_are_their_references, 16, 32, 4)
{
	choice_prove(false, 4);
}

PROOF(best_choices_are_their_references, 16, 32, 4)
{
	choice_prove(true, 4);
}

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

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One step of the parse of words, from any state that a step leaves, with any costs; and
 * its runs. The page's words are others at each read.
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

/* What is written: where, and not what. */
static struct zword_word_parse parsed;

static void checked_put(u8 *at, u64 word)
{
	(void)word;
	prove((at >= parsed.literal &&
	       at + 8 <= parsed.literal + sizeof(parsed.literal)) ||
	      (at >= parsed.table &&
	       at + 8 <= parsed.table + sizeof(parsed.table)));
}

#define get_unaligned_le64	changing_le64
#define zword_get_word	changing_word
#define put_unaligned_le64(word, at)	checked_put(at, word)
#include "../../zword/parse_words.c"
#include "word_scan.h"

#define SIZE	(2 * ZWORD_BLOCK_SIZE)

static u8 page[SIZE];
static u16 before[ZWORD_BLOCK_SIZE];

/* Of a word that is not the first, what any token leaves, or the begin. */
static struct scan any_scan(u32 width)
{
	u32 from = nondet_bool() ? ZWORD_BLOCK_SIZE : 0;
	struct scan scan = {
		.tables = &tables,
		.positions = &positions,
		.page = page,
		.at = nondet_u32(),
		.end = from + ZWORD_BLOCK_SIZE,
		.back = nondet_u32(),
	};

	any_bytes(&tables);
	any_bytes(before);
	assume(from <= scan.at);
	assume_scan(&scan, width);
	return scan;
}

static void choice_prove(const struct scan *scan, const struct choice *choice,
			 u32 width)
{
	u32 k = nondet_u32();

	prove(is_behind(scan->at, choice->back, width));
	prove(choice->back % width == 0);
	prove(choice->kind < ZWORD_KINDS);
	prove(choice->set < (width == 8 ? 256 : 16));
	if (choice->kind == ZWORD_NEAR)
		prove(choice->back <= ZWORD_NEAR_MAX * width);
	assume(k < ZWORD_POSITIONS);
	prove(!positions.whole[k] || positions.whole[k] * width <= scan->at);
	prove(!positions.high[k] || positions.high[k] * width <= scan->at);
}

/* The quick choice, of any word: no place is at or behind it. */
PROOF(choose_looks_back, 32, 128, 34)
{
	u32 width = nondet_bool() ? 8 : 4;
	struct scan scan = any_scan(width);
	struct choice choice;

	look_at(&scan, &choice, width);
	word_choose(&scan, &choice, width);
	choice_prove(&scan, &choice, width);
}

/* The thorough one, along a chain of any links. */
PROOF(choose_best_looks_back, 32, 128, 34)
{
	u32 width = nondet_bool() ? 8 : 4;
	struct scan scan = any_scan(width);
	struct choice choice;

	look_at(&scan, &choice, width);
	word_choose_best(&scan, before, scan.end - ZWORD_BLOCK_SIZE, &choice, width);
	choice_prove(&scan, &choice, width);
}

/*
 * A token of any choice and its run, behind as many as there may be: in their arrays,
 * and no more literals than a token's share.
 */
PROOF(put_token_keeps_to_its_arrays, 16, 32, 18)
{
	u32 width = nondet_bool() ? 8 : 4, tokens = nondet_u32();
	u32 literals = nondet_u32(), run = nondet_u32();
	u32 share = (width == 8 ? 8 : 4) + ZWORD_TOKEN_LITERALS;
	struct choice choice;
	struct output output;

	any_bytes(&tables);
	assume(tokens < ZWORD_BLOCK_SIZE / width && literals <= ZWORD_PARSE_LAST);
	assume(choice.kind < ZWORD_KINDS && choice.set < (width == 8 ? 256 : 16));
	assume(choice.back >= width && choice.back <= SIZE);
	assume(run <= ZWORD_RUN_MAX);
	/* Of tables.c: a mask is one of these, and has so many bytes at most. */
	assume(tables.mask[choice.set] < ZWORD_MASKS_64);
	assume(tables.pack[tables.mask[choice.set]].count <= width);
	assume(tables.pack[tables.mask[choice.set]].low_shift < 64);
	assume(tables.pack[tables.mask[choice.set]].high_shift < 64);
	output = (struct output){
		.token = parsed.token + tokens,
		.literal = parsed.literal + literals,
		.table = parsed.table + literals,
	};
	put_token(&tables, &output, &choice, width);
	put_run(&output, run);
	prove(output.token == parsed.token + tokens + 1);
	prove(output.literal <= parsed.literal + literals + share);
	prove(output.literal - parsed.literal == output.table - parsed.table);
}

/* Runs, behind a first word, with a reference that is_behind() let through. */
static void run_prove(u32 (*run)(const struct scan *scan, u32 width), u32 width)
{
	struct scan scan = {
		.page = page,
		.at = nondet_u32(),
		.end = nondet_bool() ? ZWORD_BLOCK_SIZE : SIZE,
		.back = nondet_u32(),
	};
	u32 bytes;

	assume(scan.at < scan.end && scan.at % width == 0 && scan.at >= width);
	assume(scan.at >= scan.end - ZWORD_BLOCK_SIZE);
	assume(scan.back >= width && scan.back % width == 0);
	assume(scan.back <= scan.at);
	bytes = run(&scan, width);
	prove(bytes % width == 0);
	prove(bytes <= ZWORD_RUN_MAX * width);
	prove(scan.at + bytes <= scan.end);
}

PROOF(run_of_keeps_to_the_block, 32, 128, 34)
{
	run_prove(run_of, nondet_bool() ? 8 : 4);
}

PROOF(zeros_of_keeps_to_the_block, 32, 128, 34)
{
	run_prove(zeros_of, nondet_bool() ? 8 : 4);
}

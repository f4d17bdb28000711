// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Matches of the mode of bytes: each step of both parses, from any state that a step
 * leaves. The page is any page, and another one in each function; its words are
 * others at each read. Literals that are taken are bounds alone.
 */
#include "proof.h"

#include "../../zword/block.h"

static struct zword_byte_parse parsed;

/* A read of the page: in bounds, and whatever it likes. */
static u64 changing_le64(const void *at)
{
	prove(__CPROVER_r_ok(at, 8));
	return nondet_u64();
}

static u64 changing_word(const u8 *at, u32 width)
{
	prove(__CPROVER_r_ok(at, width));
	return width == 8 ? nondet_u64() : nondet_u32();
}

static void literals_write(const void *at, size_t size)
{
	const u8 *literals = parsed.literal;

	prove((const u8 *)at >= literals);
	prove((const u8 *)at + size <= literals + sizeof(parsed.literal));
}

static void literals_copy(void *to, const void *from, size_t size)
{
	prove(__CPROVER_r_ok(from, size));
	literals_write(to, size);
}

#define get_unaligned_le64	changing_le64
#define zword_copy_8(to, from)	literals_copy(to, from, 8)
#define memcpy	literals_copy
#define zword_get_word	changing_word
#include "../../zword/parse_bytes.c"

#define SIZE	(2 * ZWORD_BLOCK_SIZE)

static u8 page[SIZE];
static struct zword_byte_positions positions;
/* Before a step: all places are before it, or the begin of the page. */
static void positions_assume(u32 at)
{
	u32 k;

	for (k = 0; k < ZWORD_POSITIONS; k++) {
		assume(!positions.longer[k] || positions.longer[k] < at);
		assume(!positions.shorter[k] || positions.shorter[k] < at);
	}
}

static void positions_prove(u32 at)
{
	u32 k = nondet_u32();

	assume(k < ZWORD_POSITIONS);
	prove(positions.longer[k] < at);
	prove(positions.shorter[k] < at);
}

static struct scan any_scan(void)
{
	u32 from = nondet_bool() ? ZWORD_BLOCK_SIZE : 0;
	struct scan scan = {
		.positions = &positions,
		.page = page,
		.at = nondet_u32(),
		.anchor = nondet_u32(),
		.end = from + ZWORD_BLOCK_SIZE,
		.again = nondet_u32(),
	};

	any_bytes(page);
	any_bytes(&positions);
	any_bytes(&parsed);
	assume(from <= scan.anchor && scan.anchor <= scan.at);
	assume(scan.at >= 1 && scan.at < scan.end - TAIL);
	assume(scan.again >= 1);
	positions_assume(scan.at);
	/* A token takes four bytes or more, and no byte is taken twice. */
	assume(parsed.literals <= scan.anchor - from);
	assume(parsed.tokens <= (scan.anchor - from) / ZWORD_MATCH_MIN);
	return scan;
}

static void match_prove(const struct scan *scan, const struct match *match)
{
	prove(scan->anchor <= match->start);
	prove(match->from < match->start);
	prove(match->length >= ZWORD_MATCH_MIN);
	prove(match->length <= ZWORD_MATCH_MAX);
	prove(match->start + match->length <= scan->end);
}

/* What match_find() leaves is before where it is. */
PROOF(match_find_looks_back, 32, 64, 34)
{
	struct scan scan = any_scan();
	struct match match;

	if (match_find(&scan, &match)) {
		prove(match.start == scan.at || match.start == scan.at + 1);
		prove(match.from < match.start);
	}
	positions_prove(scan.at + 1);
}

/* From any match that was found, on a page that is another one by now. */
PROOF(match_extend_keeps_the_match, 32, 48, 34)
{
	struct scan scan = any_scan();
	struct match match = { .start = nondet_u32(), .from = nondet_u32() };

	assume(match.start == scan.at || match.start == scan.at + 1);
	assume(match.from < match.start);
	match_extend(&scan, &match);
	match_prove(&scan, &match);
	prove(match.start + match.length > scan.at);
}

/* From any match that was extended: the parse goes on, and behind it. */
PROOF(match_take_goes_on, 32, 64, 34)
{
	struct scan scan = any_scan(), before = scan;
	struct match match = {
		.start = nondet_u32(), .from = nondet_u32(), .length = nondet_u32(),
	};
	u32 from = scan.end - ZWORD_BLOCK_SIZE;

	assume(match.start >= scan.anchor && match.start <= scan.at + 1);
	assume(match.from < match.start);
	assume(match.length >= ZWORD_MATCH_MIN &&
	       match.length <= ZWORD_MATCH_MAX);
	assume(match.start + match.length <= scan.end);
	assume(match.start + match.length > scan.at);
	prove(match_take(&scan, &parsed, &match));
	prove(scan.at > before.at && scan.at <= scan.end);
	prove(scan.anchor == scan.at);
	prove(parsed.literals <= scan.anchor - from);
	prove(parsed.tokens <= (scan.anchor - from) / ZWORD_MATCH_MIN);
	positions_prove(scan.at);
	rest_put(&scan, &parsed);
	prove(parsed.tokens <= ZWORD_BYTE_TOKENS_MAX);
	prove(parsed.literals <= ZWORD_BLOCK_SIZE);
}

static struct zword_chains in;

/* The best of all places that a chain of any links leads to. */
PROOF(best_find_looks_back, 24, 32, 26)
{
	struct scan scan = any_scan();
	u32 from = scan.end - ZWORD_BLOCK_SIZE, k;
	struct chains chains = {
		.in = &in, .page = page, .from = from, .end = scan.end,
		.again = scan.again,
	};
	struct best best;

	any_bytes(&in);
	for (k = 0; k < ZWORD_POSITIONS; k++)
		assume(!in.head[k] || in.head[k] < scan.at);
	match_find_best(&chains, scan.at, &best);
	if (best.saved) {
		match_prove(&scan, &best.match);
		prove(best.match.start == scan.at);
	}
}

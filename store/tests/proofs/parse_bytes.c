// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the parses of bytes leave stands for the page, if it does not change: one token,
 * from any state.
 *
 * Pages here are of two letters, and that is enough: the bytes of a match are compared
 * at one offset alone, and whichever of them are equal at it, some page of two letters
 * has the same; literals are copied and not looked at.
 */
#include "proof.h"

#include "../../zword/block.h"

static struct zword_byte_parse parsed;

/* Of the literals that are taken one is looked at, any one. */
static u32 watched;
static u8 watched_byte;

static void literals_put(const u8 *at, const u8 *from, u32 size)
{
	u32 k = watched - (u32)(at - parsed.literal);

	if (k < size)
		watched_byte = from[k];
}

#define zword_copy_8(to, from)	literals_put(to, from, 8)
#define memcpy	literals_put
#include "../../zword/parse_bytes.c"
#undef memcpy

static u8 page[ZWORD_BLOCK_SIZE];
static struct zword_byte_positions positions;

/* size: in whole words of eight bytes. */
static void any_letters(u8 *at, u32 size)
{
	u32 k;

	for (k = 0; k < size; k += 8)
		zm_put64(at + k, nondet_u64() & 0x0101010101010101ull);
}

/* Where a block ends its page does; it begins at any place before the anchor. */
static struct scan any_scan(void)
{
	struct scan scan = {
		.positions = &positions,
		.page = page,
		.at = nondet_u32(),
		.anchor = nondet_u32(),
		.end = ZWORD_BLOCK_SIZE,
		.again = nondet_u32(),
	};

	any_letters(page, sizeof(page));
	any_bytes(&positions);
	assume(scan.anchor <= scan.at && scan.at >= 1);
	assume(scan.at < scan.end - TAIL && scan.again >= 1);
	return scan;
}

static bool is_equal(const struct match *match, u32 k)
{
	return page[match->from + k] == page[match->start + k];
}

/* The four bytes that every match has. */
static bool is_match(const struct match *match)
{
	return is_equal(match, 0) && is_equal(match, 1) &&
	       is_equal(match, 2) && is_equal(match, 3);
}

/* Of any bytes: two offsets are looked at. */
PROOF(match_find_finds_equal_bytes, 24, 32, 10)
{
	struct scan scan = any_scan();
	struct match match;
	u32 k;

	any_bytes(page);
	for (k = 0; k < ZWORD_POSITIONS; k++) {
		assume(!positions.longer[k] || positions.longer[k] < scan.at);
		assume(!positions.shorter[k] || positions.shorter[k] < scan.at);
	}
	if (match_find(&scan, &match))
		prove(is_match(&match));
}

/* From any match that was found there. */
static void extend_at(u32 at)
{
	struct scan scan = any_scan();
	struct match match = { .start = at, .from = nondet_u32() };
	u32 offset = match.start - match.from, k = nondet_u32();

	assume(scan.anchor <= at && match.from < at && is_match(&match));
	match_extend(&scan, &match);
	prove(match.start - match.from == offset);
	prove(match.start <= at && match.start + match.length > at);
	prove(k >= match.length || is_equal(&match, k));
}

/* With little behind, and with as much as the longest match; anything before. */
PROOF(match_extend_adds_equal_bytes, 24, 32, 14)
{
	extend_at(ZWORD_BLOCK_SIZE - TAIL);
	extend_at(ZWORD_BLOCK_SIZE - ZWORD_MATCH_MAX);
}

/* Of the thorough parse: any place, beside any best one yet. */
PROOF(consider_takes_equal_bytes, 24, 32, 10)
{
	struct scan scan = any_scan();
	struct chains chains = {
		.page = page, .end = scan.end, .again = scan.again,
	};
	u32 place = nondet_u32(), k = nondet_u32();
	struct best best, before = best;

	assume(place < scan.at && best.match.length <= ZWORD_MATCH_MAX);
	match_consider(&chains, scan.at, place, &best);
	if (best.saved == before.saved)
		return;
	prove(best.match.start == scan.at && best.match.from == place);
	assume(k < best.match.length);
	prove(is_equal(&best.match, k));
}

/* A token of any match, behind any others, says where it is and has its literals. */
PROOF(match_put_tells_the_match, 24, 32, 10)
{
	struct scan scan = any_scan(), before = scan;
	struct match match = {
		.start = nondet_u32(), .from = nondet_u32(),
		.length = nondet_u32(),
	};
	const struct zword_byte_token *token = parsed.token;
	u32 k = nondet_u32();

	assume(match.start >= scan.anchor && match.start <= scan.at + 1);
	assume(match.from < match.start &&
	       match.length >= ZWORD_MATCH_MIN &&
	       match.length <= ZWORD_MATCH_MAX);
	assume(match.start + match.length <= scan.end);
	parsed.tokens = nondet_u32();
	parsed.literals = nondet_u32();
	assume(parsed.literals <= scan.anchor);
	assume(parsed.tokens <= scan.anchor / ZWORD_MATCH_MIN);
	assume(k < ZWORD_BLOCK_SIZE);
	watched = parsed.literals + k;
	token += parsed.tokens;
	prove(match_put(&scan, &parsed, &match));
	prove(before.anchor + token->literals == match.start);
	prove(token->length == match.length);
	prove(token->offset == match.start - match.from);
	prove(scan.anchor == match.start + match.length);
	prove(scan.again == token->offset);
	prove(token->match == (token->offset == before.again ? ZWORD_MATCH_AGAIN :
			       token->offset <= ZWORD_NEAR_MAX ?
			       ZWORD_MATCH_NEAR : ZWORD_MATCH_FAR));
	if (k < token->literals)
		prove(watched_byte == page[before.anchor + k]);
}

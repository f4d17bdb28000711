// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The decoder of bytes, of any block and with any tables: each pass from whatever the
 * one before may leave.
 */
#include <stdlib.h>

#include "codes.h"

static u32 byte_entry(const u16 *entries, u32 size, u64 bits)
{
	(void)bits;
	if (size == ZWORD_BYTE_CODES)
		return any_entry(entries, size, ZWORD_BYTE_TOKENS, 0);
	return any_entry(entries, size, 256, (ZWORD_CLASSES - 1) <<
					     ZWORD_ENTRY_MORE);
}

/* Each time another one. */
static struct zword_byte_symbol *any_symbol(void)
{
	static struct zword_byte_symbol symbol;

	any_bytes(&symbol);
	return &symbol;
}

/* A copy: where to is told, and not what. */
static struct zword_byte_memory memory;
static u8 *page, *block;
static u32 left_of_block;

static u64 checked_get(const void *at)
{
	prove(__CPROVER_r_ok(at, 8));
	if (__CPROVER_same_object(at, page))
		prove((const u8 *)at >= page);
	return nondet_u64();
}

static void checked_put(void *at, u64 word)
{
	(void)word;
	prove(__CPROVER_w_ok(at, 8));
	prove((u8 *)at >= block);
}

#define zword_copy_8(to, from)	checked_put(to, checked_get(from))
#define zword_entry	byte_entry
#define zword_byte_symbol(tables, entry)	any_symbol()
/* Copies begin at any place of a block: the rest of it is one. */
enum { BLOCK = ZWORD_BLOCK_SIZE, TOKENS = ZWORD_BYTE_TOKENS_MAX };
#undef ZWORD_BLOCK_SIZE
#define ZWORD_BLOCK_SIZE	left_of_block
#include "../../zword/decode_bytes.c"

/* Sequences in their array; no literal more than the block has bytes. */
PROOF(tokens_keep_to_their_array, 16, 24, 8)
{
	struct zword_byte_decoder tables;
	struct zword_decoding job;
	int ret;

	left_of_block = BLOCK;
	job.header.count = TOKENS;
	assume(job.header.set < ZWORD_SETS);
	ret = tokens_read(&tables, &memory, &job);
	if (ret < 0)
		return;
	prove(ret <= BLOCK);
}

/* So many literals: they end where their memory does. */
static void literals_of(u32 count)
{
	u8 literals[LITERALS_A_REFILL * ZWORD_LANES + ZWORD_LANES];
	struct zword_byte_set set;
	struct zword_decoding job;

	literals_read(&set, literals + sizeof(literals) - count, count,
		      (ZWORD_CLASSES - 1) << ZWORD_ENTRY_MORE, &job);
}

/* None, an empty last lane, and as many as two refills take, with a rest. */
PROOF(literals_keep_to_their_count, 16, 16, 32)
{
	literals_of(0);
	literals_of(9);
	literals_of(LITERALS_A_REFILL * ZWORD_LANES + 2);
}

/* One token, at any place of any block: the page ends where its block does. */
PROOF(copies_keep_to_the_block, 40, 64, 42)
{
	static u8 pages[2 * BLOCK];
	struct zword_decoding job = {
		.from = nondet_u32(), .header.count = 1,
	};

	left_of_block = nondet_u32();
	assume(left_of_block <= BLOCK);
	assume(job.from <= BLOCK);
	any_bytes(&memory);
	/* Where a page ends, its memory does. */
	job.page = pages + sizeof(pages) - job.from - left_of_block;
	page = job.page;
	block = page + job.from;
	copies_make(&memory, &job);
}

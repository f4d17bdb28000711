// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the decoder of bytes makes of one token, behind any others: its literals, then
 * each byte of its match from the one that stands an offset before it. Copies do not
 * look at what they copy, so two letters are enough.
 */
#include "letters.h"

#include "../../zword/block.h"

/* Copies begin at any place of a block: the rest of it is one. */
static u32 left_of_block;
enum { BLOCK = ZWORD_BLOCK_SIZE, FROM = 16, LITERALS = 18 };
#undef ZWORD_BLOCK_SIZE
#define ZWORD_BLOCK_SIZE	left_of_block
#include "../../zword/decode_bytes.c"

/*
 * So many literals behind 16 bytes, and a match of any length at this offset; with
 * any room behind it: enough for the quick copies, or not.
 */
static void token_makes(u16 literals, u32 offset)
{
	static struct zword_byte_memory memory;
	static u8 page[BLOCK], before[FROM];
	struct zword_decoding job = {
		.page = page, .from = FROM, .header.count = 1,
	};
	u16 length = nondet_u16();
	u32 start = FROM + literals, k;

	any_letters(page, BLOCK);
	any_letters(memory.literal, 40);
	memcpy(before, page, FROM);
	left_of_block = nondet_u32();
	assume(left_of_block <= BLOCK - FROM);
	assume(length <= ZWORD_MATCH_MAX && literals + length);
	assume(literals + length <= left_of_block);
	memory.sequence[0] = (struct zword_byte_sequence){
		literals, length, offset };
	copies_make(&memory, &job);
	for (k = 0; k < FROM; k++)
		prove(page[k] == before[k]);
	for (k = 0; k < literals; k++)
		prove(page[FROM + k] == memory.literal[k]);
	for (k = start; k < start + ZWORD_MATCH_MAX; k++)
		prove(k >= start + length || page[k] == page[k - offset]);
}

PROOF(copies_make_what_a_token_says, 80, 80, 36)
{
	u32 k;

#ifdef ONE
	for (k = 1; k <= ONE; k++)
		token_makes(17, k);
#else
	for (k = 0; k <= LITERALS; k++)
		token_makes((u16)k, 9);
	for (k = 1; k <= FROM + 3; k++)
		token_makes(3, k);
#endif
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the decoder of bytes makes of one token, behind any others: its literals, then
 * each byte of its match from the one that stands an offset before it.
 */
#include "proof.h"

#include "../../zword/block.h"

/* Byte by byte, at places that are known: then each byte is a variable of its own. */
static u64 bytes_get(const u8 *at)
{
	return get_unaligned_le32(at) | (u64)get_unaligned_le32(at + 4) << 32;
}

static void bytes_put(u8 *at, u64 word)
{
	put_unaligned_le32((u32)word, at);
	put_unaligned_le32((u32)(word >> 32), at + 4);
}

#define zword_copy_8(to, from)	bytes_put(to, bytes_get(from))

/* Copies begin at any place of a block: the rest of it is one. */
static u32 left_of_block;
enum { BLOCK = ZWORD_BLOCK_SIZE, FROM = 16, LITERALS = 18 };
#undef ZWORD_BLOCK_SIZE
#define ZWORD_BLOCK_SIZE	left_of_block
#include "../../zword/decode_bytes.c"

static void token_makes(u32 literals, u32 length, u32 offset, u32 left)
{
	static struct zword_byte_memory memory;
	static u8 page[BLOCK], before[FROM];
	struct zword_decoding job = {
		.page = page, .from = FROM, .header.count = 1,
	};
	u32 start = FROM + literals, k;

	any_bytes(page);
	any_bytes(&memory);
	for (k = 0; k < FROM; k++)
		before[k] = page[k];
	left_of_block = left;
	memory.sequence[0] = (struct zword_byte_sequence){
		(u16)literals, (u16)length, (u16)(offset - 1) };
	prove(!copies_make(&memory, &job) || literals + length < left);
	for (k = 0; k < FROM; k++)
		prove(page[k] == before[k]);
	for (k = 0; k < literals; k++)
		prove(page[FROM + k] == memory.literal[k]);
	for (k = start; k < start + length; k++)
		prove(page[k] == page[k - offset]);
}

/* Each count of literals and each offset, with much room behind and with none. */
PROOF(copies_make_what_a_token_says, 80, 80, 36)
{
	u32 k;

	for (k = 1; k <= LITERALS; k++) {
		token_makes(k, 0, 1, BLOCK - FROM);
		token_makes(k, ZWORD_MATCH_MAX, 9, BLOCK - FROM);
		token_makes(k, ZWORD_MATCH_MAX, 9, k + ZWORD_MATCH_MAX);
	}
	for (k = 1; k <= FROM; k++) {
		token_makes(0, ZWORD_MATCH_MIN, k, BLOCK - FROM);
		token_makes(0, ZWORD_MATCH_MAX, k, BLOCK - FROM);
		token_makes(0, ZWORD_MATCH_MAX, k, ZWORD_MATCH_MAX);
	}
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The decoder of words, of any block and with any tables: each pass from whatever the
 * one before may leave.
 */
#include "codes.h"

static u32 width;
/* Which entries are read: of tokens or of literals. */
static bool tokens;

static u32 word_entry(const u16 *entries, u32 size, u64 bits)
{
	(void)bits;
	return any_entry(entries, size, 256, tokens ? ZWORD_ENTRY_CONTEXT :
						       0);
}

/* As tables.c makes them: what a token's literals are at most. */
static struct zword_symbol *any_symbol(void)
{
	static struct zword_symbol symbol;

	any_bytes(&symbol);
	assume(symbol.count <= width + ZWORD_TOKEN_LITERALS);
	return &symbol;
}

static void escaped_symbol(u32 token, struct zword_symbol *symbol)
{
	prove(zword_token_kind(token) < ZWORD_KINDS);
	prove(zword_token_mask(token) <
	      (width == 8 ? ZWORD_MASKS_64 : ZWORD_MASKS_32));
	*symbol = *any_symbol();
}

static struct zword_mask any_mask;
static struct zword_reference any_reference;

/* Tables of literals go where a half has room for them. */
static struct zword_word_memory memory;

static void literals_put(void *at, u64 word)
{
	const u8 *first = memory.literal[0], *second = memory.literal[1];

	(void)word;
	prove(((u8 *)at >= first && (u8 *)at + 8 <= second) ||
	      ((u8 *)at >= second &&
	       (u8 *)at + 8 <= second + sizeof(memory.literal[1])));
}

/* The page is what is told of: where, and not what. */
static u8 pages[2 * ZWORD_BLOCK_SIZE];
static const u8 *page, *block;

static u64 checked_get(const u8 *at, u32 size)
{
	prove(__CPROVER_r_ok(at, size));
	if (__CPROVER_same_object(at, pages))
		prove(at >= page);
	return nondet_u64();
}

static void checked_put(u8 *at, u64 word, u32 size)
{
	(void)word;
	prove(__CPROVER_w_ok(at, size) && at >= block);
}

#define zword_entry	word_entry
#define zword_word_symbol(tables, entry)	any_symbol()
#define zword_symbol_of(tables, token, symbol)	escaped_symbol(token, symbol)
#define zword_mask_of(tables, step)	(&any_mask)
#define zword_reference_of(tables, step)	(&any_reference)
#define zword_copy_8(to, from)	literals_put(to, nondet_u64())
#define zword_get_word	checked_get
#define zword_put_word	checked_put
#define get_unaligned_le64(at)	checked_get(at, 8)
#define get_unaligned_le16(at)	((u16)checked_get(at, 2))
#include "../../zword/decode.c"

/* Steps and tables of literals, in their halves. */
static void tokens_of(u32 count)
{
	struct zword_word_set sets[ZWORD_SETS];
	struct zword_word_decoder tables;
	struct half half[2];
	struct zword_decoding job;
	u32 k;

	tables.set = sets;
	tables.width = width;
	job.header.count = count;
	assume(job.header.set < ZWORD_SETS);
	for (k = 0; k < 2; k++) {
		half[k] = (struct half){
			.literal = memory.literal[k] + ZWORD_LITERAL_ROOM };
		zword_reader_start(&half[k].reader, 0);
	}
	half[0].step = memory.step;
	half[1].step = memory.step + firsts_of(count);
	if (!tokens_read(&tables, &half[0], &half[1], &job))
		return;
	prove(half[0].step == memory.step + firsts_of(count));
	prove(half[1].step == memory.step + count);
}

PROOF(tokens_of_8_keep_to_their_arrays, 64, 128, 12)
{
	tokens = true;
	width = 8;
	tokens_of(tokens_max(width));
	tokens_of(tokens_max(width) - 1);
}

PROOF(tokens_of_4_keep_to_their_arrays, 64, 64, 12)
{
	tokens = true;
	width = 4;
	tokens_of(tokens_max(width));
	tokens_of(tokens_max(width) - 1);
}

/* So many literals of any tables: they end where their memory does. */
static void literals_of(u32 count)
{
	u8 literals[STEPS_A_REFILL * ZWORD_LANES + ZWORD_LANES];
	struct zword_reader lanes[ZWORD_LANES];
	struct zword_decoding job;
	struct zword_word_set set;
	u32 k;

	for (k = 0; k < ZWORD_LANES; k++)
		zword_reader_start(&lanes[k], 0);
	for (k = 0; k < sizeof(literals); k++)
		assume(literals[k] < ZWORD_WORD_TABLES);
	literals_read(&set, literals + sizeof(literals) - count,
		      literals + sizeof(literals), lanes, &job);
}

/* None, a round of the lanes and a rest, and as many as two refills take. */
PROOF(literals_keep_to_their_count, 16, 16, 32)
{
	literals_of(0);
	literals_of(6);
	literals_of(STEPS_A_REFILL * ZWORD_LANES + 3);
}

/*
 * One word and its run, at any place of any block, of any kind and mask: the page ends
 * where its block does, its literals where they were counted to, but for 16 bytes.
 */
static void words_keep_to_the_block(void)
{
	u8 literals[ZWORD_LITERAL_ROOM + 11 + 16];
	struct zword_step step;
	struct making making;
	u32 from = nondet_bool() ? ZWORD_BLOCK_SIZE : 0, count, at = nondet_u32();

	any_bytes(&any_mask);
	any_bytes(&any_reference);
	assume(any_mask.count <= width);
	assume(any_mask.low_from <= 8 && any_mask.high_from <= 8);
	assume(any_reference.keep == 0 || any_reference.keep == ~0ull);
	assume(any_reference.twice == 0 || any_reference.twice == ~0u);
	assume(any_reference.stay == 0 || any_reference.stay == ~0u);
	assume(any_reference.bytes <= 2);
	assume(any_reference.offset == (1u << 8 * any_reference.bytes) - 1);
	assume(!any_reference.stay || !any_reference.bytes);
	assume(any_reference.least == (any_reference.stay ? 0 : width));
	assume(step.advance <= 3 * width && step.advance % width == 0);
	count = any_mask.count + any_reference.bytes + !step.advance;

	assume(from <= at && at <= from + ZWORD_BLOCK_SIZE && at % width == 0);
	page = pages + ZWORD_BLOCK_SIZE - from;
	block = page + from;
	making = (struct making){
		.literal = literals + sizeof(literals) - 16 - count,
		.page = (u8 *)page,
		.at = at,
		.end = from + ZWORD_BLOCK_SIZE,
		.limit = from + ZWORD_BLOCK_SIZE - RUN_SHORT * width,
		.back = nondet_u32(),
	};
	assume(making.back >= width && making.back % width == 0);
	assume(making.back <= 65536u * width);
	if (!(width == 8 ? token_make(&making, &step, 8) :
			   token_make(&making, &step, 4)))
		return;
	prove(making.at > at && making.at <= making.end);
	prove(making.at % width == 0);
	prove(making.literal == literals + sizeof(literals) - 16);
	prove(making.back >= width && making.back % width == 0);
	prove(making.back <= 65536u * width);
}

PROOF(words_of_8_keep_to_the_block, 32, 64, 34)
{
	width = 8;
	words_keep_to_the_block();
}

PROOF(words_of_4_keep_to_the_block, 32, 64, 34)
{
	width = 4;
	words_keep_to_the_block();
}

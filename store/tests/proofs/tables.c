// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tables: what the proofs of the decoder take for granted of them, and that each code
 * is read as the symbol that it was written for.
 */
#include "byte_symbol.h"

#include "../../zword/tables.c"

#define SYMBOLS	6u
#define LENGTH	4u

/* Of any lengths that are taken. */
PROOF(codes_come_back, 16, 16, 18)
{
	u8 lengths[SYMBOLS];
	u16 encoding[SYMBOLS], decoding[1u << LENGTH];
	u32 symbol = nondet_u32(), code, length, at = nondet_u32(), entry;

	if (codes_build(lengths, SYMBOLS, LENGTH, encoding, decoding))
		return;
	assume(symbol < SYMBOLS && at < 1u << LENGTH);
	code = encoding[symbol] >> 4;
	length = encoding[symbol] & ZWORD_ENTRY_LENGTH;
	prove(length >= 1 && length <= LENGTH && code < 1u << length);
	/* Whatever stands above it. */
	entry = decoding[(code | nondet_u32() << length) & ((1u << LENGTH) - 1)];
	prove(entry >> ZWORD_ENTRY_SHIFT == symbol);
	prove((entry & 0xff) == length);
	entry = decoding[at];
	prove(entry >> ZWORD_ENTRY_SHIFT < SYMBOLS);
	prove((entry & 0xff) >= 1 && (entry & 0xff) <= LENGTH);
}

/* Any token: so many literals are read of it as are made into words of it. */
static void symbol_prove(u32 width)
{
	static struct zword_word_decoder tables;
	u32 masks = masks_fill(tables.mask, width), token = nondet_u32(), k;
	const struct zword_reference *reference;
	const struct zword_mask *mask;
	struct zword_symbol symbol;

	references_fill(tables.reference, (u16)width);
	tables.width = width;
	assume(token < ZWORD_TOKENS && zword_token_mask(token) < masks);
	assume(zword_token_kind(token) < ZWORD_KINDS);
	zword_symbol_of(&tables, token, &symbol);
	mask = &tables.mask[zword_token_mask(token)];
	reference = &tables.reference[zword_token_kind(token)];
	prove(zword_mask_of(&tables, &symbol.step) == mask);
	prove(zword_reference_of(&tables, &symbol.step) == reference);
	prove(symbol.count == mask->count + reference->bytes +
			      !symbol.step.advance);
	prove(symbol.count <= width + ZWORD_TOKEN_LITERALS);
	prove(symbol.step.advance <= ZWORD_RUN_LONG * width);
	prove(symbol.step.advance % width == 0);
	prove(mask->count <= width && mask->low_from <= 8 && mask->high_from <= 8);
	prove(!reference->stay || !reference->bytes);
	/* Behind those of the word's bytes, which are trained. */
	k = nondet_u32();
	assume(k >= mask->count && k < symbol.count);
	prove(symbol.table[k] < ZWORD_WORD_TABLES);
}

PROOF(symbols_of_8_count_their_literals, 16, 16, 18)
{
	symbol_prove(8);
}

PROOF(symbols_of_4_count_their_literals, 16, 16, 18)
{
	symbol_prove(4);
}

/* Each token of bytes: what streams.c takes for granted of its symbol. */
PROOF(byte_symbols_are_their_tokens, 16, 16, 258)
{
	static struct zword_byte_symbol symbols[ZWORD_SYMBOLS];
	u32 token = nondet_u32();

	byte_symbols_build(symbols);
	assume(token < ZWORD_BYTE_TOKENS);
	prove(is_symbol_of(&symbols[token], token));
}

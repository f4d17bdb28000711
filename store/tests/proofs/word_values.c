// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A word and its reference, put by the encoder and made by the decoder: of each mask of
 * words of 32 bits, any two that differ in its bytes alone.
 */
#include "proof.h"

#include "../../zword/block.h"
#include "../../zword/tables.c"
#include "../../zword/parse_words.c"
#define word_before	made_before
#include "../../zword/decode.c"

static struct zword_word_encoder encoder;
static struct zword_word_decoder decoder;
static struct zword_word_parse parsed;

static void word_comes_back(u32 m)
{
	u8 page[ZWORD_BLOCK_SIZE];
	struct choice choice = {
		.word = nondet_u32(), .kind = ZWORD_STRIDE, .back = 4,
		.reference = nondet_u32(), .set = decoder.mask[m].bytes,
	};
	struct output output = {
		parsed.token, parsed.literal + ZWORD_LITERAL_ROOM, parsed.table,
	};
	struct making making = {
		.tables = &decoder, .literal = output.literal, .page = page,
		.at = 4, .end = ZWORD_BLOCK_SIZE, .limit = ZWORD_BLOCK_SIZE,
		.back = 4,
	};
	struct zword_symbol symbol;

	assume(!(set_of(choice.word, choice.reference, 4) & ~choice.set));
	zword_put_word(page, choice.reference, 4);
	put_token(&encoder, &output, &choice, 4);
	prove(parsed.token[0] == zword_token(ZWORD_STRIDE, m, 0));
	zword_symbol_of(&decoder, parsed.token[0], &symbol);
	prove(token_make(&making, &symbol.step, 4));
	prove(zword_get_word(page + 4, 4) == choice.word);
	prove(making.literal == output.literal);
}

/* The word at the stride is the reference, the one in front. */
PROOF(words_of_4_come_back, 64, 64, 18)
{
	u32 masks = masks_fill(decoder.mask, 4), m;

	references_fill(decoder.reference, 4);
	decoder.width = 4;
	for (m = 0; m < masks; m++) {
		const struct zword_mask *mask = &decoder.mask[m];

		/* As word_costs_build() has them. */
		encoder.mask[mask->bytes] = (u8)m;
		encoder.pack[m] = (struct zword_pack){
			.low = mask->low,
			.high = mask->high,
			.low_shift = (u8)(8 * (8 - mask->low_from) % 64),
			.high_shift = (u8)(8 * (8 - mask->high_from) % 64),
			.count = mask->count,
		};
		word_comes_back(m);
	}
}

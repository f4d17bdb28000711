// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From code lengths to tables.
 *
 * Codes are canonical: shorter ones first, among equal lengths by symbol. They
 * stand in the streams with their first bit lowest, so a decoder finds one by
 * the low bits of what comes next, in a table that holds it once for each value
 * of the bits above it.
 */
#include "bits.h"
#include "tables.h"

/* Bytes of a word that differ, in the order of the index; docs/zword.md. */
static const u8 two_ranges[] = {
	0x05, 0x09, 0x11, 0x21, 0x13, 0x31, 0x33, 0x50, 0x90, 0x77, 0x0d,
};

zword_at_load
static void mask_set(struct zword_mask *mask, u32 bytes)
{
	u32 first = 0, next, at, k;

	*mask = (struct zword_mask){ .low_from = 8, .high_from = 8,
				     .bytes = (u8)bytes };
	if (!bytes)
		return;
	while (!(bytes >> first & 1))
		first++;
	for (next = first; next < 8 && (bytes >> next & 1); next++)
		mask->low |= (u64)0xff << 8 * next;
	mask->bias = mask->low & ZWORD_HIGH_BITS;
	mask->low_from = (u8)(8 - first);
	mask->count = (u8)(next - first);
	for (at = next; at < 8 && !(bytes >> at & 1); at++)
		;
	if (at == 8)
		return;
	mask->high_from = (u8)(8 - (at - mask->count));
	for (k = at; k < 8 && (bytes >> k & 1); k++) {
		mask->high |= (u64)0xff << 8 * k;
		mask->count++;
	}
	mask->bias = (mask->low | mask->high) & ZWORD_HIGH_BITS;
}

zword_at_load
static u32 masks_fill(struct zword_mask *masks, u32 width)
{
	u32 count = 0, first, last, k;

	if (width == 4) {
		for (k = 0; k < ZWORD_MASKS_32; k++)
			mask_set(&masks[count++], k);
		return count;
	}
	mask_set(&masks[count++], 0);
	for (first = 0; first < 8; first++)
		for (last = first; last < 8; last++)
			mask_set(&masks[count++], ((2u << last) - 1) &
						  ~((1u << first) - 1));
	for (k = 0; k < sizeof(two_ranges); k++)
		mask_set(&masks[count++], two_ranges[k]);
	return count;
}

zword_at_load
static void references_fill(struct zword_reference *references,
			    u16 width)
{
	references[ZWORD_STRIDE] = (struct zword_reference){
		.keep = ~0ull, .stay = ~0u };
	references[ZWORD_ZERO] = (struct zword_reference){ .stay = ~0u };
	references[ZWORD_NEAR] = (struct zword_reference){
		.keep = ~0ull, .offset = 0xff, .least = width, .bytes = 1 };
	references[ZWORD_FAR] = (struct zword_reference){
		.keep = ~0ull, .offset = 0xffff, .least = width, .bytes = 2 };
	references[ZWORD_LINEAR] = (struct zword_reference){
		.keep = ~0ull, .twice = ~0u, .stay = ~0u };
}

/* The mask with the fewest bytes that has all of these; of equals the first. */
zword_at_load
static u32 mask_for(const struct zword_mask *masks, u32 count,
		    u32 bytes)
{
	u32 best = 0, best_bytes = 9, k;

	for (k = 0; k < count; k++) {
		if ((masks[k].bytes & bytes) != bytes ||
		    masks[k].count >= best_bytes)
			continue;
		best = k;
		best_bytes = masks[k].count;
	}
	return best;
}

zword_at_load
static u32 bits_reversed(u32 code, u32 bits)
{
	u32 result = 0;

	for (; bits; bits--, code >>= 1)
		result = result << 1 | (code & 1);
	return result;
}

/*
 * The codes of count symbols with these lengths, into an encoding and a decoding
 * table. Every symbol must have one: an encoder writes any of them. Every row of
 * bits must be the begin of one: then no decoder has to look for one that is not.
 */
zword_at_load
static int codes_build(const u8 *lengths, u32 count,
		       u32 length_max, u16 *encoding,
		       u16 *decoding)
{
	u32 size = 1u << length_max, code = 0, length, symbol, at;

	for (symbol = 0; symbol < count; symbol++)
		if (!lengths[symbol] || lengths[symbol] > length_max)
			return -EINVAL;
	for (length = 1; length <= length_max; length++, code <<= 1) {
		for (symbol = 0; symbol < count; symbol++) {
			if (lengths[symbol] != length)
				continue;
			if (code >= 1u << length)
				return -EINVAL;
			at = bits_reversed(code++, length);
			encoding[symbol] = (u16)(at << 4 | length);
			for (; at < size; at += 1u << length)
				decoding[at] = (u16)(symbol << ZWORD_ENTRY_SHIFT |
						     length);
		}
	}
	/* Shifted once more at the end. */
	return code == 2 * size ? 0 : -EINVAL;
}

zword_at_load
static int word_symbols_build(struct zword_word_decoder *decoder,
			      struct zword_word_encoder *encoder,
			      const u8 *lengths, u32 masks)
{
	u32 k, token;

	memset(encoder->symbol, ZWORD_ESCAPE, sizeof(encoder->symbol));
	for (k = 0; k < ZWORD_ESCAPE; k++) {
		token = lengths[ZWORD_L_SYMBOLS + 2 * k] |
			(u32)lengths[ZWORD_L_SYMBOLS + 2 * k + 1] << 8;
		if (token >= ZWORD_TOKENS || zword_token_mask(token) >= masks ||
		    zword_token_kind(token) >= ZWORD_KINDS)
			return -EINVAL;
		zword_symbol_of(decoder, token, &decoder->symbol[k]);
		encoder->symbol[token] = (u8)k;
	}
	return 0;
}

/* Which table each packed byte of a mask has. */
zword_at_load
static int word_table_of_build(struct zword_word_decoder *decoder,
			       struct zword_word_encoder *encoder,
			       const u8 *table_of, u32 masks)
{
	struct zword_symbol symbol;
	u32 kind, m, k;

	for (k = 0; k < sizeof(decoder->table_of); k++) {
		if (table_of[k] >= ZWORD_WORD_LITERALS)
			return -EINVAL;
		decoder->table_of[k] = table_of[k];
	}
	for (kind = 0; kind < ZWORD_KINDS; kind++) {
		for (m = 0; m < masks; m++) {
			zword_symbol_of(decoder, zword_token(kind, m, 0),
					&symbol);
			encoder->table_of[kind][m] =
				get_unaligned_le64(symbol.table);
		}
	}
	return 0;
}

/* What a symbol costs with each set, beside the first. */
zword_at_load
static void vote_build(u16 *vote, const u16 *codes, size_t stride,
		       u32 count, u32 sets)
{
	const u16 *other;
	u32 k, set, cost;

	for (k = 0; k < count; k++) {
		vote[k] = 0;
		for (set = 1; set < ZWORD_SETS; set++) {
			other = (const u16 *)((const u8 *)codes +
					      set % sets * stride);
			cost = set >= sets ? ZWORD_VOTE_NEVER :
			       ZWORD_VOTE_NONE +
			       (other[k] & ZWORD_ENTRY_LENGTH) -
			       (codes[k] & ZWORD_ENTRY_LENGTH);
			vote[k] |= (u16)(cost <<
					 (set - 1) * ZWORD_VOTE_BITS);
		}
	}
}

zword_at_load
static int word_set_build(struct zword_word_decoder *decoder,
			  struct zword_word_encoder *encoder,
			  u32 s, const u8 *lengths)
{
	struct zword_word_set *set = &decoder->set[s];
	struct zword_word_codes *codes = &encoder->codes[s];
	u32 k, at;
	int ret = 0;

	for (k = 0; !ret && k < ZWORD_CONTEXTS; k++) {
		ret = codes_build(lengths + 256 * k, ZWORD_SYMBOLS,
				  ZWORD_TOKEN_CODE_MAX, codes->token[k],
				  set->token[k]);
		for (at = 0; at < ZWORD_TOKEN_CODES; at++) {
			u16 *entry = &set->token[k][at];
			u32 symbol = *entry >> ZWORD_ENTRY_SHIFT;
			u32 kind = zword_symbol_kind(&decoder->symbol[symbol]);

			*entry |= (u16)(zword_context(kind) <<
					ZWORD_ENTRY_CONTEXT_SHIFT);
		}
	}
	lengths += ZWORD_CONTEXTS * 256;
	for (k = 0; !ret && k < ZWORD_WORD_TABLES; k++)
		ret = codes_build(lengths + 256 * k, 256,
				  ZWORD_LITERAL_CODE_MAX, codes->literal[k],
				  set->literal[k]);
	return ret;
}

zword_at_load
static void word_costs_build(struct zword_word_encoder *encoder,
			     const struct zword_mask *masks,
			     u32 count, u32 sets,
			     const u8 *lengths)
{
	u32 kind, bytes, set, sum, k;

	for (k = 0; k < count; k++)
		encoder->pack[k] = (struct zword_pack){
			.low = masks[k].low,
			.high = masks[k].high,
			.low_shift = (u8)(8 * (8 - masks[k].low_from) % 64),
			.high_shift = (u8)(8 * (8 - masks[k].high_from) % 64),
			.count = masks[k].count,
		};
	for (bytes = 0; bytes < 256; bytes++) {
		encoder->mask[bytes] = (u8)mask_for(masks, count, bytes);
		for (kind = 0; kind < ZWORD_KINDS; kind++)
			encoder->cost[kind][bytes] =
				lengths[ZWORD_L_COSTS + kind * ZWORD_MASKS_64 +
					encoder->mask[bytes]];
	}
	for (k = 0; k < ZWORD_NEAR_MAX; k++) {
		sum = 0;
		for (set = 0; set < sets; set++)
			sum += encoder->codes[set].literal[ZWORD_OFFSETS][k] &
			       ZWORD_ENTRY_LENGTH;
		encoder->offset_cost[k] = (u8)(2 * sum / sets);
	}
	encoder->offset_cost[ZWORD_NEAR_MAX] = 2 * 18;
}

zword_at_load
static int words_build(struct zword_tables *tables, u32 mode,
		       const u8 *lengths)
{
	struct zword_word_decoder *decoder = &tables->word_decoder[mode];
	struct zword_word_encoder *encoder = &tables->word_encoder[mode];
	u32 first = mode == ZWORD_WORDS_64 ? 0 : ZWORD_SETS;
	u32 width = mode == ZWORD_WORDS_64 ? 8 : 4, sets = zword_sets_of(mode);
	u32 masks = masks_fill(decoder->mask, width), k;
	int ret;

	decoder->set = &tables->word_set[first];
	encoder->codes = &tables->word_codes[first];
	references_fill(decoder->reference, (u16)width);
	decoder->width = width;
	ret = word_table_of_build(decoder, encoder, lengths + ZWORD_L_TABLE_OF,
				  masks);
	if (!ret)
		ret = word_symbols_build(decoder, encoder, lengths, masks);
	for (k = 0; !ret && k < sets; k++)
		ret = word_set_build(decoder, encoder, k,
				     lengths + ZWORD_L_WORD_SETS +
				     k * ZWORD_L_WORD_SET);
	if (ret)
		return ret;
	vote_build(&encoder->vote.token[0][0], &encoder->codes[0].token[0][0],
		   sizeof(encoder->codes[0]),
		   sizeof(encoder->vote) / sizeof(u16), sets);
	word_costs_build(encoder, decoder->mask, masks, sets, lengths);
	return 0;
}

zword_at_load
static void byte_symbols_build(struct zword_byte_symbol *symbols)
{
	bool length_more;
	u32 k, rest;

	for (k = 0; k < ZWORD_BYTE_TOKENS; k++) {
		struct zword_byte_symbol *symbol = &symbols[k];

		rest = k / 3;
		symbol->match = (u8)(k % 3 + ZWORD_MATCH_AGAIN);
		symbol->length = (u8)(ZWORD_MATCH_MIN +
				      rest % ZWORD_LENGTH_CODES);
		symbol->literals = (u8)(rest / ZWORD_LENGTH_CODES);
		if (symbol->literals > ZWORD_LITERALS_LONG) {
			symbol->match = ZWORD_MATCH_NONE;
			symbol->length = 0;
			symbol->literals =
				(u8)(k - 8 * ZWORD_LENGTH_CODES * 3);
		}
		length_more = symbol->length ==
			      ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG;
		symbol->is_literals = symbol->literals == ZWORD_LITERALS_LONG;
		symbol->is_long = symbol->is_literals || length_more;
		symbol->more_from = !symbol->is_literals ? 256 :
				    length_more ? 0 : ZWORD_COUNT_MAX;
	}
}

zword_at_load
static int byte_set_build(struct zword_byte_set *set,
			  struct zword_byte_codes *codes,
			  const u8 *class_of, const u8 *lengths)
{
	u32 k;
	int ret;

	ret = codes_build(lengths, ZWORD_BYTE_TOKENS, ZWORD_BYTE_CODE_MAX,
			  codes->token, set->token);
	for (k = 0; !ret && k < ZWORD_BYTE_TABLES; k++)
		ret = codes_build(lengths + 256 + 256 * k, 256,
				  ZWORD_LITERAL_CODE_MAX, codes->table[k],
				  set->table[k]);
	for (k = 0; k < ZWORD_CLASSES * ZWORD_LITERAL_CODES; k++) {
		u16 *entry = &set->table[0][0] + k;

		*entry |= (u16)(class_of[*entry >> ZWORD_ENTRY_SHIFT]
				<< ZWORD_ENTRY_MORE);
	}
	return ret;
}

zword_at_load
static int bytes_build(struct zword_byte_decoder *decoder,
		       struct zword_byte_encoder *encoder,
		       const u8 *lengths)
{
	u32 k;
	int ret = 0;

	for (k = 0; k < 256; k++) {
		encoder->class_of[k] = lengths[ZWORD_L_CLASS_OF + k];
		if (encoder->class_of[k] >= ZWORD_CLASSES)
			return -EINVAL;
	}
	for (k = 0; !ret && k < ZWORD_SETS; k++)
		ret = byte_set_build(&decoder->set[k], &encoder->codes[k],
				     encoder->class_of,
				     lengths + ZWORD_L_BYTE_SETS +
				     k * ZWORD_L_BYTE_SET);
	if (ret)
		return ret;
	vote_build(encoder->vote.token, encoder->codes[0].token,
		   sizeof(encoder->codes[0]),
		   sizeof(encoder->vote) / sizeof(u16), ZWORD_SETS);
	decoder->first = (u16)(encoder->class_of[0] << ZWORD_ENTRY_MORE);
	byte_symbols_build(decoder->symbol);
	return 0;
}

/* The tables in their places: the word's bytes first, the offset's, the run's. */
void zword_symbol_of(const struct zword_word_decoder *decoder, u32 token,
		     struct zword_symbol *symbol)
{
	const struct zword_mask *mask = &decoder->mask[zword_token_mask(token)];
	u32 kind = zword_token_kind(token), group = zword_group(kind);
	u32 class = mask->count <= 1 ? 0 : mask->count <= 2 ? 1 :
		    mask->count <= 4 ? 2 : 3;
	u32 run = zword_token_run(token), count = 0, place;

	*symbol = (struct zword_symbol){ .count = 0 };
	for (place = 0; place < 8; place++)
		if (mask->bytes >> place & 1)
			symbol->table[count++] =
				decoder->table_of[(group * 8 + place) * 4 +
						  class];
	if (kind == ZWORD_NEAR)
		symbol->table[count++] = ZWORD_OFFSETS;
	if (kind == ZWORD_FAR) {
		symbol->table[count++] = ZWORD_RUNS;
		symbol->table[count++] = ZWORD_RUNS;
	}
	if (run == ZWORD_RUN_LONG)
		symbol->table[count++] = ZWORD_RUNS;
	symbol->count = (u8)count;
	symbol->step.mask = (u16)(zword_token_mask(token) *
				  sizeof(struct zword_mask));
	symbol->step.reference = (u8)(kind * sizeof(struct zword_reference));
	symbol->step.advance = (u8)(run == ZWORD_RUN_LONG ? 0 :
				    (1 + run) * decoder->width);
}

size_t zword_tables_size(void)
{
	return sizeof(struct zword_tables);
}

zword_at_load
int zword_tables_build(struct zword_tables *tables,
		       const u8 *lengths, size_t size)
{
	int ret;

	if (size != ZWORD_L_SIZE)
		return -EINVAL;
	memset(tables, 0, sizeof(*tables));
	ret = words_build(tables, ZWORD_WORDS_64, lengths);
	if (!ret)
		ret = words_build(tables, ZWORD_WORDS_32,
				  lengths + ZWORD_L_WORDS_32);
	if (!ret)
		ret = bytes_build(&tables->byte_decoder, &tables->byte_encoder,
				  lengths + ZWORD_L_BYTES);
	return ret;
}

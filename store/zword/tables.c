// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From code lengths to tables.
 *
 * Codes are canonical: shorter ones first, among equal lengths by symbol. They
 * stand in the streams with their first bit lowest, so a decoder finds one by
 * the low bits of what comes next, in a table that holds it once for each value
 * of the bits above it.
 */
#include "tables.h"

/* Bytes of a word that differ, in the order of the index; docs/zword.md. */
static const u8 two_ranges[] = {
	0x05, 0x09, 0x11, 0x21, 0x13, 0x31, 0x33, 0x50, 0x90, 0x77, 0x0d,
};

static void mask_set(struct zword_mask *mask, u32 bytes)
{
	u32 first = 0, next, at, k;

	*mask = (struct zword_mask){ .bytes = (u8)bytes };
	if (!bytes)
		return;
	while (!(bytes >> first & 1))
		first++;
	for (next = first; next < 8 && (bytes >> next & 1); next++)
		mask->low |= (u64)0xff << 8 * next;
	mask->low_shift = (u8)(8 * first);
	mask->count = (u8)(next - first);
	for (at = next; at < 8 && !(bytes >> at & 1); at++)
		;
	if (at == 8)
		return;
	mask->high_shift = (u8)(8 * (at - mask->count));
	for (k = at; k < 8 && (bytes >> k & 1); k++) {
		mask->high |= (u64)0xff << 8 * k;
		mask->count++;
	}
}

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

/* The mask with the fewest bytes that has all of these; of equals the first. */
static u32 mask_for(const struct zword_mask *masks, u32 count, u32 bytes)
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

static u32 reversed(u32 code, u32 bits)
{
	u32 result = 0;

	for (; bits; bits--, code >>= 1)
		result = result << 1 | (code & 1);
	return result;
}

/*
 * The codes of count symbols with these lengths, 0 for one without, into an
 * encoding and a decoding table. Every row of bits must be the begin of a code:
 * then no decoder has to look for one that is not.
 */
static int codes_build(const u8 *lengths, u32 count, u32 length_max,
		       u16 *encoding, u16 *decoding)
{
	u32 size = 1u << length_max, code = 0, length, symbol, at;

	for (length = 1; length <= length_max; length++, code <<= 1) {
		for (symbol = 0; symbol < count; symbol++) {
			if (lengths[symbol] != length)
				continue;
			if (code >= 1u << length)
				return -EINVAL;
			at = reversed(code++, length);
			encoding[symbol] = (u16)(at << 4 | length);
			for (; at < size; at += 1u << length)
				decoding[at] = (u16)(symbol << ZWORD_ENTRY_SHIFT |
						     length);
		}
	}
	/* Shifted once more at the end. */
	return code == 2 * size ? 0 : -EINVAL;
}

static int word_tokens_build(struct zword_word_decoder *decoder,
			     struct zword_word_encoder *encoder,
			     const u8 *lengths, u32 masks)
{
	u32 k, token, context, at;
	int ret;

	memset(encoder->symbol, ZWORD_ESCAPE, sizeof(encoder->symbol));
	for (k = 0; k < ZWORD_ESCAPE; k++) {
		token = lengths[ZWORD_L_SYMBOLS + 2 * k] |
			(u32)lengths[ZWORD_L_SYMBOLS + 2 * k + 1] << 8;
		if (token >= ZWORD_TOKENS || zword_token_mask(token) >= masks ||
		    zword_token_kind(token) >= ZWORD_KINDS)
			return -EINVAL;
		decoder->symbol[k] = (u16)token;
		encoder->symbol[token] = (u8)k;
	}
	for (context = 0; context < ZWORD_CONTEXTS; context++) {
		ret = codes_build(lengths + ZWORD_L_TOKENS + 256 * context,
				  ZWORD_SYMBOLS, ZWORD_TOKEN_CODE_MAX,
				  encoder->token[context],
				  decoder->token[context]);
		if (ret)
			return ret;
		for (at = 0; at < ZWORD_TOKEN_CODES; at++) {
			u16 *entry = &decoder->token[context][at];
			u32 symbol = *entry >> ZWORD_ENTRY_SHIFT;

			if (symbol != ZWORD_ESCAPE &&
			    zword_token_kind(decoder->symbol[symbol]) ==
			    ZWORD_ZERO)
				*entry |= ZWORD_ENTRY_CONTEXT;
		}
	}
	return 0;
}

/* Which table each packed byte of a mask has, by group. */
static int word_table_of_build(struct zword_word_decoder *decoder,
			       const u8 *table_of, u32 masks)
{
	u32 group, m, place, packed, class, table;

	for (group = 0; group < 4; group++) {
		for (m = 0; m < masks; m++) {
			const struct zword_mask *mask = &decoder->mask[m];

			class = mask->count <= 1 ? 0 : mask->count <= 2 ? 1 :
				mask->count <= 4 ? 2 : 3;
			packed = 0;
			for (place = 0; place < 8; place++) {
				if (!(mask->bytes >> place & 1))
					continue;
				table = table_of[(group * 8 + place) * 4 + class];
				if (table >= ZWORD_WORD_LITERALS)
					return -EINVAL;
				decoder->table_of[group][m] |=
					(u64)table << 8 * packed++;
			}
		}
	}
	return 0;
}

static void word_costs_build(struct zword_word_encoder *encoder,
			     const struct zword_mask *masks, u32 count,
			     const u8 *lengths)
{
	u32 kind, bytes, k;

	for (bytes = 0; bytes < 256; bytes++) {
		encoder->mask[bytes] = (u8)mask_for(masks, count, bytes);
		for (kind = 0; kind < ZWORD_KINDS; kind++)
			encoder->cost[kind][bytes] = (u16)(8 *
				lengths[ZWORD_L_COSTS + kind * ZWORD_MASKS_64 +
					encoder->mask[bytes]]);
	}
	for (k = 0; k < 256; k++)
		encoder->offset_cost[k] =
			encoder->literal[ZWORD_OFFSETS][k] & ZWORD_ENTRY_LENGTH;
}

static int words_build(struct zword_word_decoder *decoder,
		       struct zword_word_encoder *encoder, u32 width,
		       const u8 *lengths)
{
	u32 masks = masks_fill(decoder->mask, width), k;
	int ret;

	ret = word_tokens_build(decoder, encoder, lengths, masks);
	for (k = 0; !ret && k < ZWORD_WORD_TABLES; k++)
		ret = codes_build(lengths + ZWORD_L_LITERALS + 256 * k, 256,
				  ZWORD_LITERAL_CODE_MAX, encoder->literal[k],
				  decoder->literal[k]);
	if (!ret)
		ret = word_table_of_build(decoder, lengths + ZWORD_L_TABLE_OF,
					  masks);
	if (!ret)
		word_costs_build(encoder, decoder->mask, masks, lengths);
	return ret;
}

static int bytes_build(struct zword_byte_decoder *decoder,
		       struct zword_byte_encoder *encoder, const u8 *lengths)
{
	u32 k;
	int ret;

	ret = codes_build(lengths + ZWORD_L_BYTE_TOKENS, ZWORD_BYTE_TOKENS,
			  ZWORD_TOKEN_CODE_MAX, encoder->token, decoder->token);
	for (k = 0; !ret && k < ZWORD_BYTE_TABLES; k++)
		ret = codes_build(lengths + ZWORD_L_BYTE_TABLES + 256 * k, 256,
				  ZWORD_LITERAL_CODE_MAX, encoder->table[k],
				  decoder->table[k]);
	for (k = 0; !ret && k < 256; k++) {
		encoder->class_of[k] = lengths[ZWORD_L_CLASS_OF + k];
		if (encoder->class_of[k] >= ZWORD_CLASSES)
			ret = -EINVAL;
	}
	decoder->first = (u16)(encoder->class_of[0] << 4);
	for (k = 0; k < ZWORD_CLASSES * ZWORD_LITERAL_CODES; k++) {
		u16 *entry = &decoder->table[0][0] + k;

		*entry |= (u16)(encoder->class_of[*entry >> ZWORD_ENTRY_SHIFT]
				<< 4);
	}
	return ret;
}

size_t zword_tables_size(void)
{
	return sizeof(struct zword_tables);
}

int zword_tables_build(struct zword_tables *tables, const u8 *lengths,
		       size_t size)
{
	u32 mode;
	int ret;

	if (size != ZWORD_L_SIZE)
		return -EINVAL;
	memset(tables, 0, sizeof(*tables));
	for (mode = ZWORD_WORDS_64; mode <= ZWORD_WORDS_32; mode++) {
		ret = words_build(&tables->word_decoder[mode],
				  &tables->word_encoder[mode],
				  mode == ZWORD_WORDS_64 ? 8 : 4,
				  lengths + mode * ZWORD_L_WORDS);
		if (ret)
			return ret;
	}
	return bytes_build(&tables->byte_decoder, &tables->byte_encoder,
			   lengths + 2 * ZWORD_L_WORDS);
}

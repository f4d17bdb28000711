// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tokens and literals of bytes, written and read again. A stream is of fields here and
 * no bits, a code is its table and its symbol: that fields and codes come back is
 * proven in bits.c and tables.c. What is read of another table is anything.
 * Literals are of two letters, of two classes.
 */
#include "byte_symbol.h"

#include "../../zword/block.h"

#define STREAM		16u	/* fields of one at most */
#define STREAMS		ZWORD_BYTE_STREAMS
#define TOKEN		11u	/* the table of tokens */
#define PLAIN		12u	/* of bits without a code */
#define PLAIN_BITS	8u

/* In a field: one more than the table, and the symbol. */
#define FIELD(table, symbol)	(((table) + 1) << 8 | (symbol))
static u16 field[STREAMS][STREAM];
static u32 stream;

static void field_add(struct zword_writer *writer, u64 bits, u32 count)
{
	if (!count)
		return;
	prove(writer->count < STREAM - 1);
	field[stream][writer->count++] = (u16)(count == PLAIN_BITS ?
					       FIELD(PLAIN, bits) : bits);
}

static bool stream_end(struct zword_writer *writer)
{
	writer->count = 0;
	stream++;
	return true;
}

/* A reader's bits: the field, and above it where it is. */
static void reader_start(struct zword_reader *reader, u32 number)
{
	reader->at = number;
	reader->bits = field[number][0];
}

static void field_skip(struct zword_reader *reader, u32 bits)
{
	u32 at = (u32)(reader->bits >> 16) + 1;

	if (!bits)
		return;
	prove(bits == ((u8)(reader->bits >> 8) == PLAIN + 1 ? PLAIN_BITS : 1));
	prove(at < STREAM);
	reader->bits = (u64)at << 16 | field[reader->at][at];
}

/* Behind the last field there is none. */
static u32 reader_used(const struct zword_reader *reader)
{
	return reader->at + !(u16)reader->bits;
}

#define CLASS_OF_0	3
#define CLASS_OF_1	5
static struct zword_byte_decoder decoder;

static u32 field_entry(const u16 *entries, u32 size, u64 bits)
{
	u32 table = entries == decoder.set[0].token ? TOKEN :
		    (u32)(entries - decoder.set[0].table[0]) / size;
	u32 symbol = (u8)bits;

	if ((u16)bits != FIELD(table, symbol))
		symbol = nondet_u8();
	return symbol << ZWORD_ENTRY_SHIFT | 1 |
	       (symbol ? CLASS_OF_1 : CLASS_OF_0) << ZWORD_ENTRY_MORE;
}

static const struct zword_byte_symbol *any_symbol(u32 entry)
{
	static struct zword_byte_symbol symbol;

	any_bytes(&symbol);
	assume(is_symbol_of(&symbol, entry >> ZWORD_ENTRY_SHIFT));
	return &symbol;
}

static u32 told;

#define zword_add	field_add
#define zword_flush(writer, dst, capacity)	true
#define zword_finish(writer, dst, capacity)	stream_end(writer)
#define zword_reader_start	reader_start
#define zword_reader_used	reader_used
#define zword_refill(reader, src, size)	((void)0)
#define zword_skip	field_skip
#define zword_entry	field_entry
#define zword_byte_symbol(tables, entry)	any_symbol(entry)
#define zword_header_write(dst, capacity, first, streams, start)	(told = (first))
#include "../../zword/encode_bytes.c"
#include "../../zword/decode_bytes.c"

#define CODE_1(t, s)	FIELD(t, s) << 4 | 1
#define CODE_4(t, s)	CODE_1(t, s), CODE_1(t, s + 1), CODE_1(t, s + 2), CODE_1(t, s + 3)
#define CODE_16(t, s)	CODE_4(t, s), CODE_4(t, s + 4), CODE_4(t, s + 8), CODE_4(t, s + 12)
#define CODE_64(t, s)	CODE_16(t, s), CODE_16(t, s + 16), CODE_16(t, s + 32), CODE_16(t, s + 48)
#define CODES(t)	{ CODE_64(t, 0), CODE_64(t, 64), CODE_64(t, 128), CODE_64(t, 192) }

static const struct zword_byte_encoder encoder = {
	.codes[0] = {
		.token = CODES(TOKEN),
		.table = {
			CODES(0), CODES(1), CODES(2), CODES(3), CODES(4), CODES(5),
			CODES(6), CODES(7), CODES(8), CODES(9), CODES(10),
		},
	},
	.class_of = { CLASS_OF_0, CLASS_OF_1 },
};

static struct zword_byte_parse parsed;
static struct zword_byte_memory memory;

/* What a parse leaves, see parse_bytes.c; the last offset is told. */
static u32 any_token(struct zword_byte_token *token, u32 again)
{
	u32 offset = nondet_u32();

	token->literals = nondet_u16();
	token->length = nondet_bool() ? nondet_u16() & 0x3fff : 0;
	token->offset = (u16)offset;
	token->match = ZWORD_MATCH_NONE;
	assume(token->literals <= 12);
	if (!token->length) {
		assume(token->literals);
		return again;
	}
	assume(token->length >= ZWORD_MATCH_MIN &&
	       token->length <= ZWORD_MATCH_MAX);
	assume(offset >= 1 && offset < ZWORD_PAGE_SIZE_MAX);
	token->match = offset == again ? ZWORD_MATCH_AGAIN :
		       offset <= ZWORD_NEAR_MAX ? ZWORD_MATCH_NEAR :
						  ZWORD_MATCH_FAR;
	return offset;
}

static struct zword_decoding written(void)
{
	struct zword_decoding job = { .header.count = parsed.tokens };
	u32 k;

	zword_bytes_write(&encoder, &parsed, 0, NULL, 0);
	prove(told == (ZWORD_BYTES | parsed.tokens << ZWORD_COUNT_SHIFT));
	for (k = 0; k <= STREAMS; k++)
		job.header.start[k] = k;
	return job;
}

#define TOKENS	2

PROOF(tokens_come_back, 16, 16, 9)
{
	u32 again = ZWORD_AGAIN_FIRST, literals = 0, k;
	struct zword_decoding job;

	for (k = 0; k < TOKENS; k++) {
		again = any_token(&parsed.token[k], again);
		literals += parsed.token[k].literals;
	}
	assume(literals <= ZWORD_BLOCK_SIZE);
	parsed.tokens = TOKENS;
	job = written();
	prove(tokens_read(&decoder, &memory, &job) == (int)literals);
	for (k = 0; k < TOKENS; k++) {
		const struct zword_byte_token *token = &parsed.token[k];
		const struct zword_byte_sequence *read = &memory.sequence[k];

		prove(read->literals == token->literals);
		prove(read->length == token->length);
		prove(!token->length || read->before + 1u == token->offset);
	}
}

static void literals_of(u32 count)
{
	struct zword_decoding job;
	u32 k;

	memset(field, 0, sizeof(field));
	stream = 0;
	for (k = 0; k < count; k++)
		parsed.literal[k] = k < 2 ? nondet_bool() : k % 3 == 0;
	parsed.tokens = 0;
	parsed.literals = count;
	job = written();
	prove(!literals_read(&decoder.set[0], memory.literal, count,
			     CLASS_OF_0 << ZWORD_ENTRY_MORE, &job));
	for (k = 0; k < count; k++)
		prove(memory.literal[k] == parsed.literal[k]);
}

/*
 * One in each lane, and as many as a refill takes with a rest; the first two are
 * any, the others known.
 */
PROOF(literals_come_back, 32, 32, 36)
{
	literals_of(4);
	literals_of(LITERALS_A_REFILL * ZWORD_LANES + 2);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Objects that no encoder writes: each one step past a limit that a decoder has to
 * look at, beside the same one at the limit, which it has to take. Damaged objects
 * hardly ever come that close: a bit that is flipped makes an offset wrong by any
 * number, and only one of 4,096 is one byte before the page.
 *
 *	hostile
 *
 * zword's are put together of codes, one token after the other, and decoded twice: as
 * the store does it, and with working memory of exactly the size that the decoder says
 * it has. The object, the page and that memory are blocks of their own, so the address
 * sanitizer sees each byte that is read or written outside.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../zword/block.h"
#include "harness.h"

#define BLOCK		ZWORD_BLOCK_SIZE
#define OBJECT_MAX	65536u
#define TOKENS_MAX	2047u
#define LITERALS_MAX	32768u

static const struct zm_codec_ops *ops;
static struct zm_codec_params params = { .level = ZM_CODEC_LEVEL_DEFAULT };
static const struct zword_tables *tables;
static void *ctx;
static u32 cases;

/* An object on its way. */
static u8 object[OBJECT_MAX];
static u32 size;
static struct zword_header header;
static u8 expected[BLOCK];

/* -- Putting one together ---------------------------------------------------- */

/* So many bits of one stream, from bit *at on. */
static void put_bits(u32 byte, u32 *at, u64 bits, u32 count)
{
	for (; count; count--, bits >>= 1, ++*at) {
		if (byte + *at / 8 >= OBJECT_MAX)
			DIE("an object is too large");
		object[byte + *at / 8] |= (u8)((bits & 1) << *at % 8);
	}
}

static void put_code(u32 byte, u32 *at, u16 code)
{
	put_bits(byte, at, code >> 4, code & ZWORD_ENTRY_LENGTH);
}

static u32 stream_count(void)
{
	return header.mode == ZWORD_BYTES ? ZWORD_BYTE_STREAMS :
					    ZWORD_WORD_STREAMS;
}

static void begin(u32 mode, u32 count)
{
	memset(object, 0, sizeof(object));
	header = (struct zword_header){ .mode = mode, .count = count };
	/* Room for either header; the streams move up to it in the end. */
	header.start[0] = ZWORD_HEADER_SIZE(stream_count(), true);
	size = header.start[0];
}

/* The stream k ends here, after so many bits. */
static void stream_end(u32 k, u32 bits)
{
	size = header.start[k] + (bits + 7) / 8;
	header.start[k + 1] = size;
}

/* The header, with what is known by now. */
static void finish(void)
{
	u32 first = header.mode | ZWORD_HEADER_WIDE |
		    header.count << ZWORD_COUNT_SHIFT, k, bytes;

	object[0] = (u8)first;
	object[1] = (u8)(first >> 8);
	for (k = 0; k < stream_count() - 1; k++) {
		bytes = header.start[k + 1] - header.start[k];
		object[2 + 2 * k] = (u8)bytes;
		object[3 + 2 * k] = (u8)(bytes >> 8);
	}
}

/* -- Decoding it ------------------------------------------------------------- */

static void *exactly(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		DIE("no memory");
	return memory;
}

/* With the working memory that the decoder's own type says. */
static int decode_apart(const u8 *from, u8 *page)
{
	bool is_bytes = header.mode == ZWORD_BYTES;
	void *memory = exactly(is_bytes ? sizeof(struct zword_byte_memory) :
					  sizeof(struct zword_word_memory));
	const struct zword_decoding job = {
		.src = from,
		.src_size = size,
		.page = page,
		.header = header,
	};
	int err;

	err = is_bytes ?
	      zword_bytes_decode(&tables->byte_decoder, memory, &job) :
	      zword_words_decode(&tables->word_decoder[header.mode], memory,
				 &job);
	free(memory);
	return err;
}

static void expect(const char *what, int wanted)
{
	u8 *from = exactly(size), *page = exactly(BLOCK);
	int whole, apart;

	finish();
	memcpy(from, object, size);
	memset(page, 0x5c, BLOCK);
	whole = ops->decompress(ctx, &params, from, size, page, BLOCK);
	if (whole != wanted)
		DIE("%s: %d, not %d", what, whole, wanted);
	if (!wanted && memcmp(page, expected, BLOCK))
		DIE("%s: another page", what);
	memset(page, 0x5c, BLOCK);
	apart = decode_apart(from, page);
	if (apart != wanted)
		DIE("%s: decoded apart: %d, not %d", what, apart, wanted);
	free(from);
	free(page);
	cases++;
}

/* -- Blocks of bytes --------------------------------------------------------- */

static struct zword_byte_token byte_tokens[TOKENS_MAX];
static u32 byte_count, byte_literals;

static void token(u32 literals, u32 length, u32 offset)
{
	if (byte_count == TOKENS_MAX)
		DIE("too many tokens");
	byte_tokens[byte_count++] = (struct zword_byte_token){
		.literals = (u16)literals,
		.length = length & 0x3fff,
		.offset = (u16)offset,
		.match = !length ? ZWORD_MATCH_NONE :
			 offset <= 256 ? ZWORD_MATCH_NEAR : ZWORD_MATCH_FAR,
	};
	byte_literals += literals;
}

static u32 symbol_of(const struct zword_byte_token *token)
{
	u32 literals = token->literals < ZWORD_LITERALS_LONG ?
		       token->literals : ZWORD_LITERALS_LONG;
	u32 length = (u32)token->length - ZWORD_MATCH_MIN;

	if (length > ZWORD_LENGTH_LONG)
		length = ZWORD_LENGTH_LONG;
	return zword_byte_token(literals, token->length ? length : 0,
				token->match);
}

/* The counts behind a symbol. */
static void put_counts(const struct zword_byte_codes *codes,
		       const struct zword_byte_token *token, u32 byte, u32 *at)
{
	const u16 *code = codes->table[ZWORD_BYTE_LENGTH];
	u32 more = token->literals - ZWORD_LITERALS_LONG;

	if (token->literals >= ZWORD_LITERALS_LONG) {
		for (; more >= 255; more -= 255)
			put_code(byte, at, code[255]);
		put_code(byte, at, code[more]);
	}
	if (token->length >= ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG)
		put_code(byte, at, code[token->length - ZWORD_MATCH_MIN -
					ZWORD_LENGTH_LONG]);
}

static void put_offset(const struct zword_byte_codes *codes,
		       const struct zword_byte_token *token, u32 byte, u32 *at)
{
	u32 offset = token->offset - 1u;

	if (token->match == ZWORD_MATCH_NEAR) {
		put_code(byte, at, codes->table[ZWORD_BYTE_NEAR][offset]);
	} else if (token->match == ZWORD_MATCH_FAR) {
		put_code(byte, at, codes->table[ZWORD_BYTE_FAR][offset >> 8]);
		put_bits(byte, at, offset & 0xff, 8);
	}
}

/* All literals are this one, whose code behind itself is the shortest. */
static u8 common;

static void common_find(void)
{
	const struct zword_byte_encoder *encoder = &tables->byte_encoder;
	u32 least = ~0u, byte, bits;

	for (byte = 0; byte < 256; byte++) {
		bits = encoder->codes[0].table[encoder->class_of[byte]][byte] &
		       ZWORD_ENTRY_LENGTH;
		if (bits >= least)
			continue;
		least = bits;
		common = (u8)byte;
	}
}

static void bytes_put(void)
{
	const struct zword_byte_encoder *encoder = &tables->byte_encoder;
	const struct zword_byte_codes *codes = &encoder->codes[0];
	u32 quarter = (byte_literals + 3) / 4, left = byte_literals;
	u32 k, lane, at = 0, now, class;

	begin(ZWORD_BYTES, byte_count);
	for (k = 0; k < byte_count; k++)
		put_code(header.start[0], &at,
			 codes->token[symbol_of(&byte_tokens[k])]);
	stream_end(0, at);
	for (k = 0, at = 0; k < byte_count; k++)
		put_offset(codes, &byte_tokens[k], header.start[1], &at);
	stream_end(1, at);
	for (k = 0, at = 0; k < byte_count; k++)
		put_counts(codes, &byte_tokens[k], header.start[2], &at);
	stream_end(2, at);
	for (lane = 0; lane < ZWORD_LANES; lane++) {
		now = left < quarter ? left : quarter;
		left -= now;
		class = encoder->class_of[0];
		for (k = 0, at = 0; k < now; k++) {
			put_code(header.start[3 + lane], &at,
				 codes->table[class][common]);
			class = encoder->class_of[common];
		}
		stream_end(3 + lane, at);
	}
	byte_count = 0;
	byte_literals = 0;
	memset(expected, common, BLOCK);
}

static void expect_bytes(const char *what, int wanted)
{
	bytes_put();
	expect(what, wanted);
}

static void try_matches(void)
{
	u32 first, length;

	/* Where copies are quick and, near the block's end, where they are not. */
	for (first = 1; first <= 300; first += first < 40 ? 1 : 37) {
		for (length = ZWORD_MATCH_MIN; length <= ZWORD_MATCH_MAX;
		     length += 83) {
			token(first, length, first);
			token(BLOCK - first - length, 0, 0);
			expect_bytes("a match from the page's first byte", 0);
			token(first, length, first + 1);
			token(BLOCK - first - length, 0, 0);
			expect_bytes("a match from before the page", -EBADMSG);
		}
	}
	token(BLOCK - 8, 8, BLOCK - 8);
	expect_bytes("a match at the block's end", 0);
	token(BLOCK - 8, 8, BLOCK - 7);
	expect_bytes("a match at the block's end from before it", -EBADMSG);
	token(BLOCK - 8, 9, 1);
	expect_bytes("a match past the block's end", -EBADMSG);
}

static void try_literals(void)
{
	u32 k;

	token(BLOCK, 0, 0);
	expect_bytes("a block of literals", 0);
	token(BLOCK + 1, 0, 0);
	expect_bytes("a literal too many", -EBADMSG);
	token(BLOCK - 1, 0, 0);
	expect_bytes("a literal too few", -EBADMSG);
	token(1, BLOCK / 64, 1);
	token(BLOCK - 1 - BLOCK / 64, 0, 0);
	expect_bytes("literals behind a match", 0);
	token(1, BLOCK / 64, 1);
	token(BLOCK - BLOCK / 64, 0, 0);
	expect_bytes("a literal too many behind a match", -EBADMSG);
	for (k = 0; k < 7; k++)
		token(BLOCK, 0, 0);
	expect_bytes("blocks of literals in one", -EBADMSG);
	token(BLOCK, 0, 0);
	token(0, 0, 0);
	expect_bytes("a token that makes nothing", -EBADMSG);
}

static void try_byte_tokens(void)
{
	u32 k;

	for (k = 0; k < BLOCK / 4; k++)
		token(4, 0, 0);
	expect_bytes("as many tokens as a block has", 0);
	for (k = 0; k < ZWORD_BYTE_TOKENS_MAX; k++)
		token(k < 4 ? 3 : 4, 0, 0);
	expect_bytes("one more", 0);
	for (k = 0; k < TOKENS_MAX; k++)
		token(k < TOKENS_MAX - 1 ? 2 : 4, 0, 0);
	expect_bytes("as many tokens as can be told", -EBADMSG);
}

static void try_streams(void)
{
	u32 k;

	for (k = 1; k < ZWORD_BYTE_STREAMS; k++) {
		token(BLOCK, 0, 0);
		bytes_put();
		header.start[k]++;
		expect("a stream that begins late", -EBADMSG);
	}
	token(BLOCK, 0, 0);
	bytes_put();
	size++;
	header.start[ZWORD_BYTE_STREAMS]++;
	expect("a byte behind the last stream", -EBADMSG);
}

/* -- Blocks of words --------------------------------------------------------- */

static struct {
	u16 token[TOKENS_MAX];
	u8 literal[LITERALS_MAX];
	u8 table[LITERALS_MAX];
	u32 tokens;
	u32 literals;
} words;

static void literal(u32 byte, u32 table)
{
	if (words.literals == LITERALS_MAX)
		DIE("too many literals");
	words.literal[words.literals] = (u8)byte;
	words.table[words.literals++] = (u8)table;
}

/* A word that is its reference, and as many again; near: the offset in words. */
static void word(u32 kind, u32 near, u32 run)
{
	u32 class = run < ZWORD_RUN_LONG ? run : ZWORD_RUN_LONG;

	if (words.tokens == TOKENS_MAX)
		DIE("too many tokens");
	words.token[words.tokens++] = (u16)zword_token(kind, 0, class);
	if (kind == ZWORD_NEAR)
		literal(near - 1, ZWORD_OFFSETS);
	if (class == ZWORD_RUN_LONG)
		literal(run - ZWORD_RUN_LONG, ZWORD_RUNS);
}

/* Any token, behind an escape. */
#define ESCAPED 0x8000u

/* A token with as many literals as one can have. */
static void full_word(u32 mode)
{
	const struct zword_word_encoder *encoder = &tables->word_encoder[mode];
	u32 mask = encoder->mask[mode == ZWORD_WORDS_64 ? 0xff : 0x0f], k;
	u32 token = zword_token(ZWORD_FAR, mask, ZWORD_RUN_LONG);
	struct zword_symbol symbol;

	zword_symbol_of(&tables->word_decoder[mode], token, &symbol);
	if (words.tokens == TOKENS_MAX)
		DIE("too many tokens");
	words.token[words.tokens++] = (u16)token;
	for (k = 0; k < symbol.count; k++)
		literal(0, symbol.table[k]);
}

static void put_tokens(const struct zword_word_encoder *encoder, u32 stream,
		       u32 from, u32 to)
{
	const struct zword_word_codes *codes = &encoder->codes[0];
	u32 at = 0, context = 0, symbol, token;

	for (; from < to; from++) {
		token = words.token[from] & (ZWORD_TOKENS - 1);
		symbol = words.token[from] & ESCAPED ? ZWORD_ESCAPE :
						       encoder->symbol[token];
		put_code(header.start[stream], &at, codes->token[context][symbol]);
		if (symbol == ZWORD_ESCAPE)
			put_bits(header.start[stream], &at, token,
				 ZWORD_TOKEN_BITS);
		context = zword_token_kind(token) < ZWORD_KINDS ?
			  zword_context(zword_token_kind(token)) : 0;
	}
	stream_end(stream, at);
}

static void expect_words(u32 mode, const char *what, int wanted)
{
	const struct zword_word_encoder *encoder = &tables->word_encoder[mode];
	u32 second = words.tokens - words.tokens / 2, lane, k, at;

	begin(mode, words.tokens);
	put_tokens(encoder, 0, 0, second);
	put_tokens(encoder, 1, second, words.tokens);
	for (lane = 0; lane < ZWORD_LANES; lane++) {
		for (k = lane, at = 0; k < words.literals; k += ZWORD_LANES)
			put_code(header.start[2 + lane], &at,
				 encoder->codes[0].literal[words.table[k]]
							  [words.literal[k]]);
		stream_end(2 + lane, at);
	}
	words.tokens = 0;
	words.literals = 0;
	/* Every word refers to one before the page, or to one that does. */
	memset(expected, 0, BLOCK);
	expect(what, wanted);
}

/* Runs of so many words, up to that many. */
static void runs(u32 count, u32 each)
{
	u32 now;

	for (; count; count -= now) {
		now = count < each ? count : each;
		word(ZWORD_STRIDE, 0, now - 1);
	}
}

static void try_runs(u32 mode, u32 all)
{
	static const u32 each[] = { 1, 2, 3, 4, 5, 31, 258 };
	u32 i, past;

	for (i = 0; i < sizeof(each) / sizeof(*each); i++) {
		runs(all, each[i]);
		expect_words(mode, "runs up to the block's end", 0);
		for (past = 1; past <= 4; past++) {
			runs(all - each[i], each[i]);
			word(ZWORD_STRIDE, 0, each[i] - 1 + past);
			expect_words(mode, "a run past the block's end",
				     -EBADMSG);
		}
		runs(all - 1, each[i]);
		expect_words(mode, "a word too few", -EBADMSG);
	}
}

static void try_references(u32 mode, u32 all)
{
	u32 at, kind;

	for (kind = 0; kind < ZWORD_KINDS; kind++) {
		for (at = 0; at < 4 && kind != ZWORD_FAR; at++) {
			runs(at, 1);
			word(kind, at + 1, 0);
			runs(all - at - 1, 258);
			expect_words(mode, "a word before the page is 0", 0);
			runs(at, 1);
			word(kind, at + 1, 9);
			runs(all - at - 10, 258);
			expect_words(mode, "so are those before a run", 0);
		}
	}
}

static void try_word_tokens(u32 mode, u32 all)
{
	u32 kind;

	runs(all + 1, 1);
	expect_words(mode, "a token too many", -EBADMSG);
	runs(TOKENS_MAX, 1);
	expect_words(mode, "as many tokens as can be told", -EBADMSG);
	while (words.tokens < TOKENS_MAX)
		full_word(mode);
	expect_words(mode, "the same with all their literals", -EBADMSG);
	for (kind = 0; kind < 8; kind++) {
		word(ZWORD_STRIDE, 0, 0);
		words.token[words.tokens++] =
			(u16)(ESCAPED | zword_token(kind, 0, 0));
		if (kind == ZWORD_NEAR)
			literal(0, ZWORD_OFFSETS);
		if (kind == ZWORD_FAR) {
			literal(0, ZWORD_RUNS);
			literal(0, ZWORD_RUNS);
		}
		runs(all - 2, 258);
		expect_words(mode, "an escaped token of any kind",
			     kind < ZWORD_KINDS ? 0 : -EBADMSG);
	}
	word(ZWORD_STRIDE, 0, 0);
	words.token[words.tokens++] =
		(u16)(ESCAPED | zword_token(ZWORD_ZERO, mode == ZWORD_WORDS_64 ?
					    ZWORD_MASKS_64 : ZWORD_MASKS_32, 0));
	runs(all - 2, 258);
	expect_words(mode, "an escaped token of a mask too many", -EBADMSG);
	/* The odd one, behind all pairs; here there are none. */
	words.token[words.tokens++] = (u16)(ESCAPED | zword_token(7, 0, 0));
	expect_words(mode, "an odd token of no kind", -EBADMSG);
}

static void try_words(u32 mode)
{
	u32 all = BLOCK / (mode == ZWORD_WORDS_64 ? 8 : 4);

	try_runs(mode, all);
	try_references(mode, all);
	try_word_tokens(mode, all);
}

int main(void)
{
	ops = zm_codec_find("zword");
	if (!ops || zm_codec_setup(ops, &params) ||
	    ops->context_create(&params, &ctx))
		DIE("no zword");
	tables = params.prepared;
	common_find();
	try_matches();
	try_literals();
	try_byte_tokens();
	try_streams();
	try_words(ZWORD_WORDS_64);
	try_words(ZWORD_WORDS_32);
	ops->context_destroy(ctx);
	zm_codec_release(ops, &params);
	printf("hostile: %u objects at the limits and past them: ok\n", cases);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Objects that no encoder writes: each one step past a limit that a decoder has to
 * look at, beside the same one at the limit, which it has to take. Damaged objects
 * hardly ever come that close: a bit that is flipped makes an offset wrong by any
 * number, and only one of 4,096 is one byte before the page.
 *
 *	hostile
 *
 * zword's are what its encoder's last step, which trusts what was parsed, writes of a
 * parse that no page has. They are decoded twice: as the store does it, and by the
 * block's decoder alone. The object, the page and the working memory, of exactly the
 * size that the decoder says it has, are blocks of their own, so the address sanitizer
 * sees each byte that is read or written outside.
 */
#include "small_scope.h"

#define OBJECT_MAX	65536u
#define TOKENS_MAX	2047u
#define LITERALS_MAX	32768u

/* Parses with more of everything than a block has; see block.h. */
struct hostile_byte_parse {
	u32 tokens;
	u32 literals;
	struct zword_byte_token token[TOKENS_MAX];
	u8 literal[LITERALS_MAX + 16];
};

struct hostile_word_parse {
	u32 tokens;
	u32 literals;
	u16 token[TOKENS_MAX];
	u8 literal[LITERALS_MAX + 16];
	u8 table[LITERALS_MAX + 16];
};

static struct zword_header header;	/* of the object on its way */

static u32 header_write(u8 *dst, u32 capacity, u32 first, u32 streams,
			const u32 *start)
{
	u32 size = zword_header_write(dst, capacity, first, streams, start), k;

	header.mode = first & 3;
	header.count = first >> ZWORD_COUNT_SHIFT;
	header.start[0] = ZWORD_HEADER_SIZE(streams, dst[0] & ZWORD_HEADER_WIDE);
	for (k = 0; k < streams; k++)
		header.start[k + 1] = size - (start[streams - 1] - start[k]);
	return size;
}

#define zword_header_write	header_write
#define zword_byte_parse	hostile_byte_parse
#define zword_bytes_elect	hostile_bytes_elect
#define zword_bytes_guess	hostile_bytes_guess
#define zword_bytes_measure	hostile_bytes_measure
#define zword_bytes_write	hostile_bytes_write
#include "../zword/encode_bytes.c"

/* Behind a token of no kind another one may stand. */
#define zword_context(kind)	((kind) < ZWORD_KINDS ? zword_context(kind) : 0)
#define zword_word_parse	hostile_word_parse
#define zword_words_elect	hostile_words_elect
#define zword_words_measure	hostile_words_measure
#define zword_words_write	hostile_words_write
#define tokens_write		word_tokens_write
#define lane_write		word_lane_write
#define literal_add		word_literal_add
#include "../zword/encode_words.c"

static u8 object[OBJECT_MAX];
static u32 size;
static u8 expected[BLOCK];
static u32 cases;

/* -- Decoding it ------------------------------------------------------------- */

static void *exactly(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		DIE("no memory");
	return memory;
}

static void expect(const char *what, int wanted)
{
	bool is_bytes = header.mode == ZWORD_BYTES;
	void *memory = exactly(is_bytes ? sizeof(struct zword_byte_memory) :
					  sizeof(struct zword_word_memory));
	u8 *from = exactly(size), *page = exactly(BLOCK);
	const struct zword_decoding job = {
		.src = from, .src_size = size, .page = page, .header = header,
	};
	int whole, apart;

	memcpy(from, object, size);
	memset(page, 0x5c, BLOCK);
	whole = zword_decompress(tables, memory, from, size, page, BLOCK);
	if (whole != wanted)
		DIE("%s: %d, not %d", what, whole, wanted);
	if (!wanted && memcmp(page, expected, BLOCK))
		DIE("%s: another page", what);
	apart = is_bytes ?
		zword_bytes_decode(&tables->byte_decoder, memory, &job) :
		zword_words_decode(&tables->word_decoder[header.mode], memory,
				   &job);
	if (apart != wanted)
		DIE("%s: decoded apart: %d, not %d", what, apart, wanted);
	free(from);
	free(page);
	free(memory);
	cases++;
}

/* -- Blocks of bytes --------------------------------------------------------- */

static struct hostile_byte_parse bytes;

static void token(u32 literals, u32 length, u32 offset)
{
	if (bytes.tokens == TOKENS_MAX)
		DIE("too many tokens");
	bytes.token[bytes.tokens++] = (struct zword_byte_token){
		.literals = (u16)literals,
		.length = length & 0x3fff,
		.offset = (u16)offset,
		.match = !length ? ZWORD_MATCH_NONE :
			 offset <= 256 ? ZWORD_MATCH_NEAR : ZWORD_MATCH_FAR,
	};
	bytes.literals += literals;
}

/* All literals are this one, whose code behind itself is the shortest. */
static void common_find(void)
{
	const struct zword_byte_encoder *encoder = &tables->byte_encoder;
	u32 least = ~0u, common = 0, byte, bits;

	for (byte = 0; byte < 256; byte++) {
		bits = encoder->codes[0].table[encoder->class_of[byte]][byte] &
		       ZWORD_ENTRY_LENGTH;
		if (bits >= least)
			continue;
		least = bits;
		common = byte;
	}
	memset(bytes.literal, (int)common, sizeof(bytes.literal));
}

static void bytes_put(void)
{
	size = hostile_bytes_write(&tables->byte_encoder, &bytes, 0, object,
				   OBJECT_MAX);
	if (!size)
		DIE("an object is too large");
	bytes.tokens = 0;
	bytes.literals = 0;
	memcpy(expected, bytes.literal, BLOCK);
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

/* The stream k begins so much later, whatever stands there. */
static void stream_move(u32 k)
{
	u32 wide = object[0] & ZWORD_HEADER_WIDE ? 2 : 1;

	object[2 + wide * (k - 1)]++;
	if (k + 1 < ZWORD_BYTE_STREAMS)
		object[2 + wide * k]--;
	header.start[k]++;
}

static void try_streams(void)
{
	u32 k;

	for (k = 1; k < ZWORD_BYTE_STREAMS; k++) {
		token(BLOCK, 0, 0);
		bytes_put();
		stream_move(k);
		expect("a stream that begins late", -EBADMSG);
	}
	token(BLOCK, 0, 0);
	bytes_put();
	size++;
	header.start[ZWORD_BYTE_STREAMS]++;
	expect("a byte behind the last stream", -EBADMSG);
}

/* -- Blocks of words --------------------------------------------------------- */

static struct hostile_word_parse words;
/* Of the mode, with tokens that have no code here where they have one. */
static struct zword_word_encoder escaping;

static void literal(u32 byte, u32 table)
{
	if (words.literals == LITERALS_MAX)
		DIE("too many literals");
	words.literal[words.literals] = (u8)byte;
	words.table[words.literals++] = (u8)table;
}

static void put_token(u32 token)
{
	if (words.tokens == TOKENS_MAX)
		DIE("too many tokens");
	words.token[words.tokens++] = (u16)token;
}

/* Any token, behind an escape. */
static void put_escaped(u32 token)
{
	put_token(token);
	escaping.symbol[token] = ZWORD_ESCAPE;
}

/* A word that is its reference, and as many again; near: the offset in words. */
static void word(u32 kind, u32 near, u32 run)
{
	u32 class = run < ZWORD_RUN_LONG ? run : ZWORD_RUN_LONG;

	put_token(zword_token(kind, 0, class));
	if (kind == ZWORD_NEAR)
		literal(near - 1, ZWORD_OFFSETS);
	if (class == ZWORD_RUN_LONG)
		literal(run - ZWORD_RUN_LONG, ZWORD_RUNS);
}

/* A token with as many literals as one can have. */
static void full_word(u32 mode)
{
	u32 mask = escaping.mask[mode == ZWORD_WORDS_64 ? 0xff : 0x0f], k;
	u32 token = zword_token(ZWORD_FAR, mask, ZWORD_RUN_LONG);
	struct zword_symbol symbol;

	zword_symbol_of(&tables->word_decoder[mode], token, &symbol);
	put_token(token);
	for (k = 0; k < symbol.count; k++)
		literal(0, symbol.table[k]);
}

static void expect_words(u32 mode, const char *what, int wanted)
{
	size = hostile_words_write(&escaping, &words, mode, 0, object,
				   OBJECT_MAX);
	if (!size)
		DIE("an object is too large");
	escaping = tables->word_encoder[mode];
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
	u32 kind, count;

	runs(all + 1, 1);
	expect_words(mode, "a token too many", -EBADMSG);
	runs(TOKENS_MAX, 1);
	expect_words(mode, "as many tokens as can be told", -EBADMSG);
	for (count = all + 1; count <= TOKENS_MAX; count += 9) {
		while (words.tokens < count)
			full_word(mode);
		expect_words(mode, "too many with all their literals", -EBADMSG);
	}
	for (kind = 0; kind < 8; kind++) {
		word(ZWORD_STRIDE, 0, 0);
		put_escaped(zword_token(kind, 0, 0));
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
	put_escaped(zword_token(ZWORD_ZERO, mode == ZWORD_WORDS_64 ?
				ZWORD_MASKS_64 : ZWORD_MASKS_32, 0));
	runs(all - 2, 258);
	expect_words(mode, "an escaped token of a mask too many", -EBADMSG);
	/* The odd one, behind all pairs; here there are none. */
	put_escaped(zword_token(7, 0, 0));
	expect_words(mode, "an odd token of no kind", -EBADMSG);
}

/* Fewer bytes than a reader takes at once are no page, and nothing in front of them is read. */
static void try_small(void)
{
	struct zword_work *work = malloc(sizeof(struct zword_work));
	struct rng rng = { 1 };
	u8 page[BLOCK], *bytes;
	u32 number, k, length;

	for (number = 0; number < 50000; number++) {
		length = 1 + number % 7;
		bytes = malloc(length);
		for (k = 0; k < length; k++)
			bytes[k] = k < 2 || number % 3 == 0 ?
				   (u8)rng_next(&rng) : 0;
		EXPECT(zword_decompress(tables, work, bytes, length, page,
					BLOCK));
		free(bytes);
	}
	free(work);
}

/*
 * A symbol without a code, in a table that is whole without it; a code that is longer than
 * any; a class that is none; and no table at all.
 */
static void try_lengths(void)
{
	static const size_t tables_of_sets[][3] = {
		{ ZWORD_L_WORD_SETS, ZWORD_SETS, ZWORD_L_WORD_SET },
		{ ZWORD_L_WORDS_32 + ZWORD_L_WORD_SETS, ZWORD_SETS_32,
		  ZWORD_L_WORD_SET },
		{ ZWORD_L_BYTES + ZWORD_L_BYTE_SETS, ZWORD_SETS,
		  ZWORD_L_BYTE_SET },
	};
	u8 *lengths = malloc(zword_lengths_size), *of, was;
	struct zword_tables *built = malloc(zword_tables_size());
	size_t part, at, symbol, other, size;

	for (part = 0; part < 3; part++) {
		size = tables_of_sets[part][1] * tables_of_sets[part][2];
		for (at = 0; at < size; at += 256) {
			for (symbol = 0; symbol < 256; symbol += 255) {
				memcpy(lengths, zword_lengths, zword_lengths_size);
				of = lengths + tables_of_sets[part][0] + at;
				was = of[symbol];
				for (other = 1; other < 255 && of[other] != was;)
					other++;
				/* Some tables have fewer symbols. */
				if (!was || other == 255)
					continue;
				of[other]--;
				of[symbol] = 0;
				EXPECT(zword_tables_build(built, lengths,
							  zword_lengths_size) ==
				       -EINVAL);
				of[other] = was;
				of[symbol] = 16;
				EXPECT(zword_tables_build(built, lengths,
							  zword_lengths_size) ==
				       -EINVAL);
				/* Codes are left over, or one is too long. */
				of[symbol] = was + 1;
				EXPECT(zword_tables_build(built, lengths,
							  zword_lengths_size) ==
				       -EINVAL);
			}
		}
	}
	for (symbol = 0; symbol < 256; symbol += 255) {
		memcpy(lengths, zword_lengths, zword_lengths_size);
		lengths[ZWORD_L_BYTES + ZWORD_L_CLASS_OF + symbol] =
			ZWORD_CLASSES;
		EXPECT(zword_tables_build(built, lengths, zword_lengths_size) ==
		       -EINVAL);
	}
	EXPECT(zword_tables_build(built, zword_lengths,
				  zword_lengths_size - 1) == -EINVAL);
	EXPECT(!zword_tables_build(built, zword_lengths, zword_lengths_size));
	free(lengths);
	free(built);
}

static void try_words(u32 mode)
{
	u32 all = BLOCK / (mode == ZWORD_WORDS_64 ? 8 : 4);

	escaping = tables->word_encoder[mode];
	try_runs(mode, all);
	try_references(mode, all);
	try_word_tokens(mode, all);
}

int main(void)
{
	tables_make();
	common_find();
	try_matches();
	try_literals();
	try_byte_tokens();
	try_streams();
	try_words(ZWORD_WORDS_64);
	try_words(ZWORD_WORDS_32);
	try_lengths();
	try_small();
	free(tables);
	printf("hostile: %u objects at the limits and past them: ok\n", cases);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword with small limits, where nearly every page meets some of them: each page
 * comes back.
 *
 *	small_scope [pages [seed]]
 *
 * All pages that differ in a few words of a small alphabet, in some letters, or in one
 * region that is copied; then so many random ones. Each block in each mode, quickly
 * and thoroughly parsed, with the set of codes that it elects and another one; each
 * page at both levels. Each object is written with room to spare, with exactly its
 * room, and not with one byte less. In the end every limit must have been met.
 */
#include "small_scope.h"

static u8 *page, *object, *again, *back;
static struct zword_encoding *work;
static u64 tried;

/* What was met, to see that the limits are small enough. */
static struct {
	u64 longest_match, near_last, far_first, longest_run, long_literals;
	u64 wide, narrow, too_large, modes[4];
} met;

/* So that the end of what is given is the end of what was allocated, or the begin. */
static u8 *placed(u8 *buffer, u32 size)
{
	return tried % 2 ? buffer : buffer + BLOCKS_MAX * ROOM - size;
}

static void page_show(u32 size)
{
	for (u32 k = 0; k < size; k++)
		fprintf(stderr, "%02x%s", page[k], k % 32 == 31 ? "\n" : "");
}

static void come_back(const u8 *from, u32 object_size, u32 size,
		      const char *how, u32 mode, u32 set)
{
	u8 *src = placed(again, object_size);
	int ret;

	memcpy(src, from, object_size);
	memset(back, 0xa5, size);
	ret = zword_decompress(tables, (void *)work, src, object_size, back, size);
	if (!ret && !memcmp(back, page, size))
		return;
	page_show(size);
	DIE("page %llu, %s %u, set %u: %s", tried, how, mode,
	    set, ret ? "it is no object" : "another page comes back");
}

static void bytes_meet(const struct zword_byte_parse *parse)
{
	for (u32 k = 0; k < parse->tokens; k++) {
		const struct zword_byte_token *token = &parse->token[k];

		met.longest_match += token->length == ZWORD_MATCH_MAX;
		met.near_last += token->offset == ZWORD_NEAR_MAX;
		met.far_first += token->offset == ZWORD_NEAR_MAX + 1;
		met.long_literals += token->literals >= ZWORD_LITERALS_LONG +
							2 * ZWORD_COUNT_MAX;
	}
}

/* A run of words is told by the last byte of its literals. */
static void words_meet(const struct zword_word_parse *parse)
{
	const u8 *table = parse->table;

	for (u32 k = 0; k < parse->literals; k++)
		met.longest_run += table[k] == ZWORD_RUNS &&
				   parse->literal[k] ==
				   ZWORD_RUN_MAX - ZWORD_RUN_LONG;
}

/* The last block, behind raw ones. */
static void block_come_back(const u8 *block, u32 used, u32 size,
			    const char *how, u32 mode, u32 set)
{
	static u8 whole[BLOCKS_MAX * ROOM];
	u32 at = 0, from;

	for (from = 0; from + BLOCK < size; from += BLOCK) {
		whole[at++] = (2 + BLOCK) & 0xff;
		whole[at++] = (2 + BLOCK) >> 8;
		whole[at++] = ZWORD_RAW;
		whole[at++] = 0;
		memcpy(whole + at, page + from, BLOCK);
		at += BLOCK;
	}
	memcpy(whole + at, block, used);
	/* No encoder keeps it, and no decoder takes it. */
	if (at + used > size / BLOCK * (BLOCK + 8))
		met.too_large++;
	else
		come_back(whole, at + used, size, how, mode, set);
}

/* With sets of codes: the elected one and another. */
static void sets_try(u32 mode, bool thoroughly, u32 size)
{
	const char *how = thoroughly ? "thorough" : "quick";
	u32 elected = mode == ZWORD_BYTES ?
		      zword_bytes_elect(&tables->byte_encoder,
					&work->byte) :
		      zword_words_elect(&tables->word_encoder[mode],
					&work->word);
	struct zword_size measured;
	u32 used[2], k, set;
	u8 *dst;

	for (k = 0; k < 2; k++) {
		set = k ? (elected + 1 + tried % 3) % zword_sets_of(mode) :
			  elected;
		used[k] = block_write(work, mode, set, object, ROOM);
		if (mode == ZWORD_BYTES)
			zword_bytes_measure(&tables->byte_encoder,
					    &work->byte, set, &measured);
		else
			zword_words_measure(&tables->word_encoder[mode],
					    &work->word, set, &measured);
		if (used[k] != measured.all)
			DIE("%u bytes are measured, %u written", measured.all,
			    used[k]);
		dst = placed(again, used[k] - 1);
		if (block_write(work, mode, set, dst, used[k] - 1))
			DIE("it is written into a byte less than it takes");
		dst = placed(again, used[k]);
		if (block_write(work, mode, set, dst, used[k]) != used[k] ||
		    memcmp(dst, object, used[k]))
			DIE("it is not the same with exactly its room");
		met.wide += (object[0] & ZWORD_HEADER_WIDE) != 0;
		met.narrow += (object[0] & ZWORD_HEADER_WIDE) == 0;
		/* The decoder will take the memory of what was parsed. */
		memcpy(object + (k + 1) * ROOM, object, used[k]);
	}
	block_come_back(object + ROOM, used[0], size, how, mode, elected);
	block_come_back(object + 2 * ROOM, used[1], size, how, mode, set);
}

static void modes_try(u32 size)
{
	for (u32 k = 0; k < 2 * ZWORD_RAW; k++) {
		block_parse(work, k / 2, k % 2, page, size - BLOCK);
		if (k / 2 == ZWORD_BYTES)
			bytes_meet(&work->byte);
		else
			words_meet(&work->word);
		sets_try(k / 2, k % 2, size);
	}
}

static void levels_try(u32 size)
{
	size_t room, used;
	u8 *dst;

	for (int level = ZWORD_LEVEL_GLANCE; level <= ZWORD_LEVEL_ALL; level++) {
		used = BLOCKS_MAX * ROOM;
		if (zword_compress(tables, (void *)work, level, page, size,
				   object, &used))
			DIE("level %d: no room where there is much", level);
		met.modes[object[size > BLOCK ? 2 : 0] & 3]++;
		room = used - 1;
		dst = placed(again, (u32)room);
		if (zword_compress(tables, (void *)work, level, page, size, dst,
				   &room) != -ENOSPC)
			DIE("level %d: there is room where it is too small",
			    level);
		room = used;
		dst = placed(again, (u32)room);
		if (zword_compress(tables, (void *)work, level, page, size, dst,
				   &room) || room != used ||
		    memcmp(dst, object, used))
			DIE("level %d: not the same with exactly its room",
			    level);
		come_back(object, (u32)used, size, "level", (u32)level, 0);
	}
}

/* A page is allocated for itself, so that nothing behind it is read. */
static void page_try(const u8 *bytes, u32 size)
{
	page = malloc(size);
	if (!page)
		DIE("no memory");
	memcpy(page, bytes, size);
	tried++;
	modes_try(size);
	levels_try(size);
	free(page);
}

/* All rows of so many words out of an alphabet, in front of or behind what is there. */
static void all_words(u8 *bytes, const u64 *alphabet, u32 letters, u32 width,
		      u32 from, u32 count)
{
	u64 rows = 1, row, rest;
	u32 k;

	for (k = 0; k < count; k++)
		rows *= letters;
	for (row = 0; row < rows; row++) {
		for (k = 0, rest = row; k < count; k++, rest /= letters) {
			if (width == 1)
				bytes[from + k] = (u8)alphabet[rest % letters];
			else
				zword_put_word(bytes + from + k * width,
					       alphabet[rest % letters], width);
		}
		page_try(bytes, BLOCK);
	}
}

/* Each region copied to each later place, of bytes that all differ. */
static void all_copies(u8 *bytes, u32 step)
{
	u32 from, to, length, k;

	for (to = 1; to < BLOCK; to++)
		for (from = 0; from < to; from += step)
			for (length = 4; to + length <= BLOCK; length += step) {
				for (k = 0; k < BLOCK; k++)
					bytes[k] = (u8)(k * 37 + 11);
				for (k = 0; k < length; k++)
					bytes[to + k] = bytes[from + k];
				page_try(bytes, BLOCK);
			}
}

static void all_try(u8 *bytes)
{
	static const u64 words[] = {
		0, 0x7f1234567890, 0x7f1234567891, 0x1122334455667788,
	};
	static const u64 letters[] = { 'a', 'b', 0xfe };
	/* Of larger blocks, fewer lengths. */
	const u32 step = BLOCK > 64 ? 4 : 1;

	memset(bytes, 0, BLOCK);
	all_words(bytes, words, 4, 8, 0, 7);
	all_words(bytes, words, 3, 8, BLOCK - 64, 8);
	all_words(bytes, words, 2, 4, 8, 12);
	all_words(bytes, words, 3, 4, BLOCK - 32, 8);
	for (u32 k = 0; k < BLOCK; k++)
		bytes[k] = (u8)("aabbbabaabab"[k % 12]);
	all_words(bytes, letters, 2, 1, 0, 13);
	all_words(bytes, letters, 2, 1, BLOCK - 13, 13);
	all_words(bytes, letters, 3, 1, BLOCK / 2 - 4, 9);
	all_copies(bytes, step);
}

int main(int argc, char **argv)
{
	u64 pages = argc > 1 ? strtoull(argv[1], NULL, 0) : 100000;
	struct rng rng = { argc > 2 ? strtoull(argv[2], NULL, 0) : 1 };
	u8 bytes[BLOCKS_MAX * BLOCK];
	u64 all, k;
	u32 size;

	tables_make();
	object = malloc(BLOCKS_MAX * ROOM);
	again = malloc(BLOCKS_MAX * ROOM);
	back = malloc(BLOCKS_MAX * BLOCK);
	/* Less than others are given: nothing but this may be touched. */
	work = malloc(sizeof(*work) > sizeof(struct zword_word_memory) ?
		      sizeof(*work) : sizeof(struct zword_word_memory));
	if (!object || !again || !back || !work)
		DIE("no memory");
	all_try(bytes);
	all = tried;
	for (k = 0; k < pages; k++) {
		size = BLOCK * (1 + (k % 4 ? 0 : rng_below(&rng, BLOCKS_MAX)));
		page_random(&rng, bytes, size);
		page_try(bytes, size);
	}
	printf("small_scope: blocks of %u, %llu pages and %llu random ones; "
	       "%llu longest matches, %llu and %llu offsets on both sides of near, "
	       "%llu longest runs, %llu long counts, %llu wide headers and %llu "
	       "narrow ones; modes chosen %llu %llu %llu %llu\n", BLOCK, all, pages,
	       met.longest_match, met.near_last, met.far_first, met.longest_run,
	       met.long_literals, met.wide, met.narrow, met.modes[0],
	       met.modes[1], met.modes[2], met.modes[3]);
	if (!met.longest_match || !met.near_last || !met.far_first ||
	    !met.longest_run || !met.long_literals || !met.wide || !met.narrow ||
	    !met.modes[0] || !met.modes[1] || !met.modes[2] || !met.modes[3])
		DIE("a limit was not met");
	free(tables);
	free(object);
	free(again);
	free(back);
	free(work);
	return 0;
}

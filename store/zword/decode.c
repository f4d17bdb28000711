// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decoding: blocks, and words.
 *
 * Words go in three passes, each with nothing to wait for but itself: tokens,
 * which tell how many literals there are and of which tables; the literals, from
 * four streams side by side, each in the place of its table's number; the words.
 *
 * No pass trusts what it reads. The first writes at most a token and its
 * literals for each of the tokens that a block can have; the second as many
 * literals as the first counted; the third checks each run against the block's
 * end, and takes zero for a word before the page.
 */
#include "block.h"

static u32 tokens_max(u32 width)
{
	return ZWORD_BLOCK_SIZE / width;
}

/* Token, tables of its literals; how many literals, or a negative error. */
static int tokens_read(const struct zword_word_decoder *tables,
		       struct zword_word_memory *memory,
		       const struct zword_decoding *job, u32 masks)
{
	struct zword_reader reader;
	u32 context = 0, literals = 0, k, token, entry, kind, mask;

	zword_reader_start(&reader, job->header.start[0]);
	for (k = 0; k < job->header.count; k++) {
		if (reader.count < ZWORD_TOKEN_CODE_MAX + ZWORD_TOKEN_BITS)
			zword_refill(&reader, job->src, job->src_size);
		entry = tables->token[context][reader.bits &
					       (ZWORD_TOKEN_CODES - 1)];
		zword_skip(&reader, entry & ZWORD_ENTRY_LENGTH);
		context = (entry & ZWORD_ENTRY_CONTEXT) != 0;
		entry >>= ZWORD_ENTRY_SHIFT;
		token = tables->symbol[entry];
		if (entry == ZWORD_ESCAPE) {
			token = (u32)reader.bits & (ZWORD_TOKENS - 1);
			zword_skip(&reader, ZWORD_TOKEN_BITS);
			if (zword_token_kind(token) >= ZWORD_KINDS ||
			    zword_token_mask(token) >= masks)
				return -EBADMSG;
			context = zword_token_kind(token) == ZWORD_ZERO;
		}
		memory->token[k] = (u16)token;
		kind = zword_token_kind(token);
		mask = zword_token_mask(token);
		/* The run's byte, then the offset's, then the word's. */
		zword_put_le64(memory->literal + literals, ZWORD_RUNS);
		literals += zword_token_run(token) == ZWORD_RUN_LONG;
		zword_put_le64(memory->literal + literals,
			       kind == ZWORD_FAR ? ZWORD_RUNS * 0x101 :
						   ZWORD_OFFSETS);
		literals += kind == ZWORD_FAR ? 2 : kind == ZWORD_NEAR;
		zword_put_le64(memory->literal + literals,
			       tables->table_of[zword_group(kind)][mask]);
		literals += tables->mask[mask].count;
	}
	if (zword_reader_used(&reader) != job->header.start[1])
		return -EBADMSG;
	return (int)literals;
}

static inline void literal_read(const struct zword_word_decoder *tables,
				struct zword_reader *lane, u8 *literal)
{
	u32 entry = tables->literal[*literal][lane->bits &
					      (ZWORD_LITERAL_CODES - 1)];

	zword_skip(lane, entry & ZWORD_ENTRY_LENGTH);
	*literal = (u8)(entry >> ZWORD_ENTRY_SHIFT);
}

/* Literal k is in lane k modulo 4. */
#define LITERALS_A_REFILL	(ZWORD_REFILLED / ZWORD_LITERAL_CODE_MAX)

static int literals_read(const struct zword_word_decoder *tables, u8 *literal,
			 u32 count, const struct zword_decoding *job)
{
	const u32 *start = job->header.start;
	struct zword_reader a = { .at = start[1] }, b = { .at = start[2] };
	struct zword_reader c = { .at = start[3] }, d = { .at = start[4] };
	u32 k;

	do {
		zword_refill(&a, job->src, job->src_size);
		zword_refill(&b, job->src, job->src_size);
		zword_refill(&c, job->src, job->src_size);
		zword_refill(&d, job->src, job->src_size);
		if (count < LITERALS_A_REFILL * ZWORD_LANES)
			break;
		for (k = 0; k < LITERALS_A_REFILL; k++) {
			literal_read(tables, &a, literal);
			literal_read(tables, &b, literal + 1);
			literal_read(tables, &c, literal + 2);
			literal_read(tables, &d, literal + 3);
			literal += ZWORD_LANES;
		}
		count -= LITERALS_A_REFILL * ZWORD_LANES;
	} while (count);
	for (; count >= ZWORD_LANES; count -= ZWORD_LANES) {
		literal_read(tables, &a, literal);
		literal_read(tables, &b, literal + 1);
		literal_read(tables, &c, literal + 2);
		literal_read(tables, &d, literal + 3);
		literal += ZWORD_LANES;
	}
	if (count > 0)
		literal_read(tables, &a, literal);
	if (count > 1)
		literal_read(tables, &b, literal + 1);
	if (count > 2)
		literal_read(tables, &c, literal + 2);
	return zword_reader_used(&a) == start[2] &&
	       zword_reader_used(&b) == start[3] &&
	       zword_reader_used(&c) == start[4] &&
	       zword_reader_used(&d) == start[5] ? 0 : -EBADMSG;
}

static inline u64 word_before(const u8 *page, u32 at, u32 back, u32 width)
{
	return at >= back ? zword_get_word(page + at - back, width) : 0;
}

/* at, back and end in bytes. */
static inline void run_copy(u8 *page, u32 at, u32 end, u32 back, u32 width)
{
	for (; at < end && at < back; at += width)
		zword_put_word(page + at, 0, width);
	for (; at < end; at += width)
		zword_put_word(page + at,
			       zword_get_word(page + at - back, width), width);
}

static inline int words_make(const struct zword_word_decoder *tables,
			     const struct zword_word_memory *memory,
			     const struct zword_decoding *job, u32 width)
{
	const u8 *literal = memory->literal;
	u8 *page = job->page;
	u32 at = job->from, end = job->from + ZWORD_BLOCK_SIZE;
	u32 back = width, k, token, kind, run;
	u64 word, reference, low_half = width == 8 ? ~0ull : 0xffffffffull;

	for (k = 0; k < job->header.count; k++) {
		const struct zword_mask *mask;

		token = memory->token[k];
		kind = zword_token_kind(token);
		run = zword_token_run(token);
		if (run == ZWORD_RUN_LONG)
			run += *literal++;
		if (kind == ZWORD_NEAR)
			back = (1u + *literal++) * width;
		if (kind == ZWORD_FAR) {
			back = (1u + literal[0] * 256 + literal[1]) * width;
			literal += 2;
		}
		if ((1 + run) * width > end - at)
			return -EBADMSG;
		mask = &tables->mask[zword_token_mask(token)];
		word = zword_get_le64(literal);
		word = (word << mask->low_shift & mask->low) |
		       (word << mask->high_shift & mask->high);
		literal += mask->count;
		reference = kind == ZWORD_ZERO ? 0 :
			    word_before(page, at, back, width);
		if (kind == ZWORD_LINEAR)
			reference = (2 * reference -
				     word_before(page, at, 2 * back, width)) &
				    low_half;
		zword_put_word(page + at, zword_bytes_add(word, reference),
			       width);
		at += width;
		run *= width;
		run += at;
		if (kind == ZWORD_ZERO)
			for (; at < run; at += width)
				zword_put_word(page + at, 0, width);
		else
			run_copy(page, at, run, back, width);
		at = run;
	}
	return at == end ? 0 : -EBADMSG;
}

int zword_words_decode(const struct zword_word_decoder *tables,
		       struct zword_word_memory *memory,
		       const struct zword_decoding *job)
{
	u32 width = job->header.mode == ZWORD_WORDS_64 ? 8 : 4;
	int literals, ret;

	if (job->header.count > tokens_max(width))
		return -EBADMSG;
	literals = tokens_read(tables, memory, job,
			       width == 8 ? ZWORD_MASKS_64 : ZWORD_MASKS_32);
	if (literals < 0)
		return literals;
	ret = literals_read(tables, memory->literal, (u32)literals, job);
	if (ret)
		return ret;
	return width == 8 ? words_make(tables, memory, job, 8) :
			    words_make(tables, memory, job, 4);
}

/* False: the streams are larger than the block. */
static bool header_read(struct zword_header *header, const u8 *src, u32 size)
{
	u32 first, wide, k, at;

	if (size < 2)
		return false;
	first = src[0] | (u32)src[1] << 8;
	wide = (first & ZWORD_HEADER_WIDE) != 0;
	header->mode = first & 3;
	header->count = first >> ZWORD_COUNT_SHIFT;
	if (header->mode == ZWORD_RAW)
		return first == ZWORD_RAW;
	at = ZWORD_HEADER_SIZE(wide);
	if (size < at)
		return false;
	for (k = 0; k < ZWORD_STREAMS - 1; k++) {
		header->start[k] = at;
		at += wide ? src[2 + 2 * k] | (u32)src[3 + 2 * k] << 8 :
			     src[2 + k];
	}
	header->start[k] = at;
	header->start[k + 1] = size;
	return at <= size;
}

static int block_decode(const struct zword_tables *tables,
			struct zword_work *work, struct zword_decoding *job)
{
	if (!header_read(&job->header, job->src, job->src_size))
		return -EBADMSG;
	if (job->header.mode == ZWORD_RAW) {
		if (job->src_size != 2 + ZWORD_BLOCK_SIZE)
			return -EBADMSG;
		memcpy(job->page + job->from, job->src + 2, ZWORD_BLOCK_SIZE);
		return 0;
	}
	if (job->header.mode == ZWORD_BYTES)
		return zword_bytes_decode(&tables->byte_decoder,
					  (void *)work->memory, job);
	return zword_words_decode(&tables->word_decoder[job->header.mode],
				  (void *)work->memory, job);
}

int zword_decompress(const struct zword_tables *tables,
		     struct zword_work *work, const u8 *src, size_t src_size,
		     u8 *dst, size_t dst_size)
{
	struct zword_decoding job = { .page = dst };
	size_t size;
	int ret;

	if (!dst_size || dst_size % ZWORD_BLOCK_SIZE ||
	    dst_size > ZWORD_PAGE_SIZE_MAX ||
	    src_size > dst_size + dst_size / 512)
		return -EBADMSG;
	for (; job.from < dst_size; job.from += ZWORD_BLOCK_SIZE) {
		size = src_size;
		/* Each block but the last says how long it is. */
		if (job.from + ZWORD_BLOCK_SIZE < dst_size) {
			if (src_size < 2)
				return -EBADMSG;
			size = src[0] | (u32)src[1] << 8;
			src += 2;
			src_size -= 2;
			if (size > src_size)
				return -EBADMSG;
		}
		job.src = src;
		job.src_size = (u32)size;
		ret = block_decode(tables, work, &job);
		if (ret)
			return ret;
		src += size;
		src_size -= size;
	}
	return 0;
}

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

/* Between two refills, escapes aside. */
#define TOKENS_A_REFILL		(ZWORD_REFILLED / ZWORD_TOKEN_CODE_MAX)

/* A token that has no code of its own. */
static bool escape_read(const struct zword_word_decoder *tables,
			struct zword_reader *reader,
			const struct zword_decoding *job, u32 masks,
			struct zword_literal_tables *literals)
{
	u32 token;

	zword_refill(reader, job->src, job->src_size);
	token = (u32)reader->bits & (ZWORD_TOKENS - 1);
	zword_skip(reader, ZWORD_TOKEN_BITS);
	zword_refill(reader, job->src, job->src_size);
	if (zword_token_kind(token) >= ZWORD_KINDS ||
	    zword_token_mask(token) >= masks)
		return false;
	zword_literal_tables_of(tables, token, literals);
	return true;
}

/* Tokens, tables of their literals; how many literals, or a negative error. */
static int tokens_read(const struct zword_word_decoder *tables,
		       struct zword_word_memory *memory,
		       const struct zword_decoding *job, u32 masks)
{
	const u16 *codes = tables->set[job->header.set].token[0];
	const struct zword_literal_tables *literals;
	struct zword_literal_tables escaped;
	u16 *token = memory->token, *end = token + job->header.count, *stop;
	u8 *literal = memory->literal;
	struct zword_reader reader;
	u32 context = 0, entry, kind;

	zword_reader_start(&reader, job->header.start[0]);
	while (token < end) {
		zword_refill(&reader, job->src, job->src_size);
		stop = end - token < TOKENS_A_REFILL ? end :
						       token + TOKENS_A_REFILL;
		do {
			entry = codes[context * ZWORD_TOKEN_CODES |
				      (reader.bits & (ZWORD_TOKEN_CODES - 1))];
			zword_skip(&reader, entry & ZWORD_ENTRY_LENGTH);
			context = (entry & ZWORD_ENTRY_CONTEXT) >>
				  ZWORD_ENTRY_MORE;
			literals = &tables->symbol[entry >> ZWORD_ENTRY_SHIFT];
			if (entry >> ZWORD_ENTRY_SHIFT == ZWORD_ESCAPE) {
				literals = &escaped;
				if (!escape_read(tables, &reader, job, masks,
						 &escaped))
					return -EBADMSG;
				kind = zword_token_kind(escaped.token);
				context = zword_context(kind);
			}
			zword_put_le64(literal, literals->first);
			zword_put_le64(literal + 8, literals->more);
			literal += literals->count;
			*token++ = literals->token;
		} while (token < stop);
	}
	if (zword_reader_used(&reader) != job->header.start[1])
		return -EBADMSG;
	return (int)(literal - memory->literal);
}

static inline void literal_read(const struct zword_word_set *tables,
				struct zword_reader *lane, u8 *literal)
{
	u32 entry = tables->literal[*literal][lane->bits &
					      (ZWORD_LITERAL_CODES - 1)];

	zword_skip(lane, entry & ZWORD_ENTRY_LENGTH);
	*literal = (u8)(entry >> ZWORD_ENTRY_SHIFT);
}

/* Literal k is in lane k modulo 4. */
#define LITERALS_A_REFILL	(ZWORD_REFILLED / ZWORD_LITERAL_CODE_MAX)

static int literals_read(const struct zword_word_set *tables, u8 *literal,
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

/* What words are made of. */
struct making {
	const struct zword_word_decoder *tables;
	const u8 *literal;
	u8 *page;
	u32 at;		/* bytes, as are the others */
	u32 end;
	u32 back;
};

/* Repeats what stands before it; at, back and end in bytes. */
static inline void run_copy(u8 *page, u32 at, u32 end, u32 back, u32 width)
{
	u64 word;

	if (back == width && at >= back) {
		/* Not through memory, where each would wait for the one before. */
		word = zword_get_word(page + at - width, width);
		for (; at < end; at += width)
			zword_put_word(page + at, word, width);
		return;
	}
	for (; at < end && at < back; at += width)
		zword_put_word(page + at, 0, width);
	for (; at < end; at += width)
		zword_put_word(page + at,
			       zword_get_word(page + at - back, width), width);
}

static inline u64 spread(const struct zword_mask *mask, const u8 *literal)
{
	u64 word = zword_get_le64(literal);

	return (word << mask->low_shift & mask->low) |
	       (word << mask->high_shift & mask->high);
}

/* Any token, with all checks; seldom, so on its own. */
static noinline bool word_make(struct making *making, u32 token, u32 width)
{
	const struct zword_mask *mask =
		&making->tables->mask[zword_token_mask(token)];
	u32 kind = zword_token_kind(token), run = zword_token_run(token);
	u64 word = spread(mask, making->literal), reference = 0;
	u8 *page = making->page;

	making->literal += mask->count;
	if (kind == ZWORD_NEAR)
		making->back = (1u + *making->literal++) * width;
	if (kind == ZWORD_FAR) {
		making->back = (1u + making->literal[0] * 256 +
				making->literal[1]) * width;
		making->literal += 2;
	}
	if (run == ZWORD_RUN_LONG)
		run += *making->literal++;
	if ((1 + run) * width > making->end - making->at)
		return false;
	if (kind != ZWORD_ZERO)
		reference = word_before(page, making->at, making->back, width);
	if (kind == ZWORD_LINEAR)
		reference = 2 * reference - word_before(page, making->at,
							2 * making->back,
							width);
	zword_put_word(page + making->at, zword_bytes_add(word, reference),
		       width);
	making->at += width;
	run = making->at + run * width;
	if (kind == ZWORD_ZERO)
		for (; making->at < run; making->at += width)
			zword_put_word(page + making->at, 0, width);
	else
		run_copy(page, making->at, run, making->back, width);
	making->at = run;
	return true;
}

/*
 * The same without a branch: a token that is not far, with all that it may refer to
 * in the page, and room for a run of two even if it has none. So the lowest bit of
 * its kind tells zero, the next one near, the third one linear. A long run is not
 * made yet.
 */
static __always_inline void word_make_fast(struct making *making, u32 token,
					   const struct zword_mask *mask,
					   u32 back, u32 width)
{
	u64 keep = (u64)(token & ZWORD_ZERO) - 1;
	u64 linear = -(u64)(token >> 2 & 1);
	u64 word = spread(mask, making->literal), reference, before;
	u8 *to = making->page + making->at;
	const u8 *from = to - back;

	reference = zword_get_word(from, width);
	before = zword_get_word(from - (back & (u32)linear), width);
	reference = (reference + ((reference - before) & linear)) & keep;
	zword_put_word(to, zword_bytes_add(word, reference), width);
	zword_put_word(to + width, zword_get_word(from + width, width) & keep,
		       width);
	zword_put_word(to + 2 * width,
		       zword_get_word(from + 2 * width, width) & keep, width);
	making->literal += mask->count + (token >> 1 & 1);
	making->back = back;
}

/* False: it passes the block's end. */
static __always_inline bool run_make(struct making *making, u32 token, u32 width)
{
	u32 run = (ZWORD_RUN_LONG + *making->literal++) * width;

	making->at += width;
	if (run > making->end - making->at)
		return false;
	if (token & ZWORD_ZERO)
		memset(making->page + making->at, 0, run);
	else
		run_copy(making->page, making->at, making->at + run,
			 making->back, width);
	making->at += run;
	return true;
}

static __always_inline int words_make(const struct zword_word_decoder *tables,
				      const struct zword_word_memory *memory,
				      const struct zword_decoding *job,
				      u32 width)
{
	struct making making = {
		.tables = tables,
		.literal = memory->literal,
		.page = job->page,
		.at = job->from,
		.end = job->from + ZWORD_BLOCK_SIZE,
		.back = width,
	};
	const u16 *at = memory->token, *end = at + job->header.count;
	struct making slow;

	for (; at < end; at++) {
		u32 token = *at, back = making.back;
		const struct zword_mask *mask =
			&tables->mask[zword_token_mask(token)];
		u32 near = (1u + making.literal[mask->count]) * width;

		/* No branch, since none could be foreseen. */
		back ^= (back ^ near) & -(token >> 1 & 1);
		if ((token & ZWORD_FAR) == ZWORD_FAR ||
		    back << (token >> 2 & 1) > making.at ||
		    3 * width > making.end - making.at) {
			/* What no one points to stays in registers. */
			slow = making;
			if (!word_make(&slow, token, width))
				return -EBADMSG;
			making = slow;
			continue;
		}
		word_make_fast(&making, token, mask, back, width);
		if (token < zword_token(0, 0, ZWORD_RUN_LONG))
			making.at += (1 + zword_token_run(token)) * width;
		else if (!run_make(&making, token, width))
			return -EBADMSG;
	}
	return making.at == making.end ? 0 : -EBADMSG;
}

_Static_assert(ZWORD_ZERO == 1 && ZWORD_NEAR == 2 && ZWORD_FAR == 3 &&
	       ZWORD_LINEAR == 4 && ZWORD_KINDS == 5, "bits of a kind");

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
	ret = literals_read(&tables->set[job->header.set], memory->literal,
			    (u32)literals, job);
	if (ret)
		return ret;
	return width == 8 ? words_make(tables, memory, job, 8) :
			    words_make(tables, memory, job, 4);
}

/* False: the streams are larger than the block. */
static bool header_read(struct zword_header *header, const u8 *src, u32 size)
{
	u32 first, wide, streams, k, at;

	if (size < 2)
		return false;
	first = src[0] | (u32)src[1] << 8;
	wide = (first & ZWORD_HEADER_WIDE) != 0;
	header->mode = first & 3;
	header->set = first >> ZWORD_SET_SHIFT & (ZWORD_SETS - 1);
	header->count = first >> ZWORD_COUNT_SHIFT;
	if (header->mode == ZWORD_RAW)
		return first == ZWORD_RAW;
	streams = header->mode == ZWORD_BYTES ? ZWORD_BYTE_STREAMS :
						ZWORD_WORD_STREAMS;
	at = ZWORD_HEADER_SIZE(streams, wide);
	if (size < at)
		return false;
	for (k = 0; k < streams - 1; k++) {
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

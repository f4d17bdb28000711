// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decoding: blocks, and words.
 *
 * Words go in three passes, each with nothing to wait for but itself: tokens, from
 * two streams side by side, which tell how many literals there are and of which
 * tables; the literals, from four, each in the place of its table's number; the
 * words.
 *
 * No pass trusts what it reads. The first writes at most a step and its
 * literals for each of the tokens that a block can have; the second as many
 * literals as the first counted; the third checks each run against the block's
 * end, and takes zero for a word before the page.
 */
#include "block.h"

static u32 tokens_max(u32 width)
{
	return ZWORD_BLOCK_SIZE / width;
}

/* Tokens of the first stream. */
static u32 firsts_of(u32 count)
{
	return count - count / 2;
}

/* Between two refills, escapes aside. */
#define TOKENS_A_REFILL		5
static_assert(TOKENS_A_REFILL * ZWORD_TOKEN_CODE_MAX <= ZWORD_REFILLED,
	      "bits of a reader");

/* One of the two halves of the tokens. */
struct half {
	struct zword_reader reader;
	u32 context;	/* the entry of the token before, which holds it */
	struct zword_step *step;
	u8 *literal;
};

static __always_inline void symbol_put(struct half *half,
				       const struct zword_symbol *symbol)
{
	zword_copy_8(half->literal, symbol);
	zword_copy_8(half->literal + 8, (const u8 *)symbol + 8);
	half->literal += symbol->count;
	*half->step++ = symbol->step;
}

/* A token that has no code of its own. */
static noinline bool escape_read(const struct zword_word_decoder *tables,
				 struct half *half,
				 const struct zword_decoding *job)
{
	u32 masks = tables->width == 8 ? ZWORD_MASKS_64 : ZWORD_MASKS_32;
	struct zword_symbol symbol;
	u32 token, kind;

	zword_refill(&half->reader, job->src, job->src_size);
	token = (u32)half->reader.bits & (ZWORD_TOKENS - 1);
	zword_skip(&half->reader, ZWORD_TOKEN_BITS);
	zword_refill(&half->reader, job->src, job->src_size);
	kind = zword_token_kind(token);
	if (kind >= ZWORD_KINDS || zword_token_mask(token) >= masks)
		return false;
	zword_symbol_of(tables, token, &symbol);
	symbol_put(half, &symbol);
	half->context = zword_context(kind) << ZWORD_ENTRY_CONTEXT_SHIFT;
	return true;
}

static __always_inline bool token_read(const struct zword_word_decoder *tables,
				       const u16 *codes, struct half *half,
				       const struct zword_decoding *job)
{
	u32 context = half->context & ZWORD_ENTRY_CONTEXT, entry;

	codes += context * (ZWORD_TOKEN_CODES >> ZWORD_ENTRY_CONTEXT_SHIFT);
	entry = zword_entry(codes, ZWORD_TOKEN_CODES, half->reader.bits);
	zword_skip(&half->reader, entry & ZWORD_ENTRY_SKIP);
	if (entry >> ZWORD_ENTRY_SHIFT == ZWORD_ESCAPE) {
		/*
		 * A copy: its address is taken, so that *half stays in registers.
		 * Declared here: a kernel that initialises variables would do so
		 * for each token.
		 */
		struct half escaped = *half;

		if (!escape_read(tables, &escaped, job))
			return false;
		*half = escaped;
		return true;
	}
	half->context = entry;
	symbol_put(half, zword_word_symbol(tables, entry));
	return true;
}

static __always_inline bool pair_read(const struct zword_word_decoder *tables,
				      const u16 *codes, struct half *a,
				      struct half *b,
				      const struct zword_decoding *job)
{
	return token_read(tables, codes, a, job) &&
	       token_read(tables, codes, b, job);
}

/* Tokens, and tables of their literals. False: damage. */
static noinline bool tokens_read(const struct zword_word_decoder *tables,
				 struct half *first, struct half *second,
				 const struct zword_decoding *job)
{
	const u16 *codes = tables->set[job->header.set].token[0];
	struct half a = *first, b = *second;
	u32 left = job->header.count / 2;

	for (;;) {
		zword_refill(&a.reader, job->src, job->src_size);
		zword_refill(&b.reader, job->src, job->src_size);
		if (left < TOKENS_A_REFILL)
			break;
		left -= TOKENS_A_REFILL;
		/* No loop, whose end would be foreseen badly. */
		if (!pair_read(tables, codes, &a, &b, job) ||
		    !pair_read(tables, codes, &a, &b, job) ||
		    !pair_read(tables, codes, &a, &b, job) ||
		    !pair_read(tables, codes, &a, &b, job) ||
		    !pair_read(tables, codes, &a, &b, job))
			return false;
	}
	for (; left; left--)
		if (!pair_read(tables, codes, &a, &b, job))
			return false;
	if (job->header.count % 2 && !token_read(tables, codes, &a, job))
		return false;
	*first = a;
	*second = b;
	return zword_reader_used(&a.reader) == job->header.start[1] &&
	       zword_reader_used(&b.reader) == job->header.start[2];
}

static inline void literal_read(const struct zword_word_set *tables,
				struct zword_reader *lane, u8 *literal)
{
	u32 entry = zword_entry(tables->literal[*literal],
				ZWORD_LITERAL_CODES, lane->bits);

	zword_skip(lane, entry & ZWORD_ENTRY_SKIP);
	*literal = (u8)(entry >> ZWORD_ENTRY_SHIFT);
}

/* Steps between two refills. */
#define STEPS_A_REFILL		5
static_assert(STEPS_A_REFILL * ZWORD_LITERAL_CODE_MAX <= ZWORD_REFILLED,
	      "bits of a reader");

/* Literal k is in lane k modulo 4; the lanes that are given begin with the first. */
static noinline void literals_read(const struct zword_word_set *tables,
				   u8 *literal, const u8 *end,
				   struct zword_reader *lanes,
				   const struct zword_decoding *job)
{
	struct zword_reader a = lanes[0], b = lanes[1];
	struct zword_reader c = lanes[2], d = lanes[3];
	u32 count = (u32)(end - literal), k;

	for (;;) {
		zword_refill(&a, job->src, job->src_size);
		zword_refill(&b, job->src, job->src_size);
		zword_refill(&c, job->src, job->src_size);
		zword_refill(&d, job->src, job->src_size);
		if (count < STEPS_A_REFILL * ZWORD_LANES)
			break;
		count -= STEPS_A_REFILL * ZWORD_LANES;
		for (k = 0; k < STEPS_A_REFILL; k++) {
			literal_read(tables, &a, literal);
			literal_read(tables, &b, literal + 1);
			literal_read(tables, &c, literal + 2);
			literal_read(tables, &d, literal + 3);
			literal += ZWORD_LANES;
		}
	}
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
	lanes[0] = a;
	lanes[1] = b;
	lanes[2] = c;
	lanes[3] = d;
}

/* The lane of the literal behind so many comes first. */
static void lanes_turn(struct zword_reader *lanes, u32 literals)
{
	struct zword_reader before[ZWORD_LANES];
	u32 k;

	memcpy(before, lanes, sizeof(before));
	for (k = 0; k < ZWORD_LANES; k++)
		lanes[k] = before[(literals + k) % ZWORD_LANES];
}

/* Steps and literals. False: damage. */
static bool streams_read(const struct zword_word_decoder *tables,
			 struct zword_word_memory *memory,
			 const struct zword_decoding *job)
{
	const struct zword_word_set *set = &tables->set[job->header.set];
	const u32 *start = job->header.start;
	struct zword_reader lanes[ZWORD_LANES];
	struct half half[2];
	u8 *literal[2];
	u32 all = 0, k;

	for (k = 0; k < 2; k++) {
		literal[k] = memory->literal[k] + ZWORD_LITERAL_ROOM;
		half[k] = (struct half){ .literal = literal[k] };
		zword_reader_start(&half[k].reader, start[k]);
	}
	half[0].step = memory->step;
	half[1].step = memory->step + firsts_of(job->header.count);
	if (!tokens_read(tables, &half[0], &half[1], job))
		return false;
	for (k = 0; k < ZWORD_LANES; k++)
		zword_reader_start(&lanes[k], start[2 + k]);
	for (k = 0; k < 2; k++) {
		literals_read(set, literal[k], half[k].literal, lanes, job);
		lanes_turn(lanes, (u32)(half[k].literal - literal[k]));
		all += (u32)(half[k].literal - literal[k]);
	}
	lanes_turn(lanes, -all);
	for (k = 0; k < ZWORD_LANES; k++)
		if (zword_reader_used(&lanes[k]) != start[3 + k])
			return false;
	return true;
}

/* What words are made of. */
struct making {
	const struct zword_word_decoder *tables;
	const u8 *literal;
	u8 *page;
	unsigned long at;	/* bytes, as are the others */
	unsigned long end;
	unsigned long limit;	/* up to there, there is room for RUN_SHORT words */
	unsigned long back;
};

/* A word and what is always made of its run. */
#define RUN_SHORT	3u

static inline u64 word_before(const u8 *page, unsigned long at,
			      unsigned long back, u32 width)
{
	return at >= back ? zword_get_word(page + at - back, width) : 0;
}

/* The literals of a word in their places. */
static __always_inline u64 spread(const struct zword_mask *mask,
				  const u8 *literal)
{
	const u8 *from = literal - ZWORD_LITERAL_ROOM;

	return (get_unaligned_le64(from + mask->low_from) & mask->low) |
	       (get_unaligned_le64(from + mask->high_from) & mask->high);
}

/* Any token, with all checks; seldom, so on its own. */
static noinline bool word_make(struct making *making,
			       const struct zword_step *step, u32 width)
{
	const struct zword_reference *kind =
		zword_reference_of(making->tables, step);
	const struct zword_mask *mask = zword_mask_of(making->tables, step);
	u64 word = spread(mask, making->literal), reference;
	unsigned long end = making->at + step->advance, back;
	u8 *page = making->page;

	making->literal += mask->count;
	back = (making->back & kind->stay) + kind->least +
	       (get_unaligned_le16(making->literal) & kind->offset) * width;
	making->back = back;
	making->literal += kind->bytes;
	if (!step->advance)
		end += (1u + ZWORD_RUN_LONG + *making->literal++) * width;
	if (end > making->end)
		return false;
	reference = word_before(page, making->at, back, width);
	reference += reference - word_before(page, making->at, back +
					     (back & kind->twice), width);
	word += (reference - mask->bias) & kind->keep;
	do {
		zword_put_word(page + making->at, word, width);
		making->at += width;
		word = word_before(page, making->at, back, width) & kind->keep;
	} while (making->at < end);
	return true;
}

/* Words that are copied at once. */
#define RUN_STEP	4u

static __always_inline void word_copy(u8 *to, unsigned long back, u32 width)
{
	zword_put_word(to, zword_get_word(to - back, width), width);
}

/*
 * The rest of a long run. Up to step_end, what is written behind its end is in the
 * block, and written again.
 */
static __always_inline void run_make(u8 *to, const u8 *end, const u8 *step_end,
				     unsigned long back, u64 keep, u32 width)
{
	u64 word;
	u32 k;

	if (keep && back != width) {
		for (; to < end && to <= step_end; to += RUN_STEP * width)
			for (k = 0; k < RUN_STEP; k++)
				word_copy(to + k * width, back, width);
		for (; to < end; to += width)
			word_copy(to, back, width);
		return;
	}
	/* Not through memory, where each would wait for the one before. */
	word = zword_get_word(to - width, width) & keep;
	for (; to < end && to <= step_end; to += RUN_STEP * width)
		for (k = 0; k < RUN_STEP; k++)
			zword_put_word(to + k * width, word, width);
	for (; to < end; to += width)
		zword_put_word(to, word, width);
}

static noinline void run_make_64(u8 *to, const u8 *end, const u8 *step_end,
				 unsigned long back, u64 keep)
{
	run_make(to, end, step_end, back, keep, 8);
}

static noinline void run_make_32(u8 *to, const u8 *end, const u8 *step_end,
				 unsigned long back, u64 keep)
{
	run_make(to, end, step_end, back, keep, 4);
}

/* A long run, of whose words some are made. False: it passes the block's end. */
static __always_inline bool long_make(struct making *making, u64 keep, u32 width)
{
	u8 *to = making->page + making->at + RUN_SHORT * width, *end;
	u8 *step_end = making->page + making->end - RUN_STEP * width;

	making->at += (1u + ZWORD_RUN_LONG + *making->literal++) * width;
	if (making->at > making->end)
		return false;
	end = making->page + making->at;
	if (width == 8)
		run_make_64(to, end, step_end, making->back, keep);
	else
		run_make_32(to, end, step_end, making->back, keep);
	return true;
}

/*
 * A token without a branch on what it is, where all that it may refer to is in the
 * page, and room for a short run even if it has none. False: damage.
 */
static __always_inline bool token_make(struct making *making,
				       const struct zword_step *step, u32 width)
{
	const struct zword_reference *kind =
		zword_reference_of(making->tables, step);
	const struct zword_mask *mask = zword_mask_of(making->tables, step);
	const u8 *offset = making->literal + mask->count, *from;
	u8 *to = making->page + making->at;
	unsigned long back, twice;
	u64 word, reference;

	back = (making->back & kind->stay) + kind->least +
	       (get_unaligned_le16(offset) & kind->offset) * width;
	twice = back + (back & kind->twice);
	if (twice > making->at || making->at > making->limit) {
		struct making slow = *making;

		if (!word_make(&slow, step, width))
			return false;
		*making = slow;
		return true;
	}
	word = spread(mask, making->literal);
	making->literal = offset + kind->bytes;
	making->back = back;
	from = to - back;
	reference = zword_get_word(from, width);
	reference += reference - zword_get_word(to - twice, width);
	word += (reference - mask->bias) & kind->keep;
	zword_put_word(to, word, width);
	word = zword_get_word(from + width, width) & kind->keep;
	zword_put_word(to + width, word, width);
	word = zword_get_word(from + 2 * width, width) & kind->keep;
	zword_put_word(to + 2 * width, word, width);
	if (!step->advance)
		return long_make(making, kind->keep, width);
	making->at += step->advance;
	return true;
}

static __always_inline int words_make(const struct zword_word_decoder *tables,
				      const struct zword_word_memory *memory,
				      const struct zword_decoding *job,
				      u32 width)
{
	struct making making = {
		.tables = tables,
		.page = job->page,
		.at = job->from,
		.end = job->from + ZWORD_BLOCK_SIZE,
		.limit = job->from + ZWORD_BLOCK_SIZE - RUN_SHORT * width,
		.back = width,
	};
	const struct zword_step *step = memory->step;
	const struct zword_step *end = step + job->header.count, *stop;
	u32 k;

	stop = step + firsts_of(job->header.count);
	for (k = 0; k < 2; k++, stop = end) {
		making.literal = memory->literal[k] + ZWORD_LITERAL_ROOM;
		for (; step < stop; step++)
			if (!token_make(&making, step, width))
				return -EBADMSG;
	}
	return making.at == making.end ? 0 : -EBADMSG;
}

int zword_words_decode(const struct zword_word_decoder *tables,
		       struct zword_word_memory *memory,
		       const struct zword_decoding *job)
{
	const struct zword_header *header = &job->header;
	u32 width = header->mode == ZWORD_WORDS_64 ? 8 : 4;

	if (header->count > tokens_max(width) ||
	    !streams_read(tables, memory, job))
		return -EBADMSG;
	return width == 8 ? words_make(tables, memory, job, 8) :
			    words_make(tables, memory, job, 4);
}

/* False: there is no such set, or the streams are larger than the block. */
static bool header_read(struct zword_header *header, const u8 *src, u32 size)
{
	u32 first, wide, streams, k, at;

	if (size < 2)
		return false;
	first = get_unaligned_le16(src);
	wide = (first & ZWORD_HEADER_WIDE) != 0;
	header->mode = first & 3;
	header->set = first >> ZWORD_SET_SHIFT & (ZWORD_SETS - 1);
	header->count = first >> ZWORD_COUNT_SHIFT;
	if (header->mode == ZWORD_RAW)
		return first == ZWORD_RAW;
	if (header->set >= zword_sets_of(header->mode))
		return false;
	streams = header->mode == ZWORD_BYTES ? ZWORD_BYTE_STREAMS :
						ZWORD_WORD_STREAMS;
	at = ZWORD_HEADER_SIZE(streams, wide);
	if (size < at)
		return false;
	for (k = 0; k < streams - 1; k++) {
		header->start[k] = at;
		at += wide ? get_unaligned_le16(src + 2 + 2 * k) : src[2 + k];
	}
	header->start[k] = at;
	header->start[k + 1] = size;
	return at <= size;
}

/* A reader takes the eight bytes up to a block's end, whose first are the header's. */
static_assert(ZWORD_HEADER_SIZE(ZWORD_WORD_STREAMS, 0) + 1 >= sizeof(u64) &&
	      ZWORD_BYTE_STREAMS >= ZWORD_WORD_STREAMS,
	      "nothing is read in front of a block");

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
	    src_size > dst_size + 8 * (dst_size / ZWORD_BLOCK_SIZE))
		return -EBADMSG;
	for (; job.from < dst_size; job.from += ZWORD_BLOCK_SIZE) {
		size = src_size;
		/* Each block but the last says how long it is. */
		if (job.from + ZWORD_BLOCK_SIZE < dst_size) {
			if (src_size < 2)
				return -EBADMSG;
			size = get_unaligned_le16(src);
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

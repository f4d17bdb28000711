// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encoding: which mode a block gets, and the header.
 *
 * A glance at some of its words says which modes a block could do well in; where
 * it could be more than one, all of these are tried and the shortest is written.
 */
#include "block.h"

/* Every eighth word of 8 bytes is looked at. */
#define GLANCE_STEP	64u

/* Of 64: from here on a block is text and nothing else is tried. */
#define TEXT_SURE	48u
#define TEXT_LIKELY	5u
#define HALVES_SURE	24u
#define HALVES_LIKELY	4u
/* The top of an address, or of what else is one word of 64 bits. */
#define HIGH_HALF_MIN	0x100u
#define HIGH_HALF_MAX	0xffffu
/* What takes less needs no second try. */
#define SIZE_GOOD	760u

struct glance {
	u32 text;	/* words of nothing but characters */
	u32 halves;	/* words whose halves are both used, and no address */
};

void zword_size_sum(struct zword_size *size, u32 streams)
{
	bool wide = false;
	u32 k, bytes;

	size->all = 0;
	for (k = 0; k < streams; k++) {
		bytes = (size->bits[k] + 7) / 8;
		size->all += bytes;
		wide |= k < streams - 1 && bytes > 255;
	}
	size->all += ZWORD_HEADER_SIZE(streams, wide);
}

u32 zword_header_write(u8 *dst, u32 capacity, u32 first, u32 streams,
		       const u32 *start)
{
	u32 narrow = ZWORD_HEADER_SIZE(streams, false), end = start[streams - 1];
	u32 shift = ZWORD_HEADER_SIZE(streams, true) - narrow;
	u32 sizes[ZWORD_STREAMS_MAX], largest = 0, before = narrow, at = 2, k;

	for (k = 0; k < streams - 1; k++) {
		sizes[k] = start[k] - before;
		before = start[k];
		largest |= sizes[k];
	}
	if (largest > 255) {
		if (end + shift > capacity)
			return 0;
		memmove(dst + narrow + shift, dst + narrow, end - narrow);
		end += shift;
		first |= ZWORD_HEADER_WIDE;
	}
	dst[0] = (u8)first;
	dst[1] = (u8)(first >> 8);
	for (k = 0; k < streams - 1; k++) {
		dst[at++] = (u8)sizes[k];
		if (largest > 255)
			dst[at++] = (u8)(sizes[k] >> 8);
	}
	return end;
}

u32 zword_set_elect(u64 votes, u32 count)
{
	u32 best = 0, least = count * ZWORD_VOTE_NONE, set, bits;

	for (set = 1; set < ZWORD_SETS; set++, votes >>= 16) {
		bits = (u32)votes & 0xffff;
		if (bits >= least)
			continue;
		least = bits;
		best = set;
	}
	return best;
}

/* No byte below a space but 8 to 15, and none above 127: what text is made of. */
static inline bool is_text(u64 word)
{
	const u64 ones = 0x0101010101010101ull;

	return !((word | (word - 8 * ones)) & ZWORD_HIGH_BITS);
}

static struct glance glance_at(const u8 *block)
{
	struct glance glance = { 0, 0 };
	u64 word;
	u32 at, high;

	for (at = 0; at < ZWORD_BLOCK_SIZE; at += GLANCE_STEP) {
		/* Not always the same field of a structure. */
		word = zword_get_le64(block + at +
				      at / GLANCE_STEP * 24 % GLANCE_STEP);
		if (is_text(word)) {
			glance.text++;
			continue;
		}
		high = (u32)(word >> 32);
		glance.halves += (u32)word && high &&
				 (high < HIGH_HALF_MIN || high > HIGH_HALF_MAX);
	}
	return glance;
}

/* One block on its way. */
struct job {
	const struct zword_tables *tables;
	struct zword_encoding *work;
	const u8 *page;
	u32 from;
	u8 *dst;
	u32 capacity;
	u32 best;	/* bytes of the shortest yet, whether it fits or not */
	bool is_written;
	bool has_bytes;	/* the positions of bytes are cleared */
	bool is_patient;	/* no parse gives up */
};

/* What a parse may take, in bytes. */
static u32 limit_of(const struct job *job)
{
	return job->is_patient ? 4 * ZWORD_BLOCK_SIZE : job->best;
}

/* Takes what was written, or what would have been. */
static void take(struct job *job, u32 written, u32 size)
{
	job->best = written ? written : size;
	job->is_written = written > 0;
}

static void words_try(struct job *job, u32 mode)
{
	const struct zword_word_encoder *tables =
		&job->tables->word_encoder[mode];
	const struct zword_word_parse *parse = &job->work->parse.word;
	struct zword_size size = { .all = 0 };
	u32 written, set;

	memset(&job->work->words, 0, sizeof(job->work->words));
	if (!zword_words_parse(tables, &job->tables->word_decoder[mode],
			       job->work, mode == ZWORD_WORDS_64 ? 8 : 4,
			       job->page, job->from, limit_of(job)))
		return;
	set = zword_words_elect(tables, parse);
	if (job->best < ZWORD_BLOCK_SIZE) {
		zword_words_measure(tables, parse, set, &size);
		if (size.all >= job->best)
			return;
	}
	written = zword_words_write(tables, parse, mode, set, job->dst,
				    job->capacity);
	if (!written && !size.all)
		zword_words_measure(tables, parse, set, &size);
	take(job, written, size.all);
}

static void bytes_try(struct job *job)
{
	const struct zword_byte_encoder *tables = &job->tables->byte_encoder;
	const struct zword_byte_parse *parse = &job->work->parse.byte;
	struct zword_size size = { .all = 0 };
	u32 written, set;

	if (!job->has_bytes)
		memset(&job->work->bytes, 0, sizeof(job->work->bytes));
	job->has_bytes = true;
	if (!zword_bytes_parse(job->work, job->page, job->from, limit_of(job)))
		return;
	set = zword_bytes_elect(tables, parse);
	if (job->best < ZWORD_BLOCK_SIZE) {
		zword_bytes_measure(tables, parse, set, &size);
		if (size.all >= job->best)
			return;
	}
	written = zword_bytes_write(tables, parse, set, job->dst, job->capacity);
	if (!written && !size.all)
		zword_bytes_measure(tables, parse, set, &size);
	take(job, written, size.all);
}

static void all_try(struct job *job)
{
	words_try(job, ZWORD_WORDS_64);
	words_try(job, ZWORD_WORDS_32);
	bytes_try(job);
}

/* A second try where the first one did not do well and another could. */
static void likely_try(struct job *job)
{
	struct glance glance = glance_at(job->page + job->from);
	u32 mode = glance.halves >= HALVES_SURE ? ZWORD_WORDS_32 :
						  ZWORD_WORDS_64;

	if (glance.text >= TEXT_SURE) {
		bytes_try(job);
		return;
	}
	words_try(job, mode);
	if (job->best <= SIZE_GOOD)
		return;
	if (glance.text >= TEXT_LIKELY || job->best >= ZWORD_BLOCK_SIZE)
		bytes_try(job);
	else if (glance.halves >= HALVES_LIKELY)
		words_try(job, ZWORD_WORDS_64 + ZWORD_WORDS_32 - mode);
}

static u32 raw_write(const u8 *block, u8 *dst, u32 capacity)
{
	if (capacity < 2 + ZWORD_BLOCK_SIZE)
		return 0;
	dst[0] = ZWORD_RAW;
	dst[1] = 0;
	memcpy(dst + 2, block, ZWORD_BLOCK_SIZE);
	return 2 + ZWORD_BLOCK_SIZE;
}

/*
 * Bytes written; 0: there is no room. What is written does not depend on the
 * room, so that a page has one object or none.
 */
static u32 block_encode(struct job *job, int level)
{
	job->best = ZWORD_BLOCK_SIZE;
	job->is_written = false;
	job->is_patient = level >= ZWORD_LEVEL_ALL;
	if (job->is_patient)
		all_try(job);
	else
		likely_try(job);
	if (job->best >= ZWORD_BLOCK_SIZE)
		return raw_write(job->page + job->from, job->dst,
				 job->capacity);
	return job->is_written ? job->best : 0;
}

int zword_compress(const struct zword_tables *tables, struct zword_work *work,
		   int level, const u8 *src, size_t src_size,
		   u8 *dst, size_t *dst_size)
{
	struct zword_encoding *memory = (void *)work->memory;
	struct job job = { .tables = tables, .work = memory, .page = src };
	u32 capacity, at = 0, size, prefix;

	if (!src_size || src_size % ZWORD_BLOCK_SIZE ||
	    src_size > ZWORD_PAGE_SIZE_MAX)
		return -EINVAL;
	capacity = *dst_size < 2 * ZWORD_PAGE_SIZE_MAX ?
		   (u32)*dst_size : 2 * ZWORD_PAGE_SIZE_MAX;
	memset(&memory->words, 0, sizeof(memory->words));
	for (; job.from < src_size; job.from += ZWORD_BLOCK_SIZE) {
		prefix = job.from + ZWORD_BLOCK_SIZE < src_size ? 2 : 0;
		if (capacity - at < prefix)
			return -ENOSPC;
		job.dst = dst + at + prefix;
		job.capacity = capacity - at - prefix;
		size = block_encode(&job, level);
		if (!size)
			return -ENOSPC;
		if (prefix) {
			dst[at] = (u8)size;
			dst[at + 1] = (u8)(size >> 8);
		}
		at += prefix + size;
	}
	*dst_size = at;
	return 0;
}

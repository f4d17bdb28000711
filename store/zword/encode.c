// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encoding: which mode a block gets, and the header.
 *
 * A glance at some of its words says which modes a block could do well in; where
 * it could be more than one, all of these are tried and the shortest is written.
 */
#include "block.h"

/* One word of 8 bytes in each step is looked at. */
#define GLANCES		(ZWORD_BLOCK_SIZE / ZWORD_GLANCE_STEP)
#define OF_GLANCES(share)	(((share) * GLANCES + 63) / 64)

/* Of 64: from here on a block is text and nothing else is tried. */
#define TEXT_SURE	OF_GLANCES(32)
#define TEXT_LIKELY	OF_GLANCES(3)
#define HALVES_LIKELY	OF_GLANCES(24)
#define HARD_LIKELY	OF_GLANCES(40)
/* The top of an address, or of what else is one word of 64 bits. */
#define HIGH_HALF_MIN	0x100u
#define HIGH_HALF_MAX	0xffffu
/* Bytes that differ from the word before in a word that nothing predicts. */
#define HARD_BYTES	6u

/* Places where a part of a block is parsed to see which mode suits it. */
#define PROBES		2u
#define PROBE_PLACE(k)	(ZWORD_BLOCK_SIZE * (3 + 8 * (k)) / 16 & ~7u)
static_assert(PROBE_PLACE(PROBES - 1) + ZWORD_PROBE_SIZE <= ZWORD_BLOCK_SIZE &&
	      ZWORD_BLOCK_SIZE % ZWORD_GLANCE_STEP == 0, "places in the block");
/* What each mode's guess at its bits is multiplied with, by 20: guesses differ. */
#define PROBE_SCALE	20u
/* With so many bits and more, a block will not fit an object. */
#define PROBE_HOPELESS	(PROBES * ZWORD_PROBE_SIZE * 8 * PROBE_SCALE * 15 / 16)

/* An object of more takes a whole page of the pool. */
#define SIZE_USEFUL	(ZWORD_BLOCK_SIZE * 3625 / 4096)

struct glance {
	u32 text;	/* words of nothing but characters */
	u32 halves;	/* words whose halves are both used, and no address */
	u32 hard;	/* words that are nothing like the one before */
};

void zword_size_sum(struct zword_size *size, u32 streams)
{
	bool wide = false;
	u32 k, bytes;

	size->all = 0;
	for (k = 0; k < streams; k++) {
		bytes = (size->bits[k] + 7) / 8;
		size->all += bytes;
		wide |= k < streams - 1 && bytes > ZWORD_NARROW_MAX;
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
	if (largest > ZWORD_NARROW_MAX) {
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
		if (largest > ZWORD_NARROW_MAX)
			dst[at++] = (u8)(sizes[k] >> 8);
	}
	return end;
}

u32 zword_set_elect(u64 votes, u32 count)
{
	u32 best = 0, least = count * ZWORD_VOTE_NONE, set, bits;

	for (set = 1; set < ZWORD_SETS; set++, votes >>= ZWORD_SUM_BITS) {
		bits = (u32)votes & ((1u << ZWORD_SUM_BITS) - 1);
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

static inline u32 bytes_differ(u64 one, u64 other)
{
	u64 word = one ^ other;

	word |= (word & ~ZWORD_HIGH_BITS) + ~ZWORD_HIGH_BITS;
	return (u32)(((word & ZWORD_HIGH_BITS) >> 7) * 0x0101010101010101ull >>
		     56);
}

static struct glance glance_at(const u8 *block)
{
	struct glance glance = { 0, 0, 0 };
	u32 step, at, high;
	u64 word, other;

	for (step = 0; step < ZWORD_BLOCK_SIZE; step += ZWORD_GLANCE_STEP) {
		/* Not always the same field of a structure. */
		at = step + step / ZWORD_GLANCE_STEP * 24 % ZWORD_GLANCE_STEP;
		word = get_unaligned_le64(block + at);
		other = get_unaligned_le64(block + (at ^ 8));
		glance.hard += bytes_differ(word, other) >= HARD_BYTES;
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
	bool has_best;
};

enum effort {
	QUICK,
	THOROUGH,
};

static void positions_clear(struct job *job)
{
	memset(job->work, 0, sizeof(struct zword_positions));
}

/* Positions are cleared, or of what stands before the part. False: given up. */
static bool block_parse(struct job *job, u32 mode, const struct zword_part *part,
			enum effort effort)
{
	const struct zword_word_encoder *encoder =
		&job->tables->word_encoder[mode];
	u32 width = mode == ZWORD_WORDS_64 ? 8 : 4;

	if (mode == ZWORD_BYTES)
		return effort == THOROUGH ?
		       zword_bytes_parse_thoroughly(job->work, part) :
		       zword_bytes_parse(job->work, part);
	return effort == THOROUGH ?
	       zword_words_parse_thoroughly(encoder, job->work, width,
					    part) :
	       zword_words_parse(encoder, job->work, width, part);
}

/* How many bits parts of the block take, about, multiplied with the scale. */
static u32 block_probe(struct job *job, u32 mode)
{
	static const u8 scale[] = { PROBE_SCALE, 21, 16 };
	struct zword_part part = {
		.page = job->page,
		.size = ZWORD_PROBE_SIZE,
		.limit = ZWORD_BLOCK_SIZE,
	};
	u32 spent = 0, k;

	positions_clear(job);
	for (k = 0; k < PROBES; k++) {
		part.from = job->from + PROBE_PLACE(k);
		block_parse(job, mode, &part, QUICK);
		spent += mode == ZWORD_BYTES ?
			 zword_bytes_guess(&job->tables->byte_encoder,
					   &job->work->byte) :
			 job->work->word.spent;
	}
	return scale[mode] * spent;
}

/* The set of codes that suits what was parsed. */
static u32 block_elect(struct job *job, u32 mode)
{
	if (mode == ZWORD_BYTES)
		return zword_bytes_elect(&job->tables->byte_encoder,
					 &job->work->byte);
	return zword_words_elect(&job->tables->word_encoder[mode],
				 &job->work->word);
}

/* The bytes that what was parsed takes. */
static u32 block_measure(struct job *job, u32 mode, u32 set)
{
	struct zword_size size;

	if (mode == ZWORD_BYTES)
		zword_bytes_measure(&job->tables->byte_encoder,
				    &job->work->byte, set, &size);
	else
		zword_words_measure(&job->tables->word_encoder[mode],
				    &job->work->word, set, &size);
	return size.all;
}

/* The bytes written; 0: there is no room. */
static u32 block_write(struct job *job, u32 mode, u32 set)
{
	if (mode == ZWORD_BYTES)
		return zword_bytes_write(&job->tables->byte_encoder,
					 &job->work->byte, set, job->dst,
					 job->capacity);
	return zword_words_write(&job->tables->word_encoder[mode],
				 &job->work->word, mode, set, job->dst,
				 job->capacity);
}

/* One mode: what it takes is the best, or it is not written. */
static void mode_try(struct job *job, u32 mode, u32 limit, enum effort effort)
{
	const struct zword_part part = {
		.page = job->page,
		.from = job->from,
		.size = ZWORD_BLOCK_SIZE,
		.limit = limit,
	};
	u32 written, set, size = 0;

	positions_clear(job);
	if (!block_parse(job, mode, &part, effort))
		return;
	set = block_elect(job, mode);
	if (job->has_best) {
		size = block_measure(job, mode, set);
		if (size >= job->best)
			return;
	}
	written = block_write(job, mode, set);
	if (!written && !size)
		size = block_measure(job, mode, set);
	job->best = written ? written : size;
	job->is_written = written > 0;
	job->has_best = true;
}

/* No parse gives up: a bound that none passes. */
#define LIMIT_NONE	(4 * ZWORD_BLOCK_SIZE)

/* More than any parse takes: of a mode whose parse gave up all the same. */
#define SIZE_HOPELESS	65536u

/* A mode whose quick parse takes a part more than the best is tried thoroughly too. */
#define PART_MORE	24u

static void all_try(struct job *job)
{
	const struct zword_part part = {
		.page = job->page,
		.from = job->from,
		.size = ZWORD_BLOCK_SIZE,
		.limit = LIMIT_NONE,
	};
	u32 size[ZWORD_RAW], least = ~0u, mode;

	for (mode = 0; mode < ZWORD_RAW; mode++) {
		size[mode] = SIZE_HOPELESS;
		positions_clear(job);
		if (block_parse(job, mode, &part, QUICK))
			size[mode] = block_measure(job, mode,
						   block_elect(job, mode));
		if (size[mode] < least)
			least = size[mode];
	}
	for (mode = 0; mode < ZWORD_RAW; mode++)
		if (size[mode] < SIZE_HOPELESS &&
		    size[mode] <= least + least / PART_MORE)
			mode_try(job, mode, LIMIT_NONE, THOROUGH);
}

/* The mode that suits the block, or raw; parts of it decide where a glance cannot. */
static enum zword_mode mode_choose(struct job *job)
{
	struct glance glance = glance_at(job->page + job->from);
	bool is_likely[] = {
		true,
		glance.halves >= HALVES_LIKELY,
		glance.text >= TEXT_LIKELY || glance.hard >= HARD_LIKELY,
	};
	u32 mode, best_mode = ZWORD_WORDS_64, bits, best;

	if (glance.text >= TEXT_SURE)
		return ZWORD_BYTES;
	if (!is_likely[ZWORD_WORDS_32] && !is_likely[ZWORD_BYTES])
		return ZWORD_WORDS_64;
	best = block_probe(job, ZWORD_WORDS_64);
	for (mode = ZWORD_WORDS_32; mode <= ZWORD_BYTES; mode++) {
		if (!is_likely[mode])
			continue;
		bits = block_probe(job, mode);
		if (bits >= best)
			continue;
		best = bits;
		best_mode = mode;
	}
	return best >= PROBE_HOPELESS ? ZWORD_RAW : best_mode;
}

static void likely_try(struct job *job)
{
	enum zword_mode mode = mode_choose(job);

	if (mode != ZWORD_RAW)
		mode_try(job, mode, ZWORD_BLOCK_SIZE, QUICK);
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
static u32 block_encode(struct job *job, int level, u32 useful)
{
	job->best = ZWORD_BLOCK_SIZE;
	job->is_written = false;
	job->has_best = false;
	if (level >= ZWORD_LEVEL_ALL)
		all_try(job);
	else if (level > ZWORD_LEVEL_RAW)
		likely_try(job);
	if (job->best >= useful)
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
	u32 capacity, at = 0, size, prefix, useful;

	if (!src_size || src_size % ZWORD_BLOCK_SIZE ||
	    src_size > ZWORD_PAGE_SIZE_MAX)
		return -EINVAL;
	capacity = *dst_size < 2 * ZWORD_PAGE_SIZE_MAX ?
		   (u32)*dst_size : 2 * ZWORD_PAGE_SIZE_MAX;
	useful = src_size == ZWORD_BLOCK_SIZE ? SIZE_USEFUL : ZWORD_BLOCK_SIZE;
	for (; job.from < src_size; job.from += ZWORD_BLOCK_SIZE) {
		prefix = job.from + ZWORD_BLOCK_SIZE < src_size ? 2 : 0;
		if (capacity - at < prefix)
			return -ENOSPC;
		job.dst = dst + at + prefix;
		job.capacity = capacity - at - prefix;
		size = block_encode(&job, level, useful);
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

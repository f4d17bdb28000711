// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lzo and lzo-rle: the LZO1X stream that zram writes and reads.
 *
 * A stream is a row of instructions. Each one copies bytes that are already
 * in the output (a match) and then 0 to 3 bytes from the stream (trailing
 * literals), or it copies a longer run of literals:
 *
 *   first byte 18..255      17 less is a number of literals
 *   0000LLLL   after none   L + 3 literals
 *   0001hLLL W              L + 2 bytes from distance 0x4000 (1 + h) + W / 4
 *   001LLLLL W              L + 2 bytes from distance 1 + W / 4
 *   LLLDDDSS H              L + 1 bytes (L > 1) from distance 1 + D + 8 H
 *   0x11 0 0                the end
 *
 * W is 16 bits, low byte first. S, or the two low bits of W, is the number of
 * trailing literals. Where the field L is 0 the length goes on in bytes: each
 * 0 adds 255, the first other byte its value and the largest value of L. Behind
 * literals a byte below 16 would be a match of 2 or 3 bytes. No compressor of the
 * kernel's writes those, and nothing else writes what is read here.
 *
 * lzo-rle is version 1 of the stream. It opens with 17, 1 and has one more
 * instruction, 00011LLL W X with W / 4 all ones: L + 8 X + 4 zeros. Its
 * compressor never looks a word of four zeros up.
 *
 * Two choices follow the kernel on 64-bit machines, so that every page takes
 * exactly as many bytes here as there: a 13-bit table of positions that is
 * cleared for each block of 48 KiB, and a search that takes longer steps the
 * longer nothing was found.
 *
 * Invariants:
 *   - the compressor writes below the end of dst only; every place that may
 *     copy more bytes than it needs has checked for that room;
 *   - the decompressor checks each length against both ends and each distance
 *     against the start of dst before it moves a byte;
 *   - the end marker is the last thing in src, and it ends a full page.
 */
#include <stdlib.h>
#include "codec_bytes.h"
#include "codec_user.h"

#define LZO_TABLE_BITS		13
#define LZO_TABLE_SIZE		(1u << LZO_TABLE_BITS)
#define LZO_HASH_FACTOR		0x1824429du

/* No match starts in the last bytes of a block: wide loads stay inside. */
#define LZO_BLOCK_TAIL		20

/* Block sizes: the farthest distance that version 0 or 1 can say, plus 1. */
#define LZO_BLOCK_V0		0xc000
#define LZO_BLOCK_V1		0xbfff

#define LZO_NEAR_LEN_MAX	8
#define LZO_NEAR_DISTANCE_MAX	0x800
#define LZO_MID_LEN_MAX		33
#define LZO_MID_DISTANCE_MAX	0x4000
#define LZO_FAR_LEN_MAX		9

#define LZO_MID			0x20
#define LZO_FAR			0x10
#define LZO_FAR_HIGH		0x08
#define LZO_VERSIONED		17
#define LZO_END_SIZE		3

#define LZO_ZEROS_MIN		4
#define LZO_ZEROS_MAX		(2047 + LZO_ZEROS_MIN)

struct lzo_context {
	u16 table[LZO_TABLE_SIZE];
};

_Static_assert(LZO_BLOCK_V0 <= 0x10000, "positions in a block fit 16 bits");

/* ------------------------------------------------------------- compression */

struct lzo_sink {
	u8 *at;		/* next byte to write */
	u8 *end;	/* first byte that must not be written */
	u8 *state;	/* byte whose two low bits count trailing literals */
};

static inline size_t sink_room(const struct lzo_sink *sink)
{
	return (size_t)(sink->end - sink->at);
}

/* A length that did not fit its field: what is left of it, at least 1. */
static bool put_length(struct lzo_sink *sink, size_t length)
{
	size_t zeros = (length - 1) / 255;

	if (sink_room(sink) <= zeros)
		return false;
	memset(sink->at, 0, zeros);
	sink->at += zeros;
	*sink->at++ = (u8)(length - zeros * 255);
	return true;
}

/* Literals of any number, copied exactly. */
static bool put_literals_exact(struct lzo_sink *sink, const u8 *from,
			       size_t count)
{
	if (sink_room(sink) < count + 1)
		return false;
	if (count <= 3) {
		*sink->state |= (u8)count;
	} else if (count <= 18) {
		*sink->at++ = (u8)(count - 3);
	} else {
		*sink->at++ = 0;
		if (!put_length(sink, count - 18))
			return false;
		if (sink_room(sink) < count)
			return false;
	}
	memcpy(sink->at, from, count);
	sink->at += count;
	return true;
}

/* Literals before a match: 16 bytes can be read there, however few count. */
static inline bool put_literals(struct lzo_sink *sink, const u8 *from,
				size_t count)
{
	if (count == 0)
		return true;
	if (count > 16 || sink_room(sink) < 17)
		return put_literals_exact(sink, from, count);
	if (count <= 3)
		*sink->state |= (u8)count;
	else
		*sink->at++ = (u8)(count - 3);
	copy_16(sink->at, from);
	sink->at += count;
	return true;
}

/*
 * The end marker must still follow, so asking for four bytes where two or
 * three would do refuses nothing that fits.
 */
static inline bool put_match(struct lzo_sink *sink, size_t distance,
			     size_t length)
{
	size_t field, len_max;
	u8 code;

	if (sink_room(sink) < 4)
		return false;
	if (length <= LZO_NEAR_LEN_MAX && distance <= LZO_NEAR_DISTANCE_MAX) {
		field = distance - 1;
		sink->state = sink->at;
		*sink->at++ = (u8)((length - 1) << 5 | (field & 7) << 2);
		*sink->at++ = (u8)(field >> 3);
		return true;
	}
	if (distance <= LZO_MID_DISTANCE_MAX) {
		field = distance - 1;
		code = LZO_MID;
		len_max = LZO_MID_LEN_MAX;
	} else {
		field = distance - 0x4000;
		code = LZO_FAR | (u8)((field >> 11) & LZO_FAR_HIGH);
		len_max = LZO_FAR_LEN_MAX;
	}
	if (length <= len_max) {
		*sink->at++ = code | (u8)(length - 2);
	} else {
		*sink->at++ = code;
		if (!put_length(sink, length - len_max) || sink_room(sink) < 2)
			return false;
	}
	sink->state = sink->at;
	*sink->at++ = (u8)(field << 2);
	*sink->at++ = (u8)(field >> 6);
	return true;
}

static bool put_zeros(struct lzo_sink *sink, size_t count)
{
	size_t field = count - LZO_ZEROS_MIN;

	if (sink_room(sink) < 4)
		return false;
	sink->state = sink->at + 1;
	*sink->at++ = LZO_FAR | LZO_FAR_HIGH | (u8)(field & 7);
	*sink->at++ = 0xfc;
	*sink->at++ = 0xff;
	*sink->at++ = (u8)(field >> 3);
	return true;
}

/* Zeros from at on, of which the first four are known. */
static size_t count_zeros(const u8 *at, const u8 *limit)
{
	const u8 *from = at;

	if (limit - at > LZO_ZEROS_MAX)
		limit = at + LZO_ZEROS_MAX;
	at += LZO_ZEROS_MIN;
	while (limit - at >= 8) {
		u64 word = load_le64(at);

		if (word)
			return (size_t)(at - from) + equal_bytes(word);
		at += 8;
	}
	while (at < limit && *at == 0)
		at++;
	return (size_t)(at - from);
}

/*
 * Equal bytes at both places, of which the first four are known. Past limit
 * it ends with a whole step and looks no closer: so does the kernel.
 */
static inline size_t match_length(const u8 *at, const u8 *earlier,
				  const u8 *limit)
{
	size_t length = 4;
	u64 diff = load_le64(at + length) ^ load_le64(earlier + length);

	while (diff == 0) {
		length += 8;
		diff = load_le64(at + length) ^ load_le64(earlier + length);
		if (at + length >= limit)
			return length;
	}
	return length + equal_bytes(diff);
}

/* Version 1: these would read as a run of zeros, so say a shorter match. */
static inline size_t avoid_ambiguity(size_t distance, size_t length)
{
	if (length >= 261 && length <= 264 &&
	    distance > LZO_MID_DISTANCE_MAX &&
	    ((distance - 0x4000) & 0x403f) == 0x403f)
		return 260;
	return length;
}

/*
 * One block of more than LZO_BLOCK_TAIL bytes. *carried: literals that the
 * blocks before left to be written; out, those that this one leaves.
 */
static inline __attribute__((always_inline))
bool compress_block(struct lzo_sink *to, const u8 *block, size_t size,
		    u16 *table, size_t *carried, bool rle)
{
	const u8 *const limit = block + size - LZO_BLOCK_TAIL;
	const u8 *done = block, *at = block;
	struct lzo_sink sink = *to;
	size_t before = *carried;

	at += before < 4 ? 4 - before : 0;
	at += 1 + ((at - done) >> 5);
	while (at < limit) {
		u32 word = load_le32(at);
		size_t length;

		if (rle && word == 0) {
			length = count_zeros(at, limit);
			if (!put_literals(&sink, done - before,
					  (size_t)(at - done) + before) ||
			    !put_zeros(&sink, length))
				return false;
		} else {
			u32 cell = (word * LZO_HASH_FACTOR) >>
				   (32 - LZO_TABLE_BITS);
			const u8 *earlier = block + table[cell];
			size_t distance;

			table[cell] = (u16)(at - block);
			if (word != load_le32(earlier)) {
				at += 1 + ((at - done) >> 5);
				continue;
			}
			distance = (size_t)(at - earlier);
			length = match_length(at, earlier, limit);
			if (rle)
				length = avoid_ambiguity(distance, length);
			if (!put_literals(&sink, done - before,
					  (size_t)(at - done) + before) ||
			    !put_match(&sink, distance, length))
				return false;
		}
		at += length;
		done = at;
		before = 0;
	}
	*carried = (size_t)(block + size - done) + before;
	*to = sink;
	return true;
}

/* One body for both versions; each caller's constant folds the other away. */
static inline __attribute__((always_inline))
int lzo_encode(struct lzo_context *ctx, const u8 *src, size_t src_size,
	       u8 *dst, size_t *dst_size, bool rle)
{
	const size_t block_max = rle ? LZO_BLOCK_V1 : LZO_BLOCK_V0;
	struct lzo_sink sink = { dst, dst + *dst_size, dst };
	size_t left = src_size, carried = 0;
	const u8 *start;

	if (rle) {
		if (sink_room(&sink) < 2)
			return -ENOSPC;
		*sink.at++ = LZO_VERSIONED;
		*sink.at++ = 1;
	}
	start = sink.at;
	while (left > LZO_BLOCK_TAIL) {
		size_t size = left < block_max ? left : block_max;

		memset(ctx->table, 0, sizeof(ctx->table));
		if (!compress_block(&sink, src + src_size - left, size,
				    ctx->table, &carried, rle))
			return -ENOSPC;
		left -= size;
	}
	carried += left;
	src += src_size - carried;
	if (carried > 0 && sink.at == start && carried <= 238) {
		if (sink_room(&sink) < carried + 1)
			return -ENOSPC;
		*sink.at++ = (u8)(LZO_VERSIONED + carried);
		memcpy(sink.at, src, carried);
		sink.at += carried;
	} else if (carried > 0 && !put_literals_exact(&sink, src, carried)) {
		return -ENOSPC;
	}
	if (sink_room(&sink) < LZO_END_SIZE)
		return -ENOSPC;
	*sink.at++ = LZO_FAR | 1;
	*sink.at++ = 0;
	*sink.at++ = 0;
	*dst_size = (size_t)(sink.at - dst);
	return 0;
}

static int lzo_compress(void *ctx, const struct zm_codec_params *params,
			const void *src, size_t src_size,
			void *dst, size_t *dst_size)
{
	(void)params;
	return lzo_encode(ctx, src, src_size, dst, dst_size, false);
}

static int lzorle_compress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t *dst_size)
{
	(void)params;
	return lzo_encode(ctx, src, src_size, dst, dst_size, true);
}

/* ----------------------------------------------------------- decompression */

struct lzo_source {
	const u8 *at;		/* next byte to read */
	const u8 *end;
	size_t literals;	/* just before this instruction */
	bool rle;
};

/* What an instruction copies. Without a distance: zeros, or the end. */
struct lzo_copy {
	size_t distance;
	size_t length;
};

static inline size_t source_rest(const struct lzo_source *in)
{
	return (size_t)(in->end - in->at);
}

/* The rest of a length whose field was 0, or 0 when it is damaged. */
static size_t get_length(struct lzo_source *in, size_t field_max,
			 size_t length_max)
{
	const u8 *at = in->at;
	size_t length = field_max;

	while (at < in->end && *at == 0) {
		length += 255;
		if (length > length_max)
			return 0;
		at++;
	}
	if (at == in->end)
		return 0;
	in->at = at + 1;
	return length + *at;
}

/* An instruction of 64 and above. Two bytes of src are sure to be there. */
static inline void get_near(struct lzo_source *in, u8 code,
			    struct lzo_copy *copy)
{
	copy->distance = 1u + ((code >> 2) & 7) + ((size_t)*in->at++ << 3);
	copy->length = (code >> 5) + 1u;
	in->literals = code & 3;
}

/*
 * One of 16 to 63: a match, zeros, or the end, which has no length either.
 * Two bytes are sure to be there. False: it is damaged.
 */
static inline bool get_far(struct lzo_source *in, u8 code, size_t room,
			   struct lzo_copy *copy)
{
	const size_t field_max = code >= LZO_MID ? 31 : 7;
	u32 word = load_le16(in->at);

	if (in->rle && word >= 0xfffc &&
	    (code & 0xf8) == (LZO_FAR | LZO_FAR_HIGH)) {
		if (source_rest(in) < 3)
			return false;
		copy->distance = 0;
		copy->length = (code & 7u) + in->at[2] * 8u + LZO_ZEROS_MIN;
		in->at += 3;
		in->literals = word & 3;
		return true;
	}
	copy->length = code & field_max;
	if (copy->length == 0) {
		copy->length = get_length(in, field_max, room);
		if (copy->length == 0 || source_rest(in) < 2)
			return false;
		word = load_le16(in->at);
	}
	copy->length += 2;
	in->at += 2;
	in->literals = word & 3;
	copy->distance = word >> 2;
	if (code >= LZO_MID) {
		copy->distance += 1;
		return true;
	}
	copy->distance += (size_t)(code & LZO_FAR_HIGH) << 11;
	if (copy->distance == 0)
		copy->length = 0;
	else
		copy->distance += 0x4000;
	return true;
}

/*
 * length bytes from distance back. Both are checked; room, up to the end of
 * the output, is at least length.
 */
static inline void copy_match(u8 *to, size_t distance, size_t length,
			      size_t room)
{
	/* The smallest multiple of a short distance that is at least 8. */
	static const u8 stride[8] = { 0, 8, 8, 9, 8, 10, 12, 14 };
	const u8 *from = to - distance;
	u8 *const end = to + length;

	if (room < length + 16) {
		while (to < end)
			*to++ = *from++;
		return;
	}
	if (distance < 8) {
		for (int i = 0; i < 8; i++)
			to[i] = from[i];
		to += 8;
		from = to - stride[distance];
		while (to < end) {
			copy_8(to, from);
			to += 8;
			from += 8;
		}
		return;
	}
	do {
		copy_8(to, from);
		copy_8(to + 8, from + 8);
		to += 16;
		from += 16;
	} while (to < end);
}

/* Literals, with the end marker behind them; false when either is missing. */
static inline bool copy_literals(u8 **out, const u8 *out_end,
				 struct lzo_source *in, size_t count)
{
	size_t room = (size_t)(out_end - *out), rest = source_rest(in);
	const u8 *from = in->at;
	u8 *to = *out, *end;

	if (room < count || rest < count + LZO_END_SIZE)
		return false;
	*out += count;
	in->at += count;
	if (room < count + 16 || rest < count + 16) {
		memcpy(to, from, count);
		return true;
	}
	end = to + count;
	do {
		copy_16(to, from);
		to += 16;
		from += 16;
	} while (to < end);
	return true;
}

/* What only the start of a stream has: a version, and literals of its own. */
static bool get_start(struct lzo_source *in, u8 **out, const u8 *out_end)
{
	size_t count;

	if (source_rest(in) < LZO_END_SIZE)
		return false;
	if (source_rest(in) >= 5 && in->at[0] == LZO_VERSIONED) {
		if (in->at[1] > 1)
			return false;
		in->rle = in->at[1];
		in->at += 2;
	}
	if (*in->at <= LZO_VERSIONED)
		return true;
	count = *in->at++ - LZO_VERSIONED;
	in->literals = count;
	return copy_literals(out, out_end, in, count);
}

/* Exactly 0x11 0 0, and nothing behind it. */
static bool is_end(const struct lzo_source *in, u8 code)
{
	return code == (LZO_FAR | 1) && in->at == in->end &&
	       in->at[-2] == 0 && in->at[-1] == 0;
}

static int lzo_decompress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t dst_size)
{
	struct lzo_source in = { src, (const u8 *)src + src_size, 0, false };
	u8 *out = dst, *const out_end = out + dst_size;
	struct lzo_copy copy;

	(void)ctx;
	(void)params;
	if (!get_start(&in, &out, out_end))
		return -EBADMSG;
	for (;;) {
		size_t room = (size_t)(out_end - out);
		u8 code;

		/* Of a sound stream at least the end marker is left. */
		if (source_rest(&in) < LZO_END_SIZE)
			return -EBADMSG;
		code = *in.at++;
		if (code >= 64) {
			get_near(&in, code, &copy);
		} else if (code >= LZO_FAR) {
			if (!get_far(&in, code, room, &copy))
				return -EBADMSG;
			if (copy.length == 0)
				return is_end(&in, code) && room == 0
					? 0 : -EBADMSG;
		} else {
			size_t count = code ? code : get_length(&in, 15, room);

			if (in.literals || count == 0 ||
			    !copy_literals(&out, out_end, &in, count + 3))
				return -EBADMSG;
			in.literals = count + 3;
			continue;
		}

		if (copy.length > room ||
		    copy.distance > (size_t)(out - (u8 *)dst))
			return -EBADMSG;
		if (copy.distance)
			copy_match(out, copy.distance, copy.length, room);
		else
			memset(out, 0, copy.length);
		out += copy.length;

		if (source_rest(&in) >= 4 && out_end - out >= 4) {
			copy_4(out, in.at);
			out += in.literals;
			in.at += in.literals;
		} else if (in.literals &&
			   !copy_literals(&out, out_end, &in, in.literals)) {
			return -EBADMSG;
		}
	}
}

/* ------------------------------------------------------------------- tables */

static int lzo_context_create(const struct zm_codec_params *params, void **ctx)
{
	(void)params;
	*ctx = malloc(sizeof(struct lzo_context));
	return *ctx ? 0 : -ENOMEM;
}

const struct zm_codec_ops zm_codec_lzo = {
	.name = lzo_name,
	.context_create = lzo_context_create,
	.context_destroy = codec_free,
	.compress = lzo_compress,
	.decompress = lzo_decompress,
};

const struct zm_codec_ops zm_codec_lzorle = {
	.name = lzorle_name,
	.context_create = lzo_context_create,
	.context_destroy = codec_free,
	.compress = lzorle_compress,
	.decompress = lzo_decompress,
};

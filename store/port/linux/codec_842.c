// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * 842, by the kernel's lib/842. No levels, no dictionary.
 *
 * A stream is a row of templates of 5 bits with arguments behind them; nearly
 * all of them make 8 bytes. The kernel's decompressor does not check every
 * template against the end of the output, so a damaged stream would write past
 * it. Hence each stream is first walked to its end, adding up what its
 * templates make, and handed on only if that is exactly the page. What indexes
 * point at, and the checksum at the end, the decompressor checks itself.
 *
 * Format: lib/842/842.h.
 */
#include <linux/mm.h>
#include <linux/sw842.h>

#include "codec_linux.h"

#define SW842_OP_BITS		5
#define SW842_OP_REPEAT		0x1b	/* the last 8 bytes, 1 to 64 times */
#define SW842_REPEAT_BITS	6
#define SW842_OP_ZEROS		0x1c
#define SW842_OP_SHORT		0x1d	/* 1 to 7 bytes, as they are */
#define SW842_SHORT_BITS	3
#define SW842_OP_END		0x1e

/*
 * Bits of arguments of templates 0 to 0x19: data of 2, 4 and 8 bytes as they
 * are, indexes of 8, 9 and 8 bits for 2, 4 and 8 bytes seen before.
 */
static const u8 sw842_argument_bits[] = {
	64, 56, 56, 48, 41, 56, 48, 48, 40, 33, 56, 48, 48,
	40, 33, 48, 40, 40, 32, 25, 41, 33, 33, 25, 18, 8,
};

static int sw842_params_setup(struct zm_codec_params *params)
{
	params->checks_page = true;
	return zm_codec_params_check(params, &zm_codec_842);
}

static int sw842_context_create(const struct zm_codec_params *params,
				void **ctx)
{
	*ctx = codec_alloc(SW842_MEM_COMPRESS);
	return *ctx ? 0 : -ENOMEM;
}

static int sw842_page_compress(void *ctx, const struct zm_codec_params *params,
			       const void *src, size_t src_size,
			       void *dst, size_t *dst_size)
{
	unsigned int size = min_t(size_t, *dst_size, INT_MAX);

	if (!codec_sizes_fit(src_size, 0) ||
	    sw842_compress(src, src_size, dst, &size, ctx))
		return -ENOSPC;
	*dst_size = size;
	return 0;
}

/* Up to 8 bits from bit `at` on. pre: they are in src. */
static u32 sw842_bits(const u8 *src, size_t at, u32 count)
{
	u32 shift = at % 8, word = (u32)src[at / 8] << 8;

	if (shift + count > 8)
		word |= src[at / 8 + 1];
	return word >> (16 - shift - count) & ((1u << count) - 1);
}

/* Whether the stream makes exactly dst_size bytes, if it is sound at all. */
static bool sw842_makes(const u8 *src, size_t src_size, size_t dst_size)
{
	const size_t end = src_size * 8;
	size_t at = 0, made = 0;
	u32 op, count;

	while (end - at >= SW842_OP_BITS && made <= dst_size) {
		op = sw842_bits(src, at, SW842_OP_BITS);
		at += SW842_OP_BITS;
		if (op < ARRAY_SIZE(sw842_argument_bits)) {
			at += sw842_argument_bits[op];
			made += 8;
		} else if (op == SW842_OP_ZEROS) {
			made += 8;
		} else if (op == SW842_OP_REPEAT) {
			if (end - at < SW842_REPEAT_BITS)
				return false;
			made += 8 * (1 + sw842_bits(src, at,
						    SW842_REPEAT_BITS));
			at += SW842_REPEAT_BITS;
		} else if (op == SW842_OP_SHORT) {
			if (end - at < SW842_SHORT_BITS)
				return false;
			count = sw842_bits(src, at, SW842_SHORT_BITS);
			made += count;
			at += SW842_SHORT_BITS + 8 * count;
		} else {
			return op == SW842_OP_END && made == dst_size;
		}
		if (at > end)
			return false;
	}
	return false;
}

static int sw842_page_decompress(void *ctx,
				 const struct zm_codec_params *params,
				 const void *src, size_t src_size,
				 void *dst, size_t dst_size)
{
	unsigned int size = dst_size;

	if (!codec_sizes_fit(src_size, dst_size) ||
	    !sw842_makes(src, src_size, dst_size) ||
	    sw842_decompress(src, src_size, dst, &size) || size != dst_size)
		return -EBADMSG;
	return 0;
}

const struct zm_codec_ops zm_codec_842 = {
	.name = "842",
	.params_setup = sw842_params_setup,
	.params_release = zm_codec_nothing_to_release,
	.context_create = sw842_context_create,
	.context_destroy = codec_free,
	.compress = sw842_page_compress,
	.decompress = sw842_page_decompress,
};

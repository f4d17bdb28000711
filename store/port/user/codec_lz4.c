// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lz4 and lz4hc, by the lz4 library.
 *
 * The kernel's copy of lz4 is older than the library; the format is the same.
 * The library looks for a match one byte nearer to the end of the page, so
 * about one page in thirty comes out a byte or two smaller than the kernel's.
 *
 * Levels are zram's: for lz4 the acceleration, for lz4hc 1 to 16, where the
 * kernel's copy doubles its search effort at each level. The library does the
 * same from 3 to 9 and has other parsers below and above, which the kernel has
 * not. So 1 and 2 are level 3 here, which comes out up to 2 % smaller than the
 * kernel's 1, and 10 to 16 are level 9: a page has too few positions for more.
 *
 * A page starts from a state that no page before it has changed.
 */
#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include "codec_user.h"

#define LZ4_LEVEL_DEFAULT	1

#define LZ4HC_LEVEL_DEFAULT	9
#define LZ4HC_EFFORT_MIN	3
#define LZ4HC_EFFORT_MAX	9

static int lz4_context_alloc(void **ctx, size_t state_size)
{
	*ctx = malloc(state_size);
	return *ctx ? 0 : -ENOMEM;
}

/* size: what the library returned. */
static int lz4_compressed(int size, size_t *dst_size)
{
	if (size <= 0)
		return -ENOSPC;
	*dst_size = (size_t)size;
	return 0;
}

/* Both codecs write the same format. */
static int lz4_decompress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t dst_size)
{
	int size = LZ4_decompress_safe(src, dst, (int)src_size, (int)dst_size);

	(void)ctx;
	(void)params;
	return size >= 0 && (size_t)size == dst_size ? 0 : -EBADMSG;
}

/* --------------------------------------------------------------------- lz4 */

static int lz4_context_create(const struct zm_codec_params *params, void **ctx)
{
	(void)params;
	return lz4_context_alloc(ctx, sizeof(LZ4_stream_t));
}

static int lz4_compress(void *ctx, const struct zm_codec_params *params,
			const void *src, size_t src_size,
			void *dst, size_t *dst_size)
{
	return lz4_compressed(LZ4_compress_fast_extState(ctx, src, dst,
							 (int)src_size,
							 (int)*dst_size,
							 params->level),
			      dst_size);
}

const struct zm_codec_ops zm_codec_lz4 = {
	.name = lz4_name,
	.level_min = lz4_level_min,
	.level_max = lz4_level_max,
	.level_default = LZ4_LEVEL_DEFAULT,
	.context_create = lz4_context_create,
	.context_destroy = codec_free,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
};

/* ------------------------------------------------------------------- lz4hc */

static int lz4hc_effort(int level)
{
	if (level < LZ4HC_EFFORT_MIN)
		return LZ4HC_EFFORT_MIN;
	return level > LZ4HC_EFFORT_MAX ? LZ4HC_EFFORT_MAX : level;
}

static int lz4hc_context_create(const struct zm_codec_params *params,
				void **ctx)
{
	(void)params;
	return lz4_context_alloc(ctx, sizeof(LZ4_streamHC_t));
}

static int lz4hc_compress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t *dst_size)
{
	return lz4_compressed(LZ4_compress_HC_extStateHC(ctx, src, dst,
							 (int)src_size,
							 (int)*dst_size,
							 lz4hc_effort(params->level)),
			      dst_size);
}

const struct zm_codec_ops zm_codec_lz4hc = {
	.name = lz4hc_name,
	.level_min = lz4hc_level_min,
	.level_max = lz4hc_level_max,
	.level_default = LZ4HC_LEVEL_DEFAULT,
	.context_create = lz4hc_context_create,
	.context_destroy = codec_free,
	.compress = lz4hc_compress,
	.decompress = lz4_decompress,
};

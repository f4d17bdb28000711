// SPDX-License-Identifier: GPL-2.0-or-later
/* lz4, by the kernel's lib/lz4. The level is the acceleration. */
#include "codec_lz4.h"

/*
 * As of LZ4_ACCELERATION_MAX of the library's later versions: 64 of these are more than a
 * page. lib/lz4 has no bound, and makes a step of 0 of a multiple of 2^26, with which it
 * writes matches of a place with itself: another page comes back.
 */
#define ACCELERATION_MAX	65537

static int lz4_context_create(const struct zm_codec_params *params, void **ctx)
{
	*ctx = codec_alloc(LZ4_MEM_COMPRESS);
	return *ctx ? 0 : -ENOMEM;
}

static int lz4_compress(void *ctx, const struct zm_codec_params *params,
			const void *src, size_t src_size,
			void *dst, size_t *dst_size)
{
	int size = LZ4_compress_fast(src, dst, (int)src_size, (int)*dst_size,
				     min(params->level, ACCELERATION_MAX),
				     ctx);

	if (size <= 0)
		return -ENOSPC;
	*dst_size = (size_t)size;
	return 0;
}

const struct zm_codec_ops zm_codec_lz4 = {
	.name = lz4_name,
	.level_min = CODEC_LEVEL_LEAST,
	.level_max = CODEC_LEVEL_MOST,
	.level_default = LZ4_ACCELERATION_DEFAULT,
	.context_create = lz4_context_create,
	.context_destroy = codec_free,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
};

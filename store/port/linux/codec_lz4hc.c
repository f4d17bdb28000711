// SPDX-License-Identifier: GPL-2.0-or-later
/* lz4hc, by the kernel's lib/lz4. The level is the search effort. */
#include "codec_lz4.h"

static int lz4hc_context_create(const struct zm_codec_params *params,
				void **ctx)
{
	*ctx = codec_alloc(LZ4HC_MEM_COMPRESS);
	return *ctx ? 0 : -ENOMEM;
}

static int lz4hc_compress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t *dst_size)
{
	int size = LZ4_compress_HC(src, dst, (int)src_size, (int)*dst_size,
				   params->level, ctx);

	if (size <= 0)
		return -ENOSPC;
	*dst_size = (size_t)size;
	return 0;
}

const struct zm_codec_ops zm_codec_lz4hc = {
	.name = lz4hc_name,
	.level_min = CODEC_LEVEL_LEAST,
	.level_max = CODEC_LEVEL_MOST,
	.level_default = LZ4HC_DEFAULT_CLEVEL,
	.context_create = lz4hc_context_create,
	.context_destroy = codec_free,
	.compress = lz4hc_compress,
	.decompress = lz4_decompress,
};

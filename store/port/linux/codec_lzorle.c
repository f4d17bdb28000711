// SPDX-License-Identifier: GPL-2.0-or-later
/* lzo-rle, by the kernel's lib/lzo; see codec_lzo.h. */
#include "codec_lzo.h"

static int lzorle_params_setup(struct zm_codec_params *params)
{
	return zm_codec_params_check(params, &zm_codec_lzorle);
}

static int lzorle_compress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t *dst_size)
{
	if (*dst_size < lzo1x_worst_compress(src_size))
		return -ENOSPC;
	return lzorle1x_1_compress(src, src_size, dst, dst_size,
				   ctx) == LZO_E_OK ? 0 : -ENOSPC;
}

const struct zm_codec_ops zm_codec_lzorle = {
	.name = "lzo-rle",
	.params_setup = lzorle_params_setup,
	.params_release = lzo_params_release,
	.context_create = lzo_context_create,
	.context_destroy = lzo_context_destroy,
	.compress = lzorle_compress,
	.decompress = lzo_decompress,
};

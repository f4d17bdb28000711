// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lzo and lzo-rle, by the kernel's lib/lzo. They have no levels. The context is the
 * compressor's table of positions, which it clears itself; the decompressor needs
 * none and checks every length and distance against both ends.
 */
#include <linux/mm.h>
#include <linux/types.h>
/* Takes its types from those before it. */
#include <linux/lzo.h>

#include "codec_linux.h"

static int lzo_context_create(const struct zm_codec_params *params, void **ctx)
{
	*ctx = codec_alloc(LZO1X_MEM_COMPRESS);
	return *ctx ? 0 : -ENOMEM;
}

static int lzo_compress(void *ctx, const struct zm_codec_params *params,
			const void *src, size_t src_size,
			void *dst, size_t *dst_size)
{
	if (*dst_size < lzo1x_worst_compress(src_size))
		return -ENOSPC;
	return lzo1x_1_compress(src, src_size, dst, dst_size, ctx) == LZO_E_OK
		? 0 : -ENOSPC;
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

static int lzo_decompress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t dst_size)
{
	size_t size = dst_size;
	int ret;

	ret = lzo1x_decompress_safe(src, src_size, dst, &size);
	return ret == LZO_E_OK && size == dst_size ? 0 : -EBADMSG;
}

const struct zm_codec_ops zm_codec_lzo = {
	.name = lzo_name,
	.level_min = CODEC_LEVEL_LEAST,
	.level_max = CODEC_LEVEL_MOST,
	.context_create = lzo_context_create,
	.context_destroy = codec_free,
	.compress = lzo_compress,
	.decompress = lzo_decompress,
};

const struct zm_codec_ops zm_codec_lzorle = {
	.name = lzorle_name,
	.level_min = CODEC_LEVEL_LEAST,
	.level_max = CODEC_LEVEL_MOST,
	.context_create = lzo_context_create,
	.context_destroy = codec_free,
	.compress = lzorle_compress,
	.decompress = lzo_decompress,
};

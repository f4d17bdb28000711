/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What lzo and lzo-rle share: all but the compressor. They have no levels and
 * take no dictionary. The context is the compressor's table of positions, which
 * it clears itself; the decompressor needs none and checks every length and
 * distance against both ends.
 */
#ifndef ZM_CODEC_LZO_H
#define ZM_CODEC_LZO_H

#include <linux/mm.h>
#include <linux/types.h>
/* Takes its types from those before it. */
#include <linux/lzo.h>

#include "codec_linux.h"

static inline void lzo_params_release(struct zm_codec_params *params)
{
}

static inline int lzo_context_create(const struct zm_codec_params *params,
				     void **ctx)
{
	*ctx = kvmalloc(LZO1X_MEM_COMPRESS, GFP_KERNEL);
	return *ctx ? 0 : -ENOMEM;
}

static inline void lzo_context_destroy(void *ctx)
{
	kvfree(ctx);
}

static inline int lzo_decompress(void *ctx,
				 const struct zm_codec_params *params,
				 const void *src, size_t src_size,
				 void *dst, size_t dst_size)
{
	size_t size = dst_size;
	int ret;

	ret = lzo1x_decompress_safe(src, src_size, dst, &size);
	return ret == LZO_E_OK && size == dst_size ? 0 : -EBADMSG;
}

#endif /* ZM_CODEC_LZO_H */

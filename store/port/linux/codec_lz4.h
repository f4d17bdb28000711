/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What lz4 and lz4hc share: one format, so one decompressor. */
#ifndef ZM_CODEC_LZ4_H
#define ZM_CODEC_LZ4_H

#include <linux/lz4.h>
#include <linux/mm.h>

#include "codec_linux.h"

static inline int lz4_decompress(void *ctx,
				 const struct zm_codec_params *params,
				 const void *src, size_t src_size,
				 void *dst, size_t dst_size)
{
	int size = LZ4_decompress_safe(src, dst, (int)src_size, (int)dst_size);

	return size >= 0 && (size_t)size == dst_size ? 0 : -EBADMSG;
}

#endif /* ZM_CODEC_LZ4_H */

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * deflate, by zlib: raw, without a header or a checksum, and with a small
 * window and the memory level that zram sets. Resetting a stream allocates
 * nothing and forgets the page before.
 */
#define ZLIB_CONST
#include <stdlib.h>
#include <zlib.h>
#include "codec_user.h"

#define DEFLATE_WINDOW_BITS	(-11)	/* negative: raw */
#define DEFLATE_MEMORY_LEVEL	8

#define DEFLATE_LEVEL_DEFAULT	6	/* what Z_DEFAULT_COMPRESSION means */

struct deflate_context {
	z_stream deflating;
	z_stream inflating;
};

static int deflate_context_create(const struct zm_codec_params *params,
				  void **ctx)
{
	struct deflate_context *context = calloc(1, sizeof(*context));

	if (!context)
		return -ENOMEM;
	if (deflateInit2(&context->deflating, params->level, Z_DEFLATED,
			 DEFLATE_WINDOW_BITS, DEFLATE_MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		goto deflating_failed;
	if (inflateInit2(&context->inflating, DEFLATE_WINDOW_BITS) != Z_OK)
		goto inflating_failed;
	*ctx = context;
	return 0;

inflating_failed:
	deflateEnd(&context->deflating);
deflating_failed:
	free(context);
	return -ENOMEM;
}

static void deflate_context_destroy(void *ctx)
{
	struct deflate_context *context = ctx;

	if (!context)
		return;
	deflateEnd(&context->deflating);
	inflateEnd(&context->inflating);
	free(context);
}

static int deflate_compress(void *ctx, const struct zm_codec_params *params,
			    const void *src, size_t src_size,
			    void *dst, size_t *dst_size)
{
	z_stream *stream = &((struct deflate_context *)ctx)->deflating;
	Bytef spare;
	size_t size;
	int ret;

	(void)params;
	if (deflateReset(stream) != Z_OK)
		return -ENOSPC;
	stream->next_in = src;
	stream->avail_in = (uInt)src_size;
	stream->next_out = dst;
	stream->avail_out = (uInt)*dst_size;
	ret = deflate(stream, Z_FINISH);
	size = (size_t)(stream->next_out - (Bytef *)dst);
	if (ret == Z_OK) {
		/* dst is full. zlib says whether that is all only with room. */
		stream->next_out = &spare;
		stream->avail_out = 1;
		ret = deflate(stream, Z_FINISH);
		if (stream->avail_out == 0)
			return -ENOSPC;
	}
	if (ret != Z_STREAM_END)
		return -ENOSPC;
	*dst_size = size;
	return 0;
}

static int deflate_decompress(void *ctx, const struct zm_codec_params *params,
			      const void *src, size_t src_size,
			      void *dst, size_t dst_size)
{
	z_stream *stream = &((struct deflate_context *)ctx)->inflating;

	(void)params;
	if (inflateReset(stream) != Z_OK)
		return -EBADMSG;
	stream->next_in = src;
	stream->avail_in = (uInt)src_size;
	stream->next_out = dst;
	stream->avail_out = (uInt)dst_size;
	if (inflate(stream, Z_FINISH) != Z_STREAM_END ||
	    stream->avail_in != 0 || stream->avail_out != 0)
		return -EBADMSG;
	return 0;
}

const struct zm_codec_ops zm_codec_deflate = {
	.name = deflate_name,
	.level_min = deflate_level_min,
	.level_max = deflate_level_max,
	.level_default = DEFLATE_LEVEL_DEFAULT,
	.context_create = deflate_context_create,
	.context_destroy = deflate_context_destroy,
	.compress = deflate_compress,
	.decompress = deflate_decompress,
};

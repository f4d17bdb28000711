// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * deflate, by the kernel's zlib: raw, without a header or a checksum, and with a
 * small window and the memory level that zram sets. All working memory is given
 * to zlib beforehand; resetting a stream forgets the page before.
 */
#include <linux/mm.h>
#include <linux/zlib.h>

#include "codec_linux.h"

#define DEFLATE_WINDOW_BITS	(-11)	/* negative: raw */
#define DEFLATE_LEVEL_DEFAULT	6	/* what Z_DEFAULT_COMPRESSION means */

struct deflate_context {
	struct z_stream_s deflating;
	struct z_stream_s inflating;
};

/* zlib's own ends of streams free nothing. */
static void deflate_context_destroy(void *ctx)
{
	struct deflate_context *context = ctx;

	if (!context)
		return;
	kvfree(context->deflating.workspace);
	kvfree(context->inflating.workspace);
	kfree(context);
}

static int deflate_context_create(const struct zm_codec_params *params,
				  void **ctx)
{
	struct deflate_context *context;
	int size;

	context = kzalloc(sizeof(*context), GFP_KERNEL);
	if (!context)
		return -ENOMEM;
	size = zlib_deflate_workspacesize(DEFLATE_WINDOW_BITS, MAX_MEM_LEVEL);
	context->deflating.workspace = kvzalloc(size, GFP_KERNEL);
	size = zlib_inflate_workspacesize();
	context->inflating.workspace = kvzalloc(size, GFP_KERNEL);
	if (!context->deflating.workspace || !context->inflating.workspace)
		goto failed;
	if (zlib_deflateInit2(&context->deflating, params->level, Z_DEFLATED,
			      DEFLATE_WINDOW_BITS, MAX_MEM_LEVEL,
			      Z_DEFAULT_STRATEGY) != Z_OK)
		goto failed;
	if (zlib_inflateInit2(&context->inflating,
			      DEFLATE_WINDOW_BITS) != Z_OK)
		goto failed;
	*ctx = context;
	return 0;

failed:
	deflate_context_destroy(context);
	return -ENOMEM;
}

static int deflate_compress(void *ctx, const struct zm_codec_params *params,
			    const void *src, size_t src_size,
			    void *dst, size_t *dst_size)
{
	struct z_stream_s *stream = &((struct deflate_context *)ctx)->deflating;

	if (zlib_deflateReset(stream) != Z_OK)
		return -ENOSPC;
	stream->next_in = src;
	stream->avail_in = src_size;
	stream->next_out = dst;
	stream->avail_out = *dst_size;
	if (zlib_deflate(stream, Z_FINISH) != Z_STREAM_END)
		return -ENOSPC;
	*dst_size = stream->total_out;
	return 0;
}

static int deflate_decompress(void *ctx, const struct zm_codec_params *params,
			      const void *src, size_t src_size,
			      void *dst, size_t dst_size)
{
	struct z_stream_s *stream = &((struct deflate_context *)ctx)->inflating;

	if (zlib_inflateReset(stream) != Z_OK)
		return -EBADMSG;
	stream->next_in = src;
	stream->avail_in = src_size;
	stream->next_out = dst;
	stream->avail_out = dst_size;
	if (zlib_inflate(stream, Z_SYNC_FLUSH) != Z_STREAM_END ||
	    stream->avail_in || stream->avail_out)
		return -EBADMSG;
	return 0;
}

const struct zm_codec_ops zm_codec_deflate = {
	.name = deflate_name,
	.level_min = Z_DEFAULT_COMPRESSION,
	.level_max = Z_BEST_COMPRESSION,
	.level_default = DEFLATE_LEVEL_DEFAULT,
	.context_create = deflate_context_create,
	.context_destroy = deflate_context_destroy,
	.compress = deflate_compress,
	.decompress = deflate_decompress,
};

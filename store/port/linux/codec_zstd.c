// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zstd, by the kernel's lib/zstd.
 *
 * As zram does: the parameters of a level are those for a source of one page. Both
 * contexts are memory of a size known before, so no page can make them grow.
 *
 * The library works on several bytes past those it keeps, and with less room
 * than its bound it may fail or write something else: the same page would then
 * not always give the same bytes. So it is asked only with room for the bound.
 */
#include <linux/mm.h>
#include <linux/zstd.h>

#include "codec_linux.h"

#define ZSTD_LEVEL_DEFAULT	3		/* zstd_default_clevel() */

struct zstd_context {
	zstd_parameters settings;
	zstd_cctx *compressor;
	zstd_dctx *decompressor;
	void *compressor_memory;
	void *decompressor_memory;
};

static void zstd_context_destroy(void *ctx)
{
	struct zstd_context *context = ctx;

	if (!context)
		return;
	kvfree(context->compressor_memory);
	kvfree(context->decompressor_memory);
	kfree(context);
}

/* Both in memory of their own, big enough for every page. */
static bool zstd_contexts_place(struct zstd_context *context)
{
	size_t size = zstd_cctx_workspace_bound(&context->settings.cParams);

	context->compressor_memory = kvzalloc(size, GFP_KERNEL);
	if (!context->compressor_memory)
		return false;
	context->compressor = zstd_init_cctx(context->compressor_memory, size);
	size = zstd_dctx_workspace_bound();
	context->decompressor_memory = kvzalloc(size, GFP_KERNEL);
	if (!context->decompressor_memory)
		return false;
	context->decompressor = zstd_init_dctx(context->decompressor_memory,
					       size);
	return context->compressor && context->decompressor;
}

static int zstd_context_create(const struct zm_codec_params *params, void **ctx)
{
	struct zstd_context *context = kzalloc(sizeof(*context), GFP_KERNEL);

	if (!context)
		return -ENOMEM;
	context->settings = zstd_get_params(params->level, PAGE_SIZE);
	if (!zstd_contexts_place(context)) {
		zstd_context_destroy(context);
		return -ENOMEM;
	}
	*ctx = context;
	return 0;
}

static int zstd_compress(void *ctx, const struct zm_codec_params *params,
			 const void *src, size_t src_size,
			 void *dst, size_t *dst_size)
{
	struct zstd_context *context = ctx;
	size_t size;

	if (*dst_size < zstd_compress_bound(src_size))
		return -ENOSPC;
	size = zstd_compress_cctx(context->compressor, dst, *dst_size, src,
				  src_size, &context->settings);
	if (zstd_is_error(size))
		return -ENOSPC;
	*dst_size = size;
	return 0;
}

static int zstd_decompress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t dst_size)
{
	struct zstd_context *context = ctx;

	/* An error is a size that no page has. */
	return zstd_decompress_dctx(context->decompressor, dst, dst_size, src,
				    src_size) == dst_size ? 0 : -EBADMSG;
}

const struct zm_codec_ops zm_codec_zstd = {
	.name = zstd_name,
	.level_min = CODEC_LEVEL_LEAST,
	.level_max = CODEC_LEVEL_MOST,
	.level_default = ZSTD_LEVEL_DEFAULT,
	.context_create = zstd_context_create,
	.context_destroy = zstd_context_destroy,
	.compress = zstd_compress,
	.decompress = zstd_decompress,
};

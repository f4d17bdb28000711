/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zword as a codec of the store, which zram does not have. Its tables are made
 * once for each choice.
 *
 * Each home takes this once, behind its own codec_alloc() and codec_free().
 */
#ifndef ZWORD_CODEC_H
#define ZWORD_CODEC_H

#include <zmeld/codec.h>

#include "zword.h"

static int zword_params_setup(struct zm_codec_params *params)
{
	int ret = zm_codec_params_check(params, &zm_codec_zword);

	if (ret)
		return ret;
	/* Of a machine with larger pages, it would keep all of them raw. */
	if (ZM_PAGE_SIZE > ZWORD_PAGE_SIZE_MAX)
		return -EINVAL;
	params->prepared = codec_alloc(zword_tables_size());
	if (!params->prepared)
		return -ENOMEM;
	ret = zword_tables_build(params->prepared, zword_lengths,
				 zword_lengths_size);
	if (ret) {
		codec_free(params->prepared);
		params->prepared = NULL;
	}
	return ret;
}

static void zword_params_release(struct zm_codec_params *params)
{
	codec_free(params->prepared);
	params->prepared = NULL;
}

static int zword_context_create(const struct zm_codec_params *params, void **ctx)
{
	*ctx = codec_alloc(zword_work_size_of(params->level));
	return *ctx ? 0 : -ENOMEM;
}

static void zword_context_destroy(void *ctx)
{
	codec_free(ctx);
}

static int zword_page_compress(void *ctx, const struct zm_codec_params *params,
			       const void *src, size_t src_size,
			       void *dst, size_t *dst_size)
{
	return zword_compress(params->prepared, ctx, params->level, src,
			      src_size, dst, dst_size) ? -ENOSPC : 0;
}

static int zword_page_decompress(void *ctx, const struct zm_codec_params *params,
				 const void *src, size_t src_size,
				 void *dst, size_t dst_size)
{
	return zword_decompress(params->prepared, ctx, src, src_size, dst,
				dst_size);
}

const struct zm_codec_ops zm_codec_zword = {
	.name = "zword",
	.level_min = ZWORD_LEVEL_GLANCE,
	.level_max = ZWORD_LEVEL_ALL,
	.level_default = ZWORD_LEVEL_GLANCE,
	.check_writes = true,
	.params_setup = zword_params_setup,
	.params_release = zword_params_release,
	.context_create = zword_context_create,
	.context_destroy = zword_context_destroy,
	.compress = zword_page_compress,
	.decompress = zword_page_decompress,
};

#endif /* ZWORD_CODEC_H */

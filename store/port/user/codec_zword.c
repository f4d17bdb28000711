// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword: store/zword, which zram does not have. Its tables are made once for
 * each choice, so that nothing has to be set up before the first one.
 */
#include <stdlib.h>
#include <zmeld/codec.h>
#include "../../zword/zword.h"
#include "codec_user.h"

static int zword_params_setup(struct zm_codec_params *params)
{
	int ret = codec_level_setup(params, ZWORD_LEVEL_GLANCE, ZWORD_LEVEL_ALL,
				    ZWORD_LEVEL_GLANCE, false);

	if (ret)
		return ret;
	params->prepared = malloc(zword_tables_size());
	if (!params->prepared)
		return -ENOMEM;
	ret = zword_tables_build(params->prepared, zword_lengths,
				 zword_lengths_size);
	if (ret) {
		free(params->prepared);
		params->prepared = NULL;
	}
	return ret;
}

static void zword_params_release(struct zm_codec_params *params)
{
	free(params->prepared);
	params->prepared = NULL;
}

static int zword_context_create(const struct zm_codec_params *params, void **ctx)
{
	(void)params;
	*ctx = malloc(sizeof(struct zword_work));
	return *ctx ? 0 : -ENOMEM;
}

static void zword_context_destroy(void *ctx)
{
	free(ctx);
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
	.params_setup = zword_params_setup,
	.params_release = zword_params_release,
	.context_create = zword_context_create,
	.context_destroy = zword_context_destroy,
	.compress = zword_page_compress,
	.decompress = zword_page_decompress,
};

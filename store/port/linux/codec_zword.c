// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword: store/zword, the codec that comes with the module and not with the
 * kernel. Its tables are made once for each choice.
 */
#include <linux/mm.h>

#include "../../zword/zword.h"
#include "codec_linux.h"

static int zword_params_setup(struct zm_codec_params *params)
{
	int ret = codec_params_check(params, &zm_codec_zword);

	if (ret)
		return ret;
	params->prepared = kvmalloc(zword_tables_size(), GFP_KERNEL);
	if (!params->prepared)
		return -ENOMEM;
	ret = zword_tables_build(params->prepared, zword_lengths,
				 zword_lengths_size);
	if (ret) {
		kvfree(params->prepared);
		params->prepared = NULL;
	}
	return ret;
}

static void zword_params_release(struct zm_codec_params *params)
{
	kvfree(params->prepared);
	params->prepared = NULL;
}

static int zword_context_create(const struct zm_codec_params *params, void **ctx)
{
	struct zword_work *work = kvmalloc(sizeof(*work), GFP_KERNEL);

	*ctx = work;
	return work ? 0 : -ENOMEM;
}

static void zword_context_destroy(void *ctx)
{
	kvfree(ctx);
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

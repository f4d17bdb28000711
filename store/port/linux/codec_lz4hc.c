// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lz4hc, by the kernel's lib/lz4. The level is the search effort.
 *
 * A dictionary is loaded once, into the params; each page starts from a copy of
 * that state, where zram loads it for each page again. It is used whole or
 * refused: 4 bytes to 64 KiB.
 */
#include "codec_lz4.h"

#define LZ4HC_LEVEL_MIN	1	/* below, the kernel's lz4hc takes its default */
#define LZ4HC_DICT_MIN	4	/* the kernel's lz4hc skips shorter ones */

/*
 * Sets the level as LZ4_resetStreamHC() would, which 6.1 declares but does not
 * export. Loading fills in everything else.
 */
static int lz4hc_params_setup(struct zm_codec_params *params)
{
	LZ4_streamHC_t *loaded;
	int ret;

	ret = zm_codec_params_check(params, &zm_codec_lz4hc);
	if (ret || !params->dict)
		return ret;
	if (params->dict_size < LZ4HC_DICT_MIN || params->dict_size > INT_MAX)
		return -EINVAL;
	loaded = kvzalloc(sizeof(*loaded), GFP_KERNEL);
	if (!loaded)
		return -ENOMEM;
	loaded->internal_donotuse.compressionLevel = params->level;
	ret = LZ4_loadDictHC(loaded, params->dict, (int)params->dict_size);
	if ((size_t)ret != params->dict_size) {
		kvfree(loaded);
		return -EINVAL;
	}
	params->prepared = loaded;
	return 0;
}

static int lz4hc_context_create(const struct zm_codec_params *params,
				void **ctx)
{
	BUILD_BUG_ON(sizeof(LZ4_streamHC_t) < LZ4HC_MEM_COMPRESS);
	*ctx = codec_alloc(sizeof(LZ4_streamHC_t));
	return *ctx ? 0 : -ENOMEM;
}

static int lz4hc_compress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t *dst_size)
{
	int room = (int)*dst_size, size;

	if (params->dict) {
		memcpy(ctx, params->prepared, sizeof(LZ4_streamHC_t));
		size = LZ4_compress_HC_continue(ctx, src, dst, (int)src_size,
						room);
	} else {
		size = LZ4_compress_HC(src, dst, (int)src_size, room,
				       params->level, ctx);
	}
	if (size <= 0)
		return -ENOSPC;
	*dst_size = (size_t)size;
	return 0;
}

const struct zm_codec_ops zm_codec_lz4hc = {
	.name = "lz4hc",
	.level_min = LZ4HC_LEVEL_MIN,
	.level_max = LZ4HC_MAX_CLEVEL,
	.level_default = LZ4HC_DEFAULT_CLEVEL,
	.takes_dict = true,
	.params_setup = lz4hc_params_setup,
	.params_release = lz4_params_release,
	.context_create = lz4hc_context_create,
	.context_destroy = codec_free,
	.compress = lz4hc_compress,
	.decompress = lz4_decompress,
};

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lz4, by the kernel's lib/lz4. The level is the acceleration.
 *
 * A dictionary is loaded once, into the params; each page starts from a copy of
 * that state, as if it had been loaded anew. It is used whole or refused: 8
 * bytes to 64 KiB.
 */
#include "codec_lz4.h"

#define LZ4_LEVEL_MAX	65537	/* user space's library takes no faster one */

static int lz4_params_setup(struct zm_codec_params *params)
{
	LZ4_stream_t *loaded;
	int ret;

	ret = zm_codec_params_check(params, &zm_codec_lz4);
	if (ret || !params->dict)
		return ret;
	if (params->dict_size > INT_MAX)
		return -EINVAL;
	loaded = kvzalloc(sizeof(*loaded), GFP_KERNEL);
	if (!loaded)
		return -ENOMEM;
	ret = LZ4_loadDict(loaded, params->dict, (int)params->dict_size);
	if ((size_t)ret != params->dict_size) {
		kvfree(loaded);
		return -EINVAL;
	}
	params->prepared = loaded;
	return 0;
}

static int lz4_context_create(const struct zm_codec_params *params, void **ctx)
{
	BUILD_BUG_ON(sizeof(LZ4_stream_t) < LZ4_MEM_COMPRESS);
	*ctx = codec_alloc(sizeof(LZ4_stream_t));
	return *ctx ? 0 : -ENOMEM;
}

static int lz4_compress(void *ctx, const struct zm_codec_params *params,
			const void *src, size_t src_size,
			void *dst, size_t *dst_size)
{
	int room = (int)*dst_size, size;

	if (params->dict) {
		memcpy(ctx, params->prepared, sizeof(LZ4_stream_t));
		size = LZ4_compress_fast_continue(ctx, src, dst, (int)src_size,
						  room, params->level);
	} else {
		size = LZ4_compress_fast(src, dst, (int)src_size, room,
					 params->level, ctx);
	}
	if (size <= 0)
		return -ENOSPC;
	*dst_size = (size_t)size;
	return 0;
}

const struct zm_codec_ops zm_codec_lz4 = {
	.name = "lz4",
	.level_min = 1,
	.level_max = LZ4_LEVEL_MAX,
	.level_default = LZ4_ACCELERATION_DEFAULT,
	.takes_dict = true,
	.params_setup = lz4_params_setup,
	.params_release = lz4_params_release,
	.context_create = lz4_context_create,
	.context_destroy = codec_free,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
};

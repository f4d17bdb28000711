// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's codecs but 842, under zram's names and in zram's order, and zword. */
#include "codec_linux.h"

const struct zm_codec_ops *const zm_codecs[] = {
#if IS_ENABLED(CONFIG_LZO_COMPRESS) && IS_ENABLED(CONFIG_LZO_DECOMPRESS)
	&zm_codec_lzorle,
	&zm_codec_lzo,
#endif
#if IS_ENABLED(CONFIG_LZ4_COMPRESS) && IS_ENABLED(CONFIG_LZ4_DECOMPRESS)
	&zm_codec_lz4,
#endif
#if IS_ENABLED(CONFIG_LZ4HC_COMPRESS) && IS_ENABLED(CONFIG_LZ4_DECOMPRESS)
	&zm_codec_lz4hc,
#endif
#if IS_ENABLED(CONFIG_ZSTD_COMPRESS) && IS_ENABLED(CONFIG_ZSTD_DECOMPRESS)
	&zm_codec_zstd,
#endif
#if IS_ENABLED(CONFIG_ZLIB_DEFLATE) && IS_ENABLED(CONFIG_ZLIB_INFLATE)
	&zm_codec_deflate,
#endif
	&zm_codec_zword,
};

const size_t zm_codec_count = ARRAY_SIZE(zm_codecs);

const struct zm_codec_ops *zm_codec_find(const char *name)
{
	size_t i;

	for (i = 0; i < zm_codec_count; i++)
		if (strcmp(zm_codecs[i]->name, name) == 0)
			return zm_codecs[i];
	return NULL;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The codecs of user space, under zram's names, and zword behind them.
 *
 * zram also offers 842, which neither port has: the kernel's does not check a
 * damaged stream against the end of the page, and user space has none to rely on.
 * What it would do with some pages can be measured on a device of zram's.
 */
#include <zmeld/codec.h>
#include "codec_user.h"

const struct zm_codec_ops *const zm_codecs[] = {
	&zm_codec_lzo,
	&zm_codec_lzorle,
	&zm_codec_lz4,
	&zm_codec_lz4hc,
	&zm_codec_zstd,
	&zm_codec_deflate,
	&zm_codec_zword,
};

const size_t zm_codec_count = sizeof(zm_codecs) / sizeof(zm_codecs[0]);

const struct zm_codec_ops *zm_codec_find(const char *name)
{
	for (size_t i = 0; i < zm_codec_count; i++) {
		if (strcmp(zm_codecs[i]->name, name) == 0)
			return zm_codecs[i];
	}
	return NULL;
}

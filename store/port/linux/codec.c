// SPDX-License-Identifier: GPL-2.0-or-later
/* The codecs that the kernel's configuration has libraries for. */
#include "codec_linux.h"

#define ROW_0(id)
#define ROW_1(id)		&zm_codec_##id,
#define ROW_IF(has, id)		ROW_##has(id)
#define ROW_WHERE(has, id)	ROW_IF(has, id)
#define ROW(id, name, least, most, dictionary, file, one, other) \
	ROW_WHERE(__and(IS_ENABLED(CONFIG_##one), IS_ENABLED(CONFIG_##other)), id)

const struct zm_codec_ops *const zm_codecs[] = { ZM_CODECS(ROW) };

const size_t zm_codec_count = ARRAY_SIZE(zm_codecs);

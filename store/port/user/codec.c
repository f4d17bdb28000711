// SPDX-License-Identifier: GPL-2.0-or-later
/* The codecs of user space. */
#include <zmeld/codecs.h>

#define ROW(id, ...) &zm_codec_##id,

const struct zm_codec_ops *const zm_codecs[] = { ZM_CODECS(ROW) };

const size_t zm_codec_count = sizeof(zm_codecs) / sizeof(zm_codecs[0]);

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the user-space codecs share: their tables, and the check that opens
 * every params_setup.
 */
#ifndef ZM_CODEC_USER_H
#define ZM_CODEC_USER_H

#include <zmeld/codec.h>

extern const struct zm_codec_ops zm_codec_lzo;
extern const struct zm_codec_ops zm_codec_lzorle;
extern const struct zm_codec_ops zm_codec_lz4;
extern const struct zm_codec_ops zm_codec_lz4hc;
extern const struct zm_codec_ops zm_codec_zstd;
extern const struct zm_codec_ops zm_codec_deflate;
extern const struct zm_codec_ops zm_codec_zword;

/*
 * Puts the default in the place of ZM_CODEC_LEVEL_DEFAULT and makes an empty
 * dictionary none. 0, or -EINVAL: a level outside level_min..level_max, or a
 * dictionary where none is taken.
 */
static inline int codec_level_setup(struct zm_codec_params *params,
				    int level_min, int level_max,
				    int level_default, bool takes_dict)
{
	params->prepared = NULL;
	if (params->level == ZM_CODEC_LEVEL_DEFAULT)
		params->level = level_default;
	if (params->level < level_min || params->level > level_max)
		return -EINVAL;
	if (!params->dict || params->dict_size == 0) {
		params->dict = NULL;
		params->dict_size = 0;
	}
	return params->dict && !takes_dict ? -EINVAL : 0;
}

#endif /* ZM_CODEC_USER_H */

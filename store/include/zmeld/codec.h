/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Codecs: how a page is compressed.
 *
 * Three things are kept apart, because they live for different times:
 *
 *   ops      a codec's functions; constant, one table per codec;
 *   params   what a store chose: the level, prepared once, then only read, by all
 *            processors at once;
 *   context  the working memory of one processor, reused for every page (a new
 *            zstd context per page would halve its speed).
 *
 * Each port of the store (port/user, port/linux) brings its own tables under
 * the same names. What one compresses, the other reads, and both produce what
 * the kernel's zram would: same formats, same defaults.
 *
 * Invariants:
 *   - compress writes at most the capacity it was given;
 *   - decompress writes exactly dst_size bytes or fails; it reads no byte
 *     outside src and writes none outside dst, whatever src holds; no size is
 *     above 1 GiB, since libraries count in int;
 *   - both are deterministic: same params and bytes in, same bytes out, whatever
 *     the context was used for before.
 */
#ifndef ZMELD_CODEC_H
#define ZMELD_CODEC_H

#include <zm_platform.h>

/* Level left to the codec: the one that the kernel's zram takes. */
#define ZM_CODEC_LEVEL_DEFAULT	(-2147483647 - 1)

struct zm_codec_params {
	int level;		/* in: a level or ZM_CODEC_LEVEL_DEFAULT */
	/*
	 * in: bytes of the pages that are compressed, for codecs that choose by it;
	 * 0: the port's own. In user space pages of other machines are measured.
	 */
	u32 page_size;
	void *prepared;		/* out: the codec's own, e.g. its tables */
};

struct zm_codec_ops {
	const char *name;	/* as zram's comp_algorithm spells it */
	int level_min;		/* level_min == level_max: no levels */
	int level_max;
	int level_default;	/* what zram uses when none is given */
	bool check_writes;	/* what it encodes is checked unless told not to */

	/*
	 * Prepares what all contexts share, and gives it back; NULL where there is
	 * nothing: see zm_codec_setup(). 0, -EINVAL, -ENOMEM. May sleep.
	 */
	int (*prepare)(struct zm_codec_params *params);
	void (*release)(struct zm_codec_params *params);

	/* 0 and a context, or -ENOMEM. May sleep. */
	int (*context_create)(const struct zm_codec_params *params, void **ctx);
	void (*context_destroy)(void *ctx);

	/*
	 * Compresses src. *dst_size: in the capacity, out the bytes written.
	 * 0, or -ENOSPC when the result does not fit (dst then holds garbage).
	 * Does not sleep, allocates nothing.
	 */
	int (*compress)(void *ctx, const struct zm_codec_params *params,
			const void *src, size_t src_size,
			void *dst, size_t *dst_size);

	/*
	 * Decompresses src into exactly dst_size bytes.
	 * 0, or -EBADMSG: damaged, or not dst_size bytes. Does not sleep,
	 * allocates nothing.
	 */
	int (*decompress)(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t dst_size);
};

/*
 * A store knows its codecs by priority: 0 compresses what is written, the
 * others recompress it later, the higher the harder, as zram counts them.
 */
#define ZM_PRIORITIES	4

struct zm_codec_choice {
	const struct zm_codec_ops *ops;	/* NULL: no codec of this priority */
	struct zm_codec_params params;
};

/*
 * Makes params ready for contexts: with the codec's default in the place of
 * ZM_CODEC_LEVEL_DEFAULT. 0, -EINVAL (a level that the codec does not have, or
 * pages that it does not take), -ENOMEM.
 */
static inline int zm_codec_setup(const struct zm_codec_ops *ops,
				 struct zm_codec_params *params)
{
	params->prepared = NULL;
	if (params->level == ZM_CODEC_LEVEL_DEFAULT)
		params->level = ops->level_default;
	if (params->level < ops->level_min || params->level > ops->level_max)
		return -EINVAL;
	return ops->prepare ? ops->prepare(params) : 0;
}

static inline void zm_codec_release(const struct zm_codec_ops *ops,
				    struct zm_codec_params *params)
{
	if (ops->release)
		ops->release(params);
}

/* All codecs of this port, in the order a list shows them. */
extern const struct zm_codec_ops *const zm_codecs[];
extern const size_t zm_codec_count;

#endif /* ZMELD_CODEC_H */

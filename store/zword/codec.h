/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zword as a codec of the store, which zram does not have. Its tables stand once,
 * for all who have chosen it: the first one makes and tries them, or borrows what a port
 * has (ZWORD_TABLES), the last one gives them back.
 *
 * Each port takes this once, behind its own memory and its own lock; see codec_*.h.
 */
#ifndef ZWORD_CODEC_H
#define ZWORD_CODEC_H

#include <zmeld/codecs.h>

#include "zword.h"

#ifndef ZWORD_TABLES
static const struct zword_tables *zword_tables_borrow(void)
{
	return NULL;
}

static void zword_tables_return(void)
{
}
#endif

static CODEC_LOCK(zword_lock);			/* of all three */
static const struct zword_tables *zword_shared;
static struct zword_tables *zword_own;		/* NULL: they are borrowed */
static u32 zword_users;

static int zword_tables_take(void)
{
	int ret;

	zword_shared = zword_tables_borrow();
	if (zword_shared)
		return 0;
	zword_own = zword_tables_alloc();
	if (!zword_own)
		return -ENOMEM;
	ret = zword_tables_build(zword_own, zword_lengths, zword_lengths_size);
	if (!ret)
		ret = zword_tables_try(zword_own);
	if (ret) {
		zword_tables_free(zword_own);
		zword_own = NULL;
	}
	zword_shared = zword_own;
	return ret;
}

static void zword_tables_give_back(void)
{
	if (!zword_own)
		zword_tables_return();
	zword_tables_free(zword_own);
	zword_own = NULL;
}

static int zword_prepare(struct zm_codec_params *params)
{
	int ret = 0;

	/* Of a machine with larger pages, it would keep all of them raw. */
	if (ZM_PAGE_SIZE > ZWORD_PAGE_SIZE_MAX)
		return -EINVAL;
	codec_lock(&zword_lock);
	if (!zword_users)
		ret = zword_tables_take();
	if (!ret) {
		zword_users++;
		params->prepared = (void *)zword_shared;
	}
	codec_unlock(&zword_lock);
	return ret;
}

static void zword_release(struct zm_codec_params *params)
{
	if (!params->prepared)
		return;
	codec_lock(&zword_lock);
	if (!--zword_users)
		zword_tables_give_back();
	codec_unlock(&zword_lock);
	params->prepared = NULL;
}

static int zword_context_create(const struct zm_codec_params *params, void **ctx)
{
	(void)params;
	*ctx = codec_alloc(sizeof(struct zword_work));
	return *ctx ? 0 : -ENOMEM;
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
	.name = zword_name,
	.level_min = zword_level_min,
	.level_max = zword_level_max,
	.level_default = ZWORD_LEVEL_GLANCE,
	.check_writes = true,
	.prepare = zword_prepare,
	.release = zword_release,
	.context_create = zword_context_create,
	.context_destroy = codec_free,
	.compress = zword_page_compress,
	.decompress = zword_page_decompress,
};

#endif /* ZWORD_CODEC_H */

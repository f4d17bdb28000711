// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zstd, by the zstd library.
 *
 * As zram does: the parameters of a level are those for a source of one page,
 * the frame says its content's size and carries no checksum.
 *
 * A context is the library's, which may take memory for its first pages.
 *
 * Invariants:
 *   - the same page gives the same bytes, whatever came before. The row match
 *     finder salts its hashes by its history, so it is never used; the library
 *     would use it only for pages above 16 KiB;
 *   - and whatever the capacity is. The library works on several bytes past
 *     those it keeps, and with less room than that it fails or writes
 *     something else; so it is always given its bound, in dst or in the
 *     context's own memory.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include <stdlib.h>
#include <zstd.h>
#include "codec_user.h"

#define ZSTD_LEVEL_DEFAULT	ZSTD_CLEVEL_DEFAULT

/* The largest page there is; larger sources need a dst of the bound. */
#define ZSTD_BOUND		ZSTD_COMPRESSBOUND(65536)

_Static_assert(zstd_level_min == -ZSTD_TARGETLENGTH_MAX,
	       "the fastest level that the library takes");

struct zstd_context {
	ZSTD_CCtx *compressor;
	ZSTD_DCtx *decompressor;
	u8 object[ZSTD_BOUND];
};

static void zstd_context_destroy(void *ctx)
{
	struct zstd_context *context = ctx;

	if (!context)
		return;
	ZSTD_freeCCtx(context->compressor);
	ZSTD_freeDCtx(context->decompressor);
	free(context);
}

/* Sets what every page uses. */
static bool zstd_settings_apply(ZSTD_CCtx *compressor,
				const struct zm_codec_params *params)
{
	const u32 page_size = params->page_size ? params->page_size : ZM_PAGE_SIZE;
	ZSTD_parameters chosen = ZSTD_getParams(params->level, page_size, 0);

	return !ZSTD_isError(ZSTD_CCtx_setParams(compressor, chosen)) &&
	       !ZSTD_isError(ZSTD_CCtx_setParameter(compressor,
						    ZSTD_c_useRowMatchFinder,
						    ZSTD_ps_disable));
}

static int zstd_context_create(const struct zm_codec_params *params, void **ctx)
{
	struct zstd_context *context = calloc(1, sizeof(*context));

	if (!context)
		return -ENOMEM;
	context->compressor = ZSTD_createCCtx();
	context->decompressor = ZSTD_createDCtx();
	if (!context->compressor || !context->decompressor ||
	    !zstd_settings_apply(context->compressor, params)) {
		zstd_context_destroy(context);
		return -ENOMEM;
	}
	*ctx = context;
	return 0;
}

static int zstd_compress(void *ctx, const struct zm_codec_params *params,
			 const void *src, size_t src_size,
			 void *dst, size_t *dst_size)
{
	struct zstd_context *context = ctx;
	const size_t bound = ZSTD_compressBound(src_size);
	const bool in_place = *dst_size >= bound || bound > ZSTD_BOUND;
	void *object = in_place ? dst : context->object;
	size_t room = in_place ? *dst_size : ZSTD_BOUND;
	size_t size;

	(void)params;
	size = ZSTD_compress2(context->compressor, object, room, src, src_size);
	if (ZSTD_isError(size) || size > *dst_size)
		return -ENOSPC;
	if (!in_place)
		memcpy(dst, object, size);
	*dst_size = size;
	return 0;
}

static int zstd_decompress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t dst_size)
{
	const struct zstd_context *context = ctx;

	(void)params;
	/* An error is a size that no page has. */
	return ZSTD_decompressDCtx(context->decompressor, dst, dst_size, src,
				   src_size) == dst_size ? 0 : -EBADMSG;
}

const struct zm_codec_ops zm_codec_zstd = {
	.name = zstd_name,
	.level_min = zstd_level_min,
	.level_max = zstd_level_max,
	.level_default = ZSTD_LEVEL_DEFAULT,
	.context_create = zstd_context_create,
	.context_destroy = zstd_context_destroy,
	.compress = zstd_compress,
	.decompress = zstd_decompress,
};

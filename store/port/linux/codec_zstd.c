// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zstd, by the kernel's lib/zstd.
 *
 * As zram does: the parameters of a level are those for a source of one page;
 * a dictionary is digested once, by reference, for both directions.
 *
 * Without a dictionary both contexts are memory of a size known before, so no
 * page can make them grow. With one, the library allocates by what it is given:
 * a first page of zeros grows the compressor when it is made.
 *
 * The library works on several bytes past those it keeps, and with less room
 * than its bound it may fail or write something else: the same page would then
 * not always give the same bytes. So it is asked only with room for the bound.
 */
#include <linux/mm.h>
#include <linux/zstd.h>

#include "codec_linux.h"
#include "compat.h"

#define ZSTD_LEVEL_MIN		(-131072)	/* zstd_min_clevel() */
#define ZSTD_LEVEL_MAX		22		/* zstd_max_clevel() */
#define ZSTD_LEVEL_DEFAULT	3		/* zstd_default_clevel() */

struct zstd_prepared {
	zstd_parameters settings;
#if ZM_HAS_ZSTD_DICTIONARIES
	zstd_cdict *compressing;
	zstd_ddict *decompressing;
#endif
};

struct zstd_context {
	zstd_cctx *compressor;
	zstd_dctx *decompressor;
	void *compressor_memory;	/* NULL: the library's own */
	void *decompressor_memory;
};

/* -- Dictionaries ---------------------------------------------------------- */

#if ZM_HAS_ZSTD_DICTIONARIES

static void *zstd_memory_take(void *opaque, size_t size)
{
	return kvzalloc(size, GFP_NOIO | __GFP_NOWARN);
}

static void zstd_memory_give(void *opaque, void *address)
{
	kvfree(address);
}

static const zstd_custom_mem zstd_memory = {
	.customAlloc = zstd_memory_take,
	.customFree = zstd_memory_give,
};

static void zstd_dict_release(struct zstd_prepared *prepared)
{
	zstd_free_cdict(prepared->compressing);
	zstd_free_ddict(prepared->decompressing);
}

/* Refused or no memory: the library does not tell. */
static bool zstd_dict_digest(struct zstd_prepared *prepared,
			     const struct zm_codec_params *params)
{
	zstd_compression_parameters chosen =
		zstd_get_cparams(params->level, PAGE_SIZE, params->dict_size);

	prepared->compressing =
		zstd_create_cdict_byreference(params->dict, params->dict_size,
					      chosen, zstd_memory);
	prepared->decompressing =
		zstd_create_ddict_byreference(params->dict, params->dict_size,
					      zstd_memory);
	return prepared->compressing && prepared->decompressing;
}

static void zstd_library_contexts_free(struct zstd_context *context)
{
	if (!context->compressor_memory)
		zstd_free_cctx(context->compressor);
	if (!context->decompressor_memory)
		zstd_free_dctx(context->decompressor);
}

static bool zstd_dict_contexts_create(struct zstd_context *context,
				      const struct zstd_prepared *prepared)
{
	size_t bound = zstd_compress_bound(PAGE_SIZE), size;
	u8 *bytes = kvzalloc(PAGE_SIZE + bound, GFP_KERNEL);

	context->compressor = zstd_create_cctx_advanced(zstd_memory);
	context->decompressor = zstd_create_dctx_advanced(zstd_memory);
	if (!bytes || !context->compressor || !context->decompressor) {
		kvfree(bytes);
		return false;
	}
	size = zstd_compress_using_cdict(context->compressor, bytes + PAGE_SIZE,
					 bound, bytes, PAGE_SIZE,
					 prepared->compressing);
	kvfree(bytes);
	return !zstd_is_error(size);
}

static size_t zstd_dict_compress(struct zstd_context *context,
				 const struct zstd_prepared *prepared,
				 const void *src, size_t src_size,
				 void *dst, size_t dst_size)
{
	return zstd_compress_using_cdict(context->compressor, dst, dst_size,
					 src, src_size, prepared->compressing);
}

static size_t zstd_dict_decompress(struct zstd_context *context,
				   const struct zstd_prepared *prepared,
				   const void *src, size_t src_size,
				   void *dst, size_t dst_size)
{
	return zstd_decompress_using_ddict(context->decompressor, dst, dst_size,
					   src, src_size,
					   prepared->decompressing);
}

#else /* a dictionary is refused before it gets here */

#define zstd_dict_release(prepared)		((void)0)
#define zstd_dict_digest(prepared, params)	false
#define zstd_library_contexts_free(context)	((void)0)
#define zstd_dict_contexts_create(context, prepared)	false
#define zstd_dict_compress(context, prepared, src, src_size, dst, dst_size) 0
#define zstd_dict_decompress(context, prepared, src, src_size, dst, dst_size) 0

#endif

/* -- Params ---------------------------------------------------------------- */

static void zstd_params_release(struct zm_codec_params *params)
{
	struct zstd_prepared *prepared = params->prepared;

	params->prepared = NULL;
	if (!prepared)
		return;
	zstd_dict_release(prepared);
	kfree(prepared);
}

static int zstd_params_setup(struct zm_codec_params *params)
{
	struct zstd_prepared *prepared;
	int ret;

	ret = zm_codec_params_check(params, &zm_codec_zstd);
	if (ret)
		return ret;
	prepared = kzalloc(sizeof(*prepared), GFP_KERNEL);
	if (!prepared)
		return -ENOMEM;
	params->prepared = prepared;
	prepared->settings = zstd_get_params(params->level, PAGE_SIZE);
	if (params->dict && !zstd_dict_digest(prepared, params)) {
		zstd_params_release(params);
		return -EINVAL;
	}
	return 0;
}

/* -- Contexts -------------------------------------------------------------- */

static void zstd_context_destroy(void *ctx)
{
	struct zstd_context *context = ctx;

	if (!context)
		return;
	zstd_library_contexts_free(context);
	kvfree(context->compressor_memory);
	kvfree(context->decompressor_memory);
	kfree(context);
}

/* Both in memory of their own, big enough for every page. */
static bool zstd_contexts_place(struct zstd_context *context,
				const struct zstd_prepared *prepared)
{
	size_t size = zstd_cctx_workspace_bound(&prepared->settings.cParams);

	context->compressor_memory = kvzalloc(size, GFP_KERNEL);
	if (!context->compressor_memory)
		return false;
	context->compressor = zstd_init_cctx(context->compressor_memory, size);
	size = zstd_dctx_workspace_bound();
	context->decompressor_memory = kvzalloc(size, GFP_KERNEL);
	if (!context->decompressor_memory)
		return false;
	context->decompressor = zstd_init_dctx(context->decompressor_memory,
					       size);
	return context->compressor && context->decompressor;
}

static int zstd_context_create(const struct zm_codec_params *params, void **ctx)
{
	struct zstd_context *context = kzalloc(sizeof(*context), GFP_KERNEL);
	bool made;

	if (!context)
		return -ENOMEM;
	if (params->dict)
		made = zstd_dict_contexts_create(context, params->prepared);
	else
		made = zstd_contexts_place(context, params->prepared);
	if (!made) {
		zstd_context_destroy(context);
		return -ENOMEM;
	}
	*ctx = context;
	return 0;
}

/* -- Pages ----------------------------------------------------------------- */

static int zstd_compress(void *ctx, const struct zm_codec_params *params,
			 const void *src, size_t src_size,
			 void *dst, size_t *dst_size)
{
	const struct zstd_prepared *prepared = params->prepared;
	struct zstd_context *context = ctx;
	size_t size;

	if (*dst_size < zstd_compress_bound(src_size))
		return -ENOSPC;
	if (params->dict)
		size = zstd_dict_compress(context, prepared, src, src_size,
					  dst, *dst_size);
	else
		size = zstd_compress_cctx(context->compressor, dst, *dst_size,
					  src, src_size, &prepared->settings);
	if (zstd_is_error(size))
		return -ENOSPC;
	*dst_size = size;
	return 0;
}

static int zstd_decompress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t dst_size)
{
	struct zstd_context *context = ctx;
	size_t size;

	if (params->dict)
		size = zstd_dict_decompress(context, params->prepared, src,
					    src_size, dst, dst_size);
	else
		size = zstd_decompress_dctx(context->decompressor, dst,
					    dst_size, src, src_size);
	/* An error is a size that no page has. */
	return size == dst_size ? 0 : -EBADMSG;
}

const struct zm_codec_ops zm_codec_zstd = {
	.name = "zstd",
	.level_min = ZSTD_LEVEL_MIN,
	.level_max = ZSTD_LEVEL_MAX,
	.level_default = ZSTD_LEVEL_DEFAULT,
	.takes_dict = ZM_HAS_ZSTD_DICTIONARIES,
	.params_setup = zstd_params_setup,
	.params_release = zstd_params_release,
	.context_create = zstd_context_create,
	.context_destroy = zstd_context_destroy,
	.compress = zstd_compress,
	.decompress = zstd_decompress,
};

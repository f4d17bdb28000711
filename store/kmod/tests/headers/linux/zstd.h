/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STUB_ZSTD_H
#define STUB_ZSTD_H

#include <linux/types.h>

typedef struct zstd_cctx_stub zstd_cctx;
typedef struct zstd_dctx_stub zstd_dctx;

#if KERNEL >= 612
typedef struct zstd_cdict_stub zstd_cdict;
typedef struct zstd_ddict_stub zstd_ddict;
typedef struct {
	int level;
} zstd_compression_parameters;
typedef struct {
	void *(*customAlloc)(void *opaque, size_t size);
	void (*customFree)(void *opaque, void *address);
	void *opaque;
} zstd_custom_mem;

zstd_compression_parameters zstd_get_cparams(int level,
					     unsigned long long source_size,
					     size_t dict_size);
zstd_cctx *zstd_create_cctx_advanced(zstd_custom_mem memory);
zstd_dctx *zstd_create_dctx_advanced(zstd_custom_mem memory);
size_t zstd_free_cctx(zstd_cctx *cctx);
size_t zstd_free_dctx(zstd_dctx *dctx);
zstd_cdict *zstd_create_cdict_byreference(const void *dict, size_t size,
					  zstd_compression_parameters chosen,
					  zstd_custom_mem memory);
zstd_ddict *zstd_create_ddict_byreference(const void *dict, size_t size,
					  zstd_custom_mem memory);
size_t zstd_free_cdict(zstd_cdict *cdict);
size_t zstd_free_ddict(zstd_ddict *ddict);
size_t zstd_compress_using_cdict(zstd_cctx *cctx, void *to, size_t room,
				 const void *from, size_t size,
				 const zstd_cdict *cdict);
size_t zstd_decompress_using_ddict(zstd_dctx *dctx, void *to, size_t room,
				   const void *from, size_t size,
				   const zstd_ddict *ddict);
#endif

#endif

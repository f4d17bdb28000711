// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zstd digests a dictionary once, by reference: 6.12.
 *
 * WITHOUT: zstd takes no dictionary (algorithm_params dict=)
 */
#include <linux/zstd.h>

#if ZM_PROBED
static size_t __maybe_unused probe(zstd_custom_mem memory, void *bytes)
{
	zstd_compression_parameters chosen = zstd_get_cparams(3, 4096, 4096);
	zstd_cdict *into = zstd_create_cdict_byreference(bytes, 4096, chosen,
							 memory);
	zstd_ddict *from = zstd_create_ddict_byreference(bytes, 4096, memory);
	zstd_cctx *compressor = zstd_create_cctx_advanced(memory);
	zstd_dctx *decompressor = zstd_create_dctx_advanced(memory);

	zstd_compress_using_cdict(compressor, bytes, 64, bytes, 64, into);
	zstd_free_cctx(compressor);
	zstd_free_cdict(into);
	return zstd_decompress_using_ddict(decompressor, bytes, 64, bytes, 64,
					   from) +
	       zstd_free_dctx(decompressor) + zstd_free_ddict(from);
}
#endif

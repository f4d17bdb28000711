/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The codecs, one row each, in zram's order. To add one: a row here, and its file in each
 * port. Both ports' tables, the module's Kbuild and zmeld's configuration come from the rows;
 * Kbuild and Rust read them as text, a row a line.
 *
 *	id		of its table, zm_codec_ID
 *	name		as zram's comp_algorithm spells it
 *	least, most	levels that make sense; the same: it has none
 *	dictionary	whether zram's takes one
 *	file		of the kernel's port, codec_FILE.c
 *	two options	of the kernel, without which it has no library for it
 *
 * zram also offers 842, which neither port has: the kernel's does not check a damaged stream
 * against the end of the page, and user space has none to rely on.
 */
#ifndef ZMELD_CODECS_H
#define ZMELD_CODECS_H

#include <zmeld/codec.h>

#define ZM_CODECS(ROW) \
	ROW(lzorle, "lzo-rle", 0, 0, 0, lzo, LZO_COMPRESS, LZO_DECOMPRESS) \
	ROW(lzo, "lzo", 0, 0, 0, lzo, LZO_COMPRESS, LZO_DECOMPRESS) \
	ROW(lz4, "lz4", 1, 65537, 1, lz4, LZ4_COMPRESS, LZ4_DECOMPRESS) \
	ROW(lz4hc, "lz4hc", 1, 16, 1, lz4hc, LZ4HC_COMPRESS, LZ4_DECOMPRESS) \
	ROW(zstd, "zstd", -131072, 22, 1, zstd, ZSTD_COMPRESS, ZSTD_DECOMPRESS) \
	ROW(deflate, "deflate", 0, 9, 0, deflate, ZLIB_DEFLATE, ZLIB_INFLATE) \
	ROW(zword, "zword", 1, 2, 0, zword, BLOCK, BLOCK)

/* What a table takes from its row: ID_name, ID_level_min, ID_level_max. */
#define ZM_CODEC_ROW(id, its_name, least, most, ...) \
	extern const struct zm_codec_ops zm_codec_##id; \
	static const char id##_name[] __attribute__((unused)) = its_name; \
	enum { id##_level_min = least, id##_level_max = most };

ZM_CODECS(ZM_CODEC_ROW)

#endif /* ZMELD_CODECS_H */

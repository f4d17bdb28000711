/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes and words at any address, in the same order on every machine. Each
 * becomes one instruction where the machine can do it in one.
 */
#ifndef ZM_CODEC_BYTES_H
#define ZM_CODEC_BYTES_H

#include <zm_platform.h>

static inline u32 load_le16(const u8 *at)
{
	return (u32)at[0] | (u32)at[1] << 8;
}

static inline u32 load_le32(const u8 *at)
{
	u32 word;

	memcpy(&word, at, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap32(word);
#endif
	return word;
}

static inline u64 load_le64(const u8 *at)
{
	u64 word;

	memcpy(&word, at, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

/* How many bytes were equal before diff, two words' exclusive or, not 0. */
static inline size_t equal_bytes(u64 diff)
{
	return (size_t)__builtin_ctzll(diff) / 8;
}

/* Loads before it stores: the two may overlap. */
static inline void copy_4(u8 *to, const u8 *from)
{
	u32 word;

	memcpy(&word, from, sizeof(word));
	memcpy(to, &word, sizeof(word));
}

static inline void copy_8(u8 *to, const u8 *from)
{
	u64 word;

	memcpy(&word, from, sizeof(word));
	memcpy(to, &word, sizeof(word));
}

static inline void copy_16(u8 *to, const u8 *from)
{
	u64 word[2];

	memcpy(word, from, sizeof(word));
	memcpy(to, word, sizeof(word));
}

#endif /* ZM_CODEC_BYTES_H */

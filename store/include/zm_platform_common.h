/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What both ports' zm_platform.h have for the core, and take from here: it has conditions,
 * and the core and its headers have none. Behind a port's types.
 */
#ifndef ZM_PLATFORM_COMMON_H
#define ZM_PLATFORM_COMMON_H

/* Fewer in tests only, so that pages of one fingerprint abound. */
#ifndef ZM_FINGERPRINT_BITS
#define ZM_FINGERPRINT_BITS 32
#endif
/* Fewer in tests only, so that shares fill up. */
#ifndef ZM_SHARE_SLOTS_MAX
#define ZM_SHARE_SLOTS_MAX (1u << 31)
#endif

/* A word that several work on at once, within one cache line on machines of 32 bits, too. */
#define zm_shared64 _Alignas(sizeof(u64)) u64

static inline bool zm_equal(const void *one, const void *other, size_t size)
{
	return !memcmp(one, other, size);
}

/* 128-bit multiply and add. */
#ifdef __SIZEOF_INT128__

static inline void zm_mul128_add(u64 *low, u64 *high, u64 a, u64 b)
{
	unsigned __int128 sum = ((unsigned __int128)*high << 64) | *low;

	sum += (unsigned __int128)a * b;
	*low = (u64)sum;
	*high = (u64)(sum >> 64);
}

#else

/* From four products of halves, as machines of 32 bits have them. */
static inline void zm_mul128_add(u64 *low, u64 *high, u64 a, u64 b)
{
	u64 low_low = (u64)(u32)a * (u32)b;
	u64 low_high = (u64)(u32)a * (u32)(b >> 32);
	u64 high_low = (u64)(u32)(a >> 32) * (u32)b;
	u64 high_high = (u64)(u32)(a >> 32) * (u32)(b >> 32);
	u64 middle = (low_low >> 32) + (u32)low_high + (u32)high_low;
	u64 product = middle << 32 | (u32)low_low;

	*low += product;
	*high += high_high + (low_high >> 32) + (high_low >> 32) +
		 (middle >> 32) + (*low < product);
}

#endif

#endif /* ZM_PLATFORM_COMMON_H */

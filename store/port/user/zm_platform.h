/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User space as the store's port: the types, atomics and slot lock that the
 * core and its headers are written in. The kernel's port brings the same names
 * from linux/types.h, linux/atomic.h and their kin.
 *
 * What the core may take from a port header:
 *   u8 u16 u32 u64 s64 size_t bool, errno names, memcpy memcmp memset memmove;
 *   ZM_PAGE_SHIFT ZM_PAGE_SIZE ZM_FINGERPRINT_BITS (1 to 32) ZM_SHARE_SLOTS_MAX;
 *   zm_load32 zm_load64        relaxed reads of words that others may write;
 *   zm_set32 zm_set64          relaxed writes of such words;
 *   zm_add64 zm_max64          counters: relaxed read-modify-write;
 *   zm_percpu_add                a counter in lanes, see port.h: relaxed;
 *   zm_publish zm_consume      a pointer, with what it points to;
 *   zm_bit_lock and kin        a spinning lock in bit 0 of a word: acquire and
 *                              release, no sleeping while it is held; each is
 *                              told which kind it is, see zmeld/lock.h; two
 *                              slots' are taken by one function;
 *   zm_acquires zm_releases zm_must_hold zm_acquired zm_released zm_acquired_if
 *                              what a function does with a lock, for a checker;
 *   zm_get64 zm_put64          a word of a page's bytes, at any address: not every
 *                              kernel makes one instruction of a small memcpy;
 *   zm_equal                   whether bytes are the same;
 *   zm_mul128_add              128-bit multiply and add;
 *   zm_prefetch                a hint, no effect but speed;
 *   __always_inline noinline   as their names say.
 * zword takes the kernel's own helpers: get_unaligned() and kin, min(), BIT(), fls64(),
 * __ffs64(), static_assert().
 */
#ifndef ZM_PLATFORM_H
#define ZM_PLATFORM_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <zmeld/lock.h>

#include "lockcheck.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;	/* as the kernel has it, for %llu */
typedef int64_t s64;

/* The page of the machine that is predicted for; 12 is 4 KiB. */
#ifndef ZM_PAGE_SHIFT
#define ZM_PAGE_SHIFT 12
#endif
#define ZM_PAGE_SIZE (1u << ZM_PAGE_SHIFT)

/* Where a copy for each value of an argument is wanted, and where none is. */
#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif
#ifndef noinline
#define noinline __attribute__((__noinline__))
#endif

#define zm_printf_like(words, first) \
	__attribute__((format(printf, words, first)))

/* Nobody counts locks by type here; lockcheck.h does it as the program runs. */
#define zm_acquires(lock)
#define zm_releases(lock)
#define zm_must_hold(lock)
#define zm_acquired(lock) ((void)0)
#define zm_released(lock) ((void)0)
#define zm_acquired_if(lock, got) (got)

static inline u32 zm_load32(const u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Across two cache lines it is no one word where words have 32 bits. */
static inline void zm_assert_aligned(const u64 *word)
{
	if (sizeof(void *) < sizeof(u64) && (uintptr_t)word % sizeof(u64))
		__builtin_trap();
}

static inline u64 zm_load64(const u64 *word)
{
	zm_assert_aligned(word);
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void zm_set32(u32 *word, u32 value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline void zm_set64(u64 *word, u64 value)
{
	zm_assert_aligned(word);
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline u64 zm_add64(u64 *word, u64 value)
{
	zm_assert_aligned(word);
	return __atomic_add_fetch(word, value, __ATOMIC_RELAXED);
}

/* One lane: threads of user space are few, and nobody waits for them. */
static inline void zm_percpu_add(u64 *counter, u64 value)
{
	zm_add64(counter, value);
}

static inline void zm_max64(u64 *word, u64 value)
{
	u64 old = zm_load64(word);

	while (old < value &&
	       !__atomic_compare_exchange_n(word, &old, value, true,
					    __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

#define zm_publish(where, pointer) \
	__atomic_store_n(where, pointer, __ATOMIC_RELEASE)
#define zm_consume(where) __atomic_load_n(where, __ATOMIC_ACQUIRE)

/* Gives the processor away after many tries: the holder may have lost it. */
void zm_port_relax(u32 tries);

static inline bool zm_bit_trylock(u32 *word, enum zm_lock lock)
{
	u32 old = zm_load32(word) & ~1u;

	if (!__atomic_compare_exchange_n(word, &old, old | 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	zm_held_add(word, lock);
	return true;
}

static inline void zm_bit_lock(u32 *word, enum zm_lock lock)
{
	u32 tries = 0;

	zm_held_wait(word, lock);
	while (!zm_bit_trylock(word, lock))
		zm_port_relax(++tries);
}

/* Unlocks and sets the word's other bits in one store. */
static inline void zm_bit_unlock(u32 *word, u32 value, enum zm_lock lock)
{
	(void)lock;
	zm_held_remove(word);
	__atomic_store_n(word, value & ~1u, __ATOMIC_RELEASE);
	zm_held_between();
}

/* Two slots' words, that of the lower index first. */
static inline void zm_bit_lock_two(u32 *lower, u32 *higher)
{
	zm_bit_lock(lower, ZM_LOCK_SLOT);
	zm_bit_lock(higher, ZM_LOCK_SLOT_SECOND);
}

static inline void zm_bit_unlock_two(u32 *lower, u32 *higher)
{
	zm_bit_unlock(higher, zm_load32(higher), ZM_LOCK_SLOT_SECOND);
	zm_bit_unlock(lower, zm_load32(lower), ZM_LOCK_SLOT);
}

/* By this thread; looked at under the sanitizers, where all tests run. */
static inline void zm_bit_assert_locked(const u32 *word)
{
	zm_held_expect(word);
}

static inline u64 zm_get64(const void *bytes)
{
	u64 word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static inline void zm_put64(void *bytes, u64 word)
{
	memcpy(bytes, &word, sizeof(word));
}

/* -- The kernel's helpers -------------------------------------------------- */

/* What is behind a pointer, of that many bytes, at any address. */
#define get_unaligned(at) ({ \
	__typeof__(+*(at)) zm_word; \
	memcpy(&zm_word, at, sizeof(zm_word)); \
	zm_word; \
})
#define put_unaligned(word, at) ({ \
	__typeof__(*(at)) zm_word = (word); \
	memcpy(at, &zm_word, sizeof(zm_word)); \
})

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define zm_le(bits, word) __builtin_bswap##bits(word)
#else
#define zm_le(bits, word) (word)
#endif

static inline u32 get_unaligned_le16(const void *at)
{
	u16 word;

	memcpy(&word, at, sizeof(word));
	return zm_le(16, word);
}

static inline u32 get_unaligned_le32(const void *at)
{
	return zm_le(32, get_unaligned((const u32 *)at));
}

static inline u64 get_unaligned_le64(const void *at)
{
	return zm_le(64, get_unaligned((const u64 *)at));
}

static inline void put_unaligned_le32(u32 word, void *at)
{
	put_unaligned(zm_le(32, word), (u32 *)at);
}

static inline void put_unaligned_le64(u64 word, void *at)
{
	put_unaligned(zm_le(64, word), (u64 *)at);
}

#define min_t(type, one, other) ({ \
	type zm_one = (one), zm_other = (other); \
	zm_one < zm_other ? zm_one : zm_other; \
})
#define min(one, other) min_t(__typeof__(one), one, other)

#define BIT(number) (1ul << (number))

/* The highest bit's number, from 1; 0: there is none. */
static inline int fls64(u64 word)
{
	return word ? 64 - __builtin_clzll(word) : 0;
}

/* The lowest bit's number, from 0; there must be one. */
static inline unsigned int __ffs64(u64 word)
{
	return (unsigned int)__builtin_ctzll(word);
}

#include <zm_platform_common.h>

static inline void zm_prefetch(const void *where)
{
	__builtin_prefetch(where);
}

#endif /* ZM_PLATFORM_H */

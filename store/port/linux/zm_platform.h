/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel as the store's port: the types, atomics and slot lock that the
 * core and its headers are written in, under the names that
 * port/user/zm_platform.h lists.
 *
 * The words are plain u32 and u64, because they stand in structures that user
 * space shares; here those of 64 bits are worked on as atomic64_t, which has the
 * same size, so that machines of 32 bits do it in one piece as well.
 */
#ifndef ZM_PLATFORM_H
#define ZM_PLATFORM_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/prefetch.h>
#include <linux/processor.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/version.h>

/* By the version: sparse does not look whether there is a file. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#include <zmeld/lock.h>

#define ZM_PAGE_SHIFT PAGE_SHIFT
#define ZM_PAGE_SIZE (1u << ZM_PAGE_SHIFT)

#define zm_printf_like(words, first) __printf(words, first)

/*
 * What a function does with a lock of the core, for sparse: it counts locks along each
 * path and finds the one that forgets to unlock. It tells no lock from another.
 */
#ifdef __CHECKER__
#define zm_acquires(lock)	__attribute__((context(lock, 0, 1)))
#define zm_releases(lock)	__attribute__((context(lock, 1, 0)))
#define zm_must_hold(lock)	__attribute__((context(lock, 1, 1)))
#define zm_acquired(lock)	__context__(lock, 1)
#define zm_released(lock)	__context__(lock, -1)
#define zm_acquired_if(lock, got) ((got) ? ({ zm_acquired(lock); true; }) : false)
#else
#define zm_acquires(lock)
#define zm_releases(lock)
#define zm_must_hold(lock)
#define zm_acquired(lock)	((void)0)
#define zm_released(lock)	((void)0)
#define zm_acquired_if(lock, got) (got)
#endif

static_assert(sizeof(atomic64_t) == sizeof(u64), "counters are 64 bits");

static inline u32 zm_load32(const u32 *word)
{
	return READ_ONCE(*word);
}

static inline u64 zm_load64(const u64 *word)
{
	return atomic64_read((const atomic64_t *)word);
}

static inline void zm_set32(u32 *word, u32 value)
{
	WRITE_ONCE(*word, value);
}

static inline void zm_set64(u64 *word, u64 value)
{
	atomic64_set((atomic64_t *)word, value);
}

static inline u64 zm_add64(u64 *word, u64 value)
{
	return atomic64_add_return_relaxed(value, (atomic64_t *)word);
}

/*
 * Whoever moves to another processor on the way adds to the lane of the one it
 * left: the addition is atomic, only not quite as cheap.
 */
static inline void zm_percpu_add(u64 *counter, u64 value)
{
	u64 __percpu *lanes = (__force u64 __percpu *)(unsigned long)counter;

	atomic64_add(value, (atomic64_t *)raw_cpu_ptr(lanes));
}

static inline void zm_max64(u64 *word, u64 value)
{
	s64 old = atomic64_read((atomic64_t *)word);

	while ((u64)old < value &&
	       !atomic64_try_cmpxchg_relaxed((atomic64_t *)word, &old, value))
		;
}

/* A pair: who sees the pointer sees what it points to. */
#define zm_publish(where, pointer) smp_store_release(where, pointer)
#define zm_consume(where) smp_load_acquire(where) /* pairs with zm_publish */

#include "zm_bit_lock.h"

static inline u64 zm_get64(const void *bytes)
{
	return get_unaligned((const u64 *)bytes);
}

static inline void zm_put64(void *bytes, u64 word)
{
	put_unaligned(word, (u64 *)bytes);
}

#include <zm_platform_common.h>

static inline void zm_prefetch(const void *where)
{
	prefetch(where);
}

#endif /* ZM_PLATFORM_H */

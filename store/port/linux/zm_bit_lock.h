/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's locks in the kernel: bit 0 of a word. zm_platform.h includes it.
 *
 * Where the kernel is a real-time one, zsmalloc's own locks sleep, and so must what
 * is held around them; who waits for a page that is being decompressed must not
 * keep a processor. So the word's lock is one of some spinlocks, chosen by the
 * word's address, which sleep there and hand their waiter's priority on. The bit
 * only tells that the word is locked.
 *
 * Several words share a spinlock. That is why two slots are locked at once by one
 * function, in the order of their spinlocks or with the one that they share, and
 * why a try may fail though the word is free: it is for hints.
 */
#ifndef ZM_BIT_LOCK_H
#define ZM_BIT_LOCK_H

#ifdef CONFIG_PREEMPT_RT

#include <linux/hash.h>
#include <linux/spinlock.h>

#define ZM_BUCKET_BITS 8

/* A row for each kind; a second slot's are those of slots. */
extern spinlock_t zm_buckets[ZM_LOCKS][1 << ZM_BUCKET_BITS];

void zm_buckets_init(void);

static inline spinlock_t *zm_bucket(const u32 *word, enum zm_lock lock)
{
	if (lock == ZM_LOCK_SLOT_SECOND)
		lock = ZM_LOCK_SLOT;
	return &zm_buckets[lock][hash_ptr(word, ZM_BUCKET_BITS)];
}

static inline void zm_bit_set(u32 *word)
{
	WRITE_ONCE(*word, READ_ONCE(*word) | 1);
}

static inline bool zm_bit_trylock(u32 *word, enum zm_lock lock)
{
	if (!spin_trylock(zm_bucket(word, lock)))
		return false;
	zm_bit_set(word);
	return true;
}

static inline void zm_bit_lock(u32 *word, enum zm_lock lock)
	zm_acquires(word)
{
	spin_lock_nested(zm_bucket(word, lock), lock);
	zm_bit_set(word);
	zm_acquired(word);
}

/* Unlocks and sets the word's other bits in one store. */
static inline void zm_bit_unlock(u32 *word, u32 value, enum zm_lock lock)
	zm_releases(word)
{
	smp_store_release(word, value & ~1u); /* for who reads it as a hint */
	spin_unlock(zm_bucket(word, lock));
	zm_released(word);
}

/* Two slots' words. */
static inline void zm_bit_lock_two(u32 *lower, u32 *higher)
{
	spinlock_t *first = zm_bucket(lower, ZM_LOCK_SLOT);
	spinlock_t *second = zm_bucket(higher, ZM_LOCK_SLOT);

	if (first > second)
		swap(first, second);
	spin_lock_nested(first, ZM_LOCK_SLOT);
	if (first != second)
		spin_lock_nested(second, ZM_LOCK_SLOT_SECOND);
	zm_bit_set(lower);
	zm_bit_set(higher);
	zm_acquired(lower);
	zm_acquired(higher);
}

static inline void zm_bit_unlock_two(u32 *lower, u32 *higher)
{
	spinlock_t *first = zm_bucket(lower, ZM_LOCK_SLOT);
	spinlock_t *second = zm_bucket(higher, ZM_LOCK_SLOT);

	smp_store_release(higher, READ_ONCE(*higher) & ~1u); /* as above */
	smp_store_release(lower, READ_ONCE(*lower) & ~1u);
	spin_unlock(first);
	if (first != second)
		spin_unlock(second);
	zm_released(higher);
	zm_released(lower);
}

#else /* !CONFIG_PREEMPT_RT */

static inline void zm_buckets_init(void)
{
}

/*
 * lockdep sees one lock of each kind, whatever the word: that is enough for their
 * order, and a word has no room for a map. It is told where the kernel has it.
 */
#ifdef CONFIG_DEBUG_LOCK_ALLOC

extern struct lockdep_map zm_lock_maps[ZM_LOCKS];

static inline void zm_lockdep_acquire(enum zm_lock lock, int try)
{
	lock_acquire_exclusive(&zm_lock_maps[lock], 0, try, NULL, _THIS_IP_);
}

static inline void zm_lockdep_release(enum zm_lock lock)
{
	lock_release(&zm_lock_maps[lock], _THIS_IP_);
}

#else

static inline void zm_lockdep_acquire(enum zm_lock lock, int try)
{
}

static inline void zm_lockdep_release(enum zm_lock lock)
{
}

#endif

static inline bool zm_bit_try(u32 *word)
{
	u32 old;

	preempt_disable();
	old = READ_ONCE(*word) & ~1u;
	if (likely(cmpxchg_acquire(word, old, old | 1) == old))
		return true;
	preempt_enable();
	return false;
}

static inline bool zm_bit_trylock(u32 *word, enum zm_lock lock)
{
	if (!zm_bit_try(word))
		return false;
	zm_lockdep_acquire(lock, 1);
	return true;
}

static inline void zm_bit_lock(u32 *word, enum zm_lock lock)
	zm_acquires(word)
{
	zm_lockdep_acquire(lock, 0);
	while (!zm_bit_try(word))
		while (READ_ONCE(*word) & 1)
			cpu_relax();
	zm_acquired(word);
}

/* Unlocks and sets the word's other bits in one store. */
static inline void zm_bit_unlock(u32 *word, u32 value, enum zm_lock lock)
	zm_releases(word)
{
	zm_lockdep_release(lock);
	/* Pairs with the acquire in zm_bit_try(). */
	smp_store_release(word, value & ~1u);
	preempt_enable();
	zm_released(word);
}

/* Two slots' words, that of the lower index first. */
static inline void zm_bit_lock_two(u32 *lower, u32 *higher)
{
	zm_bit_lock(lower, ZM_LOCK_SLOT);
	zm_bit_lock(higher, ZM_LOCK_SLOT_SECOND);
}

static inline void zm_bit_unlock_two(u32 *lower, u32 *higher)
{
	zm_bit_unlock(higher, READ_ONCE(*higher), ZM_LOCK_SLOT_SECOND);
	zm_bit_unlock(lower, READ_ONCE(*lower), ZM_LOCK_SLOT);
}

#endif /* !CONFIG_PREEMPT_RT */

/* Somebody has locked the word: who, lockdep does not know of one word. */
static inline void zm_bit_assert_locked(const u32 *word)
{
	if (IS_ENABLED(CONFIG_LOCKDEP))
		WARN_ON_ONCE(!(READ_ONCE(*word) & 1));
}

#endif /* ZM_BIT_LOCK_H */

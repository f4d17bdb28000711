// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The port's small duties in the kernel: memory, the pass's lock, time,
 * randomness, words. The pool is in pool.c, streams are in streams.c, the
 * codecs in codec*.c.
 */
#include <linux/bug.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/freezer.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include <zmeld/port.h>

#include "start.h"

/* -- Locks ------------------------------------------------------------------ */

#ifdef CONFIG_DEBUG_LOCK_ALLOC

static struct lock_class_key lock_keys[ZM_LOCKS];

#define LOCK_MAP(lock, name) \
	[lock] = STATIC_LOCKDEP_MAP_INIT(name, &lock_keys[lock])

struct lockdep_map zm_lock_maps[ZM_LOCKS] = {
	LOCK_MAP(ZM_LOCK_SLOT, "zmeld slot"),
	LOCK_MAP(ZM_LOCK_SLOT_SECOND, "zmeld slot, second"),
	LOCK_MAP(ZM_LOCK_SHARE, "zmeld share"),
	LOCK_MAP(ZM_LOCK_BLOCKS, "zmeld blocks"),
	LOCK_MAP(ZM_LOCK_STREAM, "zmeld stream"),
};

#endif

#ifdef CONFIG_PREEMPT_RT

spinlock_t zm_buckets[ZM_LOCKS][1 << ZM_BUCKET_BITS];

void zm_buckets_init(void)
{
	u32 kind, i;

	for (kind = 0; kind < ZM_LOCKS; kind++)
		for (i = 0; i < ARRAY_SIZE(zm_buckets[kind]); i++)
			spin_lock_init(&zm_buckets[kind][i]);
}

#endif

/* -- Memory ---------------------------------------------------------------- */

/*
 * Tables are asked for by people and policies, not by swapping, so they may
 * wait for reclaim; but no process is to be killed for the sake of a pass.
 */
#define TABLE_GFP (GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

/* From here on pages of their own, which need not lie in a row. */
#define TABLE_LARGE (4 * PAGE_SIZE)

void *zm_port_table_alloc(u64 size)
{
	if (size > SIZE_MAX)
		return NULL;
	/* Without kvmalloc(), which takes no more than 2 GiB. */
	if (size > TABLE_LARGE)
		return __vmalloc((size_t)size, TABLE_GFP);
	return kmalloc(size ? (size_t)size : 1, TABLE_GFP);
}

void zm_port_table_free(void *table, u64 size)
{
	kvfree(table);
}

/*
 * What the core asks for by the thousand has a cache of its own size, which
 * kmalloc() would round up by a third. Others go to kmalloc().
 */
#define SMALL_SIZE	24

static struct kmem_cache *small_cache;

void *zm_port_small_alloc(size_t size, bool wait)
{
	gfp_t gfp = __GFP_NOWARN | (wait ? GFP_NOIO : GFP_NOWAIT);

	if (size == SMALL_SIZE)
		return kmem_cache_alloc(small_cache, gfp);
	return kmalloc(size, gfp);
}

void zm_port_small_free(void *small, size_t size)
{
	if (!small)
		return;
	if (size == SMALL_SIZE)
		kmem_cache_free(small_cache, small);
	else
		kfree(small);
}

/* -- Counters -------------------------------------------------------------- */

void *zm_port_percpu_create(size_t size)
{
	return (__force void *)(unsigned long)__alloc_percpu(size,
							     SMP_CACHE_BYTES);
}

void zm_port_percpu_destroy(void *lanes)
{
	free_percpu((__force void __percpu *)(unsigned long)lanes);
}

u64 zm_port_percpu_bytes(size_t size)
{
	return (u64)num_possible_cpus() * ALIGN(size, SMP_CACHE_BYTES);
}

u64 zm_port_percpu_sum(const u64 *counter)
{
	u64 __percpu *lanes = (__force u64 __percpu *)(unsigned long)counter;
	unsigned int cpu;
	u64 sum = 0;

	for_each_possible_cpu(cpu)
		sum += atomic64_read((atomic64_t *)per_cpu_ptr(lanes, cpu));
	return sum;
}

/* -- The port's life ------------------------------------------------------- */

int zm_port_start(void)
{
	int err;

	zm_buckets_init();
	small_cache = kmem_cache_create("zmeld_small", SMALL_SIZE,
					sizeof(u64), 0, NULL);
	if (!small_cache)
		return -ENOMEM;
	err = zm_streams_start();
	if (err)
		kmem_cache_destroy(small_cache);
	return err;
}

void zm_port_stop(void)
{
	zm_streams_stop();
	kmem_cache_destroy(small_cache);
}

/* -- The pass's lock, time, randomness, words ------------------------------ */

struct zm_mutex {
	struct mutex mutex;	/* what it guards the core says */
};

struct zm_mutex *zm_port_mutex_create(void)
{
	struct zm_mutex *mutex = kmalloc(sizeof(*mutex), GFP_KERNEL);

	if (mutex)
		mutex_init(&mutex->mutex);
	return mutex;
}

void zm_port_mutex_destroy(struct zm_mutex *mutex)
{
	mutex_destroy(&mutex->mutex);
	kfree(mutex);
}

bool zm_port_mutex_trylock(struct zm_mutex *mutex)
{
	return mutex_trylock(&mutex->mutex);
}

void zm_port_mutex_lock(struct zm_mutex *mutex)
{
	mutex_lock(&mutex->mutex);
}

void zm_port_mutex_unlock(struct zm_mutex *mutex)
{
	mutex_unlock(&mutex->mutex);
}

void zm_port_mutex_assert_held(struct zm_mutex *mutex)
{
	lockdep_assert_held(&mutex->mutex);
}

void zm_port_yield(void)
{
	cond_resched();
}

bool zm_port_interrupted(void)
{
	return fatal_signal_pending(current) || freezing(current);
}

/* Time asleep counts: pages of a laptop that was shut are idle. */
u64 zm_port_time_ns(void)
{
	return ktime_get_boottime_ns();
}

u32 zm_port_time_s(void)
{
	return (u32)ktime_get_boottime_seconds();
}

void zm_port_random(void *bytes, size_t size)
{
	get_random_bytes(bytes, size);
}

int zm_port_print(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int written;

	va_start(args, format);
	written = vscnprintf(text, size, format, args);
	va_end(args);
	return written;
}

void zm_port_encode_error(const char *codec)
{
	pr_warn_ratelimited("zmeld: %s encoded a page to bytes that do not give it back; they are not used\n",
			    codec);
}

void zm_port_warn(const char *what)
{
	WARN_ONCE(1, "zmeld: broken invariant: %s\n", what);
}

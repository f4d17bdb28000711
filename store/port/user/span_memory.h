/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory for the pool's spans, in runs of 1 to ZM_CHAIN_MAX pages.
 *
 * Runs are cut from chunks of 2 MiB that the system is asked to back with huge
 * pages: a pool touches its objects in no order, so small pages would cost a
 * page fault for each as it fills, and a walk of the page tables for each as it
 * is read. A run given back is kept for the next span of its length; chunks go
 * back to the system with the pool. Under the address sanitizer every run is an
 * allocation of its own, so that stray accesses are seen.
 *
 * Locking: its own mutex, taken inside a class's.
 */
#ifndef ZM_USER_SPAN_MEMORY_H
#define ZM_USER_SPAN_MEMORY_H

#include <pthread.h>

#include "geometry.h"

struct span_run;
struct span_chunk;

struct span_memory {
	pthread_mutex_t lock;
	u32 page_size;
	struct span_run *free[ZM_CHAIN_MAX + 1];	/* by length in pages */
	struct span_chunk *chunks;
	u8 *fresh;			/* not yet cut, of the newest chunk */
	size_t fresh_size;
};

void span_memory_init(struct span_memory *memory, u32 page_size);
/* pre: all runs were given back, or nobody will use them. */
void span_memory_destroy(struct span_memory *memory);
/* A run, contents undefined, or NULL. */
u8 *span_memory_take(struct span_memory *memory, u32 pages);
void span_memory_give(struct span_memory *memory, u8 *run, u32 pages);

#endif /* ZM_USER_SPAN_MEMORY_H */

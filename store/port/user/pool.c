// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pool in user space: the memory that it says it uses is what zsmalloc would.
 *
 * Of a class's spans only the number is kept. An object takes a new one where all are
 * full. The newest goes when nothing is left that came since; else freed objects leave as
 * many spans as may each still hold one, which is the most that zsmalloc could be left
 * with. Compaction leaves those that the objects fill.
 *
 * Objects are cut from chunks that the system is asked to back with huge pages, and
 * freed ones are used again: a pool is read in no order, and small pages would cost a
 * walk of the page tables for each. Under the sanitizers each is an allocation of its
 * own, and a reader is given a copy, which ends with the reading: whoever uses the bytes
 * for longer than it said is found, as is whoever frees what is read. The kernel would
 * have moved the object meanwhile.
 *
 * Locking: a class's mutex guards its numbers and freed objects; then the pool's, the
 * chunks.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <zmeld/port.h>

#include "fault.h"
#include "geometry.h"

#define CHUNK_SIZE	(2u << 20)

/* A handle is its address. */
struct object {
	u32 class;
	u32 readers;
	u64 span;	/* the number of the newest when it came */
	u8 bytes[];
};

struct class {
	pthread_mutex_t lock;
	u64 objects;
	u64 spans;
	u64 newest;		/* the number of the span that was opened last */
	u64 newest_objects;	/* that came since */
	bool newest_is_there;
	struct object *freed;	/* linked through their bytes */
} __attribute__((aligned(64)));

struct chunk {
	struct chunk *next;
};

struct zm_pool {
	struct zm_geometry geometry;
	zm_shared64 pages_used;
	zm_shared64 bytes_compacted;
	pthread_mutex_t lock;
	struct chunk *chunks;	/* the newest one first */
	size_t left;		/* bytes of it that are not cut yet */
	struct class classes[ZM_CLASSES_MAX];
};

static struct object *object_of(struct zm_handle handle)
{
	return (struct object *)(uintptr_t)handle.value;
}

struct zm_pool *zm_port_pool_create(void)
{
	struct zm_pool *pool;
	u32 i;

	pool = zm_fault_now() ? NULL : aligned_alloc(64, sizeof(*pool));
	if (!pool)
		return NULL;
	memset(pool, 0, sizeof(*pool));
	if (zm_geometry_init(&pool->geometry, ZM_PAGE_SIZE, ZM_CHAIN_DEFAULT,
			     ZM_CHAIN_LEAST_WASTE)) {
		free(pool);
		return NULL;
	}
	pthread_mutex_init(&pool->lock, NULL);
	for (i = 0; i < ZM_CLASSES_MAX; i++)
		pthread_mutex_init(&pool->classes[i].lock, NULL);
	return pool;
}

void zm_port_pool_destroy(struct zm_pool *pool)
{
	struct chunk *chunk;
	u32 i;

	if (zm_load64(&pool->pages_used))
		zm_port_warn("a pool was destroyed with objects in it");
	for (i = 0; i < ZM_CLASSES_MAX; i++)
		pthread_mutex_destroy(&pool->classes[i].lock);
	pthread_mutex_destroy(&pool->lock);
	while ((chunk = pool->chunks)) {
		pool->chunks = chunk->next;
		free(chunk);
	}
	free(pool);
}

/* From the end of the newest chunk on, or of another one. */
static struct object *chunk_cut(struct zm_pool *pool, size_t size)
{
	struct object *object = NULL;
	struct chunk *chunk;

	pthread_mutex_lock(&pool->lock);
	if (pool->left < size) {
		chunk = aligned_alloc(CHUNK_SIZE, CHUNK_SIZE);
		if (!chunk)
			goto unlock;
		/* Only a wish: where huge pages are off it is slower, no more. */
		(void)madvise(chunk, CHUNK_SIZE, MADV_HUGEPAGE);
		chunk->next = pool->chunks;
		pool->chunks = chunk;
		pool->left = CHUNK_SIZE - 64;
	}
	pool->left -= size;
	object = (struct object *)((u8 *)pool->chunks + 64 + pool->left);
unlock:
	pthread_mutex_unlock(&pool->lock);
	return object;
}

/* For so many bytes, or NULL: there is no memory. pre: the class is locked. */
static struct object *object_take(struct zm_pool *pool, u32 i, u32 bytes)
{
	struct class *class = &pool->classes[i];
	struct object *object = class->freed;
	size_t size = sizeof(*object) + pool->geometry.classes[i].object_size;

	if (ZM_LOCKS_ARE_CHECKED)
		return malloc(sizeof(*object) + bytes);
	if (!object)
		return chunk_cut(pool, (size + 63) / 64 * 64);
	memcpy(&class->freed, object->bytes, sizeof(object));
	return object;
}

/* pre: the class is locked. */
static void object_give(struct class *class, struct object *object)
{
	if (ZM_LOCKS_ARE_CHECKED) {
		free(object);
		return;
	}
	memcpy(object->bytes, &class->freed, sizeof(object));
	class->freed = object;
}

/* pre: the class is locked. */
static void spans_set(struct zm_pool *pool, u32 i, u64 spans)
{
	struct class *class = &pool->classes[i];

	zm_add64(&pool->pages_used, (spans - class->spans) *
				    pool->geometry.classes[i].pages);
	class->spans = spans;
}

/* `near` says nothing here: user space has no say in nodes. */
int zm_port_pool_alloc(struct zm_pool *pool, u32 size, bool wait,
		       const void *near, struct zm_handle *handle)
{
	u32 i = zm_geometry_class(&pool->geometry, size);
	struct class *class = &pool->classes[i];
	struct object *object;

	if (wait)
		zm_held_may_wait();
	zm_held_may_sleep();
	(void)near;
	if ((!wait && zm_fault_is_scarce()) || zm_fault_now())
		return -ENOMEM;
	pthread_mutex_lock(&class->lock);
	object = object_take(pool, i, size);
	if (!object) {
		pthread_mutex_unlock(&class->lock);
		return -ENOMEM;
	}
	object->class = i;
	object->readers = 0;
	if (++class->objects > class->spans * pool->geometry.classes[i].objects) {
		spans_set(pool, i, class->spans + 1);
		class->newest++;
		class->newest_objects = 0;
		class->newest_is_there = true;
	}
	class->newest_objects++;
	object->span = class->newest;
	pthread_mutex_unlock(&class->lock);
	handle->value = (u64)(uintptr_t)object;
	return 0;
}

void zm_port_pool_free(struct zm_pool *pool, struct zm_handle handle)
{
	struct object *object = object_of(handle);
	struct class *class = &pool->classes[object->class];

	if (zm_load32(&object->readers))
		zm_port_warn("an object was freed while it was read");
	pthread_mutex_lock(&class->lock);
	class->objects--;
	if (object->span == class->newest && !--class->newest_objects &&
	    class->newest_is_there) {
		spans_set(pool, object->class, class->spans - 1);
		class->newest_is_there = false;
	}
	if (class->objects < class->spans)
		spans_set(pool, object->class, class->objects);
	object_give(class, object);
	pthread_mutex_unlock(&class->lock);
}

void zm_port_pool_write(struct zm_pool *pool, struct zm_handle handle,
			const void *bytes, u32 size)
{
	(void)pool;
	memcpy(object_of(handle)->bytes, bytes, size);
}

const void *zm_port_pool_read_begin(struct zm_pool *pool,
				    struct zm_handle handle, u32 size,
				    void *copy)
{
	struct object *object = object_of(handle);
	void *read;

	(void)pool;
	(void)copy;
	if (!ZM_LOCKS_ARE_CHECKED)
		return object->bytes;
	__atomic_add_fetch(&object->readers, 1, __ATOMIC_RELAXED);
	read = malloc(size);
	if (!read)
		zm_port_warn("no memory for a copy to read");
	return memcpy(read, object->bytes, size);
}

void zm_port_pool_read_end(struct zm_pool *pool, struct zm_handle handle,
			   const void *bytes, u32 size)
{
	(void)pool;
	(void)size;
	if (!ZM_LOCKS_ARE_CHECKED)
		return;
	free((void *)(uintptr_t)bytes);
	__atomic_sub_fetch(&object_of(handle)->readers, 1, __ATOMIC_RELAXED);
}

/* The first lines; from there the processor sees the pattern itself. */
#define PREFETCHED 512

void zm_port_pool_prefetch(struct zm_pool *pool, struct zm_handle handle)
{
	const u8 *bytes = (const u8 *)(uintptr_t)handle.value;
	u32 at;

	(void)pool;
	for (at = 0; at < PREFETCHED; at += 64)
		zm_prefetch(bytes + at);
}

u64 zm_port_pool_used(struct zm_pool *pool)
{
	return zm_load64(&pool->pages_used) * ZM_PAGE_SIZE;
}

u32 zm_port_pool_huge_size(struct zm_pool *pool)
{
	return pool->geometry.huge_size;
}

u32 zm_port_pool_class(struct zm_pool *pool, u32 size)
{
	const struct zm_geometry *geometry = &pool->geometry;

	return geometry->classes[zm_geometry_class(geometry, size)].object_size;
}

u64 zm_port_pool_compact(struct zm_pool *pool)
{
	u64 before = zm_port_pool_used(pool), after;
	struct class *class;
	u32 i, in_span;

	zm_held_may_sleep();
	for (i = 0; i < pool->geometry.class_count; i++) {
		class = &pool->classes[i];
		in_span = pool->geometry.classes[i].objects;
		pthread_mutex_lock(&class->lock);
		spans_set(pool, i, (class->objects + in_span - 1) / in_span);
		class->newest_is_there = false;
		pthread_mutex_unlock(&class->lock);
	}
	after = zm_port_pool_used(pool);
	if (before <= after)
		return 0;
	zm_add64(&pool->bytes_compacted, before - after);
	return before - after;
}

u64 zm_port_pool_compacted(struct zm_pool *pool)
{
	return zm_load64(&pool->bytes_compacted);
}

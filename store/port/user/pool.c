// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pool in user space: zsmalloc's geometry and policies.
 *
 * A class keeps its spans by how full they are, takes the next object from the
 * fullest span that has room, and gives an empty span back at once: so the
 * pages it holds after any sequence of requests are those zsmalloc would hold.
 * A span's pages are contiguous here, so an object is always in one piece.
 *
 * A handle is the address of a cell, which says where the object is now;
 * compaction moves objects and rewrites cells. Each object is preceded by its
 * cell's address, as zsmalloc keeps the handle there; a span of one object
 * (a raw page) has no room for it and is never compacted.
 *
 * Locking: a class's mutex guards its spans, free objects and cells. A cell's
 * word is also changed without it, by readers that pin the object: only the
 * number of pins. The mover swaps the word just where there are no pins, and a
 * reader that finds an object moving waits; moves are short.
 *
 * Invariants:
 *   - memory used is the sum of the spans' pages;
 *   - an object is in the span its cell names, and the cell's address stands
 *     before it;
 *   - a span with free objects is in its class's list for its fullness.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include <zmeld/port.h>

#include "fault.h"
#include "geometry.h"
#include "span_memory.h"

/* By tenths of use: 0 is empty to a tenth, 10 is full. */
#define FULLNESS_COUNT	11
#define FULL		10
#define CELLS_A_CHUNK	510

#define MOVING		1ull
#define PIN		2ull
#define PIN_MASK	0xfffeull
#define ADDRESS_SHIFT	16

struct class;

struct span {
	struct span *next, *previous;
	u32 used;		/* objects */
	u32 fullness;
	u32 free;		/* first free object, or NO_OBJECT */
	u8 *bytes;
};

#define NO_OBJECT	((u32)-1)

struct cell {
	u64 word;		/* address << 16 | pins << 1 | moving */
	struct span *span;
	struct class *class;	/* stays the same as long as the cell */
};

struct chunk {
	struct chunk *next;
	struct cell cells[CELLS_A_CHUNK];
};

struct class {
	pthread_mutex_t lock;
	const struct zm_class_shape *shape;
	struct zm_pool *pool;
	struct span *spans[FULLNESS_COUNT];
	struct chunk *chunks;
	struct cell *free_cells;	/* linked through span */
	u64 span_count;
	u64 object_count;
} __attribute__((aligned(64)));

struct zm_pool {
	struct zm_geometry geometry;
	struct span_memory memory;
	u64 pages_used;
	u64 bytes_compacted;
	struct class classes[];
};

static struct cell *cell_of(struct zm_handle handle)
{
	return (struct cell *)(uintptr_t)handle.value;
}

static u8 *word_address(u64 word)
{
	return (u8 *)(uintptr_t)(word >> ADDRESS_SHIFT);
}

static u64 address_word(const u8 *address)
{
	return (u64)(uintptr_t)address << ADDRESS_SHIFT;
}

/* Objects alone in their span have no room for the cell's address. */
static bool has_header(const struct class *class)
{
	return class->shape->objects > 1;
}

/* -- Lists of spans by fullness; under the class's lock -------------------- */

static u32 fullness_of(const struct class *class, const struct span *span)
{
	return span->used * FULL / class->shape->objects;
}

static void span_unlink(struct class *class, struct span *span)
{
	if (span->previous)
		span->previous->next = span->next;
	else
		class->spans[span->fullness] = span->next;
	if (span->next)
		span->next->previous = span->previous;
}

static void span_link(struct class *class, struct span *span)
{
	struct span **head;

	span->fullness = fullness_of(class, span);
	head = &class->spans[span->fullness];
	span->previous = NULL;
	span->next = *head;
	if (*head)
		(*head)->previous = span;
	*head = span;
}

static void span_relink(struct class *class, struct span *span)
{
	if (span->fullness == fullness_of(class, span))
		return;
	span_unlink(class, span);
	span_link(class, span);
}

/* The free objects of a span are linked through their first bytes. */
static u8 *object_at(const struct class *class, const struct span *span, u32 i)
{
	return span->bytes + (size_t)i * class->shape->object_size;
}

static struct span *span_create(struct class *class)
{
	struct span *span = zm_fault_now() ? NULL : malloc(sizeof(*span));
	u32 i, next;

	if (!span)
		return NULL;
	span->bytes = span_memory_take(&class->pool->memory,
				       class->shape->pages);
	if (!span->bytes) {
		free(span);
		return NULL;
	}
	for (i = 0; i < class->shape->objects; i++) {
		next = i + 1 < class->shape->objects ? i + 1 : NO_OBJECT;
		memcpy(object_at(class, span, i), &next, sizeof(next));
	}
	span->used = 0;
	span->free = 0;
	span_link(class, span);
	class->span_count++;
	zm_add64(&class->pool->pages_used, class->shape->pages);
	return span;
}

static void span_destroy(struct class *class, struct span *span)
{
	span_unlink(class, span);
	class->span_count--;
	zm_add64(&class->pool->pages_used, -(u64)class->shape->pages);
	span_memory_give(&class->pool->memory, span->bytes,
			 class->shape->pages);
	free(span);
}

static u8 *span_take(struct class *class, struct span *span)
{
	u8 *object = object_at(class, span, span->free);

	memcpy(&span->free, object, sizeof(span->free));
	span->used++;
	span_relink(class, span);
	return object;
}

/* The span is gone where this was its last object. */
static void span_give(struct class *class, struct span *span, u8 *object)
{
	u32 i = (u32)((size_t)(object - span->bytes) /
		      class->shape->object_size);

	memcpy(object, &span->free, sizeof(span->free));
	span->free = i;
	span->used--;
	if (span->used)
		span_relink(class, span);
	else
		span_destroy(class, span);
}

/* -- Cells; under the class's lock ----------------------------------------- */

static struct cell *cell_take(struct class *class)
{
	struct cell *cell = class->free_cells;
	struct chunk *chunk;
	u32 i;

	if (!cell) {
		chunk = zm_fault_now() ? NULL : malloc(sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->next = class->chunks;
		class->chunks = chunk;
		for (i = 0; i < CELLS_A_CHUNK; i++) {
			chunk->cells[i].class = class;
			chunk->cells[i].span = (struct span *)cell;
			cell = &chunk->cells[i];
		}
	}
	class->free_cells = (struct cell *)cell->span;
	return cell;
}

static void cell_give(struct class *class, struct cell *cell)
{
	cell->span = (struct span *)class->free_cells;
	class->free_cells = cell;
}

/* -- Pins ------------------------------------------------------------------ */

static u8 *cell_pin(struct cell *cell)
{
	u64 word = zm_load64(&cell->word);
	u32 tries = 0;

	for (;;) {
		if (word & MOVING) {
			zm_port_relax(++tries);
			word = zm_load64(&cell->word);
			continue;
		}
		if (__atomic_compare_exchange_n(&cell->word, &word, word + PIN,
						true, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return word_address(word);
	}
}

static void cell_unpin(struct cell *cell)
{
	__atomic_sub_fetch(&cell->word, PIN, __ATOMIC_RELEASE);
}

/* False where somebody has it pinned. */
static bool cell_start_moving(struct cell *cell)
{
	u64 word = zm_load64(&cell->word) & ~(PIN_MASK | MOVING);

	return __atomic_compare_exchange_n(&cell->word, &word, word | MOVING,
					   false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static void cell_settle(struct cell *cell, const u8 *address)
{
	__atomic_store_n(&cell->word, address_word(address), __ATOMIC_RELEASE);
}

/* -- The port's functions -------------------------------------------------- */

struct zm_pool *zm_port_pool_create(void)
{
	struct zm_geometry geometry;
	struct zm_pool *pool;
	size_t bytes;
	u32 i;

	if (zm_geometry_init(&geometry, ZM_PAGE_SIZE, ZM_CHAIN_DEFAULT,
			     ZM_CHAIN_LEAST_WASTE) || zm_fault_now())
		return NULL;
	bytes = sizeof(*pool) + geometry.class_count * sizeof(struct class);
	bytes = (bytes + 63) / 64 * 64;
	pool = aligned_alloc(64, bytes);
	if (!pool)
		return NULL;
	memset(pool, 0, bytes);
	pool->geometry = geometry;
	span_memory_init(&pool->memory, geometry.page_size);
	for (i = 0; i < geometry.class_count; i++) {
		pool->classes[i].pool = pool;
		pool->classes[i].shape = &pool->geometry.classes[i];
		pthread_mutex_init(&pool->classes[i].lock, NULL);
	}
	return pool;
}

void zm_port_pool_destroy(struct zm_pool *pool)
{
	struct chunk *chunk, *next;
	u32 i;

	if (zm_load64(&pool->pages_used))
		zm_port_broken("a pool was destroyed with objects in it");
	for (i = 0; i < pool->geometry.class_count; i++) {
		for (chunk = pool->classes[i].chunks; chunk; chunk = next) {
			next = chunk->next;
			free(chunk);
		}
		pthread_mutex_destroy(&pool->classes[i].lock);
	}
	span_memory_destroy(&pool->memory);
	free(pool);
}

/* The fullest span with room, or a new one, or NULL. */
static struct span *span_find(struct class *class)
{
	u32 fullness;

	for (fullness = FULL; fullness-- > 0;)
		if (class->spans[fullness])
			return class->spans[fullness];
	return span_create(class);
}

/* `near` says nothing here: user space has no say in nodes. */
int zm_port_pool_alloc(struct zm_pool *pool, u32 size, bool wait,
		       const void *near, struct zm_handle *handle)
{
	struct class *class =
		&pool->classes[zm_geometry_class(&pool->geometry, size)];
	struct span *span;
	struct cell *cell;
	u8 *object;

	if (wait)
		zm_held_may_wait();
	zm_held_may_sleep();
	(void)near;
	if (!wait && zm_fault_is_scarce())
		return -ENOMEM;
	pthread_mutex_lock(&class->lock);
	cell = cell_take(class);
	if (!cell)
		goto no_memory;
	span = span_find(class);
	if (!span) {
		cell_give(class, cell);
		goto no_memory;
	}
	object = span_take(class, span);
	class->object_count++;
	cell->span = span;
	if (has_header(class))
		memcpy(object, &cell, sizeof(cell));
	cell_settle(cell, has_header(class) ? object + ZM_HANDLE_BYTES :
					      object);
	pthread_mutex_unlock(&class->lock);
	handle->value = (u64)(uintptr_t)cell;
	return 0;
no_memory:
	pthread_mutex_unlock(&class->lock);
	return -ENOMEM;
}

void zm_port_pool_free(struct zm_pool *pool, struct zm_handle handle)
{
	struct cell *cell = cell_of(handle);
	struct class *class = cell->class;
	u8 *object;

	(void)pool;
	pthread_mutex_lock(&class->lock);
	if (zm_load64(&cell->word) & (PIN_MASK | MOVING))
		zm_port_broken("an object was freed while it was read");
	object = word_address(zm_load64(&cell->word));
	if (has_header(class))
		object -= ZM_HANDLE_BYTES;
	span_give(class, cell->span, object);
	class->object_count--;
	cell_give(class, cell);
	pthread_mutex_unlock(&class->lock);
}

void zm_port_pool_write(struct zm_pool *pool, struct zm_handle handle,
			const void *bytes, u32 size)
{
	struct cell *cell = cell_of(handle);

	(void)pool;
	memcpy(cell_pin(cell), bytes, size);
	cell_unpin(cell);
}

const void *zm_port_pool_read_begin(struct zm_pool *pool,
				    struct zm_handle handle, u32 size,
				    void *copy)
{
	(void)pool;
	(void)size;
	(void)copy;
	return cell_pin(cell_of(handle));
}

void zm_port_pool_read_end(struct zm_pool *pool, struct zm_handle handle,
			   const void *bytes, u32 size)
{
	(void)pool;
	(void)bytes;
	(void)size;
	cell_unpin(cell_of(handle));
}

/* The first lines; from there the processor sees the pattern itself. */
#define PREFETCHED 1024

void zm_port_pool_prefetch(struct zm_pool *pool, struct zm_handle handle,
			   bool deep)
{
	struct cell *cell = cell_of(handle);
	const u8 *bytes;
	u32 at;

	(void)pool;
	if (!deep) {
		zm_prefetch(cell);
		return;
	}
	bytes = word_address(zm_load64(&cell->word));
	for (at = 0; at < PREFETCHED; at += 64)
		zm_prefetch(bytes + at);
}

u64 zm_port_pool_used(struct zm_pool *pool)
{
	return zm_load64(&pool->pages_used) * pool->geometry.page_size;
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

/* -- Compaction ------------------------------------------------------------ */

static struct span *emptiest(struct class *class)
{
	u32 fullness;

	for (fullness = 0; fullness < FULL; fullness++)
		if (class->spans[fullness])
			return class->spans[fullness];
	return NULL;
}

static struct span *fullest_but(struct class *class, const struct span *not)
{
	struct span *span;
	u32 fullness;

	for (fullness = FULL; fullness-- > 0;)
		for (span = class->spans[fullness]; span; span = span->next)
			if (span != not)
				return span;
	return NULL;
}

/* Whether enough room is scattered for a span to become empty. */
static bool can_compact(const struct class *class)
{
	u64 room = class->span_count * class->shape->objects;

	return has_header(class) &&
	       room - class->object_count >= class->shape->objects;
}

/* Marks which objects of the span are free; the rest hold cells. */
static void mark_free(const struct class *class, const struct span *span,
		      bool *is_free)
{
	u32 i;

	memset(is_free, 0, class->shape->objects * sizeof(*is_free));
	for (i = span->free; i != NO_OBJECT;) {
		is_free[i] = true;
		memcpy(&i, object_at(class, span, i), sizeof(i));
	}
}

/* Moves one object to the span. False where it is being read. */
static bool object_move(struct class *class, u8 *object, struct span *to)
{
	struct cell *cell;
	u8 *place;

	memcpy(&cell, object, sizeof(cell));
	if (!cell_start_moving(cell))
		return false;
	place = span_take(class, to);
	memcpy(place, object, class->shape->object_size);
	cell->span = to;
	cell_settle(cell, place + ZM_HANDLE_BYTES);
	return true;
}

/* Empties one span into others. False where no more can be done. */
static bool class_compact_once(struct class *class, bool *is_free)
{
	struct span *from = emptiest(class), *to;
	u32 objects = class->shape->objects, i;
	u8 *object;

	if (!from || !can_compact(class))
		return false;
	mark_free(class, from, is_free);
	for (i = 0; i < objects; i++) {
		if (is_free[i])
			continue;
		to = fullest_but(class, from);
		object = object_at(class, from, i);
		if (!to || !object_move(class, object, to))
			return false;
		if (from->used == 1) {
			span_give(class, from, object);
			return true;
		}
		span_give(class, from, object);
	}
	return false;
}

u64 zm_port_pool_compact(struct zm_pool *pool)
{
	u64 before = zm_port_pool_used(pool), after;
	bool is_free[ZM_CHAIN_MAX * 65536 / 32 / 16];
	struct class *class;
	u32 i;

	zm_held_may_sleep();
	for (i = 0; i < pool->geometry.class_count; i++) {
		class = &pool->classes[i];
		if (class->shape->objects > sizeof(is_free))
			continue;
		pthread_mutex_lock(&class->lock);
		while (class_compact_once(class, is_free))
			;
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

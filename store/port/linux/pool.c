// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pool in the kernel: zsmalloc.
 *
 * A handle is zsmalloc's own: the address of the word that says where the
 * object is now. Kernels before 6.15 map an object, one at a time on each
 * processor and with preemption off; later ones give its address, or copy it to
 * the caller's buffer where it lies across two pages.
 *
 * Requests come from swapping, so nothing here starts I/O, and failing is
 * silent: the caller counts it, or asks again in a way that waits for reclaim.
 */
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/zsmalloc.h>

#include <zmeld/port.h>

#include "compat.h"

#define POOL_GFP (__GFP_NOWARN | __GFP_HIGHMEM | __GFP_MOVABLE)

/* Pools have names of their own: zsmalloc makes debugfs folders of them. */
static atomic_t pools_made = ATOMIC_INIT(0);

static struct zs_pool *zs_pool_of(struct zm_pool *pool)
{
	return (struct zs_pool *)pool;
}

static unsigned long zs_handle_of(struct zm_handle handle)
{
	return (unsigned long)handle.value;
}

struct zm_pool *zm_port_pool_create(void)
{
	char name[sizeof("zmeld-4294967295")];

	snprintf(name, sizeof(name), "zmeld-%u",
		 (u32)atomic_inc_return(&pools_made));
	return (struct zm_pool *)zs_create_pool(name);
}

void zm_port_pool_destroy(struct zm_pool *pool)
{
	zs_destroy_pool(zs_pool_of(pool));
}

#if ZM_HAS_POOL_NODES

/* A page in high memory, which is mapped elsewhere, has none that we know. */
static int node_of(const void *near)
{
	return near && virt_addr_valid(near) ? page_to_nid(virt_to_page(near)) :
					       NUMA_NO_NODE;
}

static unsigned long object_alloc(struct zs_pool *pool, u32 size, gfp_t gfp,
				  const void *near)
{
	return zs_malloc(pool, size, gfp, node_of(near));
}

#else

static unsigned long object_alloc(struct zs_pool *pool, u32 size, gfp_t gfp,
				  const void *near)
{
	return zs_malloc(pool, size, gfp);
}

#endif

int zm_port_pool_alloc(struct zm_pool *pool, u32 size, bool wait,
		       const void *near, struct zm_handle *handle)
{
	gfp_t gfp = POOL_GFP | (wait ? GFP_NOIO : GFP_NOWAIT);
	unsigned long made = object_alloc(zs_pool_of(pool), size, gfp, near);

	if (!made || IS_ERR_VALUE(made))
		return -ENOMEM;
	handle->value = made;
	return 0;
}

void zm_port_pool_free(struct zm_pool *pool, struct zm_handle handle)
{
	zs_free(zs_pool_of(pool), zs_handle_of(handle));
}

#if ZM_HAS_POOL_COPIES

void zm_port_pool_write(struct zm_pool *pool, struct zm_handle handle,
			const void *bytes, u32 size)
{
	/* It only reads the bytes, whatever its prototype says. */
	zs_obj_write(zs_pool_of(pool), zs_handle_of(handle), (void *)bytes,
		     size);
}

#if ZM_HAS_POOL_SIZED_READS

const void *zm_port_pool_read_begin(struct zm_pool *pool,
				    struct zm_handle handle, u32 size,
				    void *copy)
{
	return zs_obj_read_begin(zs_pool_of(pool), zs_handle_of(handle), size,
				 copy);
}

void zm_port_pool_read_end(struct zm_pool *pool, struct zm_handle handle,
			   const void *bytes, u32 size)
{
	zs_obj_read_end(zs_pool_of(pool), zs_handle_of(handle), size,
			(void *)bytes);
}

#else

const void *zm_port_pool_read_begin(struct zm_pool *pool,
				    struct zm_handle handle, u32 size,
				    void *copy)
{
	return zs_obj_read_begin(zs_pool_of(pool), zs_handle_of(handle), copy);
}

void zm_port_pool_read_end(struct zm_pool *pool, struct zm_handle handle,
			   const void *bytes, u32 size)
{
	zs_obj_read_end(zs_pool_of(pool), zs_handle_of(handle), (void *)bytes);
}

#endif

#else

void zm_port_pool_write(struct zm_pool *pool, struct zm_handle handle,
			const void *bytes, u32 size)
{
	void *object;

	object = zs_map_object(zs_pool_of(pool), zs_handle_of(handle),
			       ZS_MM_WO);
	memcpy(object, bytes, size);
	zs_unmap_object(zs_pool_of(pool), zs_handle_of(handle));
}

const void *zm_port_pool_read_begin(struct zm_pool *pool,
				    struct zm_handle handle, u32 size,
				    void *copy)
{
	return zs_map_object(zs_pool_of(pool), zs_handle_of(handle), ZS_MM_RO);
}

void zm_port_pool_read_end(struct zm_pool *pool, struct zm_handle handle,
			   const void *bytes, u32 size)
{
	zs_unmap_object(zs_pool_of(pool), zs_handle_of(handle));
}

#endif

/*
 * Where an object is stands in the word that its handle points at, in a form
 * that is zsmalloc's alone: the word can be asked for ahead, the object not.
 */
void zm_port_pool_prefetch(struct zm_pool *pool, struct zm_handle handle)
{
	prefetch((const void *)zs_handle_of(handle));
}

u64 zm_port_pool_used(struct zm_pool *pool)
{
	return (u64)zs_get_total_pages(zs_pool_of(pool)) << PAGE_SHIFT;
}

u64 zm_port_pool_compact(struct zm_pool *pool)
{
	return (u64)zs_compact(zs_pool_of(pool)) << PAGE_SHIFT;
}

u64 zm_port_pool_compacted(struct zm_pool *pool)
{
	struct zs_pool_stats stats;

	zs_pool_stats(zs_pool_of(pool), &stats);
	return (u64)atomic_long_read(&stats.pages_compacted) << PAGE_SHIFT;
}

u32 zm_port_pool_huge_size(struct zm_pool *pool)
{
	return (u32)zs_huge_class_size(zs_pool_of(pool));
}

/* -- Size classes ---------------------------------------------------------- */

#if ZM_HAS_POOL_CLASSES

/*
 * zs_malloc() adds its handle to a size, zs_lookup_class_index() does so in some
 * kernels only. Which it is shows at the smallest size that takes a whole page:
 * a lookup that leaves the handle out finds a lower class for it.
 */
u32 zm_port_pool_class(struct zm_pool *pool, u32 size)
{
	struct zs_pool *zs_pool = zs_pool_of(pool);
	u32 whole = zs_lookup_class_index(zs_pool, ZM_PAGE_SIZE);
	u32 huge = zs_lookup_class_index(zs_pool, zs_huge_class_size(zs_pool));

	if (huge != whole)
		size += sizeof(unsigned long);
	return zs_lookup_class_index(zs_pool, size);
}

#else

/*
 * Kernels before 6.2 do not tell, so it is computed as their mm/zsmalloc.c
 * does: sizes are 1/256 of a page apart; each is cut from the chain of at most
 * four pages that it uses best, in whole percents; a size joins the next larger
 * one where chain and number of objects are the same.
 */
#define CLASS_HANDLE	sizeof(unsigned long)
#define CLASS_MIN	32
#define CLASS_STEP	(ZM_PAGE_SIZE >> 8)
#define CLASS_CHAIN	4

struct class_shape {
	u32 pages;
	u32 objects;
};

static struct class_shape class_shape(u32 object_size)
{
	struct class_shape shape = { 1, 0 };
	u32 best = 0, pages, chain, percent;

	for (pages = 1; pages <= CLASS_CHAIN; pages++) {
		chain = pages * ZM_PAGE_SIZE;
		percent = (chain - chain % object_size) * 100 / chain;
		if (percent > best) {
			best = percent;
			shape.pages = pages;
		}
	}
	shape.objects = shape.pages * ZM_PAGE_SIZE / object_size;
	return shape;
}

/* The number of the largest size that objects of this one lie with. */
u32 zm_port_pool_class(struct zm_pool *pool, u32 size)
{
	u32 object_size = CLASS_MIN, larger;
	struct class_shape own, next;

	size += CLASS_HANDLE;
	if (size > CLASS_MIN)
		object_size += roundup(size - CLASS_MIN, CLASS_STEP);
	object_size = min_t(u32, object_size, ZM_PAGE_SIZE);
	own = class_shape(object_size);
	while (object_size < ZM_PAGE_SIZE) {
		larger = min_t(u32, object_size + CLASS_STEP, ZM_PAGE_SIZE);
		next = class_shape(larger);
		if (next.pages != own.pages || next.objects != own.objects)
			break;
		object_size = larger;
	}
	return DIV_ROUND_UP(object_size, CLASS_STEP);
}

#endif

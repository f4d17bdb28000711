/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STUB_ZSMALLOC_H
#define STUB_ZSMALLOC_H

#include <linux/types.h>

struct zs_pool;

#if KERNEL >= 616
unsigned long zs_malloc(struct zs_pool *pool, size_t size, gfp_t flags,
			const int nid);
#elif !defined(UNKNOWN_FORM)
unsigned long zs_malloc(struct zs_pool *pool, size_t size, gfp_t flags);
#else
unsigned long zs_malloc(struct zs_pool *pool, size_t size);
#endif

#if KERNEL < 615 || defined(BACKPORTED_READS)
enum zs_mapmode { ZS_MM_RW, ZS_MM_RO, ZS_MM_WO };
void *zs_map_object(struct zs_pool *pool, unsigned long handle,
		    enum zs_mapmode mode);
void zs_unmap_object(struct zs_pool *pool, unsigned long handle);
#endif

/* A vendor's 6.6 has them, beside the maps. */
#if KERNEL >= 700 || defined(BACKPORTED_READS)
void *zs_obj_read_begin(struct zs_pool *pool, unsigned long handle,
			size_t size, void *local_copy);
void zs_obj_read_end(struct zs_pool *pool, unsigned long handle, size_t size,
		     void *bytes);
#elif KERNEL >= 615
void *zs_obj_read_begin(struct zs_pool *pool, unsigned long handle,
			void *local_copy);
void zs_obj_read_end(struct zs_pool *pool, unsigned long handle, void *bytes);
#endif
#if KERNEL >= 615
void zs_obj_write(struct zs_pool *pool, unsigned long handle, void *bytes,
		  size_t size);
#elif defined(BACKPORTED_READS)
int zs_obj_write(struct zs_pool *pool, unsigned long handle,
		 const void *bytes, size_t size);
#endif

#if KERNEL >= 602
unsigned int zs_lookup_class_index(struct zs_pool *pool, unsigned int size);
#endif

#endif

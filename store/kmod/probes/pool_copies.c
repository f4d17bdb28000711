// SPDX-License-Identifier: GPL-2.0-or-later
/* zsmalloc reads by begin and end and writes by copying; before, it maps: 6.15. */
#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/zsmalloc.h>

#if ZM_PROBED
static void __maybe_unused probe(struct zs_pool *pool, unsigned long handle,
				 void *bytes)
{
	typeof(&zs_obj_read_begin) begin __maybe_unused = zs_obj_read_begin;
	typeof(&zs_obj_read_end) end __maybe_unused = zs_obj_read_end;

	zs_obj_write(pool, handle, bytes, 64);
}
#else
static void __maybe_unused probe(struct zs_pool *pool, unsigned long handle)
{
	void *object __maybe_unused = zs_map_object(pool, handle, ZS_MM_RO);

	zs_unmap_object(pool, handle);
}
#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/* zsmalloc's begin and end of a read are told the object's size: 7.0. */
#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/zsmalloc.h>

#if ZM_PROBED
static void __maybe_unused probe(struct zs_pool *pool, unsigned long handle,
				 void *copy)
{
	void *bytes = zs_obj_read_begin(pool, handle, 64, copy);

	zs_obj_read_end(pool, handle, 64, bytes);
}
#endif

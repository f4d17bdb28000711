// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zsmalloc tells the class of a size: 6.2.
 *
 * WITHOUT: size classes are computed as the kernel's mm/zsmalloc.c does
 */
#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/zsmalloc.h>

#if ZM_PROBED
static unsigned int __maybe_unused probe(struct zs_pool *pool)
{
	return zs_lookup_class_index(pool, 64);
}
#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/* zs_malloc() takes the node to allocate on: 6.16. */
#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/numa.h>
#include <linux/zsmalloc.h>

static unsigned long __maybe_unused probe(struct zs_pool *pool)
{
#if ZM_PROBED
	return zs_malloc(pool, 64, GFP_KERNEL, NUMA_NO_NODE);
#else
	return zs_malloc(pool, 64, GFP_KERNEL);
#endif
}

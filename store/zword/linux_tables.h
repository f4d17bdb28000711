/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of tables in a kernel: contiguous where that can be had, and no page more
 * than they need. kmalloc() would take the next power of two.
 */
#ifndef ZWORD_LINUX_TABLES_H
#define ZWORD_LINUX_TABLES_H

#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "zword.h"

static inline struct zword_tables *zword_tables_alloc(void)
{
	void *tables = alloc_pages_exact(zword_tables_size(),
					 GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);

	return tables ? tables : vmalloc(zword_tables_size());
}

static inline void zword_tables_free(struct zword_tables *tables)
{
	if (is_vmalloc_addr(tables))
		vfree(tables);
	else if (tables)
		free_pages_exact(tables, zword_tables_size());
}

#endif /* ZWORD_LINUX_TABLES_H */

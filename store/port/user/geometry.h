/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zsmalloc's geometry: how the kernel's pool would lay objects out.
 *
 * Objects are rounded up to size classes 1/256 of a page apart. A class cuts a
 * span (zsmalloc: zspage), a chain of 1 to `chain` pages, into equal objects;
 * the chain's length is the one that wastes least. Neighbouring classes whose
 * spans have the same pages and hold the same number of objects are one. Each
 * object carries an 8-byte handle. Objects too large for that to pay (at least
 * `huge_size`) take a page of their own.
 *
 * Source: mm/zsmalloc.c. The rule for the chain's length changed in Linux 6.3,
 * together with the longest chain (4 pages before; CONFIG_ZSMALLOC_CHAIN_SIZE,
 * by default 8, since).
 */
#ifndef ZM_USER_GEOMETRY_H
#define ZM_USER_GEOMETRY_H

#include <zm_platform.h>

#define ZM_HANDLE_BYTES		8
#define ZM_CLASSES_MAX		257	/* of 4 KiB pages 255, of larger ones 257 */
#define ZM_CHAIN_DEFAULT	8
#define ZM_CHAIN_MAX		16

enum zm_chain_rule {
	ZM_CHAIN_LEAST_WASTE,	/* Linux 6.3 and later */
	ZM_CHAIN_BEST_PERCENT,	/* up to 6.2: whole percents of use */
};

struct zm_class_shape {
	u32 object_size;	/* bytes, handle included */
	u32 pages;		/* of a span */
	u32 objects;		/* in a span */
};

struct zm_geometry {
	u32 page_size;
	u32 class_count;
	u32 huge_size;		/* stored size from which a page is taken */
	u32 delta;		/* bytes from class to class */
	u32 size_min;		/* of the smallest class */
	struct zm_class_shape classes[ZM_CLASSES_MAX];	/* distinct ones */
	u16 class_of_step[ZM_CLASSES_MAX];	/* by (size - size_min) / delta */
};

/*
 * page_size: a power of two from 4096 to 65536; chain: 1 to ZM_CHAIN_MAX.
 * 0, or -EINVAL.
 */
int zm_geometry_init(struct zm_geometry *geometry, u32 page_size, u32 chain,
		     enum zm_chain_rule rule);

/* The class of an object of that many stored bytes, 1 to page_size. */
u32 zm_geometry_class(const struct zm_geometry *geometry, u32 size);

#endif /* ZM_USER_GEOMETRY_H */

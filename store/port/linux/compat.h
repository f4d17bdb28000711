/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one place that knows how kernels differ. Stock 6.1, 6.12, 7.2 and 7.3 are
 * built and tested. What lies between is known from the kernel's public sources, and was
 * not built.
 *
 * A macro ZM_HAS_... is 1 where the kernel has the feature and 0 where it does
 * not, whatever the kernel's number: kmod/probe.sh finds out by compiling
 * kmod/probes, which say since when mainline has it. Where both sides can be
 * hidden behind one function, that function is here and nobody else asks.
 */
#ifndef ZMELD_PORT_LINUX_COMPAT_H
#define ZMELD_PORT_LINUX_COMPAT_H

#include <linux/blkdev.h>
#include <linux/err.h>

#include "kernel_has.h"

/* LZ4_resetStreamHC() is not asked for: 6.1 declares it without exporting it. */

/* -- The disk -------------------------------------------------------------- */

/*
 * A disk for whole pages in memory: not rotating, synchronous where swap can be
 * told so, its pages stable while they are written, taking discards of any
 * length and, where a block is a page, requests to write zeros. ERR_PTR().
 */
#if ZM_HAS_LIMITS_AT_ALLOC

static inline struct gendisk *zm_disk_alloc_limited(unsigned int block_size)
{
	struct queue_limits limits = {
		.logical_block_size = block_size,
		.physical_block_size = PAGE_SIZE,
		.io_min = PAGE_SIZE,
		.io_opt = PAGE_SIZE,
		.max_hw_discard_sectors = UINT_MAX,
		.max_write_zeroes_sectors =
			block_size == PAGE_SIZE ? UINT_MAX : 0,
#if ZM_HAS_QUEUE_FEATURES
		.features = BLK_FEAT_STABLE_WRITES | BLK_FEAT_SYNCHRONOUS,
#endif
	};

	return blk_alloc_disk(&limits, NUMA_NO_NODE);
}

#else

static inline struct gendisk *zm_disk_alloc_limited(unsigned int block_size)
{
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);
	struct request_queue *queue;

	if (!disk)
		return ERR_PTR(-ENOMEM);
	queue = disk->queue;
	blk_queue_logical_block_size(queue, block_size);
	blk_queue_physical_block_size(queue, PAGE_SIZE);
	blk_queue_io_min(queue, PAGE_SIZE);
	blk_queue_io_opt(queue, PAGE_SIZE);
	queue->limits.discard_granularity = PAGE_SIZE;
	blk_queue_max_discard_sectors(queue, UINT_MAX);
	if (block_size == PAGE_SIZE)
		blk_queue_max_write_zeroes_sectors(queue, UINT_MAX);
	return disk;
}

#endif

static inline struct gendisk *zm_disk_alloc(unsigned int block_size)
{
	struct gendisk *disk = zm_disk_alloc_limited(block_size);

	if (IS_ERR(disk))
		return disk;
#if !ZM_HAS_QUEUE_FEATURES
	blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, disk->queue);
	blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, disk->queue);
#if ZM_HAS_SYNCHRONOUS_FLAG
	blk_queue_flag_set(QUEUE_FLAG_SYNCHRONOUS, disk->queue);
#endif
#endif
	return disk;
}

/*
 * The head of the disk's open() operation, for its definition:
 *
 *	static int zm_open(ZM_OPEN_ARGUMENTS)
 *	{
 *		struct gendisk *disk = ZM_OPEN_DISK;
 */
#if ZM_HAS_BLK_MODE
#define ZM_OPEN_ARGUMENTS	struct gendisk *opened, blk_mode_t mode
#define ZM_OPEN_DISK		opened
#else
#define ZM_OPEN_ARGUMENTS	struct block_device *opened, fmode_t mode
#define ZM_OPEN_DISK		((opened)->bd_disk)
#endif

/* -- Classes --------------------------------------------------------------- */

/* Heads of a class attribute's show() and store(), up to their buffer. */
#if ZM_HAS_CONST_CLASSES
#define ZM_CLASS_ARGUMENTS \
	const struct class *class, const struct class_attribute *attr
#else
#define ZM_CLASS_ARGUMENTS \
	struct class *class, struct class_attribute *attr
#endif

#endif /* ZMELD_PORT_LINUX_COMPAT_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one place that knows kernel versions. Stock 6.1, 6.12 and 7.2 are built
 * and tested; what lies between takes the side of the version in which the
 * feature came.
 *
 * A macro ZM_HAS_... says that the kernel has the feature. Where both sides can
 * be hidden behind one function, that function is here and nobody else asks.
 */
#ifndef ZMELD_KMOD_COMPAT_H
#define ZMELD_KMOD_COMPAT_H

#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/version.h>

/* -- What the kernel has --------------------------------------------------- */

#define ZM_KERNEL_FROM(major, minor) \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))

/* LZ4_resetStreamHC() is not asked for: 6.1 declares it without exporting it. */

/* zstd: dictionaries digested once, by reference, and the default level. */
#define ZM_HAS_ZSTD_DICTIONARIES	ZM_KERNEL_FROM(6, 12)
/* class_create() and class attributes without a module, with const classes. */
#define ZM_HAS_CONST_CLASSES		ZM_KERNEL_FROM(6, 4)
/* open() and release() get the disk; blk_mode_t in place of fmode_t. */
#define ZM_HAS_BLK_MODE			ZM_KERNEL_FROM(6, 5)
/* A flag tells swap that requests end when submit_bio() returns. */
#define ZM_HAS_SYNCHRONOUS_FLAG		ZM_KERNEL_FROM(6, 5)
/* Before that flag swap asked for the rw_page() operation. */
#define ZM_HAS_RW_PAGE			(!ZM_HAS_SYNCHRONOUS_FLAG)
/* A block device is opened as a file. */
#define ZM_HAS_BDEV_FILES		ZM_KERNEL_FROM(6, 9)
/* blk_alloc_disk() takes the queue's limits, features among them. */
#define ZM_HAS_LIMITS_AT_ALLOC		ZM_KERNEL_FROM(6, 11)
/* zsmalloc: tells the class of a size. */
#define ZM_HAS_POOL_CLASSES		ZM_KERNEL_FROM(6, 2)
/* zsmalloc: reads by begin and end, writes by copying; no mapping. */
#define ZM_HAS_POOL_COPIES		ZM_KERNEL_FROM(6, 16)
/* zsmalloc: zs_malloc() takes the node to allocate on. */
#define ZM_HAS_POOL_NODES		ZM_KERNEL_FROM(6, 16)

/* -- The disk -------------------------------------------------------------- */

/*
 * A disk for whole pages in memory: not rotating, synchronous where swap can be
 * told so, its pages stable while they are written, taking discards of any
 * length and, where a block is a page, requests to write zeros. ERR_PTR().
 */
#if ZM_HAS_LIMITS_AT_ALLOC

static inline struct gendisk *zm_disk_alloc(unsigned int logical_block_size)
{
	struct queue_limits limits = {
		.logical_block_size = logical_block_size,
		.physical_block_size = PAGE_SIZE,
		.io_min = PAGE_SIZE,
		.io_opt = PAGE_SIZE,
		.max_hw_discard_sectors = UINT_MAX,
		.max_write_zeroes_sectors =
			logical_block_size == PAGE_SIZE ? UINT_MAX : 0,
		.features = BLK_FEAT_STABLE_WRITES | BLK_FEAT_SYNCHRONOUS,
	};

	return blk_alloc_disk(&limits, NUMA_NO_NODE);
}

#else

static inline struct gendisk *zm_disk_alloc(unsigned int logical_block_size)
{
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);
	struct request_queue *queue;

	if (!disk)
		return ERR_PTR(-ENOMEM);
	queue = disk->queue;
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, queue);
	blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, queue);
	blk_queue_logical_block_size(queue, logical_block_size);
	blk_queue_physical_block_size(queue, PAGE_SIZE);
	blk_queue_io_min(queue, PAGE_SIZE);
	blk_queue_io_opt(queue, PAGE_SIZE);
	queue->limits.discard_granularity = PAGE_SIZE;
	blk_queue_max_discard_sectors(queue, UINT_MAX);
	if (logical_block_size == PAGE_SIZE)
		blk_queue_max_write_zeroes_sectors(queue, UINT_MAX);
	return disk;
}

#endif

/*
 * Heads of the disk's open() and release() operations, for their definitions:
 *
 *	static int zm_open(ZM_OPEN_ARGUMENTS)
 *	{
 *		struct gendisk *disk = ZM_OPEN_DISK;
 */
#if ZM_HAS_BLK_MODE
#define ZM_OPEN_ARGUMENTS	struct gendisk *opened, blk_mode_t mode
#define ZM_OPEN_DISK		opened
#define ZM_RELEASE_ARGUMENTS	struct gendisk *released
#else
#define ZM_OPEN_ARGUMENTS	struct block_device *opened, fmode_t mode
#define ZM_OPEN_DISK		((opened)->bd_disk)
#define ZM_RELEASE_ARGUMENTS	struct gendisk *released, fmode_t mode
#endif

/* -- Other block devices, by path ------------------------------------------ */

/* A block device that somebody else drives, opened for us alone. */
struct zm_bdev {
#if ZM_HAS_BDEV_FILES
	struct file *file;
#endif
	struct block_device *bdev;	/* NULL: not open */
};

#if ZM_HAS_BDEV_FILES

/* -ENOTBLK: not a block device; -EBUSY: in use. May sleep. */
static inline int zm_bdev_open(struct zm_bdev *device, const char *path,
			       void *holder)
{
	struct file *file;

	file = bdev_file_open_by_path(path, BLK_OPEN_READ | BLK_OPEN_WRITE,
				      holder, NULL);
	if (IS_ERR(file))
		return PTR_ERR(file);
	device->file = file;
	device->bdev = file_bdev(file);
	return 0;
}

static inline void zm_bdev_close(struct zm_bdev *device)
{
	if (device->bdev)
		bdev_fput(device->file);
	device->file = NULL;
	device->bdev = NULL;
}

#else

#define ZM_BDEV_MODE (FMODE_READ | FMODE_WRITE | FMODE_EXCL)

/* -ENOTBLK: not a block device; -EBUSY: in use. May sleep. */
static inline int zm_bdev_open(struct zm_bdev *device, const char *path,
			       void *holder)
{
	struct block_device *bdev;

	bdev = blkdev_get_by_path(path, ZM_BDEV_MODE, holder);
	if (IS_ERR(bdev))
		return PTR_ERR(bdev);
	device->bdev = bdev;
	return 0;
}

static inline void zm_bdev_close(struct zm_bdev *device)
{
	if (device->bdev)
		blkdev_put(device->bdev, ZM_BDEV_MODE);
	device->bdev = NULL;
}

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

#endif /* ZMELD_KMOD_COMPAT_H */

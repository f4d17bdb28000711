/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STUB_BLKDEV_H
#define STUB_BLKDEV_H

#include <linux/types.h>

enum req_op { REQ_OP_READ, REQ_OP_WRITE };

static inline bool op_is_write(enum req_op op)
{
	return op & 1;
}

typedef unsigned int fmode_t;
#if KERNEL >= 605
typedef unsigned int blk_mode_t;
#endif

struct block_device_operations {
#if KERNEL >= 605
	int (*open)(struct gendisk *disk, blk_mode_t mode);
#else
	int (*open)(struct block_device *bdev, fmode_t mode);
#endif
#if KERNEL < 603
	int (*rw_page)(struct block_device *bdev, sector_t sector,
		       struct page *page, enum req_op op);
#endif
};

struct queue_limits {
#if KERNEL >= 611
	unsigned int features;
#endif
	unsigned int logical_block_size;
	unsigned int max_hw_discard_sectors;
	unsigned int max_write_zeroes_sectors;
};

struct gendisk {
	struct request_queue *queue;
};

#if KERNEL >= 609
struct gendisk *__blk_alloc_disk(struct queue_limits *limits, int node);
#define blk_alloc_disk(limits, node)	__blk_alloc_disk(limits, node)
#else
struct gendisk *__blk_alloc_disk(int node);
#define blk_alloc_disk(node)		__blk_alloc_disk(node)
#endif

#if KERNEL >= 611
/* Not macros there at first: no #ifdef would find them. */
enum {
	BLK_FEAT_STABLE_WRITES = 1u << 5,
	BLK_FEAT_SYNCHRONOUS = 1u << 6,
};
#else
#define QUEUE_FLAG_NONROT		6
#define QUEUE_FLAG_ADD_RANDOM		10
#define QUEUE_FLAG_STABLE_WRITES	15
#if KERNEL >= 603
#define QUEUE_FLAG_SYNCHRONOUS		11
#endif
void blk_queue_logical_block_size(struct request_queue *queue,
				  unsigned int size);
void blk_queue_max_discard_sectors(struct request_queue *queue,
				   unsigned int sectors);
void blk_queue_max_write_zeroes_sectors(struct request_queue *queue,
					unsigned int sectors);
#endif
void blk_queue_flag_set(unsigned int flag, struct request_queue *queue);
void blk_queue_flag_clear(unsigned int flag, struct request_queue *queue);

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/* blk_alloc_disk() takes the queue's limits: 6.9. */
#include <linux/blkdev.h>

static struct gendisk *__maybe_unused probe(void)
{
#if ZM_PROBED
	struct queue_limits limits = {
		.logical_block_size = 4096,
		.max_hw_discard_sectors = 1,
		.max_write_zeroes_sectors = 1,
	};

	return blk_alloc_disk(&limits, NUMA_NO_NODE);
#else
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);

	blk_queue_logical_block_size(disk->queue, 4096);
	blk_queue_max_discard_sectors(disk->queue, 1);
	blk_queue_max_write_zeroes_sectors(disk->queue, 1);
	return disk;
#endif
}

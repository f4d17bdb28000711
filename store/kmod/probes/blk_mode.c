// SPDX-License-Identifier: GPL-2.0-or-later
/* A disk's open() gets the disk, and a blk_mode_t in place of a fmode_t: 6.5. */
#include <linux/blkdev.h>

#if ZM_PROBED
static int open(struct gendisk *disk, blk_mode_t mode)
#else
static int open(struct block_device *bdev, fmode_t mode)
#endif
{
	return 0;
}

static const struct block_device_operations probe __maybe_unused = {
	.open = open,
};

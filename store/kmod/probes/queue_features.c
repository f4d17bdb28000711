// SPDX-License-Identifier: GPL-2.0-or-later
/* What a queue is like stands in its limits, as features; before, as flags: 6.11. */
#include <linux/blkdev.h>

#if ZM_PROBED
static const struct queue_limits probe __maybe_unused = {
	.features = BLK_FEAT_STABLE_WRITES | BLK_FEAT_SYNCHRONOUS,
};
#else
static void __maybe_unused probe(struct request_queue *queue)
{
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, queue);
	blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, queue);
}
#endif

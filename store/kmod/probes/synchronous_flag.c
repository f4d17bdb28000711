// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A queue's flag tells swap that requests end when submit_bio() returns: 6.3 to
 * 6.10; before it is rw_page(), after it a feature.
 */
#include <linux/blkdev.h>

#if ZM_PROBED
static void __maybe_unused probe(struct request_queue *queue)
{
	blk_queue_flag_set(QUEUE_FLAG_SYNCHRONOUS, queue);
}
#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads of pages that are on the backing device.
 *
 * A bio sent from inside submit_bio() starts only when that returns, so nobody
 * may wait for one there. A read that meets a backed page therefore goes on in
 * a worker, which sends for one block after another; each block that arrives
 * is made into its page by a second worker, and the last of all ends the bio.
 *
 * Swap may need these reads to get memory back, so they always come through:
 *   - memory for them is from pools; from inside submit_bio() one piece is
 *     taken for each bio, the rest in the worker, which may wait because what
 *     it waits for is on its way;
 *   - both queues have a rescuer of their own, since a worker of the first may
 *     wait for one of the second.
 */
#include <linux/highmem.h>
#include <linux/mempool.h>
#include <linux/slab.h>

#include "device.h"

/* How many of each are kept for when there is no memory. */
#define KEPT_MIN 32

/* A block on its way to its page. */
struct fetch {
	struct work_struct work;
	struct zm_later *later;
	struct zm_backed backed;
	struct page *page;
	struct bio bio;
	struct bio_vec piece;
};

static struct workqueue_struct *read_queue;
static struct workqueue_struct *arrival_queue;
static mempool_t later_pool;
static mempool_t fetch_pool;

static void read_prepare(struct zm_device *device, struct bio *bio,
			 struct bio_vec *piece, struct page *page, u64 block)
{
	bio_init(bio, device->backing, piece, 1, REQ_OP_READ);
	bio->bi_iter.bi_sector = block << ZM_SECTORS_PER_PAGE_SHIFT;
	__bio_add_page(bio, page, PAGE_SIZE, 0);
}

/* Makes the page of the block that was read into it. May sleep. */
static int page_finish(struct zm_device *device, struct zm_backed *backed,
		       struct page *page, int err)
{
	void *bytes = kmap_local_page(page);

	err = zm_page_read_end(device->store, backed, bytes, bytes, err);
	kunmap_local(bytes);
	if (!err)
		flush_dcache_page(page);
	return err;
}

static void later_fail(struct zm_later *later, blk_status_t status)
{
	cmpxchg(&later->status, BLK_STS_OK, status);
}

static void later_put(struct zm_later *later)
{
	if (!atomic_dec_and_test(&later->pending))
		return;
	zm_bio_end(later->device, later->bio, later->started, later->status);
	mempool_free(later, &later_pool);
}

static void fetch_arrived(struct work_struct *work)
{
	struct fetch *fetch = container_of(work, struct fetch, work);
	struct zm_later *later = fetch->later;
	int err = blk_status_to_errno(fetch->bio.bi_status);

	if (page_finish(later->device, &fetch->backed, fetch->page, err))
		later_fail(later, BLK_STS_IOERR);
	bio_uninit(&fetch->bio);
	mempool_free(fetch, &fetch_pool);
	later_put(later);
}

/* From here decompression may have to wait for a codec: not in an interrupt. */
static void fetch_ended(struct bio *bio)
{
	struct fetch *fetch = container_of(bio, struct fetch, bio);

	queue_work(arrival_queue, &fetch->work);
}

/*
 * Sends for a block; the page is ready, or the error noted, before `later`
 * ends. pre: in the worker of `later`.
 */
void zm_later_fetch(struct zm_later *later, const struct zm_backed *backed,
		    struct page *page)
{
	struct fetch *fetch = mempool_alloc(&fetch_pool, GFP_NOIO);

	fetch->later = later;
	fetch->backed = *backed;
	fetch->page = page;
	INIT_WORK(&fetch->work, fetch_arrived);
	read_prepare(later->device, &fetch->bio, &fetch->piece, page,
		     backed->block);
	fetch->bio.bi_end_io = fetch_ended;
	atomic_inc(&later->pending);
	atomic64_inc(&later->device->backing_reads);
	submit_bio(&fetch->bio);
}

static void later_run(struct work_struct *work)
{
	struct zm_later *later = container_of(work, struct zm_later, work);
	blk_status_t status;

	status = zm_pages_read(later->device, later->bio, &later->iter, later);
	if (status)
		later_fail(later, status);
	later_put(later);
}

/* Reads on from the iterator in a worker, which ends the bio. May sleep. */
void zm_later_read(struct zm_device *device, struct bio *bio,
		   struct bvec_iter iter, unsigned long started)
{
	struct zm_later *later = mempool_alloc(&later_pool, GFP_NOIO);

	later->device = device;
	later->bio = bio;
	later->iter = iter;
	later->started = started;
	later->status = BLK_STS_OK;
	atomic_set(&later->pending, 1);
	INIT_WORK(&later->work, later_run);
	queue_work(read_queue, &later->work);
}

/* -- Reads that are waited for --------------------------------------------- */

struct waited_read {
	struct work_struct work;
	struct zm_device *device;
	struct zm_backed *backed;
	struct page *page;
	int err;
};

static void waited_read_run(struct work_struct *work)
{
	struct waited_read *read = container_of(work, struct waited_read, work);
	struct bio_vec piece;
	struct bio bio;

	read_prepare(read->device, &bio, &piece, read->page,
		     read->backed->block);
	read->err = submit_bio_wait(&bio);
	bio_uninit(&bio);
}

/* 0, or what zm_page_read_end() says. in_worker: not inside submit_bio(). */
int zm_backed_read_wait(struct zm_device *device, struct zm_backed *backed,
			struct page *page, bool in_worker)
{
	struct waited_read read = {
		.device = device,
		.backed = backed,
		.page = page,
	};

	atomic64_inc(&device->backing_reads);
	INIT_WORK_ONSTACK(&read.work, waited_read_run);
	if (in_worker) {
		waited_read_run(&read.work);
	} else {
		queue_work(read_queue, &read.work);
		flush_work(&read.work);
	}
	destroy_work_on_stack(&read.work);
	return page_finish(device, backed, page, read.err);
}

/* -- The module's part ----------------------------------------------------- */

int zm_backed_start(void)
{
	const unsigned int flags = WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM;

	if (mempool_init_kmalloc_pool(&later_pool, KEPT_MIN,
				      sizeof(struct zm_later)))
		return -ENOMEM;
	if (mempool_init_kmalloc_pool(&fetch_pool, KEPT_MIN,
				      sizeof(struct fetch)))
		goto exit_later_pool;
	read_queue = alloc_workqueue("zmeld_read", flags, 0);
	if (!read_queue)
		goto exit_fetch_pool;
	arrival_queue = alloc_workqueue("zmeld_arrival", flags, 0);
	if (!arrival_queue)
		goto destroy_read_queue;
	return 0;

destroy_read_queue:
	destroy_workqueue(read_queue);
exit_fetch_pool:
	mempool_exit(&fetch_pool);
exit_later_pool:
	mempool_exit(&later_pool);
	return -ENOMEM;
}

/* pre: no device is left. */
void zm_backed_stop(void)
{
	destroy_workqueue(arrival_queue);
	destroy_workqueue(read_queue);
	mempool_exit(&fetch_pool);
	mempool_exit(&later_pool);
}

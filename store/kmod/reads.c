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
 *     wait for one of the second;
 *   - every device has its own pools and queues. Its backing device may be of
 *     our own kind, at once or with others in between; with common ones the
 *     reads above would hold what those below need to end.
 */
#include <linux/completion.h>
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
	struct page *into;	/* what the block is read to; see read_into() */
	struct bio bio;
	struct bio_vec piece;
};

/* What a device reads its backing device with. */
struct zm_reads {
	struct workqueue_struct *read_queue;
	struct workqueue_struct *arrival_queue;
	mempool_t later_pool;
	mempool_t fetch_pool;
	mempool_t page_pool;
};

static void read_prepare(struct zm_device *device, struct bio *bio,
			 struct bio_vec *piece, struct page *page, u64 block)
{
	bio_init(bio, device->backing, piece, 1, REQ_OP_READ);
	bio->bi_iter.bi_sector = block << ZM_SECTORS_PER_PAGE_SHIFT;
	__bio_add_page(bio, page, PAGE_SIZE, 0);
}

/*
 * Where a block is read to: the page itself, or one of ours where what was read
 * is looked at, since the page's owner may change that meanwhile. May sleep, and
 * is not for inside submit_bio().
 */
static struct page *read_into(struct zm_device *device,
			      const struct zm_backed *backed, struct page *page)
{
	return backed->apart ? mempool_alloc(&device->reads->page_pool,
					     GFP_NOIO) : page;
}

/* Makes the page of the block that was read. May sleep. */
static int page_finish(struct zm_device *device, struct zm_backed *backed,
		       struct page *into, struct page *page, int err)
{
	void *bytes = kmap_local_page(page);
	void *read = into == page ? bytes : kmap_local_page(into);

	err = zm_page_read_end(device->store, backed, read, bytes, err);
	if (into != page) {
		kunmap_local(read);
		mempool_free(into, &device->reads->page_pool);
	}
	kunmap_local(bytes);
	if (!err)
		flush_dcache_page(page);
	return err;
}

static void later_fail(struct zm_later *later, int err)
{
	cmpxchg(&later->err, 0, err);
}

/*
 * Once the bio has ended the device may be reset, but its pools stay until the
 * worker that runs this has returned.
 */
static void later_put(struct zm_later *later)
{
	struct zm_reads *reads = later->device->reads;

	if (!atomic_dec_and_test(&later->pending))
		return;
	zm_bio_end(later->device, later->bio, later->started,
		   errno_to_blk_status(later->err));
	mempool_free(later, &reads->later_pool);
}

static void fetch_arrived(struct work_struct *work)
{
	struct fetch *fetch = container_of(work, struct fetch, work);
	struct zm_later *later = fetch->later;
	int err = blk_status_to_errno(fetch->bio.bi_status);

	err = page_finish(later->device, &fetch->backed, fetch->into,
			  fetch->page, err);
	if (err)
		later_fail(later, -EIO);
	bio_uninit(&fetch->bio);
	mempool_free(fetch, &later->device->reads->fetch_pool);
	later_put(later);
}

/* From here decompression may have to wait for a codec: not in an interrupt. */
static void fetch_ended(struct bio *bio)
{
	struct fetch *fetch = container_of(bio, struct fetch, bio);

	queue_work(fetch->later->device->reads->arrival_queue, &fetch->work);
}

/*
 * Sends for a block; the page is ready, or the error noted, before `later`
 * ends. pre: in the worker of `later`.
 */
void zm_later_fetch(struct zm_later *later, const struct zm_backed *backed,
		    struct page *page)
{
	struct fetch *fetch = mempool_alloc(&later->device->reads->fetch_pool,
					    GFP_NOIO);

	fetch->later = later;
	fetch->backed = *backed;
	fetch->page = page;
	fetch->into = read_into(later->device, backed, page);
	INIT_WORK(&fetch->work, fetch_arrived);
	read_prepare(later->device, &fetch->bio, &fetch->piece, fetch->into,
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
		later_fail(later, blk_status_to_errno(status));
	later_put(later);
}

/* Reads on from the iterator in a worker, which ends the bio. May sleep. */
void zm_later_read(struct zm_device *device, struct bio *bio,
		   struct bvec_iter iter, unsigned long started)
{
	struct zm_later *later = mempool_alloc(&device->reads->later_pool,
					       GFP_NOIO);

	later->device = device;
	later->bio = bio;
	later->iter = iter;
	later->started = started;
	later->err = 0;
	atomic_set(&later->pending, 1);
	INIT_WORK(&later->work, later_run);
	queue_work(device->reads->read_queue, &later->work);
}

/* -- Reads that are waited for --------------------------------------------- */

struct waited_read {
	struct work_struct work;
	struct zm_device *device;
	struct zm_backed *backed;
	struct page *page;
	struct page *into;
	struct completion done;
	int err;
};

static void waited_read_run(struct waited_read *read)
{
	struct bio_vec piece;
	struct bio bio;

	read->into = read_into(read->device, read->backed, read->page);
	read_prepare(read->device, &bio, &piece, read->into,
		     read->backed->block);
	read->err = submit_bio_wait(&bio);
	bio_uninit(&bio);
}

static void waited_read_work(struct work_struct *work)
{
	struct waited_read *read = container_of(work, struct waited_read, work);

	waited_read_run(read);
	complete(&read->done);
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
	if (in_worker) {
		waited_read_run(&read);
	} else {
		INIT_WORK_ONSTACK(&read.work, waited_read_work);
		init_completion(&read.done);
		queue_work(device->reads->read_queue, &read.work);
		wait_for_completion_io(&read.done);
		destroy_work_on_stack(&read.work);
	}
	return page_finish(device, backed, read.into, page, read.err);
}

/* -- A device's part ------------------------------------------------------- */

/* What a device needs to read its backing device, or NULL. May sleep. */
struct zm_reads *zm_reads_create(void)
{
	const unsigned int flags = WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM;
	struct zm_reads *reads = kzalloc(sizeof(*reads), GFP_KERNEL);

	if (!reads)
		return NULL;
	if (mempool_init_kmalloc_pool(&reads->later_pool, KEPT_MIN,
				      sizeof(struct zm_later)))
		goto free_reads;
	if (mempool_init_kmalloc_pool(&reads->fetch_pool, KEPT_MIN,
				      sizeof(struct fetch)))
		goto exit_later_pool;
	if (mempool_init_page_pool(&reads->page_pool, KEPT_MIN, 0))
		goto exit_fetch_pool;
	reads->read_queue = alloc_workqueue("zmeld_read", flags, 0);
	if (!reads->read_queue)
		goto exit_page_pool;
	reads->arrival_queue = alloc_workqueue("zmeld_arrival", flags, 0);
	if (!reads->arrival_queue)
		goto destroy_read_queue;
	return reads;

destroy_read_queue:
	destroy_workqueue(reads->read_queue);
exit_page_pool:
	mempool_exit(&reads->page_pool);
exit_fetch_pool:
	mempool_exit(&reads->fetch_pool);
exit_later_pool:
	mempool_exit(&reads->later_pool);
free_reads:
	kfree(reads);
	return NULL;
}

/* Takes NULL. pre: every read has ended its bio. May sleep. */
void zm_reads_destroy(struct zm_reads *reads)
{
	if (!reads)
		return;
	destroy_workqueue(reads->arrival_queue);
	destroy_workqueue(reads->read_queue);
	mempool_exit(&reads->page_pool);
	mempool_exit(&reads->fetch_pool);
	mempool_exit(&reads->later_pool);
	kfree(reads);
}

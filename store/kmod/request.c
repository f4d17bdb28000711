// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests: bios, and the swap layer's notes that a slot is free.
 *
 * A bio is taken apart into pages of the device. One that lies in one page of
 * memory goes to the store directly. One that comes in pieces (a buffer that
 * is not aligned) or only in part (a page larger than a block) goes through a
 * page of our own.
 *
 * Invariants:
 *   - a page of the device is written in one piece, never twice for one bio;
 *   - where blocks are smaller than pages, a write of a part reads the page,
 *     changes the part and writes it back under the page's part lock, which
 *     all other writers of that page take too: none is lost;
 *   - a bio is ended once, by whoever ends its last page.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/highmem.h>
#include <linux/pagemap.h>
#include <linux/sched.h>

#include "device.h"

/* -- Parts of pages -------------------------------------------------------- */

static struct mutex *part_lock_of(struct zm_device *device, u64 index)
{
	return &device->part_locks[index % ZM_PART_LOCKS];
}

static void part_lock(struct zm_device *device, u64 index)
{
	if (ZM_BLOCK_SIZE < PAGE_SIZE)
		mutex_lock(part_lock_of(device, index));
}

static void part_unlock(struct zm_device *device, u64 index)
{
	if (ZM_BLOCK_SIZE < PAGE_SIZE)
		mutex_unlock(part_lock_of(device, index));
}

static u64 index_of(const struct bvec_iter *iter)
{
	return iter->bi_sector >> ZM_SECTORS_PER_PAGE_SHIFT;
}

static u32 offset_of(const struct bvec_iter *iter)
{
	return (iter->bi_sector & (ZM_SECTORS_PER_PAGE - 1)) << SECTOR_SHIFT;
}

/* How much of the page that it points at the bio is about. */
static u32 length_of(const struct bvec_iter *iter)
{
	return min_t(u32, iter->bi_size, PAGE_SIZE - offset_of(iter));
}

/* A bio of large pages can be hundreds of MiB, and a codec slow: let others run. */
static void page_done(const struct bvec_iter *iter)
{
	if (index_of(iter) % 64 == 0)
		cond_resched();
}

/*
 * Moves bytes between the bio's pieces and memory, and the iterator with them.
 */
static void pieces_copy(struct bio *bio, struct bvec_iter *iter, char *bytes,
			u32 length, bool to_bio)
{
	struct bio_vec piece;

	while (length) {
		piece = bio_iter_iovec(bio, *iter);
		piece.bv_len = min(piece.bv_len, length);
		if (to_bio) {
			memcpy_to_bvec(&piece, bytes);
			flush_dcache_page(piece.bv_page);
		} else {
			memcpy_from_bvec(bytes, &piece);
		}
		bio_advance_iter_single(bio, iter, piece.bv_len);
		bytes += piece.bv_len;
		length -= piece.bv_len;
	}
}

/* -- Reading --------------------------------------------------------------- */

/* Reads a page from wherever it is, and waits for it. */
static int page_read_wait(struct zm_device *device, u64 index,
			  struct page *page, bool in_worker)
{
	struct zm_backed backed;
	void *bytes = kmap_local_page(page);
	int ret = zm_page_read_begin(device->store, index, bytes, &backed);

	kunmap_local(bytes);
	if (ret == ZM_BACKED)
		ret = zm_backed_read_wait(device, &backed, page, in_worker);
	return ret;
}

/* Reads what is not one whole page of memory. */
static int pieces_read(struct zm_device *device, struct bio *bio,
		       struct bvec_iter *iter)
{
	struct page *page = alloc_page(GFP_NOIO);
	u32 offset = offset_of(iter);
	char *bytes;
	int err;

	if (!page)
		return -ENOMEM;
	err = page_read_wait(device, index_of(iter), page, true);
	if (!err) {
		bytes = kmap_local_page(page);
		pieces_copy(bio, iter, bytes + offset, length_of(iter), true);
		kunmap_local(bytes);
	}
	__free_page(page);
	return err;
}

/* Whether the page may be on the backing device, so that it takes a worker. */
static bool may_be_backed(struct zm_device *device, u64 index)
{
	struct zm_slot_info info;

	return device->backing_file &&
	       !zm_slot_info(device->store, index, &info) && info.backed;
}

/*
 * Reads the bio's pages from the iterator on. Without `later` it ends with
 * BLK_STS_AGAIN at the first page that takes a worker; with it, it is in that
 * worker and sends for the block.
 */
blk_status_t zm_pages_read(struct zm_device *device, struct bio *bio,
			   struct bvec_iter *iter, struct zm_later *later)
{
	struct zm_backed backed;
	struct bio_vec piece;
	void *bytes;
	int ret;

	while (iter->bi_size) {
		piece = bio_iter_iovec(bio, *iter);
		if (!later && may_be_backed(device, index_of(iter)))
			return BLK_STS_AGAIN;
		if (piece.bv_len != PAGE_SIZE || offset_of(iter)) {
			/* A page may have left for its block since. */
			if (!later && device->backing_file)
				return BLK_STS_AGAIN;
			ret = pieces_read(device, bio, iter);
			if (ret)
				return BLK_STS_IOERR;
			continue;
		}
		bytes = kmap_local_page(piece.bv_page);
		ret = zm_page_read_begin(device->store, index_of(iter), bytes,
					 &backed);
		kunmap_local(bytes);
		if (ret == ZM_BACKED && later)
			zm_later_fetch(later, &backed, piece.bv_page);
		else if (ret == ZM_BACKED)
			ret = zm_backed_read_wait(device, &backed,
						  piece.bv_page, false);
		if (ret < 0)
			return BLK_STS_IOERR;
		if (!ret)
			flush_dcache_page(piece.bv_page);
		bio_advance_iter_single(bio, iter, PAGE_SIZE);
		page_done(iter);
	}
	return BLK_STS_OK;
}

/* The one end of every read and write: accounted, counted, given back. */
void zm_bio_end(struct zm_device *device, struct bio *bio,
		unsigned long started, blk_status_t status)
{
	if (status) {
		atomic64_inc(op_is_write(bio_op(bio)) ?
			     &device->failed_writes : &device->failed_reads);
		bio->bi_status = status;
	}
	bio_end_io_acct(bio, started);
	bio_endio(bio);
}

static void bio_read(struct zm_device *device, struct bio *bio)
{
	unsigned long started = bio_start_io_acct(bio);
	struct bvec_iter iter = bio->bi_iter;
	blk_status_t status = zm_pages_read(device, bio, &iter, NULL);

	if (status == BLK_STS_AGAIN)
		zm_later_read(device, bio, iter, started);
	else
		zm_bio_end(device, bio, started, status);
}

/* -- Writing --------------------------------------------------------------- */

static int page_write(struct zm_device *device, u64 index, struct page *page)
{
	void *bytes = kmap_local_page(page);
	int err = zm_page_write(device->store, index, bytes);

	kunmap_local(bytes);
	return err;
}

/* Writes what is not one whole page of memory. */
static int pieces_write(struct zm_device *device, struct bio *bio,
			struct bvec_iter *iter)
{
	struct page *page = alloc_page(GFP_NOIO);
	u32 offset = offset_of(iter), length = length_of(iter);
	u64 index = index_of(iter);
	char *bytes;
	int err = 0;

	if (!page)
		return -ENOMEM;
	part_lock(device, index);
	if (length != PAGE_SIZE)
		err = page_read_wait(device, index, page, false);
	if (!err) {
		bytes = kmap_local_page(page);
		pieces_copy(bio, iter, bytes + offset, length, false);
		kunmap_local(bytes);
		err = page_write(device, index, page);
	}
	part_unlock(device, index);
	__free_page(page);
	return err;
}

static blk_status_t pages_write(struct zm_device *device, struct bio *bio)
{
	struct bvec_iter iter = bio->bi_iter;
	struct bio_vec piece;
	int err;

	while (iter.bi_size) {
		piece = bio_iter_iovec(bio, iter);
		if (piece.bv_len == PAGE_SIZE && !offset_of(&iter)) {
			part_lock(device, index_of(&iter));
			err = page_write(device, index_of(&iter),
					 piece.bv_page);
			part_unlock(device, index_of(&iter));
			bio_advance_iter_single(bio, &iter, PAGE_SIZE);
		} else {
			err = pieces_write(device, bio, &iter);
		}
		if (err)
			return BLK_STS_IOERR;
		page_done(&iter);
	}
	return BLK_STS_OK;
}

static void bio_write(struct zm_device *device, struct bio *bio)
{
	unsigned long started = bio_start_io_acct(bio);

	zm_bio_end(device, bio, started, pages_write(device, bio));
}

/* -- Letting go of pages --------------------------------------------------- */

/*
 * Forgets the pages that lie wholly in the request; parts of pages at its ends
 * are left alone, since nothing is saved by writing zeros into them. Where a
 * page can be larger than a block, requests to write zeros are therefore not
 * offered, see zm_disk_alloc().
 */
static void bio_discard(struct zm_device *device, struct bio *bio)
{
	u64 first = bio->bi_iter.bi_sector;
	u64 end = first + bio_sectors(bio);
	u64 index = DIV_ROUND_UP_ULL(first, ZM_SECTORS_PER_PAGE);

	end >>= ZM_SECTORS_PER_PAGE_SHIFT;
	for (; index < end; index++) {
		part_lock(device, index);
		zm_page_discard(device->store, index);
		part_unlock(device, index);
		atomic64_inc(&device->notify_free);
		if (index % 1024 == 1023)
			cond_resched();
	}
	bio_endio(bio);
}

/*
 * Swap no longer needs the page. Called with spinning locks held, on 7.2 with
 * interrupts off. Unlike zram's, which tries the lock and counts what it missed, this is
 * never missed: for each page it waits for who holds the slot's lock, which nobody does
 * for longer than a page's bytes are copied, compared or, where the page is the slot's
 * alone, decompressed, and the interrupts of that processor come on top. Nothing is
 * compressed, allocated or waited for under it, but for the pool's own locks.
 */
static void slot_free_notify(struct block_device *bdev, unsigned long index)
{
	struct zm_device *device = bdev->bd_disk->private_data;

	zm_page_discard(device->store, index);
	atomic64_inc(&device->notify_free);
}

static void submit(struct bio *bio)
{
	struct zm_device *device = bio->bi_bdev->bd_disk->private_data;

	/* Who has seen the capacity sees the store: with zm_device_init(). */
	smp_rmb();
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		bio_read(device, bio);
		break;
	case REQ_OP_WRITE:
		bio_write(device, bio);
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		bio_discard(device, bio);
		break;
	default:
		bio->bi_status = BLK_STS_NOTSUPP;
		bio_endio(bio);
	}
}

#if ZM_HAS_RW_PAGE

/*
 * One page for the swap layer, which takes a bio instead where this fails. So
 * do reads of pages that are on the backing device.
 */
static int page_transfer(struct block_device *bdev, sector_t sector,
			 struct page *page, enum req_op op)
{
	struct zm_device *device = bdev->bd_disk->private_data;
	u64 index = sector >> ZM_SECTORS_PER_PAGE_SHIFT;
	unsigned long started;
	void *bytes;
	int err;

	if (PageTransHuge(page) || sector % ZM_SECTORS_PER_PAGE ||
	    !device->store || index >= zm_device_pages(device))
		return -EOPNOTSUPP;
	started = bdev_start_io_acct(bdev, ZM_SECTORS_PER_PAGE, op, jiffies);
	if (op_is_write(op)) {
		part_lock(device, index);
		err = page_write(device, index, page);
		part_unlock(device, index);
	} else {
		bytes = kmap_local_page(page);
		err = zm_page_read(device->store, index, bytes);
		kunmap_local(bytes);
		flush_dcache_page(page);
	}
	bdev_end_io_acct(bdev, op, started);
	if (err)
		return err;
	page_endio(page, op_is_write(op), 0);
	return 0;
}

#endif

/* disk->open_mutex is held. */
static int open(ZM_OPEN_ARGUMENTS)
{
	struct zm_device *device = ZM_OPEN_DISK->private_data;

	return device->claimed || device->removing ? -EBUSY : 0;
}

const struct block_device_operations zm_operations = {
	.open = open,
	.submit_bio = submit,
	.swap_slot_free_notify = slot_free_notify,
#if ZM_HAS_RW_PAGE
	.rw_page = page_transfer,
#endif
	.owner = THIS_MODULE,
};

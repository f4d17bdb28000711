// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sending pages to the backing device.
 *
 * The store says which block a page goes to and what stands in it; here are
 * the requests. As many as writeback_batch_size are on their way at a time,
 * each with a page of its own; an end of a request only puts it on a list, and
 * whoever started the writeback takes it from there. An error of the device
 * leaves its page where it is, and the others go on. The limit counts the pages
 * that went: not one that was written in vain, for it changed or was read
 * meanwhile, though bd_stat counts its write.
 *
 * Where not all may go (a limit, or too few blocks), the largest go first.
 */
#include <linux/completion.h>
#include <linux/highmem.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/llist.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "device.h"

/* One page on its way. */
struct request {
	union {
		struct llist_node ended;
		struct request *next;	/* of those without work */
	};
	struct batch *batch;
	struct zm_writeback wb;
	u64 limit;			/* the one that was counted down for it; 0: none */
	struct page *page;
	struct bio bio;
	struct bio_vec piece;
};

/* One writeback: belongs to the task that runs it, but for `ended`. */
struct batch {
	struct zm_device *device;
	struct request *free;
	u32 in_flight;
	int err;			/* the latest of a request */
	struct llist_head ended;
	struct completion one_ended;	/* completed once for each */
};

/* Pages of these numbers that are `which` of enum zm_pick. */
struct pages {
	u64 first;
	u64 end;
	u32 which;
};

/* -- The batch ------------------------------------------------------------- */

static void batch_free(struct batch *batch)
{
	struct request *request;

	while ((request = batch->free)) {
		batch->free = request->next;
		__free_page(request->page);
		kfree(request);
	}
}

/*
 * As many requests as there is memory for; only the first makes others give some
 * up. -ENOMEM where there is for none.
 */
static int batch_fill(struct batch *batch, u32 wanted)
{
	gfp_t gfp = GFP_KERNEL | __GFP_NOWARN;
	struct request *request;

	for (; wanted; wanted--) {
		request = kmalloc(sizeof(*request), gfp);
		if (!request)
			break;
		request->page = alloc_page(gfp);
		if (!request->page) {
			kfree(request);
			break;
		}
		request->batch = batch;
		request->next = batch->free;
		batch->free = request;
		gfp |= __GFP_NORETRY;
	}
	return batch->free ? 0 : -ENOMEM;
}

/* The limit is counted down before a request goes out, so it is never passed. */
static bool budget_take(struct zm_device *device, struct request *request)
{
	bool taken = true;

	request->limit = 0;
	spin_lock(&device->limit_lock);
	if (device->writeback_limited) {
		taken = device->writeback_left >= ZM_UNITS_PER_PAGE;
		if (taken) {
			device->writeback_left -= ZM_UNITS_PER_PAGE;
			request->limit = device->limits_set;
		}
	}
	spin_unlock(&device->limit_lock);
	return taken;
}

/* What was set meanwhile stands as it was set. */
static void budget_return(struct zm_device *device, struct request *request)
{
	spin_lock(&device->limit_lock);
	if (request->limit == device->limits_set)
		device->writeback_left += ZM_UNITS_PER_PAGE;
	spin_unlock(&device->limit_lock);
}

static void request_ended(struct bio *bio)
{
	struct request *request = container_of(bio, struct request, bio);
	struct batch *batch = request->batch;

	llist_add(&request->ended, &batch->ended);
	complete(&batch->one_ended);
}

static void request_finish(struct batch *batch, struct request *request)
{
	int err = blk_status_to_errno(request->bio.bi_status);

	bio_uninit(&request->bio);
	if (!zm_writeback_end(batch->device->store, &request->wb, !err))
		budget_return(batch->device, request);
	if (err)
		batch->err = err;
	else
		atomic64_inc(&batch->device->backing_writes);
	request->next = batch->free;
	batch->free = request;
	batch->in_flight--;
}

/* Waits for one request to end. pre: one is in flight. */
static void batch_wait(struct batch *batch)
{
	wait_for_completion_io(&batch->one_ended);
	request_finish(batch, llist_entry(llist_del_first(&batch->ended),
					  struct request, ended));
}

static void request_send(struct batch *batch, struct request *request)
{
	bio_init(&request->bio, batch->device->backing, &request->piece, 1,
		 REQ_OP_WRITE);
	request->bio.bi_iter.bi_sector =
		request->wb.block << ZM_SECTORS_PER_PAGE_SHIFT;
	request->bio.bi_end_io = request_ended;
	__bio_add_page(&request->bio, request->page, PAGE_SIZE, 0);
	batch->in_flight++;
	submit_bio(&request->bio);
}

/* -- Pages ----------------------------------------------------------------- */

/*
 * Sends one page if it is what is wanted. 0 also where it is not; an error
 * ends the writeback: -EIO the limit, -ENOSPC, -ENOMEM.
 */
static int page_send(struct batch *batch, u64 index, u32 which)
{
	struct zm_device *device = batch->device;
	struct request *request;
	void *bytes;
	int err;

	if (!batch->free)
		batch_wait(batch);
	request = batch->free;
	bytes = kmap_local_page(request->page);
	err = zm_writeback_begin(device->store, index, which,
				 device->compressed_writeback, &request->wb,
				 bytes);
	kunmap_local(bytes);
	if (err == -EBADMSG)
		batch->err = -EIO;
	if (err == -ENOENT || err == -EBADMSG)
		return 0;
	if (err)
		return err;
	if (!budget_take(device, request)) {
		zm_writeback_end(device->store, &request->wb, false);
		return -EIO;
	}
	batch->free = request->next;
	request_send(batch, request);
	return 0;
}

/* Pages are taken in bands of their size, where the largest go first. */
#define BANDS	8

/* Whether the page's object is in this band: the higher, the larger. */
static bool in_band(struct zm_device *device, u64 index, u32 band)
{
	struct zm_slot_info info;

	if (zm_slot_info(device->store, index, &info) || info.backed)
		return false;
	return info.size * BANDS / (u32)(PAGE_SIZE + 1) == band;
}

static int range_send(struct batch *batch, const struct pages *range,
		      bool banded, u32 band)
{
	u64 index;
	int err = 0;

	for (index = range->first; index < range->end && !err; index++) {
		if (index % 1024 == 0)
			cond_resched();
		if (zm_device_must_stop(batch->device))
			return -EINTR;
		if (!banded || in_band(batch->device, index, band))
			err = page_send(batch, index, range->which);
	}
	return err;
}

/* Whether perhaps not all that is asked for will go. */
static bool is_short(struct zm_device *device)
{
	struct zm_stats stats;

	if (READ_ONCE(device->writeback_limited))
		return true;
	zm_store_stats(device->store, &stats);
	return stats.blocks - stats.blocks_used <
	       stats.pages_stored - stats.pages_same;
}

static int ranges_send(struct batch *batch, const struct pages *ranges,
		       u32 count)
{
	bool banded = is_short(batch->device);
	u32 band = banded ? BANDS : 1;
	int err = 0;
	u32 i;

	while (band-- && !err)
		for (i = 0; i < count && !err; i++)
			err = range_send(batch, &ranges[i], banded, band);
	return err;
}

/* pre: the device is locked for work and has a backing device. */
static int ranges_write(struct zm_device *device, const struct pages *ranges,
			u32 count)
{
	struct batch batch = { .device = device };
	struct blk_plug plug;
	int err;

	init_llist_head(&batch.ended);
	init_completion(&batch.one_ended);
	err = batch_fill(&batch, READ_ONCE(device->writeback_batch));
	if (err)
		return err;
	blk_start_plug(&plug);
	err = ranges_send(&batch, ranges, count);
	blk_finish_plug(&plug);
	while (batch.in_flight)
		batch_wait(&batch);
	batch_free(&batch);
	return err ? err : batch.err;
}

/* -- What is asked for ----------------------------------------------------- */

/* "N", or with `pair` "N-M", both of them included. */
static int pages_parse(char *text, u64 pages, bool pair, struct pages *range)
{
	char *last = text;
	int err;

	if (pair) {
		strsep(&last, "-");
		if (!last)
			return -EINVAL;
	}
	err = kstrtou64(text, 10, &range->first);
	if (!err)
		err = kstrtou64(last, 10, &range->end);
	if (err)
		return err;
	if (range->first > range->end || range->end >= pages)
		return -ERANGE;
	range->end++;
	return 0;
}

/*
 * Words to ranges. A type is about the range before it, or about all, and is
 * the last word that counts; it may stand alone, without "type=".
 */
static int ranges_parse(struct zm_arguments *arguments, u64 pages,
			struct pages *ranges, u32 *count)
{
	struct pages range = { .end = pages };
	int err = 0;
	bool last = false;

	for (*count = 0; !last && zm_arguments_next(arguments); ++*count) {
		if (!arguments->value || zm_argument_is(arguments, "type")) {
			last = true;
			err = zm_argument_pick(arguments->value ?
					       arguments->value :
					       arguments->key, &range.which);
		} else if (zm_argument_is(arguments, "page_index")) {
			err = pages_parse(arguments->value, pages, false,
					  &range);
		} else if (zm_argument_is(arguments, "page_indexes")) {
			err = pages_parse(arguments->value, pages, true,
					  &range);
		} else {
			err = -EINVAL;
		}
		if (err)
			return err;
		ranges[*count] = range;
	}
	return 0;
}

/* pre: the device is locked for work. */
static int writeback_run(struct zm_device *device, const char *text)
{
	struct zm_arguments arguments;
	struct pages *ranges;
	u32 count;
	int err;

	if (!device->backing_file)
		return -ENODEV;
	/* No word is shorter than a letter and the space behind it. */
	ranges = kvmalloc_array(strlen(text) / 2 + 1, sizeof(*ranges),
				GFP_KERNEL);
	if (!ranges)
		return -ENOMEM;
	err = zm_arguments_begin(&arguments, text);
	if (!err) {
		err = ranges_parse(&arguments, zm_device_pages(device),
				   ranges, &count);
		zm_arguments_end(&arguments);
	}
	if (!err && count)
		err = ranges_write(device, ranges, count);
	kvfree(ranges);
	return err;
}

static ssize_t writeback_store(struct device *dev,
			       struct device_attribute *attr,
			       const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	u64 stops_seen;
	int err;

	err = zm_device_lock_work(device, true, &stops_seen);
	if (err)
		return err;
	err = writeback_run(device, buf);
	zm_device_unlock_work(device);
	return err ? err : len;
}
static DEVICE_ATTR_WO(writeback);

static struct attribute *writeback_attributes[] = {
	&dev_attr_writeback.attr,
	NULL,
};

const struct attribute_group zm_writeback_group = {
	.attrs = writeback_attributes,
};

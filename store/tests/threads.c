// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many at once: writers and readers on common slots, owners who know what their
 * slots must hold, passes, recompression, writers to a backing device, idle
 * marks, compaction, changes of mode. Meant for the thread sanitizer, and useful
 * without.
 *
 *	threads [seconds] [seed]
 *
 * A page tells which content it is, so a reader of a common slot can say
 * whether it saw one whole page that somebody wrote; a page that is of two
 * writes, or of none, is caught.
 *
 * The backing device is plain memory, read and written without a lock: were a
 * block used anew while somebody still reads or writes it, that would be a race
 * on its bytes, which the sanitizer sees.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"
#include "harness.h"

#define COMMON		64
#define OWNED		32
#define OWNERS		2
#define SLOTS		(COMMON + OWNERS * OWNED)
#define CONTENTS	24

static struct zm_store *store;
static u8 contents[CONTENTS][ZM_PAGE_SIZE];
static u32 over;
static u64 seed = 1;
static u64 operations;
static u64 melded;
static u64 recompressed;
static u64 written_back;
static u64 block_reads;
static struct disk disk;

static bool time_is_up(void)
{
	return zm_load32(&over);
}

static void expect_some_content(const u8 *page, u64 index)
{
	static const u8 zeros[ZM_PAGE_SIZE];
	u32 i;

	for (i = 0; i < CONTENTS; i++)
		if (!memcmp(page, contents[i], ZM_PAGE_SIZE))
			return;
	if (memcmp(page, zeros, ZM_PAGE_SIZE))
		DIE("slot %llu reads what nobody wrote", index);
}

/* Reads a page, with a pause while its block is on the way. */
static void read_page(struct rng *rng, u64 index, u8 *page)
{
	struct disk_read read;
	int ret = disk_read_begin(store, &read, index, page);

	if (ret && ret != ZM_BACKED)
		DIE("read: %d", ret);
	if (!ret)
		return;
	if (rng_below(rng, 2))
		sched_yield();
	ret = rng_below(rng, 16) ? 0 : -EIO;
	if (disk_read_end(&disk, store, &read, ret, page) != ret)
		DIE("read of a block");
	zm_add64(&block_reads, 1);
	if (ret)
		read_page(rng, index, page);
}

static void *stranger(void *arg)
{
	struct rng rng = { seed * 1000 + (u64)(uintptr_t)arg };
	u8 page[ZM_PAGE_SIZE];
	u64 index;
	u32 what;

	while (!time_is_up()) {
		index = rng_below(&rng, COMMON);
		what = rng_below(&rng, 16);
		if (what < 7) {
			test_write(store, index,
				   contents[rng_below(&rng, CONTENTS)]);
		} else if (what < 14) {
			read_page(&rng, index, page);
			expect_some_content(page, index);
		} else {
			zm_page_discard(store, index);
		}
		zm_add64(&operations, 1);
	}
	return NULL;
}

static void *owner(void *arg)
{
	u64 number = (u64)(uintptr_t)arg;
	struct rng rng = { seed * 2000 + number };
	u64 base = COMMON + number * OWNED, slot;
	int holds[OWNED];
	u8 page[ZM_PAGE_SIZE];
	static const u8 zeros[ZM_PAGE_SIZE];

	for (slot = 0; slot < OWNED; slot++)
		holds[slot] = -1;
	while (!time_is_up()) {
		slot = rng_below(&rng, OWNED);
		if (rng_below(&rng, 8) == 0) {
			zm_page_discard(store, base + slot);
			holds[slot] = -1;
		} else if (rng_below(&rng, 2)) {
			holds[slot] = (int)rng_below(&rng, CONTENTS);
			test_write(store, base + slot, contents[holds[slot]]);
		}
		read_page(&rng, base + slot, page);
		if (memcmp(page, holds[slot] < 0 ? zeros :
			   contents[holds[slot]], ZM_PAGE_SIZE))
			DIE("an owned slot reads other bytes");
		zm_add64(&operations, 1);
	}
	return NULL;
}

static void *melder(void *arg)
{
	struct rng rng = { seed * 3000 };
	struct zm_meld_options options = { .threshold_permille = 0 };
	struct zm_meld_result result;
	int err;

	(void)arg;
	while (!time_is_up()) {
		options.resume = rng_below(&rng, 2);
		options.time_ns_max = rng_below(&rng, 3) ? 0 : 100000;
		err = zm_meld_run(store, &options, &result);
		if (err && err != -EBUSY)
			DIE("meld: %d", err);
		zm_add64(&melded, result.pages_melded);
		if (rng_below(&rng, 4) == 0)
			zm_store_compact(store);
		if (rng_below(&rng, 4) == 0)
			zm_pass_stop(store);
		if (rng_below(&rng, 8) == 0)
			zm_meld_mode_set(store, ZM_MELD_MANUAL +
					 rng_below(&rng, 3));
		if (zm_store_check(store, ZM_CHECK_SLOTS, 0, NULL, 0) == -EUCLEAN)
			DIE("a slot is in no legal state");
		/* Let recompression have its turn. */
		usleep(rng_below(&rng, 1000));
	}
	return NULL;
}

/* Several pages at once on their way to the backing device. */
static void *writer_back(void *arg)
{
	struct rng rng = { seed * 4000 + (u64)(uintptr_t)arg };
	struct disk_write writes[3] = { 0 };
	struct disk_write *write;
	u32 which;
	int err;

	while (!time_is_up()) {
		write = &writes[rng_below(&rng, 3)];
		if (write->active) {
			disk_write_end(&disk, store, write,
				       rng_below(&rng, 4));
			zm_add64(&written_back, 1);
			continue;
		}
		which = rng_below(&rng, 4) ? 0 : rng_below(&rng, 8);
		err = disk_write_begin(&disk, store, write,
				       rng_below(&rng, SLOTS), which,
				       rng_below(&rng, 2));
		if (err && err != -ENOENT && err != -ENOSPC)
			DIE("writeback: %d", err);
	}
	for (write = writes; write < writes + 3; write++)
		if (write->active)
			disk_write_end(&disk, store, write, true);
	return NULL;
}

static void *recompressor(void *arg)
{
	struct rng rng = { seed * 5000 };
	struct zm_recompress_options options = { 0 };
	struct zm_recompress_result result;
	struct zm_slot_info info;
	int err;

	(void)arg;
	while (!time_is_up()) {
		options.which = rng_below(&rng, 4);
		options.priority = 1 + rng_below(&rng, 2);
		options.pages_max = rng_below(&rng, 2) * rng_below(&rng, 30);
		err = zm_recompress_run(store, &options, &result);
		if (err && err != -EBUSY)
			DIE("recompress: %d", err);
		if (result.pages_damaged)
			DIE("recompression found damaged pages");
		zm_add64(&recompressed, result.pages_recompressed);
		if (rng_below(&rng, 4) == 0)
			zm_idle_mark(store, rng_below(&rng, 2), 0);
		if (zm_slot_info(store, rng_below(&rng, SLOTS), &info) ||
		    info.size > ZM_PAGE_SIZE)
			DIE("no information on a slot");
		usleep(rng_below(&rng, 1000));
	}
	return NULL;
}

/*
 * Statistics are read while they change: a sum of several counters may be off by
 * what is on its way, but is never more than there can be.
 */
static void *watcher(void *arg)
{
	struct zm_stats stats;
	u64 pages_most = SLOTS + 16, bytes_most = pages_most * ZM_PAGE_SIZE;

	(void)arg;
	while (!time_is_up()) {
		zm_store_stats(store, &stats);
		if (stats.pages_stored > pages_most ||
		    stats.pages_melded > pages_most ||
		    stats.pages_shared > pages_most ||
		    stats.objects > pages_most || stats.shares > pages_most ||
		    stats.bytes_compressed > bytes_most ||
		    stats.bytes_melded > bytes_most)
			DIE("statistics tell more than %u slots can hold: %llu melded, %llu objects",
			    SLOTS, stats.pages_melded, stats.objects);
		usleep(50);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	u32 seconds = argc > 1 ? (u32)atoi(argv[1]) : 5;
	struct zm_store_options options;
	pthread_t threads[3 + OWNERS + 1 + 3 + 1];
	u32 count = 0, i;

	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	for (i = 0; i < CONTENTS; i++)
		page_make(contents[i], i + 100 * seed);
	options = test_options("lz4", SLOTS, ZM_MELD_INLINE);
	test_codec(&options, 1, "lz4hc");
	test_codec(&options, 2, "zstd");
	store = test_store(&options, 0);
	if (zm_backing_attach(store, DISK_BLOCKS))
		DIE("attach");
	for (i = 0; i < 2; i++)
		pthread_create(&threads[count++], NULL, writer_back,
			       (void *)(uintptr_t)i);
	pthread_create(&threads[count++], NULL, recompressor, NULL);
	for (i = 0; i < 3; i++)
		pthread_create(&threads[count++], NULL, stranger,
			       (void *)(uintptr_t)i);
	for (i = 0; i < OWNERS; i++)
		pthread_create(&threads[count++], NULL, owner,
			       (void *)(uintptr_t)i);
	pthread_create(&threads[count++], NULL, melder, NULL);
	pthread_create(&threads[count++], NULL, watcher, NULL);
	sleep(seconds);
	zm_set32(&over, 1);
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	check_store(store, ZM_CHECK_CONTENTS, "when all threads ended", seed);
	printf("threads: %llu operations, %llu pages melded by passes, %llu recompressed, %llu written back, %llu block reads, seed %llu: ok\n",
	       operations, melded, recompressed, written_back, block_reads,
	       seed);
	if (!melded || !recompressed || !written_back || !block_reads)
		DIE("something was never done: the test tested too little");
	for (i = 0; i < SLOTS; i++)
		zm_page_discard(store, i);
	if (zm_backing_detach(store))
		DIE("blocks are left when all pages are gone");
	zm_store_destroy(store);
	return 0;
}

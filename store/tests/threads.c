// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many at once: writers, readers and discarders, passes, recompression, writers to a
 * backing device, idle marks, compaction, changes of mode, scarce memory. Meant for the
 * thread sanitizer, and useful without.
 *
 *	threads [seconds] [seed]
 *
 * Who writes, reads or discards notes when it began, when it ended and what it saw.
 * In the end some order of all that was done to a slot, of what was at once in
 * whichever, has to give each read the last page written (M. Herlihy, J. Wing,
 * "Linearizability", 1990). A page tells its number; one that is of two writes, or of none,
 * is caught at once.
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

#define SLOTS		64
#define HOT		6	/* slots that half of all is about */
#define CONTENTS	24
#define STRANGERS	4
#define RECORDS_MAX	(1u << 19)
/* So much of what is counted by `now` has one number: many slots hold the same page. */
#define AT_ONCE		64

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

/* Something that was done to a slot. */
struct record {
	u64 began;
	u64 ended;
	u32 number;	/* of the page; 0: empty */
	u8 slot;
	bool is_read;
	u8 stranger;
};

static struct record *records[STRANGERS];
static u32 record_counts[STRANGERS];
static u64 now;

static u64 tick(void)
{
	return __atomic_add_fetch(&now, 1, __ATOMIC_SEQ_CST);
}

static void number_make(u8 *page, u32 number)
{
	u64 word = (u64)number << 8 | 1, i;

	memcpy(page, contents[number % CONTENTS], ZM_PAGE_SIZE);
	if (number % 8)
		memcpy(page + 512, &word, sizeof(word));
	/* One word throughout. */
	for (i = 0; !(number % 8) && i < ZM_PAGE_SIZE; i += sizeof(word))
		memcpy(page + i, &word, sizeof(word));
}

static u32 number_of(const u8 *page, u64 index)
{
	static const u8 zeros[ZM_PAGE_SIZE];
	u8 expected[ZM_PAGE_SIZE];
	u64 word;

	if (!memcmp(page, zeros, ZM_PAGE_SIZE))
		return 0;
	memcpy(&word, page + 512, sizeof(word));
	number_make(expected, (u32)(word >> 8));
	if (memcmp(page, expected, ZM_PAGE_SIZE))
		DIE("slot %llu reads what nobody wrote", index);
	return (u32)(word >> 8);
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
	u8 own = (u8)(uintptr_t)arg, page[ZM_PAGE_SIZE];
	struct rng rng = { seed * 1000 + own };
	struct record *record = records[own];
	u32 what;

	while (!time_is_up() && record < records[own] + RECORDS_MAX) {
		what = rng_below(&rng, 16);
		*record = (struct record){
			.slot = (u8)rng_below(&rng, rng_below(&rng, 2) ? HOT :
						    SLOTS),
			.is_read = what < 8,
			.stranger = own,
			.began = tick(),
		};
		if (what < 8) {
			read_page(&rng, record->slot, page);
			record->number = number_of(page, record->slot);
		} else if (what < 14) {
			record->number = 1 + (u32)(record->began / AT_ONCE);
			number_make(page, record->number);
			test_write(store, record->slot, page);
		} else {
			zm_page_discard(store, record->slot);
		}
		record->ended = tick();
		record++;
	}
	record_counts[own] = (u32)(record - records[own]);
	zm_add64(&operations, record_counts[own]);
	return NULL;
}

/* -- Whether some order explains what was read -------------------------------- */

/* What a slot may hold, and what was done of that which has begun and not ended. */
struct state {
	u32 number;
	u32 done;	/* a bit for each stranger */
};

struct states {
	struct state at[512];
	u32 count;
};

struct event {
	u64 time;
	const struct record *record;
	bool is_end;
};

static const struct record *under_way[STRANGERS];

static void state_add(struct states *states, struct state state)
{
	u32 i;

	for (i = 0; i < states->count; i++)
		if (states->at[i].number == state.number &&
		    states->at[i].done == state.done)
			return;
	if (states->count == sizeof(states->at) / sizeof(*states->at))
		DIE("too many orders are possible");
	states->at[states->count++] = state;
}

/* From here, each order of what is under way in which `wanted` is done last. */
static void orders_add(struct states *states, struct state state, u32 wanted)
{
	struct state next;
	u32 i;

	if (state.done >> wanted & 1) {
		state.done &= ~(1u << wanted);
		state_add(states, state);
		return;
	}
	for (i = 0; i < STRANGERS; i++) {
		if (!under_way[i] || state.done >> i & 1 ||
		    (under_way[i]->is_read &&
		     under_way[i]->number != state.number))
			continue;
		next.number = under_way[i]->number;
		next.done = state.done | 1u << i;
		orders_add(states, next, wanted);
	}
}

static int event_order(const void *a, const void *b)
{
	u64 x = ((const struct event *)a)->time;
	u64 y = ((const struct event *)b)->time;

	return x < y ? -1 : x > y;
}

static u64 slot_events(struct event *events, u64 slot)
{
	const struct record *record;
	u64 count = 0;
	u32 i, k;

	for (i = 0; i < STRANGERS; i++) {
		for (k = 0; k < record_counts[i]; k++) {
			record = &records[i][k];
			if (record->slot != slot)
				continue;
			events[count++] = (struct event){
				record->began, record, false };
			events[count++] = (struct event){
				record->ended, record, true };
		}
	}
	qsort(events, count, sizeof(*events), event_order);
	return count;
}

static void explain(struct event *events, u64 slot)
{
	static struct states states, next;
	const struct record *record;
	u64 count = slot_events(events, slot), i;
	u32 k;

	states = (struct states){ .count = 1 };
	for (i = 0; i < count; i++) {
		record = events[i].record;
		if (!events[i].is_end) {
			under_way[record->stranger] = record;
			continue;
		}
		next.count = 0;
		for (k = 0; k < states.count; k++)
			orders_add(&next, states.at[k], record->stranger);
		if (!next.count)
			DIE("slot %llu: no order explains page %u, %s from %llu to %llu, seed %llu",
			    slot, record->number,
			    record->is_read ? "read" : "written", record->began,
			    record->ended, seed);
		states = next;
		under_way[record->stranger] = NULL;
	}
}

static void explain_all(void)
{
	struct event *events = malloc(2 * operations * sizeof(*events));
	u64 slot;

	if (!events)
		DIE("no memory for %llu operations", operations);
	for (slot = 0; slot < SLOTS; slot++)
		explain(events, slot);
	free(events);
}

/* -- Beside them ------------------------------------------------------------- */

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
		zm_fault_scarce_set(stats.pages_stored % 8 == 0);
	}
	zm_fault_scarce_set(false);
	return NULL;
}

int main(int argc, char **argv)
{
	u32 seconds = argc > 1 ? (u32)atoi(argv[1]) : 5;
	struct zm_store_options options;
	pthread_t threads[2 + 1 + STRANGERS + 1 + 1];
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
	for (i = 0; i < STRANGERS; i++) {
		records[i] = malloc(RECORDS_MAX * sizeof(struct record));
		if (!records[i])
			DIE("no memory for records");
		pthread_create(&threads[count++], NULL, stranger,
			       (void *)(uintptr_t)i);
	}
	pthread_create(&threads[count++], NULL, melder, NULL);
	pthread_create(&threads[count++], NULL, watcher, NULL);
	sleep(seconds);
	zm_set32(&over, 1);
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	check_store(store, ZM_CHECK_CONTENTS, "when all threads ended", seed);
	explain_all();
	for (i = 0; i < STRANGERS; i++)
		free(records[i]);
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

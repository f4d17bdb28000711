// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recompression and idle marks, case by case: which objects are tried, which
 * are replaced, what is marked.
 *
 *	recompress
 *
 * The harder codec of these stores is deflate with a hook: before it compresses
 * it calls the case back. interleave has what may happen meanwhile.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"
#include "harness.h"

#define SLOTS 32
/* The priority of the harder codec, behind which there is no other. */
#define HARDER 1

static struct zm_codec_ops hooked;
static const struct zm_codec_ops *deflate;
static void (*hook)(struct zm_store *store);
static struct zm_store *hooked_store;
/* The next page that the first codec makes has a byte wrong. */
static struct zm_codec_ops lying;
static bool lie, broken;
static struct disk disk;
/* What the store's clock says more than the machine's. */
static s64 seconds_ahead;

/* Instead of the library's, in all of this program. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	int err = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += seconds_ahead;
	return err;
}

static int hooked_compress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t *dst_size)
{
	if (hook)
		hook(hooked_store);
	return deflate->compress(ctx, params, src, src_size, dst, dst_size);
}

static int lying_decompress(void *ctx, const struct zm_codec_params *params,
			    const void *src, size_t src_size,
			    void *dst, size_t dst_size)
{
	int err = zm_codec_find("lz4")->decompress(ctx, params, src, src_size,
						   dst, dst_size);

	if (broken)
		return -EBADMSG;
	if (lie)
		((u8 *)dst)[100] ^= 4;
	return err;
}

/* Text, which deflate makes much smaller than lz4. */
static u64 text(u64 number)
{
	return 4 + 8 * number;
}

static u64 raw(u64 number)
{
	return 1 + 8 * number;
}

static struct zm_store *open_store(u32 mode)
{
	struct zm_store_options options = test_options("lz4", SLOTS, mode);

	options.verify = mode != ZM_MELD_OFF;
	options.codecs[0].ops = &lying;
	options.codecs[HARDER].ops = &hooked;
	options.codecs[HARDER].params.level = ZM_CODEC_LEVEL_DEFAULT;
	hook = NULL;
	hooked_store = test_store(&options, DISK_BLOCKS);
	return hooked_store;
}

static void close_store(struct zm_store *store)
{
	check_store(store, ZM_CHECK_CONTENTS, "at a case's end", 0);
	zm_store_destroy(store);
}

static void put(struct zm_store *store, u64 index, u64 content)
{
	u8 page[ZM_PAGE_SIZE];

	page_make(page, content);
	test_write(store, index, page);
}

static void expect(struct zm_store *store, u64 index, u64 content)
{
	u8 page[ZM_PAGE_SIZE], wanted[ZM_PAGE_SIZE];

	page_make(wanted, content);
	if (disk_page_read(&disk, store, index, page) ||
	    memcmp(page, wanted, ZM_PAGE_SIZE))
		DIE("slot %llu does not hold content %llu", index, content);
}

static struct zm_recompress_result
recompress(struct zm_store *store, u32 which, u32 size_min, u64 pages_max)
{
	struct zm_recompress_options options = {
		.which = which,
		.size_min = size_min,
		.pages_max = pages_max,
		.priority = HARDER,
	};
	struct zm_recompress_result result;

	if (zm_recompress_run(store, &options, &result))
		DIE("recompress");
	check_store(store, ZM_CHECK_COUNTS, "after recompression", 0);
	return result;
}

static void write_back(struct zm_store *store, u64 index, bool written)
{
	static struct disk_write write;

	if (disk_write_begin(&disk, store, &write, index, 0, false))
		DIE("writeback of slot %llu", index);
	disk_write_end(&disk, store, &write, written);
}

/* Each object once; what did not help is left alone until it is written. */
static void try_marks(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct zm_recompress_result result;

	put(store, 0, text(1));
	put(store, 1, raw(1));
	put(store, 2, 0);
	result = recompress(store, 0, 0, 0);
	EXPECT(result.pages_tried == 2);
	EXPECT(result.pages_recompressed == 1);
	EXPECT(result.pages_incompressible == 1);
	EXPECT(test_info(store, 0).priority == HARDER && !test_info(store, 0).incompressible);
	EXPECT(test_info(store, 1).incompressible && test_info(store, 1).huge);
	result = recompress(store, 0, 0, 0);
	EXPECT(!result.pages_tried);
	put(store, 0, text(2));
	put(store, 1, raw(2));
	EXPECT(!test_info(store, 1).incompressible && !test_info(store, 0).priority);
	result = recompress(store, ZM_PICK_HUGE, 0, 0);
	EXPECT(result.pages_tried == 1 && test_info(store, 1).incompressible);
	EXPECT(!test_info(store, 0).priority);
	expect(store, 0, text(2));
	expect(store, 1, raw(2));
	close_store(store);
}

/* The mark is a share's as well, and stays when slots join or leave. */
static void try_share_marks(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct zm_recompress_result result;
	u64 i;

	for (i = 0; i < 6; i++)
		put(store, i, i < 3 ? text(1) : raw(1));
	EXPECT(test_meld(store).pages_melded == 4);
	result = recompress(store, 0, 0, 0);
	EXPECT(result.pages_tried == 2 && result.pages_recompressed == 1);
	for (i = 0; i < 6; i++) {
		EXPECT(test_info(store, i).priority == (i < 3 ? HARDER : 0));
		EXPECT(test_info(store, i).incompressible == (i >= 3));
	}
	zm_page_discard(store, 0);
	zm_page_discard(store, 3);
	EXPECT(!recompress(store, 0, 0, 0).pages_tried);
	put(store, 7, raw(1));
	EXPECT(test_meld(store).pages_melded == 1);
	check_store(store, ZM_CHECK_CONTENTS, "after a second pass", 0);
	/* A slot's own mark becomes its share's. */
	put(store, 10, raw(3));
	EXPECT(recompress(store, 0, 0, 0).pages_incompressible == 1);
	put(store, 11, raw(3));
	EXPECT(test_meld(store).pages_melded == 1);
	EXPECT(test_info(store, 10).incompressible && test_info(store, 11).sharers == 2);
	EXPECT(!recompress(store, 0, 0, 0).pages_tried);
	expect(store, 1, text(1));
	expect(store, 7, raw(1));
	close_store(store);
}

/* A share is one object, however many slots it has. */
static void try_limit_on_shares(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct zm_recompress_result result;
	u64 i;

	for (i = 0; i < 20; i++)
		put(store, i, i < 10 ? raw(1) : i < 15 ? 2 + 8 * i : text(i));
	EXPECT(test_meld(store).pages_melded == 9);
	result = recompress(store, 0, 0, 6);
	EXPECT(result.pages_tried == 6 && result.pages_recompressed == 5);
	EXPECT(test_info(store, 0).incompressible && !test_info(store, 14).priority);
	close_store(store);
}

/*
 * A share that a codec did not help is tried once, not for each of its slots and in
 * each run, while there is a harder codec left that would mark it for good.
 */
static void try_share_beneath_a_harder_codec(void)
{
	struct zm_recompress_options options = {
		.priority = 1,
		.pages_max = 3,
	};
	struct zm_store_options made = test_options("lz4", SLOTS,
						    ZM_MELD_INLINE);
	struct zm_recompress_result result;
	struct zm_store *store;
	u32 tried[] = { 1, 0 }, i;

	test_codec(&made, 1, "lzo");
	test_codec(&made, 2, "zstd");
	if (zm_store_create(&made, &store))
		DIE("create");
	for (i = 0; i < 10; i++)
		put(store, i, raw(1));
	EXPECT(test_info(store, 0).sharers == 10);
	for (i = 0; i < 2; i++) {
		EXPECT(!zm_recompress_run(store, &options, &result));
		EXPECT(result.pages_tried == tried[i] &&
		       !result.pages_incompressible);
	}
	EXPECT(!test_info(store, 0).incompressible);
	options.priority = 2;
	EXPECT(!zm_recompress_run(store, &options, &result) &&
	       result.pages_tried == 1 && result.pages_incompressible == 1);
	close_store(store);
}

/* The limit takes the largest; sizes below the smallest are left alone. */
static void try_limits(void)
{
	const struct zm_recompress_options refused[] = {
		{ .priority = HARDER, .which = ZM_PICK_INCOMPRESSIBLE },
		{ .priority = HARDER, .size_min = ZM_PAGE_SIZE + 1 },
		{ .priority = HARDER + 1 },
		{ .priority = ZM_PRIORITIES },
		{ .priority = 0 },
	};
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct zm_recompress_result result;
	u64 i;

	for (i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		EXPECT(zm_recompress_run(store, &refused[i], &result) == -EINVAL);
	for (i = 0; i < 12; i++)
		put(store, i, i % 2 ? text(i) : 2 + 8 * i);
	result = recompress(store, 0, 0, 6);
	EXPECT(result.pages_tried == 6 && result.pages_recompressed == 6);
	for (i = 0; i < 12; i++)
		EXPECT(test_info(store, i).priority == (i % 2 ? HARDER : 0));
	EXPECT(!recompress(store, 0, 1000, 0).pages_tried);
	for (i = 10; i < 14; i++)
		put(store, i, text(i));
	EXPECT(!recompress(store, 0, ZM_PAGE_SIZE, 3).pages_tried);
	EXPECT(recompress(store, 0, 0, 0).pages_recompressed >= 4);
	put(store, 20, text(20));
	EXPECT(recompress(store, 0, 1000, 0).pages_incompressible == 1);
	put(store, 20, text(20));
	EXPECT(recompress(store, 0, 2900, 0).pages_recompressed == 1);
	close_store(store);
}

/* What stays free in the classes that objects leave is not beyond the limit. */
static u64 bytes_max;

static void note_bytes(struct zm_store *store)
{
	struct zm_stats stats;

	zm_store_stats(store, &stats);
	if (stats.memory_used > bytes_max)
		bytes_max = stats.memory_used;
}

/* So many pages of text, of which lz4 makes objects of many sizes. */
static struct zm_store *full_store(u64 slots)
{
	struct zm_store_options options = test_options("lz4", slots,
						       ZM_MELD_OFF);
	u8 page[ZM_PAGE_SIZE];
	struct zm_store *store;
	u64 i;

	options.codecs[HARDER].ops = &hooked;
	options.codecs[HARDER].params.level = ZM_CODEC_LEVEL_DEFAULT;
	store = test_store(&options, 0);
	for (i = 0; i < slots; i++) {
		page_make(page, text(i));
		memset(page + ZM_PAGE_SIZE - i * 61 % 3500, 0, i * 61 % 3500);
		test_write(store, i, page);
	}
	hooked_store = store;
	return store;
}

static void try_memory_limit(void)
{
	struct zm_store *store = full_store(4000);
	struct zm_stats before, after;
	u8 page[ZM_PAGE_SIZE];
	u64 i;

	/* One of two is picked, so that hardly a span of the pool gets empty. */
	EXPECT(!zm_idle_mark(store, 0, 0));
	for (i = 0; i < 4000; i += 2)
		EXPECT(!zm_page_read(store, i, page));
	/* No sum with so high a limit is too low. */
	zm_store_limit_set(store, 0xf0f0f0f0f0f0f0f1ull);
	EXPECT(recompress(store, ZM_PICK_IDLE, 0, 20).pages_recompressed);
	zm_store_stats(store, &before);
	zm_store_limit_set(store, before.memory_used);
	/* Above the limit nothing is left to give back. */
	for (i = 0; i < 50; i++) {
		EXPECT(recompress(store, ZM_PICK_IDLE, 0, 1).pages_recompressed);
		zm_store_stats(store, &after);
		if (after.memory_used <= before.memory_used)
			continue;
		zm_store_compact(store);
		EXPECT(test_stats(store).memory_used == after.memory_used);
	}
	bytes_max = 0;
	hook = note_bytes;
	EXPECT(recompress(store, ZM_PICK_IDLE, 0, 0).pages_recompressed > 1500);
	hook = NULL;
	note_bytes(store);
	zm_store_stats(store, &after);
	printf("recompress: %llu bytes, %llu meanwhile, %llu after\n",
	       before.memory_used, bytes_max, after.memory_used);
	EXPECT(bytes_max <= before.memory_used + before.memory_used / 16);
	EXPECT(after.memory_used < before.memory_used);
	close_store(store);
}

/* Idle pages only; a share rests when all its slots do. */
static void try_idle(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct disk_write write;
	u64 i;

	for (i = 0; i < 4; i++)
		put(store, i, text(i / 2));
	put(store, 4, text(9));
	put(store, 5, text(10));
	put(store, 6, text(11));
	EXPECT(test_meld(store).pages_melded == 2);
	seconds_ahead += 2;
	expect(store, 1, text(0));
	expect(store, 4, text(9));
	expect(store, 6, text(11));
	EXPECT(!zm_idle_mark(store, 2, 0));
	for (i = 0; i < 6; i++)
		EXPECT(test_info(store, i).idle == (i != 1 && i != 4));
	EXPECT(disk_write_begin(&disk, store, &write, 0, ZM_PICK_IDLE, false) ==
	       -ENOENT);
	EXPECT(disk_write_begin(&disk, store, &write, 4, ZM_PICK_IDLE, false) ==
	       -ENOENT);
	EXPECT(recompress(store, ZM_PICK_IDLE, 0, 0).pages_recompressed == 2);
	EXPECT(test_info(store, 2).priority == HARDER && test_info(store, 5).priority == HARDER);
	EXPECT(!test_info(store, 0).priority && !test_info(store, 4).priority);
	EXPECT(!test_info(store, 6).priority);
	EXPECT(!test_info(store, 2).idle && !test_info(store, 5).idle);
	EXPECT(!zm_idle_mark(store, 0, 0));
	EXPECT(!disk_write_begin(&disk, store, &write, 0, ZM_PICK_IDLE, false));
	disk_write_end(&disk, store, &write, true);
	EXPECT(test_info(store, 0).backed && test_info(store, 1).backed);
	EXPECT(!zm_idle_mark(store, 0, 0));
	EXPECT(!test_info(store, 0).idle && test_info(store, 2).idle);
	for (i = 0; i < 4; i++)
		expect(store, i, text(i / 2));
	close_store(store);
}

/* Marks all, does that, and sees that the share of slots 0 and 1 is idle no more. */
static void expect_awake(struct zm_store *store, void (*what)(struct zm_store *),
			 u64 slot)
{
	struct disk_write write;

	EXPECT(!zm_idle_mark(store, 0, 0));
	EXPECT(test_info(store, 0).idle && test_info(store, 1).idle);
	what(store);
	EXPECT(test_info(store, slot).idle);
	EXPECT(disk_write_begin(&disk, store, &write, slot, ZM_PICK_IDLE,
				false) == -ENOENT);
}

static void read_second(struct zm_store *store)
{
	expect(store, 1, text(1));
}

/* Its own slot is the twin that is found. */
static void write_first_again(struct zm_store *store)
{
	put(store, 0, text(1));
	EXPECT(!test_info(store, 0).idle);
}

/* And here that of another. */
static void write_second_again(struct zm_store *store)
{
	put(store, 1, text(1));
	EXPECT(!test_info(store, 1).idle);
}

static void write_third(struct zm_store *store)
{
	put(store, 2, text(1));
	EXPECT(test_info(store, 0).sharers == 3);
}

static void recompress_first(struct zm_store *store)
{
	EXPECT(recompress(store, ZM_PICK_IDLE, 0, 0).pages_recompressed == 1);
	EXPECT(!test_info(store, 0).idle);
}

static void recompress_in_vain(struct zm_store *store)
{
	EXPECT(recompress(store, ZM_PICK_IDLE, 0, 0).pages_tried == 1);
	EXPECT(!test_info(store, 0).idle && !test_info(store, 0).priority);
}

/* Whoever works with a page through one slot keeps it from being idle in the others. */
static void try_idle_shares(void)
{
	struct zm_store *store = open_store(ZM_MELD_INLINE);
	struct disk_write write;

	put(store, 0, text(1));
	put(store, 1, text(1));
	EXPECT(test_info(store, 0).sharers == 2);
	expect_awake(store, read_second, 0);
	expect_awake(store, write_first_again, 1);
	expect_awake(store, write_second_again, 0);
	expect_awake(store, write_third, 0);
	expect_awake(store, recompress_first, 1);
	EXPECT(!zm_idle_mark(store, 0, 0));
	/* One that fails leaves it as idle as it was. */
	EXPECT(!disk_write_begin(&disk, store, &write, 1, ZM_PICK_IDLE, false));
	disk_write_end(&disk, store, &write, false);
	EXPECT(!test_info(store, 1).incompressible);
	EXPECT(!disk_write_begin(&disk, store, &write, 1, ZM_PICK_IDLE, false));
	disk_write_end(&disk, store, &write, true);
	expect(store, 0, text(1));
	put(store, 0, raw(1));
	put(store, 1, raw(1));
	expect_awake(store, recompress_in_vain, 1);
	/* Found to be what is written, it shares with nobody, and is as it was. */
	put(store, 5, text(5));
	put(store, 5, text(5));
	EXPECT(!test_info(store, 5).sharers && !test_info(store, 5).incompressible);
	close_store(store);
}

/* A pass melds a page that is in use with one that is idle: what both share is in use. */
static void try_idle_melds(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct disk_write write;
	u64 i, used;

	for (used = 0; used < 2; used++) {
		for (i = 0; i < 2; i++)
			put(store, i, text(used));
		EXPECT(!zm_idle_mark(store, 0, 0));
		expect(store, used, text(used));
		EXPECT(test_meld(store).pages_melded == 1);
		EXPECT(test_info(store, !used).idle && !test_info(store, used).idle);
		EXPECT(disk_write_begin(&disk, store, &write, !used,
					ZM_PICK_IDLE, false) == -ENOENT);
	}
	close_store(store);
}

/* A page that is used while others are marked, in the next second, is not idle. */
static void try_used_meanwhile(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);

	put(store, 0, text(1));
	seconds_ahead += 5;
	put(store, 1, text(2));
	/* The second in which the marking began. */
	seconds_ahead -= 1;
	EXPECT(!zm_idle_mark(store, 2, 0));
	EXPECT(test_info(store, 0).idle && !test_info(store, 1).idle);
	close_store(store);
}

/* Of the store whose last slot is in use, and shares its page with the first. */
#define WALKED (1u << 14)
static u32 marked_enough, sent_away;

static void *send_first_away(void *argument)
{
	struct zm_store *store = argument;
	struct disk_write write;

	while (!zm_load32(&marked_enough)) {
		if (disk_write_begin(&disk, store, &write, 0, ZM_PICK_IDLE,
				     false))
			continue;
		disk_write_end(&disk, store, &write, false);
		sent_away++;
	}
	return NULL;
}

/* A share is not idle for a moment either while a slot of it is in use. */
static void try_sent_away_meanwhile(void)
{
	struct zm_store_options options = test_options("lz4", WALKED,
						       ZM_MELD_INLINE);
	struct zm_store *store;
	pthread_t thread;
	u32 i;

	store = test_store(&options, DISK_BLOCKS);
	put(store, 0, text(1));
	put(store, WALKED - 1, text(1));
	EXPECT(test_info(store, 0).sharers == 2);
	seconds_ahead += 5;
	EXPECT(!pthread_create(&thread, NULL, send_first_away, store));
	for (i = 0; i < 200; i++) {
		expect(store, WALKED - 1, text(1));
		EXPECT(!zm_idle_mark(store, 5, 0));
	}
	zm_set32(&marked_enough, 1);
	pthread_join(thread, NULL);
	EXPECT(!sent_away);
	close_store(store);
}

static void expect_same(struct zm_store *store, struct zm_slot_info was,
			const char *what)
{
	struct zm_slot_info is = test_info(store, 0);

	if (is.size != was.size || is.priority != was.priority ||
	    is.idle != was.idle || is.huge != was.huge ||
	    is.incompressible != was.incompressible ||
	    is.accessed_s != was.accessed_s ||
	    is.fingerprint != was.fingerprint)
		DIE("a page is another after %s", what);
}

/* What is said of a page stays when it is only looked at, and when it is melded. */
static void try_looked_at(void)
{
	struct zm_store *store = open_store(ZM_MELD_INLINE);
	u8 first[ZM_PAGE_SIZE], second[ZM_PAGE_SIZE];
	struct disk_write write;
	struct zm_slot_info was;

	collision_find(first, second);
	test_write(store, 0, first);
	/* By what no codec makes smaller than this. */
	EXPECT(recompress(store, 0, 1000, 0).pages_incompressible == 1);
	EXPECT(!zm_idle_mark(store, 0, 0));
	was = test_info(store, 0);
	EXPECT(was.idle && was.incompressible && was.kind == ZM_KIND_OBJECT);
	seconds_ahead += 2;
	test_write(store, 1, second);
	EXPECT(test_stats(store).inline_collisions == 1);
	EXPECT(test_info(store, 0).kind == ZM_KIND_OBJECT);
	expect_same(store, was, "a write that collides");
	EXPECT(!test_meld(store).pages_melded);
	expect_same(store, was, "a pass");
	check_store(store, ZM_CHECK_CONTENTS, "of flags", 0);
	EXPECT(recompress(store, 0, 0, 0).pages_tried == 1);
	expect_same(store, was, "a check, and a recompression of others");
	write_back(store, 0, false);
	expect_same(store, was, "a writeback that fails");
	EXPECT(!recompress(store, 0, 0, 0).pages_tried);
	/* Those that rest meld to one that rests; the others come to what the first is. */
	EXPECT(!zm_meld_mode_set(store, ZM_MELD_MANUAL));
	test_write(store, 2, first);
	test_write(store, 3, first);
	EXPECT(!zm_idle_mark(store, 0, 0) && test_meld(store).pages_melded == 2);
	expect_same(store, was, "a pass that melds it");
	EXPECT(test_info(store, 2).idle && test_info(store, 2).incompressible);
	EXPECT(test_info(store, 3).idle);
	EXPECT(!disk_write_begin(&disk, store, &write, 2, ZM_PICK_IDLE |
				 ZM_PICK_INCOMPRESSIBLE, false));
	disk_write_end(&disk, store, &write, false);
	EXPECT(!zm_page_read(store, 2, second));
	EXPECT(test_info(store, 0).idle && !test_info(store, 2).idle);
	close_store(store);
}

/* Two shares of a page become one, and the third of a page that is away has none. */
static void try_shares_meld(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct zm_meld_result result;
	struct zm_stats before;
	u64 i;

	put(store, 0, text(1));
	put(store, 1, text(1));
	EXPECT(test_meld(store).pages_melded == 1);
	EXPECT(!zm_meld_mode_set(store, ZM_MELD_INLINE));
	put(store, 2, text(1));
	put(store, 3, text(1));
	EXPECT(!zm_meld_mode_set(store, ZM_MELD_MANUAL));
	put(store, 4, raw(1));
	put(store, 5, raw(1));
	before = test_stats(store);
	EXPECT(before.shares == 2 && before.objects == 4);
	result = test_meld(store);
	EXPECT(test_stats(store).objects == 2 && test_info(store, 3).sharers == 4);
	EXPECT(result.candidates == 6 && result.pages_melded == 2 &&
	       result.bytes_saved == test_info(store, 0).size + ZM_PAGE_SIZE &&
	       result.bytes_metadata == ZM_SHARE_BYTES && !result.collisions);
	EXPECT(test_stats(store).pass_melded == 3 && test_stats(store).passes == 2);
	for (i = 10; i < 14; i++)
		put(store, i, text(2));
	write_back(store, 10, true);
	result = test_meld(store);
	EXPECT(result.pages_melded == 2 && result.pages_backed == 1 &&
	       result.bytes_metadata == ZM_SHARE_BYTES);
	EXPECT(test_info(store, 13).sharers == 3 && test_info(store, 10).backed);
	EXPECT(test_stats(store).objects == 3);
	close_store(store);
}

/* Without room for an object nothing is said of the page: it is tried again. */
static void try_no_room(void)
{
	const struct zm_recompress_options options = { .priority = HARDER };
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct zm_recompress_result result;
	u32 shared;

	for (shared = 0; shared < 2; shared++) {
		put(store, 0, text(1));
		put(store, 1, shared ? text(1) : 0);
		EXPECT(test_meld(store).pages_melded == shared);
		zm_store_limit_set(store, 1);
		EXPECT(zm_recompress_run(store, &options, &result) == -ENOMEM);
		EXPECT(result.pages_tried == 1 && !result.raced &&
		       !result.pages_incompressible);
		check_store(store, ZM_CHECK_COUNTS, "without room", 0);
		EXPECT(!test_info(store, 0).incompressible && !test_info(store, 0).priority);
		zm_store_limit_set(store, 0);
		EXPECT(recompress(store, 0, 0, 0).pages_recompressed == 1);
		EXPECT(test_info(store, 0).priority == HARDER);
	}
	close_store(store);
}

static void mark_all(struct zm_store *store)
{
	EXPECT(!zm_idle_mark(store, 0, 0));
}

/* A page that is marked while it is made anew is idle afterwards. */
static void try_marked_meanwhile(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);

	hook = mark_all;
	put(store, 0, text(1));
	EXPECT(recompress(store, 0, 0, 0).pages_recompressed == 1);
	EXPECT(test_info(store, 0).idle && test_info(store, 0).priority == HARDER);
	put(store, 0, raw(1));
	EXPECT(recompress(store, 0, 0, 0).pages_incompressible == 1);
	EXPECT(test_info(store, 0).idle && test_info(store, 0).incompressible);
	hook = NULL;
	close_store(store);
}

/* What does not have its fingerprint stays as it is, to be told to its reader. */
static void try_damage(void)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL);
	struct zm_recompress_result result;
	struct zm_writeback wb;
	u8 page[ZM_PAGE_SIZE];
	struct zm_stats stats;

	/* So that its block is not the first one. */
	put(store, 1, text(2));
	write_back(store, 1, true);
	put(store, 0, text(1));
	EXPECT(!test_info(store, 0).block);
	lie = true;
	result = recompress(store, 0, 0, 0);
	EXPECT(result.pages_damaged == 1 && !result.pages_recompressed);
	EXPECT(zm_page_read(store, 0, page) == -EBADMSG);
	EXPECT(zm_writeback_begin(store, 0, 0, false, &wb, page) == -EBADMSG);
	lie = false;
	zm_store_stats(store, &stats);
	EXPECT(stats.mismatches == 3 && stats.blocks_used == 1);
	EXPECT(!test_info(store, 0).priority && !test_info(store, 0).incompressible);
	expect(store, 0, text(1));
	write_back(store, 0, true);
	memset(disk_block(&disk, test_info(store, 0).block), 7, ZM_PAGE_SIZE);
	EXPECT(disk_page_read(&disk, store, 0, page) == -EBADMSG);
	expect(store, 1, text(2));
	/* A share is tried for each of its slots. */
	put(store, 2, text(3));
	put(store, 3, text(3));
	EXPECT(test_meld(store).pages_melded == 1);
	lie = true;
	EXPECT(recompress(store, 0, 0, 0).pages_damaged == 2);
	lie = false;
	EXPECT(recompress(store, 0, 0, 0).pages_recompressed == 1);
	EXPECT(test_info(store, 2).priority == HARDER);
	/* One that does not decompress is counted. */
	put(store, 4, text(4));
	zm_store_stats(store, &stats);
	broken = true;
	EXPECT(recompress(store, 0, 0, 0).pages_damaged == 1);
	broken = false;
	EXPECT(test_stats(store).damaged == stats.damaged + 1);
	close_store(store);
}

int main(void)
{
	deflate = zm_codec_find("deflate");
	hooked = *deflate;
	hooked.compress = hooked_compress;
	lying = *zm_codec_find("lz4");
	lying.decompress = lying_decompress;
	try_marks();
	try_share_marks();
	try_limits();
	try_limit_on_shares();
	try_share_beneath_a_harder_codec();
	try_memory_limit();
	try_idle();
	try_idle_shares();
	try_idle_melds();
	try_sent_away_meanwhile();
	try_used_meanwhile();
	try_damage();
	try_looked_at();
	try_shares_meld();
	try_no_room();
	try_marked_meanwhile();
	printf("recompress: all cases ok\n");
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages that change while they are decompressed, by a write that looks for its
 * twin, by a read, by a pass: a codec that stops in the midst of it and lets
 * something else happen to the store there.
 *
 *	inline [seed]
 *
 * Each case writes a page to slot 0, does something to it before, writes the
 * same page to slot 1, and does something to slot 0 during that write. No slot
 * may be locked then, both must read what was written, and the check must find
 * every counter right. Every pair of a form of the twin and of what happens is
 * tried. Then pages of a share are read, and a pass compares pages that two
 * codecs made, in the same way.
 */
#include "disk.h"
#include "harness.h"

#include "../core/store.h"

#define SLOTS	8

static struct zm_codec_ops codec;
static const struct zm_codec_ops *lz4;
static struct zm_store *store;
static struct disk disk;
static u8 page[ZM_PAGE_SIZE], other[ZM_PAGE_SIZE];
/* Two pages that only their bytes tell apart. */
static u8 colliding[2][ZM_PAGE_SIZE];
static u64 seed = 1;
static u32 comparisons;
static u32 depth;
static void (*meanwhile)(void);

/* Looks at the locks, and lets happen once what is to happen. */
static void interrupt(void)
{
	void (*what)(void) = meanwhile;
	u64 i;

	if (!what)
		return;
	meanwhile = NULL;
	comparisons++;
	depth++;
	for (i = 0; i < SLOTS; i++) {
		if (!zm_slot_trylock(&store->slots[i]))
			DIE("slot %llu is locked over a decompression", i);
		zm_slot_unlock(&store->slots[i]);
	}
	zm_held_play_other(true);
	what();
	/* What happens may read, and be interrupted itself. */
	zm_held_play_other(--depth > 0);
}

static int test_decompress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size, void *dst,
			   size_t dst_size)
{
	interrupt();
	return lz4->decompress(ctx, params, src, src_size, dst, dst_size);
}

static void write_page(u64 index, const u8 *bytes)
{
	test_write(store, index, bytes);
}

static void expect(u64 index, const u8 *bytes, const char *when)
{
	struct disk_read read;
	u8 got[ZM_PAGE_SIZE];
	int ret = disk_read_begin(store, &read, index, got);

	if (ret == ZM_BACKED)
		ret = disk_read_end(&disk, store, &read, 0, got);
	if (ret || memcmp(got, bytes, ZM_PAGE_SIZE))
		DIE("slot %llu reads other bytes (%d) %s", index, ret, when);
}

/* -- What the twin is before ------------------------------------------------ */

static void make_object(void)
{
	write_page(0, page);
}

static void make_share(void)
{
	write_page(0, page);
	write_page(2, page);
}

/* A share with one slot, as a writeback that failed leaves it. */
static void make_share_of_one(void)
{
	make_share();
	zm_page_discard(store, 2);
}

/* -- What happens meanwhile -------------------------------------------------- */

static void nothing(void)
{
}

static void overwrite(void)
{
	write_page(0, other);
}

static void rewrite(void)
{
	write_page(0, page);
}

static void discard(void)
{
	zm_page_discard(store, 0);
}

static void discard_all(void)
{
	zm_page_discard(store, 0);
	zm_page_discard(store, 2);
}

/* The handle and the share may be used anew, for the same page or another. */
static void discard_and_write(void)
{
	discard_all();
	write_page(3, other);
	write_page(0, page);
}

static void overwrite_and_join(void)
{
	write_page(0, other);
	write_page(3, other);
}

static void join(void)
{
	write_page(3, page);
}

static void write_target(void)
{
	write_page(1, other);
}

static void recompress(void)
{
	struct zm_recompress_result result = test_recompress(store);

	if (result.pages_recompressed || !result.raced)
		DIE("an object was replaced while it was compared");
}

static bool leaves(void)
{
	struct disk_write write = { 0 };

	if (disk_write_begin(&disk, store, &write, 0, 0, true))
		DIE("writeback");
	return disk_write_end(&disk, store, &write, true);
}

/* Of a page that is decompressed where it stands. */
static void write_back(void)
{
	if (leaves())
		DIE("a page is said to leave while it is read");
}

static void write_back_copied(void)
{
	if (!leaves())
		DIE("a page is said to stay that nobody reads");
}

static void fail_to_write_back(void)
{
	struct disk_write write = { 0 };

	if (disk_write_begin(&disk, store, &write, 0, 0, false))
		DIE("writeback");
	disk_write_end(&disk, store, &write, false);
}

static void meld(void)
{
	test_meld(store);
}

static void compact(void)
{
	zm_store_compact(store);
}

static void mark_idle(void)
{
	if (zm_idle_mark(store, 0, 0))
		DIE("idle");
}

/* -- Every pair of them ------------------------------------------------------ */

struct event {
	const char *name;
	void (*happens)(void);
	bool changes_slot;	/* what slot 0 holds is another thing then */
	bool ends_share;	/* and no share of the page is left in the pool */
};

static const struct event befores[] = {
	{ .name = "an object", .happens = make_object },
	{ .name = "a share", .happens = make_share },
	{ .name = "a share of one", .happens = make_share_of_one },
};

static const struct event events[] = {
	{ "nothing", nothing, false, false },
	{ "an overwrite", overwrite, true, false },
	{ "the same write again", rewrite, false, false },
	{ "a discard", discard, true, false },
	{ "a discard of all", discard_all, true, true },
	{ "a discard and writes", discard_and_write, true, true },
	{ "an overwrite with a twin", overwrite_and_join, true, false },
	{ "another twin", join, false, false },
	{ "a write of the written slot", write_target, false, false },
	{ "recompression", recompress, false, false },
	{ "writeback", write_back, false, false },
	{ "a failed writeback", fail_to_write_back, false, false },
	{ "a pass", meld, false, false },
	{ "compaction", compact, false, false },
	{ "idle marks", mark_idle, false, false },
};

static struct zm_store *store_make(u32 mode)
{
	struct zm_store_options options = test_options("lz4", SLOTS, mode);

	codec = *lz4;
	codec.decompress = test_decompress;
	options.codecs[0].ops = &codec;
	/* Makes a smaller class of the page, whatever it is. */
	test_codec(&options, 1, "zstd");
	/* Who reads is interrupted by who reads, and is interrupted. */
	options.streams = 3;
	return test_store(&options, DISK_BLOCKS);
}

static void try_case(const struct event *before, const struct event *event)
{
	bool shared = before->happens != make_object;
	char when[160];
	u64 melded;

	snprintf(when, sizeof(when), "after %s during a comparison with %s",
		 event->name, before->name);
	store = store_make(ZM_MELD_INLINE);
	before->happens();
	melded = test_stats(store).inline_melded;
	meanwhile = event->happens;
	write_page(1, page);
	if (meanwhile)
		DIE("no comparison took place %s", when);
	expect(1, page, when);
	check_store(store, ZM_CHECK_CONTENTS, when, seed);
	melded = test_stats(store).inline_melded - melded;
	/* A share is joined whatever its slot holds; an object must be there. */
	if (!event->changes_slot && !melded)
		DIE("the page was not melded %s", when);
	if (shared && before->happens != make_share_of_one &&
	    !event->ends_share && !melded)
		DIE("the share was not joined %s", when);
	zm_page_discard(store, 1);
	check_store(store, ZM_CHECK_CONTENTS, when, seed);
	zm_store_destroy(store);
}

/* The same page to the same slot: nothing changes, and nothing is made. */
static void try_self(void)
{
	struct zm_stats before, after;

	store = store_make(ZM_MELD_INLINE);
	write_page(0, page);
	zm_store_stats(store, &before);
	meanwhile = nothing;
	write_page(0, page);
	zm_store_stats(store, &after);
	if (meanwhile || after.inline_unchanged != before.inline_unchanged + 1 ||
	    after.memory_metadata != before.memory_metadata)
		DIE("writing the same page again is not noticed");
	expect(0, page, "after the same write");
	check_store(store, ZM_CHECK_CONTENTS, "after the same write", seed);
	zm_store_destroy(store);
}

/* Another page with the same fingerprint leaves no trace. */
static void try_collision(void)
{
	struct zm_stats before, after;
	const u8 *first = colliding[0], *second = colliding[1];

	store = store_make(ZM_MELD_INLINE);
	write_page(0, first);
	zm_store_stats(store, &before);
	meanwhile = nothing;
	write_page(1, second);
	zm_store_stats(store, &after);
	if (meanwhile || after.inline_collisions != 1 || after.shares)
		DIE("a collision is not what it should be");
	expect(0, first, "after a collision");
	expect(1, second, "after a collision");
	check_store(store, ZM_CHECK_CONTENTS, "after a collision", seed);
	zm_store_destroy(store);
}

/* A writeback of slot 0 that begins during a read, and ends with it or after it. */
static struct disk_write late;

static void late_begin(void)
{
	if (disk_write_begin(&disk, store, &late, 0, 0, true))
		DIE("writeback");
}

static void late_end(void)
{
	if (late.active && disk_write_end(&disk, store, &late, true))
		DIE("a page that nobody has is said to leave");
}

/* The share is held, loses its slots, and is let go of, all while it is read. */
static void hold_over_discard(void)
{
	late_begin();
	discard_all();
	late_end();
}

static void hold_past_discard(void)
{
	late_begin();
	discard_all();
}

/* A second reader is at the object when its last slot goes, and ends first. */
static void read_over_discard(void)
{
	meanwhile = discard_all;
	expect(0, page, "under another reader");
}

static void read_over_hold(void)
{
	meanwhile = hold_past_discard;
	expect(0, page, "under another reader");
}

/* What happens to slot 0 while slot 2, which shares with it, is read. */
static const struct event beside[] = {
	{ .name = "nothing", .happens = nothing },
	{ .name = "an overwrite", .happens = overwrite },
	{ .name = "a discard", .happens = discard },
	{ .name = "another twin", .happens = join },
	{ .name = "writeback", .happens = write_back },
	{ .name = "compaction", .happens = compact },
	{ "a discard of all", discard_all, true, true },
	{ "a discard of all under a writeback", hold_over_discard, true, true },
	{ "a discard of all and a late writeback", hold_past_discard, true, true },
	{ "a discard of all under two readers", read_over_discard, true, true },
	{ "the same and a late writeback", read_over_hold, true, true },
};

static void try_read(const struct event *event)
{
	static const u8 zeros[ZM_PAGE_SIZE];
	char when[80];

	snprintf(when, sizeof(when), "after %s during a read", event->name);
	store = store_make(ZM_MELD_INLINE);
	make_share();
	meanwhile = event->happens;
	expect(2, page, when);
	if (meanwhile)
		DIE("the share was not decompressed %s", when);
	late_end();
	expect(2, event->ends_share ? zeros : page, when);
	check_store(store, ZM_CHECK_CONTENTS, when, seed);
	zm_store_destroy(store);
}

/* -- A page that only its bytes tell from the twin ---------------------------- */

/* Written, compared, found to be another; then whatever was a share is used anew. */
static void write_alike(void)
{
	write_page(1, colliding[1]);
	write_page(3, other);
	write_page(4, other);
}

/* The twin, a share of one, is read, or on its way to a block, meanwhile. */
static void try_alike(bool held)
{
	struct disk_write write = { 0 };
	const u8 *first = colliding[0];

	store = store_make(ZM_MELD_INLINE);
	write_page(0, first);
	write_page(2, first);
	zm_page_discard(store, 2);
	if (held) {
		if (disk_write_begin(&disk, store, &write, 0, 0, true))
			DIE("writeback");
		write_alike();
		disk_write_end(&disk, store, &write, true);
	} else {
		meanwhile = write_alike;
		expect(0, first, "while a page alike is written");
		if (meanwhile)
			DIE("the share was not decompressed");
	}
	expect(0, first, "after a page alike was written");
	expect(1, colliding[1], "and reads back");
	expect(3, other, "beside it");
	check_store(store, ZM_CHECK_CONTENTS, "after a page alike", seed);
	zm_store_destroy(store);
}

/*
 * A pass compares pages that two codecs made. What it melds them to depends on
 * which come first: an object with an object, or with a share that it holds.
 */
static const u64 written_late[][2] = { { 0, 0 }, { 1, 1 }, { 0, 1 }, { 1, 2 } };

static const u8 *slot_after(const struct event *event)
{
	static const u8 zeros[ZM_PAGE_SIZE];

	if (event->happens == discard)
		return zeros;
	return event->happens == overwrite ? other : page;
}

/* The slots from 0 to 2 hold the page; those written late by another codec. */
static void try_pass(const struct event *event, const u64 late[2])
{
	struct zm_meld_result result;
	char when[120];
	u64 i;

	snprintf(when, sizeof(when),
		 "after %s during a pass, %llu to %llu late", event->name,
		 late[0], late[1]);
	store = store_make(ZM_MELD_MANUAL);
	for (i = 0; i < 3; i++)
		write_page(i, page);
	EXPECT(test_recompress(store).pages_recompressed == 3);
	for (i = late[0]; i <= late[1]; i++)
		write_page(i, page);
	meanwhile = event->happens;
	result = test_meld(store);
	if (meanwhile)
		DIE("no page was decompressed %s", when);
	if (event->happens == nothing && result.pages_melded != 2)
		DIE("not all was melded %s", when);
	expect(0, slot_after(event), when);
	expect(1, event->happens == write_target ? other : page, when);
	expect(2, page, when);
	check_store(store, ZM_CHECK_CONTENTS, when, seed);
	zm_store_destroy(store);
}

static const struct event beside_pass[] = {
	{ .name = "nothing", .happens = nothing },
	{ .name = "an overwrite", .happens = overwrite },
	{ .name = "the same write again", .happens = rewrite },
	{ .name = "a discard", .happens = discard },
	{ .name = "a write to the second", .happens = write_target },
	{ .name = "writeback", .happens = write_back_copied },
	{ .name = "compaction", .happens = compact },
	{ .name = "idle marks", .happens = mark_idle },
};

static void try_passes(void)
{
	size_t i, j;

	for (i = 0; i < sizeof(beside_pass) / sizeof(*beside_pass); i++)
		for (j = 0; j < sizeof(written_late) / sizeof(*written_late); j++)
			try_pass(&beside_pass[i], written_late[j]);
}

/* A write that waits for room has looked for its twin, and does so once. */
static void try_begun_anew(void)
{
	struct zm_stats stats;

	store = store_make(ZM_MELD_INLINE);
	zm_fault_scarce_set(true);
	write_page(0, page);
	write_page(1, other);
	zm_fault_scarce_set(false);
	zm_store_stats(store, &stats);
	if (stats.inline_probes != 2)
		DIE("%llu look-ups of 2 writes", stats.inline_probes);
	expect(0, page, "with room that was waited for");
	expect(1, other, "with room that was waited for");
	zm_store_destroy(store);
}

int main(int argc, char **argv)
{
	size_t i, j;

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	lz4 = zm_codec_find("lz4");
	if (!lz4)
		DIE("no lz4");
	/* Of the kind that compresses. */
	page_make(page, seed * 8 + 4);
	page_make(other, seed * 8 + 5);
	collision_find(colliding[0], colliding[1]);
	for (i = 0; i < sizeof(befores) / sizeof(*befores); i++)
		for (j = 0; j < sizeof(events) / sizeof(*events); j++)
			try_case(&befores[i], &events[j]);
	try_self();
	try_collision();
	try_begun_anew();
	for (i = 0; i < sizeof(beside) / sizeof(*beside); i++)
		try_read(&beside[i]);
	try_alike(false);
	try_alike(true);
	try_passes();
	/* What overwrites a page has its fingerprint. */
	memcpy(page, colliding[0], ZM_PAGE_SIZE);
	memcpy(other, colliding[1], ZM_PAGE_SIZE);
	try_passes();
	printf("inline: %u comparisons interrupted, seed %llu: ok\n",
	       comparisons, seed);
	return 0;
}

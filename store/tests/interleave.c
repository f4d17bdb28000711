// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Operations in the midst of each other: wherever an operation holds no lock, before it
 * waits for one and after it let the last go, another happens as a second thread would
 * do it, and in the midst of that a third. What runs between two such places runs the
 * same under locks, so all orders of whole operations are met, and always the same way.
 *
 *	interleave
 *
 * Afterwards each slot holds what one of those that wrote it wrote, the check finds
 * every counter right, and nothing is left when all is discarded. An object that is
 * freed while it is used, or a share, is the address sanitizer's to find.
 */
#include "disk.h"
#include "harness.h"

#include "../core/store.h"

#define SLOTS	5
#define DEPTH	ZM_HELD_THREADS
#define PLACES_MAX 300	/* in one operation: more is a test that does not end */

/* What a slot holds; of a set, a bit each. The first two pages collide. */
enum { UNTOUCHED, EMPTY, PAGE, ALIKE, OTHER, RAW, CONTENTS };

static const struct zm_codec_ops *lz4;
static struct zm_codec_ops watched;
static u8 contents[CONTENTS][ZM_PAGE_SIZE];
static struct zm_store *store;
static struct disk disk;

/* An operation, and what it leaves in the slots. */
struct operation {
	const char *name;
	void (*run)(void);
	u8 sets[SLOTS];
};

/* What happens, each in the midst of the one before. */
static struct {
	const struct operation *operation;
	u32 places;		/* passed so far */
	u32 at;			/* where the next one happens; 0: nowhere */
} happening[DEPTH];
static u32 depth;
static bool is_running;
static u32 readers;		/* of any slot, at this moment */

static u8 before[SLOTS];
/* Requests under way, from one operation to another. */
static struct disk_write late_write;
static struct disk_read late_read;
static bool is_writing, is_reading;
static u32 late_expected;
static struct zm_share *pinned;
static u64 pinned_place;

static void between(void)
{
	if (++happening[depth].places != happening[depth].at)
		return;
	zm_held_play(++depth);
	happening[depth].operation->run();
	zm_held_play(--depth);
}

static bool has_happened(u32 i)
{
	return !i || (happening[i - 1].at &&
		      happening[i - 1].places >= happening[i - 1].at);
}

/* Under a lock nothing is decompressed but a slot's own object for its reader. */
static int watched_decompress(void *ctx, const struct zm_codec_params *params,
			      const void *src, size_t src_size,
			      void *dst, size_t dst_size)
{
	if (is_running && !readers && zm_held_is_any())
		DIE("%s: a lock is held over a decompression",
		    happening[depth].operation->name);
	return lz4->decompress(ctx, params, src, src_size, dst, dst_size);
}

/* What the slot may hold: while operations run, or in the end. */
static u32 expected_in(u64 slot, bool in_the_end)
{
	u32 set = 0, i;

	for (i = 0; i < DEPTH && happening[i].operation; i++) {
		if (!in_the_end || has_happened(i))
			set |= 1u << happening[i].operation->sets[slot];
		/* It may be seen between a discard and a write. */
		if (!in_the_end && happening[i].operation->sets[SLOTS - 1] == EMPTY)
			set |= 1u << EMPTY;
	}
	set &= ~(1u << UNTOUCHED);
	return in_the_end && set ? set : set | 1u << before[slot];
}

static void tell(const char *what, u64 slot)
{
	u32 i;

	for (i = 0; i < DEPTH && happening[i].operation; i++)
		fprintf(stderr, "%s, place %u; ", happening[i].operation->name,
			happening[i].at);
	DIE("slot %llu %s", slot, what);
}

static void expect(u64 slot, const u8 *page, u32 set)
{
	u32 i;

	for (i = EMPTY; i < CONTENTS; i++)
		if (set >> i & 1 && !memcmp(page, contents[i], ZM_PAGE_SIZE))
			return;
	tell("reads other bytes", slot);
}

/* -- Operations -------------------------------------------------------------- */

static void write_first(void)
{
	test_write(store, 0, contents[PAGE]);
}

static void overwrite_first(void)
{
	test_write(store, 0, contents[OTHER]);
}

static void overwrite_alike(void)
{
	test_write(store, 0, contents[ALIKE]);
}

static void write_second(void)
{
	test_write(store, 1, contents[PAGE]);
}

static void write_third(void)
{
	test_write(store, 2, contents[PAGE]);
}

/* Compared with the page and found to be another; then shares are used anew. */
static void write_alike(void)
{
	test_write(store, 2, contents[ALIKE]);
	test_write(store, 3, contents[RAW]);
	test_write(store, 4, contents[RAW]);
}

static void discard_first(void)
{
	zm_page_discard(store, 0);
}

static void discard_all(void)
{
	u64 slot;

	for (slot = 0; slot < SLOTS; slot++)
		zm_page_discard(store, slot);
}

/* The same room in the pool, another page of the same size. */
static void discard_and_write(void)
{
	discard_all();
	test_write(store, 0, contents[OTHER]);
	test_write(store, 1, contents[OTHER]);
}

static void read(u64 slot)
{
	u32 set = expected_in(slot, false);
	u8 page[ZM_PAGE_SIZE];

	readers++;
	if (disk_page_read(&disk, store, slot, page))
		tell("is not read", slot);
	expect(slot, page, set);
	readers--;
}

static void read_first(void)
{
	read(0);
}

static void read_second(void)
{
	read(1);
}

/* From its block, which arrives late. */
static void read_late(void)
{
	u8 page[ZM_PAGE_SIZE];

	if (is_reading)
		return;
	is_reading = true;
	late_expected = expected_in(0, false);
	readers++;
	if (disk_read_begin(store, &late_read, 0, page) == ZM_BACKED) {
		readers--;
		return;
	}
	readers--;
	expect(0, page, late_expected);
	is_reading = false;
}

static void read_late_end(void)
{
	struct disk_read read = late_read;
	u32 set = late_expected;
	u8 page[ZM_PAGE_SIZE];

	if (!read.active)
		return;
	late_read.active = false;
	is_reading = false;
	if (disk_read_end(&disk, store, &read, 0, page))
		tell("is not read from its block", 0);
	expect(0, page, set);
}

static void write_back(void)
{
	struct disk_write write = { 0 };
	int err = disk_write_begin(&disk, store, &write, 0, 0, false);

	if (!err)
		disk_write_end(&disk, store, &write, true);
	else if (err != -ENOENT)
		tell("is not written back", 0);
}

static void write_back_late(void)
{
	int err;

	if (is_writing)
		return;
	is_writing = true;
	err = disk_write_begin(&disk, store, &late_write, 0, 0, true);
	if (err && err != -ENOENT)
		tell("is not written back", 0);
	is_writing = !err;
}

static void late_write_end(bool written)
{
	struct disk_write write = late_write;

	if (!write.active)
		return;
	late_write.active = false;
	is_writing = false;
	disk_write_end(&disk, store, &write, written);
}

static void write_back_end(void)
{
	late_write_end(true);
}

static void write_back_fail(void)
{
	late_write_end(false);
}

/* What a reader has pinned is not touched until it ends. */
static void pin(void)
{
	struct zm_slot *slot = &store->slots[0];
	struct zm_object object;
	struct zm_content content;

	zm_slot_lock(slot);
	content = zm_slot_content(slot);
	if (!pinned && zm_state_kind(content.state) == ZM_KIND_SHARE &&
	    zm_share_pin(zm_content_share(content), &object)) {
		pinned = zm_content_share(content);
		pinned_place = object.handle.value;
	}
	zm_slot_unlock(slot);
}

static void unpin(void)
{
	struct zm_share *share = pinned;

	if (!share)
		return;
	if (share->place != pinned_place)
		tell("is another object while it is read", 0);
	pinned = NULL;
	zm_share_unpin(store, share);
}

static void pass(void)
{
	const struct zm_meld_options all = { .threshold_permille = 0 };
	struct zm_meld_result result;
	int err = zm_meld_run(store, &all, &result);

	if (err && err != -EBUSY)
		DIE("pass: %d", err);
}

static void recompress(void)
{
	const struct zm_recompress_options options = { .priority = 1 };
	struct zm_recompress_result result;
	int err = zm_recompress_run(store, &options, &result);

	if ((err && err != -EBUSY) || (!err && result.pages_damaged))
		DIE("recompression: %d", err);
}

static void compact(void)
{
	zm_store_compact(store);
}

/* Whoever marks waits for who does so now. */
static void mark_idle(void)
{
	static bool is_marking;

	if (is_marking)
		return;
	is_marking = true;
	if (zm_idle_mark(store, 0, 0))
		DIE("idle");
	is_marking = false;
}

static const struct operation operations[] = {
	{ "write of the first slot again", write_first, { PAGE } },
	{ "overwrite of the first slot", overwrite_first, { OTHER } },
	{ "overwrite of the first slot by a page alike", overwrite_alike, { ALIKE } },
	{ "write of the second slot", write_second, { 0, PAGE } },
	{ "write of a third slot", write_third, { 0, 0, PAGE } },
	{ "write of a page alike", write_alike, { 0, 0, ALIKE, RAW, RAW } },
	{ "discard", discard_first, { EMPTY } },
	{ "discard of all", discard_all, { EMPTY, EMPTY, EMPTY, EMPTY, EMPTY } },
	{ "discard of all and writes", discard_and_write,
	  { OTHER, OTHER, EMPTY, EMPTY, EMPTY } },
	{ "read", read_first, { 0 } },
	{ "read of the second slot", read_second, { 0 } },
	{ "read that ends late", read_late, { 0 } },
	{ "end of a late read", read_late_end, { 0 } },
	{ "pin", pin, { 0 } },
	{ "end of a pin", unpin, { 0 } },
	{ "writeback", write_back, { 0 } },
	{ "writeback that ends late", write_back_late, { 0 } },
	{ "end of a late writeback", write_back_end, { 0 } },
	{ "late writeback that fails", write_back_fail, { 0 } },
	{ "pass", pass, { 0 } },
	{ "recompression", recompress, { 0 } },
	{ "compaction", compact, { 0 } },
	{ "idle marks", mark_idle, { 0 } },
};

#define OPERATIONS (sizeof(operations) / sizeof(*operations))

/* -- What there is before ------------------------------------------------------ */

static void write_two(void)
{
	write_first();
	write_second();
}

static void write_three(void)
{
	write_two();
	write_third();
}

static void write_shared(void)
{
	write_two();
	pass();
}

static void write_share_of_one(void)
{
	write_shared();
	zm_page_discard(store, 1);
}

static void write_backed(void)
{
	write_shared();
	write_back();
}

static void write_on_its_way(void)
{
	write_shared();
	write_back_late();
}

static void write_pinned(void)
{
	write_shared();
	pin();
}

/* No slot has it, but it is read, and on its way to a block. */
static void write_orphan(void)
{
	write_pinned();
	write_back_late();
	discard_all();
}

/* One page, made by two codecs. */
static void write_twice(void)
{
	write_first();
	recompress();
	write_second();
}

static const struct operation starts[] = {
	{ "three objects", write_three, { PAGE, PAGE, PAGE } },
	{ "a share", write_shared, { PAGE, PAGE } },
	{ "a share of one", write_share_of_one, { PAGE, EMPTY } },
	{ "a block", write_backed, { PAGE, PAGE } },
	{ "a share on its way", write_on_its_way, { PAGE, PAGE } },
	{ "a share that is read", write_pinned, { PAGE, PAGE } },
	{ "a share without slots", write_orphan, { EMPTY, EMPTY } },
	{ "objects of two codecs", write_twice, { PAGE, PAGE } },
};

#define STARTS (sizeof(starts) / sizeof(*starts))

static void end(void)
{
	u8 page[ZM_PAGE_SIZE];
	struct zm_stats stats;
	u64 slot;

	unpin();
	read_late_end();
	write_back_end();
	check_store(store, ZM_CHECK_COUNTS, "behind all", 0);
	for (slot = 0; slot < SLOTS; slot++) {
		if (disk_page_read(&disk, store, slot, page))
			tell("is not read in the end", slot);
		expect(slot, page, expected_in(slot, true));
	}
	discard_all();
	zm_store_stats(store, &stats);
	if (stats.objects || stats.shares || stats.blocks_used ||
	    stats.memory_used)
		tell("is not all that is left", 0);
}

/*
 * What is planned to happen happens; how deep it came: 0 where the first operation
 * has fewer places.
 */
static u32 run(const struct operation *start)
{
	u32 came = 0, i;

	for (i = 0; i < SLOTS; i++)
		before[i] = start->sets[i] ? start->sets[i] : EMPTY;
	start->run();
	for (i = 0; i < DEPTH; i++)
		happening[i].places = 0;
	is_running = true;
	zm_held_between_set(between);
	happening[0].operation->run();
	zm_held_between_set(NULL);
	is_running = false;
	if (happening[0].places > PLACES_MAX)
		tell("has no end", 0);
	while (came + 1 < DEPTH && has_happened(came + 1))
		came++;
	end();
	return came;
}

/* Each place of one, with the other there. */
static u64 try_pair(const struct operation *start,
		    const struct operation *first,
		    const struct operation *second)
{
	u64 runs = 0;

	happening[0].operation = first;
	happening[1].operation = second;
	happening[1].at = 0;
	happening[2].operation = NULL;
	for (happening[0].at = 1; run(start); happening[0].at++)
		runs++;
	return runs;
}

/* Users of a share, in the midst of each other, when its last slot goes. */
static u64 try_users(const struct operation *start,
		     const struct operation *first,
		     const struct operation *second)
{
	static const struct operation gone =
		{ "discard of all and writes", discard_and_write,
		  { OTHER, OTHER, EMPTY, EMPTY, EMPTY } };
	u64 runs = 0;
	u32 came;

	happening[0].operation = first;
	happening[1].operation = second;
	happening[2].operation = &gone;
	for (happening[0].at = 1;; happening[0].at++) {
		for (happening[1].at = 1;; happening[1].at++) {
			came = run(start);
			runs++;
			if (came < 2)
				break;
		}
		if (!came)
			return runs;
	}
}

static void store_make(u32 mode)
{
	struct zm_store_options options = test_options("lz4", SLOTS, mode);

	lz4 = options.codecs[0].ops;
	watched = *lz4;
	watched.decompress = watched_decompress;
	options.codecs[0].ops = &watched;
	options.streams = DEPTH;
	/* Makes a smaller class of the pages, whatever they are. */
	test_codec(&options, 1, "zstd");
	store = test_store(&options, DISK_BLOCKS);
}

static u64 try_mode(u32 mode)
{
	u32 start, first, second;
	u64 runs = 0;

	store_make(mode);
	for (start = 0; start < STARTS; start++)
		for (first = 0; first < OPERATIONS; first++)
			for (second = 0; second < OPERATIONS; second++)
				runs += try_pair(&starts[start],
						 &operations[first],
						 &operations[second]);
	for (first = 0; first < OPERATIONS; first++)
		for (second = 0; second < OPERATIONS; second++)
			if (!operations[first].sets[0] &&
			    !operations[second].sets[0])
				runs += try_users(&starts[1],
						  &operations[first],
						  &operations[second]);
	zm_store_destroy(store);
	return runs;
}

/* What writes that look for their twin say they found. */
static void try_found(void)
{
	struct zm_stats stats;
	u64 metadata;

	store_make(ZM_MELD_INLINE);
	write_first();
	metadata = test_stats(store).memory_metadata;
	write_first();
	zm_store_stats(store, &stats);
	EXPECT(stats.inline_unchanged == 1 && stats.memory_metadata == metadata);
	write_alike();
	zm_store_stats(store, &stats);
	EXPECT(stats.inline_collisions == 1 && stats.inline_melded == 1);
	write_second();
	zm_store_stats(store, &stats);
	EXPECT(stats.inline_melded == 2 && stats.shares == 2);
	/* One that waits for room has looked for its twin, and does so once. */
	discard_all();
	zm_fault_scarce_set(true);
	overwrite_first();
	zm_fault_scarce_set(false);
	EXPECT(test_stats(store).inline_probes == stats.inline_probes + 1);
	discard_all();
	zm_store_destroy(store);
}

int main(void)
{
	if (!ZM_LOCKS_ARE_CHECKED)
		DIE("locks are looked after under the sanitizers only");
	collision_find(contents[PAGE], contents[ALIKE]);
	page_make(contents[OTHER], 13);
	page_make(contents[RAW], 9);
	try_found();
	printf("interleave: %llu orders with passes, %llu with writes that meld: ok\n",
	       try_mode(ZM_MELD_MANUAL), try_mode(ZM_MELD_INLINE));
	return 0;
}

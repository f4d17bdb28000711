// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is refused and what is told: slots that do not exist, objects that are
 * damaged; what the check says of faults that were put into slots.
 *
 *	refusals
 */
#include "harness.h"

#include "../core/store.h"
#include "../port/user/fault.h"

#define SLOTS	8

/* lz4, but nothing decompresses while `is_damaged`. */
static struct zm_codec_ops damaging;
static bool is_damaged;

static int damaging_decompress(void *ctx, const struct zm_codec_params *params,
			       const void *src, size_t src_size,
			       void *dst, size_t dst_size)
{
	int err = zm_codec_find("lz4")->decompress(ctx, params, src, src_size,
						   dst, dst_size);

	return is_damaged ? -EBADMSG : err;
}

/* How often it was prepared and not given back. */
static u32 prepared;

static int counting_prepare(struct zm_codec_params *params)
{
	params->prepared = &prepared;
	prepared++;
	return 0;
}

static void counting_release(struct zm_codec_params *params)
{
	EXPECT(params->prepared == &prepared);
	prepared--;
}

static struct zm_store *open_store(void)
{
	struct zm_store_options options = test_options("lz4", SLOTS,
						       ZM_MELD_MANUAL);
	struct zm_store *store;
	u8 page[ZM_PAGE_SIZE];

	damaging = *zm_codec_find("lz4");
	damaging.decompress = damaging_decompress;
	damaging.prepare = counting_prepare;
	damaging.release = counting_release;
	is_damaged = false;
	options.codecs[0].ops = &damaging;
	store = test_store(&options, 4);
	/* Text in 0 and twice more, same-filled, raw; the last ones are empty. */
	page_make(page, 4);
	test_write(store, 0, page);
	test_write(store, 1, page);
	test_write(store, 2, page);
	page_make(page, 64);
	test_write(store, 3, page);
	page_make(page, 1);
	test_write(store, 4, page);
	page_make(page, 12);
	test_write(store, 5, page);
	return store;
}

static void no_such_slot(struct zm_store *store)
{
	static const u64 none[] = { SLOTS, SLOTS + 1, ~0ull };
	struct zm_writeback wb;
	struct zm_slot_info info;
	u8 page[ZM_PAGE_SIZE];
	u32 i;

	page_make(page, 4);
	for (i = 0; i < sizeof(none) / sizeof(*none); i++) {
		EXPECT(zm_page_write(store, none[i], page) == -EINVAL);
		EXPECT(zm_page_read(store, none[i], page) == -EINVAL);
		EXPECT(zm_writeback_begin(store, none[i], 0, false, &wb,
					  page) == -EINVAL);
		EXPECT(zm_slot_info(store, none[i], &info) == -EINVAL);
		zm_page_discard(store, none[i]);
	}
	EXPECT(zm_meld_mode_set(store, ZM_MELD_INLINE + 1) == -EINVAL);
	EXPECT(zm_backing_attach(store, 0) == -EINVAL);
	EXPECT(zm_backing_attach(store, ZM_BLOCKS_MAX + 1) == -EINVAL);
	EXPECT(zm_backing_attach(store, 4) == -EBUSY);
}

/* No error leaves a block taken, or a page other than it was. */
static void damaged_objects(struct zm_store *store)
{
	u8 page[ZM_PAGE_SIZE], wanted[ZM_PAGE_SIZE];
	struct zm_writeback wb;
	struct zm_backed backed;
	struct zm_stats stats;
	char text[4096];

	page_make(wanted, 12);
	is_damaged = true;
	EXPECT(zm_page_read(store, 5, page) == -EBADMSG);
	EXPECT(zm_writeback_begin(store, 5, 0, false, &wb, page) == -EBADMSG);
	EXPECT(zm_store_check(store, ZM_CHECK_CONTENTS, 0, text, sizeof(text)) ==
	       -EUCLEAN);
	EXPECT(strstr(text, "slot 5: object does not decompress"));
	is_damaged = false;
	EXPECT(!zm_page_read(store, 5, page));
	EXPECT(!memcmp(page, wanted, sizeof(page)));
	/* One by its reader, one by who wanted to send it away. */
	zm_store_stats(store, &stats);
	EXPECT(!stats.blocks_used && stats.damaged == 2);

	EXPECT(!zm_writeback_begin(store, 5, 0, true, &wb, page));
	EXPECT(zm_writeback_end(store, &wb, true));
	EXPECT(zm_page_read_begin(store, 5, wanted, &backed) == ZM_BACKED);
	is_damaged = true;
	EXPECT(zm_page_read_end(store, &backed, page, wanted, 0) == -EBADMSG);
	is_damaged = false;
	EXPECT(zm_page_read(store, 5, page) == -EREMOTE);
}

static int meld_all(struct zm_store *store)
{
	const struct zm_meld_options all = { .threshold_permille = 0 };
	struct zm_meld_result result;

	return zm_meld_run(store, &all, &result);
}

/* The check says what is wrong with a slot that holds this. */
static void planted(struct zm_store *store, u64 index, u32 state, u64 value,
		    const char *what)
{
	struct zm_slot *slot = &store->slots[index], before = *slot;
	char text[4096];

	slot->state = state;
	slot->value = value;
	EXPECT(zm_store_check(store, ZM_CHECK_SLOTS, 0, text, sizeof(text)) ==
	       -EUCLEAN);
	*slot = before;
	if (!strstr(text, what))
		DIE("a check says \"%s\" and not \"%s\"", text, what);
	check_store(store, ZM_CHECK_CONTENTS, "after a planted fault", 0);
}

static void faults_planted(struct zm_store *store)
{
	const u32 object = zm_state_make(ZM_KIND_OBJECT);

	planted(store, 6, zm_state_make((enum zm_kind)7), 0,
		"unknown kind 7");
	planted(store, 6, zm_state_make(ZM_KIND_EMPTY), 5, "but has a value");
	planted(store, 6, zm_state_make(ZM_KIND_EMPTY) | ZM_STATE_FINGERPRINTED,
		0, "fingerprint without object");
	planted(store, 4, object, 0, "no object behind it");
	planted(store, 4, object, 1, "object of 0 bytes");
}

static char said[4096];

/* The check says that, whatever else. */
static void expect_said(struct zm_store *store, const char *what)
{

	EXPECT(zm_store_check(store, ZM_CHECK_COUNTS, 0, said, sizeof(said)) ==
	       -EUCLEAN);
	if (!strstr(said, what))
		DIE("a check says \"%s\" and not \"%s\"", said, what);
}

/* Of counters that are one off, and of what two slots hold. */
static void sums_planted(struct zm_store *store)
{
	struct zm_counters *counters = store->counters;
	const struct {
		u64 *counter;
		const char *what;
	} known[] = {
		{ &counters->pages_stored, "pages_stored: counter 7, slots 6" },
		{ &counters->pages_same, "pages_same: counter 2, slots 1" },
		{ &counters->pages_raw, "pages_raw: counter 2, slots 1" },
		{ &counters->pages_shared, "pages_shared: counter 5, slots 4" },
		{ &counters->pages_backed, "pages_backed: counter 4, slots 3" },
		{ &counters->shares, "shares: counter 4, slots 3" },
		{ &counters->shares_backed, "shares_backed: counter 3, slots 2" },
		{ &counters->held, "held: counter 1, slots 0" },
		{ &counters->bytes_compressed, "bytes_compressed: counter " },
		{ &counters->bytes_melded, "bytes_melded: counter " },
		{ &counters->blocks_in_flight, "2 hold pages, 1 are in flight" },
		{ &store->blocks.used, "blocks_used: counter 3, 2 are taken" },
	};
	struct zm_slot *slots = store->slots, before = slots[4];
	struct zm_writeback wb;
	struct zm_share *share;
	u8 page[ZM_PAGE_SIZE];
	u32 i, count, size;

	/* 0, 1: a share on its block, as 5 is; 2: one in the pool. */
	EXPECT(!zm_writeback_begin(store, 0, 0, true, &wb, page));
	EXPECT(!zm_writeback_end(store, &wb, false));
	EXPECT(meld_all(store) == 0 && test_info(store, 2).sharers == 3);
	zm_page_discard(store, 2);
	EXPECT(!zm_writeback_begin(store, 0, 0, true, &wb, page));
	EXPECT(zm_writeback_end(store, &wb, true));
	page_make(page, 4);
	test_write(store, 2, page);
	EXPECT(!zm_writeback_begin(store, 2, 0, true, &wb, page));
	EXPECT(!zm_writeback_end(store, &wb, false));
	check_store(store, ZM_CHECK_CONTENTS, "before sums are wrong", 0);
	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		++*known[i].counter;
		expect_said(store, known[i].what);
		--*known[i].counter;
	}
	/* Whatever it says, no more memory is asked for than slots take. */
	counters->pages_stored += 1ull << 40;
	expect_said(store, "pages_stored: counter ");
	counters->pages_stored -= 1ull << 40;
	share = zm_content_share(zm_slot_content(&slots[0]));
	count = share->count;
	share->count = 0;
	/* Nothing is summed up then. */
	expect_said(store, "its share has no slots");
	EXPECT(!strstr(said, "counter"));
	share->count = count;
	size = share->size;
	share->size = 0;
	expect_said(store, "object of 0 bytes");
	share->size = size;
	slots[4] = slots[2];
	expect_said(store, "counts 1, 2 slots use it");
	slots[4] = before;
	/* The only objects that there are. */
	page_make(page, 20);
	test_write(store, 2, page);
	slots[4] = slots[2];
	expect_said(store, "belongs to two");
	slots[4] = before;
	page_make(page, 4);
	test_write(store, 2, page);
	check_store(store, ZM_CHECK_CONTENTS, "after sums were wrong", 0);
}

/* Twenty faults are told, and how many more there are. */
static void many_planted(void)
{
	struct zm_store_options options = test_options("lz4", 40, ZM_MELD_OFF);
	struct zm_store *store = test_store(&options, 0);
	u32 i;

	for (i = 0; i < 20; i++)
		store->slots[i].value = 5;
	expect_said(store, "slot 19: empty, but has a value");
	EXPECT(!strstr(said, "more"));
	store->slots[20].value = 5;
	expect_said(store, "... and 1 more");
	EXPECT(!strstr(said, "slot 20"));
	for (i = 0; i <= 20; i++)
		store->slots[i].value = 0;
	zm_store_destroy(store);
}

/* Names, and nothing of what was said before. */
static void told(struct zm_store *store)
{
	static const char *const modes[] = {
		"off", "manual", "auto", "inline", "unknown"
	};
	static const char *const checks[] = { "auto", "on", "off", "unknown" };
	char text[] = "before";
	u64 stops;
	u32 i;

	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		EXPECT(!strcmp(zm_meld_mode_name(i), modes[i]));
	for (i = 0; i < sizeof(checks) / sizeof(*checks); i++)
		EXPECT(!strcmp(zm_check_writes_name(i), checks[i]));
	EXPECT(!zm_store_check(store, ZM_CHECK_SLOTS, 0, NULL, 0));
	stops = zm_pass_stops(store);
	zm_pass_stop(store);
	for (i = ZM_CHECK_SLOTS; i <= ZM_CHECK_CONTENTS; i++)
		EXPECT(zm_store_check(store, i, stops, NULL, 0) == -EINTR);
	EXPECT(!zm_store_check(store, ZM_CHECK_SLOTS, 0, text, sizeof(text)) &&
	       !text[0]);
}

static void settings(struct zm_store *store)
{
	struct zm_stats stats;

	zm_store_verify_set(store, false);
	EXPECT(!store->verify);
	zm_store_peak_reset(store);
	zm_store_stats(store, &stats);
	EXPECT(stats.memory_used_max == stats.memory_used);
	zm_store_compact(store);
	EXPECT(zm_store_compacted(store) < stats.memory_used);
	zm_store_destroy(NULL);
}

/* Each setting counts from then on, and back; what is refused leaves no trace. */
static void back_again(struct zm_store *store)
{
	struct zm_stats before = test_stats(store), after;
	struct zm_writeback wb;
	u8 page[ZM_PAGE_SIZE];
	u32 on;

	page_make(page, 9);
	zm_store_limit_set(store, before.memory_used);
	EXPECT(zm_page_write(store, 6, page) == -ENOMEM);
	after = test_stats(store);
	EXPECT(after.memory_used_max == before.memory_used_max &&
	       after.raw_since == before.raw_since &&
	       after.pages_raw == before.pages_raw);
	/* Up to the limit, and no byte more. */
	zm_store_limit_set(store, 0);
	test_write(store, 6, page);
	after = test_stats(store);
	EXPECT(after.memory_used_max == after.memory_used &&
	       after.raw_since == before.raw_since + 1);
	zm_page_discard(store, 6);
	zm_store_limit_set(store, after.memory_used - 1);
	EXPECT(zm_page_write(store, 6, page) == -ENOMEM);
	zm_store_limit_set(store, after.memory_used);
	test_write(store, 6, page);
	zm_store_limit_set(store, 0);
	zm_page_discard(store, 6);
	/* What has to wait for its room takes no more of it. */
	page_make(page, 4);
	zm_fault_scarce_set(true);
	test_write(store, 6, page);
	zm_fault_scarce_set(false);
	EXPECT(test_info(store, 6).size == test_info(store, 0).size);
	zm_page_discard(store, 6);
	/* A page that is not what its fingerprint says: a fault of the test's. */
	for (on = 2; on--;) {
		zm_store_verify_set(store, on);
		store->slots[4].fingerprint ^= 1;
		EXPECT(zm_page_read(store, 4, page) == (on ? -EBADMSG : 0));
		store->slots[4].fingerprint ^= 1;
	}
	/* Nor is that sent away as it is, on its way back to be called right. */
	store->slots[4].fingerprint ^= 1;
	EXPECT(zm_writeback_begin(store, 4, 0, true, &wb, page) == -EBADMSG);
	store->slots[4].fingerprint ^= 1;
	/* No memory for the index: the mode stays, and comes when there is some. */
	zm_fault_set(1);
	EXPECT(zm_meld_mode_set(store, ZM_MELD_INLINE) == -ENOMEM);
	zm_fault_set(0);
	EXPECT(store->mode == ZM_MELD_MANUAL);
	EXPECT(!zm_meld_mode_set(store, ZM_MELD_INLINE));
	page_make(page, 20);
	test_write(store, 6, page);
	test_write(store, 7, page);
	EXPECT(test_info(store, 6).sharers == 2);
	EXPECT(!zm_meld_mode_set(store, ZM_MELD_OFF));
	test_write(store, 7, page);
	EXPECT(test_info(store, 6).sharers == 1);
	zm_page_discard(store, 6);
	zm_page_discard(store, 7);
}

/* What a store is made with is what it does. */
static void options_count(void)
{
	struct zm_store_options options = test_options("lz4", SLOTS,
						       ZM_MELD_MANUAL);
	struct zm_store_options wrong[] = {
		options, options, options, options, options
	};
	struct zm_store *store;
	struct zm_stats with, without;
	u8 page[ZM_PAGE_SIZE];
	u32 i;

	wrong[0].slots = 0;
	wrong[1].slots = ZM_SLOTS_MAX + 1;
	wrong[2].mode = ZM_MELD_INLINE + 1;
	wrong[3].check_writes = ZM_CHECK_WRITES_OFF + 1;
	wrong[4].codecs[0].ops = NULL;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EXPECT(zm_store_create(&wrong[i], &store) == -EINVAL);
	options.check_writes = ZM_CHECK_WRITES_OFF;
	options.memory_limit = 1;
	store = test_store(&options, 0);
	page_make(page, 4);
	EXPECT(zm_page_write(store, 0, page) == -ENOMEM);
	EXPECT(store->check_writes == ZM_CHECK_WRITES_OFF && store->verify);
	/* All that is borrowed for a store is told. */
	zm_store_limit_set(store, 0);
	without = test_stats(store);
	EXPECT(without.memory_metadata ==
	       SLOTS * (16 + sizeof(u32)) + sizeof(struct zm_store) +
	       zm_port_percpu_bytes(sizeof(struct zm_counters)) +
	       zm_fingerprint_key_bytes());
	EXPECT(!zm_backing_attach(store, 64 * 10));
	test_write(store, 0, page);
	test_write(store, 1, page);
	EXPECT(test_meld(store).pages_melded == 1);
	with = test_stats(store);
	EXPECT(with.memory_metadata ==
	       without.memory_metadata + 10 * sizeof(u64) + ZM_SHARE_BYTES);
	EXPECT(with.objects == 1 && with.pages_melded == 1 && with.shares == 1);
	zm_store_destroy(store);
}

/* 4,096 look-ups, of which so many find the page: whether auto mode is on then. */
static bool window(struct zm_store *store, const u8 *page, u32 hits)
{
	const bool before = test_stats(store).inline_active;
	u32 i;

	for (i = 0; i < 4096; i++) {
		EXPECT(test_stats(store).inline_active == before);
		if (i < 4096 - hits)
			zm_page_discard(store, 0);
		test_write(store, 0, page);
	}
	return test_stats(store).inline_active;
}

/* Auto mode is on from 2 % of hits in a window on, and off below 1 %. */
static void auto_switches(void)
{
	struct zm_store_options options = test_options("lz4", SLOTS,
						       ZM_MELD_AUTO);
	struct zm_store *store;
	u8 page[ZM_PAGE_SIZE];
	u64 content = 4, probes;
	bool looked_up;

	options.streams = 1;
	store = test_store(&options, 0);
	/* While it is off one fingerprint in sixteen is looked up. */
	do {
		probes = test_stats(store).inline_probes;
		page_make(page, content += 8);
		test_write(store, 0, page);
		looked_up = test_info(store, 0).fingerprint % 16 == 0;
		EXPECT(test_stats(store).inline_probes == probes + looked_up);
	} while (content < 1000 || !looked_up);
	zm_store_destroy(store);
	store = test_store(&options, 0);
	EXPECT(!window(store, page, 40));
	EXPECT(!window(store, page, 81));
	EXPECT(window(store, page, 82));
	EXPECT(window(store, page, 82));
	EXPECT(window(store, page, 41));
	EXPECT(!window(store, page, 40));
	EXPECT(test_stats(store).auto_switches == 2);
	EXPECT(test_stats(store).inline_probes == 6 * 4096);
	zm_store_destroy(store);
}

/* A key of its own each: the same page has another fingerprint. */
static void keys(void)
{
	struct zm_fingerprint_key *one = zm_fingerprint_key_create(NULL);
	struct zm_fingerprint_key *other = zm_fingerprint_key_create(NULL);
	u8 page[ZM_PAGE_SIZE];
	u32 equal = 0;

	EXPECT(one && other);
	for (u64 k = 0; k < 64; k++) {
		page_make(page, 1 + 8 * k);
		equal += zm_fingerprint(one, page) == zm_fingerprint(other, page);
	}
	EXPECT(equal < 64);
	zm_fingerprint_key_destroy(one);
	zm_fingerprint_key_destroy(other);
}

/* Whichever allocation fails, there is no store, and nothing is left of it. */
static void no_memory_for_a_store(void)
{
	struct zm_store_options options = test_options("lz4", SLOTS,
						       ZM_MELD_INLINE);
	struct zm_store *store;
	u64 nth = 0;
	int err;

	test_codec(&options, 1, "zstd");
	do {
		store = NULL;
		zm_fault_set(++nth);
		err = zm_store_create(&options, &store);
		if (zm_fault_asked() >= nth)
			EXPECT(err == -ENOMEM && !store);
		zm_fault_set(0);
	} while (err == -ENOMEM);
	EXPECT(!err && nth > 4);
	zm_store_destroy(store);
}

static int recompress_largest(struct zm_store *store)
{
	const struct zm_recompress_options largest = {
		.priority = 1, .pages_max = 2,
	};
	struct zm_recompress_result result;

	return zm_recompress_run(store, &largest, &result);
}

static int check_all(struct zm_store *store)
{
	char text[4096];

	return zm_store_check(store, ZM_CHECK_CONTENTS, 0, text, sizeof(text));
}

/* Whichever allocation of some work fails, that is said, and no page is another. */
static void no_memory_for(int (*work)(struct zm_store *store))
{
	struct zm_store_options options = test_options("lz4", SLOTS,
						       ZM_MELD_MANUAL);
	u8 page[ZM_PAGE_SIZE], wanted[ZM_PAGE_SIZE];
	struct zm_store *store;
	u64 nth = 0, i;
	int err;

	test_codec(&options, 1, "zstd");
	page_make(wanted, 4);
	do {
		store = test_store(&options, 0);
		for (i = 0; i < SLOTS; i++)
			test_write(store, i, wanted);
		zm_fault_set(++nth);
		err = work(store);
		EXPECT(err == (zm_fault_asked() >= nth ? -ENOMEM : 0));
		zm_fault_set(0);
		for (i = 0; i < SLOTS; i++)
			EXPECT(!zm_page_read(store, i, page) &&
			       !memcmp(page, wanted, ZM_PAGE_SIZE));
		check_store(store, ZM_CHECK_CONTENTS, "without memory", 0);
		zm_store_destroy(store);
	} while (err);
	EXPECT(nth > 4);
}

/* A page that stays for want of memory keeps no block. */
static void no_memory_to_send_away(void)
{
	struct zm_store_options options = test_options("lz4", SLOTS,
						       ZM_MELD_MANUAL);
	struct zm_store *store = test_store(&options, 1);
	struct zm_writeback wb;
	u8 page[ZM_PAGE_SIZE];

	page_make(page, 4);
	test_write(store, 0, page);
	zm_fault_scarce_set(true);
	zm_fault_set(1);
	EXPECT(zm_writeback_begin(store, 0, 0, false, &wb, page) == -ENOMEM);
	zm_fault_set(0);
	zm_fault_scarce_set(false);
	EXPECT(!zm_writeback_begin(store, 0, 0, false, &wb, page));
	zm_writeback_end(store, &wb, false);
	zm_store_destroy(store);
}

/* As many blocks as there are, each once, whatever their number. */
static void every_number_of_blocks(void)
{
	struct zm_store_options options = test_options("lz4", SLOTS,
						       ZM_MELD_MANUAL);
	struct zm_store *store = test_store(&options, 0);
	struct zm_stats stats;
	u64 blocks, k, block;
	u8 seen[200];

	for (blocks = 1; blocks <= sizeof(seen); blocks++) {
		memset(seen, 0, sizeof(seen));
		EXPECT(!zm_backing_attach(store, blocks));
		for (k = 0; k < blocks; k++) {
			EXPECT(!zm_block_reserve(store, &block));
			EXPECT(block < blocks && !seen[block]++);
			EXPECT(zm_block_is_taken(store, block));
		}
		EXPECT(zm_block_reserve(store, &block) == -ENOSPC);
		zm_store_stats(store, &stats);
		EXPECT(stats.blocks == blocks && stats.blocks_used == blocks);
		EXPECT(zm_backing_detach(store) == -EBUSY);
		/* Wherever one is free, it is found from where the last was. */
		for (k = 0; k < blocks; k++) {
			zm_block_free(store, k);
			EXPECT(!zm_block_reserve(store, &block) && block == k);
			EXPECT(zm_block_reserve(store, &block) == -ENOSPC);
		}
		for (k = 0; k < blocks; k++) {
			zm_block_free(store, k);
			EXPECT(!zm_block_is_taken(store, k));
		}
		EXPECT(!zm_backing_detach(store));
		EXPECT(!test_stats(store).blocks);
		EXPECT(zm_block_reserve(store, &block) == -ENOSPC);
	}
	zm_store_destroy(store);
}

int main(void)
{
	struct zm_store *store = open_store();

	no_such_slot(store);
	damaged_objects(store);
	faults_planted(store);
	sums_planted(store);
	told(store);
	settings(store);
	back_again(store);
	check_store(store, ZM_CHECK_COUNTS, "at the end", 0);
	EXPECT(prepared == 1);
	zm_store_destroy(store);
	EXPECT(!prepared);
	many_planted();
	no_memory_for_a_store();
	no_memory_to_send_away();
	no_memory_for(meld_all);
	no_memory_for(recompress_largest);
	no_memory_for(check_all);
	every_number_of_blocks();
	options_count();
	auto_switches();
	keys();
	printf("what is refused is refused, what is wrong is told\n");
	return 0;
}

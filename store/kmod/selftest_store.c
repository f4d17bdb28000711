// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The store's self-test in the kernel: a small store beside a plain array of
 * what each page should be, through everything that a store can do, with each
 * codec this kernel has and in each mode of melding.
 *
 * Few slots and few different pages, so that shares come and go all the time.
 * The backing device is a table in memory. Threads are left to the tests that
 * drive the device.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include <zmeld/port.h>
#include <zmeld/store.h>

#include "selftest.h"

#define SLOTS		192
#define CONTENTS	80	/* different pages */
#define BLOCKS		48
/* Where each allocation is traced, a step takes a hundred times as long. */
#define STEPS		(IS_ENABLED(CONFIG_KASAN) ? 200 : 1200)
#define STEPS_A_CHECK	(STEPS / 4)
#define TEXT_SIZE	2048

#define DISCARDED	0	/* in contents: others are a page's number + 1 */

struct store_trial {
	struct zm_store *store;
	const char *codec;
	const char *mode;
	struct zm_selftest_random random;
	u32 contents[SLOTS];
	u8 *expected;	/* a page */
	u8 *found;	/* a page */
	u8 *leaving;	/* a page, on its way to a block */
	u8 *blocks;	/* BLOCKS pages: the backing device */
	char *text;
};

#define trial_failed(trial, format, ...) \
	zm_selftest_failed("store with %s, melding %s: " format, \
			   (trial)->codec, (trial)->mode, ##__VA_ARGS__)

/* -- What a step may be ---------------------------------------------------- */

static int slot_write(struct store_trial *trial, u64 slot)
{
	u32 content = zm_selftest_below(&trial->random, CONTENTS);
	int err;

	zm_selftest_page(trial->found, content);
	err = zm_page_write(trial->store, slot, trial->found);
	if (err)
		return trial_failed(trial, "write of slot %llu gives %d",
				    slot, err);
	trial->contents[slot] = content + 1;
	return 0;
}

static int slot_read(struct store_trial *trial, u64 slot)
{
	struct zm_backed backed;
	int err;

	if (trial->contents[slot] == DISCARDED)
		memset(trial->expected, 0, ZM_PAGE_SIZE);
	else
		zm_selftest_page(trial->expected, trial->contents[slot] - 1);
	memset(trial->found, 0x5a, ZM_PAGE_SIZE);
	err = zm_page_read_begin(trial->store, slot, trial->found, &backed);
	if (err == ZM_BACKED) {
		if (backed.block >= BLOCKS)
			return trial_failed(trial, "slot %llu is in block %llu of %u",
					    slot, backed.block, BLOCKS);
		memcpy(trial->found, trial->blocks +
				     backed.block * ZM_PAGE_SIZE, ZM_PAGE_SIZE);
		err = zm_page_read_end(trial->store, &backed, trial->found,
				       trial->found, 0);
	}
	if (err)
		return trial_failed(trial, "read of slot %llu gives %d", slot,
				    err);
	if (memcmp(trial->expected, trial->found, ZM_PAGE_SIZE))
		return trial_failed(trial, "slot %llu reads as another page",
				    slot);
	return 0;
}

static int slot_write_back(struct store_trial *trial, u64 slot)
{
	bool compressed = zm_selftest_below(&trial->random, 2);
	bool written = zm_selftest_below(&trial->random, 4);
	struct zm_writeback wb;
	int err;

	err = zm_writeback_begin(trial->store, slot, 0, compressed, &wb,
				 trial->leaving);
	if (err == -ENOENT || err == -ENOSPC)
		return 0;
	if (err)
		return trial_failed(trial, "writeback of slot %llu gives %d",
				    slot, err);
	if (wb.block >= BLOCKS) {
		zm_writeback_end(trial->store, &wb, false);
		return trial_failed(trial, "block %llu of %u is reserved",
				    wb.block, BLOCKS);
	}
	/* Meanwhile the page stays readable, and who changes it wins. */
	err = zm_selftest_below(&trial->random, 8) ? slot_read(trial, slot) :
						     slot_write(trial, slot);
	memcpy(trial->blocks + wb.block * ZM_PAGE_SIZE, trial->leaving,
	       ZM_PAGE_SIZE);
	zm_writeback_end(trial->store, &wb, written);
	return err ? err : slot_read(trial, slot);
}

static int pass_run(struct store_trial *trial)
{
	const struct zm_meld_options options = {
		.memory_max = zm_selftest_below(&trial->random, 2) * 4096,
	};
	struct zm_meld_result result;
	int err;

	err = zm_meld_run(trial->store, &options, &result);
	if (err)
		return trial_failed(trial, "the pass gives %d", err);
	return 0;
}

static int recompress(struct store_trial *trial)
{
	const struct zm_recompress_options options = {
		.which = zm_selftest_below(&trial->random, 3),
		.priority_first = 1,
		.priority_end = 2,
	};
	struct zm_recompress_result result;
	int err;

	err = zm_idle_mark(trial->store, 0, 0);
	if (err)
		return trial_failed(trial, "marking as idle gives %d", err);
	err = zm_recompress_run(trial->store, &options, &result);
	if (err)
		return trial_failed(trial, "recompression gives %d", err);
	return 0;
}

static int walk(struct store_trial *trial)
{
	int err;

	trial->text[0] = '\0';
	err = zm_store_check(trial->store, ZM_CHECK_CONTENTS, trial->text,
			     TEXT_SIZE);
	if (err)
		return trial_failed(trial, "the check gives %d: %s", err,
				    trial->text);
	return 0;
}

static int step(struct store_trial *trial)
{
	u64 slot = zm_selftest_below(&trial->random, SLOTS);
	u32 what = zm_selftest_below(&trial->random, 200);

	if (what < 100)
		return slot_write(trial, slot);
	if (what < 150)
		return slot_read(trial, slot);
	if (what < 180) {
		zm_page_discard(trial->store, slot);
		trial->contents[slot] = DISCARDED;
		return 0;
	}
	if (what < 197)
		return slot_write_back(trial, slot);
	if (what == 197)
		return pass_run(trial);
	if (what == 198)
		return recompress(trial);
	zm_store_compact(trial->store);
	return 0;
}

/* -- One store's life ------------------------------------------------------ */

/* Everything is given back: nothing may be left that nobody uses. */
static int clear(struct store_trial *trial)
{
	struct zm_stats stats;
	u64 slot;
	int err;

	for (slot = 0; slot < SLOTS; slot++)
		zm_page_discard(trial->store, slot);
	zm_store_stats(trial->store, &stats);
	if (stats.encode_errors)
		return trial_failed(trial, "%llu pages were encoded wrongly",
				    stats.encode_errors);
	if (stats.pages_stored || stats.objects || stats.shares ||
	    stats.bytes_compressed || stats.bytes_melded ||
	    stats.memory_used || stats.blocks_used)
		return trial_failed(trial, "empty, it holds %llu pages, %llu shares, %llu bytes, %llu blocks",
				    stats.pages_stored, stats.shares,
				    stats.memory_used, stats.blocks_used);
	err = zm_backing_detach(trial->store);
	if (err)
		return trial_failed(trial, "the empty backing device is kept (%d)",
				    err);
	return 0;
}

static int trial_run(struct store_trial *trial)
{
	u64 slot;
	u32 i;
	int err;

	err = zm_backing_attach(trial->store, BLOCKS);
	for (i = 0; i < STEPS && !err; i++) {
		err = step(trial);
		if (!err && i % STEPS_A_CHECK == 0)
			err = walk(trial);
		cond_resched();
	}
	for (slot = 0; slot < SLOTS && !err; slot++)
		err = slot_read(trial, slot);
	if (!err)
		err = walk(trial);
	if (!err)
		err = clear(trial);
	return err;
}

static int store_try(struct store_trial *trial, size_t codec, u32 mode)
{
	struct zm_store_options options = {
		.slots = SLOTS,
		.mode = mode,
		.verify = true,
		.check_writes = ZM_CHECK_WRITES_ON,
		.keyed = true,
	};
	int err;

	options.codecs[0].ops = zm_codecs[codec];
	options.codecs[0].params.level = ZM_CODEC_LEVEL_DEFAULT;
	options.codecs[1].ops = zm_codecs[(codec + 1) % zm_codec_count];
	options.codecs[1].params.level = ZM_CODEC_LEVEL_DEFAULT;
	trial->codec = options.codecs[0].ops->name;
	trial->mode = zm_meld_mode_name(mode);
	trial->random = (struct zm_selftest_random){ codec * 16 + mode };
	memset(trial->contents, 0, sizeof(trial->contents));
	err = zm_store_create(&options, &trial->store);
	if (err)
		return trial_failed(trial, "making it gives %d", err);
	err = trial_run(trial);
	zm_store_destroy(trial->store);
	return err;
}

int zm_selftest_store(void)
{
	struct store_trial *trial = vzalloc(sizeof(*trial));
	int err = -ENOMEM;
	size_t codec;
	u32 mode;

	if (!trial)
		return -ENOMEM;
	trial->expected = vmalloc(ZM_PAGE_SIZE);
	trial->found = vmalloc(ZM_PAGE_SIZE);
	trial->leaving = vmalloc(ZM_PAGE_SIZE);
	trial->blocks = vmalloc(BLOCKS * ZM_PAGE_SIZE);
	trial->text = vmalloc(TEXT_SIZE);
	if (!trial->expected || !trial->found || !trial->leaving ||
	    !trial->blocks || !trial->text)
		goto out;
	err = 0;
	for (codec = 0; codec < zm_codec_count && !err; codec++)
		for (mode = ZM_MELD_OFF; mode <= ZM_MELD_INLINE && !err; mode++)
			err = store_try(trial, codec, mode);
out:
	vfree(trial->text);
	vfree(trial->blocks);
	vfree(trial->leaving);
	vfree(trial->found);
	vfree(trial->expected);
	vfree(trial);
	return err;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The self-test of the codecs: every codec that this kernel has returns each page
 * that it was given, and does with a damaged object, or one that no codec made,
 * what it may: fail, or fill the page. Never does it touch a byte outside.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include <zmeld/port.h>

#include "../../zword/grammar.h"
#include "home_selftest.h"

#define CODEC_PAGES	32
#define CODEC_LIMITS	256	/* pages that know the limits of an encoder */
#define CODEC_DAMAGES	48	/* of each page's object */
#define CODEC_NOISE	400	/* inputs that no codec ever wrote */
#define CANARY		0xa5
#define DICT_SIZE	8192

/*
 * What a codec is tried on. `out` is a page with canaries on both sides. `in`
 * ends where its mapping ends: what reads past it faults.
 */
struct codec_trial {
	const struct zm_codec_ops *ops;
	struct zm_codec_params params;
	void *ctx;
	struct zm_selftest_random random;
	u8 *page;
	u8 *packed;		/* two pages */
	u8 *kept;
	u8 *guarded;		/* three pages, the middle one to write */
	u8 *in_end;
	u8 *in_mapping;
};

static bool guards_are_whole(const struct codec_trial *trial)
{
	return !memchr_inv(trial->guarded, CANARY, ZM_PAGE_SIZE) &&
	       !memchr_inv(trial->guarded + 2 * ZM_PAGE_SIZE, CANARY,
			   ZM_PAGE_SIZE);
}

static int codec_feed_once(struct codec_trial *trial, const u8 *in, u32 size,
			   u8 before)
{
	u8 *out = trial->guarded + ZM_PAGE_SIZE;
	int err;

	memset(out, before, ZM_PAGE_SIZE);
	err = trial->ops->decompress(trial->ctx, &trial->params, in, size, out,
				     ZM_PAGE_SIZE);
	if (err && err != -EBADMSG)
		return zm_selftest_failed("%s: decompress gives %d",
					  trial->ops->name, err);
	if (!guards_are_whole(trial))
		return zm_selftest_failed("%s: decompress left its page",
					  trial->ops->name);
	return err;
}

/*
 * Decompresses bytes that may be anything. 0: to a page; whatever it is, it is
 * there to its last byte, so what stood there before does not show.
 */
static int codec_feed(struct codec_trial *trial, const u8 *bytes, u32 size)
{
	u8 *in = trial->in_end - size;
	u8 *out = trial->guarded + ZM_PAGE_SIZE;
	int err;

	memcpy(in, bytes, size);
	err = codec_feed_once(trial, in, size, 0x11);
	if (err)
		return err;
	memcpy(trial->kept, out, ZM_PAGE_SIZE);
	err = codec_feed_once(trial, in, size, 0xee);
	if (err || memcmp(trial->kept, out, ZM_PAGE_SIZE))
		return zm_selftest_failed("%s: decompress fills less than a page",
					  trial->ops->name);
	return 0;
}

static int codec_damage(struct codec_trial *trial, u32 size)
{
	struct zm_selftest_random *random = &trial->random;
	u32 i, flips, cut;
	int err;

	for (i = 0; i < CODEC_DAMAGES; i++) {
		u8 *damaged = trial->packed + ZM_PAGE_SIZE;
		u32 at = zm_selftest_below(random, size);

		memcpy(damaged, trial->packed, size);
		cut = i % 4 == 0 ? at : 0;
		for (flips = i % 4; flips; flips--)
			damaged[zm_selftest_below(random, size)] ^=
				1u << zm_selftest_below(random, 8);
		if (i % 8 == 5)
			damaged[at] = (u8)zm_selftest_next(random);
		err = codec_feed(trial, damaged, size - cut);
		if (err && err != -EBADMSG)
			return err;
	}
	return 0;
}

static int codec_page(struct codec_trial *trial, u64 content)
{
	const struct zm_codec_ops *ops = trial->ops;
	size_t size = 2 * ZM_PAGE_SIZE, again = 2 * ZM_PAGE_SIZE;
	int err;

	zm_selftest_page(trial->page, content);
	err = ops->compress(trial->ctx, &trial->params, trial->page,
			    ZM_PAGE_SIZE, trial->packed, &size);
	if (err)
		return zm_selftest_failed("%s: page %llu: compress gives %d",
					  ops->name, content, err);
	if (size > ZM_PAGE_SIZE)
		return 0;	/* the store keeps such a page raw */
	if (codec_feed(trial, trial->packed, size) ||
	    memcmp(trial->guarded + ZM_PAGE_SIZE, trial->page, ZM_PAGE_SIZE))
		return zm_selftest_failed("%s: page %llu comes back changed",
					  ops->name, content);
	err = codec_damage(trial, size);
	if (err)
		return err;
	/* Deterministic, whatever the context went through meanwhile. */
	memcpy(trial->guarded + ZM_PAGE_SIZE, trial->packed, size);
	err = ops->compress(trial->ctx, &trial->params, trial->page,
			    ZM_PAGE_SIZE, trial->packed, &again);
	if (err || again != size ||
	    memcmp(trial->guarded + ZM_PAGE_SIZE, trial->packed, size))
		return zm_selftest_failed("%s: page %llu: not the same bytes twice",
					  ops->name, content);
	return 0;
}

static int codec_limits(struct codec_trial *trial, u64 number)
{
	const struct zm_codec_ops *ops = trial->ops;
	size_t size = 2 * ZM_PAGE_SIZE;
	int err;

	zword_grammar_page(1, number, trial->page, ZM_PAGE_SIZE);
	err = ops->compress(trial->ctx, &trial->params, trial->page,
			    ZM_PAGE_SIZE, trial->packed, &size);
	if (err)
		return zm_selftest_failed("%s: limits %llu: compress gives %d",
					  ops->name, number, err);
	if (size > ZM_PAGE_SIZE)
		return 0;	/* the store keeps such a page raw */
	memcpy(trial->in_end - size, trial->packed, size);
	if (codec_feed_once(trial, trial->in_end - size, size, 0x11) ||
	    memcmp(trial->guarded + ZM_PAGE_SIZE, trial->page, ZM_PAGE_SIZE))
		return zm_selftest_failed("%s: limits %llu come back changed",
					  ops->name, number);
	return 0;
}

/* No room: nothing may be written where there is none. */
static int codec_cramped(struct codec_trial *trial, u64 content)
{
	u32 room;

	zm_selftest_page(trial->page, content);
	for (room = 0; room <= ZM_PAGE_SIZE; room += 61) {
		u8 *end = trial->guarded + 2 * ZM_PAGE_SIZE;
		size_t size = room;
		int err;

		memset(trial->guarded + ZM_PAGE_SIZE, CANARY, ZM_PAGE_SIZE);
		err = trial->ops->compress(trial->ctx, &trial->params,
					   trial->page, ZM_PAGE_SIZE,
					   end - room, &size);
		if ((err && err != -ENOSPC) || (!err && size > room) ||
		    !guards_are_whole(trial))
			return zm_selftest_failed("%s: compress overran %u bytes (%d)",
						  trial->ops->name, room, err);
		if (memchr_inv(trial->guarded + ZM_PAGE_SIZE, CANARY,
			       ZM_PAGE_SIZE - room))
			return zm_selftest_failed("%s: compress wrote before its output",
						  trial->ops->name);
	}
	return 0;
}

static int codec_noise(struct codec_trial *trial)
{
	u32 i, at, size, mask;
	int err;

	for (i = 0; i < CODEC_NOISE; i++) {
		size = 1 + zm_selftest_below(&trial->random, ZM_PAGE_SIZE);
		/* Few bits set, and few not, find other paths than noise. */
		mask = (u32)zm_selftest_next(&trial->random);
		for (at = 0; at < size; at++) {
			u64 word = zm_selftest_next(&trial->random);

			if (i % 3 == 1)
				word &= (word >> 8) & (mask >> at % 24);
			else if (i % 3 == 2)
				word |= (word >> 8) | (mask >> at % 24);
			trial->packed[at] = (u8)word;
		}
		err = codec_feed(trial, trial->packed, size);
		if (err && err != -EBADMSG)
			return err;
	}
	return 0;
}

static int codec_try(struct codec_trial *trial)
{
	u64 content, number;
	int err;

	err = trial->ops->params_setup(&trial->params);
	if (err)
		return zm_selftest_failed("%s: params refused (%d)",
					  trial->ops->name, err);
	err = trial->ops->context_create(&trial->params, &trial->ctx);
	if (err)
		goto release;
	for (content = 0; content < CODEC_PAGES && !err; content++) {
		err = codec_page(trial, content);
		cond_resched();
	}
	for (number = 0; number < CODEC_LIMITS && !err; number++) {
		err = codec_limits(trial, number);
		cond_resched();
	}
	for (content = 1; content < ZM_SELFTEST_KINDS && !err; content++)
		err = codec_cramped(trial, content);
	if (!err)
		err = codec_noise(trial);
	trial->ops->context_destroy(trial->ctx);
release:
	trial->ops->params_release(&trial->params);
	return err;
}

/* The other levels of the libraries' codecs are theirs to test. */
static int codec_try_last_level(struct codec_trial *trial)
{
	const struct zm_codec_ops *ops = trial->ops;

	if (strcmp(ops->name, "zword"))
		return 0;
	trial->params = (struct zm_codec_params){ .level = ops->level_max };
	return codec_try(trial);
}

static int codec_try_all(struct codec_trial *trial, const u8 *dict)
{
	size_t i;
	int err = 0;

	for (i = 0; i < zm_codec_count && !err; i++) {
		const struct zm_codec_ops *ops = zm_codecs[i];

		trial->ops = ops;
		trial->params = (struct zm_codec_params){
			.level = ZM_CODEC_LEVEL_DEFAULT,
		};
		err = codec_try(trial);
		if (!err)
			err = codec_try_last_level(trial);
		if (err || !ops->takes_dict)
			continue;
		trial->params = (struct zm_codec_params){
			.level = ZM_CODEC_LEVEL_DEFAULT,
			.dict = dict,
			.dict_size = DICT_SIZE,
		};
		err = codec_try(trial);
		if (err)
			continue;
		trial->params = (struct zm_codec_params){
			.level = ops->level_max + 1,
		};
		if (ops->params_setup(&trial->params) != -EINVAL)
			err = zm_selftest_failed("%s: takes any level",
						 ops->name);
	}
	return err;
}

int zm_selftest_codecs(void)
{
	struct codec_trial trial = { .random = { 1 } };
	u8 *dict = vmalloc(DICT_SIZE);
	int err = -ENOMEM;
	u32 i;

	trial.page = vmalloc(ZM_PAGE_SIZE);
	trial.packed = vmalloc(2 * ZM_PAGE_SIZE);
	trial.kept = vmalloc(ZM_PAGE_SIZE);
	trial.guarded = vmalloc(3 * ZM_PAGE_SIZE);
	trial.in_mapping = vmalloc(ZM_PAGE_SIZE);
	if (!dict || !trial.page || !trial.packed || !trial.kept ||
	    !trial.guarded || !trial.in_mapping)
		goto out;
	trial.in_end = trial.in_mapping + ZM_PAGE_SIZE;
	memset(trial.guarded, CANARY, 3 * ZM_PAGE_SIZE);
	for (i = 0; i < DICT_SIZE / ZM_PAGE_SIZE; i++)
		zm_selftest_page(dict + i * ZM_PAGE_SIZE, 4 + i);
	if (i * ZM_PAGE_SIZE < DICT_SIZE)
		memset(dict, 'e', DICT_SIZE);
	err = codec_try_all(&trial, dict);
out:
	vfree(trial.in_mapping);
	vfree(trial.guarded);
	vfree(trial.kept);
	vfree(trial.packed);
	vfree(trial.page);
	vfree(dict);
	return err;
}

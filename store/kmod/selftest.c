// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The self-tests of codecs and pool, and what all self-tests share. The store's
 * are in selftest_store.c.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include <zmeld/port.h>

#include "selftest.h"

/* SplitMix64 (G. Steele, D. Lea, C. Flood, 2014). */
u64 zm_selftest_next(struct zm_selftest_random *random)
{
	u64 z = random->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

u32 zm_selftest_below(struct zm_selftest_random *random, u32 bound)
{
	return (u32)((zm_selftest_next(random) >> 32) * bound >> 32);
}

void zm_selftest_page(u8 *page, u64 content)
{
	static const char letters[] = "etaoin shrdlu\n0_";
	struct zm_selftest_random random = {
		content * 0x2545f4914f6cdd1dull + 1
	};
	u32 i, kind = content % ZM_SELFTEST_KINDS;
	u64 word;

	if (kind == 0) {
		word = content < 64 ? 0 : zm_selftest_next(&random);
		for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(word))
			memcpy(page + i, &word, sizeof(word));
	} else if (kind == 1) {
		for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(word)) {
			word = zm_selftest_next(&random);
			memcpy(page + i, &word, sizeof(word));
		}
	} else if (kind < 4) {
		memset(page, 0, ZM_PAGE_SIZE);
		for (i = 0; i < ZM_PAGE_SIZE / 4; i += 32) {
			word = 0x00007f0000000000ull |
			       zm_selftest_below(&random, 1 << 20) * 16;
			memcpy(page + i, &word, sizeof(word));
		}
	} else {
		for (i = 0; i < ZM_PAGE_SIZE; i++) {
			word = zm_selftest_next(&random);
			page[i] = letters[word & (word >> 8) & 15];
		}
		memcpy(page, &content, sizeof(content));
	}
}

/* -- Codecs ---------------------------------------------------------------- */

#define CODEC_PAGES	32
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

static bool canaries_sing(const struct codec_trial *trial)
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
	if (!canaries_sing(trial))
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
		    !canaries_sing(trial))
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
	u64 content;
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
	for (content = 1; content < ZM_SELFTEST_KINDS && !err; content++)
		err = codec_cramped(trial, content);
	if (!err)
		err = codec_noise(trial);
	trial->ops->context_destroy(trial->ctx);
release:
	trial->ops->params_release(&trial->params);
	return err;
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

/* -- Pool ------------------------------------------------------------------ */

/* Bytes that are those of this object alone. */
static void object_make(u8 *bytes, u32 size, u32 number)
{
	struct zm_selftest_random random = { ((u64)number << 32) + size };
	u32 i;

	for (i = 0; i < size; i++)
		bytes[i] = (u8)zm_selftest_next(&random);
}

struct pool_trial {
	struct zm_pool *pool;
	struct zm_handle *handles;	/* of the object of size i + 1 */
	u8 *bytes;
	u8 *copy;
};

static int object_check(struct pool_trial *trial, u32 size)
{
	struct zm_handle handle = trial->handles[size - 1];
	const void *found;
	bool equal;

	object_make(trial->bytes, size, 7);
	found = zm_port_pool_read_begin(trial->pool, handle, size, trial->copy);
	equal = memcmp(found, trial->bytes, size) == 0;
	zm_port_pool_read_end(trial->pool, handle, found, size);
	if (!equal)
		return zm_selftest_failed("pool: an object of %u bytes changed",
					  size);
	return 0;
}

/* One object of each size; then half of them; then none. */
static int pool_try(struct pool_trial *trial)
{
	u32 size;
	int err = 0;

	for (size = 1; size <= ZM_PAGE_SIZE; size++) {
		err = zm_port_pool_alloc(trial->pool, size, NULL,
					 &trial->handles[size - 1]);
		if (err)
			break;
		object_make(trial->bytes, size, 7);
		zm_port_pool_write(trial->pool, trial->handles[size - 1],
				   trial->bytes, size);
	}
	for (size = 1; size <= ZM_PAGE_SIZE && !err; size++)
		err = object_check(trial, size);
	for (size = 1; size <= ZM_PAGE_SIZE; size += 2)
		if (trial->handles[size - 1].value)
			zm_port_pool_free(trial->pool,
					  trial->handles[size - 1]);
	zm_port_pool_compact(trial->pool);
	cond_resched();
	for (size = 2; size <= ZM_PAGE_SIZE && !err; size += 2)
		err = object_check(trial, size);
	for (size = 2; size <= ZM_PAGE_SIZE; size += 2)
		if (trial->handles[size - 1].value)
			zm_port_pool_free(trial->pool,
					  trial->handles[size - 1]);
	return err;
}

/* A larger size never has a lower class; raw pages have one of their own. */
static int pool_classes_try(struct zm_pool *pool)
{
	u32 huge = zm_port_pool_huge_size(pool), size, class, before = 0;

	for (size = 1; size <= ZM_PAGE_SIZE; size++) {
		class = zm_port_pool_class(pool, size);
		if (class < before)
			return zm_selftest_failed("pool: class of %u bytes is below that of fewer",
						  size);
		before = class;
	}
	if (huge < ZM_PAGE_SIZE / 2 || huge > ZM_PAGE_SIZE ||
	    zm_port_pool_class(pool, huge) != before ||
	    zm_port_pool_class(pool, huge - 1) == before)
		return zm_selftest_failed("pool: %u bytes are not the first in a raw page's class",
					  huge);
	return 0;
}

int zm_selftest_pool(void)
{
	struct pool_trial trial = {
		.pool = zm_port_pool_create(),
		.handles = vzalloc(ZM_PAGE_SIZE * sizeof(*trial.handles)),
		.bytes = vmalloc(ZM_PAGE_SIZE),
		.copy = vmalloc(ZM_PAGE_SIZE),
	};
	int err = -ENOMEM;

	if (!trial.pool || !trial.handles || !trial.bytes || !trial.copy)
		goto out;
	err = pool_classes_try(trial.pool);
	if (!err)
		err = pool_try(&trial);
	if (!err && zm_port_pool_used(trial.pool))
		err = zm_selftest_failed("pool: %llu bytes are used by nothing",
					 zm_port_pool_used(trial.pool));
out:
	vfree(trial.copy);
	vfree(trial.bytes);
	vfree(trial.handles);
	if (trial.pool)
		zm_port_pool_destroy(trial.pool);
	return err;
}

static bool selftest = true;
module_param(selftest, bool, 0444);
MODULE_PARM_DESC(selftest, "Test itself before anything else; debug builds only (Y)");

int zm_selftest_run(void)
{
	u64 started = zm_port_time_ns();
	int err;

	if (!selftest)
		return 0;
	err = zm_selftest_codecs();
	if (!err)
		err = zm_selftest_pool();
	if (!err)
		err = zm_selftest_store();
	if (err)
		pr_err("self-tests failed (%d)\n", err);
	else
		pr_info("self-tests passed: %zu codecs, %llu ms\n",
			zm_codec_count,
			(zm_port_time_ns() - started) / 1000000);
	return err;
}

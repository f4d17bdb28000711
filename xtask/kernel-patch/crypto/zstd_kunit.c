// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * KUnit tests of zstd in the crypto API. Requests have sources and destinations of one
 * piece or of many, any size and any order, and several users at once; some fail. Each
 * round trip gives back its source. The output of a request of one piece is that of a
 * new context of the library.
 */
#include <crypto/acompress.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/zstd.h>

#define LEVEL		3			/* of crypto/zstd.c, for its window */
#define BYTES_MAX	(SZ_512K + 12345)	/* more than a window and a block */
#define ROOM		(BYTES_MAX + SZ_4K)
#define PIECES_MAX	24
#define USERS		4
#define ROUNDS		200

/* Of one user. */
struct zstd_trial {
	struct rnd_state random;
	struct crypto_acomp *tfm;
	struct acomp_req *req;
	u8 *plain;
	u8 *packed;
	u8 *back;
	struct scatterlist from[PIECES_MAX];
	struct scatterlist to[PIECES_MAX];
	struct completion done;		/* of a thread, which left its error here */
	int err;
};

static void zstd_trial_free(struct zstd_trial *trial)
{
	if (trial->req)
		acomp_request_free(trial->req);
	if (!IS_ERR_OR_NULL(trial->tfm))
		crypto_free_acomp(trial->tfm);
	kfree(trial->plain);
	kfree(trial->packed);
	kfree(trial->back);
}

static int zstd_trial_make(struct zstd_trial *trial, u64 seed)
{
	prandom_seed_state(&trial->random, seed);
	trial->tfm = crypto_alloc_acomp("zstd-generic", 0, CRYPTO_ALG_ASYNC);
	if (IS_ERR(trial->tfm))
		return PTR_ERR(trial->tfm);
	trial->req = acomp_request_alloc(trial->tfm);
	trial->plain = kmalloc(ROOM, GFP_KERNEL);
	trial->packed = kmalloc(ROOM, GFP_KERNEL);
	trial->back = kmalloc(ROOM, GFP_KERNEL);
	return trial->req && trial->plain && trial->packed && trial->back ? 0 : -ENOMEM;
}

/* Letters of a small alphabet, and repetitions. */
static void zstd_trial_fill(struct zstd_trial *trial, unsigned int size)
{
	u32 letters = 1 + prandom_u32_state(&trial->random) % 32;
	unsigned int k;

	for (k = 0; k < size; k++)
		trial->plain[k] = k >= 64 && k & 32 ? trial->plain[k - 64] :
				  'a' + prandom_u32_state(&trial->random) % letters;
}

/* A buffer in so many pieces, the first at least of one byte. */
static void zstd_pieces(struct zstd_trial *trial, struct scatterlist *list, u8 *at,
			unsigned int size, unsigned int pieces)
{
	unsigned int left = size, each, k;

	pieces = clamp(pieces, 1u, min_t(unsigned int, size, PIECES_MAX));
	sg_init_table(list, pieces);
	for (k = 0; k < pieces; k++) {
		each = k + 1 == pieces ? left :
		       1 + prandom_u32_state(&trial->random) % (left - (pieces - 1 - k));
		sg_set_buf(&list[k], at, each);
		at += each;
		left -= each;
	}
}

/*
 * A request in so many pieces. Scatterlists are walked by the page, so one piece that
 * is larger is told by its address; pages are in scatterlists, as zswap's.
 */
static void zstd_request(struct zstd_trial *trial, u8 *from, unsigned int size, u8 *to,
			 unsigned int room, unsigned int in, unsigned int out)
{
	acomp_request_set_callback(trial->req, 0, NULL, NULL);
	zstd_pieces(trial, trial->from, from, size, in);
	zstd_pieces(trial, trial->to, to, room, out);
	acomp_request_set_params(trial->req, trial->from, trial->to, size, room);
	if (in == 1 && size > SZ_4K)
		acomp_request_set_src_dma(trial->req, from, size);
	if (out == 1 && room > SZ_4K)
		acomp_request_set_dst_dma(trial->req, to, room);
}

/* Bytes written, or an error. */
static int zstd_compressed(struct zstd_trial *trial, unsigned int size, unsigned int room,
			   unsigned int in, unsigned int out)
{
	zstd_request(trial, trial->plain, size, trial->packed, room, in, out);
	return crypto_acomp_compress(trial->req) ?: (int)trial->req->dlen;
}

static int zstd_decompressed(struct zstd_trial *trial, unsigned int packed,
			     unsigned int size, unsigned int in, unsigned int out)
{
	memset(trial->back, 0, size);
	zstd_request(trial, trial->packed, packed, trial->back, size, in, out);
	return crypto_acomp_decompress(trial->req) ?: (int)trial->req->dlen;
}

/* One piece, or many, by a bit of @random. */
static unsigned int zstd_drawn(struct zstd_trial *trial, u32 is_many)
{
	return is_many ? 2 + prandom_u32_state(&trial->random) % (PIECES_MAX - 1) : 1;
}

/* One round trip; what is asked in one piece and what in many is drawn. 0 or an error. */
static int zstd_round(struct zstd_trial *trial, unsigned int size)
{
	u32 random = prandom_u32_state(&trial->random);
	int packed, back;

	zstd_trial_fill(trial, size);
	packed = zstd_compressed(trial, size, size + SZ_4K, zstd_drawn(trial, random & 1),
				 zstd_drawn(trial, random & 2));
	if (packed <= 0)
		return packed ?: -ENODATA;
	/* A stream ends with a block of nothing, for which there must be room. */
	back = zstd_decompressed(trial, packed, size + 64, zstd_drawn(trial, random & 4),
				 zstd_drawn(trial, random & 8));
	if (back < 0)
		return back;
	return back == size && !memcmp(trial->plain, trial->back, size) ? 0 : -EBADMSG;
}

static int zstd_test_init(struct kunit *test)
{
	struct zstd_trial *trial = kunit_kzalloc(test, sizeof(*trial), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, trial);
	test->priv = trial;
	KUNIT_ASSERT_EQ(test, zstd_trial_make(trial, 1), 0);
	return 0;
}

static void zstd_test_exit(struct kunit *test)
{
	if (test->priv)
		zstd_trial_free(test->priv);
}

static void zstd_sizes_come_back(struct kunit *test)
{
	static const unsigned int sizes[] = {
		1, 2, 100, SZ_4K - 1, SZ_4K, SZ_4K + 1, SZ_16K, SZ_64K + 3, SZ_256K, BYTES_MAX,
	};
	unsigned int round;

	for (round = 0; round < 20 * ARRAY_SIZE(sizes); round++) {
		KUNIT_ASSERT_EQ(test, 0, zstd_round(test->priv, sizes[round % ARRAY_SIZE(sizes)]));
		cond_resched();
	}
}

/* What a new context of the library makes of the plain bytes, in @back: its size. */
static int zstd_by_new_context(struct zstd_trial *trial, unsigned int size,
			       unsigned int room)
{
	zstd_parameters params = zstd_get_params(LEVEL, SZ_256K);
	size_t work_size = zstd_cctx_workspace_bound(&params.cParams), packed = 0;
	void *work = kvmalloc(work_size, GFP_KERNEL);
	zstd_cctx *cctx = work ? zstd_init_cctx(work, work_size) : NULL;

	if (cctx)
		packed = zstd_compress_cctx(cctx, trial->back, room, trial->plain, size,
					    &params);
	kvfree(work);
	return zstd_is_error(packed) ? 0 : packed;
}

static void zstd_output_is_that_of_a_new_context(struct kunit *test)
{
	struct zstd_trial *trial = test->priv;
	unsigned int round, size, room;
	int packed;

	for (round = 0; round < 60; round++) {
		size = round % 3 ? SZ_4K : 1 + prandom_u32_state(&trial->random) % BYTES_MAX;
		room = size == SZ_4K ? SZ_4K : size + SZ_4K;
		zstd_trial_fill(trial, size);
		/* Streams take the memory that the context is in. */
		packed = zstd_compressed(trial, size, room, round % 4 ? 1 : 3, 1);
		KUNIT_ASSERT_GT(test, packed, 0);
		if (round % 5 == 0)
			KUNIT_ASSERT_EQ(test, size,
					zstd_decompressed(trial, packed, size + 64, 3, 1));
		packed = zstd_compressed(trial, size, room, 1, 1);
		KUNIT_ASSERT_EQ(test, packed, zstd_by_new_context(trial, size, room));
		KUNIT_ASSERT_MEMEQ(test, trial->back, trial->packed, packed);
		cond_resched();
	}
}

/* A stream fits its own size and no smaller one, in any pieces. */
static void zstd_streams_keep_to_their_room(struct kunit *test)
{
	struct zstd_trial *trial = test->priv;
	unsigned int round, less, out;
	int packed;

	for (round = 0; round < 60; round++) {
		zstd_trial_fill(trial, SZ_4K);
		out = 2 + round % 5;
		packed = zstd_compressed(trial, SZ_4K, SZ_16K, 1, out);
		KUNIT_ASSERT_GT(test, packed, 0);
		for (less = 1; less <= 8; less++)
			KUNIT_ASSERT_EQ(test, -ENOSPC,
					zstd_compressed(trial, SZ_4K, packed - less, 1, out));
		KUNIT_ASSERT_EQ(test, packed, zstd_compressed(trial, SZ_4K, packed, 1, out));
		KUNIT_ASSERT_EQ(test, SZ_4K,
				zstd_decompressed(trial, packed, SZ_4K + 64, 1, out));
		KUNIT_ASSERT_MEMEQ(test, trial->plain, trial->back, SZ_4K);
	}
}

/* zsmalloc gives an object that spans pages in two pieces, which lie apart. */
static void zstd_sources_lie_apart(struct kunit *test)
{
	struct zstd_trial *trial = test->priv;
	u8 *apart = trial->packed + SZ_16K;
	unsigned int round, first;
	int packed;

	for (round = 0; round < 60; round++) {
		zstd_trial_fill(trial, SZ_4K);
		packed = zstd_compressed(trial, SZ_4K, SZ_4K, 1, 1);
		KUNIT_ASSERT_GT(test, packed, 1);
		first = 1 + prandom_u32_state(&trial->random) % (packed - 1);
		memcpy(apart, trial->packed + first, packed - first);
		memset(trial->packed + first, 0, packed - first);
		memset(trial->back, 0, SZ_4K);
		sg_init_table(trial->from, 2);
		sg_set_buf(&trial->from[0], trial->packed, first);
		sg_set_buf(&trial->from[1], apart, packed - first);
		sg_init_one(trial->to, trial->back, SZ_4K);
		acomp_request_set_params(trial->req, trial->from, trial->to, packed, SZ_4K);
		KUNIT_ASSERT_EQ(test, 0, crypto_acomp_decompress(trial->req));
		KUNIT_ASSERT_EQ(test, SZ_4K, trial->req->dlen);
		KUNIT_ASSERT_MEMEQ(test, trial->plain, trial->back, SZ_4K);
	}
}

static void zstd_failures_leave_nothing_behind(struct kunit *test)
{
	struct zstd_trial *trial = test->priv;
	unsigned int round, pieces;
	int packed;

	for (round = 0; round < 60; round++) {
		pieces = round % 2 ? 1 : 7;
		zstd_trial_fill(trial, SZ_4K);
		packed = zstd_compressed(trial, SZ_4K, SZ_16K, pieces, 1);
		KUNIT_ASSERT_GT(test, packed, 0);
		/* Cut, and without its magic. */
		KUNIT_EXPECT_NE(test, zstd_decompressed(trial, packed / 2, SZ_4K, 1, 1), SZ_4K);
		trial->packed[0] ^= 0xff;
		KUNIT_EXPECT_LT(test, zstd_decompressed(trial, packed, SZ_4K, pieces, 1), 0);
		/* Without room. */
		KUNIT_EXPECT_LT(test, zstd_compressed(trial, SZ_4K, 16, 1, 1), 0);
		KUNIT_ASSERT_EQ(test, 0, zstd_round(trial, SZ_4K));
	}
}

static int zstd_user(void *at)
{
	struct zstd_trial *trial = at;
	int round;

	for (round = 0; round < ROUNDS && !trial->err; round++) {
		trial->err = zstd_round(trial, 1 + prandom_u32_state(&trial->random) % SZ_16K);
		cond_resched();
	}
	complete(&trial->done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void zstd_users_at_once(struct kunit *test)
{
	struct zstd_trial *trials = kunit_kcalloc(test, USERS, sizeof(*trials), GFP_KERNEL);
	struct task_struct *users[USERS] = { };
	int k, err = 0;

	KUNIT_ASSERT_NOT_NULL(test, trials);
	for (k = 0; k < USERS && !err; k++) {
		init_completion(&trials[k].done);
		err = zstd_trial_make(&trials[k], 100 + k);
	}
	for (k = 0; k < USERS && !err; k++) {
		users[k] = kthread_run(zstd_user, &trials[k], "zstd-%d", k);
		err = PTR_ERR_OR_ZERO(users[k]);
	}
	for (k = 0; k < USERS; k++) {
		if (!IS_ERR_OR_NULL(users[k])) {
			wait_for_completion(&trials[k].done);
			kthread_stop(users[k]);
			KUNIT_EXPECT_EQ(test, 0, trials[k].err);
		}
		zstd_trial_free(&trials[k]);
	}
	KUNIT_EXPECT_EQ(test, 0, err);
}

static struct kunit_case zstd_cases[] = {
	KUNIT_CASE(zstd_sizes_come_back),
	KUNIT_CASE(zstd_output_is_that_of_a_new_context),
	KUNIT_CASE(zstd_streams_keep_to_their_room),
	KUNIT_CASE(zstd_sources_lie_apart),
	KUNIT_CASE(zstd_failures_leave_nothing_behind),
	KUNIT_CASE(zstd_users_at_once),
	{}
};

static struct kunit_suite zstd_suite = {
	.name = "crypto_zstd",
	.init = zstd_test_init,
	.exit = zstd_test_exit,
	.test_cases = zstd_cases,
};

kunit_test_suite(zstd_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of zstd in the crypto API");

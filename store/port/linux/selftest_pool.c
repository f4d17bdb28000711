// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The self-test of the pool: objects of every size keep their bytes while others
 * are freed and the pool is compacted, classes grow with sizes, and an empty pool
 * uses nothing.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include <zmeld/port.h>

#include "home_selftest.h"

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
		err = zm_port_pool_alloc(trial->pool, size, true, NULL,
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

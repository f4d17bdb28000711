// SPDX-License-Identifier: GPL-2.0-or-later
/* See library.h. */
#define pr_fmt(fmt) "zword: " fmt

#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "../zword/linux_tables.h"
#include "library.h"
#include "page.h"
#include "selftest.h"

static_assert(ZWORD_QUICK == ZWORD_LEVEL_GLANCE &&
	      ZWORD_DENSE == ZWORD_LEVEL_ALL, "the codec's own levels");

static bool check_writes = true;
module_param(check_writes, bool, 0644);
MODULE_PARM_DESC(check_writes,
		 "Decode and compare each page before it counts as compressed (Y)");

static struct zword_tables *tables __ro_after_init;
static struct dentry *debug __ro_after_init;
static atomic_t encode_errors;

struct zword_context *zword_context_new(void)
{
	return tables ? kvmalloc(zword_context_size(), GFP_KERNEL) : NULL;
}

void zword_context_free(struct zword_context *context)
{
	kvfree(context);
}

int zword_page_encode(int level, struct zword_context *context, const u8 *src,
		      unsigned int slen, u8 *dst, unsigned int *dlen)
{
	const struct zword_manner manner = {
		.tables = tables,
		.level = level,
		.is_checked = READ_ONCE(check_writes),
	};
	int err = zword_page_compress(&manner, context, src, slen, dst, dlen);

	if (err == -EIO || err == ZWORD_PAGE_KEPT_RAW) {
		atomic_inc(&encode_errors);
		pr_warn_once("a page was not given back by what it was encoded to; that is not used, and nothing is lost\n");
	}
	return err < 0 ? err : 0;
}

int zword_page_decode(struct zword_context *context, const u8 *src,
		      unsigned int slen, u8 *dst, unsigned int *dlen)
{
	return zword_page_decompress(tables, context, src, slen, dst, dlen);
}

static int __init selftest(void)
{
	void *memory = kvmalloc(zword_selftest_size(), GFP_KERNEL);
	int err = memory ? zword_selftest(tables, memory) : -ENOMEM;

	kvfree(memory);
	if (err)
		pr_err("self-test failed: error %d\n", err);
	return err;
}

static int __init tables_make(void)
{
	int err;

	if (PAGE_SIZE > ZWORD_PAGE_SIZE_MAX) {
		pr_err("pages of %lu bytes are larger than zword takes\n",
		       (unsigned long)PAGE_SIZE);
		return -EINVAL;
	}
	tables = zword_tables_alloc();
	if (!tables)
		return -ENOMEM;
	err = zword_tables_build(tables, zword_lengths, zword_lengths_size);
	if (!err)
		err = selftest();
	if (err) {
		zword_tables_free(tables);
		tables = NULL;
	}
	return err;
}

int __init zword_library_start(void)
{
	int err = tables_make();

	if (err)
		return err;
	debug = debugfs_create_dir("zword", NULL);
	debugfs_create_atomic_t("encode_errors", 0444, debug, &encode_errors);
	return 0;
}

void zword_library_stop(void)
{
	debugfs_remove(debug);
	zword_tables_free(tables);
}

const struct zword_tables *zword_library_tables(void)
{
	return tables;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword.ko: zword as compressors of the kernel's crypto API, for zswap, and for
 * zram up to 6.11.
 *
 *	zword        level 1, quick
 *	zword-dense  level 2, a tenth less memory in five times the time
 *
 * Synchronous ones (scomp), in the form that this kernel has, and the older kind
 * where it still has that. The kernel counts who uses them: the module stays
 * until nobody does. The tables stand once, whoever uses them.
 */
#define pr_fmt(fmt) "zword: " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "compat.h"
#include "page.h"
#include "selftest.h"

static bool check_writes = true;
module_param(check_writes, bool, 0644);
MODULE_PARM_DESC(check_writes,
		 "Decode and compare each page before it counts as compressed (Y)");

static struct zword_tables *tables;
static struct dentry *debug;
static atomic_t encode_errors;

static int compress(int level, struct zword_context *context, const u8 *src,
		    unsigned int slen, u8 *dst, unsigned int *dlen)
{
	const struct zword_manner manner = {
		.tables = tables,
		.level = level,
		.is_checked = READ_ONCE(check_writes),
	};
	int err = zword_page_compress(&manner, context, src, slen, dst, dlen);

	if (err == -EIO) {
		atomic_inc(&encode_errors);
		pr_warn_once("a page was not given back by what it was encoded to; it was not taken, and nothing is lost\n");
	}
	return err;
}

static void *context_new(int level)
{
	return kvmalloc(zword_context_size(level), GFP_KERNEL);
}

/* -- Synchronous compressors ----------------------------------------------- */

static void *scomp_alloc(ZWORD_ALLOC_ARGUMENTS)
{
	void *context = context_new(ZWORD_LEVEL_GLANCE);

	return context ? context : ERR_PTR(-ENOMEM);
}

static void *scomp_alloc_dense(ZWORD_ALLOC_ARGUMENTS)
{
	void *context = context_new(ZWORD_LEVEL_ALL);

	return context ? context : ERR_PTR(-ENOMEM);
}

static void scomp_free(ZWORD_FREE_ARGUMENTS)
{
	kvfree(context);
}

static int scomp_compress(struct crypto_scomp *tfm, const u8 *src,
			  unsigned int slen, u8 *dst, unsigned int *dlen,
			  void *context)
{
	return compress(ZWORD_LEVEL_GLANCE, context, src, slen, dst, dlen);
}

static int scomp_compress_dense(struct crypto_scomp *tfm, const u8 *src,
				unsigned int slen, u8 *dst, unsigned int *dlen,
				void *context)
{
	return compress(ZWORD_LEVEL_ALL, context, src, slen, dst, dlen);
}

static int scomp_decompress(struct crypto_scomp *tfm, const u8 *src,
			    unsigned int slen, u8 *dst, unsigned int *dlen,
			    void *context)
{
	return zword_page_decompress(tables, context, src, slen, dst, dlen);
}

static struct scomp_alg scomps[] = {
	{
		ZWORD_CONTEXTS_BY(scomp_alloc, scomp_free),
		.compress = scomp_compress,
		.decompress = scomp_decompress,
		.base = {
			.cra_name = "zword",
			.cra_driver_name = "zword-scomp",
			.cra_module = THIS_MODULE,
		},
	}, {
		ZWORD_CONTEXTS_BY(scomp_alloc_dense, scomp_free),
		.compress = scomp_compress_dense,
		.decompress = scomp_decompress,
		.base = {
			.cra_name = "zword-dense",
			.cra_driver_name = "zword-dense-scomp",
			.cra_module = THIS_MODULE,
		},
	},
};

/* -- Compressors of the older kind ----------------------------------------- */

#if ZM_HAS_OLD_COMPRESSORS

struct old_context {
	struct zword_context *context;
};

static int old_init_level(struct crypto_tfm *tfm, int level)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	old->context = context_new(level);
	return old->context ? 0 : -ENOMEM;
}

static int old_init(struct crypto_tfm *tfm)
{
	return old_init_level(tfm, ZWORD_LEVEL_GLANCE);
}

static int old_init_dense(struct crypto_tfm *tfm)
{
	return old_init_level(tfm, ZWORD_LEVEL_ALL);
}

static void old_exit(struct crypto_tfm *tfm)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	kvfree(old->context);
}

static int old_compress(struct crypto_tfm *tfm, const u8 *src,
			unsigned int slen, u8 *dst, unsigned int *dlen)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	return compress(ZWORD_LEVEL_GLANCE, old->context, src, slen, dst, dlen);
}

static int old_compress_dense(struct crypto_tfm *tfm, const u8 *src,
			      unsigned int slen, u8 *dst, unsigned int *dlen)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	return compress(ZWORD_LEVEL_ALL, old->context, src, slen, dst, dlen);
}

static int old_decompress(struct crypto_tfm *tfm, const u8 *src,
			  unsigned int slen, u8 *dst, unsigned int *dlen)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	return zword_page_decompress(tables, old->context, src, slen, dst,
				     dlen);
}

static struct crypto_alg olds[] = {
	{
		.cra_name = "zword",
		.cra_driver_name = "zword-generic",
		.cra_flags = CRYPTO_ALG_TYPE_COMPRESS,
		.cra_ctxsize = sizeof(struct old_context),
		.cra_module = THIS_MODULE,
		.cra_init = old_init,
		.cra_exit = old_exit,
		.cra_u = { .compress = {
			.coa_compress = old_compress,
			.coa_decompress = old_decompress,
		} },
	}, {
		.cra_name = "zword-dense",
		.cra_driver_name = "zword-dense-generic",
		.cra_flags = CRYPTO_ALG_TYPE_COMPRESS,
		.cra_ctxsize = sizeof(struct old_context),
		.cra_module = THIS_MODULE,
		.cra_init = old_init_dense,
		.cra_exit = old_exit,
		.cra_u = { .compress = {
			.coa_compress = old_compress_dense,
			.coa_decompress = old_decompress,
		} },
	},
};

static int olds_register(void)
{
	return crypto_register_algs(olds, ARRAY_SIZE(olds));
}

static void olds_unregister(void)
{
	crypto_unregister_algs(olds, ARRAY_SIZE(olds));
}

#else

static int olds_register(void)
{
	return 0;
}

static void olds_unregister(void)
{
}

#endif

/* -- The module's life ----------------------------------------------------- */

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
	tables = kvmalloc(zword_tables_size(), GFP_KERNEL);
	if (!tables)
		return -ENOMEM;
	err = zword_tables_build(tables, zword_lengths, zword_lengths_size);
	if (!err)
		err = selftest();
	if (err)
		kvfree(tables);
	return err;
}

static int __init zword_start(void)
{
	int err;

	err = tables_make();
	if (err)
		return err;
	err = crypto_register_scomps(scomps, ARRAY_SIZE(scomps));
	if (err)
		goto free_tables;
	err = olds_register();
	if (err)
		goto unregister_scomps;
	debug = debugfs_create_dir("zword", NULL);
	debugfs_create_atomic_t("encode_errors", 0444, debug, &encode_errors);
	return 0;

unregister_scomps:
	crypto_unregister_scomps(scomps, ARRAY_SIZE(scomps));
free_tables:
	kvfree(tables);
	return err;
}

static void __exit zword_stop(void)
{
	debugfs_remove(debug);
	olds_unregister();
	crypto_unregister_scomps(scomps, ARRAY_SIZE(scomps));
	kvfree(tables);
}

module_init(zword_start);
module_exit(zword_stop);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("zword: a codec for pages of memory");
/* What the kernel asks modprobe for by a compressor's name. */
MODULE_ALIAS_CRYPTO("zword");
MODULE_ALIAS_CRYPTO("zword-dense");

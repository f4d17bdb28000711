// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword.ko: zword as compressors of the kernel's crypto API, for zswap, and for
 * zram up to 6.11: synchronous ones (scomps.c), and the older kind where this
 * kernel still has that. The kernel counts who uses them: the module stays until
 * nobody does.
 */
#define pr_fmt(fmt) "zword: " fmt

#include <linux/err.h>
#include <linux/module.h>

#include "compat.h"
#include "library.h"
#include "scomps.h"

/* -- Compressors of the older kind ----------------------------------------- */

#if ZM_HAS_OLD_COMPRESSORS

struct old_context {
	struct zword_context *context;
};

static int old_init(struct crypto_tfm *tfm)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	old->context = zword_context_new();
	return old->context ? 0 : -ENOMEM;
}

static void old_exit(struct crypto_tfm *tfm)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	zword_context_free(old->context);
}

static int old_compress(struct crypto_tfm *tfm, const u8 *src,
			unsigned int slen, u8 *dst, unsigned int *dlen)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	return zword_page_encode(ZWORD_QUICK, old->context, src, slen, dst, dlen);
}

static int old_compress_dense(struct crypto_tfm *tfm, const u8 *src,
			      unsigned int slen, u8 *dst, unsigned int *dlen)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	return zword_page_encode(ZWORD_DENSE, old->context, src, slen, dst, dlen);
}

static int old_decompress(struct crypto_tfm *tfm, const u8 *src,
			  unsigned int slen, u8 *dst, unsigned int *dlen)
{
	struct old_context *old = crypto_tfm_ctx(tfm);

	return zword_page_decode(old->context, src, slen, dst, dlen);
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
		.cra_init = old_init,
		.cra_exit = old_exit,
		.cra_u = { .compress = {
			.coa_compress = old_compress_dense,
			.coa_decompress = old_decompress,
		} },
	},
};

static int olds_register(void)
{
	return crypto_register_algs(olds, ZWORD_OFFERED);
}

static void olds_unregister(void)
{
	crypto_unregister_algs(olds, ZWORD_OFFERED);
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

const struct zword_tables *ZWORD_TABLES;
EXPORT_SYMBOL_GPL(ZWORD_TABLES);

/* -- The module's life ----------------------------------------------------- */

static bool are_olds;

static int __init zword_start(void)
{
	int err;

	err = zword_library_start();
	if (err)
		return err;
	ZWORD_TABLES = zword_library_tables();
	err = zword_scomps_register();
	if (err) {
		zword_library_stop();
		return err;
	}
	/* Somebody may use the others by now, so they stay. */
	err = olds_register();
	if (err)
		pr_warn("zram cannot have it: error %d\n", err);
	are_olds = !err;
	return 0;
}

static void __exit zword_stop(void)
{
	if (are_olds)
		olds_unregister();
	zword_scomps_unregister();
	zword_library_stop();
}

module_init(zword_start);
module_exit(zword_stop);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("zword: a codec for pages of memory");

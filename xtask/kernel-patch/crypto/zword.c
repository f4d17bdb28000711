// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword for the crypto API, whose user is zswap. It takes pages of a multiple of 4096
 * bytes, up to 65536. The destination of a decompression must have the page's size,
 * which the object does not hold.
 */
#include <crypto/internal/scompress.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/zword.h>

static void *zword_alloc_ctx(void)
{
	struct zword_context *context = zword_context_new();

	return context ? context : ERR_PTR(-ENOMEM);
}

static void zword_free_ctx(void *context)
{
	zword_context_free(context);
}

static int zword_compress(struct crypto_scomp *tfm, const u8 *src,
			  unsigned int slen, u8 *dst, unsigned int *dlen,
			  void *context)
{
	return zword_page_encode(ZWORD_QUICK, context, src, slen, dst, dlen);
}

static int zword_decompress(struct crypto_scomp *tfm, const u8 *src,
			    unsigned int slen, u8 *dst, unsigned int *dlen,
			    void *context)
{
	return zword_page_decode(context, src, slen, dst, *dlen);
}

static struct scomp_alg zword_scomp = {
	.streams = {
		.alloc_ctx = zword_alloc_ctx,
		.free_ctx = zword_free_ctx,
	},
	.compress = zword_compress,
	.decompress = zword_decompress,
	.base = {
		.cra_name = "zword",
		.cra_driver_name = "zword-scomp",
		.cra_module = THIS_MODULE,
	},
};

static int __init zword_mod_init(void)
{
	return crypto_register_scomp(&zword_scomp);
}

static void __exit zword_mod_exit(void)
{
	crypto_unregister_scomp(&zword_scomp);
}

module_init(zword_mod_init);
module_exit(zword_mod_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("zword compression algorithm");
MODULE_ALIAS_CRYPTO("zword");

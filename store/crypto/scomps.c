// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword as synchronous compressors (scomp) of the kernel's crypto API, by name:
 *
 *	zword        level 1, quick
 *	zword-dense  level 2, a twentieth less memory in five times the time
 */
#include <linux/err.h>
#include <linux/module.h>

#include "compat.h"
#include "library.h"
#include "scomps.h"

static void *scomp_alloc(ZWORD_ALLOC_ARGUMENTS)
{
	void *context = zword_context_new();

	return context ? context : ERR_PTR(-ENOMEM);
}

static void scomp_free(ZWORD_FREE_ARGUMENTS)
{
	zword_context_free(context);
}

static int scomp_compress(struct crypto_scomp *tfm, const u8 *src,
			  unsigned int slen, u8 *dst, unsigned int *dlen,
			  void *context)
{
	return zword_page_encode(ZWORD_QUICK, context, src, slen, dst, dlen);
}

static int scomp_compress_dense(struct crypto_scomp *tfm, const u8 *src,
				unsigned int slen, u8 *dst, unsigned int *dlen,
				void *context)
{
	return zword_page_encode(ZWORD_DENSE, context, src, slen, dst, dlen);
}

static int scomp_decompress(struct crypto_scomp *tfm, const u8 *src,
			    unsigned int slen, u8 *dst, unsigned int *dlen,
			    void *context)
{
	return zword_page_decode(context, src, slen, dst, dlen);
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
		ZWORD_CONTEXTS_BY(scomp_alloc, scomp_free),
		.compress = scomp_compress_dense,
		.decompress = scomp_decompress,
		.base = {
			.cra_name = "zword-dense",
			.cra_driver_name = "zword-dense-scomp",
			.cra_module = THIS_MODULE,
		},
	},
};

int __init zword_scomps_register(void)
{
	struct zword_context *context = zword_context_new();

	/* Of a codec that did not start, users are not to hear: they take another one. */
	if (!context)
		return -ENOMEM;
	zword_context_free(context);
	return crypto_register_scomps(scomps, ZWORD_OFFERED);
}

void zword_scomps_unregister(void)
{
	crypto_unregister_scomps(scomps, ZWORD_OFFERED);
}

/* What the kernel asks modprobe for by a compressor's name. */
MODULE_ALIAS_CRYPTO("zword");
MODULE_ALIAS_CRYPTO("zword-dense");

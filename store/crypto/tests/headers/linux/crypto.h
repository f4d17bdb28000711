/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STUB_CRYPTO_H
#define STUB_CRYPTO_H

#include <linux/types.h>

struct crypto_tfm;
struct module;

/* A vendor's kernel may have the older kind for longer. */
#if KERNEL < 615 || defined(BACKPORTED_SCOMP)
#define HAS_OLD_COMPRESSORS 1
#define CRYPTO_ALG_TYPE_COMPRESS 0x00000002

struct compress_alg {
	int (*coa_compress)(struct crypto_tfm *tfm, const u8 *src,
			    unsigned int slen, u8 *dst, unsigned int *dlen);
	int (*coa_decompress)(struct crypto_tfm *tfm, const u8 *src,
			      unsigned int slen, u8 *dst, unsigned int *dlen);
};
#endif

struct crypto_alg {
	u32 cra_flags;
	unsigned int cra_ctxsize;
	char cra_name[128];
	char cra_driver_name[128];
#ifdef HAS_OLD_COMPRESSORS
	union {
		struct compress_alg compress;
	} cra_u;
#endif
	int (*cra_init)(struct crypto_tfm *tfm);
	void (*cra_exit)(struct crypto_tfm *tfm);
	struct module *cra_module;
};

int crypto_register_algs(struct crypto_alg *algs, int count);
void crypto_unregister_algs(struct crypto_alg *algs, int count);
void *crypto_tfm_ctx(struct crypto_tfm *tfm);

#endif

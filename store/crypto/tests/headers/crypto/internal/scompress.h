/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STUB_SCOMPRESS_H
#define STUB_SCOMPRESS_H

#include <linux/crypto.h>

struct crypto_scomp;

struct crypto_acomp_streams {
	void *(*alloc_ctx)(void);
	void (*free_ctx)(void *context);
};

struct scomp_alg {
	int (*compress)(struct crypto_scomp *tfm, const u8 *src,
			unsigned int slen, u8 *dst, unsigned int *dlen,
			void *context);
	int (*decompress)(struct crypto_scomp *tfm, const u8 *src,
			  unsigned int slen, u8 *dst, unsigned int *dlen,
			  void *context);
#if defined(UNKNOWN_FORM)
	void *(*alloc_ctx)(int node);
	void (*free_ctx)(void *context);
#elif KERNEL >= 616 || defined(BACKPORTED_SCOMP)
	struct crypto_acomp_streams streams;
#elif KERNEL >= 615
	void *(*alloc_ctx)(void);
	void (*free_ctx)(void *context);
#else
	void *(*alloc_ctx)(struct crypto_scomp *tfm);
	void (*free_ctx)(struct crypto_scomp *tfm, void *context);
#endif
	struct crypto_alg base;
};

int crypto_register_scomp(struct scomp_alg *alg);
int crypto_register_scomps(struct scomp_alg *algs, int count);
void crypto_unregister_scomps(struct scomp_alg *algs, int count);

#endif

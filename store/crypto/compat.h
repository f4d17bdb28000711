/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How kernels differ in their compressors, found by compiling probes; see
 * ../kmod/probe.sh.
 *
 * Contexts are made and given back by the kernel: one for each user of a compressor
 * up to 6.14, one for each processor in 6.15 and later, as it needs them.
 */
#ifndef ZWORD_CRYPTO_COMPAT_H
#define ZWORD_CRYPTO_COMPAT_H

#include <crypto/internal/scompress.h>
#include <linux/crypto.h>

#include "zword_has.h"

#if ZM_HAS_SCOMP_TFM_CONTEXT
#define ZWORD_ALLOC_ARGUMENTS	struct crypto_scomp *tfm
#define ZWORD_FREE_ARGUMENTS	struct crypto_scomp *tfm, void *context
#else
#define ZWORD_ALLOC_ARGUMENTS	void
#define ZWORD_FREE_ARGUMENTS	void *context
#endif

/* The members of struct scomp_alg that make contexts and give them back. */
#if ZM_HAS_SCOMP_STREAMS
#define ZWORD_CONTEXTS_BY(alloc, free) \
	.streams = { .alloc_ctx = alloc, .free_ctx = free }
#else
#define ZWORD_CONTEXTS_BY(alloc, free) \
	.alloc_ctx = alloc, .free_ctx = free
#endif

/*
 * For zmeld.ko, which looks for them by this name when it needs tables. The name has a
 * checksum of the codec's sources (../port/linux/Kbuild), so that they suit who finds them.
 */
extern const struct zword_tables *ZWORD_TABLES;

#endif /* ZWORD_CRYPTO_COMPAT_H */

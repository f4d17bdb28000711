// SPDX-License-Identifier: GPL-2.0-or-later
/* A synchronous compressor makes a context for whoever uses it: until 6.14. */
#include <crypto/internal/scompress.h>

#if ZM_PROBED
static void *__maybe_unused probe(struct scomp_alg *alg,
				  struct crypto_scomp *tfm, void *context)
{
	alg->free_ctx(tfm, context);
	return alg->alloc_ctx(tfm);
}
#endif

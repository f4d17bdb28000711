// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A synchronous compressor's contexts are made by its streams: 6.16. Before, by
 * itself, in one of two forms.
 */
#include <crypto/internal/scompress.h>

#if ZM_PROBED
static void *__maybe_unused probe(struct scomp_alg *alg, void *context)
{
	alg->streams.free_ctx(context);
	return alg->streams.alloc_ctx();
}
#else
#define FORM(type) __builtin_types_compatible_p( \
	__typeof__(((struct scomp_alg *)0)->alloc_ctx), type)

_Static_assert(FORM(void *(*)(void)) || FORM(void *(*)(struct crypto_scomp *)),
	       "a form of alloc_ctx() that nobody has seen");
#endif

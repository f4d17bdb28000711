// SPDX-License-Identifier: GPL-2.0-or-later
/* Compressors of the older kind, which zram has up to 6.11: until 6.14. */
#include <linux/crypto.h>

#if ZM_PROBED
static int code(struct crypto_tfm *tfm, const u8 *src, unsigned int slen,
		u8 *dst, unsigned int *dlen)
{
	return 0;
}

static struct crypto_alg probe __maybe_unused = {
	.cra_flags = CRYPTO_ALG_TYPE_COMPRESS,
	.cra_u = { .compress = { .coa_compress = code,
				 .coa_decompress = code } },
};
#endif

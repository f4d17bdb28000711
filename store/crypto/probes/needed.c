// SPDX-License-Identifier: GPL-2.0-or-later
/* What every kernel has to have, and what the other probes include. */
#include <linux/kconfig.h>
#include <linux/crypto.h>
#include <crypto/internal/scompress.h>

#if !IS_ENABLED(CONFIG_CRYPTO_ACOMP2)
#error "zword.ko needs a kernel with CONFIG_CRYPTO_ACOMP2"
#endif

static int code(struct crypto_scomp *tfm, const u8 *src, unsigned int slen,
		u8 *dst, unsigned int *dlen, void *context)
{
	return 0;
}

static struct scomp_alg probe = {
	.compress = code,
	.decompress = code,
	.base = { .cra_name = "probe" },
};

static int __maybe_unused probe_register(void)
{
	return crypto_register_scomp(&probe);
}

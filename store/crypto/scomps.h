/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See scomps.c. */
#ifndef ZWORD_CRYPTO_SCOMPS_H
#define ZWORD_CRYPTO_SCOMPS_H

int zword_scomps_register(void);
void zword_scomps_unregister(void);

#endif /* ZWORD_CRYPTO_SCOMPS_H */

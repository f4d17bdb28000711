/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The self-test, which either module runs on tables that it made, before anybody can ask
 * for a page: both levels on pages that
 * know the encoder's limits, which have to come back, and every mode among what
 * they are encoded to; and damaged objects, which give a page or an error.
 */
#ifndef ZWORD_CRYPTO_SELFTEST_H
#define ZWORD_CRYPTO_SELFTEST_H

#include "../zword/zword.h"

/* What it works in. */
size_t zword_selftest_size(void);

/* 0; -EIO: a page came back changed, a byte was written outside, a mode is missing. */
int zword_selftest(const struct zword_tables *tables, void *memory);

#endif /* ZWORD_CRYPTO_SELFTEST_H */

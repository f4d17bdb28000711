/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The store's self-tests in the kernel: each part of its home, then the store
 * as a whole, before the first device is made. Only in debug builds.
 */
#ifndef ZMELD_KMOD_SELFTEST_H
#define ZMELD_KMOD_SELFTEST_H

#ifdef ZMELD_DEBUG

#include <zm_home.h>

struct zm_store;

/*
 * 0, or -EINVAL after a line in the log that says what went wrong; -ENOMEM.
 * pre: zm_home_start(). Takes some seconds. May sleep.
 */
int zm_selftest_run(void);

int zm_selftest_codecs(void);
int zm_selftest_pool(void);
int zm_selftest_store(void);

/* Numbers from a seed: the same ones in every run. */
struct zm_selftest_random {
	u64 state;
};

u64 zm_selftest_next(struct zm_selftest_random *random);
u32 zm_selftest_below(struct zm_selftest_random *random, u32 bound);

/*
 * Page number `content`, of a kind that the number chooses: same-filled, noise,
 * pointers among zeros, text. The same number makes the same page.
 */
#define ZM_SELFTEST_KINDS 8
void zm_selftest_page(u8 *page, u64 content);

#define zm_selftest_failed(format, ...) \
	({ pr_err("self-test: " format "\n", ##__VA_ARGS__); -EINVAL; })

#else

static inline int zm_selftest_run(void)
{
	return 0;
}

#endif

#endif /* ZMELD_KMOD_SELFTEST_H */

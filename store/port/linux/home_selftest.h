/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The self-tests of the kernel's home, and what the store's has in common with
 * them. Only in debug builds.
 */
#ifndef ZMELD_PORT_LINUX_HOME_SELFTEST_H
#define ZMELD_PORT_LINUX_HOME_SELFTEST_H

#include <linux/printk.h>

#include <zm_home.h>

/*
 * 0, or -EINVAL after a line in the log that says what went wrong; -ENOMEM.
 * pre: zm_home_start(). May sleep.
 */
int zm_selftest_codecs(void);
int zm_selftest_pool(void);

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

#endif /* ZMELD_PORT_LINUX_HOME_SELFTEST_H */

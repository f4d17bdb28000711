/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each part of the store's home in the kernel tests itself before the first device
 * is made. Only in debug builds.
 */
#ifndef ZMELD_KMOD_SELFTEST_H
#define ZMELD_KMOD_SELFTEST_H

#ifdef ZMELD_DEBUG

#include <home_selftest.h>

/*
 * 0, or -EINVAL after a line in the log that says what went wrong; -ENOMEM.
 * pre: zm_home_start(). Takes some seconds. May sleep.
 */
int zm_selftest_run(void);

#else

static inline int zm_selftest_run(void)
{
	return 0;
}

#endif

#endif /* ZMELD_KMOD_SELFTEST_H */

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Self-tests of the home (port/linux), run before the first device is made.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/module.h>

#include <zmeld/port.h>

#include "selftest.h"

static bool selftest = true;
module_param(selftest, bool, 0444);
MODULE_PARM_DESC(selftest, "Test itself before anything else; debug builds only (Y)");

int zm_selftest_run(void)
{
	u64 started = zm_port_time_ns();
	int err;

	if (!selftest)
		return 0;
	err = zm_selftest_codecs();
	if (!err)
		err = zm_selftest_pool();
	if (err)
		pr_err("self-tests failed (%d)\n", err);
	else
		pr_info("self-tests passed: %zu codecs, %llu ms\n",
			zm_codec_count,
			(zm_port_time_ns() - started) / 1000000);
	return err;
}

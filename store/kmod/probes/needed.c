// SPDX-License-Identifier: GPL-2.0-or-later
/* What every kernel has to have, and what the other probes include. */
#include <linux/kconfig.h>
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/zsmalloc.h>
#include <linux/zstd.h>

#if !IS_ENABLED(CONFIG_BLOCK) || !IS_ENABLED(CONFIG_ZSMALLOC)
#error "zmeld.ko needs a kernel with CONFIG_BLOCK and CONFIG_ZSMALLOC"
#endif

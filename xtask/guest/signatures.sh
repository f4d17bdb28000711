#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A kernel with module.sig_enforce=1: its own modules load, ours without a
# signature or with that of a key it does not know are refused.

[ "$(cat /sys/module/module/parameters/sig_enforce)" = Y ] || {
	echo "signatures are not enforced"
	exit 1
}
modprobe zsmalloc || exit 1
modprobe zram || exit 1
echo "the kernel's own modules load"
for module in unsigned foreign; do
	if said=$(insmod /guest/$module.ko 2>&1); then
		echo "$module.ko was loaded"
		exit 1
	fi
	echo "$module.ko: $said"
	echo "$said" | grep -Eq 'Key was rejected|Required key not available' || exit 1
done

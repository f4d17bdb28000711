#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1 memory=256 long
#
# The kernel's own zram with zword, where it takes any compressor by name: up to 6.11.

DEVICE=zram
# shellcheck source-path=SCRIPTDIR/../../kmod/tests
. /guest/guest.sh

total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
need=$((total * 11 / 10))
SIZE=$((total * 2))
for codec in zword zword-dense; do
	module_load num_devices=1
	same "zram takes $codec" 0 "$(put comp_algorithm $codec)"
	ok "the kernel loaded it" grep -q '^zword ' /proc/modules
	same "disksize" 0 "$(put disksize "${SIZE}M")"
	ok "zram has it" grep -q "\[$codec\]" $SYS/comp_algorithm
	/guest/pages fill $DEV 4000 "$SEED" 10
	ok "each page comes back ($codec)" /guest/pages verify $DEV 4000 "$SEED" 10
	echo "# mm_stat: $(cat $SYS/mm_stat)"
	ok "random writes, reads and discards ($codec)" \
		/guest/pages random $DEV 4000 "$TIME" "$SEED" 2
	ok "the module stays while it is used" sh -c '! rmmod zword 2>/dev/null'
	mkswap $DEV >/dev/null
	ok "swapon ($codec)" swapon -d $DEV
	ok "a program that needs more than there is ($codec)" \
		/guest/pages swap $need 2 "$SEED" 60
	ok "swapoff ($codec)" swapoff $DEV
	same "no page was encoded wrongly" 0 "$(cat /sys/kernel/debug/zword/encode_errors)"
	put reset 1 >/dev/null
	module_unload
done
ok "the module can be unloaded" rmmod zword
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest:
#
# What is asked of the module is bounded: devices at once, and devices that stand on
# devices, which must not take each other's memory.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

refused() {
	dmesg -c >/dev/null
	! modprobe zmeld "$1" 2>/dev/null || return 1
	! grep -q '^zmeld ' /proc/modules || return 1
	dmesg | grep "$2"
}

module_unload
for many in 1025 4294967295; do
	ok "num_devices=$many is refused with its bound" refused num_devices=$many \
		"num_devices=$many: at most 1024"
done
ok "a number that is none is refused" refused num_devices=-1 zmeld
ok "another mode is refused with the modes there are" refused meld_mode=always "off, manual"
ok "another check_writes as well" refused check_writes=yes "auto, on, off"

# Each stands on the one before: a read of the last waits for reads of all others,
# made for it while it holds what it took from its own pools.
stand=4
module_load num_devices=$((stand + 1))
# Others look at it, too: guest.sh names the device that it is about.
# shellcheck disable=SC2034
each() {
	SYS=/sys/block/zmeld$1
	DEV=/dev/zmeld$1
}
n=0
while [ $n -le $stand ]; do
	each $n
	# Pages on a device as they are: it is as big as what stands on it.
	[ $n -eq 0 ] || same "zmeld$n on zmeld$((n - 1))" 0 "$(put backing_dev /dev/zmeld$((n - 1)))"
	put comp_algorithm lzo >/dev/null
	same "size of zmeld$n" 0 "$(put disksize "${SIZE}M")"
	n=$((n + 1))
done
ok "pages in the last" /guest/pages fill "$DEV" 2000 "$SEED" 20
# Down, device after device: what one writes back is new in the one below.
while [ $n -gt 1 ]; do
	n=$((n - 1))
	each $n
	same "zmeld$n: idle" 0 "$(put idle all)"
	same "zmeld$n: writeback" 0 "$(put writeback idle)"
	ok "zmeld$n: pages went down" [ "$(field bd_stat 1)" -gt 1000 ]
done
each $stand
readers() {
	for reader in 1 2 3 4 5 6 7 8; do
		/guest/pages verify "$DEV" 2000 "$SEED" 20 >"/tmp/said$reader" 2>&1 &
		eval "pid$reader=$!"
	done
	for reader in 1 2 3 4 5 6 7 8; do
		eval "wait \$pid$reader" || {
			cat "/tmp/said$reader"
			return 1
		}
	done
}
ok "eight readers through all of them" readers
while [ $n -le $stand ]; do
	each $n
	ok "zmeld$n read its pages below" [ "$(field bd_stat 2)" -gt 1000 ]
	n=$((n + 1))
done

# The one below is held as long as it is stood on.
each $((stand - 1))
same "a device that is stood on is not reset" EBUSY "$(put reset 1)"
while [ $n -gt 0 ]; do
	n=$((n - 1))
	each $n
	same "reset of zmeld$n" 0 "$(put reset 1)"
done
ok "the module can be unloaded" module_unload
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A machine that is short of memory: a program needs one and a half times what
# there is, 30 % of its pages are duplicates. SWAP says where they go: zmeld,
# zram, disk, none. `cargo xtask bench swap` runs it.

vmstat() {
	awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat
}

total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
need=$((total * 3 / 2))
device=
case $SWAP in
zmeld | zram)
	modprobe "$SWAP" num_devices=1
	device=${SWAP}0
	echo lz4 >/sys/block/"$device"/comp_algorithm
	[ "$SWAP" = zram ] || echo inline >/sys/block/"$device"/meld_mode
	echo $((total * 2))M >/sys/block/"$device"/disksize
	mkswap /dev/"$device" >/dev/null && swapon -d /dev/"$device" || exit
	;;
disk)
	modprobe virtio_pci 2>/dev/null
	modprobe virtio_blk 2>/dev/null
	disk=$(ls -d /dev/vd? /dev/ubd? 2>/dev/null | head -n 1)
	mkswap "$disk" >/dev/null && swapon "$disk" || exit
	;;
esac

echo "swap on $SWAP: $total MiB of memory, $need MiB of data"
began=$(cut -d ' ' -f 1 /proc/uptime)
/guest/pages swap "$need" 2 1 30 >/tmp/out 2>&1
code=$?
ended=$(cut -d ' ' -f 1 /proc/uptime)
case $code in
0) echo "  finished, every page right" ;;
137) echo "  killed for want of memory" ;;
*)
	echo "  exit code $code"
	cat /tmp/out
	;;
esac
echo "  $(awk "BEGIN { print $ended - $began }") s; $(vmstat pswpout) pages out, $(vmstat pswpin) in"
if [ -n "$device" ]; then
	# orig_data_size compr_data_size mem_used_total mem_limit mem_used_max same_pages
	awk '{ printf "  device at its fullest: %.1f MiB of memory\n", $5 / 1048576 }' /sys/block/"$device"/mm_stat
	if [ "$SWAP" = zmeld ]; then
		echo "  meld_stat at the end:"
		sed 's/^/    /' /sys/block/"$device"/meld_stat
	fi
	swapoff /dev/"$device"
fi
[ "$SWAP" = none ] || [ "$code" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=7.2,7.3 memory=512 disk=256 long counted
#
# Memory in folios of 64 KiB is swapped out and touched: a folio comes back whole from zram
# and zmeld until zswap is switched on or off for the first time, and in pages from then on.
# Each run is printed: bytes held, thousands of instructions, and faults.
# shellcheck source-path=SCRIPTDIR disable=SC2046,SC2086,SC2231
. /guest/guest.sh

THP=/sys/kernel/mm/transparent_hugepage
ZSWAP=/sys/module/zswap/parameters
module_load num_devices=1
for module in zram virtio_pci virtio_blk zsmalloc lz4 zstd; do modprobe -q $module; done
# Nothing makes folios of pages that came back.
echo 1000000000 >$THP/khugepaged/scan_sleep_millisecs

# run CODEC DRIVER KIB COUNT: folios of that size, where a fault brings so many pages; 8: so
# many at the most, by read-ahead. Walks: in order, scattered, one page of 16.
run() {
	SYS=/sys/block/${2}0
	area=/dev/${2}0
	held="awk '{ print \$3 }' $SYS/mm_stat"
	for size in $THP/hugepages-*/enabled; do echo never >$size; done
	[ $3 = 4 ] || echo always >$THP/hugepages-$3kB/enabled
	echo $(($4 == 8 ? 3 : 0)) >/proc/sys/vm/page-cluster
	# An N sets zswap up, too, where it never was on.
	grep -q N $ZSWAP/enabled || echo N >$ZSWAP/enabled
	if [ $2 = zswap ]; then
		area=/dev/vda
		held="cat /sys/kernel/debug/zswap/pool_total_size"
		echo $1 >$ZSWAP/compressor
		echo Y >$ZSWAP/enabled
	else
		device_new comp_algorithm=$1
	fi
	mkswap $area >/dev/null && swapon $area
	for walk in "1 1" "7919 1" "7919 16"; do
		# What another processor made last is in a list of its own, and stays in memory.
		found=$(taskset 1 /guest/pages swap 32 0 $SEED 0 $walk "$held" | xargs)
		echo "$*, $walk: $found"
		most=$(($4 > ${walk#* } ? $4 : ${walk#* }))
		[ $4 = 8 ] || same "faults, and all pages are verified" \
			"$((8192 / most)) # 8192 pages, 0 rounds" "${found#*faults=}"
	done
	swapoff $area
}

# each DRIVER:KIB:COUNT...: with two codecs, the order drawn
each() {
	for codec in lz4 zstd; do
		for arm in $(shuf -e "$@"); do run $codec $(echo $arm | tr : ' '); done
	done
}

each zram:64:16 zram:4:1 $DEVICE:64:16 $DEVICE:4:1
each zswap:64:1 zswap:4:1 zswap:64:8
each zram:64:1 $DEVICE:64:1
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a fault takes and how much a machine holds that is short of memory, with swap
# on each of VARIANTS: none, DRIVER:CODEC[:LEVEL], or zswap:CODEC[:checked], in front of a disk.
# `cargo xtask bench fault` and `cargo xtask bench zswap` run it.
#
#	PART=time     ROUNDS times, the variants in turn: a program that needs SIZE percent
#	              of the memory there is
#	PART=pressure the same with a pool of a twentieth of memory that the shrinker writes back
#	PART=largest  each variant: the largest program that ends well, to STEP MiB
#
# One line for each run: its variant, then NAME=NUMBER.

available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
device=
echo "machine total_mib=$total available_mib=$available"

# The next variant's swap; `device` is its name, or nothing.
swap_on() {
	variant=$1
	device=
	driver=
	[ "$variant" != none ] || return 0
	driver=${variant%%:*}
	rest=${variant#*:}
	codec=${rest%%:*}
	level=${rest#"$codec"}
	if [ "$driver" = zswap ]; then
		zswap_on
		return
	fi
	device=${driver}0
	at=/sys/block/$device
	echo "$codec" >"$at/comp_algorithm" || exit 3
	[ -z "$level" ] || echo "level=${level#:}" >"$at/algorithm_params" || exit 3
	[ "$driver" = zram ] || echo off >"$at/meld_mode" || exit 3
	# What the largest program needs: each page of it takes memory of its own.
	echo $((available * 6))M >"$at/disksize" || exit 3
	mkswap /dev/"$device" >/dev/null && swapon /dev/"$device" || exit 3
}

# Without a shrinker, but in the part that is about it. Writing back is allowed: without that a
# page that does not compress is in no pool, stays in memory, and would count for nothing.
zswap_on() {
	pool=90
	shrinker=N
	if [ "$PART" = pressure ]; then
		pool=5
		shrinker=Y
	fi
	checked=N
	[ "$level" != :checked ] || checked=Y
	echo "$codec" >$ZSWAP/compressor || exit 3
	[ "$(cat $ZSWAP/compressor)" = "$codec" ] || exit 3
	echo $checked >/sys/module/zword/parameters/check_writes || exit 3
	echo $pool >$ZSWAP/max_pool_percent || exit 3
	echo $shrinker >$ZSWAP/shrinker_enabled || exit 3
	echo 1 >/tmp/group/of/memory.zswap.writeback || exit 3
	echo Y >$ZSWAP/enabled || exit 3
	device=${behind#/dev/}
	mkswap "$behind" >/dev/null && swapon "$behind" || exit 3
}

swap_off() {
	[ -n "$device" ] || return 0
	swapoff /dev/"$device" || exit 3
	[ "$driver" != zswap ] || return 0
	# Whatever looks at new devices may have it open.
	for _ in 1 2 3 4 5; do
		echo 1 >/sys/block/"$device"/reset 2>/dev/null && return 0
		sleep 0.2
	done
	echo "# $device cannot be reset"
	exit 3
}

# Its line, without the end of line; the program's exit code.
run() {
	stat=
	[ -z "$device" ] || stat=/sys/block/$device/mm_stat
	[ "$driver" != zswap ] || stat="$COUNTS/stored_pages $COUNTS/pool_total_size"
	timeout -s KILL "$LIMIT" sh -c '
		[ ! -e /tmp/group/of ] || echo 0 >/tmp/group/of/cgroup.procs
		echo 1000 >/proc/self/oom_score_adj
		exec "$@"' sh \
		/guest/footprint "$disk" "$1" "$2" "$3" $stat >/tmp/line 2>/tmp/why
	code=$?
	case $code in
	0 | 137 | 143) return $code ;;
	esac
	cat /tmp/line /tmp/why
	exit $code
}

timed() {
	size=$((available * SIZE / 100))
	for round in $(seq "$ROUNDS"); do
		for variant in $VARIANTS; do
			[ "$variant" != none ] || continue
			swap_on "$variant"
			if run "$size" "$TOUCHES" "$round"; then
				echo "$variant $PART round=$round size_mib=$size $(cat /tmp/line)"
			else
				echo "$variant $PART round=$round size_mib=$size killed=1"
			fi
			swap_off
		done
	done
}

# Bisection: `low` ends well, `high` does not.
largest() {
	for variant in $VARIANTS; do
		low=$((available / 2))
		high=$((available * 6))
		tried=0
		while [ $((high - low)) -gt "$STEP" ]; do
			middle=$(((low + high) / 2))
			swap_on "$variant"
			if run "$middle" "$TOUCHES" 1; then low=$middle; else high=$middle; fi
			swap_off
			tried=$((tried + 1))
		done
		echo "$variant largest mib=$low tried=$tried"
	done
}

ZSWAP=/sys/module/zswap/parameters
COUNTS=/sys/kernel/debug/zswap
driver=
for variant in $VARIANTS; do
	case $variant in
	none) ;;
	zswap:*)
		[ -d /tmp/group/of ] || {
			modprobe zword && mkdir /tmp/group && mount -t cgroup2 none /tmp/group &&
				echo +memory >/tmp/group/cgroup.subtree_control &&
				mkdir /tmp/group/of || exit 3
		}
		;;
	*) modprobe "${variant%%:*}" num_devices=1 || exit 3 ;;
	esac
done
modprobe -q virtio_pci
modprobe -q virtio_blk
disk=$(ls -d /dev/ubda /dev/vda 2>/dev/null | head -n 1)
behind=$(ls -d /dev/ubdb /dev/vdb 2>/dev/null | head -n 1)
if [ -z "$disk" ]; then
	echo "# no disk with contents: does another guest have its file?"
	exit 3
fi
echo 0 >/proc/sys/vm/page-cluster
case $PART in
time | pressure) timed ;;
largest) largest ;;
esac

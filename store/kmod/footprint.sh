#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a fault takes and how much a machine holds that is short of memory, with swap
# on each of ARMS: none, or DRIVER:CODEC[:LEVEL]. `cargo xtask bench fault` runs it.
#
#	PART=time     ROUNDS times, the arms in turn: a program that needs SIZE percent
#	              of the memory there is
#	PART=largest  each arm: the largest program that ends well, to STEP MiB
#
# One line for each run: its arm, then NAME=NUMBER.

available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
device=
echo "machine total_mib=$total available_mib=$available"

# The next arm's swap; `device` is its name, or nothing.
swap_on() {
	arm=$1
	device=
	[ "$arm" != none ] || return 0
	driver=${arm%%:*}
	rest=${arm#*:}
	codec=${rest%%:*}
	level=${rest#"$codec"}
	device=${driver}0
	at=/sys/block/$device
	echo "$codec" >"$at/comp_algorithm" || exit 3
	[ -z "$level" ] || echo "level=${level#:}" >"$at/algorithm_params" || exit 3
	[ "$driver" = zram ] || echo off >"$at/meld_mode" || exit 3
	# What the largest program needs: each page of it takes memory of its own.
	echo $((available * 6))M >"$at/disksize" || exit 3
	mkswap /dev/"$device" >/dev/null && swapon /dev/"$device" || exit 3
}

swap_off() {
	[ -n "$device" ] || return 0
	swapoff /dev/"$device" || exit 3
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
	timeout -s KILL "$LIMIT" sh -c 'echo 1000 >/proc/self/oom_score_adj; exec "$@"' sh \
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
		for arm in $ARMS; do
			[ "$arm" != none ] || continue
			swap_on "$arm"
			if run "$size" "$TOUCHES" "$round"; then
				echo "$arm time round=$round size_mib=$size $(cat /tmp/line)"
			else
				echo "$arm time round=$round size_mib=$size killed=1"
			fi
			swap_off
		done
	done
}

# Bisection: `low` ends well, `high` does not.
largest() {
	for arm in $ARMS; do
		low=$((available / 2))
		high=$((available * 6))
		tried=0
		while [ $((high - low)) -gt "$STEP" ]; do
			middle=$(((low + high) / 2))
			swap_on "$arm"
			if run "$middle" "$TOUCHES" 1; then low=$middle; else high=$middle; fi
			swap_off
			tried=$((tried + 1))
		done
		echo "$arm largest mib=$low tried=$tried"
	done
}

for arm in $ARMS; do
	[ "$arm" = none ] || modprobe "${arm%%:*}" num_devices=1 || exit 3
done
modprobe -q virtio_pci
modprobe -q virtio_blk
disk=$(ls -d /dev/ubda /dev/vda 2>/dev/null | head -n 1)
if [ -z "$disk" ]; then
	echo "# no disk with contents: does another guest have its file?"
	exit 3
fi
echo 0 >/proc/sys/vm/page-cluster
case $PART in
time) timed ;;
largest) largest ;;
esac

# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# What the guest tests share; sourced. DEVICE is the stem of the names: zmeld, or
# zram for the kernel's own, on which every test of zram's interface has to pass,
# too. CODEC is zram's, where a module brings it. SEED makes random numbers, TIME is
# how many seconds a long part takes, and SIZE how many MiB devices have.

: "${DEVICE:=zmeld}" "${SEED:=1}" "${TIME:=5}" "${SIZE:=64}"
SYS=/sys/block/${DEVICE}0
DEV=/dev/${DEVICE}0
CONTROL=/sys/class/${DEVICE}-control
# The kernel's own page, which a block of the device is a part of.
PAGE=$(awk '/^KernelPageSize:/ { print $2 * 1024; exit }' /proc/self/smaps)
PAGES=$((SIZE * 1024 * 1024 / PAGE))
checks=0
failures=0

echo "# $DEVICE on $(uname -r), SEED=$SEED TIME=$TIME SIZE=$SIZE"

# ok NAME COMMAND...: one check.
ok() {
	name=$1
	shift
	checks=$((checks + 1))
	if "$@"; then
		echo "ok $checks - $name"
	else
		failures=$((failures + 1))
		echo "not ok $checks - $name"
	fi
}

# same NAME EXPECTED FOUND
same() {
	[ "$2" = "$3" ] || echo "# $1: expected '$2', found '$3'"
	ok "$1" [ "$2" = "$3" ]
}

# swap_out MIB DUPLICATES BYTES: a program that needs so many MiB more than are
# free, so many per cent of its pages duplicates. It is stopped once so many bytes
# of it are in swap; $pages is its number.
swap_out() {
	need=$(awk -v more="$1" '/^MemAvailable:/ { print int($2 / 1024) + more }' /proc/meminfo)
	/guest/pages swap "$need" 2 "$SEED" "$2" &
	pages=$!
	n=0
	while [ $n -lt 300 ] && [ "$(field mm_stat 1)" -lt "$3" ]; do
		sleep 0.2
		n=$((n + 1))
	done
	kill -STOP $pages
	ok "pages were swapped" [ "$(field mm_stat 1)" -ge "$3" ]
}

# since UNIT: when it was there, microseconds of this boot.
since() {
	systemctl show --value -p ActiveEnterTimestampMonotonic "$1"
}

# active UNIT
active() {
	systemctl -q is-active "$1"
}

# within SECONDS COMMAND...: it comes true.
within() {
	left=$1
	shift
	until "$@" >/dev/null 2>&1; do
		left=$((left - 1))
		[ $left -gt 0 ] || return 1
		sleep 1
	done
}

swaps_on() {
	grep -q "^$1 " /proc/swaps
}

# system_runs: when all that starts at boot has.
system_runs() {
	systemctl is-system-running --wait >/dev/null
	systemctl --no-pager --failed
	same "the system runs" running "$(systemctl is-system-running)"
}

# nothing_failed: no unit of systemd's.
nothing_failed() {
	same "no unit has failed" 0 "$(systemctl --failed --no-legend | wc -l)"
}

# before_services: zmeld.service is there, and was before what services wait for.
before_services() {
	systemctl -q is-active zmeld.service &&
		[ "$(since zmeld.service)" -gt 0 ] &&
		[ "$(since zmeld.service)" -le "$(since basic.target)" ]
}

# status: it finds nothing; what it says is in the log and in /tmp/status.
status() {
	zmeld status --check >/tmp/status
	code=$?
	sed 's/^/# /' /tmp/status
	return $code
}

# quietly COMMAND...: what it says is in the log and in /tmp/said.
quietly() {
	"$@" >/tmp/said 2>&1
	code=$?
	sed 's/^/# /' /tmp/said
	return $code
}

skip() {
	checks=$((checks + 1))
	echo "ok $checks - $1 # SKIP $2"
}

end() {
	if [ -n "$CODEC" ]; then
		same "no page was encoded wrongly" 0 "$(cat /sys/kernel/debug/zword/encode_errors)"
		ok "the codec can be unloaded" rmmod zword
	fi
	echo "1..$checks"
	[ "$failures" -eq 0 ]
	exit
}

# module_load [PARAMETER=VALUE]...: anew.
module_load() {
	module_unload
	modprobe "$DEVICE" "$@" || return
	[ -z "$CODEC" ] || same "comp_algorithm $CODEC" 0 "$(put comp_algorithm "$CODEC")"
}

module_unload() {
	! grep -q "^$DEVICE " /proc/modules || rmmod "$DEVICE"
}

# put ATTRIBUTE TEXT: the error's name, or 0.
put() {
	/guest/pages put "$SYS/$1" "$2"
}

# The device as new, with settings ATTRIBUTE=TEXT made before its size.
device_new() {
	put reset 1 >/dev/null
	for setting in "$@"; do
		result=$(put "${setting%%=*}" "${setting#*=}")
		[ "$result" = 0 ] || echo "# $setting: $result"
	done
	result=$(put disksize "${SIZE}M")
	[ "$result" = 0 ] || echo "# disksize ${SIZE}M: $result"
}

has() {
	[ -e "$SYS/$1" ]
}

# field FILE NUMBER
field() {
	awk -v n="$2" '{ print $n; exit }' "$SYS/$1"
}

# meld_stat NAME
meld_stat() {
	awk -v name="$1" '$1 == name { print $2 }' "$SYS/meld_stat"
}

# The codecs that the device offers, without the chosen one's brackets.
codecs() {
	tr -d '[]' <"$SYS/comp_algorithm"
}

# A second codec, stronger than the first where there is one.
other_codec() {
	for codec in zstd deflate lz4hc lz4 lzo; do
		case " $(codecs) " in
		*" $codec "*)
			echo "$codec"
			return
			;;
		esac
	done
}

# beside COMMAND...: again and again until `beside_stop`.
beside() {
	touch /tmp/beside
	(while [ -e /tmp/beside ]; do
		"$@"
	done) >/dev/null 2>&1 &
	beside_pids="$beside_pids $!"
}

beside_stop() {
	rm -f /tmp/beside
	# shellcheck disable=SC2086
	wait $beside_pids
	beside_pids=
}

# All that can be done to stored pages while others use them.
disturb() {
	has meld && put meld start
	has meld_mode && for mode in inline auto off manual; do put meld_mode $mode; done
	put compact 1
	put idle all
	has recompress && put recompress type=idle && put recompress type=huge
	[ -n "$BACKING" ] && put writeback idle && put writeback huge
	cat "$SYS"/*_stat
	sleep 0.05
}

# A loop device of so many MiB in memory: $loop. Its file is where root alone may write.
loop_new() {
	modprobe loop 2>/dev/null
	mkdir -p -m 700 /var/lib/guest
	(umask 077 && truncate -s "$1M" /var/lib/guest/backing)
	loop=$(losetup -f)
	losetup "$loop" /var/lib/guest/backing
}

loop_end() {
	losetup -d "$loop"
	rm -f /var/lib/guest/backing
}

GROUPS_TOP=/sys/fs/cgroup

# memory_groups NAME: control groups that count memory, below GROUPS_TOP; a test of that
# name ends where there are none.
memory_groups() {
	grep -q " $GROUPS_TOP " /proc/mounts || {
		mkdir -p $GROUPS_TOP
		mount -t cgroup2 none $GROUPS_TOP
	}
	if ! echo +memory >$GROUPS_TOP/cgroup.subtree_control; then
		skip "$1" "no memory controller of version 2"
		end
	fi
}

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: memory=512 program=mkfs.ext4
#
# Rounds until the time is over. The seed says for each how the device is set up,
# what works on it (pages against a model, failing allocations, swap, a file system,
# devices that come and go) and whether a second one has the same pages. Passes,
# recompression and writeback run beside, and processors come and go where this
# kernel lets them.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh
[ "$SIZE" -le 32 ] || SIZE=32
PAGES=$((SIZE * 1024 * 1024 / PAGE))
debug=/sys/kernel/debug
check=$debug/$DEVICE/${DEVICE}0/check
online=/sys/devices/system/cpu/cpu1/online
state=$SEED

# draw BOUND: the next number below it, from the seed: $drawn.
draw() {
	state=$(((state * 1103515245 + 12345) & 0x7fffffff))
	drawn=$(((state >> 8) % $1))
}

processors_come_and_go() {
	echo 0 >$online
	sleep 0.1
	echo 1 >$online
	sleep 0.2
}

soak_disturb() {
	disturb
	[ ! -e $online ] || processors_come_and_go
}

# The device, by the seed.
set_up() {
	put reset 1 >/dev/null
	BACKING=
	draw 2
	if [ "$drawn" = 1 ] && has backing_dev; then
		same "backing_dev" 0 "$(put backing_dev "$loop")"
		BACKING=$loop
	fi
	draw 2
	if [ "$drawn" = 1 ] && has recomp_algorithm; then
		same "recomp_algorithm" 0 \
			"$(put recomp_algorithm "algo=$(other_codec) priority=1")"
	fi
	# shellcheck disable=SC2046
	set -- $(codecs)
	draw $#
	shift "$drawn"
	codec=$1
	same "comp_algorithm $codec" 0 "$(put comp_algorithm "$codec")"
	same "disksize" 0 "$(put disksize "${SIZE}M")"
	[ ! -e "$SYS/verify" ] || put verify 1 >/dev/null
	draw 2
	[ "$drawn" = 0 ] || put meld_mode inline >/dev/null
}

faults() {
	for kind in failslab fail_page_alloc; do
		[ -e $debug/$kind ] || continue
		echo N >$debug/$kind/ignore-gfp-wait
		echo 0 >$debug/$kind/verbose
		echo -1 >$debug/$kind/times
		echo Y >$debug/$kind/task-filter
		echo "$1" >$debug/$kind/probability
	done
}

work_pages() {
	ok "random pages, $codec" /guest/pages random "$DEV" "$PAGES" "$slice" "$state" 3
}

work_faults() {
	if [ ! -e /proc/self/make-it-fail ]; then
		work_pages
		return
	fi
	faults 2
	ok "random pages while allocations fail, $codec" \
		/guest/pages random "$DEV" "$PAGES" "$slice" "$state" 2 faults
	faults 0
}

swapped_out() {
	awk '$1 == "pswpout" { print $2 }' /proc/vmstat
}

# A program in a group that holds less than half of it, so that the rest is swapped.
work_swap() {
	group=/sys/fs/cgroup/soak
	[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 none /sys/fs/cgroup
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir -p $group
	echo $((SIZE * 3 / 8))M >$group/memory.max
	before=$(swapped_out)
	mkswap "$DEV" >/dev/null
	ok swapon swapon -d "$DEV"
	ok "a program that is swapped, $codec" sh -c "echo \$\$ >$group/cgroup.procs &&
		exec /guest/pages swap $((SIZE * 5 / 8)) 1 $state 60"
	ok "pages were swapped" [ "$(swapped_out)" -gt "$before" ]
	ok swapoff swapoff "$DEV"
	rmdir $group
}

copy_and_compare() {
	mkdir "/mnt/$1" || return
	for file in /bin/* /sbin/*; do
		[ -f "$file" ] || continue
		cp "$file" "/mnt/$1/" || return
		cmp -s "$file" "/mnt/$1/${file##*/}" || return
		# A third of the room, so that there is always some.
		[ "$(df -m /mnt | awk 'END { print $5 + 0 }')" -lt 33 ] || break
	done
	rm -r "/mnt/${1:?}"
}

work_files() {
	ok "mkfs.ext4, $codec" sh -c "mkfs.ext4 -q -F $DEV >/tmp/mkfs.log 2>&1"
	ok "mount" mount -t ext4 -o discard "$DEV" /mnt
	copy_and_compare a &
	ok "files copied and compared" copy_and_compare b
	ok "beside each other" wait $!
	ok "umount" umount /mnt
	ok "e2fsck has nothing to say" sh -c "e2fsck -fn $DEV >/tmp/fsck.log 2>&1"
}

# Another device comes, is filled and goes, again and again.
work_devices() {
	n=0
	while [ $n -lt 5 ]; do
		n=$((n + 1))
		id=$(cat "$CONTROL/hot_add") || break
		echo 4M >"/sys/block/$DEVICE$id/disksize"
		/guest/pages fill "/dev/$DEVICE$id" 1000 $state 50 || break
		tries=0
		until echo "$id" >"$CONTROL/hot_remove" 2>/dev/null; do
			tries=$((tries + 1))
			[ $tries -lt 50 ] || break 2
			sleep 0.05
		done
	done
	same "devices came, were filled and went" 5 $n
}

module_load num_devices=1
mount -t debugfs none $debug 2>/dev/null
[ -e "$check" ] || echo "# there is no debugfs here"
loop_new "$SIZE"
[ -e $online ] || echo "# the processors of this kernel stay"
begin=$(date +%s)
slice=$((TIME / 8 + 1))
round=0
while :; do
	round=$((round + 1))
	echo "# round $round, seed $state"
	set_up
	beside soak_disturb
	case $((round % 5)) in
	0) work_faults ;;
	1) work_swap ;;
	2) work_pages ;;
	3) work_files ;;
	4) work_devices ;;
	esac
	beside_stop
	[ ! -e "$SYS/meld_stat" ] || same "no page was damaged" "0 0" "$(meld_stat mismatches) $(meld_stat damaged)"
	[ ! -e "$check" ] || ok "the walking check finds nothing wrong" grep -q "is right" "$check"
	blkdiscard "$DEV"
	same "nothing is left" 0 "$(field mm_stat 1)"
	[ $(($(date +%s) - begin)) -lt "$TIME" ] || [ $round -lt 5 ] || break
	[ $((round % 5)) -ne 0 ] || ok "the module loads anew" module_load num_devices=1
done
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

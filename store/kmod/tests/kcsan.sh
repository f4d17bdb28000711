#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=kcsan memory=384 long
#
# Swap until the time is over, in a kernel that watches for data races: programs that
# need more than their group may hold and verify every page, beside them passes, idle
# marks, recompression, writeback, and readers of all there is to read. What the
# kernel sees is in its messages.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh
SIZE=32

# Another device each round: the codecs, and what is asked of its pages.
round_begin() {
	put reset 1 >/dev/null
	same "backing_dev" 0 "$(put backing_dev "$loop")"
	same "recomp_algorithm" 0 "$(put recomp_algorithm "algo=$(other_codec) priority=1")"
	# shellcheck disable=SC2046
	set -- $(codecs)
	shift $(((round - 1) % $#))
	same "comp_algorithm $1" 0 "$(put comp_algorithm "$1")"
	same "disksize" 0 "$(put disksize "${SIZE}M")"
	put verify $((round % 2)) >/dev/null
	mkswap "$DEV" >/dev/null
	ok swapon swapon -d "$DEV"
}

# A program in a group that may hold half of it.
swapped() {
	/guest/pages swap 8 1 $((SEED + round * 2 + $1)) 60
}

read_all() {
	cat "$SYS"/*_stat "$SYS"/meld_mode "/sys/kernel/debug/$DEVICE/${DEVICE}0"/*
	sleep 0.5
}

memory_groups "a group"
mkdir -p $GROUPS_TOP/races
echo 8M >$GROUPS_TOP/races/memory.max
module_load num_devices=1
mount -t debugfs none /sys/kernel/debug 2>/dev/null
loop_new "$SIZE"
BACKING=$loop
begin=$(date +%s)
round=0
while [ $round -eq 0 ] || [ $(($(date +%s) - begin)) -lt "$TIME" ]; do
	round=$((round + 1))
	round_begin
	beside disturb
	beside read_all
	(echo 0 >$GROUPS_TOP/races/cgroup.procs && swapped 0) &
	one=$!
	(echo 0 >$GROUPS_TOP/races/cgroup.procs && swapped 1) &
	ok "a program that is swapped, beside another" wait $!
	ok "and the other" wait $one
	beside_stop
	ok swapoff swapoff "$DEV"
	echo "# round $round: $(tr -s ' \n' ' ' <"$SYS/meld_stat"), bd_stat $(cat "$SYS/bd_stat")"
done
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.12 memory=256 program=chrt
#
# `[watch.guard]` on a real kernel that runs out of memory: what runs away is ended, and
# what holds its memory lives.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

modprobe zram num_devices=0 || exit 1
modprobe -q lz4
memory_groups "guard"
ok "up" zmeld up --tier zram --size 60% --codec lz4 --no-scan
mkdir $GROUPS_TOP/apps
echo +memory >$GROUPS_TOP/apps/cgroup.subtree_control
mkdir $GROUPS_TOP/apps/steady $GROUPS_TOP/apps/runaway $GROUPS_TOP/guard

# Of all that the kernel killed, what did not run away.
others_killed() {
	all=$(sed -n 's/^oom_kill //p' /proc/vmstat)
	own=$(sed -n 's/^oom_kill //p' $GROUPS_TOP/apps/runaway/memory.events)
	echo "# the kernel killed $all, $own of what ran away" >&2
	echo $((all - own))
}

# in_group NAME SCRIPT...: a program in that group.
in_group() {
	group=$1
	shift
	sh -c "echo \$\$ >$GROUPS_TOP/$group/cgroup.procs; $*"
}

# Larger than what runs away is at first, and still; of four letters, two bits each.
in_group apps/steady 'x=$(head -c 30000000 /dev/urandom |
	tr "\000-\377" "[a*64][b*64][c*64][d*64]"); sleep 1000; echo $x' &
steady=$!
cat >/tmp/zmeld.toml <<END
[watch.guard]
end = ["/apps"]
room_below = "30%"
end_below = "10%"
END
sh -c "echo \$\$ >$GROUPS_TOP/guard/cgroup.procs
	exec zmeld-guard --config /tmp/zmeld.toml" 2>>/tmp/said &
guard=$!
# By then it has not grown for ten seconds.
sleep 13
before=$(others_killed)

# runs_away NAME SCRIPT: it is ended, and nothing else is.
runs_away() {
	# As on a machine that has run for a while, zram holds something to judge it by.
	echo 16M >$GROUPS_TOP/apps/steady/memory.reclaim 2>/dev/null
	in_group apps/runaway "$2" >/dev/null 2>&1 &
	runaway=$!
	n=0
	while kill -0 $runaway 2>/dev/null && [ $n -lt 120 ]; do
		sleep 1
		n=$((n + 1))
	done
	# What was done is told after it.
	sleep 1
	sed 's/^/# /' /tmp/said
	grep MemAvailable /proc/meminfo | sed 's/^/# /'
	ended=$((ended + $(grep -c 'ends /apps/runaway: it holds' /tmp/said)))
	ok "$1: it is gone" sh -c "! kill -0 $runaway 2>/dev/null"
	ok "$1: what holds its memory lives" kill -0 $steady
	same "$1: the kernel killed nothing else" "$before" "$(others_killed)"
	# It settles, and groups are chosen anew.
	sleep 5
	: >/tmp/said
}

ended=0
# Of zeros, which take nothing in zram: swap is full at last, and then RAM is.
runs_away "zeros" 'exec tail /dev/zero'
same "zeros: the guard ended it" 1 $ended
# It does not listen.
runs_away "deaf" 'trap "" TERM; exec tail /dev/zero'
same "deaf: the guard ended it" 2 $ended
# What does not compress: swap has room, and nothing fits into it. Whether the guard or
# the kernel comes first is a matter of some looks.
runs_away "random bytes" 'while :; do
	head -c 524288 /dev/urandom
	sleep 0.05
done | tr -d "\n" | tail'
echo "# the guard ended $ended of 3"

zmeld status --json >/tmp/status.json
same "status tells of each" $ended "$(grep -o '"ended_total": *[0-9]*' /tmp/status.json | grep -o '[0-9]*$')"
zmeld status >/tmp/status
sed -n '/^GUARD/,/^[A-Z][A-Z]/p' /tmp/status | sed 's/^/# /'
ok "in words, too" sh -c 'tr -s " \n" " " </tmp/status | grep -q "It ended [23] control groups"'
kill $guard
wait $guard
same "the guard ended as it was told to" 143 $?
kill $steady
ok "down" zmeld down
end

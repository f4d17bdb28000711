#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a machine short of memory does with programs that run away and with others that
# only take much, while VARIANT looks after it: kernel (nothing does), earlyoom, systemd-oomd,
# nohang, or zmeld. `cargo xtask bench guard` runs it, once for each variant.
#
# Each of KINDS, ROUNDS times, with other seeds from SEED on: beside a program that holds
# its memory and one that waits as a shell does. What did not end in LIMIT seconds is
# ended. One line for each: the variant, the kind, then NAME=NUMBER:
#
#	round, seed
#	ended		it is gone, of many groups half
#	seconds		it took
#	code		it ended with; 137 and 143 where it was killed or told to end
#	kernel_killed	of its processes
#	others_lost	what the kernel killed besides, or else is gone
#	wait_ms		the longest that the shell waited
#	watcher_lost	VARIANT's own program is gone

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

# What judges goes on, whatever stands still.
echo -1000 >/proc/self/oom_score_adj
chrt -f -p 2 $$ >/dev/null
mkfifo /tmp/nobody
modprobe zram num_devices=0 || exit 1
modprobe -q lz4
memory_groups "bench"
# As systemd divides it, so that a shell has its share beside any number of processes.
echo +cpu >$GROUPS_TOP/cgroup.subtree_control
groups="apps shell watcher"
answers=
for group in $groups; do mkdir $GROUPS_TOP/$group; done
echo +memory >$GROUPS_TOP/apps/cgroup.subtree_control
mkdir $GROUPS_TOP/apps/steady
zmeld up --tier zram --size 60% --codec lz4 --no-scan >/tmp/up 2>&1 || {
	cat /tmp/up
	exit 1
}
mib=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
disk=$(ls -d /dev/ubda /dev/vda 2>/dev/null | head -n 1)
echo "machine available_mib=$mib"

# in_group GROUP COMMAND... &: as any program is, for the kernel's killer and scheduler.
in_group() {
	group=$1
	shift
	exec chrt -o 0 sh -c "echo 0 >/proc/self/oom_score_adj
		echo \$\$ >$GROUPS_TOP/$group/cgroup.procs
		exec \"\$@\"" sh "$@"
}

steady_start() {
	in_group apps/steady /guest/load hold 1 $((mib / 8)) &
	steady=$!
	sleep 2
}

watcher_start() {
	case $VARIANT in
	kernel)
		watcher=
		return
		;;
	earlyoom) in_group watcher "/guest/earlyoom/usr/bin/earlyoom" >>/tmp/said 2>&1 & ;;
	systemd-oomd) oomd_start ;;
	nohang) nohang_start ;;
	zmeld)
		printf '[watch.guard]\nend = ["/apps"]\n' >/tmp/zmeld.toml
		in_group watcher zmeld-guard --config /tmp/zmeld.toml >>/tmp/said 2>&1 &
		;;
	esac
	watcher=$!
	# As their units set it.
	case $VARIANT in
	earlyoom | nohang) echo -100 >/proc/$watcher/oom_score_adj ;;
	*) echo -900 >/proc/$watcher/oom_score_adj ;;
	esac
	sleep 12
}

# It asks the first program which groups to watch; Debian's defaults for the rest.
oomd_start() {
	mkdir -p /run/systemd/system /run/systemd/oom /etc/systemd
	printf '[OOM]\nDefaultMemoryPressureDurationSec=20s\n' >/etc/systemd/oomd.conf
	rm -f /run/systemd/io.system.ManagedOOM
	/guest/load groups /run/systemd/io.system.ManagedOOM /apps &
	answers="$answers $!"
	in_group watcher "/guest/systemd-oomd/lib/systemd/systemd-oomd" >>/tmp/said 2>&1 &
}

# With the configuration of its package; a program of Python's, which is in packages as well.
nohang_start() {
	files=/guest/nohang
	for it in $files/usr/lib/*-linux-gnu/libffi.so.*.*.*; do ln -sf "$it" "${it%.*.*}"; done
	config=$(find $files/etc $files/usr -name 'nohang.conf' | head -n 1)
	in_group watcher env PYTHONHOME=$files/usr LD_LIBRARY_PATH=$(echo $files/usr/lib/*-linux-gnu) "$files/usr/bin/python3.11" \
		"$(find $files/usr -path '*bin/nohang')" --monitor --config "$config" >>/tmp/said 2>&1 &
}

is_alive() {
	kill -0 "$1" 2>/dev/null
}

killed() {
	sed -n 's/^oom_kill //p' "$1"
}

# What follows is asked while a machine stands still, so no program is started for it.

# Whole seconds: $now.
now() {
	IFS='. ' read -r now _ </proc/uptime
}

# A fifth of a second.
rest() {
	read -r -t 0.2 _ <>/tmp/nobody
}

is_populated() {
	while read -r name value; do
		[ "$name" != populated ] || return $((1 - value))
	done <"$1/cgroup.events"
	return 1
}

# runs_away KIND: it is there; of many groups, so many that memory goes on going.
runs_away() {
	[ "$1" = many-groups ] || {
		is_populated $load
		return
	}
	left=0
	for each in $load/*/; do
		is_populated "$each" && left=$((left + 1))
	done
	[ $left -gt 20 ]
}

# scenario KIND ROUND SEED
scenario() {
	load=$GROUPS_TOP/apps/load
	mkdir $load
	# As on a machine that has run for a while, zram holds something.
	echo 32M >$GROUPS_TOP/apps/steady/memory.reclaim 2>/dev/null
	before=$(killed /proc/vmstat)
	in_group shell /guest/load probe /tmp/waited &
	shell=$!
	sleep 1
	now
	began=$now
	if [ "$1" = many-groups ]; then
		echo +memory >$load/cgroup.subtree_control
		for n in $(seq 40); do
			mkdir $load/$n
			in_group apps/load/$n /guest/load "$1" $(($3 * 100 + n)) "$mib" 2>>/tmp/load &
		done
		# Until the last one is there.
		waited=0
		until is_populated $load/40 || [ $waited = 100 ]; do
			rest
			waited=$((waited + 1))
		done
	else
		in_group apps/load /guest/load "$1" "$3" "$mib" "$disk" 2>/tmp/load &
	fi
	pid=$!
	rest
	while runs_away "$1" && [ $((now - began)) -lt "$LIMIT" ]; do
		rest
		now
	done
	took=$((now - began))
	ended=1
	runs_away "$1" && ended=0
	echo 1 >$load/cgroup.kill
	wait $pid
	code=$?
	[ ! -s /tmp/load ] || cat /tmp/load
	own=$(killed $load/memory.events)
	lost=$(($(killed /proc/vmstat) - before - own))
	[ $lost = 0 ] || dmesg | grep 'Killed process' | tail -n $((lost + own)) | sed 's/^/# /'
	is_alive $shell || {
		echo "# the shell is gone"
		[ $lost -gt 0 ] || lost=1
	}
	kill $shell 2>/dev/null
	wait $shell
	waited=$(cat /tmp/waited 2>/dev/null || echo 0)
	rm -f /tmp/waited
	gone=0
	[ -z "$watcher" ] || is_alive $watcher || gone=1
	is_alive $steady || {
		echo "# what holds its memory is gone"
		[ $lost -gt 0 ] || lost=1
	}
	echo "$VARIANT $1 round=$2 seed=$3 ended=$ended seconds=$took code=$code kernel_killed=$own" \
		"others_lost=$lost wait_ms=$waited watcher_lost=$gone"
	# On a busy host it takes long until all are gone.
	for _ in $(seq 120); do
		rmdir $load/[0-9]* $load 2>/dev/null
		[ -d $load ] || break
		sleep 0.5
	done
	is_alive $steady || steady_start
	[ $gone = 0 ] || watcher_start
	# It settles.
	sleep 4
}

steady_start
watcher_start
seed=$SEED
for round in $(seq "$ROUNDS"); do
	for kind in $KINDS; do
		scenario "$kind" "$round" "$seed"
		seed=$((seed + 1))
	done
done
sed 's/^/# /' /tmp/said 2>/dev/null
[ ! -e /run/zmeld/guard.json ] || grep -E 'late|reaction' /run/zmeld/guard.json | sed 's/^/# /'
kill $steady $watcher $answers 2>/dev/null
wait
exit 0

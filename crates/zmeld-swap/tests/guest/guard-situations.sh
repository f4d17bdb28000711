#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.1 memory=1000 program=chrt urgent load long
#
# Ordinary situations in which a machine runs out of memory, on control groups as systemd makes
# them, of version 2 (with VERSION=1 of version 1): what has to end is ended before the kernel
# comes, and nobody who stands by, each of whom looks at his own memory all the while.
# `cargo xtask bench guard --kind SITUATION` runs it with others in the guard's place (VARIANT),
# and prints a table.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

: "${VARIANT:=}" "${KINDS:=terminal session rests service unnamed compiler together new pod}"
# Emulated, it takes longer.
: "${LIMIT:=600}" "${VERSION:=2}"
# What judges goes on, whatever stands still.
echo -1000 >/proc/self/oom_score_adj
chrt -f -p 2 $$ >/dev/null
mkfifo /tmp/nobody
ONE=user.slice/user-1000.slice
MANAGER=$ONE/user@1000.service
APPS=$MANAGER/app.slice
TWO=user.slice/user-1001.slice

modprobe -q zram num_devices=0
modprobe -q lz4
zmeld up --tier zram --size 30% --codec lz4 --no-scan >/tmp/up 2>&1 || {
	sed 's/^/# /' /tmp/up
	exit 1
}

if [ "$VERSION" = 1 ]; then
	GROUPS_TOP=/tmp/groups-v1/memory LISTS=/tmp/groups-v1/systemd
	mkdir -p $GROUPS_TOP $LISTS
	mount -t cgroup -o memory none $GROUPS_TOP || exit 1
	mount -t cgroup -o none,name=systemd none $LISTS || exit 1
else
	memory_groups "situations"
	LISTS=
fi

# new TOP GROUP: makes it, with those above it.
new() {
	at=$1
	for part in $(echo "$2" | tr / ' '); do
		[ ! -e $at/cgroup.subtree_control ] || echo +memory >$at/cgroup.subtree_control 2>/dev/null
		at=$at/$part
		[ -d $at ] || mkdir $at
	done
}

# in_group GROUP COMMAND...: as any program is, for the kernel's killer and scheduler. Where systemd
# lists processes in a hierarchy of its own it gives a user's manager no group that counts memory.
in_group() {
	group=$1 lists=
	shift
	if [ -n "$LISTS" ]; then
		new $LISTS "$group"
		lists=$LISTS/$group/cgroup.procs
		case $group in *@*.service/*) group=${group%%.service/*}.service ;; esac
	fi
	new $GROUPS_TOP "$group"
	chrt -o 0 sh -c "echo 0 >/proc/self/oom_score_adj
		for list in $lists $GROUPS_TOP/$group/cgroup.procs; do echo \$\$ >\$list; done
		exec \"\$@\"" sh "$@" &
}

# stands GROUP MIB: somebody stands by.
stands() {
	seed=$((seed + 1))
	in_group "$1" /guest/load hold $seed "$2"
	bystanders="$bystanders $!"
}

# runs GROUP MIB RATE: one that has to end.
runs() {
	seed=$((seed + 1))
	in_group "$1" /guest/load grow $seed "$2" "$3"
	runaways="$runaways $!"
}

# Whole seconds: $now.
now() {
	IFS='. ' read -r now _ </proc/uptime
}

rest() {
	read -r -t 0.2 _ <>/tmp/nobody
}

killed() {
	sed -n 's/^oom_kill //p' /proc/vmstat
}

watcher_start() {
	watcher=
	case $VARIANT in
	kernel) return ;;
	earlyoom) in_group guard /guest/earlyoom/usr/bin/earlyoom >>/tmp/said 2>&1 ;;
	systemd-oomd)
		mkdir -p /run/systemd/system /run/systemd/oom /etc/systemd
		printf '[OOM]\nDefaultMemoryPressureDurationSec=20s\n' >/etc/systemd/oomd.conf
		rm -f /run/systemd/io.system.ManagedOOM
		/guest/load groups /run/systemd/io.system.ManagedOOM "/$watched" &
		answers=$!
		in_group guard /guest/systemd-oomd/lib/systemd/systemd-oomd >>/tmp/said 2>&1
		;;
	nohang)
		files=/guest/nohang
		for it in $files/usr/lib/*-linux-gnu/libffi.so.*.*.*; do ln -sf "$it" "${it%.*.*}"; done
		conf=$(find $files/etc $files/usr -name 'nohang.conf' | head -n 1)
		in_group guard env PYTHONHOME=$files/usr LD_LIBRARY_PATH=$(echo $files/usr/lib/*-linux-gnu) $files/usr/bin/python3.11 \
			"$(find $files/usr -path '*bin/nohang')" --monitor --config "$conf" >>/tmp/said 2>&1
		;;
	*)
		printf '[watch.guard]\n%s\n' "$config" >/tmp/zmeld.toml
		in_group guard zmeld-guard --config /tmp/zmeld.toml >>/tmp/said 2>&1
		;;
	esac
	watcher=$!
	case $VARIANT in
	earlyoom | nohang) echo -100 >/proc/$watcher/oom_score_adj ;;
	*) echo -900 >/proc/$watcher/oom_score_adj ;;
	esac
}

# A user's own manager and bus, which are needed whatever runs away.
manager() {
	stands $MANAGER/init.scope 6
	stands $MANAGER/dbus.service 4
}

# Who stands by, and, a while later, what runs away: $1 is `stand` or `run`.
terminal() {
	config='protect = ["vte-spawn-*.scope"]'
	[ "$1" = run ] && runs $APPS/vte-spawn-1.scope 100000 60 && return
	manager
	stands $APPS/firefox.scope 120
	stands $APPS/mail.scope 60
	stands $APPS/vte-spawn-1.scope 4
}
session() {
	config='protect = ["session-*.scope"]'
	[ "$1" = run ] && runs $ONE/session-2.scope 100000 60 && return
	manager
	stands $ONE/session-2.scope 120
	stands $ONE/session-2.scope 40
	stands $TWO/session-3.scope 30
}
rests() {
	[ "$1" = run ] && stands $TWO/session-3.scope 230 && stands $TWO/session-3.scope 150 && return
	manager
	runs $APPS/simulation.scope 730 200
	sleep 8
}
service() {
	[ "$1" = run ] && runs system.slice/cron.service 100000 40 && return
	manager
	stands $APPS/firefox.scope 120
	stands $TWO/session-3.scope 90
	stands system.slice/web.service 40
}
# Nobody pays for who may not be ended: the guard leaves it to the kernel.
unnamed() {
	config='end = ["/user.slice"]'
	service "$1"
}
compiler() {
	[ "$1" = run ] && runs $APPS/editor.scope 100000 50 && return
	manager
	stands $APPS/editor.scope 120
	stands $APPS/firefox.scope 60
	stands $TWO/session-3.scope 60
}
# As much as there is, in 60 groups.
together() {
	if [ "$1" = run ]; then
		for n in $(seq 60); do
			runs $APPS/app-$n.scope 40 1
		done
		return
	fi
	manager
	stands $TWO/session-3.scope 150
	stands $TWO/session-4.scope 60
}
new_one() {
	[ "$1" = run ] && runs $APPS/run-1.scope 100000 400 && return
	manager
	stands $APPS/firefox.scope 120
	stands $TWO/session-3.scope 120
}
pod() {
	pods=kubepods.slice/kubepods-burstable.slice/kubepods-burstable
	[ "$1" = run ] && runs $pods-podaa.slice/cri-containerd-2.scope 100000 50 && return
	stands $pods-podaa.slice/cri-containerd-1.scope 2
	stands $pods-podbb.slice/cri-containerd-3.scope 180
	stands kubepods.slice/kubepods-podcc.slice/cri-containerd-4.scope 100
	stands system.slice/kubelet.service 40
}

# left PIDS: how many of them are there: $left.
left() {
	left=0
	for pid in $1; do
		kill -0 "$pid" 2>/dev/null && left=$((left + 1))
	done
}

situation() {
	bystanders='' runaways='' config='' answers=''
	story=$1
	[ "$story" = new ] && story=new_one
	watched=user.slice
	case $1 in
	service | unnamed) watched=system.slice ;;
	pod) watched=kubepods.slice ;;
	esac
	"$story" stand
	# systemd has it at any time.
	[ -z "$LISTS" ] || new $LISTS system.slice
	: >/tmp/said
	watcher_start
	sleep 6
	before=$(killed)
	"$story" run
	now
	began=$now
	of=$(echo "$runaways" | wc -w)
	[ "$of" -gt 0 ] || exit 1
	# Of many, until no more are ended.
	is_over() {
		left "$runaways"
		[ $left = 0 ] || { [ $of -gt 1 ] && [ $left -lt $of ] && [ $((now - began)) -gt 60 ]; }
	}
	until is_over || [ $((now - began)) -ge "$LIMIT" ]; do
		rest
		now
	done
	took=$((now - began))
	is_over && ended=1 || ended=0
	by_kernel=$(($(killed) - before))
	lost=0
	for pid in $bystanders; do
		kill -0 "$pid" 2>/dev/null || lost=$((lost + 1))
	done
	gone=0
	[ -z "$watcher" ] || kill -0 "$watcher" 2>/dev/null || gone=1
	# Those that live have the memory that they wrote.
	wrong=0
	kill -TERM $bystanders 2>/dev/null
	for pid in $bystanders; do
		wait "$pid"
		case $? in
		0 | 137 | 143 | 127) ;;
		*) wrong=$((wrong + 1)) ;;
		esac
	done
	kill -KILL $runaways $watcher $answers 2>/dev/null
	wait
	sed 's/^/# /' /tmp/said | cut -c 1-400
	echo "${VARIANT:-zmeld} $1 round=1 seed=$seed ended=$ended seconds=$took code=0" \
		"kernel_killed=$by_kernel others_lost=$((lost + wrong)) wait_ms=0 watcher_lost=$gone"
	[ -z "$VARIANT" ] || return
	if [ "$1" = unnamed ]; then
		ok "v$VERSION $1: it is said whose it is" grep -q 'cron.service took most' /tmp/said
		ok "v$VERSION $1: nothing is ended" sh -c '! grep -q ": ends " /tmp/said'
		return
	fi
	same "v$VERSION $1: what has to end is ended" 1 $ended
	same "v$VERSION $1: nobody who stands by is" 0 $lost
	same "v$VERSION $1: nor is his memory another" 0 $wrong
	same "v$VERSION $1: nor does the kernel come" 0 $by_kernel
}

seed=$SEED
for kind in $KINDS; do
	situation "$kind"
	sleep 3
	find $GROUPS_TOP $LISTS -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
done
[ -z "$VARIANT" ] || exit 0
end

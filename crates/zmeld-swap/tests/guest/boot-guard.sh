#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1,6.12 memory=512 systemd long dist load groups-v1=6.1
#
# The guard as the package brings it, in a Debian that systemd started: on control groups
# of version 1 (6.1) and of version 2 (6.12). Services that run away are ended, one that
# holds its memory lives, and so does the guard, which comes back when it is killed. systemd
# says of a service that was ended so (version 2) what it says of one that the kernel ended: oom-kill.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	chroot "$PREPARE" /usr/bin/dpkg -i /guest/zmeld.deb || exit 1
	cat >"$PREPARE/etc/zmeld.toml" <<-END
		[tier.ram]
		kind = "zram"
		size = "60%"
		codec = "lz4"

		[watch.guard]
		end = ["/apps.slice"]
		room_below = "30%"
		end_below = "10%"
	END
	exit 0
fi

killed() {
	sed -n 's/^oom_kill //p' /proc/vmstat
}

# starts UNIT SCRIPT: a service whose control group may be ended.
starts() {
	systemd-run --quiet --unit="$1" --slice=apps.slice \
		--property=TimeoutStopSec=infinity sh -c "$2"
}

system_runs
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	version=2
	groups=/sys/fs/cgroup
	limit=memory.max
else
	version=1
	groups=/sys/fs/cgroup/memory
	limit=memory.limit_in_bytes
fi
case $(uname -r) in
6.1.*) same "control groups are of version" 1 $version ;;
*) same "control groups are of version" 2 $version ;;
esac
ok "zmeld-guard.service runs" active zmeld-guard.service
guard=$(systemctl show --value -p MainPID zmeld-guard.service)
same "the kernel would end all others before it" -1000 "$(cat /proc/"$guard"/oom_score_adj)"
same "its memory has a limit" 134217728 "$(cat $groups/system.slice/zmeld-guard.service/$limit)"

# Of four letters, two bits each.
starts steady 'x=$(head -c 30000000 /dev/urandom |
	tr "\000-\377" "[a*64][b*64][c*64][d*64]"); sleep 100000; echo $x'
sleep 20
before=$(killed)

# runs_away NAME SCRIPT [RESULT]: it is ended, by the guard, and nothing else is; what systemd calls
# its result.
runs_away() {
	since=$(date +%s)
	starts "$1" "$2"
	ok "$1: it is gone" within 300 sh -c "! systemctl -q is-active $1.service"
	ok "$1: the guard ended it" within 300 sh -c \
		"journalctl -o cat -u zmeld-guard.service --since=@$since | grep 'ends .*/apps.slice/$1.service holds most'"
	ok "$1: what holds its memory lives" active steady.service
	same "$1: the kernel killed nothing" "$before" "$(killed)"
	[ $version = 1 ] || same "$1: systemd's result" "${3:-oom-kill}" "$(systemctl show --value -p Result "$1.service")"
	systemctl stop "$1.service" 2>/dev/null
	systemctl reset-failed "$1.service" 2>/dev/null
	sleep 5
}
runs_away leak 'exec /guest/load grow 1 100000 60'
runs_away deaf 'trap "" TERM; exec /guest/load grow 2 100000 60'
# Its shell ends by itself, once what it started was ended.
runs_away forks 'trap "/guest/load grow 3 100000 60 & exit" TERM; /guest/load grow 4 100000 60 & wait' success

kill -KILL "$guard"
ok "killed, it comes back" within 300 sh -c \
	"systemctl -q is-active zmeld-guard.service &&
	[ \$(systemctl show --value -p MainPID zmeld-guard.service) != $guard ]"
sleep 15
runs_away again 'exec /guest/load grow 5 100000 60'
journalctl -o cat -u zmeld-guard.service | sed 's/^/# /'
systemctl stop steady.service
systemctl stop zmeld-guard.service
nothing_failed
ok "down" zmeld down
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um memory=512 systemd trixie long
#
# A program of a desktop's user that fills memory with zeros, after `zmeld enable --profile
# desktop`. The session is one of `systemd --user`, its applications are in scopes as GNOME
# and KDE make them. The scope that grew is ended, and all others live; how long a shell
# waited is told. (Without zmeld this kernel panics: user-mode Linux finds nothing to kill.)

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	cp /usr/bin/zmeld-guard "$PREPARE/usr/bin/"
	chroot "$PREPARE" /usr/sbin/useradd --create-home person
	exit
fi

USER_ID=$(id -u person)
MANAGER=user.slice/user-$USER_ID.slice/user@$USER_ID.service
APPS=$GROUPS_TOP/$MANAGER/app.slice
TERMINAL=app-org.gnome.Terminal.slice

# app UNIT SCRIPT [OPTION...]: as a desktop starts a program of its user's.
app() {
	unit=$1
	script=$2
	shift 2
	# This script is spared by the kernel, as what it starts would be.
	setsid sh -c 'echo 200 >/proc/self/oom_score_adj; exec "$@"' sh runuser -u person -- env XDG_RUNTIME_DIR=/run/user/"$USER_ID" \
		systemd-run --user --scope --quiet --collect --unit="$unit" "$@" sh -c "$script" \
		>/dev/null 2>&1 &
}

is_there() {
	grep -qs '^populated 1' "$APPS/$1/cgroup.events"
}

# Every tenth of a second a program is started: /tmp/waited has the longest that this took
# beside, in hundredths of a second.
SHELL_WAITS='read -r up _ </proc/uptime
	last=${up%.*}${up#*.}
	most=0
	while :; do
		[ -e /tmp/waited ] || most=-1
		sleep 0.1
		read -r up _ </proc/uptime
		now=${up%.*}${up#*.}
		[ $((now - last - 10)) -le $most ] || {
			most=$((now - last - 10))
			echo $most >/tmp/waited
		}
		last=$now
	done'
# Of four letters, two bits each; looked at again and again.
HOLDS='x=$(head -c 40000000 /dev/urandom | tr "\000-\377" "[a*64][b*64][c*64][d*64]")
	while :; do sleep 1; : "${x%a}"; done'

session() {
	systemctl start "user@$USER_ID.service"
	app org.gnome.Shell.scope "$HOLDS" --slice=session.slice
	app vte-spawn-1.scope "rm -f /tmp/waited; $SHELL_WAITS" --slice=$TERMINAL
	app app-gnome-editor-2.scope "$HOLDS" --slice=app.slice
	sleep 15
}

# runs_away WITH: a browser's tab, in a scope of its own, until it ended or 90 s passed.
runs_away() {
	rm -f /tmp/waited
	read -r begin _ </proc/uptime
	app app-gnome-browser-3.scope "exec dd if=/dev/zero of=/dev/null bs=2000M count=1" --slice=app.slice
	within 300 is_there app-gnome-browser-3.scope
	ended=no
	within 90 sh -c "! grep -qs '^populated 1' $APPS/app-gnome-browser-3.scope/cgroup.events" &&
		ended=yes
	read -r now _ </proc/uptime
	echo "# $1: the tab ended: $ended, after $((${now%.*} - ${begin%.*})) s; a shell waited" \
		"$(cat /tmp/waited) hundredths of a second at most, swap is" \
		"$(awk 'NR > 1 { print $4 * 100 / $3 }' /proc/swaps) % full"
}

lives() {
	active "user@$USER_ID.service" && is_there app-gnome-editor-2.scope &&
		is_there "$TERMINAL/vte-spawn-1.scope" &&
		grep -q '^populated 1' "$GROUPS_TOP/$MANAGER/session.slice/org.gnome.Shell.scope/cgroup.events"
}

system_runs
# One that asks for more than there is is refused in a machine so small.
echo 1 >/proc/sys/vm/overcommit_memory
session
ok "a session, a shell, an editor" lives
ok "zmeld enable --profile desktop" quietly zmeld enable --profile desktop
sed 's/^/# /' /etc/zmeld.toml
ok "the guard runs" within 300 active zmeld-guard.service
sleep 12
before=$(sed -n 's/^oom_kill //p' /proc/vmstat)
for round in 1 2; do
	runs_away "with zmeld, $round"
	same "$round: the tab has ended" yes $ended
	ok "$round: the session, its shell and the editor live" lives
	sleep 12
done
ok "the guard ended it" sh -c "journalctl -o cat -u zmeld-guard.service |
	grep -c 'ends dd (.*/user.slice/user-$USER_ID.slice holds most' | grep -q '^2$'"
same "the kernel killed nothing" "$before" "$(sed -n 's/^oom_kill //p' /proc/vmstat)"
journalctl -o cat -u zmeld-guard.service | sed 's/^/# /'
systemctl stop "user@$USER_ID.service"
ok "zmeld disable" zmeld disable
nothing_failed
end

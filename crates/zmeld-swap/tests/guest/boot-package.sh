#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1,6.1-arm64,6.12-arm64-16k memory=512 systemd long dist
#
# The package as a stranger has it: installed in a Debian, three lines of
# configuration, a boot. Swap is there before services start. Then an upgrade, a
# removal, and a purge of what was installed again.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	chroot "$PREPARE" /usr/bin/dpkg -i /guest/zmeld.deb || exit 1
	cat >"$PREPARE/etc/zmeld.toml" <<-END
		[tier.ram]
		kind = "zram"
		size = "50%"
	END
	# A service like any other, which is told of nothing.
	cat >"$PREPARE/etc/systemd/system/ordinary.service" <<-END
		[Service]
		Type=oneshot
		ExecStart=/bin/cp /proc/swaps /run/swaps-seen
	END
	ln -s ../ordinary.service "$PREPARE/etc/systemd/system/multi-user.target.wants/"
	exit 0
fi
DEVICE=zram SYS=/sys/block/zram0

system_runs
ok "swap is on" swaps_on /dev/zram0
ok "by zmeld.service" active zmeld.service
ok "it was there before services start" before_services
ok "an ordinary service found it" grep -q '^/dev/zram0 ' /run/swaps-seen
ok "status has no findings" status
ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'

export DEBIAN_FRONTEND=noninteractive
cp /etc/zmeld.toml /tmp/kept
before=$(awk '$1 == "/dev/zram0" { print $1, $3 }' /proc/swaps)
ok "an upgrade" quietly dpkg -i /guest/next.deb
same "swap stays on" "$before" "$(awk '$1 == "/dev/zram0" { print $1, $3 }' /proc/swaps)"
ok "the configuration stays" cmp -s /etc/zmeld.toml /tmp/kept
ok "its service stays" active zmeld.service
ok "status has no findings after it" status
# From here on memory is short, which is a finding for minutes.
/guest/pages swap 500 1 "$SEED" 30
same "memory is right under pressure" 0 $?

# Pages that do not fit back.
swap_out 120 30 60000000
ok "removing is refused while they do not fit back" sh -c '! dpkg -r zmeld >/tmp/said 2>&1'
sed 's/^/# /' /tmp/said
ok "it says so" grep -q 'not removed' /tmp/said
same "swap is still on" "$before" "$(awk '$1 == "/dev/zram0" { print $1, $3 }' /proc/swaps)"
# shellcheck disable=SC2154
kill -CONT "$pages" && wait "$pages"
same "memory came back right" 0 $?
ok "when they fit, it is removed" quietly dpkg -r zmeld
same "no swap is left" 1 "$(wc -l </proc/swaps)"
ok "no unit of it is left running" sh -c '! systemctl -q is-active zmeld.service'
nothing_failed
ok "the configuration is still there" cmp -s /etc/zmeld.toml /tmp/kept
ok "it is installed again" quietly dpkg -i /guest/zmeld.deb
ok "and sets up what it did" zmeld up
ok "it is purged" quietly dpkg -P zmeld
same "no swap is left by that" 1 "$(wc -l </proc/swaps)"
ok "and no configuration" [ ! -e /etc/zmeld.toml ]
ok "and no state" [ ! -e /run/zmeld ]
find / -xdev -iname '*zmeld*' ! -path '/usr/lib/guest/*' ! -path '/var/log/*' >/tmp/left
sed 's/^/# left: /' /tmp/left
same "nor anything else of its name" 0 "$(wc -l </tmp/left)"
end

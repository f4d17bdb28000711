#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.12 memory=640 systemd long
#
# The watch and the guard with what their units leave them: few capabilities, no network,
# few system calls. They work on what belongs to another user all the same.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	cp /usr/bin/zmeld-guard "$PREPARE/usr/bin/"
	mkdir "$PREPARE/var/lib/figures" && chown 65534 "$PREPARE/var/lib/figures"
	exit
fi

pid_of() {
	systemctl show --value -p MainPID "$1.service"
}

# of_process UNIT FIELD: what the kernel says of its process.
of_process() {
	sed -n "s/^$2:[[:space:]]*//p" "/proc/$(pid_of "$1")/status"
}

# Field 41 of stat is the policy, 1 is SCHED_FIFO.
hurries() {
	cat /proc/"$(pid_of zmeld-guard)"/task/*/stat | cut -d ' ' -f 41 | grep -qx 1
}

# starts UNIT SCRIPT: a service of another user's, whose control group is his, too.
starts() {
	systemd-run --quiet --collect --unit="$1" --slice=apps.slice --uid=65534 \
		--property=Delegate=yes --property=TimeoutStopSec=infinity sh -c "$2"
	chown -R 65534 "$STEADY" 2>/dev/null
}

STEADY=/sys/fs/cgroup/apps.slice/steady.service
said() {
	journalctl -o cat -u zmeld-watch.service -u zmeld-guard.service
}

system_runs
cat >/etc/zmeld.toml <<-END
	[tier.ram]
	kind = "zram"
	size = "60%"

	[watch]
	interval = "1s"
	cpu_pressure_max = "100%"

	[watch.reclaim]
	groups = ["/apps.slice/steady.service"]
	idle_after = "10s"
	step = "5%"

	[watch.guard]
	end = ["/apps.slice"]
	room_below = "30%"
	end_below = "10%"

	[metrics]
	textfile = "/var/lib/figures/zmeld.prom"
END
ok "zmeld enable" zmeld enable
ok "the watch runs" within 300 active zmeld-watch.service
ok "the guard runs" within 300 active zmeld-guard.service
same "the watch has CAP_DAC_OVERRIDE" 0000000000000002 "$(of_process zmeld-watch CapEff)"
same "the guard may end, lock and hurry, too" 0000000000804022 "$(of_process zmeld-guard CapEff)"
ok "its memory is locked" test "$(of_process zmeld-guard VmLck | tr -dc 0-9)" -gt 0
ok "it runs before others" within 300 hurries
ok "figures come into a folder of another user's" within 300 test -s /var/lib/figures/zmeld.prom
ok "they find what root finds" within 300 sh -c \
	'zmeld metrics | grep "^zmeld_finding" >/tmp/found
		grep "^zmeld_finding" /var/lib/figures/zmeld.prom | cmp - /tmp/found'
# Of four letters, two bits each.
starts steady 'x=$(head -c 30000000 /dev/urandom |
	tr "\000-\377" "[a*64][b*64][c*64][d*64]"); sleep 100000; echo $x'
ok "what another user's program does not use is reclaimed" within 600 \
	sh -c "[ \$(cat $STEADY/memory.swap.current) -gt 10000000 ]"
starts zeros 'exec tail /dev/zero'
ok "another user's program that runs away is gone" within 300 \
	sh -c '! systemctl -q is-active zeros.service'
ok "the guard ended it" within 300 sh -c \
	"journalctl -o cat -u zmeld-guard.service | grep 'ends /apps.slice/zeros.service'"
ok "the other one lives" active steady.service
said | sed 's/^/# /'
ok "nothing was refused" sh -c \
	'! journalctl -o cat -u zmeld-watch.service -u zmeld-guard.service |
		grep -iE "not permitted|denied|read-only|swapped out, so"'
systemctl stop steady.service
ok "zmeld disable" zmeld disable
nothing_failed
end

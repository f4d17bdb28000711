#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1,6.12 memory=512 systemd long
#
# A boot under systemd with zmeld's generator: a tier in RAM, an optional drive
# that is missing, figures for Prometheus. The boot does not wait for the drive;
# when it shows up, its tier is set up.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	ln -s /usr/bin/zmeld "$PREPARE/usr/lib/systemd/system-generators/zmeld-generator"
	mkdir -p "$PREPARE/var/lib/metrics"
	cat >"$PREPARE/etc/zmeld.toml" <<-END
		[tier.ram]
		kind = "zram"
		size = "50%"
		memory_limit = "25%"
		codec = "lz4"

		[tier.late]
		kind = "disk"
		device = "LABEL=late-drive"
		optional = true
		timeout = "20min"

		[tunables]
		swappiness = 180
		page_cluster = 0

		[metrics]
		textfile = "/var/lib/metrics/zmeld.prom"
	END
	exit 0
fi

status_has() {
	zmeld status --json | tr -d ' \n' | grep -q "$1"
}

ok "multi-user.target is reached" within 300 active multi-user.target
ok "so is swap.target" active swap.target
ok "the drive is still waited for" sh -c 'systemctl list-jobs | grep -q late'
ok "the tier in RAM is there" swaps_on /dev/zram0
ok "zmeld.service has set it up" active zmeld.service
ok "status tells of it" status_has '"name":"zram0","set_up_as":"ram","kind":"zram","codec":"lz4"'
same "the limit is the one configured" \
	"$(awk '/^MemTotal:/ { print int($2 / 4 / 4) * 4096 }' /proc/meminfo)" \
	"$(awk '{ print $4 }' /sys/block/zram0/mm_stat)"
same "the tunables are set" "180 0" \
	"$(echo $(cat /proc/sys/vm/swappiness /proc/sys/vm/page-cluster))"
ok "zmeld watch runs" within 300 active zmeld-watch.service
ok "and writes its figures" within 300 grep -q '^zmeld_tier' /var/lib/metrics/zmeld.prom
systemctl --no-pager --failed
nothing_failed

# The drive shows up.
modprobe loop
truncate -s 64M /var/late
chmod 600 /var/late
mkswap -q -L late-drive /var/late
losetup /dev/loop0 /var/late
ok "a drive that shows up late gets its tier" within 300 swaps_on /dev/loop0
ok "by its service" within 300 active zmeld-tier-late.service
systemctl is-system-running --wait
same "the system runs, without anything left to do" running \
	"$(systemctl is-system-running)"

/guest/pages swap 500 1 "$SEED" 30
same "memory is right under pressure" 0 $?
out=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
ok "pages were swapped ($out)" [ "$out" -gt 1000 ]

ok "status finds nothing that was not applied" sh -c \
	'! zmeld status --json | grep -q "\"id\": \"not-applied\""'
ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
ok "down" zmeld down
same "no swap is left" 1 "$(wc -l </proc/swaps)"
ok "up" zmeld up
ok "systemctl stop takes down" systemctl stop zmeld-tier-late.service
ok "only its own" swaps_on /dev/zram0
ok "not the drive" sh -c '! grep -q loop0 /proc/swaps'

# The machine is switched off with pages in swap.
dd if=/dev/urandom of=/dev/shm/held bs=1M count=20 2>/dev/null
/guest/pages swap 450 1 "$SEED" 30
ok "pages are left in swap" [ "$(awk 'NR == 2 { print $4 }' /proc/swaps)" -gt 1000 ]
journalctl -b -o cat -u 'zmeld*' | sed 's/^/# /'
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um memory=512 systemd long
#
# `zmeld enable` and `zmeld disable` in a Debian that systemd started and that has no
# package of zmeld: the program alone.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

[ -z "$PREPARE" ] || exit 0

# shellcheck disable=SC2034
DEVICE=zram SYS=/sys/block/zram0
GENERATOR=/etc/systemd/system-generators/zmeld-generator

nothing_is_left() {
	! swaps_on /dev/zram0 && ! active zmeld.service && ! active zmeld-watch.service &&
		[ ! -e $GENERATOR ] && [ ! -e /etc/zmeld.toml ] &&
		[ -z "$(systemctl cat zmeld.service 2>/dev/null)" ]
}

refused() {
	! "$@" >/tmp/said 2>&1 && sed 's/^/# /' /tmp/said
}

systemctl is-system-running --wait >/dev/null
cp /usr/bin/zmeld /tmp/zmeld
ok "a program that others could replace is not enabled" refused /tmp/zmeld enable
ok "it says how to install it" grep -q 'install -m 755' /tmp/said
ok "a codec that there is not is refused" refused zmeld enable --tier zram --codec nosuch
ok "so is a profile that the machine cannot have" refused zmeld enable --profile pi
zmeld enable --dry-run --tier zram --size 50% --codec lzo-rle >/tmp/said
ok "a dry run says what would be written" grep -q 'has the configuration above' /tmp/said
ok "and started" grep -q '^start .*zmeld' /tmp/said
ok "nothing is half written" nothing_is_left

ok "one line sets up, now and at every boot" \
	zmeld enable --tier zram --size 50% --codec lzo-rle
ok "swap is on" swaps_on /dev/zram0
ok "by a unit of the generator" active zmeld.service
ok "the configuration says so" grep -q 'codec = "lzo-rle"' /etc/zmeld.toml
ok "another choice over it is refused" refused zmeld enable --tier zram --size 25%
ok "a second time changes nothing" zmeld enable
ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
cp /etc/zmeld.toml /tmp/kept

zmeld disable --dry-run >/tmp/said
ok "a dry run says what would be renamed" grep -q '^/etc/zmeld.toml becomes /etc/zmeld.toml.disabled$' /tmp/said
ok "nothing is disabled" active zmeld.service
ok "what is disabled is gone" zmeld disable
ok "with all of it" nothing_is_left
ok "a dry run names what would be renamed" sh -c 'zmeld enable --dry-run | grep -q "becomes /etc"'
ok "and does not" nothing_is_left
ok "but the configuration" cmp -s /etc/zmeld.toml.disabled /tmp/kept
ok "which is enabled again" zmeld enable
ok "as it was" cmp -s /etc/zmeld.toml /tmp/kept
ok "with its swap" swaps_on /dev/zram0

printf '\n[watch.guard]\nend = ["/user.slice"]\n' >>/etc/zmeld.toml
ok "a guard whose program is not there is told" refused zmeld enable
ok "with the way out" grep -q 'needs /usr/bin/zmeld-guard' /tmp/said
cp /tmp/kept /etc/zmeld.toml
printf '\n[metrics]\ntextfile = "/run/zmeld.prom"\n' >>/etc/zmeld.toml
ok "services of a changed configuration" zmeld enable
ok "are started" active zmeld-watch.service
echo "size = " >>/etc/zmeld.toml
ok "a mistake is told" refused zmeld enable
ok "and what runs goes on" active zmeld-watch.service
sed -i '$d' /etc/zmeld.toml

# Pages that do not fit back.
swap_out 130 30 110000000
ok "disabling is refused while they do not fit back" refused zmeld disable
ok "what ran runs" active zmeld-watch.service
ok "and swap is on" swaps_on /dev/zram0
# shellcheck disable=SC2154
kill -KILL "$pages"
wait "$pages"
ok "then it is disabled" zmeld disable
ok "and all is gone" nothing_is_left

# Without a tier in RAM there is no zmeld.service to stop.
(umask 077 && dd if=/dev/zero of=/root/area bs=1M count=32 2>/dev/null)
loop=$(losetup --find --show /root/area)
printf '[tier.d]\nkind = "disk"\ndevice = "%s"\nformat = true\n' "$loop" >/etc/zmeld.toml
rm /etc/zmeld.toml.disabled
ok "a drive alone is enabled" zmeld enable
ok "and swapped to" swaps_on "$loop"
ok "then it is disabled" zmeld disable
ok "and all is gone again" nothing_is_left
ok "with its unit" [ -z "$(systemctl cat zmeld-tier-d.service 2>/dev/null)" ]
losetup --detach "$loop"
nothing_failed
end

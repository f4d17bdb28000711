#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1 memory=512 systemd long disk=128 disk=128
#
# A boot under systemd with two encrypted drives, one that a key file opens and one
# with a key of its own each boot, zswap in front, and an optional encrypted drive
# that is missing. The key file is on a mount that comes after swap: a boot that waited for it
# would be a cycle. An area whose hibernation was not resumed is swap again.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	ln -s /usr/bin/zmeld "$PREPARE/usr/lib/systemd/system-generators/zmeld-generator"
	(umask 077 && dd if=/dev/urandom of="$PREPARE/etc/zmeld.key" bs=64 count=1 2>/dev/null)
	mkdir "$PREPARE/keys" "$PREPARE/late"
	mv "$PREPARE/etc/zmeld.key" "$PREPARE/keys"
	echo "/keys /late none bind,_netdev 0 0" >>"$PREPARE/etc/fstab"
	cat >"$PREPARE/etc/zmeld.toml" <<-END
		[tier.cache]
		kind = "zswap"
		compressor = "lz4"
		max_pool_percent = 5

		[tier.lasting]
		kind = "disk"
		device = "/dev/disk/by-id/virtio-disk0"
		format = true
		encryption = "luks"
		key_file = "/late/zmeld.key"

		[tier.fleeting]
		kind = "disk"
		device = "/dev/disk/by-id/virtio-disk1"
		encryption = "random"

		[tier.missing]
		kind = "disk"
		device = "/dev/disk/by-id/virtio-gone"
		encryption = "random"
		optional = true
		timeout = "5s"
	END
	exit 0
fi

# How many areas there are on encrypted drives.
encrypted() {
	zmeld status --json | grep -c '"kind": "encrypted_disk"'
}

system_runs
ok "multi-user.target is reached" active multi-user.target
ok "the LUKS volume is swapped to" active zmeld-tier-lasting.service
ok "so is the one with a random key" active zmeld-tier-fleeting.service
ok "the one that is missing is not" sh -c '! systemctl -q is-active zmeld-tier-missing'
ok "systemd left nothing out for a cycle" sh -c '! journalctl -b | grep "ordering cycle"'
ok "it is a LUKS2 volume" sh -c 'cryptsetup luksDump /dev/vda | grep -q "Version:.*2"'
same "status shows both" 2 "$(encrypted)"
ok "by the names that the configuration has for them" sh -c \
	'zmeld status --json | grep -q "\"set_up_as\": \"lasting\""'
ok "and finds nothing that was not applied" sh -c \
	'! zmeld status --json | grep -q "\"id\": \"not-applied\""'
same "zswap is in front" Y "$(cat /sys/module/zswap/parameters/enabled)"
same "with what is configured" "lz4 5" \
	"$(echo $(cat /sys/module/zswap/parameters/compressor /sys/module/zswap/parameters/max_pool_percent))"

/guest/pages swap 500 1 "$SEED" 0
same "memory is right under pressure" 0 $?
out=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
ok "pages were swapped ($out)" [ "$out" -gt 1000 ]

ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
ok "down" zmeld down
same "no swap is left" 1 "$(wc -l </proc/swaps)"
same "no mapping is left" "No devices found" "$(dmsetup ls)"
same "zswap is off" N "$(cat /sys/module/zswap/parameters/enabled)"
# The start and the end of the drive, where signatures stand, were left alone.
same "no ciphertext is where wipefs looks" "$(head -c 5242880 /dev/zero | sha256sum)" \
	"$( (head -c 4194304 /dev/vdb; tail -c 1048576 /dev/vdb) | sha256sum)"
mkswap --quiet --label old /dev/vdb
printf 'S1SUSPEND\0' | dd of=/dev/vdb bs=1 seek=4086 conv=notrunc 2>/dev/null
udevadm trigger --settle /dev/vdb
uuid=$(blkid -p -s UUID -o value /dev/vdb)
printf '[tier.old]\nkind = "disk"\ndevice = "UUID=%s"\n' "$uuid" >/tmp/old.toml
ok "an image that was not resumed is swap again" zmeld up --config /tmp/old.toml
ok "and swapped to" swaps_on /dev/vdb
ok "down again" zmeld down
wipefs --quiet --all /dev/vdb
ok "up again" zmeld up
same "both are back" 2 "$(encrypted)"

# The machine is switched off with pages in swap.
/guest/pages swap 450 1 "$SEED" 0
ok "pages are left in swap" [ "$(awk 'NR > 1 { sum += $4 } END { print sum }' /proc/swaps)" -gt 500 ]
journalctl -b -o cat -u 'zmeld*' | sed 's/^/# /'
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.12 memory=512 systemd long reboots disk=64 disk=65 disk=66 disk=67 disk=68 disk=69
#
# The swap of fstab and crypttab, first switched on by systemd, then imported and switched on by
# zmeld after a reboot: the same areas, priorities, encryption, discards.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

KEPT=/var/lib/guest-imported
ID=/dev/disk/by-id/virtio-disk

if [ -n "$PREPARE" ]; then
	mkdir -p "$PREPARE$KEPT"
	ln -sf /usr/bin/zmeld "$PREPARE/usr/lib/systemd/system-generators/zmeld-generator"
	exit 0
fi

# reboot STAGE: what comes after it is that.
reboot() {
	echo "$checks $failures $1" >$KEPT/count
	sync
	systemctl reboot
	exec sleep infinity
}

stage=made
[ ! -e $KEPT/count ] || read -r checks failures stage <$KEPT/count
systemctl is-system-running --wait >/dev/null
systemctl --no-pager --failed

if [ "$stage" = made ]; then
	(umask 077 && mkdir /etc/keys && dd if=/dev/urandom of=/etc/keys/swap bs=64 count=1 &&
		dd if=/dev/zero of=/swapfile bs=1M count=40) 2>/dev/null
	mkswap -q /swapfile
	mkswap -q --uuid 0b0e5a52-3f1e-4b6c-9d0b-6a2f5b7c0001 ${ID}0
	mkswap -q --label 'my swap' ${ID}1
	cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ${ID}3 /etc/keys/swap
	cryptsetup open --key-file /etc/keys/swap ${ID}3 made
	mkswap -q /dev/mapper/made
	cryptsetup close made
	cat >>/etc/fstab <<-END
		UUID=0b0e5a52-3f1e-4b6c-9d0b-6a2f5b7c0001 none swap sw,pri=5,discard=once 0 0
		LABEL=my\\040swap none swap defaults,nofail,pri=7,discard=pages 0 0
		/swapfile none swap sw,pri=3 0 0
		/dev/mapper/fresh none swap sw,discard 0 0
		/dev/mapper/kept none swap sw,pri=2,discard 0 0
		/dev/mapper/stays none swap sw,pri=1 0 0
		${ID}5 none swap x-systemd.makefs,pri=9 0 0
		UUID=0b0e5a52-3f1e-4b6c-9d0b-6a2f5b7c0009 none swap nofail,x-systemd.device-timeout=5s 0 0
		/dev/disk/by-partlabel/never none swap noauto 0 0
	END
	cat >/etc/crypttab <<-END
		# name device key options
		fresh ${ID}2 /dev/urandom swap,cipher=aes-xts-plain64,size=512,discard
		kept ${ID}3 /etc/keys/swap luks,discard
		stays ${ID}4 /dev/urandom swap,cipher=aes-xts-plain64,size=256,sector-size=4096
	END
	reboot systemd
fi

# flags AREA: what the kernel says of it behind its size, of discards above all.
flags() {
	dmesg | sed -n 's/.*Adding .* swap on \(.*\)\.  Priority.* across:[0-9]*k */\1 /p' |
		while read -r path said; do
			[ "$(readlink -f "$path")" != "$1" ] || echo "$said"
		done | tail -n 1
}

# Each area: what it is on, its priority (none where the kernel chose it), what the kernel says
# of discards, and what it is encrypted by, without the key.
areas() {
	awk 'NR > 1 { print $1, $5 }' /proc/swaps | while read -r area priority; do
		[ "$priority" -ge 0 ] || priority=none
		device=$area encryption=
		if [ "${area#/dev/dm-}" != "$area" ]; then
			device=/dev/$(ls "/sys/block/${area#/dev/}/slaves")
			encryption=$(dmsetup table "$area" | awk '{ print $3, $4, length($5), $9, $10, $11, $12 }')
		fi
		case $device in
		/dev/*) device=$(($(cat "/sys/block/${device#/dev/}/size") / 2048)) ;;
		esac
		echo "$device, priority $priority, $(flags "$area"), $encryption"
	done | sort
}

areas >/tmp/areas
sed 's/^/# /' /tmp/areas
if [ "$stage" = systemd ]; then
	same "systemd switched on all that are there" 7 "$(wc -l </tmp/areas)"
	same "and of those three are encrypted" 3 "$(grep -c crypt /tmp/areas)"
	cp /tmp/areas $KEPT/areas
	ok "it is imported" quietly zmeld config import --output /etc/zmeld.toml
	sed 's/^/# /' /etc/zmeld.toml
	same "what zmeld does not open is named" 1 "$(tr '\n' ' ' </tmp/said | grep -c 'sector-size=4096": it stays')"
	# As the file says.
	grep -o '/etc/fstab:[0-9]*:' /etc/zmeld.toml | cut -d: -f2 | while read -r number; do
		sed -i "${number}s/ swap \([a-z]\)/ swap noauto,\1/" /etc/fstab
	done
	sed -i '/^fresh\|^kept/d' /etc/crypttab
	quietly zmeld config check
	ok "and is what a check takes" [ $? -le 1 ]
	# Volumes that systemd has open are not taken from it.
	quietly zmeld enable
	ok "zmeld enable says what is in use" grep -q "which is in use" /tmp/said
	reboot zmeld
fi
ok "the same areas, priorities, encryption and discards" diff $KEPT/areas /tmp/areas
same "zmeld switched on all of them" 7 "$(systemctl list-units --no-legend 'zmeld-tier-*' --state=active | wc -l)"
ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
ok "status finds nothing that was not applied" sh -c \
	'! zmeld status --json | grep -q "\"id\": \"not-applied\""'
ok "systemd left nothing out for a cycle" sh -c '! journalctl -b | grep "ordering cycle"'
/guest/pages swap 500 1 "$SEED" 0
same "memory is right under pressure" 0 $?
ok "down" quietly zmeld down
# What zmeld does not open stays with systemd.
same "no swap is left" 1 "$(wc -l </proc/swaps)"
ok "and the volume that stays is there" [ -e /dev/mapper/stays ]
end

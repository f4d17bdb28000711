#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: packages=zram-tools,systemd-zram-generator
#
# What was written for zram runs on zmeld under zram's names, unchanged: zramctl,
# zram-tools, zram-generator.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_unload
rmmod zram 2>/dev/null
ok "zmeld takes zram's names" modprobe zmeld drop_in=1 num_devices=1
SYS=/sys/block/zram0
DEV=/dev/zram0
ok "/dev/zram0 is there" [ -b /dev/zram0 ]
ok "zram-control is there" [ -e /sys/class/zram-control/hot_add ]
ok "zram itself is kept out" sh -c "! modprobe zram 2>/dev/null || [ ! -e /sys/block/zram1 ]"

# zramctl as util-linux has it.
codec=$(codecs | awk '{ print $1 }')
if command -v zramctl >/dev/null; then
	name=$(zramctl --find --size 48M --algorithm "$codec")
	same "zramctl --find" /dev/zram0 "$name"
	same "the size that it set" $((48 << 20)) "$(cat $SYS/disksize)"
	/guest/pages fill /dev/zram0 500 "$SEED" 0
	same "zramctl lists it" "/dev/zram0 $codec 50331648" \
		"$(zramctl --noheadings --bytes --raw --output NAME,ALGORITHM,DISKSIZE)"
	same "zramctl's DATA" $((500 * PAGE)) \
		"$(zramctl --noheadings --bytes --raw --output DATA)"
	ok "zramctl --reset" zramctl --reset /dev/zram0
	# Of a device that it has reset, zramctl also asks hot_remove.
	[ -e $SYS ] || cat /sys/class/zram-control/hot_add >/dev/null
	same "and it is" 0 "$(cat $SYS/disksize)"
else
	skip zramctl "the machine has none"
fi

# zram-tools: its script as Debian ships it.
if [ -e /guest/zram-tools/usr/sbin/zramswap ]; then
	# As docs/kernel-module.md has it: who asks for zram gets zmeld.
	mkdir -p /etc/default /etc/modprobe.d
	printf 'options zmeld drop_in=1\ninstall zram modprobe zmeld num_devices=1\n' \
		>/etc/modprobe.d/zmeld.conf
	printf 'ALGO=%s\nPERCENT=25\nPRIORITY=100\n' "$codec" >/etc/default/zramswap
	ok "zramswap start" bash /guest/zram-tools/usr/sbin/zramswap start
	ok "swap is on" grep -q /dev/zram0 /proc/swaps
	ok "zramswap status" bash /guest/zram-tools/usr/sbin/zramswap status
	ok "zramswap stop" bash /guest/zram-tools/usr/sbin/zramswap stop
	ok "swap is off" sh -c "! grep -q /dev/zram0 /proc/swaps"
else
	skip zram-tools "the package could not be had"
fi

# zram-generator: its binary, as the unit that it makes would call it.
generator=$(find /guest/systemd-zram-generator -name zram-generator -type f 2>/dev/null |
	grep system-generators)
if [ -n "$generator" ]; then
	rmmod zmeld
	modprobe zmeld drop_in=1 num_devices=1
	mkdir -p /etc/systemd /tmp/units
	# systemd's own program for this, of which only making swap is needed.
	if [ ! -e /usr/lib/systemd/systemd-makefs ]; then
		mkdir -p /usr/lib/systemd
		printf '#!/bin/sh\nexec mkswap "$2"\n' >/usr/lib/systemd/systemd-makefs
		chmod +x /usr/lib/systemd/systemd-makefs
	fi
	printf '[zram0]\nzram-size = 40\ncompression-algorithm = %s\n' "$codec" \
		>/etc/systemd/zram-generator.conf
	"$generator" /tmp/units /tmp/units /tmp/units >/tmp/said 2>&1
	ok "zram-generator makes its units" [ -e /tmp/units/dev-zram0.swap ]
	"$generator" --setup-device zram0 >/tmp/said 2>&1
	sed 's/^/# /' /tmp/said
	same "zram-generator --setup-device" $((40 << 20)) "$(cat $SYS/disksize)"
	ok "the codec that it set" grep -q "\[$codec\]" $SYS/comp_algorithm
	"$generator" --reset-device zram0 >/tmp/said 2>&1
	same "zram-generator --reset-device" 0 "$(cat $SYS/disksize)"
else
	skip zram-generator "the package could not be had"
fi
ok "the module can be unloaded" rmmod zmeld
end

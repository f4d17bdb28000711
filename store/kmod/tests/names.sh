#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um script=../../../docs/kernel-module.md
#
# The same lines on this kernel's zram and on zmeld under its names: where what comes of
# them differs, it is as the table of docs/kernel-module.md says, and that says no more.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

DOC=/guest/kernel-module.md
SYS=/sys/block/zram0
DEV=/dev/zram0

# Lines that are tried, each on a device as new; those behind "full" on one of 16 MB full of pages.
lines() {
	cat <<'LINES'
ls -d /sys/module/zram
modprobe -r zram; ls -d /dev/zram0; modprobe zram
echo zstd >comp_algorithm; echo 32T >disksize; cat initstate; grep -o '\[.*\]' comp_algorithm
echo 842 >comp_algorithm
echo zstd >comp_algorithm; echo dict=/bin/sh >algorithm_params
echo deflate >comp_algorithm; echo deflate.winbits=-12 >algorithm_params
echo level=1 other=1 >algorithm_params
echo algo=lz4 priority=1 other=1 >recomp_algorithm
echo 18446744073709551615 >mem_limit
echo 1023 >mem_limit; echo 4M >disksize; cut -c28-36 mm_stat
echo lzo >comp_algorithm; echo level=5 >algorithm_params; echo 4M >disksize
echo lz4 >comp_algorithm; echo level=0 >algorithm_params; echo 4M >disksize
echo lz4 >comp_algorithm; echo level=70000 >algorithm_params; echo 4M >disksize
echo lz4hc >comp_algorithm; echo level=0 >algorithm_params; echo 4M >disksize
echo lz4hc >comp_algorithm; echo level=99 >algorithm_params; echo 4M >disksize
echo zstd >comp_algorithm; echo level=99 >algorithm_params; echo 4M >disksize
echo zstd >comp_algorithm; echo level=-999999 >algorithm_params; echo 4M >disksize
echo deflate >comp_algorithm; echo level=10 >algorithm_params; echo 4M >disksize
echo deflate >comp_algorithm; echo level=10 >algorithm_params; echo 4M >disksize; grep -o '\[.*\]' comp_algorithm
full
sleep 0.1 & echo priority=1 >recompress; wait
echo type=huge other=1 >recompress
echo other >idle
echo type=other >writeback
dd if=/sys/kernel/debug/zram/zram0/block_state bs=40 count=1 status=none of=/tmp/state; wc -c </tmp/state
dd if=/sys/kernel/debug/zram/zram0/block_state bs=41 count=1 status=none of=/tmp/state; wc -c </tmp/state
dd if=/sys/kernel/debug/zram/zram0/block_state bs=42 count=1 status=none of=/tmp/state; wc -c </tmp/state
dd if=/sys/kernel/debug/zram/zram0/block_state bs=63 count=1 status=none of=/tmp/state; wc -c </tmp/state
dd if=/sys/kernel/debug/zram/zram0/block_state bs=100 count=1 status=none of=/tmp/state; wc -c </tmp/state
LINES
}

# What a line says, in a few words.
try() { # LINE
	said=$(cd $SYS && eval "$1" 2>&1) && [ -z "$said" ] && said="nothing"
	echo "$said" | sed 's/^.*: //' | xargs
}

# The device as new.
again() {
	put reset 1 >/dev/null
	for priority in 1 2 3; do
		put recomp_algorithm "algo=zstd priority=$priority" >/dev/null
	done
	put reset 1 >/dev/null
	[ -z "$full" ] || {
		put comp_algorithm lz4 >/dev/null
		put recomp_algorithm "algo=zstd priority=1" >/dev/null
		put algorithm_params "priority=1 level=22" >/dev/null
		put disksize 16M >/dev/null
		/guest/pages fill $DEV 4000 "$SEED" 0
	}
}

all() {
	full=
	lines | while read -r line; do
		[ "$line" != full ] || {
			full=1
			continue
		}
		again
		try "$line"
	done
	again
}

mkdir -p /etc/modprobe.d /sbin
[ -e /sbin/modprobe ] || ln -s "$(command -v modprobe)" /sbin/modprobe
module_unload
modprobe zram num_devices=1
all >/tmp/zram
rmmod zram

# As it is written there.
sed -n '/^options zmeld drop_in=1/,/^```/p' $DOC | grep -v '^```' >/etc/modprobe.d/zmeld.conf
cat /etc/modprobe.d/zmeld.conf
modprobe zram
ok "who asks for zram gets zmeld" grep -q '^zmeld ' /proc/modules
all >/tmp/zmeld
modprobe -r zram
ok "and is rid of it by that name" sh -c "! grep -q '^zmeld ' /proc/modules"

lines | grep -v '^full$' >/tmp/lines
for said in zram zmeld; do
	same "lines tried on $said" "$(wc -l </tmp/lines)" "$(wc -l </tmp/$said)"
done
paste -d '\t' /tmp/lines /tmp/zram /tmp/zmeld | sed 's/^/# /'
paste -d '\t' /tmp/lines /tmp/zram /tmp/zmeld |
	awk -F '\t' '$2 != $3 { print "| `" $1 "` | " $2 " | " $3 " |" }' >/tmp/differs
sed -n '/^| a line in a script |/,/^$/p' $DOC | sed '1,2d; /^$/d' >/tmp/told
diff /tmp/told /tmp/differs
ok "what differs is what is told" cmp -s /tmp/told /tmp/differs
end

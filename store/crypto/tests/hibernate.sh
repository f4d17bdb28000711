#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.12 memory=256 disk=768 long reboots
#
# The machine hibernates with pages in zswap that zword compressed. It begins anew, reads the
# image before there is any zword.ko, and goes on; a program verifies each of its pages.

# shellcheck source-path=SCRIPTDIR/../../kmod/tests
. /guest/guest.sh

ZSWAP=/sys/module/zswap/parameters
for module in virtio_pci virtio_blk; do modprobe -q $module; done
# A second boot does not come back from this, but goes on below.
cat /sys/block/vda/dev >/sys/power/resume 2>/dev/null

modprobe zsmalloc
echo zsmalloc >$ZSWAP/zpool
ok "zswap takes zword" sh -c "echo zword >$ZSWAP/compressor"
echo Y >$ZSWAP/enabled
mkswap /dev/vda >/dev/null
ok swapon swapon /dev/vda
total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
/guest/pages swap $((total * 11 / 10)) 2 "$SEED" 10 &
pages=$!
stored() {
	cat /sys/kernel/debug/zswap/stored_pages
}
has_pages() {
	[ "$(stored)" -gt 4000 ]
}
within 60 has_pages
kill -STOP $pages
before=$(stored)
ok "zswap has pages" has_pages
echo reboot >/sys/power/disk
ok "the machine hibernates, and goes on" sh -c 'echo disk >/sys/power/state'
ok "after another kernel had read the image" \
	sh -c 'dmesg | grep -q "hibernation: hibernation exit"'
echo "# zswap had $before pages, and has $(stored)"
ok "zswap has pages still" [ "$(stored)" -gt 0 ]
kill -CONT $pages
wait $pages
ok "the program verified its pages" [ $? -eq 0 ]
same "no page was encoded wrongly" 0 "$(cat /sys/kernel/debug/zword/encode_errors)"
end

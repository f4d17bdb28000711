#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream memory=256
#
# Programs that touch and verify more memory than the guest has, with swap on the
# device and passes, recompression and writeback beside; then swapoff.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

: "${ROUNDS:=2}"
total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
SIZE=$((total * 2))
need=$((total * 11 / 10))

module_load num_devices=1
device_new
if has meld_mode; then put meld_mode inline >/dev/null; fi
mkswap "$DEV" >/dev/null
ok swapon swapon -d "$DEV"
# A fork takes four pages in a row, and a pool's first objects a page for each of their sizes: so
# small a guest keeps little for either, and would end a program with swap left.
echo 8192 >/proc/sys/vm/min_free_kbytes
swap_disturb() {
	has meld && put meld start
	put idle all
	has recompress && put recompress type=idle
	sleep 0.2
}
beside swap_disturb
# Half of the pages are duplicates and a quarter is same-filled: it fits.
/guest/pages swap $((need / 2)) "$ROUNDS" "$SEED" 60 >/tmp/one 2>&1 &
one=$!
/guest/pages swap $((need / 2)) "$ROUNDS" $((SEED + 1)) 60 >/tmp/two 2>&1 &
two=$!
ok "a program that needs more than there is" wait $one
ok "and another" wait $two
cat /tmp/one /tmp/two
out=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
ok "pages were swapped out ($out)" [ "$out" -gt 1000 ]
beside_stop
ok swapoff swapoff "$DEV"
same "swap-slot frees left nothing but the header" 1 \
	"$(awk -v page="$PAGE" '{ print ($1 <= page) }' "$SYS/mm_stat")"
put reset 1 >/dev/null
ok "the module can be unloaded" module_unload
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream
#
# What the kernel's shrinker compacts, short of memory, stands in mm_stat's seventh
# column, as what `compact` compacts does.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
device_new
same "nothing is compacted yet" 0 "$(field mm_stat 7)"

# holes: pages of many sizes, then most of them discarded, so that spans lie half empty.
holes() {
	/guest/pages random "$DEV" "$PAGES" 2 "$1" 2 >/dev/null
	page=0
	while [ $page -lt "$PAGES" ]; do
		blkdiscard -o $((page * PAGE)) -l $((11 * PAGE)) "$DEV" || return 1
		page=$((page + 16))
	done
}

ok "pages with holes between them" holes "$SEED"
before=$(field mm_stat 7)
used=$(field mm_stat 3)
echo 2 >/proc/sys/vm/drop_caches
after=$(field mm_stat 7)
echo "# by the shrinker: $((after - before)) pages; $used bytes, then $(field mm_stat 3)"
ok "the shrinker's pages are counted" [ "$after" -gt "$before" ]
ok "and were given back" [ "$(field mm_stat 3)" -lt "$used" ]

ok "holes again" holes "$((SEED + 1))"
before=$(field mm_stat 7)
same "compact" 0 "$(put compact 1)"
ok "compact's pages are counted" [ "$(field mm_stat 7)" -gt "$before" ]
device_new
same "a new device begins at 0" 0 "$(field mm_stat 7)"
put reset 1 >/dev/null
ok "the module can be unloaded" module_unload
end

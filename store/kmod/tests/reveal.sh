#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest:
#
# What a user who is not root may read, and that it does not say at a write whether
# the page has a twin. docs/melding.md tells what is revealed even so.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1 meld_mode=inline
device_new
user="/guest/pages user"

for row in meld_stat:400 meld:600 mm_stat:444 io_stat:444 bd_stat:444 meld_mode:644; do
	! has "${row%:*}" || same "mode of ${row%:*}" "${row#*:}" "$(stat -c %a "$SYS/${row%:*}")"
done
for file in meld_stat meld; do
	ok "root reads $file" sh -c "cat $SYS/$file >/dev/null"
	ok "others do not read $file" sh -c "! $user cat $SYS/$file 2>/dev/null >/dev/null"
done
same "others read all of mm_stat" 9 "$($user cat "$SYS/mm_stat" | awk '{ print NF }')"

# user_field NUMBER: of mm_stat, as the user sees it.
user_field() {
	$user cat "$SYS/mm_stat" | awk -v n="$1" '{ print $n }'
}

# page_write FILE PAGE
page_write() {
	dd if="$1" of="$DEV" bs="$PAGE" count=1 seek="$2" oflag=direct conv=notrunc 2>/dev/null
}

# One page that compresses by half, one that does not at all.
dd if=/dev/urandom of=/tmp/raw bs="$PAGE" count=1 2>/dev/null
cp /tmp/raw /tmp/half
dd if=/dev/zero of=/tmp/half bs=$((PAGE / 4)) count=2 conv=notrunc 2>/dev/null
for kind in half raw; do
	device_new
	put meld_mode inline >/dev/null
	melded=$(meld_stat pages_melded)
	root0=$(field mm_stat 2)
	size0=$(user_field 2) since0=$(user_field 9)
	page_write /tmp/$kind 0
	root1=$(field mm_stat 2)
	size1=$(user_field 2) since1=$(user_field 9)
	page_write /tmp/$kind 1
	root2=$(field mm_stat 2)
	size2=$(user_field 2) since2=$(user_field 9)
	same "$kind: the second was melded" $((melded + 1)) "$(meld_stat pages_melded)"
	ok "$kind: root sees that it took nothing" [ $((root1 - root0)) -gt 0 -a "$root2" = "$root1" ]
	same "$kind: others see it grow as by any page" $((size1 - size0)) $((size2 - size1))
	same "$kind: huge_pages_since, too" $((since1 - since0)) $((since2 - since1))
	blkdiscard "$DEV"
	same "$kind: nothing is left" "$size0" "$(user_field 2)"
done

# Two pages that share a block, and one that has its own: discarding one of the two
# looks to others as discarding any.
if has backing_dev; then
	loop_new "$SIZE"
	units=$((PAGE / 4096))
	device_new "backing_dev=$loop"
	put meld_mode inline >/dev/null
	page_write /tmp/half 0
	page_write /tmp/half 1
	page_write /tmp/raw 2
	put idle all >/dev/null
	same "writeback" 0 "$(put writeback idle)"
	blocks() {
		echo "$(($(field bd_stat 1) / units)) $(($($user cat "$SYS/bd_stat" | awk '{ print $1 }') / units))"
	}
	same "blocks to root, pages to others" "2 3" "$(blocks)"
	for row in 0:2_2 2:1_1 1:0_0; do
		blkdiscard -o $((${row%:*} * PAGE)) -l "$PAGE" "$DEV"
		same "one less to others without page ${row%:*}" "${row#*:}" "$(blocks | tr ' ' _)"
	done
	put reset 1 >/dev/null
	loop_end
fi
put reset 1 >/dev/null
ok "the module can be unloaded" module_unload
end

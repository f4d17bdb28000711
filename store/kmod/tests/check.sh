#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest:
#
# The walking check by debugfs: all is right after everything that can be done to
# pages; beside users each slot is looked at; a removal does not wait for it.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
mount -t debugfs none /sys/kernel/debug 2>/dev/null
debug=/sys/kernel/debug/$DEVICE/${DEVICE}0
[ -e "$debug/check" ] || {
	skip "the walking check" "there is no debugfs here"
	end
}
ok "without a store there is nothing to check" sh -c "! cat $debug/check 2>/dev/null"

loop_new "$SIZE"
device_new "backing_dev=$loop" "recomp_algorithm=algo=$(other_codec) priority=1"
beside disturb
/guest/pages random "$DEV" "$PAGES" "$TIME" "$SEED" 2 >/dev/null
exec 3<"$DEV"
n=0
while [ $n -lt 20 ]; do
	cat "$debug/check" >>/tmp/beside_users 2>/dev/null
	n=$((n + 1))
done
exec 3<&-
beside_stop
# Beside everything: not one of them is refused.
same "beside users every slot is right" "20 0" \
	"$(grep -c 'every slot is right' /tmp/beside_users) $(grep -cv 'every slot is right' /tmp/beside_users)"
/guest/pages fill "$DEV" $((PAGES / 2)) "$SEED" 40
put meld start >/dev/null
put idle all >/dev/null
put writeback huge >/dev/null
echo 3 >/proc/sys/vm/drop_caches
# What moves pages meanwhile is waited for while nobody has the disk open.
move_pages() {
	disturb
	/guest/pages fill "$DEV" $((PAGES / 4)) "$SEED" 40
	put idle all
	put writeback idle
	put recompress priority=1
}
BACKING=$loop
beside move_pages
n=0
while [ $n -lt 20 ]; do
	n=$((n + 1))
	cat "$debug/check"
done >/tmp/beside_work 2>&1
beside_stop
BACKING=
same "beside long operations all that is said is right" "20 0" \
	"$(grep -c 'is right' /tmp/beside_work) $(grep -cv 'is right' /tmp/beside_work)"
ok "and not only of slots" grep -q 'counter' /tmp/beside_work
# One of block_state's lines for each of them.
away=$(awk '$3 ~ /w/' "$debug/block_state" | wc -l)
ok "pages are on the backing device ($away)" [ "$away" -gt 0 ]
same "without users everything is, and what was not read is said" \
	"every slot and counter is right, and every page in memory; $away on the backing device were not read" \
	"$(cat "$debug/check")"
same "block_state has a line for each page" "$(field mm_stat 1)" \
	"$(($(wc -l <"$debug/block_state") * PAGE))"

# What a line says: a same-filled page, one that does not compress, one that does, idle
# until it is read, there for as long as it is written.
put reset 1 >/dev/null
device_new "backing_dev=$loop" "recomp_algorithm=algo=$(other_codec) priority=1"
dd if=/dev/urandom of="$DEV" bs="$PAGE" seek=1 count=2 oflag=direct 2>/dev/null
for page in 0 3 4; do
	dd if=/dev/zero bs="$PAGE" count=1 2>/dev/null | if [ $page -gt 0 ]; then
		{ printf 'page %d' $page; head -c $((PAGE - 6)); }
	else
		cat
	fi | dd of="$DEV" bs="$PAGE" seek=$page iflag=fullblock oflag=direct 2>/dev/null
done
flags() {
	awk '{ printf "%s%s", sep, $3; sep = " " }' "$debug/block_state"
}
same "flags of new pages" "s..... ..h... ..h... ...... ......" "$(flags)"
put idle all >/dev/null
put idle 3600 >/dev/null
same "none is idle that was written just now" "s..... ..h... ..h... ...... ......" "$(flags)"
put idle all >/dev/null
dd if="$DEV" of=/dev/null bs="$PAGE" skip=4 count=1 iflag=direct 2>/dev/null
same "idle are those not read since" "s..... ..hi.. ..hi.. ...i.. ......" "$(flags)"
put recompress "priority=1 max_pages=0" >/dev/null
put recompress "priority=1 max_pages=1 threshold=3000" >/dev/null
same "one of them is tried" "s..... ..h..n ..hi.. ...i.. ......" "$(flags)"
put recompress "priority=1 threshold=3000" >/dev/null
same "those that no codec helps" "s..... ..h..n ..h..n ...i.. ......" "$(flags)"
put writeback page_index=1 >/dev/null
put writeback page_index=3 >/dev/null
same "those on the backing device" "s..... .w...n ..h..n .w.... ......" "$(flags)"
same "writeback of what no codec helps" 0 "$(put writeback incompressible)"
same "is of that alone" "s..... .w...n .w...n .w.... ......" "$(flags)"

# A walk over pages that have no line is ended by a signal, which is no bad read.
put reset 1 >/dev/null
put disksize 8G >/dev/null
dd if="$debug/block_state" of=/dev/null bs=64K 2>/tmp/said &
reader=$!
# Not before dd counts on it: bit 9.
until grep -q '^SigCgt:.*[2367abef]..$' /proc/$reader/status; do :; done
n=0
while [ $n -lt 20 ] && kill -USR1 $reader 2>/dev/null; do
	n=$((n + 1))
	sleep 0.01
done
ok "block_state is read on after $n signals" wait $reader
sed 's/^/# /' /tmp/said
put reset 1 >/dev/null
put disksize "${SIZE}M" >/dev/null

# A reset comes in between two checks, a removal ends one.
(while cat "$debug/check"; do :; done) >/dev/null 2>&1 &
n=0
ended=0
while [ $n -lt 10 ]; do
	n=$((n + 1))
	tries=0
	until [ "$(put reset 1)" = 0 ] || [ $tries -ge 500 ]; do
		tries=$((tries + 1))
	done
	[ $tries -ge 500 ] || ended=$((ended + 1))
	put disksize "${SIZE}M" >/dev/null
done
same "resets beside it" 10 $ended
/guest/pages fill "$DEV" "$PAGES" "$SEED" 0
same "removal beside it" 0 "$(/guest/pages put "$CONTROL/hot_remove" 0)"
wait
loop_end
ok "the module can be unloaded" module_unload
end

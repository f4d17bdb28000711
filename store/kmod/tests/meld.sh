#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest:
#
# Melding: every duplicate is found, every sharer stays right whatever becomes of
# the others, and the attributes say what was done.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
loop_new "$SIZE"
same "without a size there is no pass" EINVAL "$(put meld start)"
device_new
for row in "meld start:0" "meld nothing:EINVAL" "meld start threshold=1001:EINVAL" \
	"meld start threshold=x:EINVAL" "meld estimate:0" "meld stop:0" \
	"meld_mode off:0" "meld_mode auto:0" "meld_mode inline:0" "meld_mode manual:0" \
	"meld_mode sometimes:EINVAL" "verify 1:0" "verify 0:0" "verify x:EINVAL" \
	"check_writes on:0" "check_writes off:0" "check_writes auto:0" \
	"check_writes 1:EINVAL"; do
	words=${row%:*}
	same "$words" "${row##*:}" "$(put "${words%% *}" "${words#* }")"
done
ok "meld_mode shows the chosen one" grep -q '\[manual\]' "$SYS/meld_mode"

# What is written and recompressed is decoded first, with every codec.
ok "check_writes shows the chosen one" grep -qF '[auto]' "$SYS/check_writes"
module_load num_devices=1 check_writes=on
ok "the module's parameter is the device's" grep -qF '[on]' "$SYS/check_writes"
put check_writes off >/dev/null
put reset 1 >/dev/null
ok "and is so after a reset" grep -qF '[on]' "$SYS/check_writes"
for codec in $(codecs); do
	device_new "comp_algorithm=$codec" "recomp_algorithm=algo=$(other_codec) priority=1"
	ok "$codec: pages are written" /guest/pages fill "$DEV" 500 "$SEED" 30
	put idle all >/dev/null
	same "$codec: recompress" 0 "$(put recompress type=idle)"
	echo 3 >/proc/sys/vm/drop_caches
	ok "$codec: and read back" /guest/pages verify "$DEV" 500 "$SEED" 30
	same "$codec: none was encoded wrongly" 0 "$(meld_stat encode_errors)"
done
module_load num_devices=1

# 100 contents, each on 20 pages, 75 of them no same-filled ones.
copies() {
	n=0
	while [ $n -lt 20 ]; do
		dd if=/tmp/hundred of="$DEV" bs="$PAGE" seek=$((n * 100)) conv=notrunc 2>/dev/null
		n=$((n + 1))
	done
}
right() {
	n=${1:-0}
	while [ $n -lt 20 ]; do
		dd if="$DEV" bs="$PAGE" count=100 skip=$((n * 100)) 2>/dev/null |
			cmp -s - /tmp/hundred || {
			echo "# copy $n differs"
			return 1
		}
		n=$((n + 1))
	done
}
dd if=/dev/urandom of=/tmp/hundred bs="$PAGE" count=100 2>/dev/null
# Half of them compress.
n=0
while [ $n -lt 100 ]; do
	dd if=/dev/zero of=/tmp/hundred bs=$((PAGE / 4)) count=2 seek=$((n * 4 + 1)) conv=notrunc 2>/dev/null
	n=$((n + 2))
done

for mode in manual inline; do
	device_new
	put meld_mode $mode >/dev/null
	copies
	before=$(field mm_stat 3)
	same "$mode: a pass" 0 "$(put meld "start time_ms=600000 memory=1M threshold=0")"
	echo 3 >/proc/sys/vm/drop_caches
	same "$mode: every duplicate is found" 1900 "$(meld_stat pages_melded)"
	same "$mode: shared by all" 100 "$(meld_stat objects_shared)"
	ok "$mode: memory is saved" [ "$(field mm_stat 3)" -le "$before" ]
	found=0
	[ $mode = inline ] || found=1900
	same "$mode: what the pass did" "$found $found 1 0 0" "$(for name in pass_pages_melded passes_melded \
		passes pass_stopped pass_below_threshold; do meld_stat $name; done | xargs)"
	same "$mode: and the writes" "$((1900 - found)) 2000 0 0" "$(for name in inline_melded pages_shared \
		inline_collisions mismatches; do meld_stat $name; done | xargs)"
	ok "$mode: every sharer is right" right
	# Some go, the others stay.
	dd if=/dev/urandom of="$DEV" bs="$PAGE" count=100 oflag=direct 2>/dev/null
	blkdiscard -o $((100 * PAGE)) -l $((100 * PAGE)) "$DEV"
	echo 3 >/proc/sys/vm/drop_caches
	ok "$mode: after overwriting and discarding some" right 2
	same "$mode: one sharer fewer each" 1700 "$(meld_stat pages_melded)"
done

if has recomp_algorithm && has recompress; then
	device_new "recomp_algorithm=algo=$(other_codec) priority=1"
	copies
	put meld start >/dev/null
	put idle all >/dev/null
	same "recompress of shared pages" 0 "$(put recompress type=idle)"
	echo 3 >/proc/sys/vm/drop_caches
	ok "every sharer is right after it" right
	same "they are shared as before" 1900 "$(meld_stat pages_melded)"
fi
if has backing_dev; then
	device_new "backing_dev=$loop" verify=1
	copies
	put meld start >/dev/null
	put idle all >/dev/null
	same "writeback of shared pages" 0 "$(put writeback idle)"
	echo 3 >/proc/sys/vm/drop_caches
	# It counts 4 KiB, as zram does.
	ok "one block for all sharers ($(field bd_stat 1))" \
		[ "$(field bd_stat 1)" -le $((100 * PAGE / 4096)) ]
	ok "every sharer is right after it" right
	dd if=/dev/urandom of="$DEV" bs="$PAGE" count=500 oflag=direct 2>/dev/null
	echo 3 >/proc/sys/vm/drop_caches
	ok "and the rest after some are overwritten" right 5
	blkdiscard "$DEV"
	same "all blocks are free" 0 "$(field bd_stat 1)"
fi
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream
#
# Every attribute of zram's with good and bad input: the error, and what is read
# back. The table is what zram of 7.2 does; on that kernel the same script has to
# pass on zram itself (DEVICE=zram).

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

# state|attribute|input|error|what is read back, where it can be read
table() {
	cat <<'TABLE'
new|disksize|0|EINVAL|0
new|disksize|x|EINVAL|0
new|mem_limit|x|EINVAL|
new|mem_limit|8M|0|
new|mem_limit|0|0|
new|mem_used_max|0|0|
new|mem_used_max|1|EINVAL|
new|mem_used_max|x|EINVAL|
new|compact|1|EINVAL|
new|idle|all|EINVAL|
new|idle|never|EINVAL|
new|comp_algorithm|nothing|EINVAL|
new|comp_algorithm|a-name-that-is-far-too-long-for-a-codec-and-goes-on-and-on-for-longer-than-any-codec|EINVAL|
new|reset|0|EINVAL|
new|reset|x|EINVAL|
new|reset|1|0|
new|initstate|-|-|0
new|recompress|type=idle|EINVAL|
new|recompress|type=other|EINVAL|
new|recompress|idle|EINVAL|
new|recompress|threshold=x|EINVAL|
new|recompress|threshold=100000|EINVAL|
new|recompress|max_pages=x|EINVAL|
new|recompress|priority=x|EINVAL|
new|recomp_algorithm|algo=nothing priority=1|EINVAL|
new|recomp_algorithm|algo=CODEC priority=0|EINVAL|
new|recomp_algorithm|algo=CODEC priority=4|EINVAL|
new|recomp_algorithm|priority=1|EINVAL|
new|algorithm_params|priority=9 level=3|EINVAL|
new|algorithm_params|level=x|EINVAL|
new|algorithm_params|algo=nothing level=1|EINVAL|
new|algorithm_params|dict=/dev/null|EINVAL|
new|writeback|idle|EINVAL|
new|writeback|nothing|EINVAL|
new|writeback_limit|x|EINVAL|
new|writeback_limit_enable|x|EINVAL|
new|writeback_limit_enable|1|0|1
new|writeback_limit|100|0|100
new|writeback_limit_enable|0|0|0
new|writeback_batch_size|0|EINVAL|
new|writeback_batch_size|x|EINVAL|
new|writeback_batch_size|8|0|8
new|compressed_writeback|x|EINVAL|
new|compressed_writeback|1|0|1
new|compressed_writeback|0|0|0
new|backing_dev|/there/is/none|ENOENT|none
new|backing_dev|/proc/version|ENOTBLK|none
new|disksize|5000|0|TWO
set|initstate|-|-|1
set|disksize|64M|EBUSY|TWO
set|comp_algorithm|CODEC|EBUSY|
set|recomp_algorithm|algo=CODEC priority=1|EBUSY|
set|compact|1|0|
set|idle|all|0|
set|idle|never|EINVAL|
set|mem_limit|8M|0|
set|mem_limit|0|0|
set|mem_used_max|0|0|
set|recompress|type=idle|EINVAL|
set|recompress|type=idle priority=1|EINVAL|
set|recompress|type=idle priority=9|EINVAL|
set|writeback|idle|ENODEV|
set|writeback|huge|ENODEV|
set|compressed_writeback|1|EBUSY|0
set|reset|0|EINVAL|
set|reset|1|0|
new|initstate|-|-|0
new|disksize|-|-|0
TABLE
}

row() {
	has "$attribute" || {
		skip "$attribute '$input'" "$DEVICE has no $attribute here"
		return
	}
	[ "$input" = - ] || {
		found=$(put "$attribute" "$input")
		same "$state $attribute '$input'" "$error" "$found"
	}
	[ -z "$after" ] || same "$state $attribute reads back" "$after" "$(cat "$SYS/$attribute")"
}

module_load num_devices=1
# 5000 bytes are a whole page, or two.
two=$(((5000 + PAGE - 1) / PAGE * PAGE))
table | sed "s/CODEC/$(codecs | awk '{ print $1 }')/; s/TWO/$two/" >/tmp/table
# Before 6.19 zram takes a recompression that names no priority and finds nothing to do.
if [ "$DEVICE" = zram ] && ! has writeback_batch_size; then
	sed -i '/^set|recompress|type=idle/d' /tmp/table
fi
while IFS='|' read -r state attribute input error after; do
	row
done </tmp/table

# Formats: as many columns, as wide, as zram prints them.
device_new
same "io_stat has 4 columns" 4 "$(awk '{ print NF }' "$SYS/io_stat")"
same "mm_stat has 9 columns" 9 "$(awk '{ print NF }' "$SYS/mm_stat")"
same "mm_stat is as wide" 80 "$(awk '{ print length }' "$SYS/mm_stat")"
same "debug_stat says its version" "version: 1" "$(head -n 1 "$SYS/debug_stat")"
if has bd_stat; then
	same "bd_stat has 3 columns" 3 "$(awk '{ print NF }' "$SYS/bd_stat")"
fi

# The same pages counted as zram counts them.
/guest/pages fill "$DEV" 2000 "$SEED" 0
same "orig_data_size" $((2000 * PAGE)) "$(field mm_stat 1)"
ok "same_pages are those that were written" [ "$(field mm_stat 6)" -gt 400 ]
ok "huge_pages are those that do not compress" [ "$(field mm_stat 8)" -gt 400 ]
ok "pages read back" /guest/pages verify "$DEV" 2000 "$SEED" 0
ok "reset while it is open is refused" sh -c "
	exec 3<$DEV
	[ \"\$(/guest/pages put $SYS/reset 1)\" = EBUSY ]"
same "reset frees all" 0 "$(put reset 1)"
same "nothing is left" 0 "$(field mm_stat 1)"

# Failures and what was let go of are counted, each in its column.
counts() {
	awk '{ print $1, $2, $4 }' "$SYS/io_stat"
}
device_new
same "io_stat begins at 0" "0 0 0" "$(counts)"
/guest/pages fill "$DEV" 100 "$SEED" 0
blkdiscard -o "$PAGE" -l $((7 * PAGE)) "$DEV"
same "each page let go of is counted" "0 0 7" "$(counts)"
used=$(field mm_stat 5)
blkdiscard "$DEV"
ok "the most that was used is kept" [ "$(field mm_stat 5)" = "$used" -a "$used" -gt "$(field mm_stat 3)" ]
put mem_used_max 0 >/dev/null
same "until it is set back to what is used" "$(field mm_stat 3)" "$(field mm_stat 5)"
same "each page of the disk was let go of" $((7 + PAGES)) "$(field io_stat 4)"

# What the disk says of itself, and who may change what.
while IFS='|' read -r file value; do
	[ ! -e "$SYS/$file" ] || same "$file" "$value" "$(cat "$SYS/$file")"
done <<LIMITS
ext_range|1
queue/logical_block_size|$PAGE
queue/physical_block_size|$PAGE
queue/minimum_io_size|$PAGE
queue/optimal_io_size|$PAGE
queue/discard_granularity|$PAGE
queue/discard_max_bytes|$((0xffffffff * 512))
queue/write_zeroes_max_bytes|$((0xffffffff * 512))
queue/rotational|0
queue/stable_writes|1
queue/add_random|0
max_comp_streams|$(grep -c ^processor /proc/cpuinfo)
LIMITS
same "hot_add is root's" 400 "$(stat -c %a "$CONTROL/hot_add")"
same "hot_remove is root's" 200 "$(stat -c %a "$CONTROL/hot_remove")"

# After a reset a device is as it was made, whatever was chosen and done; level 9 of a
# codec, which no file shows, is seen by what pages take.
settings() {
	for file in comp_algorithm recomp_algorithm backing_dev disksize initstate \
		meld_mode verify check_writes io_stat mm_stat bd_stat meld meld_stat; do
		! has $file || sed "s/^/$file: /" "$SYS/$file"
	done
}
taken() { # ATTRIBUTE=TEXT...
	device_new "comp_algorithm=$(other_codec)" "$@"
	/guest/pages fill "$DEV" 300 "$SEED" 0
	field mm_stat 2
}
put reset 1 >/dev/null
settings >/tmp/before
taken=$(taken)
loop_new "$SIZE"
more=$(taken mem_limit=32M "recomp_algorithm=algo=$(other_codec) priority=1" \
	"recomp_algorithm=algo=lzo priority=3" "backing_dev=$loop" meld_mode=inline verify=1 \
	check_writes=off algorithm_params=level=9)
[ ! -e "$SYS/recomp_algorithm" ] || same "codecs by priority" "#1 #3" \
	"$(cut -d: -f1 "$SYS/recomp_algorithm" | xargs)"
put meld start >/dev/null
put writeback huge >/dev/null
/guest/pages verify "$DEV" 300 "$SEED" 0 >/dev/null
blkdiscard "$DEV"
put reset 1 >/dev/null
settings >/tmp/after
ok "a reset has all settings and counters as they were" diff /tmp/before /tmp/after
same "and the level ($taken, $more bytes)" "$taken" "$(taken)"
put reset 1 >/dev/null
loop_end

# Every codec that is offered works.
for codec in ${CODEC:+zword-dense} $(codecs); do
	put reset 1 >/dev/null
	same "comp_algorithm $codec" 0 "$(put comp_algorithm "$codec")"
	same "disksize with $codec" 0 "$(put disksize "${SIZE}M")"
	/guest/pages fill "$DEV" 300 "$SEED" 0
	ok "$codec keeps bytes" /guest/pages verify "$DEV" 300 "$SEED" 0
done
put reset 1 >/dev/null

# So does each at another level. A multiple of 2^26 makes lib/lz4 write other pages, zram's too.
levels="lz4:8 lz4hc:3 zstd:-5 zstd:9 deflate:1 zword:2"
[ "$DEVICE" = zram ] || levels="$levels lz4:67108864 lz4:2147483647 lz4:-2147483647 lzo:2147483647
	lz4hc:2147483647 lz4hc:-2147483647 zstd:-2147483647"
for row in $levels; do
	[ -z "$CODEC" ] || break
	case " $(codecs) " in
	*" ${row%%:*} "*) ;;
	*) continue ;;
	esac
	put comp_algorithm "${row%%:*}" >/dev/null
	same "$row" 0 "$(put algorithm_params "level=${row#*:}")"
	same "disksize with $row" 0 "$(put disksize "${SIZE}M")"
	/guest/pages fill "$DEV" 300 "$SEED" 0
	ok "and it keeps bytes" /guest/pages verify "$DEV" 300 "$SEED" 0
	put reset 1 >/dev/null
done

# A limit is a clean error, and what was there stays.
device_new mem_limit=1M
/guest/pages fill "$DEV" 100 "$SEED" 0
ok "a full device refuses" sh -c "! /guest/pages fill $DEV $PAGES 7 0 >/dev/null"
ok "and counts that as a failed write alone" [ "$(field io_stat 1)" -eq 0 -a "$(field io_stat 2)" -gt 0 ]
if [ -z "$CODEC" ]; then
	ok "and keeps serving" sh -c "/guest/pages random $DEV $PAGES 2 $SEED 1 errors"
else
	skip "and keeps serving" "6.1's zram puts what follows a refused page in its place, with any codec"
fi
put reset 1 >/dev/null

# Control class.
id=$(cat "$CONTROL/hot_add")
same "hot_add gives the next number" 1 "$id"
ok "its device is there" [ -b "/dev/$DEVICE$id" ]
same "hot_remove" 0 "$(/guest/pages put "$CONTROL/hot_remove" "$id")"
same "hot_remove of none" ENODEV "$(/guest/pages put "$CONTROL/hot_remove" 77)"
same "hot_remove of no number" EINVAL "$(/guest/pages put "$CONTROL/hot_remove" x)"
same "hot_remove of a negative number" EINVAL "$(/guest/pages put "$CONTROL/hot_remove" -1)"
module_load num_devices=3
ok "num_devices=3 makes three" [ -b "/dev/${DEVICE}2" ]
ok "and not four" [ ! -e "/dev/${DEVICE}3" ]
end

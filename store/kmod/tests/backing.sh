#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream
#
# Writeback with all its modes; then a backing device that errors, and one that
# drops what is written to it.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
if ! has backing_dev; then
	skip writeback "$DEVICE has no backing_dev here"
	end
fi
loop_new "$SIZE"

start() {
	put reset 1 >/dev/null
	same "backing_dev $1" 0 "$(put backing_dev "$1")"
	same "disksize" 0 "$(put disksize "${SIZE}M")"
	/guest/pages fill "$DEV" 1000 "$SEED" 50
}

start "$loop"
same "backing_dev says which" "$loop" "$(cat "$SYS/backing_dev")"
same "a second one is refused" EBUSY "$(put backing_dev "$loop")"
same "writeback huge" 0 "$(put writeback huge)"
moved=$(field bd_stat 1)
ok "pages went there ($moved)" [ "$moved" -gt 100 ]
same "each was written once, and none read" "0 $moved" "$(field bd_stat 2) $(field bd_stat 3)"
ok "and read back" /guest/pages verify "$DEV" 1000 "$SEED" 50
ok "reads are counted" [ "$(field bd_stat 2)" -gt 0 ]
same "they are no writes" "$moved" "$(field bd_stat 3)"
same "idle all" 0 "$(put idle all)"
same "writeback idle" 0 "$(put writeback idle)"
ok "more pages went there" [ "$(field bd_stat 1)" -gt "$moved" ]
ok "and read back" /guest/pages verify "$DEV" 1000 "$SEED" 50
if [ -e "$SYS/meld" ]; then
	same "a pass with pages there" 0 "$(put meld start)"
	ok "all pages are right" /guest/pages verify "$DEV" 1000 "$SEED" 50
fi
ok "overwriting and discarding them" /guest/pages random "$DEV" "$PAGES" "$TIME" "$SEED" 2
blkdiscard "$DEV"
same "all blocks are free again" 0 "$(field bd_stat 1)"

# What follows a NUL is not of the name, however long it is.
named() {
	put reset 1 >/dev/null
	{
		printf '%s\n\000' "$loop"
		head -c "$1" /dev/zero | tr '\000' '\n'
	} | dd of="$SYS/backing_dev" bs=4096 count=1 iflag=fullblock 2>/dev/null
	cat "$SYS/backing_dev"
}
for size in 0 1 300 4000; do
	same "a name, a NUL and $size characters" "$loop" "$(named $size)"
done

# The limit. Where not all may go, the largest do.
start "$loop"
same "writeback_limit_enable" 0 "$(put writeback_limit_enable 1)"
same "writeback_limit" 0 "$(put writeback_limit 10)"
raw=$(field mm_stat 8)
put idle all >/dev/null
echo "# writeback idle: $(put writeback idle), bd_stat $(cat "$SYS/bd_stat")"
same "no more than the limit" 10 "$(field bd_stat 1)"
same "the limit is used up" 0 "$(cat "$SYS/writeback_limit")"
[ ! -e "$SYS/meld" ] ||
	same "those that do not compress went" $((raw - 10 * 4096 / PAGE)) "$(field mm_stat 8)"
put writeback_limit_enable 0 >/dev/null

# Pages by their numbers and by what they are: all but 8 and 9 do not compress.
if [ -e "$SYS/meld" ]; then
	units=$((PAGE / 4096))
	device_new "backing_dev=$loop"
	dd if=/dev/urandom of=/tmp/ten bs="$PAGE" count=10 2>/dev/null
	dd if=/dev/zero of=/tmp/ten bs="$PAGE" seek=8 count=2 conv=notrunc 2>/dev/null
	printf ab | dd of=/tmp/ten bs=1 seek=$((8 * PAGE)) conv=notrunc 2>/dev/null
	printf cd | dd of=/tmp/ten bs=1 seek=$((9 * PAGE)) conv=notrunc 2>/dev/null
	dd if=/tmp/ten of="$DEV" bs="$PAGE" oflag=direct 2>/dev/null
	there=0
	while read -r words error more; do
		same "writeback $words" "$error" "$(put writeback "$(echo "$words" | tr , ' ')")"
		there=$((there + more * units))
		same "and so many are there" $there "$(field bd_stat 1)"
	done <<WORDS
page_index=1 0 1
page_indexes=2-3 0 2
page_indexes=1-0 ERANGE 0
page_index=$PAGES ERANGE 0
page_indexes=0-$PAGES ERANGE 0
page_index=$((PAGES - 1)) 0 0
page_indexes=8-8,type=huge 0 1
page_index=4,page_index=5,type=huge 0 2
type=huge_idle 0 0
incompressible 0 0
other EINVAL 0
type=huge 0 3
WORDS
	put idle all >/dev/null
	dd if="$DEV" of=/dev/null bs="$PAGE" skip=9 count=1 iflag=direct 2>/dev/null
	same "writeback of what is idle" 0 "$(put writeback idle)"
	same "all but the page that was read" $((9 * units)) "$(field bd_stat 1)"
	ok "all come back" sh -c "dd if=$DEV bs=$PAGE count=10 iflag=direct 2>/dev/null | cmp - /tmp/ten"
fi
put reset 1 >/dev/null

if ! dmsetup targets 2>/dev/null | grep -q flakey; then
	modprobe dm-flakey 2>/dev/null
fi
if ! dmsetup targets 2>/dev/null | grep -q flakey; then
	skip "failing devices" "there is no dmsetup or no dm-flakey"
	loop_end
	end
fi
sectors=$((SIZE * 2048))
dm() {
	dmsetup create bad --noudevsync --noudevrules --table "0 $sectors $1" || return 1
	dmsetup mknodes bad
}
swap_table() {
	dmsetup suspend --noudevsync bad
	dmsetup load bad --table "0 $sectors $1"
	dmsetup resume --noudevsync bad
}

# A limit outlives a reset.
put writeback_limit_enable 0 >/dev/null
ok "a device that errors on every write" dm "flakey $loop 0 0 3600 1 error_writes"
start /dev/mapper/bad
put writeback_limit_enable 1 >/dev/null
put writeback_limit 100 >/dev/null
same "a writeback that fails says so" EIO "$(put writeback huge)"
same "what did not go is given back to the limit" 100 "$(cat "$SYS/writeback_limit")"
put writeback_limit_enable 0 >/dev/null
ok "all pages are right" /guest/pages verify "$DEV" 1000 "$SEED" 50
same "and none is there, and none was written" "0 0" "$(field bd_stat 1) $(field bd_stat 3)"

# Pages on their way that do not arrive raise no limit that was set, or switched on, after
# they were sent. zram has whoever sets one wait for them.
if dmsetup targets | grep -q delay; then
	put reset 1 >/dev/null
	dmsetup create slow --noudevsync --noudevrules \
		--table "0 $sectors delay /dev/mapper/bad 0 400"
	dmsetup mknodes slow
	for was in "1 100 writeback_limit 0" "0 0 writeback_limit_enable 1"; do
		# shellcheck disable=SC2086
		set -- $was
		start /dev/mapper/slow
		put writeback_limit_enable "$1" >/dev/null
		put writeback_limit "$2" >/dev/null
		/guest/pages put "$SYS/writeback" huge &
		sends=$!
		sleep 0.2
		put "$3" "$4" >/dev/null
		wait $sends
		same "$3 $4 while pages are on their way" 0 "$(cat "$SYS/writeback_limit")"
	done
	put writeback_limit_enable 0 >/dev/null
	put reset 1 >/dev/null
	dmsetup remove --noudevsync slow
	start /dev/mapper/bad
fi

# Written, then it dies: reads fail, and the rest goes on.
swap_table "linear $loop 0"
echo "# writeback huge: $(put writeback huge), bd_stat $(cat "$SYS/bd_stat")"
moved=$(field bd_stat 1)
ok "pages went there ($moved)" [ "$moved" -gt 100 ]
swap_table "error"
ok "reading them is an error" sh -c "! /guest/pages verify $DEV 1000 $SEED 50 >/tmp/said && cat /tmp/said && ! grep -q WRONG /tmp/said"
[ ! -e "$SYS/meld" ] ||
	ok "it is counted as a failed read alone" [ "$(field io_stat 1)" -gt 0 -a "$(field io_stat 2)" -eq 0 ]
ok "the device goes on" /guest/pages random "$DEV" "$PAGES" 2 "$SEED" 1 errors
put reset 1 >/dev/null
dmsetup remove --noudevsync bad

# A backing device that stands on the device itself; zram takes it.
if [ -e "$SYS/meld" ]; then
	ok "a device on one without a size" dmsetup create own --noudevsync --noudevrules \
		--table "0 $sectors linear $DEV 0"
	dmsetup mknodes own
	same "is no backing device of that" EBUSY "$(put backing_dev /dev/mapper/own)"
	same "nor is anything that may come to stand on it" EBUSY "$(put backing_dev "$loop")"
	dmsetup remove --noudevsync own
	same "afterwards it has one" 0 "$(put backing_dev "$loop")"
	dmsetup create own --noudevsync --noudevrules --table "0 $sectors linear $DEV 0"
	same "and no size while it is part of another" EBUSY "$(put disksize "${SIZE}M")"
	dmsetup remove --noudevsync own
	same "but then" 0 "$(put disksize "${SIZE}M")"
	put reset 1 >/dev/null
fi

# What is dropped without a word is found by those who verify.
if [ -e "$SYS/verify" ]; then
	dd if=/dev/zero of="$loop" bs=1M count="$SIZE" 2>/dev/null
	ok "a device that drops writes" dm "flakey $loop 0 0 3600 1 drop_writes"
	start /dev/mapper/bad
	same "verify" 0 "$(put verify 1)"
	echo "# writeback huge: $(put writeback huge), bd_stat $(cat "$SYS/bd_stat")"
	ok "pages seem to be there" [ "$(field bd_stat 1)" -gt 100 ]
	ok "reading them is an error and not wrong bytes" sh -c "
		! /guest/pages verify $DEV 1000 $SEED 50 >/tmp/said && cat /tmp/said && ! grep -q WRONG /tmp/said"
	ok "it is counted" [ "$(meld_stat mismatches)" -gt 0 ]
	put reset 1 >/dev/null
	dmsetup remove --noudevsync bad
fi

# What is sent compressed is less.
if has compressed_writeback; then
	sent() { # COMPRESSED
		put reset 1 >/dev/null
		dd if=/dev/zero of="$loop" bs=1M count="$SIZE" 2>/dev/null
		put compressed_writeback "$1" >/dev/null
		start "$loop" >/dev/null
		put idle all >/dev/null
		put writeback idle >/dev/null
		LC_ALL=C tr -d '\000' <"$loop" | wc -c
	}
	whole=$(sent 0)
	compressed=$(sent 1)
	ok "compressed, $compressed bytes are sent and not $whole" \
		[ "$compressed" -lt "$whole" ]
	put reset 1 >/dev/null
	put compressed_writeback 0 >/dev/null
fi

# What comes back damaged is an error with every codec, and not wrong bytes.
for codec in $(codecs); do
	[ -e "$SYS/verify" ] || break
	put reset 1 >/dev/null
	put compressed_writeback 1 >/dev/null
	put comp_algorithm "$codec" >/dev/null
	start "$loop"
	put verify 1 >/dev/null
	put idle all >/dev/null
	same "$codec: writeback" 0 "$(put writeback idle)"
	dd if="$loop" bs=64k 2>/dev/null | LC_ALL=C tr '\052' '\053' |
		dd of="$loop" bs=64k conv=notrunc,fsync 2>/dev/null
	echo 3 >/proc/sys/vm/drop_caches
	dd if="$DEV" of=/dev/null bs="$PAGE" count=1000 conv=noerror 2>/dev/null
	found="$(meld_stat mismatches) mismatches, $(meld_stat damaged) damaged"
	ok "$codec: damage is found ($found)" [ "$found" != "0 mismatches, 0 damaged" ]
	ok "$codec: the device goes on" /guest/pages random "$DEV" "$PAGES" 1 "$SEED" 1
done
put reset 1 >/dev/null
put compressed_writeback 0 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream
#
# Reset, hot_remove and unloading under load: refused while the device is used,
# clean when not, and nothing hangs.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
device_new

# Against a user who opens, writes and closes.
beside dd if=/dev/urandom of="$DEV" bs=64k count=8
beside disturb
end_at=$(($(date +%s) + TIME))
resets=0
refused=0
while [ "$(date +%s)" -lt $end_at ]; do
	case $(put reset 1) in
	0)
		resets=$((resets + 1))
		put disksize "${SIZE}M" >/dev/null
		;;
	EBUSY) refused=$((refused + 1)) ;;
	*) break ;;
	esac
done
beside_stop
echo "# $resets resets, $refused refused"
ok "resets beside users, some of them succeed" [ $resets -gt 0 ]
put reset 1 >/dev/null
put disksize "${SIZE}M" >/dev/null
ok "it works after that" /guest/pages random "$DEV" "$PAGES" 1 "$SEED" 2

# What is chosen while a store is made, with a table of 32 MiB, is not lost; who looks waits for
# neither that nor its end.
lost=0
for n in 1 2 3 4 5 6 7 8 9; do
	put reset 1 >/dev/null
	put disksize 8G >/dev/null &
	made=$!
	put mem_limit ${n}M >/dev/null
	cat "$SYS/mm_stat" >/dev/null
	wait $made
	[ "$(field mm_stat 4)" = $((n << 20)) ] || lost=$((lost + 1))
done
same "limits that were set beside disksize and are lost" 0 "$lost"
put reset 1 >/dev/null
put disksize "${SIZE}M" >/dev/null

# hot_add and hot_remove, several at a time.
many() {
	for _ in 1 2 3 4 5 6 7 8; do
		id=$(cat "$CONTROL/hot_add") || return 1
		echo 4M >"/sys/block/$DEVICE$id/disksize" || return 1
		dd if=/dev/urandom of="/dev/$DEVICE$id" bs=4k count=64 2>/dev/null || return 1
		# Who looks at new devices may have it open for a moment.
		tries=0
		until echo "$id" >"$CONTROL/hot_remove" 2>/dev/null; do
			tries=$((tries + 1))
			[ $tries -lt 50 ] || return 1
			sleep 0.05
		done
	done
}
many &
first=$!
many &
second=$!
ok "devices come and go" wait $first
ok "beside each other" wait $second

# In use: neither removed nor unloaded.
exec 3<"$DEV"
same "hot_remove of an open device" EBUSY "$(/guest/pages put "$CONTROL/hot_remove" 0)"
ok "unloading is refused" sh -c "! rmmod $DEVICE 2>/dev/null"
[ -z "$CODEC" ] || ok "that of its codec, too" sh -c "! rmmod zword 2>/dev/null"
exec 3<&-

# Attributes read while the device goes.
ok "unloading beside readers of attributes" sh -c "
	(for _ in 1 2 3 4 5 6 7 8 9; do cat $SYS/*_stat $SYS/comp_algorithm; done) >/dev/null 2>&1 &
	rmmod $DEVICE; wait"
ok "the module is gone" sh -c "! grep -q '^$DEVICE ' /proc/modules"
n=0
while [ $n -lt 5 ]; do
	n=$((n + 1))
	module_load num_devices=2 || break
	echo 8M >"$SYS/disksize"
	dd if=/dev/urandom of="$DEV" bs=64k count=16 2>/dev/null
	rmmod "$DEVICE" || break
done
same "loaded and unloaded with pages in it" 5 $n
end

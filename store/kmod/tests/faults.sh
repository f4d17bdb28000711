#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um-debug
#
# The first, the second, the third ... allocation fails, through set-up, write,
# pass, recompression and writeback: each is refused cleanly or done, what was
# stored stays, and nothing is lost (the bed looks for lost memory at the end).

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

debug=/sys/kernel/debug
if [ ! -e /proc/self/fail-nth ] || [ ! -d $debug/failslab ]; then
	skip faults "this kernel injects none"
	end
fi
for kind in failslab fail_page_alloc; do
	echo N >$debug/$kind/ignore-gfp-wait
	echo 0 >$debug/$kind/verbose
done
echo N >$debug/fail_page_alloc/ignore-gfp-highmem
echo 0 >$debug/fail_page_alloc/min-order

# nth NAME PATH TEXT AGAIN: until no allocation is left to fail. Where it succeeds
# without one of them, the command AGAIN makes things as they were before.
nth() {
	first=1
	lived=0
	while :; do
		said=$(/guest/pages nth-file "$2" "$3" $first)
		code=$?
		[ $code = 4 ] || break
		lived=$((lived + 1))
		first=${said##* }
		$4
	done
	echo "$said, $lived of them not needed"
	ok "$1, every allocation failing in turn" [ $code = 0 ]
}

added_again() {
	/guest/pages put "$CONTROL/hot_remove" 1 >/dev/null
}

device_again() {
	cat "$CONTROL/hot_add" >/dev/null
}

# All that is set before the device has its size.
settings_again() {
	[ "$(put reset 1)" = 0 ] || echo "# it cannot be reset"
	put comp_algorithm "$(other_codec)" >/dev/null
	! has recomp_algorithm || put recomp_algorithm "algo=$(other_codec) priority=1" >/dev/null
	! has backing_dev || put backing_dev "$loop" >/dev/null
}

backing_again() {
	put reset 1 >/dev/null
}

# The load itself, while somebody waits to open the first device.
module_load num_devices=1
module_unload
file=$(modprobe --show-depends "$DEVICE" | sed -n "s,^insmod \\(.*/$DEVICE.ko\\).*,\\1,p")
ok "loading, every allocation failing in turn" \
	/guest/pages load "$file" "$DEVICE" "$DEV" "num_devices=3"
ok "no device is left" [ ! -e "$SYS" ]
module_load num_devices=1
loop_new "$SIZE"
nth hot_add "$CONTROL/hot_add" - added_again
added_again
nth hot_remove "$CONTROL/hot_remove" 0 device_again
id=$(cat "$CONTROL/hot_add")
same "the device is made again" 0 "$id"
nth comp_algorithm "$SYS/comp_algorithm" "$(other_codec)" :
has recomp_algorithm && nth recomp_algorithm "$SYS/recomp_algorithm" \
	"algo=$(other_codec) priority=1" :
has algorithm_params && nth algorithm_params "$SYS/algorithm_params" "level=3" :
has backing_dev && nth backing_dev "$SYS/backing_dev" "$loop" backing_again
settings_again
nth disksize "$SYS/disksize" "${SIZE}M" settings_again
same "it has its size" $((SIZE << 20)) "$(cat "$SYS/disksize")"
[ ! -e "$SYS/verify" ] || put verify 1 >/dev/null

for page in 1 2 3 4 5 6 7 8; do
	ok "write of page $page: old or new" /guest/pages nth-page "$DEV" $page $((SEED + page))
done
# Work for what comes: nothing is melded, recompressed, or away.
fill_again() {
	/guest/pages fill "$DEV" 800 "$SEED" 40
	put idle all >/dev/null
}
fill_again
if has meld; then
	nth "pass" "$SYS/meld" start fill_again
	ok "all pages are right" /guest/pages verify "$DEV" 800 "$SEED" 40
fi
put idle all >/dev/null
if has recompress && has recomp_algorithm; then
	nth recompress "$SYS/recompress" "type=huge" fill_again
	ok "all pages are right" /guest/pages verify "$DEV" 800 "$SEED" 40
fi
if has writeback; then
	put idle all >/dev/null
	nth writeback "$SYS/writeback" huge fill_again
	nth "writeback of idle pages" "$SYS/writeback" idle fill_again
	ok "all pages are right" /guest/pages verify "$DEV" 800 "$SEED" 40
fi

# Failures anywhere, for a while, in every process of a job.
for kind in failslab fail_page_alloc; do
	echo 2 >$debug/$kind/probability
	echo -1 >$debug/$kind/times
	echo Y >$debug/$kind/task-filter
done
beside disturb
ok "random pages while one allocation in fifty fails" \
	/guest/pages random "$DEV" "$PAGES" "$TIME" "$SEED" 2 faults
beside_stop
for kind in failslab fail_page_alloc; do
	echo 0 >$debug/$kind/probability
done
ok "and without failures again" /guest/pages random "$DEV" "$PAGES" 1 "$SEED" 2
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

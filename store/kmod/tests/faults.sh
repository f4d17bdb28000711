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

# nth NAME ATTRIBUTE TEXT BEFORE...: until no allocation is left to fail. What
# succeeds without one of its allocations is set up anew and goes on.
nth() {
	name=$1
	path=$2
	text=$3
	ok "$name, every allocation failing in turn" sh -c "
		/guest/pages nth-file '$path' '$text'; c=\$?; [ \$c = 0 ] || [ \$c = 4 ]"
}

module_load num_devices=1
loop_new "$SIZE"
nth hot_remove "$CONTROL/hot_remove" 0
id=$(cat "$CONTROL/hot_add")
same "the device is made again" 0 "$id"
nth comp_algorithm "$SYS/comp_algorithm" "$(other_codec)"
has recomp_algorithm && nth recomp_algorithm "$SYS/recomp_algorithm" \
	"algo=$(other_codec) priority=1"
has backing_dev && nth backing_dev "$SYS/backing_dev" "$loop"
nth disksize "$SYS/disksize" "${SIZE}M"
same "it has its size" $((SIZE << 20)) "$(cat "$SYS/disksize")"
[ ! -e "$SYS/verify" ] || put verify 1 >/dev/null

for page in 1 2 3 4 5 6 7 8; do
	ok "write of page $page: old or new" /guest/pages nth-page "$DEV" $page $((SEED + page))
done
/guest/pages fill "$DEV" 800 "$SEED" 40
if has meld; then
	nth "pass" "$SYS/meld" start
	ok "all pages are right" /guest/pages verify "$DEV" 800 "$SEED" 40
fi
put idle all >/dev/null
if has recompress && has recomp_algorithm; then
	nth recompress "$SYS/recompress" "type=huge"
	ok "all pages are right" /guest/pages verify "$DEV" 800 "$SEED" 40
fi
if has writeback; then
	put idle all >/dev/null
	nth writeback "$SYS/writeback" huge
	nth "writeback of idle pages" "$SYS/writeback" idle
	ok "all pages are right" /guest/pages verify "$DEV" 800 "$SEED" 40
fi

# Failures anywhere, for a while, in every process of a job.
for kind in failslab fail_page_alloc; do
	echo 2 >$debug/$kind/probability
	echo -1 >$debug/$kind/times
	echo Y >$debug/$kind/task-filter
done
beside disturb
ok "random pages while one allocation in fifty fails" sh -c "
	echo 1 >/proc/self/make-it-fail
	exec /guest/pages random $DEV $PAGES $TIME $SEED 2 errors"
beside_stop
for kind in failslab fail_page_alloc; do
	echo 0 >$debug/$kind/probability
done
ok "and without failures again" /guest/pages random "$DEV" "$PAGES" 1 "$SEED" 2
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

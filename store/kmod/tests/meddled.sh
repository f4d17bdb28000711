#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest:
#
# Pages that are read into a buffer whose owner changes it meanwhile: from the pool
# and from a backing device, raw and compressed, verified or not. It is no error, and
# nothing is called damaged.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
loop_new "$SIZE"

# failures: reads that failed, and what was called damaged or no match.
failures_now() {
	echo "$(meld_stat mismatches) $(meld_stat damaged) $(field io_stat 1)"
}

# try NAME COMPRESSED VERIFY: on half the pages written back.
try() {
	put reset 1 >/dev/null
	same "$1: backing_dev" 0 "$(put backing_dev "$loop")"
	same "$1: compressed_writeback" 0 "$(put compressed_writeback "$2")"
	same "$1: disksize" 0 "$(put disksize "${SIZE}M")"
	same "$1: verify" 0 "$(put verify "$3")"
	/guest/pages fill "$DEV" 2000 "$SEED" 30
	same "$1: writeback" 0 "$(put writeback "page_indexes=0-999")"
	ok "$1: pages went there" [ "$(field bd_stat 1)" -gt 100 ]
	ok "$1: no read fails" /guest/pages changed "$DEV" 2000
	same "$1: nothing is called damaged" "0 0 0" "$(failures_now)"
	ok "$1: every page is right" /guest/pages verify "$DEV" 2000 "$SEED" 30
}

for verify in 0 1; do
	try "whole, verify $verify" 0 $verify
	try "compressed, verify $verify" 1 $verify
done
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest:
#
# Pages that are read into a buffer whose owner changes it meanwhile: from the pool
# and from a backing device, raw and compressed, verified or not, and with codecs
# that take a checksum of the page. It is no error, and nothing is called damaged.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
loop_new "$SIZE"

# failures: reads that failed, and what was called damaged or no match.
failures_now() {
	echo "$(meld_stat mismatches) $(meld_stat damaged) $(field io_stat 1)"
}

# try NAME COMPRESSED VERIFY [ALGORITHM-PARAMETERS]: on half the pages written back.
try() {
	put reset 1 >/dev/null
	same "$1: backing_dev" 0 "$(put backing_dev "$loop")"
	same "$1: compressed_writeback" 0 "$(put compressed_writeback "$2")"
	[ -z "$4" ] || same "$1: algorithm_params" 0 "$(put algorithm_params "$4")"
	same "$1: disksize" 0 "$(put disksize "${SIZE}M")"
	same "$1: verify" 0 "$(put verify "$3")"
	/guest/pages fill "$DEV" 2000 "$SEED" 30
	same "$1: writeback" 0 "$(put writeback "page_indexes=0-999")"
	ok "$1: pages went there" [ "$(field bd_stat 1)" -gt 100 ]
	ok "$1: no read fails" /guest/meddle read "$DEV" 2000
	same "$1: nothing is called damaged" "0 0 0" "$(failures_now)"
	ok "$1: every page is right" /guest/pages verify "$DEV" 2000 "$SEED" 30
}

for verify in 0 1; do
	try "whole, verify $verify" 0 $verify
	try "compressed, verify $verify" 1 $verify
done
if grep -q deflate "$SYS/comp_algorithm"; then
	put reset 1 >/dev/null
	put comp_algorithm deflate >/dev/null
	for verify in 0 1; do
		try "deflate with a checksum, verify $verify" 1 $verify "deflate.winbits=15"
	done
fi
if grep -q 842 "$SYS/comp_algorithm"; then
	put reset 1 >/dev/null
	put comp_algorithm 842 >/dev/null
	try "842" 1 0
fi
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

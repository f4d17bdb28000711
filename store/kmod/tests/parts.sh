#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: small-blocks
#
# Parts of pages, as machines have them whose pages are larger than a block: the
# module of this test has blocks of 512 bytes. Runs of sectors anywhere, from
# buffers that are not aligned to a page; then several jobs that meet in each page.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
loop_new "$SIZE"
for BACKING in "" "$loop"; do
	put reset 1 >/dev/null
	[ -z "$BACKING" ] || same "backing_dev" 0 "$(put backing_dev "$loop")"
	same "recomp_algorithm" 0 "$(put recomp_algorithm "algo=$(other_codec) priority=1")"
	same "disksize" 0 "$(put disksize "${SIZE}M")"
	same "blocks are small" 512 "$(cat "$SYS/queue/logical_block_size")"
	[ -z "$BACKING" ] || put verify 1 >/dev/null
	beside disturb
	for jobs in 1 3; do
		ok "parts of pages, $jobs jobs${BACKING:+, on the backing device too}" \
			/guest/pages parts "$DEV" 1500 "$TIME" "$SEED" $jobs
	done
	beside_stop
	same "no page was damaged" "0 0" "$(meld_stat mismatches) $(meld_stat damaged)"
	same "no read failed" 0 "$(field io_stat 1)"
	blkdiscard "$DEV"
	same "discard empties it" 0 "$(field mm_stat 1)"
done
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

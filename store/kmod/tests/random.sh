#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream
#
# Writes, reads and discards of random pages against a model, several jobs, while
# all that can be done to stored pages is done beside.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
loop_new "$SIZE"
for settings in "" "recomp" "backing" "recomp backing"; do
	setup=
	BACKING=
	case $settings in *recomp*)
		has recomp_algorithm || continue
		setup="recomp_algorithm=algo=$(other_codec)_priority=1"
		;;
	esac
	case $settings in *backing*)
		has backing_dev || continue
		BACKING=$loop
		;;
	esac
	put reset 1 >/dev/null
	[ -z "$BACKING" ] || same "backing_dev" 0 "$(put backing_dev "$loop")"
	[ -z "$setup" ] || same "recomp_algorithm" 0 \
		"$(put recomp_algorithm "algo=$(other_codec) priority=1")"
	same "disksize" 0 "$(put disksize "${SIZE}M")"
	[ -z "$BACKING" ] || [ ! -e "$SYS/verify" ] || put verify 1 >/dev/null
	beside disturb
	ok "random pages, disturbed ($settings)" \
		/guest/pages random "$DEV" "$PAGES" "$TIME" "$SEED" 3
	beside_stop
	ok "settled pages stay what they are" /guest/pages random "$DEV" "$PAGES" 1 "$SEED" 2
	[ ! -e "$SYS/meld_stat" ] || same "no page was damaged" "0 0" "$(meld_stat mismatches) $(meld_stat damaged)"
	blkdiscard "$DEV"
	same "discard empties it" 0 "$(field mm_stat 1)"
done
put reset 1 >/dev/null
loop_end
ok "the module can be unloaded" module_unload
end

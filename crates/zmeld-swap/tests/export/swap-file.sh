#!/bin/sh
# Sets up compressed swap. Written by zmeld export script; zmeld is not needed to
# run it.
#
#   script         set up what is not set up yet
#   script undo    take it back
#
# Functions are called by their names, and not all of them by every set-up.
# shellcheck disable=SC2317,SC2329

...

# file
tier_1() {
	create_file '/var/100% swap/zmeld' 4294967296 file
	[ -f '/var/100% swap/zmeld' ] || fail '/var/100% swap/zmeld' is not there
	if is_on '/var/100% swap/zmeld'; then return; fi
	make_swap '/var/100% swap/zmeld' file
	ln -sfn '/var/100% swap/zmeld' "$state/area-file"
	switch_on "$state/area-file" 100 none
}

set_up() {
	tier file required tier_1
	:
}

main "$@"

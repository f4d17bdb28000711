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

# fast
tier_1() {
	add_ram zram
	put "$(share 5000)" "$sys/disksize"
	make_swap "$device" fast
	switch_on "$device" 100 none
}

set_up() {
	tier .zswap required zswap_off
	tier fast required tier_1
	:
}

main "$@"

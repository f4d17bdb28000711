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

# old
tier_1() {
	await /dev/sda2 30
	if is_on /dev/sda2; then return; fi
	must_carry /dev/sda2 swap
	switch_on /dev/sda2 5 none
}

set_up() {
	tier old required tier_1
	:
}

main "$@"

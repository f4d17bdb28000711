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

tunables() {
	set_value /proc/sys/vm/swappiness 150
	set_value /proc/sys/vm/page-cluster 0
}

set_up() {
	tier .tunables required tunables
	:
}

main "$@"

#!/bin/sh
# Sets up compressed swap. Written by zmeld export script; zmeld is not needed to
# run it.
#
#   script         set up what is not set up yet
#   script undo    take it back
#
# Functions are called by their names, and not all of them by every set-up.
# shellcheck disable=SC2317,SC2329
#
# Left out: [watch.writeback] is done by zmeld watch

...

# fast
tier_1() {
	if (await '/dev/disk/by-partlabel/write\x20back' 10); then
		backing=yes
	else
		backing=
	fi
	[ -z "$backing" ] || open_random '/dev/disk/by-partlabel/write\x20back' zmeld-fast aes-xts-plain64 512
	add_ram zram
	put lz4 "$sys/comp_algorithm"
	[ -z "$backing" ] || put "$(readlink -f /dev/mapper/zmeld-fast)" "$sys/backing_dev"
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

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

# cache
tier_1() {
	set_value /sys/module/zswap/parameters/compressor lz4
	set_value /sys/module/zswap/parameters/enabled Y
}

# nvme
tier_2() {
	await /dev/disk/by-uuid/7a0b1c2d-0000-4000-8000-0123456789ab 30
	if is_on /dev/disk/by-uuid/7a0b1c2d-0000-4000-8000-0123456789ab; then return; fi
	must_carry /dev/disk/by-uuid/7a0b1c2d-0000-4000-8000-0123456789ab crypto_LUKS
	open_luks /dev/disk/by-uuid/7a0b1c2d-0000-4000-8000-0123456789ab zmeld-nvme '/etc/zmeld/nvme 1.key'
	make_swap /dev/mapper/zmeld-nvme nvme
	switch_on /dev/mapper/zmeld-nvme 100 none
}

set_up() {
	tier cache required tier_1
	tier nvme required tier_2
	:
}

main "$@"

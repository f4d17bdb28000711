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
# Left out: [watch.recompress] is done by zmeld watch
#
# Left out: [watch.meld] is done by zmeld watch
#
# Left out: [metrics] are zmeld's

...

# fast
tier_1() {
	add_ram zmeld
	put 'algo=zstd priority=1' "$sys/recomp_algorithm"
	put 'priority=1 dict=/etc/zmeld/pages.dict' "$sys/algorithm_params"
	put "$(share 5000)" "$sys/disksize"
	put auto "$sys/meld_mode"
	make_swap "$device" fast
	switch_on "$device" 100 none
}

# second
tier_2() {
	add_ram zram
	put "$(share 5000)" "$sys/disksize"
	make_swap "$device" second
	switch_on "$device" 90 none
}

# nvme
tier_3() {
	await /dev/disk/by-partuuid/0e0-01 30
	if is_on /dev/disk/by-partuuid/0e0-01; then return; fi
	open_random /dev/disk/by-partuuid/0e0-01 zmeld-nvme aes-xts-plain64 512
	make_swap /dev/mapper/zmeld-nvme nvme
	switch_on /dev/mapper/zmeld-nvme 80 none
}

# old
tier_4() {
	await /dev/disk/by-label/swap 30
	if is_on /dev/disk/by-label/swap; then return; fi
	must_carry /dev/disk/by-label/swap swap
	switch_on /dev/disk/by-label/swap 70 none
}

set_up() {
	tier .zswap required zswap_off
	tier fast required tier_1
	tier second optional tier_2
	tier nvme optional tier_3
	tier old required tier_4
	:
}

main "$@"

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

# nvme
tier_1() {
	await /dev/disk/by-id/nvme-CHEAP_1-part2 5
	if is_on /dev/disk/by-id/nvme-CHEAP_1-part2; then return; fi
	open_random /dev/disk/by-id/nvme-CHEAP_1-part2 zmeld-nvme aes-xts-plain64 512 --allow-discards
	make_swap /dev/mapper/zmeld-nvme nvme
	switch_on /dev/mapper/zmeld-nvme 100 once
}

set_up() {
	tier nvme optional tier_1
	:
}

main "$@"

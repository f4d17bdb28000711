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
# Left out: swappiness = "auto" is measured by zmeld up; write the number that it finds
#
# Left out: [watch.recompress] is done by zmeld watch
#
# Left out: [watch.writeback] is done by zmeld watch
#
# Left out: [watch.meld] is done by zmeld watch
#
# Left out: [metrics] are zmeld's

...

# fast
tier_1() {
	if (await /dev/disk/by-partuuid/0e0-01 5); then
		backing=yes
	else
		backing=
	fi
	[ -z "$backing" ] || open_random /dev/disk/by-partuuid/0e0-01 zmeld-fast aes-cbc-essiv:sha256 256
	add_ram zmeld
	put lz4 "$sys/comp_algorithm"
	put 'priority=0 level=2 dict=/etc/zmeld/pages.dict' "$sys/algorithm_params"
	put 'algo=zstd priority=2' "$sys/recomp_algorithm"
	put 'priority=2 level=3' "$sys/algorithm_params"
	put 'algo=deflate priority=3' "$sys/recomp_algorithm"
	put 'priority=3 level=9' "$sys/algorithm_params"
	[ -z "$backing" ] || put "$(readlink -f /dev/mapper/zmeld-fast)" "$sys/backing_dev"
	[ -z "$backing" ] || put 1 "$sys/compressed_writeback"
	put "$(share 7500 8589934592)" "$sys/disksize"
	put "$(share 2500)" "$sys/mem_limit"
	if [ -n "$backing" ]; then
		put 524288 "$sys/writeback_limit"
		put 1 "$sys/writeback_limit_enable"
	fi
	put inline "$sys/meld_mode"
	make_swap "$device" fast
	switch_on "$device" 32767 both
}

# cache
tier_2() {
	set_value /sys/module/zswap/parameters/compressor zstd
	set_optional /sys/module/zswap/parameters/zpool z3fold
	set_value /sys/module/zswap/parameters/max_pool_percent 30
	set_optional /sys/module/zswap/parameters/accept_threshold_percent 80
	set_optional /sys/module/zswap/parameters/shrinker_enabled Y
	set_optional /sys/module/zswap/parameters/same_filled_pages_enabled N
	set_value /sys/module/zswap/parameters/enabled Y
}

# file
tier_3() {
	create_file '/var/swap/zmeld 1' 4294967296 file
	[ -f '/var/swap/zmeld 1' ] || fail '/var/swap/zmeld 1' is not there
	if is_on '/var/swap/zmeld 1'; then return; fi
	make_swap '/var/swap/zmeld 1' file
	ln -sfn '/var/swap/zmeld 1' "$state/area-file"
	switch_on "$state/area-file" 100 none
}

# nvme
tier_4() {
	await '/dev/disk/by-label/my\x20swap' 30
	if is_on '/dev/disk/by-label/my\x20swap'; then return; fi
	format_luks '/dev/disk/by-label/my\x20swap' /etc/zmeld/nvme.key serpent-xts-plain64 256
	open_luks '/dev/disk/by-label/my\x20swap' zmeld-nvme /etc/zmeld/nvme.key
	make_swap /dev/mapper/zmeld-nvme nvme
	switch_on /dev/mapper/zmeld-nvme 90 none
}

tunables() {
	set_value /proc/sys/vm/page-cluster 1
	set_value /proc/sys/vm/watermark_scale_factor 125
	set_value /proc/sys/vm/watermark_boost_factor 0
	set_value /proc/sys/vm/compaction_proactiveness 30
	set_value /proc/sys/vm/vfs_cache_pressure 50
	set_value /proc/sys/vm/min_free_kbytes 65536
}

set_up() {
	tier fast optional tier_1
	tier cache required tier_2
	tier file required tier_3
	tier nvme required tier_4
	tier .tunables required tunables
	:
}

main "$@"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1 memory=256 disk=96 disk=96 disk=96 program=cryptsetup program=wipefs program=blkid long
#
# Encrypted disk swap with zswap in front. A marker is written into memory and swapped
# out: it has to be found on the raw drive that is not encrypted, and on none that is.

# shellcheck source-path=SCRIPTDIR source=../../../../store/kmod/tests/guest.sh
. /guest/guest.sh

marker=zmeld-marker-4f1c9a77d2
for module in virtio_pci virtio_blk dm-crypt algif_skcipher xts aesni-intel aes_generic zbud z3fold zsmalloc lz4; do
	modprobe -q "$module"
done
mkdir -p /etc /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
(umask 077; dd if=/dev/urandom of=/etc/zmeld.key bs=64 count=1 2>/dev/null)

machine() {
	cat /proc/swaps /proc/sys/vm/swappiness /proc/sys/vm/page-cluster
	grep . /sys/module/zswap/parameters/*
	ls /dev/mapper
	for device in /dev/vda /dev/vdb /dev/vdc; do wipefs --noheadings "$device"; done
}

# press: fills more than RAM with pages that hold the marker, each different, so that
# they reach the drive; gives them back afterwards.
press() {
	od -An -v -tx1 -N 65536 /dev/urandom | tr -d ' \n' >/tmp/noise
	awk -v marker="$marker" 'BEGIN {
		getline noise < "/tmp/noise"
		for (page = 0; page < 200000; page++) {
			held[page] = marker page substr(noise, 1 + page * 37 % 129000, 1900)
			if (page % 1000 == 0 && !system("test -e /tmp/enough"))
				break
		}
		for (page in held)
			if (held[page] != marker page substr(noise, 1 + page * 37 % 129000, 1900))
				exit 3
	}' &
	local child=$! used=0
	for _ in $(seq 300); do
		used=$(awk 'NR > 1 { sum += $4 } END { print sum + 0 }' /proc/swaps)
		[ "$used" -lt 40000 ] || break
		kill -0 $child 2>/dev/null || break
		sleep 1
	done
	: >/tmp/enough
	ok "$1: pages were swapped ($used KiB)" [ "$used" -ge 40000 ]
	wait $child
	same "$1: memory came back right" 0 $?
	rm /tmp/enough
	sync
}

# round NAME DRIVE LINE...: of a drive with these lines in its tier.
round() {
	local what=$1 drive=$2 before count
	shift 2
	{
		printf '%s\n' 'accept = ["unstable-name"]' '[tier.disk]' 'kind = "disk"' \
			"device = \"$drive\"" "$@"
		printf '%s\n' '[tier.cache]' 'kind = "zswap"' 'compressor = "lz4"' 'max_pool_percent = 5' \
			'[tunables]' 'swappiness = 180' 'page_cluster = 0'
	} >/tmp/zmeld.toml
	before=$(machine)
	ok "$what: up" zmeld up --config /tmp/zmeld.toml --no-scan
	ok "$what: a second run changes nothing" sh -c \
		'zmeld up --config /tmp/zmeld.toml --no-scan --json | grep -q "\"applied\": \[\]"'
	same "$what: zswap is on" Y "$(cat /sys/module/zswap/parameters/enabled)"
	press "$what"
	count=$(grep -a -o "$marker" "$drive" | wc -l)
	case $what in
	plain) ok "$what: the control can be read ($count times)" [ "$count" -gt 100 ] ;;
	*) same "$what: what was swapped cannot be read" 0 "$count" ;;
	esac
	ok "$what: pages were written to $drive" [ \
		"$(od -An -v -tx1 -N 67108864 "$drive" | grep -v -c ' 00 00 00 00 00 00 00 00')" -gt 1000 ]
	ok "$what: down" zmeld down
	same "$what: the machine is as it was" "$before" "$(machine)"
}

round plain /dev/vda 'format = true'
round luks /dev/vdb 'format = true' 'encryption = "luks"' 'key_file = "/etc/zmeld.key"'
round random /dev/vdc 'encryption = "random"'
end

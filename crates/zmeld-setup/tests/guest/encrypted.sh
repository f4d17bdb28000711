#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1 memory=256 disk=96 disk=96 disk=96 program=cryptsetup program=wipefs program=blkid long
#
# Encrypted disk swap with zswap in front.
# A marker is written into memory and swapped out: it has to be found on the raw
# drive that is not encrypted, and on none that is.

set -eu

plain=/dev/vda
luks=/dev/vdb
random=/dev/vdc
marker=zmeld-marker-4f1c9a77d2
key=/tmp/key

checks=0
say() { printf '# %s\n' "$*"; }
pass() {
	checks=$((checks + 1))
	echo "ok $checks - $*"
}
fail() {
	checks=$((checks + 1))
	echo "not ok $checks - $*"
	echo "1..$checks"
	exit 1
}

for module in virtio_pci virtio_blk ext4 dm-crypt algif_skcipher xts aesni-intel aes_generic zbud z3fold zsmalloc lz4; do
	modprobe -q "$module" || true
done
mkdir -p /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null || true
(umask 077; dd if=/dev/urandom of=$key bs=64 count=1 2>/dev/null)

machine() {
	cat /proc/swaps /proc/sys/vm/swappiness /proc/sys/vm/page-cluster
	grep . /sys/module/zswap/parameters/*
	ls /dev/mapper
	for device in $plain $luks $random; do wipefs --noheadings "$device"; done
}

# Fills more than RAM with pages that hold the marker, each different, so that
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
	local child=$!
	for _ in $(seq 300); do
		used=$(awk 'NR > 1 { sum += $4 } END { print sum + 0 }' /proc/swaps)
		[ "$used" -ge "$1" ] && break
		kill -0 $child 2>/dev/null || break
		sleep 1
	done
	: >/tmp/enough
	[ "$used" -ge "$1" ] || fail "only $used KiB were swapped"
	wait $child || fail "memory came back changed, or the kernel killed its owner"
	rm /tmp/enough
	sync
}

# How often the marker is on a raw drive.
found() { grep -a -o "$marker" "$1" | wc -l; }

round() {
	local name=$1 drive=$2 expect=$3
	local before after
	before=$(machine)
	say "== $name"
	zmeld up --config "/tmp/$name.toml" --no-scan || fail "$name: up"
	pass "$name: up"
	zmeld up --config "/tmp/$name.toml" --no-scan --json | grep -q '"applied": \[\]' ||
		fail "$name: a second run changed something"
	pass "$name: a second run changes nothing"
	[ "$(cat /sys/module/zswap/parameters/enabled)" = Y ] || fail "$name: zswap is off"
	press 40000
	count=$(found "$drive")
	say "$name: the marker is $count times on $drive"
	case $expect in
	readable) [ "$count" -gt 100 ] || fail "$name: the control shows nothing" ;;
	unreadable) [ "$count" -eq 0 ] || fail "$name: what was swapped can be read" ;;
	esac
	pass "$name: $expect"
	[ "$(od -An -v -tx1 -N 67108864 "$drive" | grep -v -c ' 00 00 00 00 00 00 00 00')" -gt 1000 ] ||
		fail "$name: nothing was written to $drive"
	pass "$name: pages were written to $drive"
	zmeld down || fail "$name: down"
	after=$(machine)
	[ "$before" = "$after" ] || {
		diff <(say "$before") <(say "$after") || true
		fail "$name: the machine is not as it was"
	}
	pass "$name: the machine is as it was"
}

zswap='[tier.cache]
kind = "zswap"
compressor = "lz4"
max_pool_percent = 5
'
tunables='[tunables]
swappiness = 180
page_cluster = 0
'
cat >/tmp/plain.toml <<EOF
[tier.disk]
kind = "disk"
device = "$plain"
format = true
$zswap$tunables
EOF
cat >/tmp/luks.toml <<EOF
accept = ["unstable-name"]
[tier.disk]
kind = "disk"
device = "$luks"
format = true
encryption = "luks"
key_file = "/etc/zmeld.key"
$zswap$tunables
EOF
cat >/tmp/random.toml <<EOF
accept = ["unstable-name"]
[tier.disk]
kind = "disk"
device = "$random"
encryption = "random"
$zswap$tunables
EOF
mkdir -p /etc
cp -p $key /etc/zmeld.key

round plain $plain readable
round luks $luks unreadable
round random $random unreadable
echo "1..$checks"

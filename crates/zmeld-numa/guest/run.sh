#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Boots a stock Debian kernel with four NUMA nodes (the study's distances) in QEMU, without a hypervisor, runs
# init.c there and prints its lines. Prints "SKIP: reason" and exits with 77 where that is not possible.
#
# usage: run.sh CACHE-DIRECTORY
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: run.sh CACHE-DIRECTORY}
mkdir -p "$cache"

skip() {
	echo "SKIP: $*"
	exit 77
}

need() { # command package
	command -v "$1" >/dev/null 2>&1 && return
	[ "$(id -u)" = 0 ] || skip "$1 is missing, and only root can install $2"
	command -v apt-get >/dev/null 2>&1 || skip "$1 is missing, and there is no apt-get to install $2"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 ||
		skip "$2 cannot be installed"
}
need qemu-system-x86_64 qemu-system-x86
need gcc gcc
need cpio cpio

# The kernel is downloaded and unpacked, never installed.
if ! ls "$cache"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
	command -v apt-get >/dev/null 2>&1 || skip "no apt-get to fetch a Debian kernel with"
	package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
	[ -n "$package" ] || skip "apt knows no linux-image-cloud-amd64"
	(cd "$cache" && apt-get download -qq "$package" >/dev/null 2>&1) || skip "$package cannot be downloaded"
	dpkg-deb -x "$cache"/linux-image-*.deb "$cache/kernel" || skip "$package cannot be unpacked"
fi
kernel=$(ls "$cache"/kernel/boot/vmlinuz-* | head -1)

root="$cache/root"
rm -rf "$root"
mkdir -p "$root"
gcc -static -O2 -Wall -o "$root/init" "$here/init.c" || skip "gcc cannot link statically"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip) >"$cache/initramfs"

echo "ZMELD-KERNEL $(basename "$kernel")"
timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 8 -m 1024 -nographic -no-reboot \
	-object memory-backend-ram,size=256M,id=m0 -object memory-backend-ram,size=256M,id=m1 \
	-object memory-backend-ram,size=256M,id=m2 -object memory-backend-ram,size=256M,id=m3 \
	-numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 \
	-numa node,nodeid=2,cpus=4-5,memdev=m2 -numa node,nodeid=3,cpus=6-7,memdev=m3 \
	-numa dist,src=0,dst=1,val=20 -numa dist,src=0,dst=2,val=35 -numa dist,src=0,dst=3,val=55 \
	-numa dist,src=1,dst=2,val=55 -numa dist,src=1,dst=3,val=35 -numa dist,src=2,dst=3,val=20 \
	-kernel "$kernel" -initrd "$cache/initramfs" -append "console=ttyS0 quiet panic=-1" </dev/null 2>/dev/null |
	tr -d '\r' | grep -E '^ZMELD' >"$cache/output"
cat "$cache/output"
grep -q '^ZMELD-DONE' "$cache/output" || { echo "ZMELD-FAILED the guest did not finish"; exit 1; }

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um-zword,um-zword-6.12,um-zword-7.3 memory=208 disk=512 upstream
#
# A kernel with the series of `cargo xtask kernel-patch`: their KUnit tests pass, the crypto API
# tests its compressors by vectors, and programs get their pages back from zswap with each.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

ZSWAP=/sys/module/zswap/parameters
KUNIT=/sys/kernel/debug/kunit

suite() { # MODULE SUITE
	ok "modprobe $1" modprobe "$1"
	sed 's/^/# /' "$KUNIT/$2/results"
	ok "all tests of $2 pass" \
		sh -c "grep -q '^ok ' $KUNIT/$2/results && ! grep -q 'not ok' $KUNIT/$2/results"
}

tested() { # DRIVER: by vectors of its own
	ok "$1 passed its tests" sh -c "grep -A 9 'driver  *: $1\$' /proc/crypto |
		grep -m 1 '^selftest' | grep -q passed"
	ok "and has some" sh -c "! dmesg | grep 'No test for .*($1)'"
}

# Who uses zram only pays for no table of zword's.
modprobe zram
before=$(awk '/^(VmallocUsed|Slab):/ { n += $2 } END { print n }' /proc/meminfo)
echo zword >$SYS/comp_algorithm
echo 4M >$SYS/disksize
after=$(awk '/^(VmallocUsed|Slab):/ { n += $2 } END { print n }' /proc/meminfo)
echo "# vmalloc and slab: $before KiB, then $after KiB with zword's tables and contexts"
/guest/pages fill $DEV 500 "$SEED" 10
ok "zram gives pages back" /guest/pages verify $DEV 500 "$SEED" 10
echo 1 >$SYS/reset

suite zword_kunit zword
[ -e "/usr/lib/modules/$(uname -r)/kernel/crypto/zstd_kunit.ko" ] && suite zstd_kunit crypto_zstd
modprobe zword
tested zword-scomp

[ ! -e $ZSWAP/zpool ] || { modprobe zsmalloc; echo zsmalloc >$ZSWAP/zpool; }
mkswap /dev/ubda >/dev/null
need=$(($(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo) * 11 / 10))
for codec in zword zstd; do
	echo $codec >$ZSWAP/compressor
	same "zswap takes $codec" $codec "$(cat $ZSWAP/compressor)"
	echo Y >$ZSWAP/enabled
	ok swapon swapon /dev/ubda
	ok "a program gets its pages back from $codec" /guest/pages swap $need 1 "$SEED" 10
	same "$codec could decode all" 0 "$(cat /sys/kernel/debug/zswap/decompress_fail || echo 0)"
	ok swapoff swapoff /dev/ubda
done
end

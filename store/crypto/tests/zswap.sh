#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,um-debug,6.1,6.12,6.12-rt,7.2,7.3,7.3-arm64,7.3-arm64-16k memory=208 disk=768
#
# zswap with zword, in front of a swap disk: programs that need more memory than there
# is verify each of their pages, while compressors are switched, the shrinker writes
# pages back, a group's share is full, a group has nothing written back, allocations fail,
# and processors come and go where they can. The module stays while it is used.

# shellcheck source-path=SCRIPTDIR/../../kmod/tests
. /guest/guest.sh

ZSWAP=/sys/module/zswap/parameters
COUNTS=/sys/kernel/debug/zswap
ERRORS=/sys/kernel/debug/zword/encode_errors

count() {
	cat "$COUNTS/$1" 2>/dev/null || echo 0
}

set_to() { # PARAMETER VALUE
	echo "$2" >"$ZSWAP/$1" && same "zswap's $1" "$2" "$(cat "$ZSWAP/$1")"
}

for module in virtio_pci virtio_blk; do modprobe -q $module; done
for disk in /dev/vda /dev/ubda /dev/ubdb; do
	[ ! -b "$disk" ] || break
done
total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
need=$((total * 11 / 10))
# Of a program larger than its group, a quarter of the pages does not compress: where
# nothing may be written back it stays, and a kernel that finds only those ends the program.
limit=max few=64 few_limit=44M
# Where each page takes long, a small program that has a limit.
[ "$SIZE" -ge 64 ] || { need=16 limit=8M few=16 few_limit=11M; }
rounds=$((1 + (TIME >= 120)))
memory_groups groups
mkdir $GROUPS_TOP/whole $GROUPS_TOP/of
echo $limit >$GROUPS_TOP/whole/memory.max
echo $few_limit >$GROUPS_TOP/of/memory.max
# In the group whose file comes first, with so many MiB.
# shellcheck disable=SC2016
IN_GROUP='echo 0 >"$0"; exec /guest/pages swap "$@"'

# By name, as the kernel asks for it: it is in no list.
if [ -e $ZSWAP/zpool ]; then
	modprobe zsmalloc 2>/dev/null
	set_to zpool zsmalloc
fi
set_to max_pool_percent 25
set_to compressor zword
echo Y >$ZSWAP/enabled
ok "the kernel loaded it" grep -q '^zword ' /proc/modules
ok "the crypto API knows it" grep -q 'driver *: zword-scomp' /proc/crypto
same "writes are checked" Y "$(cat /sys/module/zword/parameters/check_writes)"
mkswap "$disk" >/dev/null
ok swapon swapon "$disk"

# Each is a level of its own: the same pages take other room. Those of some seeds take the same.
room() { # COMPRESSOR
	echo "$1" >$ZSWAP/compressor
	sum=0
	for pages in 1 2; do
		/guest/pages swap 8 1 "$pages" 0 1 64 "cat $COUNTS/pool_total_size >/tmp/room" >&2
		sum=$((sum + $(tail -n 1 /tmp/room)))
	done
	echo $sum
}
first=$(room zword)
dense=$(room zword-dense)
again=$(room zword)
echo "# zword takes $first and $again bytes, zword-dense $dense"
ok "zword-dense is another level" [ $(((dense - again) * 400 / again)) -ne 0 ]
set_to compressor zword

verified() { # NAME: by a program that needs more memory than there is
	ok "a program gets its pages back, $1" \
		sh -c "$IN_GROUP" $GROUPS_TOP/whole/cgroup.procs $need $rounds "$SEED" 10
}

# Held still, so that its pages stay where they are.
sh -c "$IN_GROUP" $GROUPS_TOP/whole/cgroup.procs $need $rounds "$SEED" 10 &
pages=$!
n=0
while [ $n -lt 300 ] && [ "$(count stored_pages)" -lt 2000 ]; do
	sleep 0.1
	n=$((n + 1))
done
kill -STOP $pages
stored=$(count stored_pages)
bytes=$(count pool_total_size)
echo "# $stored pages in $bytes bytes of the pool"
ok "zswap has pages" [ "$stored" -gt 500 ]
ok "the module stays while it is used" sh -c '! rmmod zword 2>/dev/null'
set_to compressor lzo
ok "and while pages are left that it made" sh -c '! rmmod zword 2>/dev/null'
set_to compressor zword
kill -CONT $pages
wait $pages
ok "the program verified its pages" [ $? -eq 0 ]

switch() {
	for name in zword-dense lzo zword; do
		echo $name >$ZSWAP/compressor
		sleep 0.3
	done
}
beside switch
verified "compressors switched"
beside_stop
ok "zword-dense was one of them" grep -q 'driver *: zword-dense-scomp' /proc/crypto

set_to compressor zword
set_to max_pool_percent 1
[ ! -e $ZSWAP/shrinker_enabled ] || echo Y >$ZSWAP/shrinker_enabled
before=$(count written_back_pages)
verified "a small pool, written back to disk"
echo "# written back: $(($(count written_back_pages) - before))"
# User-mode Linux has one processor here, and its processors stay.
if [ -e /sys/devices/system/cpu/cpu1/online ]; then
	hotplug() {
		echo 0 >/sys/devices/system/cpu/cpu1/online
		sleep 0.3
		echo 1 >/sys/devices/system/cpu/cpu1/online
		sleep 0.3
	}
	beside hotplug
	verified "a processor that comes and goes"
	beside_stop
fi
set_to max_pool_percent 50
grouped() { # FILE VALUE NAME: a program larger than its group, which has that value
	if [ ! -e "$GROUPS_TOP/of/$1" ]; then
		skip "a program gets its pages back, $3" "this kernel has no $1"
		return
	fi
	before=$(cat "$GROUPS_TOP/of/$1")
	echo "$2" >"$GROUPS_TOP/of/$1"
	ok "a program gets its pages back, $3" \
		sh -c "$IN_GROUP" $GROUPS_TOP/of/cgroup.procs $few $rounds "$SEED" 10
	echo "$before" >"$GROUPS_TOP/of/$1"
}
grouped memory.zswap.max 4M "a group's share is full"
grouped memory.zswap.writeback 0 "a group has nothing written back"
if [ -d /sys/kernel/debug/failslab ]; then
	fail() { # PERCENT: of what may not wait for memory, as zswap's pool
		for kind in failslab fail_page_alloc; do
			echo 0 >/sys/kernel/debug/$kind/verbose
			echo -1 >/sys/kernel/debug/$kind/times
			echo "$1" >/sys/kernel/debug/$kind/probability
		done
		echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
	}
	fail 10
	verified "allocations that fail"
	fail 0
fi
grep . $COUNTS/* | sed 's/^/# /'
same "no page was encoded wrongly" 0 "$(cat $ERRORS)"
same "zswap could decode all" 0 "$(count decompress_fail)"

ok swapoff swapoff "$disk"
set_to compressor lzo
# Pools of compressors that nobody needs are freed a little later.
n=0
while [ $n -lt 50 ] && ! rmmod zword 2>/dev/null; do
	sleep 0.2
	n=$((n + 1))
done
if grep -q "^zword " /proc/modules && [ ! -e $GROUPS_TOP/of/memory.zswap.writeback ]; then
	skip "then the module can be unloaded" "before 6.6 zswap keeps a pool that was full"
else
	ok "then the module can be unloaded" sh -c '! grep -q "^zword " /proc/modules'
fi
end

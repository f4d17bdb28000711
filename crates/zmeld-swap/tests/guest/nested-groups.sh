#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.12 memory=256
#
# A user's groups, nested deeper than any path leads, with pages in swap and with limits of his
# own: `zmeld down` switches swap off, and what was in it is there still.

# shellcheck source-path=SCRIPTDIR source=../../../../store/kmod/tests/guest.sh
. /guest/guest.sh

modprobe zram num_devices=0 || exit 1
modprobe -q lz4
memory_groups "nested groups"
deep=$(printf 'n%.0s' $(seq 250))
ok "up" zmeld up --tier zram --size 60% --codec lz4 --no-scan
mkdir "$GROUPS_TOP"/user /tmp/files
mount -t tmpfs none /tmp/files
chown -R 65534 "$GROUPS_TOP"/user

# No path leads to the innermost: it is held open.
at=/proc/$$/fd/3
exec 3<"$GROUPS_TOP"/user
for _ in $(seq 18); do
	echo +memory >$at/cgroup.subtree_control
	mkdir "$at/$deep"
	exec 4<"$at/$deep" 3<&4
	chown 65534 $at/*
done
(
	echo $BASHPID >$at/cgroup.procs
	head -c 41943040 /dev/urandom >/tmp/files/held
)
sum=$(sha256sum </tmp/files/held)
# A limit that is left, and one that lets nothing back: there is no program to end.
for limit in max 8M; do
	[ $limit = max ] || ok "up again" zmeld up --tier zram --size 60% --codec lz4 --no-scan
	# What was written just now is not reclaimed at once.
	for _ in $(seq 600); do
		echo 1M >$at/memory.reclaim 2>/dev/null || sleep 0.1
		[ "$(cat $at/memory.swap.current)" -lt 30000000 ] || break
	done
	used=$(awk 'NR > 1 { sum += $4 } END { print sum + 0 }' /proc/swaps)
	ok "$limit: pages of the innermost are in swap ($used KiB)" [ "$used" -ge 20000 ]
	echo $limit >$at/memory.max
	ok "$limit: down" zmeld down
	same "$limit: nothing is swapped to" 1 "$(wc -l </proc/swaps)"
done
same "what was swapped came back right" "$sum" "$(sha256sum </tmp/files/held)"
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.12 memory=256
#
# `[watch.reclaim]` on control groups of a real kernel: what is idle goes to zram,
# what is protected is not touched, and it backs off where memory comes back.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

modprobe zram num_devices=0 || exit 1
modprobe -q lz4
mount -t debugfs none /sys/kernel/debug 2>/dev/null
memory_groups "reclaim"
ok "up" zmeld up --tier zram --size 60% --codec lz4 --no-scan

# group NAME MIB: a group with a file of that size in memory, not all zeros.
group() {
	mkdir $GROUPS_TOP/"$1" /tmp/"$1"
	mount -t tmpfs none /tmp/"$1"
	(
		sh -c "echo \$\$ >$GROUPS_TOP/$1/cgroup.procs
			i=0
			while [ \$i -lt $2 ]; do
				head -c 524288 /dev/urandom
				head -c 524288 /dev/zero
				i=\$((i + 1))
			done >/tmp/$1/cold"
	)
	sha256sum </tmp/"$1"/cold >/tmp/"$1".sum
}

memory() {
	cat $GROUPS_TOP/"$1"/memory.current
}

group app 40
group kept 24
# What a group is promised the kernel does not spare here.
group promised 24
echo 20971520 >$GROUPS_TOP/promised/memory.low
cat >/tmp/zmeld.toml <<END
[watch]
cpu_pressure_max = "100%"

[watch.reclaim]
groups = ["/"]
protect = ["kept"]
idle_after = "5s"
every = "1s"
step = "10%"
pressure_max = "50%"
refault_max = "20%"
END
first=$(memory app)
kept=$(memory kept)
promised=$(memory promised)
zmeld watch --config /tmp/zmeld.toml 2>/tmp/said &
watch=$!
n=0
while [ $n -lt 300 ] && [ "$(memory app)" -gt $((first / 2)) ]; do
	sleep 1
	n=$((n + 1))
done
now=$(memory app)
echo "# app: $first bytes at first, $now after $n s, $(cat $GROUPS_TOP/app/memory.swap.current) in swap"
ok "half of its memory was reclaimed" [ "$now" -le $((first / 2)) ]
ok "it is in swap" [ "$(cat $GROUPS_TOP/app/memory.swap.current)" -gt 10000000 ]
same "what is protected has what it had" "$kept" "$(memory kept)"
same "and what is promised" "$promised" "$(memory promised)"
sleep 11
zmeld status >/tmp/status
sed 's/^/# /' /tmp/status
ok "status tells of it" grep -q '^RECLAIMED AHEAD OF TIME' /tmp/status
ok "and why a group is protected" grep -q '/kept is protected: as' /tmp/status
ok "metrics tell of it" sh -c \
	'zmeld metrics | grep -q "^zmeld_reclaimed_bytes_total{cgroup=\"/app\"} [1-9]"'

# All of it is used again.
sum=$(sha256sum </tmp/app/cold)
same "memory came back right" "$(cat /tmp/app.sum)" "$sum"
n=0
while [ $n -lt 300 ] && ! grep -q '/app: backs off' /tmp/said; do
	sleep 1
	n=$((n + 1))
done
sed 's/^/# /' /tmp/said
ok "it backed off after $n s" [ $n -lt 300 ]
kill $watch
wait $watch
same "the watch ended as it should" 0 $?
same "what was protected is right" "$(cat /tmp/kept.sum)" "$(sha256sum </tmp/kept/cold)"
ok "down" zmeld down
end

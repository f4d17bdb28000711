#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um memory=512 disk=64 disk=64 systemd long program=strace
#
# The units that the generator makes of eight files, started by systemd in every order,
# zswap on and off before; then one of them killed with signal 9 at each of its steps,
# and power lost there: what is volatile is gone, what is on disk stays.

# shellcheck source-path=SCRIPTDIR source=../../../../store/kmod/tests/guest.sh
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	ln -s /usr/bin/zmeld "$PREPARE/usr/lib/systemd/system-generators/zmeld-generator"
	cp /bin/strace "$PREPARE/usr/bin/"
	cp -L /usr/lib/x86_64-linux-gnu/libunwind* "$PREPARE/usr/lib/x86_64-linux-gnu/"
	exit 0
fi

FOLDER=/var/lib/drill
DRIVES="/dev/ubda /dev/ubdb"
FAST='[tier.fast] kind="zram" size="64MiB" memory_limit="32MiB"'
SECOND='[tier.second] kind="zram" size="32MiB" codec="lz4"'
FILE='[tier.file] kind="disk" file="'$FOLDER'/swap" size="4MiB"'
DRIVE='[tier.drive] kind="disk" device="/dev/ubda" format=true'
SECRET='[tier.secret] kind="disk" device="/dev/ubdb" encryption="random"'
MISSING='[tier.missing] kind="disk" device="/dev/gone" optional=true timeout="1s"'
CACHE='[tier.cache] kind="zswap" compressor="lz4"'
TUNABLES='[tunables] swappiness=150'

# The zmeld of a unit is killed where it enters so many-th of these: before or behind
# what it does to the machine, each change of what it has written down, a command.
STEPS=rename,renameat,renameat2,linkat,fallocate,swapon,wait4,waitid
cat >/tmp/dying <<END
#!/bin/sh
[ -e /tmp/at ] || exec "\$@"
exec strace -qq -o /dev/null -e trace=$STEPS -e inject=$STEPS:signal=KILL:when=\$(cat /tmp/at) "\$@"
END
chmod +x /tmp/dying
mkdir -m 700 $FOLDER
systemctl is-system-running --wait
grep . /sys/module/zswap/parameters/* /proc/sys/vm/{swappiness,page-cluster} >/tmp/settings

# machine: what a drill may change, without the drives.
machine() {
	cat /proc/swaps
	grep . /sys/module/zswap/parameters/* /proc/sys/vm/{swappiness,page-cluster}
	grep -o '^zram ' /proc/modules
	ls /dev/mapper /sys/block
}

on_disk() {
	# shellcheck disable=SC2086
	wipefs --noheadings $DRIVES
	ls -A $FOLDER
}

# lose_power: nothing is left but what is on disk.
lose_power() {
	swapoff -a
	udevadm settle
	[ ! -e /dev/mapper/zmeld-secret ] || dmsetup remove --retry zmeld-secret
	! grep -q '^zram ' /proc/modules || rmmod zram
	while IFS=: read -r setting value; do echo "$value" >"$setting"; done </tmp/settings
	rm -rf /run/zmeld
	forget
}

# forget: systemd's part of that.
forget() {
	rm -f /tmp/at
	# shellcheck disable=SC2086
	systemctl stop $units 2>/dev/null
	systemctl reset-failed
}

# begin ZSWAP: a drill, on a machine as at the first boot.
begin() {
	lose_power
	rm -f $FOLDER/*
	# shellcheck disable=SC2086
	wipefs -q -a $DRIVES
	echo "$1" >/sys/module/zswap/parameters/enabled
	sed -i "s,\(zswap/parameters/enabled:\).*,\1$1," /tmp/settings
	before=$(machine)
	before_on_disk=$(on_disk)
	what="$1 $text"
}

# wrong WHAT...: of this drill.
wrong() {
	faults=$((faults + 1))
	{
		echo "$what: $*"
		cat /proc/swaps /tmp/said
		journalctl -q -o cat -n 12 -u 'zmeld*'
	} 2>&1 | sed 's/^/# /'
}

# start UNIT...: one by one; the drive that is missing is waited for.
start() {
	local unit
	for unit in "$@"; do
		systemctl "${how:-start}" "$unit" 2>/tmp/said || [[ $unit = *missing* ]] || wrong "$unit"
	done
}

# is_set_up: as the file says, and zmeld says so.
is_set_up() {
	local enabled
	enabled=$(cat /sys/module/zswap/parameters/enabled)
	[ "$(wc -l </proc/swaps)" = $((areas + 1)) ] || wrong "not $areas areas"
	case $text in
	*zswap*) [ "$enabled" = Y ] || wrong "zswap is off" ;;
	*zram*) [ "$enabled" = N ] || wrong "zswap is on" ;;
	esac
	[ "$(ls -A $FOLDER)" = "$file" ] || wrong "in the folder: $(ls -A $FOLDER)"
	zmeld up --json >/tmp/said 2>&1
	tr -d ' \n' </tmp/said | grep -q '"applied":\[\],"undone":\[\]' || wrong "up did something"
	zmeld status --json >/tmp/said 2>&1
	! grep -q '"severity": "critical"\|"id": "not-applied"' /tmp/said || wrong "status"
}

# remove_doubtful: a device of which nobody can tell whether the killed run made it is
# left, unused, and with it the module; here that run did.
remove_doubtful() {
	local size
	for size in /sys/block/zram*/disksize; do
		[ "$at" = "" ] || [ "$(cat "$size" 2>/dev/null)" != 0 ] || rmmod zram
	done
}

# ends: down leaves what was before, and on disk as well where zmeld knew of all of it.
ends() {
	zmeld down >/tmp/said 2>&1 || wrong "down"
	forget
	remove_doubtful
	[ "$(machine)" = "$before" ] || wrong "after down: $(diff <(echo "$before") <(machine))"
	[ "$1" = lost ] || [ "$(on_disk)" = "$before_on_disk" ] || wrong "left on disk: $(on_disk)"
}

# orders DONE UNIT...: every order of the units, a line each.
orders() {
	local done=$1 i
	shift
	[ $# -gt 0 ] || echo "$done"
	for ((i = 1; i <= $#; i++)); do
		orders "$done ${!i}" "${@:1:i-1}" "${@:i+1}"
	done
}

# in_order UNIT...: once, and each stopped and started again.
in_order() {
	start "$@"
	is_set_up
	how=restart start "$@"
	is_set_up
	ends kept
}

# killed AT FATE UNIT...: the first of the units is killed at that step, and power is
# lost then or not; the others are started, and then it is. False where it was not.
killed() {
	local at=$1 fate=$2
	shift 2
	what="$what, $1 at $at, $fate"
	echo "$at" >/tmp/at
	systemctl start "$1" 2>/dev/null && return 1
	rm /tmp/at
	[ "$(systemctl show --value -p Result "$1")" = signal ] || wrong "it was not killed"
	if [ "$fate" = lost ]; then
		lose_power
		[ ! -e $FOLDER/swap ] || blkid -p $FOLDER/swap >/dev/null || headless=$((headless + 1))
	fi
	systemctl reset-failed
	start "${@:2}" "$1"
	is_set_up
	ends "$fate"
}

# with AREAS PART...: the drills of the file that has these parts.
with() {
	local unit zswap order number=0 kills=0 fate at
	areas=$1
	faults=0
	shift
	text="$*"
	file=$([[ $text != *tier.file* ]] || echo swap)
	{
		echo 'accept = ["lru-inversion", "read-ahead", "unstable-name", "readable-copy"]'
		echo "$text" | sed 's/ \([a-z_]*=\)/\n\1/g; s/ \[/\n[/g'
	} >/etc/zmeld.toml
	rm -rf /run/systemd/system/zmeld*
	systemctl daemon-reload
	units=$(cd /run/systemd/generator && ls zmeld*.service)
	quietly zmeld config check || faults=$((faults + 1))
	for zswap in Y N; do
		# shellcheck disable=SC2086
		while read -r order; do
			number=$((number + 1))
			begin $zswap
			in_order $order
		done < <(orders "" $units | shuf -n 6 --random-source=<(yes "$SEED" 2>/dev/null))
	done
	same "$text: $number orders" 0 "$faults"
	faults=0

	for unit in $units; do
		mkdir -p "/run/systemd/system/$unit.d"
		sed -n -e '1i [Service]\nExecStart=\nExecStop=' -e 's,^ExecStart=,&/tmp/dying ,p' \
			"/run/systemd/generator/$unit" >"/run/systemd/system/$unit.d/dying.conf"
	done
	systemctl daemon-reload
	for unit in $units; do
		[[ $unit != *missing* ]] || continue
		for fate in kept lost; do
			at=1
			begin N
			# shellcheck disable=SC2086
			while killed $at $fate "$unit" ${units/$unit/}; do
				kills=$((kills + 1))
				at=$((at + 1))
				begin "${switches[at % 2]}"
			done
		done
	done
	same "$text: killed at $kills steps" 0 "$faults"
}

switches=(Y N)
headless=0
with 1 "$FAST"
with 2 "$FAST" "$SECOND" "$TUNABLES"
with 2 "$FAST" "$DRIVE"
with 2 "$FAST" "$SECRET" "$MISSING"
with 2 "$FILE" "$SECRET"
with 1 "$CACHE" "$DRIVE" "$TUNABLES"
with 3 "$FAST" "$FILE" "$DRIVE" "$MISSING"
with 3 "$FAST" "$SECRET" "$DRIVE" "$TUNABLES"
ok "power was lost $headless times between a file and its header" [ "$headless" -gt 0 ]
end

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.1,6.12 packages=earlyoom memory=512 disk=448 groups-v1=6.1 load program=jq program=wipefs program=mkfs.ext4 program=cryptsetup program=blkid program=bash
#
# What `zmeld status` says to do, done. A row makes a state, in which a finding has to be; its
# commands are run as they are printed. Then it is gone, no other has come, the areas that are
# left have the place that they had, and memory that was swapped out is as it was. Where no
# command can be given, the row says so, and words have to stand in its place. `boot-remedies`
# runs the same rows where systemd started the machine.
#
# Each finding has a row here, or a line that says why it has none:
#
# readable-copy: a warning of a configuration, which status does not look for
# unstable-name: a warning of a configuration, which status does not look for
# verify-mismatch: takes memory that is damaged; the driver of zmeld.ko has its tests
# encode-errors: takes a codec that errs; zword.ko has its tests
# duplicates-unused: takes zmeld.ko; the guest test driver has its row
# zvol: takes ZFS, which no kernel here has
# unused-rule: a writeback limit that is used up takes a day; names of groups have tests of their own
# pressure: takes a minute in which a fifth is waited, which depends on the machine that runs this

# shellcheck source-path=SCRIPTDIR source=../../../../store/kmod/tests/guest.sh
. /guest/guest.sh

# A file system that can hold swap files.
WORK=${WORK:-/mnt}
TABLE=/tmp/remedies.txt
: >$TABLE

prepare() {
	for module in virtio_pci virtio_blk ext4 loop zram zsmalloc zbud z3fold lzo lzo-rle lz4 \
		dm-crypt algif_skcipher xts aesni-intel aes_generic; do
		modprobe -q "$module"
	done
	mkdir -p /etc /var/lib
	: >>/etc/fstab
	if [ "$WORK" = /mnt ]; then
		for disk in /dev/disk/by-id/virtio-disk0 /dev/vda /dev/ubda; do
			[ ! -b $disk ] || break
		done
		mkdir -p /mnt
		mkfs.ext4 -q -F "$disk" && mount -t ext4 "$disk" /mnt || exit 1
	fi
	version=2
	! grep -q unified_cgroup_hierarchy=0 /proc/cmdline || {
		version=1
		GROUPS_TOP=$GROUPS_TOP/memory
	}
	grep -q " $GROUPS_TOP " /proc/mounts || {
		case $version in
		1)
			mount -t tmpfs none /sys/fs/cgroup
			mkdir "$GROUPS_TOP"
			mount -t cgroup -o memory none "$GROUPS_TOP"
			;;
		2) mount -t cgroup2 none "$GROUPS_TOP" ;;
		esac
	}
	[ $version = 1 ] || echo +memory >"$GROUPS_TOP"/cgroup.subtree_control
	# zmeld's own devices are beside it.
	for device in /sys/block/zram*; do
		[ ! -e "$device" ] || echo "${device##*zram}" >/sys/class/zram-control/hot_remove
	done
	zswap=/sys/module/zswap/parameters
	pool=$(cat $zswap/max_pool_percent)
	tunables="$(cat /proc/sys/vm/swappiness) $(cat /proc/sys/vm/page-cluster)"
}

# found: what status finds, a name and a subject a line.
found() {
	zmeld status --json >/tmp/status.json
	jq -r '.findings[] | .id + " " + .subject' /tmp/status.json | sort -u
}

# held MIB [COMMAND...]: a program whose memory was swapped out, as far as there is room: $pages.
# The command starts it.
held() {
	rm -f /tmp/enough /tmp/out
	size=$1
	shift
	"$@" /guest/pages swap "$size" 0 "$SEED" 0 1 1 ': >/tmp/out; until [ -e /tmp/enough ]; do sleep 0.1; done' &
	pages=$!
	within 100 test -e /tmp/out
}

# none_of NAMES: of these findings.
none_of() {
	left=$(found | grep -E "^($(echo "$1" | tr " " "|")) ")
	same "none of $1" "" "$left"
}

# unchanged: a second `zmeld up` does nothing.
# shellcheck disable=SC2317
unchanged() {
	zmeld up --json --no-scan >/tmp/said && [ "$(jq '.applied + .undone | length' /tmp/said)" -eq 0 ]
}

given_back() {
	: >/tmp/enough
	wait "$pages"
	same "$what: memory came back right" 0 $?
	pages=
}

# areas: what is swapped to, and in which order.
areas() {
	awk 'NR > 1 { print $NF, $1 }' /proc/swaps | sort -rn | awk '{ print $2, $1 }'
}

# zram SIZE [OPTION OF SWAPON...]: one that somebody set up by hand: $device.
zram() {
	number=$(cat /sys/class/zram-control/hot_add)
	device=/dev/zram$number
	SYS=/sys/block/zram$number
	echo "$1" >"$SYS/disksize"
	shift
	# Slots at its end, which swap never gave out.
	[ -z "$stale" ] || dd if=/dev/urandom of="$device" bs=1M seek=40 count="$stale" conv=fsync 2>/dev/null
	mkswap "$device" >/dev/null
	swapon "$@" "$device"
}

# file NAME MIB [OPTION OF SWAPON...]
file() {
	(umask 077 && fallocate -l "$2M" "$WORK/$1" && mkswap "$WORK/$1" >/dev/null)
	name=$1
	shift 2
	swapon "$@" "$WORK/$name"
}

# clean: as it was before the row.
clean() {
	[ -z "$pages" ] || given_back
	zmeld down --force >/tmp/down 2>&1 || sed 's/^/# down: /' /tmp/down
	awk 'NR > 1 { print $1 }' /proc/swaps | while read -r area; do swapoff "$area"; done
	for it in /sys/block/zram*; do
		[ ! -e "$it" ] || echo "${it##*zram}" >/sys/class/zram-control/hot_remove
	done
	rm -rf /etc/zmeld.toml /etc/zmeld.toml.d /run/zmeld "$WORK"/swap*
	echo N >$zswap/enabled
	echo "$pool" >$zswap/max_pool_percent
	# shellcheck disable=SC2086
	set -- $tunables
	echo "$1" >/proc/sys/vm/swappiness
	echo "$2" >/proc/sys/vm/page-cluster
}

# row FINDING STATE: of the state that was made.
row() {
	what="$1: $2"
	before=$(found)
	cp /tmp/status.json /tmp/before.json
	ok "$what: it is found" sh -c "echo '$before' | grep -q '^$1 '"
	was=$(areas)
	jq -r --arg id "$1" '[.findings[] | select(.id == $id)][0].commands // [] | .[]' \
		/tmp/before.json >/tmp/commands
	words=$(jq -r --arg id "$1" '[.findings[] | select(.id == $id)][0].remedy' /tmp/before.json)
	result=words
	if [ -s /tmp/commands ]; then
		result=cured
		while read -r command; do
			printf '# %s\n' "$command"
			bash -c "$command" >/tmp/said 2>&1 </dev/null || {
				sed 's/^/# said: /' /tmp/said
				result="failed: $command"
				break
			}
			# What goes on in the background has to begin.
			case "$command" in *"&") sleep 2 ;; esac
		done </tmp/commands
		after=$(found)
		if echo "$after" | grep -q "^$1 "; then result="$result, left"; fi
		come=$(echo "$after" | grep -vxF "$before" | grep .)
		[ -z "$come" ] || result="$result, brought $(echo "$come" | tr '\n' ',')"
		same "$what: what is said to do" cured "$result"
		[ "$result" = cured ] || sed 's/^/# /' /tmp/status.json | grep -A8 '"id"'
	else
		echo "# $words"
		ok "$what: words say what to do" [ -n "$words" ]
	fi
	[ -n "$nothing_swapped" ] || ok "$what: something is still swapped to" [ -n "$(areas)" ]
	printf '%s | %s | %s | %s\n' "$1" "$2" "$(paste -sd';' /tmp/commands)" "$result" >>$TABLE
}

# group NAME MEMORY SWAP: one that may have so many MiB.
group() {
	mkdir "$GROUPS_TOP/$1"
	if [ $version = 1 ]; then
		echo "$2M" >"$GROUPS_TOP/$1/memory.limit_in_bytes"
		echo $(($2 + $3))M >"$GROUPS_TOP/$1/memory.memsw.limit_in_bytes"
	else
		echo "$2M" >"$GROUPS_TOP/$1/memory.max"
		echo "$3M" >"$GROUPS_TOP/$1/memory.swap.max"
	fi
}

# in_group NAME COMMAND...: which the kernel may end.
in_group() {
	sh -c "echo 0 >/proc/self/oom_score_adj; echo \$\$ >$GROUPS_TOP/$1/cgroup.procs; shift; exec \"\$@\"" sh "$@"
}

# raised: the limits that the words name take twice what they have.
raised() {
	for limit in $(echo "$words" | grep -o '/sys/fs/cgroup/[^ ,;]*/memory\.[a-z_.]*'); do
		case $limit in *.procs) continue ;; esac
		ok "$what: $limit can be raised" sh -c "echo $(($(cat "$limit") * 2)) >$limit"
	done
}

# same_order: of the areas, as before the row's commands.
same_order() {
	same "$what: the order of the areas" "$(names "$was")" "$(names "$(areas)")"
}

names() {
	echo "$1" | cut -d' ' -f1
}

prepare
clean

# What plans take for the priority that the kernel chooses: each below those before it, and from
# 6.19 on the same for all.
zram 16M
file swap 16
lower=-3
! has writeback_batch_size || lower=-1
same "priorities that the kernel chose" "$lower" "$(areas | awk -v it="$WORK/swap" '$1 == it { print $2 }')"
clean

# Own zram before an own file: the file stays, and zswap is in front of it.
echo 1 >$zswap/max_pool_percent
mkdir -p /etc
cat >/etc/zmeld.toml <<END
[tier.fast]
kind = "zram"
size = "48MiB"
memory_limit = "48MiB"

[tier.slow]
kind = "disk"
file = "$WORK/swap"
size = "320MiB"
END
zmeld up --no-scan >/dev/null
held 40
row lru-inversion "own zram before an own file"
same "the file is swapped to" "$WORK/swap 90" "$(areas)"
ok "a second up changes nothing" unchanged
clean

echo 1 >$zswap/max_pool_percent
file swap 320
zmeld up --tier zram --size 48MiB --no-scan >/dev/null
held 40
row lru-inversion "zram of up --tier before a file of another"
ok "a second up changes nothing" unchanged
clean

echo 1 >$zswap/max_pool_percent
file swap 320
zram 64M --priority 100
held 40
row lru-inversion "zram of another before a file of another"
ok "zswap is on" grep -q Y $zswap/enabled
clean

# A drive that is to be encrypted: where that cannot be, it stays swapped to.
while IFS='|' read -r how keys; do
	# shellcheck disable=SC2059
	keys=$(printf "$keys" "$WORK/swap.key")
	(umask 077 && truncate -s 64M "$WORK/swap" && head -c 64 /dev/urandom >"$WORK/swap.key")
	loop=$(losetup -f)
	losetup "$loop" "$WORK/swap"
	mkswap "$loop" >/dev/null
	swapon "$loop"
	printf 'accept = ["unstable-name"]\n[tier.safe]\nkind = "disk"\ndevice = "%s"\n%s\n' \
		"$loop" "$keys" >/etc/zmeld.toml
	held 16 </dev/null
	row not-encrypted "$how"
	clean
	losetup -d "$loop"
done <<'END'
a random key|encryption = "random"
a LUKS volume|encryption = "luks"\nkey_file = "%s"\nformat = true
a LUKS volume that is not there|encryption = "luks"\nkey_file = "%s"
END

stale=20
for order in "of priority 100 before a disk" "before a disk" "below a disk"; do
	echo 1 >$zswap/max_pool_percent
	case $order in
	of*) zram 64M --priority 100 ;;
	before*) zram 64M ;;
	esac
	file swap 320
	case $order in below*) zram 64M ;; esac
	held 32
	row stale-slots "zram $order"
	same_order
	clean
done
stale=

# Limits, all at once: the pages get no smaller, and most of them were refused.
fast() {
	printf '[tier.fast]\nkind = "zram"\n%b\n' "$1" >/etc/zmeld.toml
	zmeld up --no-scan >/dev/null 2>&1
	SYS=$(ls -d /sys/block/zram*)
	device=/dev/${SYS##*/}
}

# What a machine counted that is up for long is of the last hour once that was noted.
zmeld status --check >/dev/null
fast 'size = "128MiB"\nmemory_limit = "20MiB"'
held 60
row failed-writes "own zram with a limit that its pages do not fit below"
given_back
held 60
none_of "near-limit failed-writes oversized not-applied"
printf '[tier.fast]\nmemory_limit = "8MiB"\n' >/etc/zmeld.toml.d/zz-small.toml
ok "a limit below what it takes is refused" sh -c '! zmeld up >/tmp/said 2>&1'
ok "and told with what it takes" grep -q 'each write to it would fail' /tmp/said
given_back
clean

zmeld up --tier zram --size 128MiB --no-scan >/dev/null
SYS=$(ls -d /sys/block/zram*)
printf 20M >"$SYS/mem_limit"
held 60
row near-limit "zram of up --tier, whose limit somebody lowered"
clean

zram 128M --priority 100
printf 20M >"$SYS/mem_limit"
held 60
row near-limit "zram of another with a small limit"
given_back
held 60
none_of "near-limit failed-writes oversized"
given_back
clean

fast 'size = "96MiB"\nmemory_limit = "20MiB"'
row oversized "own zram, larger than its limit holds"
clean

zram "$(awk '/^MemTotal:/ { print $2 "K" }' /proc/meminfo)" --priority 100
row no-memory-limit "zram of another, as large as RAM"
clean

zram "$(awk '/^MemTotal:/ { print 4 * $2 "K" }' /proc/meminfo)" --priority 100
row no-memory-limit "zram of another, far larger than RAM"
clean

# Areas in the wrong order, beside a disk that zswap can stand in front of and beside a small one.
for disk in 320 16; do
	echo 1 >$zswap/max_pool_percent
	[ $disk = 320 ] || echo 50 >$zswap/max_pool_percent
	file swap $disk --priority 50
	zram 64M --priority 50
	row equal-priority "zram and a disk of $disk MiB of one priority"
	clean

	[ $disk = 320 ] || echo 50 >$zswap/max_pool_percent
	file swap $disk --priority 50
	zram 64M --priority 10
	held 12
	row priorities "zram below a disk of $disk MiB"
	clean
done

zram 64M --priority 100
printf '[tier.fast]\nkind = "zram"\nsize = "64MiB"\nmemory_limit = "64MiB"\n' >/etc/zmeld.toml
held 12
row not-applied "a tier that is not set up, beside zram of another"
ok "a second up changes nothing" unchanged
clean

fast 'size = "64MiB"\nmemory_limit = "64MiB"'
printf 20M >"$SYS/mem_limit"
held 12
row not-applied "a limit that somebody changed"
clean

fast 'size = "64MiB"\nmemory_limit = "64MiB"'
held 12
swapoff "$device" && swapon "$device"
row not-applied "an area that somebody switched off and on"
clean

fast 'size = "64MiB"\nmemory_limit = "64MiB"'
swapoff "$device" && mkswap "$device" >/dev/null && swapon "$device"
row not-applied "an area that somebody made anew"
clean

fast 'size = "64MiB"\nmemory_limit = "64MiB"'
zram 32M --priority 50
held 12
row second-device "zram of another beside zmeld's"
clean

file swap 32
zram 64M --priority 100
echo Y >$zswap/enabled
held 12
row zram-with-zswap "zswap before zram, and a disk"
clean

zram 64M --priority 100
echo Y >$zswap/enabled
held 12
row zram-with-zswap "zswap before zram alone"
clean

file swap 32
chmod 644 "$WORK/swap"
held 12
row readable-file "a swap file that others may read"
clean

zram 64M --priority 100
modprobe -q zram
number=$(cat /sys/class/zram-control/hot_add)
echo 64M >"/sys/block/zram$number/disksize"
mkfs.ext4 -q -F "/dev/zram$number"
mkdir -p /tmp/on-zram
mount -t ext4 "/dev/zram$number" /tmp/on-zram
row mounted-without-discard "ext4 on zram"
(umask 077 && dd if=/dev/zero of=/tmp/on-zram/swap bs=1M count=24 2>/dev/null)
mkswap /tmp/on-zram/swap >/dev/null
swapon /tmp/on-zram/swap
row file-in-ram "a swap file on zram"
swapoff /tmp/on-zram/swap 2>/dev/null
umount /tmp/on-zram
clean

fast 'size = "64MiB"\nmemory_limit = "64MiB"'
echo 3 >/proc/sys/vm/page-cluster
echo 10 >/proc/sys/vm/swappiness
row read-ahead "vm.page-cluster 3 before own zram"
row swappiness "vm.swappiness 10 before own zram"
clean

zram 64M --priority 100
echo 3 >/proc/sys/vm/page-cluster
echo 10 >/proc/sys/vm/swappiness
row read-ahead "vm.page-cluster 3 before zram of another"
row swappiness "vm.swappiness 10 before zram of another"
clean

zram 64M --priority 100
printf '[tunables]\nswappiness = 150\n' >/etc/zmeld.toml
echo 10 >/proc/sys/vm/swappiness
row not-applied "[tunables] beside zram of another"
clean

if [ "$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)" -lt 1000000 ]; then
	file swap 320
	echo Y >$zswap/enabled
	echo 1 >$zswap/max_pool_percent
	# Else the kernel makes room down to 90 %, which is where it is found.
	echo 100 >$zswap/accept_threshold_percent
	held 64
	row near-limit "zswap of another, its pool full"
	clean
else
	skip "near-limit of zswap" "a hundredth of RAM is more than is held here"
fi

echo Y >$zswap/enabled
nothing_swapped=1
row unused-zswap "zswap without swap"
nothing_swapped=
clean

fast 'size = "64MiB"'
echo 'tier = 4' >/etc/zmeld.toml
row configuration-unread "a configuration that is wrong"
clean

# Control groups at their limits: how far they are to be raised, somebody has to choose.
file swap 64
group small 24 8
in_group small /guest/pages swap 64 1 "$SEED" 0 >/dev/null 2>&1
row group-oom-kills "a group whose programs need more than it may have"
raised
rmdir "$GROUPS_TOP/small"
clean

# Version 1 does not tell what a group has in swap.
if [ $version = 2 ]; then
	file swap 64
	group little 200 8
	in_group little /guest/pages swap 40 0 "$SEED" 0 1 1 true >/dev/null
	row group-refused "a group that may have little swap"
	raised
	rmdir "$GROUPS_TOP/little"
	clean

	file swap 64
	group full 200 26
	held 25 in_group full
	row near-limit "a group that has nearly all its swap"
	raised
	none_of near-limit
	given_back
	rmdir "$GROUPS_TOP/full"
	clean
fi

# The machine itself; this program is the one that the kernel ends.
file swap 64
mkdir "$GROUPS_TOP/own"
in_group own sh -c 'echo 1000 >/proc/self/oom_score_adj; exec /guest/load fast-leak 1 400' 2>/dev/null
row oom-kills "a machine that ended a program"
rmdir "$GROUPS_TOP/own"
row unattributed-oom-kills "a group that went with its kill"
clean

# Pages that do not get smaller.
stale=20
zram 64M --priority 100
stale=
row incompressible "zram of another, whose pages do not compress"
clean

# A device that writes back, and nothing says when.
zram_of_disk() {
	(umask 077 && truncate -s 64M "$WORK/swap-backing")
	loop=$(losetup -f)
	losetup "$loop" "$WORK/swap-backing"
	number=$(cat /sys/class/zram-control/hot_add)
	device=/dev/zram$number
	SYS=/sys/block/zram$number
	echo "$loop" >"$SYS/backing_dev"
	echo 64M >"$SYS/disksize"
	[ "$1" = 0 ] || dd if=/dev/urandom of="$device" bs=1M seek=40 count="$1" conv=fsync 2>/dev/null
	mkswap "$device" >/dev/null
	swapon --priority 100 "$device"
}

zram_of_disk 20
row incompressible "zram of another with a backing device"
clean
losetup -d "$loop"
zram_of_disk 0
row no-rule "zram of another with a backing device, and no rule"
clean
losetup -d "$loop"

# Below layers that pass no discards.
number=$(cat /sys/class/zram-control/hot_add)
echo 64M >"/sys/block/zram$number/disksize"
head -c 32 /dev/urandom | cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 \
	--key-file - "/dev/zram$number" swap-hidden
mkswap /dev/mapper/swap-hidden >/dev/null
swapon /dev/mapper/swap-hidden
row discard-blocked "swap on dm-crypt on zram"
swapoff /dev/mapper/swap-hidden
cryptsetup close swap-hidden
clean

fast 'size = "64MiB"\nmemory_limit = "64MiB"\n[watch.reclaim]\ngroups = ["/apps.slice"]'
row no-watch "a rule that nobody carries out"
kill "$(pidof -s zmeld)" 2>/dev/null || true
clean

# Another that ends programs, as its package has it.
if [ -e /guest/earlyoom/usr/bin/earlyoom ]; then
	fast 'size = "64MiB"\nmemory_limit = "64MiB"\n[watch.guard]\nend = ["/apps.slice"]'
	if [ -e /run/systemd/system ]; then
		cp /guest/earlyoom/usr/bin/earlyoom /usr/bin/
		cp "$(find /guest/earlyoom -name earlyoom.service)" /etc/systemd/system/
		mkdir -p /etc/default
		systemctl enable --now earlyoom.service 2>/dev/null
	else
		mkdir -p "$GROUPS_TOP"/system.slice/earlyoom.service
		in_group system.slice/earlyoom.service /guest/earlyoom/usr/bin/earlyoom >/dev/null 2>&1 &
		pages=$!
	fi
	row two-guards "earlyoom beside the guard"
	[ -z "$pages" ] || kill $pages
	pages=
	clean
else
	skip "two-guards" "earlyoom cannot be had"
fi

DAMON=/sys/module/damon_reclaim/parameters/enabled
if [ -e $DAMON ]; then
	echo Y >$DAMON
	fast 'size = "64MiB"\nmemory_limit = "64MiB"\n[watch.reclaim]\ngroups = ["/apps.slice"]'
	row two-reclaimers "DAMON beside the rule"
	echo N >$DAMON
	clean
else
	skip "two-reclaimers" "no DAMON in this kernel"
fi

printf '[tier.fast]\nkind = "zmeld"\nsize = "64MiB"\nmemory_limit = "64MiB"\n' >/etc/zmeld.toml
zmeld up --no-scan >/dev/null 2>&1
row stand-in "zmeld's own driver, which is not installed"
clean

# What the kernel's command line says is put in its place: this kernel was not booted with it.
said_at_boot() {
	echo "$(cat /proc/cmdline) $1" >/tmp/cmdline
	mount --bind /tmp/cmdline /proc/cmdline
}

file swap 320
other=$(grep -oE '^name *: (zstd|lz4|deflate|lzo)$' /proc/crypto | sed 's/.*: //' |
	grep -vx "$(cat $zswap/compressor)" | head -n 1)
if [ -n "$other" ]; then
	was_compressor=$(cat $zswap/compressor)
	said_at_boot "zswap.compressor=$other"
	echo Y >$zswap/enabled
	row zswap-compressor "zswap with another compressor than the command line names"
	umount /proc/cmdline
	echo "$was_compressor" >$zswap/compressor
else
	skip "zswap-compressor" "this kernel has one compressor at work"
fi
clean

if grep -qs disk /sys/power/state; then
	zram 64M --priority 100
	said_at_boot "resume=$disk"
	row hibernation "a machine that resumes from what is no swap"
	umount /proc/cmdline
	clean
else
	skip "hibernation" "this kernel does not hibernate"
fi

sed 's/^/# | /' $TABLE
end

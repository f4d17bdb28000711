#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.1,6.12 memory=512 disk=448 program=jq program=wipefs program=mkfs.ext4 program=cryptsetup program=blkid
#
# What `zmeld status` says to do, done. A row makes a state, in which a finding has to be; its
# commands are run as they are printed. Then it is gone, no other has come, the areas that are
# left have the place that they had, and memory that was swapped out is as it was. Where no
# command can be given, the row says so, and words have to stand in its place.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

# A file system that can hold swap files.
WORK=${WORK:-/mnt}
TABLE=/tmp/remedies.txt
: >$TABLE

prepare() {
	for module in virtio_pci virtio_blk ext4 loop zram zsmalloc zbud z3fold lzo lzo-rle lz4 \
		dm-crypt algif_skcipher xts aesni-intel aes_generic; do
		modprobe -q $module
	done
	mkdir -p /etc /var/lib
	: >>/etc/fstab
	if [ "$WORK" = /mnt ]; then
		for disk in /dev/vda /dev/ubda; do
			[ ! -b $disk ] || break
		done
		mkdir -p /mnt
		mkfs.ext4 -q -F $disk && mount -t ext4 $disk /mnt || exit 1
	fi
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

# held MIB LEAST: a program whose memory is swapped out until `given_back`: $pages. At least so
# many KiB are in swap.
held() {
	rm -f /tmp/enough
	/guest/pages swap "$1" 0 "$SEED" 0 1 1 'until [ -e /tmp/enough ]; do sleep 0.1; done' &
	pages=$!
	within 60 swapped "$2"
}

# unchanged: a second `zmeld up` does nothing.
unchanged() {
	zmeld up --json --no-scan >/tmp/said && [ "$(jq '.applied + .undone | length' /tmp/said)" -eq 0 ]
}

given_back() {
	: >/tmp/enough
	wait $pages
	same "$what: memory came back right" 0 $?
	pages=
}

# swapped KIB: so much is in swap.
swapped() {
	[ "$(awk 'NR > 1 { sum += $4 } END { print sum + 0 }' /proc/swaps)" -ge "$1" ]
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
	[ -z "$stale" ] || dd if=/dev/urandom of="$device" bs=1M seek=40 count=$stale conv=fsync 2>/dev/null
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
			sh -c "$command" >/tmp/said 2>&1 </dev/null || {
				sed 's/^/# said: /' /tmp/said
				result="failed: $command"
				break
			}
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
	ok "$what: something is still swapped to" [ -n "$(areas)" ]
	if [ -n "$pages" ]; then
		given_back
	fi
	printf '%s | %s | %s | %s\n' "$1" "$2" "$(paste -sd';' /tmp/commands)" "$result" >>$TABLE
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
held 40 20000
row lru-inversion "own zram before an own file"
same "the file is swapped to" "$WORK/swap 90" "$(areas)"
ok "a second up changes nothing" unchanged
clean

echo 1 >$zswap/max_pool_percent
file swap 320
zmeld up --tier zram --size 48MiB --no-scan >/dev/null
held 40 20000
row lru-inversion "zram of up --tier before a file of another"
ok "a second up changes nothing" unchanged
clean

echo 1 >$zswap/max_pool_percent
file swap 320
zram 64M --priority 100
held 40 20000
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
	held 16 8000 </dev/null
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
	held 32 16000
	row stale-slots "zram $order"
	same_order
	clean
done
stale=

sed 's/^/# | /' $TABLE
end

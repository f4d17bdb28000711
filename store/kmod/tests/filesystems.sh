#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream memory=768 program=btrfs program=mkfs.btrfs program=mkfs.ext4
#
# ext4 and btrfs on the device with files copied, compared and removed in parallel;
# btrfs's own checksums are the judge.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh
[ "$SIZE" -ge 256 ] || SIZE=256

# worker NUMBER: files of our own libraries, as they are and doubled.
worker() {
	folder=/mnt/$1
	mkdir -p "$folder"
	for round in 1 2 3; do
		cp -r /lib/x86_64-linux-gnu "$folder/$round" || return 1
		sync
		for file in "$folder/$round"/*; do
			[ -f "$file" ] || continue
			cmp -s "$file" "/lib/x86_64-linux-gnu/${file##*/}" || {
				echo "# $file differs"
				return 1
			}
		done
		[ $round -eq 1 ] || rm -r "$folder/$((round - 1))"
	done
}

work() {
	worker a &
	first=$!
	worker b &
	second=$!
	wait $first && wait $second
}

# try NAME MKFS... : the file system's life
try() {
	kind=$1
	shift
	device_new
	ok "mkfs.$kind" sh -c "$* $DEV >/tmp/mkfs.log 2>&1"
	modprobe "$kind" 2>/dev/null
	ok "mount $kind" mount -t "$kind" -o discard "$DEV" /mnt
	beside disturb
	ok "$kind: files copied and compared by two" work
	[ "$kind" != btrfs ] ||
		ok "btrfs scrub finds nothing" sh -c "btrfs scrub start -B /mnt >/tmp/scrub.log 2>&1 &&
			! grep -Eq 'csum=[1-9]|verify=[1-9]' /tmp/scrub.log" || :
	[ "$kind" != btrfs ] || sed 's/^/# /' /tmp/scrub.log
	sync
	echo 3 >/proc/sys/vm/drop_caches
	ok "$kind: all is there without the cache" sh -c "for f in /mnt/a/3/*; do
		[ ! -f \$f ] || cmp -s \$f /lib/x86_64-linux-gnu/\${f##*/} || exit 1; done"
	beside_stop
	ok "umount $kind" umount /mnt
}

module_load num_devices=1
try ext4 mkfs.ext4 -q -F
ok "e2fsck has nothing to say" sh -c "e2fsck -fn $DEV >/tmp/fsck.log 2>&1"
if [ -e /bin/mkfs.btrfs ] || [ -e /sbin/mkfs.btrfs ]; then
	try btrfs mkfs.btrfs -q -f -m single
	ok "btrfs check has nothing to say" sh -c "btrfs check $DEV >/tmp/check.log 2>&1"
else
	skip btrfs "there is no mkfs.btrfs"
fi
put reset 1 >/dev/null
ok "the module can be unloaded" module_unload
end

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.1,6.12 memory=512 disk=256 disk=48 disk=32 test=promise program=wipefs program=mkfs.ext4 program=cryptsetup program=blkid program=dmsetup
#
# Yes means yes: configurations from all keys, and what was said of each beforehand
# (tests/promise). TIME says how many.

# shellcheck source-path=SCRIPTDIR source=../../../../store/kmod/tests/guest.sh
. /guest/guest.sh

for module in virtio_pci virtio_blk ext4 loop zsmalloc zbud z3fold lzo lzo-rle lz4 lz4hc zstd \
	deflate 842 dm-crypt algif_skcipher xts aesni-intel aes_generic; do
	modprobe -q "$module"
done
modprobe zram num_devices=0 || exit 1
drives=$(ls /dev/vd? /dev/ubd? 2>/dev/null | sort)
# shellcheck disable=SC2086
set -- $drives
mkdir -p /etc /var/lib
: >>/etc/fstab
mkfs.ext4 -q -F "$1" && mount -t ext4 "$1" /mnt || exit 1
shift
loop_new 40
ok "seeds from $SEED" /guest/promise "$SEED" $((TIME * 8)) /mnt "$@" "$loop"
loop_end
end

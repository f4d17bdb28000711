#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sets up a Debian that debootstrap began on a machine with another processor: on the
# disk whose file system has that label.

for module in virtio_pci virtio_blk ext4; do modprobe -q $module; done
mount "$(findfs LABEL=guest-root)" /mnt || exit 1
mount --bind /dev /mnt/dev
chroot /mnt /debootstrap/debootstrap --second-stage
status=$?
[ $status = 0 ] || tail -n 30 /mnt/debootstrap/debootstrap.log
umount /mnt/proc /mnt/sys /mnt/dev 2>/dev/null
rm -rf /mnt/var/cache/apt /mnt/var/lib/apt/lists
umount /mnt || exit 1
exit $status

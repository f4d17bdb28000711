#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Makes a Debian, which this is the root of, a machine that has the packages and was then
# given another kernel; a guest boots it. $1 is that kernel's release, $2 the one that is
# there already.

set -e
next=$1 now=$2
export DEBIAN_FRONTEND=noninteractive

built() {
	dkms status -m zmeld -k "$1" | grep -q installed
}

dpkg -i /packages/zmeld_*.deb /packages/zmeld-dkms_*.deb
built "$now"
echo "ok the module is built for $now"

apt-get install -y --no-install-recommends "linux-image-$next" "linux-headers-$next"
[ -e "/boot/vmlinuz-$next" ] && [ -e "/lib/modules/$next/build/Makefile" ]
built "$next"
echo "ok it was built for $next when that was installed"
built "$now"
echo "ok the one for $now is still there"

# The guest brings its kernel and what it needs of that kernel's modules.
rm -rf /boot/* /lib/modules/*/kernel /usr/sbin/policy-rc.d
apt-get clean
echo "ok done"

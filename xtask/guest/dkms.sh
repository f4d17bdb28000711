#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Makes a Debian, which this is the root of, a machine that has the packages and was then
# given another kernel; a guest boots it. $1 is that kernel's release, $2 the one that is
# there already; with $3 the module's sources do not build for the other any more.

set -e
next=$1 now=$2 broken=$3
export DEBIAN_FRONTEND=noninteractive

built() {
	dkms status -m zmeld -k "$1" | grep -q installed
}

dpkg -i /packages/zmeld_*.deb /packages/zmeld-dkms_*.deb
built "$now"
echo "ok the module is built for $now"

if [ -n "$broken" ]; then
	for probe in /usr/src/zmeld-*/kmod/probes/pool_nodes.c; do
		echo '#error "no such kernel"' >>"$probe"
	done
fi
# With a module that does not build, the headers' own script fails.
apt-get install -y --no-install-recommends "linux-image-$next" "linux-headers-$next" ||
	[ -n "$broken" ]
[ -e "/boot/vmlinuz-$next" ] && [ -e "/lib/modules/$next/build/Makefile" ]
if [ -n "$broken" ]; then
	if built "$next"; then
		echo "a module that cannot be built was built" >&2
		exit 1
	fi
	echo "ok there is none for $next"
else
	built "$next"
	echo "ok it was built for $next when that was installed"
fi
built "$now"
echo "ok the one for $now is still there"

# The guest brings its kernel and what it needs of that kernel's modules.
rm -rf /boot/* /lib/modules/*/kernel /usr/sbin/policy-rc.d
apt-get clean
echo "ok done"

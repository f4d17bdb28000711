#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Installs, upgrades, removes and purges the packages in a Debian that this is
# the root of; `cargo xtask test --long --only packages-life` starts it, with
# `program deb`, `program rpm`, and `module`. /packages has the packages, /packages/next the same
# with a higher version. The kernel is the machine's own: whoever starts this with
# `program` holds the lock of tests that change swap.

# Whatever happens: no swap of ours stays on.
cleanup() {
	[ -z "$hog" ] || kill "$hog" 2>/dev/null
	[ ! -x /usr/bin/zmeld ] || zmeld down --force >/dev/null 2>&1
	[ -z "$group" ] || rmdir "$group" 2>/dev/null
}
hog='' group=''
# shellcheck source=xtask/guest/tap.sh
. /tmp/scripts/tap.sh

# All that packages may leave; not the package managers' own books, caches, and what depmod makes.
everything() {
	find /boot /etc /lib/modules /opt /root /srv /usr /var/lib /var/spool \
		! -path '/var/lib/dpkg/*' ! -path '/var/lib/rpm/*' ! -path '/root/.rpmdb*' ! -path '/lib/modules/*/modules.*' \
		! -path '/usr/lib/modules/*/modules.*' ! -path '/etc/ld.so.cache' | sort
}

swaps() {
	tail -n +2 /proc/swaps
}

# The device that the configuration asks for.
ours() {
	awk '$5 == 77 { print $1 }' /proc/swaps
}

# built VERSION: DKMS has it for the kernel here.
built() {
	dkms status -m zmeld -v "$1" -k "$kernel" | grep -q installed
}

# What a package manager of that format does. rpm's books are empty here, so that nothing
# else counts as installed, and what is asked for is not looked for.
deb_install() { dpkg -i "$1"/zmeld_*_amd64.deb; }
deb_upgrade() { deb_install "$1"; }
deb_verify() { dpkg -V zmeld; }
deb_remove() { dpkg -r zmeld; }
deb_purge() { dpkg -P zmeld; }
rpm_install() { rpm -i --nodeps "$1"/zmeld-[0-9]*.x86_64.rpm; }
rpm_upgrade() { rpm -U --nodeps "$1"/zmeld-[0-9]*.x86_64.rpm; }
rpm_verify() { rpm -V --nodeps zmeld; }
rpm_remove() { rpm -e zmeld; }
# It knows no purge, and leaves what an administrator wrote: docs/packages.md has this line.
rpm_purge() { rm -rf --one-file-system --preserve-root=all /etc/zmeld.toml* /etc/zmeld /var/lib/zmeld; }

program() {
	check 'zmeld is installed' run "$1_install" /packages
	check 'it says what to do next' said 'zmeld plan'
	swaps | cmp -s - /tmp/swaps-before
	check 'nothing is set up by that' test $? = 0 -a ! -e /etc/zmeld.toml
	check 'the program starts' run zmeld --version
	check 'the generator is there' test -x /usr/lib/systemd/system-generators/zmeld-generator
	check 'so are man page and completions' test -s /usr/share/man/man1/zmeld.1.gz -a \
		-s /usr/share/bash-completion/completions/zmeld
	check 'every file is found as it was' run "$1_verify"

	cat >/etc/zmeld.toml <<'END'
[tier.ram]
kind = "zram"
size = "128MiB"
priority = 77
END
	cp /etc/zmeld.toml /tmp/zmeld.toml
	check 'swap is set up as the configuration says' run zmeld up
	device=$(ours)
	check 'it is on' test -n "$device"

	check 'an upgrade' run "$1_upgrade" /packages/next
	check 'swap stays on the same device' test "$(ours)" = "$device"
	check 'the configuration stays' cmp -s /etc/zmeld.toml /tmp/zmeld.toml
	check 'the upgrade says so' said 'stays on'

	# Pages in swap of a control group that has no room for them.
	if [ -d /sys/fs/cgroup/memory ]; then
		group=/sys/fs/cgroup/memory/zmeld-packages limit=memory.limit_in_bytes
	else
		group=/sys/fs/cgroup/zmeld-packages limit=memory.max
	fi
	mkdir "$group" && echo 24M >"$group/$limit"
	cat >/tmp/hog <<'END'
echo $$ >"$1/cgroup.procs"
pages=$(head -c 40M /dev/urandom | base64 -w0)
touch /tmp/full
sleep 600
END
	sh /tmp/hog "$group" &
	hog=$!
	seconds=0
	until [ -e /tmp/full ] || [ $seconds -ge 120 ]; do
		sleep 1
		seconds=$((seconds + 1))
	done
	check 'pages are in swap' test "$(awk '$5 == 77 { print $4 }' /proc/swaps)" -gt 10000
	check 'removing is refused while they do not fit back' not run "$1_remove"
	check 'it says so' said 'not removed'
	check 'swap is still on' test "$(ours)" = "$device"
	check 'the package is still there' run "$1_verify"
	pkill -P "$hog" 2>/dev/null
	kill "$hog"
	wait "$hog" 2>/dev/null
	hog=''
	rmdir "$group" && group=''

	check 'when they fit, it is removed' run "$1_remove"
	check 'its swap is off' test -z "$(ours)"
	swaps | cmp -s - /tmp/swaps-before
	check 'all other swap is as before' test $? = 0
	check 'the configuration is still there' cmp -s /etc/zmeld.toml /tmp/zmeld.toml
	# What the configuration, a survey and `zmeld disable` leave.
	mkdir -p /etc/zmeld /etc/zmeld.toml.d /var/lib/zmeld/surveys/unsent
	for file in zmeld/fleet.key zmeld/survey-upload.env zmeld.toml.disabled zmeld.toml.d/1.toml; do
		echo secret >"/etc/$file"
	done
	echo survey >/var/lib/zmeld/surveys/one.parquet
	check 'it is purged' run "$1_purge"
	everything >/tmp/after
	check 'purging leaves nothing' run diff /tmp/before /tmp/after
}

module() {
	kernel=$(basename "$(find /lib/modules/ -mindepth 1 -maxdepth 1 | sort | tail -n 1)")
	version=$(dpkg-deb -f /packages/zmeld-dkms_*.deb Version)
	next=$(dpkg-deb -f /packages/next/zmeld-dkms_*.deb Version)
	check 'zmeld-dkms is installed' run dpkg -i /packages/zmeld-dkms_*.deb
	check 'the module is built and installed' built "$version"
	check 'nothing is loaded by that' test ! -e /sys/module/zmeld
	check 'modinfo knows it' run modinfo -k "$kernel" -F vermagic zmeld
	check 'an upgrade of it' run dpkg -i /packages/next/zmeld-dkms_*.deb
	check 'the new one is built and installed' built "$next"
	check 'the old one is gone' not built "$version"
	check 'it is removed' run dpkg -r zmeld-dkms
	check 'so is the module' not built "$next"
	check 'it is purged, too' run dpkg -P zmeld-dkms
	everything >/tmp/after
	check 'purging it leaves nothing' run diff /tmp/before /tmp/after

	# A kernel that zmeld does not know: the reason is said.
	mkdir -p /tmp/broken
	dpkg-deb -R /packages/zmeld-dkms_*.deb /tmp/broken
	echo '#error "no such kernel"' >>"$(echo /tmp/broken/usr/src/zmeld-*/kmod/probes/pool_nodes.c)"
	dpkg-deb --root-owner-group -b /tmp/broken /tmp/broken.deb >/dev/null
	check 'a module that does not build holds nothing up' run dpkg -i /tmp/broken.deb
	check 'it is said plainly' said 'zmeld.ko was not built'
	check 'and it is not there' not built "$version"
	check 'with the reason in the log' grep -q 'pool_nodes: does not compile' \
		"/var/lib/dkms/zmeld/$version/build/make.log"
	check 'and can be removed' run dpkg -P zmeld-dkms
}

# What other packages of a system that rpm manages have made; their owner is not here.
[ "$2" != rpm ] || mkdir -p /usr/lib/systemd/system-generators /usr/lib/sysusers.d \
	/usr/share/fish/vendor_completions.d /usr/share/zsh/site-functions
everything >/tmp/before
swaps >/tmp/swaps-before
"$@"
echo "1..$checks"

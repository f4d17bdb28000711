#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Installs and upgrades from signed repositories, by the lines that `cargo xtask dist --sign`
# prints, in a Debian that this is the root of; `cargo xtask test --long --only
# packages-repository` starts it, with `deb` or `rpm`. /packages has the repositories: `now`,
# `next` with a higher version, `package` and `index` where one of those of `next` was changed,
# `signature` where what is signed was, and `system` with what a system of .rpm packages has.

unset http_proxy https_proxy
python3 -u -m http.server --bind 127.0.0.1 --directory /packages 0 >/tmp/server 2>/dev/null &
server=$!
cleanup() {
	kill $server
}
# shellcheck source=xtask/guest/tap.sh
. /tmp/scripts/tap.sh
until grep -q port /tmp/server; do sleep 0.1; done
at=http://127.0.0.1:$(grep -o 'port [0-9]*' /tmp/server | cut -d ' ' -f 2)

# As printed; nobody is asked, and root needs no sudo.
printed() { # FORMAT NAME
	case $1 in
	deb) from=Debian ;;
	rpm) from=Fedora ;;
	esac
	sed -n "/^$from/,/^\$/p" /packages/lines | sed 1d |
		sed "s|https://SERVER|$at/$2|; s/sudo //g; s/ install / -y install /" >/tmp/lines
	sh -e /tmp/lines
}

# Has the tool look at that repository in the place of the one before.
turn_to() { # NAME
	for file in /etc/apt/sources.list.d/zmeld.list /etc/yum.repos.d/zmeld.repo; do
		[ ! -e $file ] || sed -i "s|$at/[a-z]*/|$at/$1/|" $file
	done
}

deb_update() { apt-get update --error-on=any; }
deb_upgrade() { deb_update && apt-get -y install zmeld; }
deb_again() { apt-get clean && deb_update && apt-get -y install --reinstall zmeld; }
deb_version() { dpkg-query -f '${Version}\n' -W zmeld; }
# Debian has dnf pass over what it refuses.
rpm_update() { dnf -y --disablerepo=system --setopt=skip_if_unavailable=False makecache --refresh; }
rpm_upgrade() { dnf -y --refresh upgrade zmeld; }
rpm_again() { dnf clean packages && dnf -y --refresh reinstall zmeld; }
rpm_version() { rpm -q --qf '%{VERSION}\n' zmeld; }

rm -f /etc/apt/sources.list
if [ "$1" = rpm ]; then
	mkdir -p /etc/yum.repos.d
	printf '%s\n' '[system]' name=system "baseurl=$at/system" gpgcheck=0 \
		>/etc/yum.repos.d/system.repo
fi
check 'the printed lines install zmeld' run printed "$1" now
first=$("$1_version")
check 'it starts' run zmeld --version
turn_to next
check 'an upgrade comes from there' run "$1_upgrade"
check 'it is the later one' test "$first" != "$("$1_version")"
check 'it can be installed anew' run "$1_again"
for changed in package index signature; do
	turn_to $changed
	case $changed in
	package) check 'a changed package is refused' not run "$1_again" ;;
	index) check 'a changed index is refused' not run "$1_update" ;;
	signature) check 'a changed signed file is refused' not run "$1_update" ;;
	esac
done
turn_to next
check 'the true one is taken again' run "$1_update"
echo "1..$checks"

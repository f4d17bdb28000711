#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1,6.12 packages=earlyoom memory=640 disk=448 groups-v1=6.1 load program=jq script=remedies.sh systemd long
#
# The rows of `remedies` where systemd started the machine: what `systemctl` is to do is done.

if [ -n "$PREPARE" ]; then
	cp /usr/bin/zmeld-guard "$PREPARE/usr/bin/"
	cp "$(command -v jq)" "$PREPARE/usr/bin/"
	for file in $(find / -name 'libjq.so.*' -o -name 'libonig.so.*' | grep -v "^$PREPARE"); do
		cp -L "$file" "$PREPARE/usr/lib/"
	done
	exit 0
fi

# shellcheck source-path=SCRIPTDIR source=remedies.sh
. /guest/remedies.sh

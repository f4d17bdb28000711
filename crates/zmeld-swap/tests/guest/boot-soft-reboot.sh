#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um memory=512 systemd trixie long
#
# Three soft reboots of a Debian 13: after each, swap is as configured, `up` knows its
# steps, and a file in memory, most of it in swap before, reads back whole.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

[ -z "$PREPARE" ] || exit 0

# shellcheck disable=SC2034
DEVICE=zram SYS=/sys/block/zram0
KEPT=/run/soft-reboot
REBOOTS=3

[ ! -d $KEPT ] || read -r checks failures done <$KEPT/count
system_runs
if [ ! -d $KEPT ]; then
	mkdir $KEPT
	ok "zmeld enable" zmeld enable --tier zram --size 50% --codec lzo-rle
	head -c 30M /dev/urandom >$KEPT/file
	yes "a line of a file in memory" | head -c 30M >>$KEPT/file
	cksum <$KEPT/file >$KEPT/sum
	# Its memory goes to swap.
	/guest/pages swap "$(awk '/^MemAvailable:/ { print int($2 / 1024) + 40 }' /proc/meminfo)" \
		1 "$SEED" 30 || echo "# the program was ended"
	ok "pages are in swap" [ "$(field mm_stat 1)" -gt 30000000 ]
	done=0
else
	ok "swap is on" swaps_on /dev/zram0
	same "once" 2 "$(wc -l </proc/swaps)"
	ok "by zmeld.service" active zmeld.service
	ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
	ok "the file reads back whole" [ "$(cksum <$KEPT/file)" = "$(cat $KEPT/sum)" ]
	nothing_failed
fi
if [ "$done" -lt $REBOOTS ]; then
	echo "$checks $failures $((done + 1))" >$KEPT/count
	systemctl soft-reboot
	exec sleep infinity
fi
ok "zmeld disable" zmeld disable
ok "no swap is left" sh -c '! grep -q zram /proc/swaps'
same "the journal is gone" 0 "$(find /run/zmeld -name 'journal*' | wc -l)"
end

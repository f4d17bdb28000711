#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1,6.12 memory=640 systemd long dkms
#
# A machine with both packages that asks for zmeld.ko. DKMS built that for 6.1 when it
# was installed, and for 6.12 when that kernel was; each is booted. Then the kernel does
# not take the module any more.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	# The guest's index does not have what DKMS built.
	chroot "$PREPARE" /usr/sbin/depmod -a "$(uname -r)" || exit 1
	cat >"$PREPARE/etc/zmeld.toml" <<-END
		[tier.ram]
		kind = "zmeld"
		size = "50%"
	END
	exit 0
fi

system_runs
dkms status | sed 's/^/# /'
ok "swap is on, in zmeld's own device" swaps_on /dev/zmeld0
ok "nothing is in zram" [ ! -e /sys/block/zram0 ]
ok "it was there before services start" before_services
ok "status has no findings" status
ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
/guest/pages swap 600 1 "$SEED" 30
same "memory is right under pressure" 0 $?
ok "down" quietly zmeld down

# A file that no kernel takes for a module. DKMS may have compressed its own.
! grep -q '^zmeld ' /proc/modules || rmmod zmeld
echo broken >"$(modinfo -n zmeld)"
ok "up sets up zram in its place" quietly zmeld up
ok "and says so" grep -q 'a zram device stands in for zmeld' /tmp/said
ok "swap is on, in zram" swaps_on /dev/zram0
ok "status has a finding" sh -c '! zmeld status --check >/tmp/status'
sed 's/^/# /' /tmp/status
ok "which says why" sh -c \
	'tr -d "\n" </tmp/status | tr -s " " | grep -q "did not take zmeld.ko"'
ok "up has nothing to do then" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
ok "and tells programs" sh -c 'zmeld up --json | grep -q "\"asked\": \"zmeld\""'
ok "down takes that back, too" quietly zmeld down
same "no swap is left" 1 "$(wc -l </proc/swaps)"
end

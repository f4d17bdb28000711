#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.12 memory=640 systemd long dkms-broken
#
# A machine with both packages that asks for zmeld.ko and was given a kernel for which
# that does not build. It boots, with zram in its place, and a finding that says why.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

if [ -n "$PREPARE" ]; then
	chroot "$PREPARE" /usr/sbin/depmod -a "$(uname -r)" || exit 1
	cat >"$PREPARE/etc/zmeld.toml" <<-END
		[tier.ram]
		kind = "zmeld"
		size = "50%"
	END
	exit 0
fi

# finding WORDS: status has it, over however many lines.
finding() {
	zmeld status --check >/tmp/status
	code=$?
	sed 's/^/# /' /tmp/status
	[ $code = 1 ] && tr -d '\n' </tmp/status | tr -s ' ' | grep -q "$1"
}

systemctl is-system-running --wait >/dev/null
systemctl --no-pager --failed
ok "there is no zmeld.ko for this kernel" [ ! -e "/lib/modules/$(uname -r)/updates/dkms/zmeld.ko" ]
same "the system runs" running "$(systemctl is-system-running)"
ok "swap is on, in zram" swaps_on /dev/zram0
ok "it was there before services start" before_services
ok "the boot says so" sh -c \
	'journalctl -b -o cat -u zmeld.service | grep -q "a zram device stands in for zmeld"'
ok "a finding says why" finding "DKMS could not build it for $(uname -r)"
zmeld status --json >/tmp/status.json
same "it is the only one" 1 "$(grep -c '"remedy":' /tmp/status.json)"
ok "up has nothing to do" sh -c 'zmeld up --json | grep -q "\"applied\": \[\]"'
zmeld plan >/tmp/plan 2>&1
ok "plan says so" grep -q 'stands in for zmeld' /tmp/plan
ok "where zmeld is asked for now it is refused" sh -c \
	'zmeld up --tier zmeld --no-scan >/tmp/said 2>&1; [ $? = 3 ]'
sed 's/^/# /' /tmp/said
/guest/pages swap 600 1 "$SEED" 30
same "memory is right under pressure" 0 $?
# Without headers, that is the reason.
mv "/lib/modules/$(uname -r)/build" /tmp/build
ok "missing headers are named" finding "whose headers are not installed"
ok "down" zmeld down
same "no swap is left" 1 "$(wc -l </proc/swaps)"
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.12 memory=256 module program=jq
#
# zmeld's own device, set up, melded, watched and taken down by zmeld.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

modprobe zmeld num_devices=0 || exit 1
before=$(cat /proc/swaps /proc/sys/vm/swappiness /proc/sys/vm/page-cluster; ls /sys/block)

# key NAME FILE: a number of a JSON.
key() {
	sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$2" | head -n 1
}

ok "plan" zmeld plan --tier zmeld --size 60% --codec lz4 --no-scan
ok "up" zmeld up --tier zmeld --size 60% --codec lz4 --no-scan
SYS=$(ls -d /sys/block/zmeld*)
ok "it is swapped to" grep -q "^/dev/${SYS##*/} " /proc/swaps
same "its codec" "[lz4]" "$(grep -o '\[[^]]*\]' "$SYS/comp_algorithm")"
ok "a second up changes nothing" sh -c \
	'zmeld up --tier zmeld --size 60% --codec lz4 --no-scan --json | grep -q "\"applied\": \[\]"'

# Half of the pages are duplicates; they lie in swap meanwhile, behind those of the
# guest's own files, which go first.
swap_out 70 50 60000000
zmeld meld --estimate | sed 's/^/# /'
unused() {
	zmeld status --json | jq -r '.findings[] | select(.id == "duplicates-unused") | .commands[]'
}
echo off >"$SYS/meld_mode"
unused >/tmp/commands
sed 's/^/# /' /tmp/commands
ok "what status says to do about them" [ -s /tmp/commands ]
ok "is done" sh -e /tmp/commands
same "and cures it" "" "$(unused)"
ok "pages were melded ($(meld_stat pages_melded))" [ "$(meld_stat pages_melded)" -gt 100 ]
zmeld status >/tmp/status
sed 's/^/# /' /tmp/status
zmeld status --json >/tmp/status.json
same "status names the device" 1 "$(grep -c '"kind": "zmeld"' /tmp/status.json)"
same "and what was melded" "$(meld_stat bytes_melded)" "$(key melded_bytes /tmp/status.json)"
# Of a character of several bytes the first one counts.
ok "no line is wider than 80 columns" \
	sh -c '! tr -d "\200-\277" </tmp/status | grep -q "^.\{81\}"'

cat >/tmp/watch.toml <<END
[watch.meld]
every = "1s"
duplicates_min = "1%"
END
ok "watch --once" sh -c 'zmeld watch --once --config /tmp/watch.toml >/tmp/said 2>&1'
sed 's/^/# /' /tmp/said
ok "it says what it did" grep -q meld /tmp/said
ok "metrics" sh -c 'zmeld metrics >/tmp/metrics'
ok "they tell of melding" grep -q '^zmeld_.*meld.* [1-9]' /tmp/metrics
kill -CONT $pages
wait $pages
same "memory came back right" 0 $?
ok "down" zmeld down
same "the machine is as it was" "$before" \
	"$(cat /proc/swaps /proc/sys/vm/swappiness /proc/sys/vm/page-cluster; ls /sys/block)"
ok "the module can be unloaded" module_unload

# What is loaded counts where the kernel loads nothing more.
modprobe zmeld num_devices=0
echo 1 >/proc/sys/kernel/modules_disabled
ok "up without loading" zmeld up --tier zmeld --size 60% --codec lz4 --no-scan
ok "it is zmeld's device" grep -q "^/dev/zmeld" /proc/swaps
ok "down" zmeld down
end

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.12 memory=256 program=wipefs
#
# The kernel's own zram with a backing device, and recompression where the kernel
# has it (Debian's 6.12 has not), set up, fired by `zmeld watch`, and taken down.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

DEVICE=zram
modprobe zram num_devices=0 || exit 1
# A codec may be a module that the device does not ask for by itself.
for codec in lz4 zstd; do modprobe -q $codec; done
loop_new 64
before=$(cat /proc/swaps /proc/sys/vm/swappiness; ls /sys/block)
number=$(cat /sys/class/zram-control/hot_add)
recompress=
[ ! -e "/sys/block/zram$number/recompress" ] || recompress='recompress = ["zstd:9"]'
echo "$number" >/sys/class/zram-control/hot_remove
cat >/tmp/zmeld.toml <<END
accept = ["unstable-name"]

[tier.ram]
kind = "zram"
size = "50%"
memory_limit = "40%"
codec = "lz4"
$recompress

[tier.ram.writeback]
device = "$loop"
daily_limit = "32MiB"

[tunables]
swappiness = 180

[watch]
# However busy this machine is.
cpu_pressure_max = "100%"

[watch.writeback]
pages = "huge_idle"
idle_after = "1s"
every = "1s"
at_most = "16MiB"
END
if [ -n "$recompress" ]; then
	cat >>/tmp/zmeld.toml <<-END

		[watch.recompress]
		pages = "idle"
		idle_after = "1s"
		every = "1s"
	END
fi
ok "the configuration is sound" zmeld config check /tmp/zmeld.toml
ok "up" zmeld up --config /tmp/zmeld.toml --no-scan
SYS=$(ls -d /sys/block/zram*)
same "the codec" "[lz4]" "$(grep -o '\[[^]]*\]' "$SYS/comp_algorithm")"
[ -z "$recompress" ] || ok "the second codec" grep -q '1:.*\[zstd\]' "$SYS/recomp_algorithm"
same "the backing device" "$loop" "$(cat "$SYS/backing_dev")"
same "its limit is on" 1 "$(cat "$SYS/writeback_limit_enable")"
same "and is 32 MiB" 8192 "$(cat "$SYS/writeback_limit")"
ok "a second up changes nothing" sh -c \
	'zmeld up --config /tmp/zmeld.toml --no-scan --json | grep -q "\"applied\": \[\]"'

# Pages lie in swap while a rule's time passes, and then come back.
swap_out 40 10 20000000
packed=$(field mm_stat 2)
# The first round marks pages, a later one finds them marked still.
timeout 400 zmeld watch --config /tmp/zmeld.toml --once
sleep 2
timeout 400 zmeld watch --config /tmp/zmeld.toml >/tmp/said 2>&1 &
watch=$!
n=0
fired() {
	[ "$(field bd_stat 3)" -gt 0 ] && { [ -z "$recompress" ] || grep -q recompress /tmp/said; }
}
while [ $n -lt 1500 ] && ! fired; do
	sleep 0.2
	n=$((n + 1))
done
kill -INT $watch
wait $watch
sed 's/^/# /' /tmp/said
[ -z "$recompress" ] || ok "recompression made pages smaller ($packed to $(field mm_stat 2))" \
	[ "$(field mm_stat 2)" -lt "$packed" ]
ok "pages were written back ($(field bd_stat 3))" [ "$(field bd_stat 3)" -gt 0 ]
ok "the limit was kept" [ "$(field bd_stat 3)" -le 8192 ]
zmeld status | sed 's/^/# /'
ok "status tells of what was written back" sh -c \
	'zmeld status --json | grep -q "\"writeback_bytes\": [1-9]"'
ok "and of nothing that was not applied" sh -c \
	'! zmeld status --config /tmp/zmeld.toml --json | grep -q not-applied'
kill -CONT $pages
wait $pages
same "memory came back right" 0 $?
ok "down" zmeld down
same "the machine is as it was" "$before" \
	"$(cat /proc/swaps /proc/sys/vm/swappiness; ls /sys/block)"
loop_end
end

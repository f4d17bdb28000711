#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.1,6.12,7.2,7.3 memory=256 program=wipefs long
#
# What a kernel's zram may refuse: levels, dictionaries, codecs, recompression, a backing
# device and how it is written. Either all is set up, or a line names what is missing;
# nobody is left with "Invalid argument", and nothing with half of it.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

modprobe zram num_devices=0 || exit 1
for codec in lz4 lz4hc zstd deflate 842; do modprobe -q $codec; done
loop_new 32
head -c 4096 /dev/urandom >/root/words
before=$(cat /proc/swaps; ls /sys/block)

while IFS='|' read -r about keys; do
	printf '[tier.ram]\nkind = "zram"\nsize = "64MiB"\n%b\n' "$keys" >/tmp/zmeld.toml
	if zmeld up --config /tmp/zmeld.toml >/tmp/said 2>&1; then
		ok "$about: set up" swaps_on /dev/zram0
		ok "$about: down" zmeld down
	else
		ok "$about: why not is said in a line" \
			[ "$(grep '^zmeld: ' /tmp/said | grep -vc '^zmeld: warning')" -eq 1 ]
		ok "$about: and what there is instead" sh -c '! grep -q "Invalid argument" /tmp/said'
	fi
	sed 's/^/# /' /tmp/said
	same "$about: nothing is left" "$before" "$(cat /proc/swaps; ls /sys/block)"
done <<END
a level|codec = "zstd:3"
the highest level|codec = "zstd:22"
acceleration|codec = "lz4:8"
a level of lz4hc|codec = "lz4hc:9"
a level of deflate|codec = "deflate:9"
842|codec = "842"
zword|codec = "zword"
a dictionary|codec = "zstd:3,dict=/root/words"
recompression|codec = "lz4"\nrecompress = ["zstd:9"]
a memory limit|memory_limit = "32MiB"
a backing device|[tier.ram.writeback]\ndevice = "$loop"\ndaily_limit = "1MiB"
written as it is compressed|[tier.ram.writeback]\ndevice = "$loop"\ncompressed = true
END
loop_end
end

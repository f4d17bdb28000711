#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: upstream program=fio
#
# fio writes and verifies with random sizes and discards, several jobs.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

run() {
	fio --name="$1" --filename="$DEV" --ioengine=psync --direct=1 --bsrange=4k-64k \
		--rw="$2" --numjobs="$3" --size=$((SIZE / $3))M \
		--offset_increment=$((SIZE / $3))M --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --randseed="$SEED" --refill_buffers --allrandrepeat=1 \
		--buffer_compress_percentage=50 --group_reporting --output-format=terse \
		>/tmp/fio.log 2>&1 || {
		sed 's/^/# /' /tmp/fio.log
		return 1
	}
}

module_load num_devices=1
device_new
beside disturb
ok "random writes verify, 1 job" run one randwrite 1
ok "random writes verify, 4 jobs" run four randwrite 4
ok "mixed reads and writes verify" run mixed randrw 2
ok "writes and discards" run trims randtrimwrite 2
beside_stop
put reset 1 >/dev/null
ok "the module can be unloaded" module_unload
end

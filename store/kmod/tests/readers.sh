#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1,7.3
#
# Readers of attributes, which everybody may read, do not keep root from changing
# settings. The kernel preempts them while they hold the device's lock, so that at
# any moment some of them do: whoever only tries the lock never finds it free.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

READERS=16
LIMIT=60	# seconds for all changes; they take some 5

[ -w /sys/kernel/debug/sched/preempt ] || {
	skip "settings beside readers" "this kernel's preemption is not chosen while it runs"
	end
}
echo full >/sys/kernel/debug/sched/preempt
module_load num_devices=1
other=$(other_codec)
for priority in 1 2 3; do
	put recomp_algorithm "algo=$other priority=$priority" >/dev/null
done

# The files under whose lock the most is printed.
readers=
for _ in $(seq $READERS); do
	/guest/pages user /guest/pages read "$SYS/recomp_algorithm" "$SYS/comp_algorithm" &
	readers="$readers $!"
done

sleep 1
changes="comp_algorithm=$other comp_algorithm=lzo compressed_writeback=1
	algorithm_params=algo=$other comp_algorithm=$other disksize=4M reset=1 disksize=4M"
for change in $changes; do
	put "${change%%=*}" "${change#*=}"
done >/tmp/changed &
changing=$!
n=0
while kill -0 $changing 2>/dev/null && [ $n -lt $((10 * LIMIT)) ]; do
	sleep 0.1
	n=$((n + 1))
done
said=$(tr '\n' ' ' </tmp/changed)
echo "# $n tenths of a second beside $READERS readers"
reading=0
for reader in $readers; do
	! kill "$reader" || reading=$((reading + 1))
done
wait
same "every reader was reading" $READERS $reading
same "all changes were made" "0 0 0 0 0 0 0 0 " "$said"
ok "the module can be unloaded" module_unload
end

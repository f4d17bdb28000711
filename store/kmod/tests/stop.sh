#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest:
#
# Nobody waits for a long operation: while one runs, settings change and statistics
# are read; a reset, a removal, unloading and a signal end it at once. The long
# operation is a recompression at the strongest level, which would take seconds.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
has recompress && case " $(codecs) " in
*" zstd "*) codec="zstd 22" ;;
*" deflate "*) codec="deflate 9" ;;
*) codec= ;;
esac
[ -n "$codec" ] || {
	skip "long operations" "no codec here takes long"
	end
}

# A device full of pages, and a recompression of it that has begun: $job.
job_start() {
	device_new "recomp_algorithm=algo=${codec% *} priority=1" \
		"algorithm_params=priority=1 level=${codec#* }"
	/guest/pages fill "$DEV" "$PAGES" "$SEED" 0
	before=$(field mm_stat 2)
	/guest/pages put "$SYS/recompress" "priority=1" >/tmp/said &
	job=$!
	n=0
	while [ "$(field mm_stat 2)" = "$before" ] && [ $n -lt 600 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	[ "$(field mm_stat 2)" != "$before" ] || echo "# the recompression did not begin"
}

# It goes on.
running() {
	[ -z "$(cat /tmp/said)" ] && kill -0 $job
}

# job_ended WHAT ERROR
job_ended() {
	wait $job
	same "$1 ends it" "$2" "$(cat /tmp/said)"
}

job_start
for mode in auto off inline manual; do
	same "meld_mode $mode meanwhile" 0 "$(put meld_mode $mode)"
done
same "verify meanwhile" 0 "$(put verify 1)"
for file in meld_stat meld_mode meld mm_stat io_stat disksize recomp_algorithm; do
	ok "$file is read meanwhile" sh -c "[ -n \"\$(cat $SYS/$file)\" ]"
done
same "a pass is refused meanwhile" EBUSY "$(put meld start)"
same "so is a size" EBUSY "$(put disksize 1M)"
ok "the recompression still runs" running
same "reset" 0 "$(put reset 1)"
job_ended "a reset" EINTR

job_start
kill -TERM $job
wait $job
same "a signal ends it" 143 $?
same "and a pass may run" 0 "$(put meld start)"

# A stop ends it, and it says so. Who waits for it meanwhile is not ended by that
# stop, and begins after it.
job_start
put meld stop >/dev/null
job_ended "a stop" EINTR
put reset 1 >/dev/null

job_start
/guest/pages put "$SYS/recompress" "priority=1" >/tmp/said_too &
waits=$!
sleep 0.5
put meld stop >/dev/null
wait $job
sleep 0.5
n=0
while [ ! -s /tmp/said_too ] && [ $n -lt 600 ]; do
	put meld stop >/dev/null
	sleep 0.1
	n=$((n + 1))
done
wait $waits
same "who waited for it began after that" EINTR "$(cat /tmp/said_too)"

job_start
same "hot_remove" 0 "$(/guest/pages put "$CONTROL/hot_remove" 0)"
job_ended "removal" EINTR
ok "the device is gone" [ ! -e "$SYS" ]
cat "$CONTROL/hot_add" >/dev/null

job_start
ok "unloading" module_unload
job_ended "unloading" EINTR

# Until a command succeeds, so many tenths of a second at most.
wait_for() { # TENTHS COMMAND...
	tries=$1
	shift
	until "$@"; do
		[ "$tries" -gt 0 ] || return 1
		tries=$((tries - 1))
		sleep 0.1
	done
}

# Nor for a file that is long in opening: its lease is not given up.
module_load num_devices=1
echo 600 >/proc/sys/fs/lease-break-time
/guest/pages lease /tmp/leased &
lease=$!
wait_for 300 grep -q LEASE /proc/locks
/guest/pages put "$SYS/backing_dev" /tmp/leased >/tmp/said &
opens=$!
wait_for 300 grep -q BREAKING /proc/locks
ok "a backing device is being opened" grep -q BREAKING /proc/locks
{
	cat "$SYS/comp_algorithm"
	put comp_algorithm "$(other_codec)"
} >/tmp/settings &
settings=$!
ok "a setting is read and changed meanwhile" wait_for 100 grep -qs '^0$' /tmp/settings
ok "it is still being opened" [ ! -s /tmp/said ]
kill $lease
wait $opens $settings
same "a file is no backing device" ENOTBLK "$(cat /tmp/said)"

# Whoever gives a device that goes a size, or has it melded, does not hold it up,
# and nothing of it stays.
module_load num_devices=1
again() {
	put disksize "${SIZE}M"
	put meld start
	put comp_algorithm "$(other_codec)"
}
beside again
n=0
removed=0
while [ $n -lt 20 ]; do
	n=$((n + 1))
	[ "$(/guest/pages put "$CONTROL/hot_remove" 0)" != 0 ] || removed=$((removed + 1))
	cat "$CONTROL/hot_add" >/dev/null
done
beside_stop
ok "removed while others set it up ($removed times)" [ $removed -gt 0 ]
ok "the module can be unloaded" module_unload
end

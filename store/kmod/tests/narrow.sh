#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: narrow-fingerprints
#
# Fingerprints of one bit, so that every page meets pages with its fingerprint that
# are not its twins: nothing wrong is melded, a pass keeps its bounds, and a stop, a
# signal and a reset end it in the middle of a group.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

module_load num_devices=1
device_new verify=1
/guest/pages fill "$DEV" "$PAGES" "$SEED" 40
same "a pass over two groups" 0 "$(put meld start)"
ok "pages of one fingerprint were told apart ($(meld_stat pass_collisions))" \
	[ "$(meld_stat pass_collisions)" -gt 1000 ]
ok "too many are passed over ($(meld_stat pass_pages_crowded))" \
	[ "$(meld_stat pass_pages_crowded)" -gt 100 ]
ok "some are melded ($(meld_stat pages_melded))" [ "$(meld_stat pages_melded)" -gt 0 ]
ok "every page is right" /guest/pages verify "$DEV" "$PAGES" "$SEED" 40

device_new verify=1 meld_mode=inline
/guest/pages fill "$DEV" "$PAGES" "$SEED" 40
ok "inline: pages were told apart ($(meld_stat inline_collisions))" \
	[ "$(meld_stat inline_collisions)" -gt 1000 ]
ok "inline: every page is right" /guest/pages verify "$DEV" "$PAGES" "$SEED" 40

# ended WHAT ERROR COMMAND...: some of many passes are ended by it, with this error.
ended() {
	what=$1 expected=$2 hits=0 wrong=
	shift 2
	n=0
	while [ $n -lt 30 ] && [ $hits -lt 3 ]; do
		n=$((n + 1))
		[ "$(cat "$SYS/disksize")" != 0 ] || {
			device_new
			/guest/pages fill "$DEV" "$PAGES" "$((SEED + n))" 0
		}
		/guest/pages put "$SYS/meld" "start" >/tmp/said &
		job=$!
		tries=0
		until grep -q running "$SYS/meld" || [ $tries -ge 100 ]; do
			tries=$((tries + 1))
		done
		"$@" >/dev/null
		wait $job
		case $(cat /tmp/said) in
		"$expected")
			[ "$expected" != 0 ] || [ "$(meld_stat pass_stopped)" = 1 ] || continue
			hits=$((hits + 1))
			;;
		0) ;;
		*) wrong="$wrong $(cat /tmp/said)" ;;
		esac
	done
	ok "$what ends a pass ($hits of $n)" [ $hits -gt 0 ]
	same "$what: no other error" "" "$wrong"
}
put reset 1 >/dev/null
ended "stop" 0 put meld stop
ended "reset" EINTR put reset 1

device_new verify=1 meld_mode=inline
beside disturb
ok "random pages beside all that can be done" \
	/guest/pages random "$DEV" "$PAGES" "$TIME" "$SEED" 2
beside_stop
put reset 1 >/dev/null
ok "the module can be unloaded" module_unload
end

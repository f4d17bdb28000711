#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.1,6.12,7.3 memory=256 module
#
# zword's tables stand once where both modules are loaded: zmeld.ko uses those of zword.ko,
# which stays as long, and makes its own where there is none. Who makes some tries them, which
# the kernel's own tracer tells where it has one.

# shellcheck source-path=SCRIPTDIR/../../kmod/tests
. /guest/guest.sh

users() {
	awk '$1 == "zword" { print $3 }' /proc/modules
}

pages_come_back() { # NAME
	/guest/pages fill $DEV 2000 "$SEED" 10
	ok "each page comes back, $1" /guest/pages verify $DEV 2000 "$SEED" 10
}

# tried TIMES: so often since it was asked.
tried() {
	[ -e $TRACE/kprobe_events ] || return 0
	same "a self-test ran so often" "$1" "$(grep -c 'self_test:' $TRACE/trace)"
	: >$TRACE/trace
}
watch() { # MODULE
	[ -e $TRACE/kprobe_events ] || return 0
	echo "p:self_test $1:zword_selftest" >$TRACE/kprobe_events
	echo 1 >$TRACE/events/kprobes/enable
}
unwatch() {
	[ -e $TRACE/kprobe_events ] || return 0
	echo 0 >$TRACE/events/kprobes/enable
	echo >$TRACE/kprobe_events
}
TRACE=/sys/kernel/tracing
mount -t tracefs none $TRACE 2>/dev/null

module_load num_devices=1
watch zmeld
ok modprobe modprobe zword
same "nobody uses them" 0 "$(users)"
device_new comp_algorithm=zword
same "the device uses them" 1 "$(users)"
ok "zword.ko stays" sh -c '! rmmod zword 2>/dev/null'
pages_come_back "by zword.ko's tables"
tried 0
put reset 1 >/dev/null
same "nobody does after a reset" 0 "$(users)"
ok "zword.ko can be unloaded" rmmod zword
device_new comp_algorithm=zword
pages_come_back "by its own tables"
tried 1
modprobe zword
pages_come_back "by its own tables, though zword.ko came"
same "and nobody uses those" 0 "$(users)"
ok "it can be unloaded" rmmod zword
put reset 1 >/dev/null
unwatch
module_unload
end

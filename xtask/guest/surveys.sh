#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# One of the guests of `cargo xtask bench surveys`: starts the programs of this
# machine that PROGRAMS names, each in a control group of its own, and surveys their
# memory to PLACE on this machine. Their files are this machine's, by hostfs, so that
# they are what a Debian runs; nothing but PLACE is written.
set -e

mkdir -p /host /sys/fs/cgroup
mount -t hostfs -o / none /host
mount -t proc proc /host/proc
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/system.slice /etc/zmeld
echo +memory >/sys/fs/cgroup/system.slice/cgroup.subtree_control
echo "$MACHINE" >/etc/machine-id
hostname "$NAME"

# run NAME PROGRAM ARGUMENT...: it says ready, and waits until it is ended.
run() {
	group=/sys/fs/cgroup/system.slice/$1.service
	mkdir -p "$group"
	shift
	rm -f /tmp/said
	(
		echo 0 >"$group/cgroup.procs"
		exec chroot /host /usr/bin/env -i PATH=/usr/bin:/bin HOME=/ LC_ALL=C.UTF-8 "$@"
	) >/tmp/said 2>&1 &
	seconds=0
	until grep -q ready /tmp/said; do
		sleep 1
		seconds=$((seconds + 1))
		if [ $seconds -ge 120 ]; then
			cat /tmp/said >&2
			exit 1
		fi
	done
}

# What a small web application has loaded, with sessions of its own.
web() {
	run "$1" python3 -c '
import asyncio, decimal, email.mime.text, http.server, json, sqlite3, sys, time, unittest, xml.dom.minidom
import random
random.seed(int(sys.argv[1]))
database = sqlite3.connect(":memory:")
database.execute("create table sessions (id integer primary key, name text, state text)")
for number in range(20000):
    state = json.dumps({"user": number % 50, "cart": [random.randrange(1000) for _ in range(8)]})
    database.execute("insert into sessions (name, state) values (?, ?)", (f"user-{number % 500}", state))
print("ready", flush=True)
time.sleep(100000)' "$2"
}

# One that counts the words of what is there to read.
words() {
	run "$1" perl -e '
use POSIX; use Encode; use File::Find;
my (%count, @files);
find(sub { push @files, $File::Find::name if /\.p[ml]$/ && @files < $ARGV[0] }, "/usr/share/perl");
for my $file (sort @files) { open my $in, "<", $file or next; while (<$in>) { $count{$_}++ for split } }
$| = 1; print "ready\n"; sleep 100000' "$2"
}

# One that holds lines, as a cache of files does.
lines() {
	run "$1" bash -c 'mapfile -t held < <(cat /usr/share/common-licenses/* /etc/services)
printf "ready\n"; while :; do sleep 1000; done'
}

for program in $PROGRAMS; do
	kind=${program%%:*}
	"$kind" "$kind-${program#*:}" "${program#*:}"
done
mkdir -p /place
mount -t hostfs -o "$PLACE" none /place
cp /place/key /etc/zmeld/fleet.key
chmod 600 /etc/zmeld/fleet.key
zmeld scan --survey /place --key /etc/zmeld/fleet.key --label "programs=$PROGRAMS" \
	--sketch "$SKETCH" >&2

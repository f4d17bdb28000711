#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.12 memory=384 program=chrt load urgent
#
# A user who does with groups of his own what he can against the guard, while programs of
# his run away: a minute, with --long ten. Whoever is protected and the other user's program
# have to live, and no look may come late. Before that, two run away with nobody beside.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

case $TIME in
120) TIME=600 ;;
*) TIME=60 ;;
esac
MINE=user.slice/user-1000.slice
THEIRS=user.slice/user-1001.slice
modprobe zram num_devices=0 || exit 1
modprobe -q lz4
memory_groups "guard"
ok "up" zmeld up --tier zram --size 60% --codec lz4 --no-scan
cd $GROUPS_TOP || exit 1
# new GROUP...: groups that count memory, with those above them.
new() {
	for path in "$@"; do
		at=.
		for name in $(echo "$path" | tr / ' '); do
			at=$at/$name
			[ -d $at ] || mkdir $at
			echo +memory >$at/../cgroup.subtree_control 2>/dev/null
		done
	done
}
manager=$MINE/user@1000.service
new $THEIRS/own.scope $manager/kept.scope $manager/session.slice/shell.scope
new $manager/app.slice/run.scope $manager/app.slice/tmpfs.scope $MINE/many guard
new $manager/app.slice/threads.scope $manager/app.slice/real-time.scope $MINE/hidden
# What is in here is not counted by itself.
mkdir $MINE/hidden/inner

# in_group GROUP SCRIPT: a program in that group.
in_group() {
	sh -c "echo \$\$ >$GROUPS_TOP/$1/cgroup.procs; $2"
}

# holds GROUP BYTES: it holds them, and stays; of four letters, two bits each.
holds() {
	in_group "$1" "x=\$(head -c $2 /dev/urandom |
		tr '\\000-\\377' '[a*64][b*64][c*64][d*64]'); sleep 10000; echo \$x" &
}
holds $THEIRS/own.scope 20000000
bystander=$!
holds $manager/kept.scope 8000000
kept=$!
holds $manager/session.slice/shell.scope 8000000
shell=$!

# Nobody reads what it says, once the pipe is full.
mkfifo /tmp/log
sleep 100000 </tmp/log &
reader=$!
cat >/tmp/zmeld.toml <<END
[watch.guard]
end = ["/user.slice"]
protect = ["kept.scope"]
room_below = "30%"
end_below = "10%"
grace = "1s"
END
sh -c "echo \$\$ >$GROUPS_TOP/guard/cgroup.procs
	head -c 65200 /dev/zero
	exec zmeld-guard --config /tmp/zmeld.toml 2>&1" 1<>/tmp/log &
guard=$!
sleep 13

killed() {
	sed -n 's/^oom_kill //p' "$1"
}
ended_total() {
	sed -n 's/.*"ended_total": *\([0-9]*\).*/\1/p' /run/zmeld/guard.json
}
# Zeros, which take nothing in zram: swap is full at last, and then RAM is. The second one
# does not listen.
run=$manager/app.slice/run.scope
ended=0
for script in 'exec tail /dev/zero' 'trap "" TERM; exec tail /dev/zero'; do
	# As on a machine that has run for a while, zram holds something to judge it by.
	echo 16M >$THEIRS/own.scope/memory.reclaim 2>/dev/null
	in_group $run "$script" >/dev/null 2>&1
	ended=$((ended + 1))
	ok "the guard ended what ran away: $ended" within 300 sh -c \
		"grep -q '\"ended_total\": $ended' /run/zmeld/guard.json"
	same "the kernel killed nothing else" "$(killed $run/memory.events)" "$(killed /proc/vmstat)"
	sleep 5
done

# Groups made and removed in a loop, with names that are no text and long ones.
many() {
	cd $GROUPS_TOP/$MINE/many || exit
	long=$(head -c 200 /dev/zero | tr '\000' '\377')
	names=$(seq 200)
	while :; do
		mkdir $names
		for n in 1 2 3 4 5 6 7 8; do mkdir "$long$n" "$long$n/$long" "$long$n/$long/$long"; done
		sleep 0.2
		for n in 1 2 3 4 5 6 7 8; do
			rmdir "$long$n/$long/$long" "$long$n/$long" "$long$n"
		done
		rmdir $names
	done
}
many 2>/dev/null &
attacks=$!
# Many threads of his own, which come and go.
in_group $manager/app.slice/threads.scope 'while :; do
	i=0
	while [ $i -lt 30 ]; do sleep 1 & i=$((i + 1)); done
	wait
done' 2>/dev/null &
attacks="$attacks $!"
# Real-time threads, as rtkit gives them to any user: for half a second each second.
in_group $manager/app.slice/real-time.scope 'while :; do
	chrt -r 20 timeout 0.5 sh -c "while :; do :; done"
	sleep 0.5
done' 2>/dev/null &
attacks="$attacks $!"
# One that is held back at a limit of its own, and waits nearly all the time.
new $manager/app.slice/throttled.scope
echo 6M >$manager/app.slice/throttled.scope/memory.high
in_group $manager/app.slice/throttled.scope 'while :; do head -c 12000000 /dev/zero | tail; done' \
	>/dev/null 2>&1 &
attacks="$attacks $!"
mkdir /tmp/files
mount -t tmpfs none /tmp/files

uptime_s() {
	sed 's/\..*//' /proc/uptime
}

# Whether what ran away is there, wherever it has moved.
runs() {
	# Without a number kill takes this group of processes.
	grep -q 'populated 1' $run/cgroup.events ||
		{ [ -s /tmp/hog ] && kill -0 "$(cat /tmp/hog)" 2>/dev/null; }
}

begin=$(uptime_s)
state=${SEED:-1}
ran=0
stayed=0
came=$(killed /proc/vmstat)
while [ $(($(uptime_s) - begin)) -lt $TIME ]; do
	state=$(((state * 1103515245 + 12345) % 2147483648))
	run=$manager/app.slice/run.scope
	inside=$run
	rm -f /tmp/hog
	kind=$((state / 65536 % 11))
	case $kind in
	0) script='exec tail /dev/zero' ;;
	1) script='trap "" TERM; exec tail /dev/zero' ;;
	# One that forks when it is told to end.
	2) script='trap "tail /dev/zero & exit" TERM; tail /dev/zero & wait' ;;
	3) script='while head -c 1048576 /dev/urandom; do :; done | tr -d "\n" | tail' ;;
	# One that does not listen, and is in another group when it was told to end.
	4) script="(trap '' TERM; exec tail /dev/zero) &
		echo \$! >/tmp/hog
		trap 'mkdir -p $GROUPS_TOP/$MINE/moved
			cat /tmp/hog >$GROUPS_TOP/$MINE/moved/cgroup.procs' TERM
		while kill -0 \$!; do sleep 1; done" ;;
	# One that is in another group each moment.
	5) script="tail /dev/zero &
		hog=\$! i=0
		echo \$hog >/tmp/hog
		while kill -0 \$hog; do
			i=\$((i + 1))
			mkdir $GROUPS_TOP/$MINE/many/m\$i
			echo \$hog >$GROUPS_TOP/$MINE/many/m\$i/cgroup.procs
			rmdir $GROUPS_TOP/$MINE/many/m\$((i - 1))
			sleep 0.05
		done" ;;
	# One in a group whose memory is not counted.
	6)
		run=$MINE/hidden
		inside=$run/inner
		script='exec tail /dev/zero'
		;;
	# One beside decoys that raise their score.
	7) script='for n in 1 2 3 4 5 6 7 8 9; do
			sh -c "echo 1000 >/proc/self/oom_score_adj; exec sleep 1000" &
		done
		trap "" TERM
		tail /dev/zero' ;;
	# One in a group that is called like a protected one.
	8)
		run=$manager/app.slice/own/kept.scope
		inside=$run
		new $run
		script='exec tail /dev/zero'
		;;
	# As many equal groups.
	9) script="i=0
		while [ \$i -lt 300 ]; do
			i=\$((i + 1))
			mkdir -p $GROUPS_TOP/$MINE/equal/\$i
			sh -c \"echo \\\$\\\$ >$GROUPS_TOP/$MINE/equal/\$i/cgroup.procs
				head -c 3000000 /dev/urandom | tr -d '\\\\n' | tail -n 2 | sleep 20\" &
		done
		exec tail /dev/zero" ;;
	# Many that have the same memory, each in a group of its own.
	10)
		run=$manager/app.slice/shared.scope
		inside=$run
		new $run
		script="exec /guest/load shared 1 2 $GROUPS_TOP/$run"
		;;
	esac
	# What fills tmpfs and leaves: half the time.
	[ $((state / 1048576 % 2)) = 0 ] ||
		in_group $manager/app.slice/tmpfs.scope 'head -c 20000000 /dev/zero >/tmp/files/x'
	in_group $inside "$script" >/dev/null 2>&1 &
	n=0
	most=0
	grew=0
	sleep 0.2
	while runs && [ $n -lt 240 ]; do
		sleep 0.5
		n=$((n + 1))
		held=0
		for file in memory.current memory.swap.current; do
			held=$((held + $(cat $run/$file 2>/dev/null || echo 0)))
		done
		held=$((held / 1048576))
		[ $held -le $most ] || {
			most=$held
			grew=$n
		}
	done
	# What still takes more has not run away yet: a busy machine is slow.
	[ $n -lt 240 ] || [ $((n - grew)) -lt 40 ] || {
		stayed=$((stayed + 1))
		echo "# stayed: $kind"
	}
	echo 1 >$run/cgroup.kill
	[ ! -s /tmp/hog ] || kill -9 "$(cat /tmp/hog)" 2>/dev/null
	[ ! -d $MINE/equal ] || echo 1 >$MINE/equal/cgroup.kill
	ran=$((ran + 1))
	[ "$(killed /proc/vmstat)" = $came ] || {
		came=$(killed /proc/vmstat)
		echo "# the kernel came: $kind, after"
		grep '"why"' /run/zmeld/guard.json | tail -n 3 | sed 's/^/# /'
	}
	rm -f /tmp/files/x
	sleep 1
done
echo "# $ran programs ran away"
same "each of them was ended" 0 $stayed
ok "the other user's program lives" kill -0 $bystander
ok "what is protected by its name lives" kill -0 $kept
ok "what stands in its session lives" kill -0 $shell
ok "the guard lives" kill -0 $guard
same "the kernel killed nothing of theirs" 0 "$(killed $THEIRS/memory.events)"
kill $attacks
sleep 12
sed 's/^/# /' /run/zmeld/guard.json | grep -E 'looks|late|total|"owner"|took|why' | head -60
ended=$(ended_total)
ok "the guard ended some of them: $ended" test "${ended:-0}" -gt 2
zmeld status >/tmp/status
ok "status tells of them" sh -c 'tr -s " \n" " " </tmp/status | grep -q "It ended [0-9]* processes"'
ok "and nothing of theirs" sh -c "! grep -q '\"owner\": \"/$THEIRS' /run/zmeld/guard.json"
kill $guard $reader $bystander $kept $shell
wait $guard
same "the guard ended as it was told to" 143 $?
wait 2>/dev/null
umount /tmp/files
cd /
ok "down" zmeld down
end

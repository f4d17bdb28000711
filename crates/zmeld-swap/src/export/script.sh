
set -u
export LC_ALL=C
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
state=${ZMELD_SCRIPT_STATE:-/run/zmeld-script}

say() { printf '%s: %s\n' "$0" "$*" >&2; }
fail() { say "$*"; exit 1; }

# What was done is noted before it is done, one file a step, so that it can be
# taken back whatever happens in between.
count() {
	set -- "$state"/undo/*
	if [ -e "$1" ]; then echo "$#"; else echo 0; fi
}
note() {
	next=$(printf '%04d' "$(($(count) + 1))")
	printf '%s\n' "$*" > "$state/undo/$next" || fail "cannot write below $state"
}
take_back() { # down to that many steps
	while [ "$(count)" -gt "$1" ]; do
		set -- "$1" "$state"/undo/*
		last=
		eval "last=\${$#}"
		# Each word of the line is a word of the command: none holds a space.
		read -r words < "$last"
		# shellcheck disable=SC2086
		$words || return 1
		rm -f "$last" || return 1
	done
}

put() { # VALUE FILE
	[ -e "$2" ] || fail "$2 is missing: this kernel has not got what it sets"
	{ printf '%s' "$1" > "$2"; } 2>/dev/null || fail "the kernel does not take \"$1\" for $2"
}
patient_put() { # the same, for a device that udev looks at just now
	tries=0
	until { printf '%s' "$1" > "$2"; } 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" -lt 30 ] || return 1
		sleep 0.1
	done
}
restore() { patient_put "$(cat "$1")" "$2" && rm -f "$1"; }
set_value() { # FILE VALUE
	[ -e "$1" ] || fail "$1 is missing: this kernel has not got what it sets"
	old=$(cat "$1")
	[ "$old" != "$2" ] || return 0
	kept=$state/old-$(printf '%s' "$1" | tr / -)
	if [ ! -e "$kept" ]; then
		printf '%s' "$old" > "$kept" || fail "cannot write $kept"
		note restore "$kept" "$1"
	fi
	put "$2" "$1"
}
set_optional() { # FILE VALUE: not every kernel has it
	if [ -e "$1" ]; then set_value "$@"; else say "$1 is missing and left out"; fi
}

is_on() { # the kernel names a device by the file behind its links
	real=$(readlink -f "$1") || return 1
	while read -r path rest; do
		[ "$path" != "$real" ] || return 0
	done < /proc/swaps
	return 1
}
switch_off() { if is_on "$1"; then swapoff "$1"; fi; }
switch_on() { # DEVICE PRIORITY DISCARD
	note switch_off "$1"
	set -- "$1" "$2" "$3" swapon
	if [ "$2" -ge 0 ]; then set -- "$@" -p "$2"; fi
	case $3 in
	none) ;;
	both) set -- "$@" -d ;;
	*) set -- "$@" "-d$3" ;;
	esac
	device=$1
	shift 3
	"$@" "$device" || fail "$device could not be switched on"
}

ram=$(awk '/^MemTotal:/ { print $2 * 1024 }' /proc/meminfo)
share() { # HUNDREDTHS OF A PERCENT [AT MOST]: bytes, whole pages
	# A product first could be more than the shell counts to.
	# shellcheck disable=SC2017
	bytes=$((ram / 10000 * $1 + ram % 10000 * $1 / 10000))
	if [ $# -gt 1 ] && [ "$bytes" -gt "$2" ]; then bytes=$2; fi
	bytes=$((bytes / 4096 * 4096))
	if [ "$bytes" -lt 4096 ]; then bytes=4096; fi
	echo "$bytes"
}

remove_ram() { # DRIVER NUMBER
	[ ! -e "/sys/block/$1$2" ] || patient_put "$2" "/sys/class/$1-control/hot_remove"
}
numbers() { # DRIVER: of all its devices, each between commas
	printf ,
	for sys in "/sys/block/$1"[0-9]*; do
		[ ! -e "$sys" ] || printf '%s,' "${sys#"/sys/block/$1"}"
	done
}
remove_new() { # DRIVER NUMBERS: what was not there before and nobody has set up since
	for sys in "/sys/block/$1"[0-9]*; do
		number=${sys#"/sys/block/$1"}
		case $2 in
		*",$number,"*) continue ;;
		esac
		if [ "$(cat "$sys/disksize" 2>/dev/null)" = 0 ]; then
			remove_ram "$1" "$number" || return 1
		fi
	done
}
remove_module() { rmmod "$1" 2>/dev/null || :; }
add_ram() { # DRIVER: sets $device and $sys
	if [ ! -e "/sys/class/$1-control/hot_add" ]; then
		note remove_module "$1"
		modprobe "$1" num_devices=0 || fail "there is no module $1 for this kernel"
	fi
	# Which number it gets is known only when it is there.
	note remove_new "$1" "$(numbers "$1")"
	number=$(cat "/sys/class/$1-control/hot_add") || fail "no $1 device could be added"
	printf 'remove_ram %s %s\n' "$1" "$number" > "$state/undo/$next" ||
		fail "cannot write below $state"
	device=/dev/$1$number
	# The tiers' functions use it.
	# shellcheck disable=SC2034
	sys=/sys/block/$1$number
	tries=0
	until [ -b "$device" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 50 ] || fail "$device does not appear"
		sleep 0.1
	done
}
zswap_off() { # it would compress every page a first time
	zswap=/sys/module/zswap/parameters/enabled
	if [ -e "$zswap" ] && [ "$(cat "$zswap")" = Y ]; then set_value "$zswap" N; fi
}

await() { # DEVICE SECONDS
	waited=0
	until [ -b "$1" ]; do
		[ "$waited" -lt "$2" ] || fail "$1 is not there"
		sleep 1
		waited=$((waited + 1))
	done
}
carries() { wipefs --noheadings --output TYPE "$1" | sort -u | tr '\n' ' ' | sed 's/ *$//'; }
make_swap() { # DEVICE LABEL: unless it is one
	found=$(carries "$1")
	case $found in
	swap) ;;
	'') mkswap -L "$2" "$1" > /dev/null || fail "mkswap $1 failed" ;;
	*) fail "$1 carries $found; it is not touched" ;;
	esac
}
must_carry() { # DEVICE TYPE
	found=$(carries "$1")
	[ "$found" = "$2" ] || fail "$1 carries ${found:-nothing} instead of $2"
}

check_key() {
	[ -f "$1" ] || fail "there is no key file $1"
	mode=$(stat -c %a "$1") || fail "cannot look at $1"
	case $mode in
	?00) ;;
	*) fail "others may read the key in $1 (chmod 400 $1)" ;;
	esac
}
close_crypt() { [ ! -e "/dev/mapper/$1" ] || cryptsetup close "$1"; }
open_random() { # DEVICE NAME CIPHER KEY-SIZE [OPTION]
	found=$(carries "$1")
	[ -z "$found" ] || fail "$1 carries $found; it is not overwritten"
	[ ! -e "/dev/mapper/$2" ] || fail "/dev/mapper/$2 is there already"
	note close_crypt "$2"
	name=$2 source=$1 cipher=$3 size=$4
	shift 4
	cryptsetup open --batch-mode --type plain --key-file /dev/urandom --cipher "$cipher" \
		--key-size "$size" "$@" "$source" "$name" || fail "$source could not be opened"
}
open_luks() { # DEVICE NAME KEY-FILE [OPTION]
	check_key "$3"
	[ ! -e "/dev/mapper/$2" ] || fail "/dev/mapper/$2 is there already"
	note close_crypt "$2"
	name=$2 source=$1 key=$3
	shift 3
	cryptsetup open --batch-mode --type luks --key-file "$key" "$@" "$source" "$name" ||
		fail "$source could not be opened"
}
format_luks() { # DEVICE KEY-FILE CIPHER KEY-SIZE: unless it is one
	found=$(carries "$1")
	[ "$found" != crypto_LUKS ] || return 0
	[ -z "$found" ] || fail "$1 carries $found; it is not touched"
	check_key "$2"
	cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
		--cipher "$3" --key-size "$4" "$1" "$2" || fail "$1 could not be formatted"
}

# A file that a step names may have spaces: the step names a note of it instead.
remove_file() { rm -f "$(cat "$1")" "$1"; }
create_file() { # FILE BYTES NAME OF THE TIER
	[ ! -e "$1" ] || return 0
	free=$(df -P -k "$(dirname "$1")" | awk 'NR == 2 { print $4 }')
	[ "${free:-0}" -ge $(($2 / 1024)) ] ||
		fail "no room for $1: $((${free:-0} / 1024)) MiB are free, it takes $(($2 / 1048576))"
	printf '%s' "$1" > "$state/file-$3" || fail "cannot write below $state"
	note remove_file "$state/file-$3"
	(umask 077 && : > "$1") || fail "cannot create $1"
	# Copy on write would move its blocks; file systems without it do not know the flag.
	chattr +C "$1" 2>/dev/null || :
	fallocate -l "$2" "$1" || fail "the blocks of $1 could not be had"
}

tier() { # NAME required|optional FUNCTION
	[ ! -e "$state/tier-$1" ] || return 0
	before=$(count)
	echo "$before" > "$state/current" || fail "cannot write below $state"
	if ("$3"); then
		: > "$state/tier-$1"
		rm -f "$state/current"
		return 0
	fi
	take_back "$before" || fail "tier $1 could not be taken back; try: $0 undo"
	rm -f "$state/current"
	if [ "$2" = optional ]; then
		say "tier $1 is optional and left out"
		return 0
	fi
	undo
	fail "nothing was set up"
}
undo() {
	take_back 0 || fail "not everything could be taken back; the rest is noted in $state/undo"
	rm -f "$state"/tier-* "$state"/current
}

main() {
	[ "$(id -u)" = 0 ] || fail "this needs root: run it with sudo"
	umask 022
	mkdir -p "$state/undo" || fail "cannot make $state"
	exec 9> "$state/lock"
	# Who was killed leaves a command behind that ends soon, and holds it too.
	tries=0
	until flock -n 9; do
		tries=$((tries + 1))
		[ "$tries" -le 20 ] || fail "another run is at it"
		sleep 1
	done
	case ${1:-up} in
	up)
		# A run that was killed left a tier half done.
		if [ -e "$state/current" ]; then
			take_back "$(cat "$state/current")" || fail "a half-done tier could not be taken back"
			rm -f "$state/current"
		fi
		set_up
		;;
	undo) undo ;;
	*) fail "\"$1\" is not understood: give up (or nothing), or undo" ;;
	esac
}

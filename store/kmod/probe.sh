#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a kernel has, found by compiling: for each PROBES/NAME.c a line
# "#define ZM_HAS_NAME" with 1 or 0 in HEADER. Distributions carry newer pieces in
# older kernels, so a kernel's number says little.
#
#	probe.sh HEADER PROBES COMPILER FLAG...
#
# MODULE in the environment is who asks, for messages: zmeld.
#
# A probe is compiled with ZM_PROBED=1, in the words that use the feature. If that
# fails it is compiled with ZM_PROBED=0, in the words that do without. If that
# fails, too, then not for the feature's sake: the kernel is one that nobody has
# looked at, or its headers are not whole, and it ends as an error with what the
# compiler said. needed.c has to compile as it is. "WITHOUT:" in a probe is said
# where the feature is missing.
set -u
: "${MODULE:=zmeld}"

# Warnings are the kernel's affair, but a wrong prototype is no warning here.
compiles() { # PROBE 0|1 LOG COMPILER FLAG...
	probe=$1 probed=$2 log=$3
	shift 3
	"$@" -DMODULE -DZM_PROBED="$probed" -Wno-error \
		-Werror=implicit-function-declaration -Werror=implicit-int \
		-Werror=int-conversion -Werror=incompatible-pointer-types \
		-fsyntax-only "$probe" >"$log" 2>&1
}

if [ "$1" = --one ]; then
	probe=$2 name=$(basename "$2" .c) found=$3
	shift 3
	if compiles "$probe" 1 "$found/$name.with" "$@"; then
		echo 1 >"$found/$name"
	elif [ "$name" != needed ] &&
		compiles "$probe" 0 "$found/$name.without" "$@"; then
		echo 0 >"$found/$name"
	fi
	exit 0
fi

header=$1 probes=$2
shift 2
found=$(mktemp -d) || exit 1
trap 'rm -rf "$found"' EXIT

# As many at once as there are processors: small machines build, too.
for probe in "$probes"/*.c; do
	echo "$probe"
done | xargs -P "$(nproc 2>/dev/null || echo 1)" -I '{}' \
	sh "$0" --one '{}' "$found" "$@" || exit 1

# The reason of all other failures first.
for name in needed $(cd "$probes" && echo *.c); do
	name=${name%.c}
	[ -f "$found/$name" ] && continue
	echo "$MODULE: $name: does not compile for this kernel, with or without the feature:" >&2
	cat "$found/$name".with* >&2
	exit 1
done

{
	echo "/* Made by probe.sh: what the kernel has that this is built for. */"
	for probe in "$probes"/*.c; do
		name=$(basename "$probe" .c)
		[ "$name" = needed ] && continue
		feature=$(echo "$name" | tr '[:lower:]' '[:upper:]')
		echo "#define ZM_HAS_$feature $(cat "$found/$name")"
	done
} >"$found/header" || exit 1

for probe in "$probes"/*.c; do
	[ "$(cat "$found/$(basename "$probe" .c)")" = 1 ] ||
		sed -n "s/^ \* WITHOUT: /$MODULE: this kernel lacks a feature: /p" "$probe"
done
cp "$found/header" "$header"

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What tests of packages share; each says in `cleanup` what it does whatever happens.

checks=0
trap cleanup EXIT
export DEBIAN_FRONTEND=noninteractive

# check NAME COMMAND...: it succeeds.
check() {
	name=$1
	shift
	checks=$((checks + 1))
	if "$@"; then
		echo "ok $checks - $name"
	else
		echo "not ok $checks - $name"
	fi
}

not() {
	! "$@"
}

# run COMMAND...: what it says is in the log and in /tmp/said.
run() {
	echo "\$ $*"
	"$@" >/tmp/said 2>&1
	code=$?
	sed 's/^/    /' /tmp/said
	return $code
}

said() {
	grep -q "$1" /tmp/said
}

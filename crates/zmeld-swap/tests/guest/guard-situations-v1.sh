#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=6.1 memory=1000 program=chrt load script=guard-situations.sh long
#
# guard-situations.sh on control groups of version 1: the kernel does not let go of the memory
# controller once one of the versions had it.

# shellcheck source-path=SCRIPTDIR
VERSION=1
. /guest/guard-situations.sh

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest: kernel=um,6.1,6.12 memory=512 disk=256 program=wipefs program=mkfs.ext4
#
# Each finding of `zmeld status` and what it says to do. A row makes a state; the finding is
# there; its commands are run as they are printed; then it is gone, no other has come, and
# nothing is lost: memory that was swapped out is as it was, and as many areas are on.

# shellcheck source-path=SCRIPTDIR
. /guest/guest.sh

WORK=/mnt/work
TABLE=

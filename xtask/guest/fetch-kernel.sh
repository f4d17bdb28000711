#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Fetches a kernel's image and headers, and what they need, in a Debian that this is the
# root of; installs nothing.

set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends --download-only "linux-image-$1" "linux-headers-$1"

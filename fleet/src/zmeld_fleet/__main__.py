# SPDX-License-Identifier: GPL-2.0-or-later
"""`python -m zmeld_fleet`."""

from zmeld_fleet.cli import run

run()

# SPDX-License-Identifier: GPL-2.0-or-later
"""`python -m zmeld_fleet`."""

import sys

from zmeld_fleet.cli import main

sys.exit(main())

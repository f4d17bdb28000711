# SPDX-License-Identifier: GPL-2.0-or-later
"""To show 4: placement of real processes, several of each program, against chance.

As root:

    PYTHONPATH=fleet/src python fleet/shows/placement.py ZMELD PLACE

Starts four of each of six programs in control groups of their own, without address space
randomisation, as a machine that is cloned has its memory, and surveys them. Then plans
them on a few machines of several sizes, and places them at random 1,000 times.
"""

from __future__ import annotations

import sys

import real_groups

from zmeld_fleet import catalogue, engines, places, placing

COPIES = 4
KINDS = ("node-1", "pyarrow-1", "sqlite", "ruby", "php", "perl")
PROGRAMS = {
    f"{kind.removesuffix('-1')}-{at}": ["setarch", "-R", *real_groups.PROGRAMS[kind]]
    for kind in KINDS
    for at in range(COPIES)
}
RAM_MIB = (60, 80, 100)
MACHINES = (3, 4, 6)
DRAWS = 1000


def report(zmeld: str, place: str, *_: object) -> int:
    """Plans and prints a line for each size and number of machines."""
    real_groups.survey(zmeld, place)
    found = catalogue.read(places.open_place(place))
    print("RAM      machines  planned  at random (95 %)     more  freed planned, random (MiB)")
    for ram in RAM_MIB:
        for machines in MACHINES:
            request = placing.Request(
                ("cgroup",), ram << 20, machines, draws=DRAWS, names="*zmeld-show/*"
            )
            engine = engines.start("duckdb")
            result = placing.make(found, engine, request)
            engine.close()
            chance = result.random
            ends = f"{chance.placed:5.1f} ({chance.placed_low:.0f} to {chance.placed_high:.0f})"
            freed = f"{result.planned.freed_bytes.value / 2**20:.0f}, "
            freed += f"{chance.freed_bytes.value / 2**20:.0f}"
            more = f"{100 * result.more_than_random:.0f} %"
            planned = f"{result.planned.placed:.0f} of {result.workloads}"
            print(f"{ram} MiB  {machines:8}  {planned:8} {ends:20} {more:>5}  {freed}")
    return 0


if __name__ == "__main__":
    real_groups.PROGRAMS = PROGRAMS
    real_groups.compare = report
    sys.exit(real_groups.main())

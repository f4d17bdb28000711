# SPDX-License-Identifier: GPL-2.0-or-later
"""What sketches say of real machines, held against all of their pages.

    cargo xtask bench surveys                  # nine guests; prints PLACE
    python fleet/shows/exact.py PLACE [K]

The surveys in PLACE list every content (`--sketch` above their number). Of each machine
the K smallest hashes are its sketch, as `zmeld scan --survey --sketch K` keeps them:
the same reading, so that nothing changed in between. Prints for each pair of machines
how many contents they share, and for all of them together the distinct contents and the
pages that melding drops, exactly and as estimated, with 95 % intervals.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from zmeld_fleet.estimate import Estimate, sampled_sum
from zmeld_fleet.schema import FOLDER

Hash = tuple[int, int]
ALL = 2**63 - 1
"""theta of an owner whose contents are all listed."""


@dataclass(frozen=True)
class Machine:
    """Every content of a machine, with the number of its pages."""

    host: str
    contents: Counter[Hash]
    beside: int
    """Pages of zeros, or of one word."""

    @property
    def pages(self) -> int:
        """Pages that have contents to be told apart."""
        return self.contents.total()

    def sketch(self, size: int) -> Sketch:
        """Its `size` smallest hashes."""
        ordered = sorted(self.contents)
        theta = ordered[size][0] if len(ordered) > size else ALL
        return Sketch(theta, frozenset(one for one in ordered if one[0] < theta))


@dataclass(frozen=True)
class Sketch:
    """The contents below a bound."""

    theta: int
    hashes: frozenset[Hash]

    def below(self, theta: int) -> set[Hash]:
        """Those below a bound that is not above its own."""
        return {one for one in self.hashes if one[0] < theta}


def read(path: Path) -> Machine:
    """One survey that lists everything."""
    rows = pq.read_table(path).to_pylist()
    contents: Counter[Hash] = Counter()
    host, beside = path.name, 0
    for row in rows:
        if row["record"] == "machine":
            host = row["host"]
        elif row["record"] == "owner":
            beside += row["pages_zero"] + row["pages_same"]
            if row["theta"] != ALL:
                sys.exit(f"{path}: {row['owner']}: not all of its contents are listed")
        elif row["record"] == "content":
            contents[row["hash_high"], row["hash_low"]] += row["count"]
    return Machine(host, contents, beside)


def share(theta: int) -> float:
    """Of all contents, those below the bound."""
    return 1.0 if theta == ALL else (theta + 2**63) / 2**64


def shared(one: Sketch, other: Sketch) -> Estimate:
    """Contents that both hold."""
    theta = min(one.theta, other.theta)
    both = len(one.below(theta) & other.below(theta))
    return sampled_sum(both, both, 1.0, share(theta))


def united(sketches: list[Sketch]) -> Estimate:
    """Distinct contents of all."""
    theta = min(sketch.theta for sketch in sketches)
    found = len(set().union(*(sketch.below(theta) for sketch in sketches)))
    return sampled_sum(found, found, 1.0, share(theta))


def line(name: str, exact: int, estimate: Estimate) -> bool:
    """Prints one comparison; whether the interval holds the truth."""
    covers = estimate.low - 0.5 <= exact <= estimate.high + 0.5
    span = f"{estimate.low:>9,.0f} to {estimate.high:>9,.0f}"
    print(f"{name:<24}{exact:>11,}{estimate.value:>11,.0f}   {span}{'' if covers else '   no'}")
    return covers


def main(words: list[str]) -> int:
    """Compares, and ends with 1 where fewer than nine in ten intervals hold the truth."""
    place, size = Path(words[0]), int(words[1]) if len(words) > 1 else 1024
    machines = sorted(
        (read(path) for path in (place / FOLDER).glob("*/[!.]*.parquet")),
        key=lambda machine: machine.host,
    )
    if len(machines) < 2:
        sys.exit(f"{place}: {len(machines)} surveys; cargo xtask bench surveys makes nine")
    sketches = [machine.sketch(size) for machine in machines]
    print(f"{len(machines)} machines, sketches of {size:,} contents\n")
    print(f"{'contents of':<24}{'exact':>11}{'estimate':>11}   {'95 % interval':>22}")
    held = [
        line(machine.host, len(machine.contents), united([sketch]))
        for machine, sketch in zip(machines, sketches, strict=True)
    ]
    print("\nshared by")
    for (one, first), (other, second) in itertools.combinations(
        zip(machines, sketches, strict=True), 2
    ):
        both = len(one.contents.keys() & other.contents.keys())
        held.append(line(f"{one.host}, {other.host}", both, shared(first, second)))
    everything = set().union(*(machine.contents for machine in machines))
    pages = sum(machine.pages for machine in machines)
    distinct = united(sketches)
    print("\nof all")
    held.append(line("distinct contents", len(everything), distinct))
    held.append(
        line("pages that melding drops", pages - len(everything), distinct.taken_from(pages))
    )
    alone = sum(machine.pages - len(machine.contents) for machine in machines)
    beside = sum(machine.beside for machine in machines)
    print(
        f"\n{pages:,} pages, and {beside:,} of zeros or one word; melding within machines drops"
        f" {alone:,},\nbetween them {pages - len(everything) - alone:,} more."
        f" {sum(held)} of {len(held)} intervals hold the truth."
    )
    return 0 if sum(held) >= 0.9 * len(held) else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))

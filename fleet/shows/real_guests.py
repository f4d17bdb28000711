# SPDX-License-Identifier: GPL-2.0-or-later
"""What sketches say of real machines, held against all of their pages.

    cargo xtask bench surveys                        # nine guests; prints PLACE
    python fleet/shows/real_guests.py PLACE [K]

The surveys in PLACE list every content (`--sketch` above their number). Of each machine
the K smallest hashes are its sketch: the same reading, so that nothing changed in
between. Prints how many contents each machine has and each pair shares, and of all
together the distinct contents and the pages that melding drops, exactly and as
estimated, with 95 % intervals.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from pathlib import Path

import unions
from unions import Hash, Sketch
from zmeld_fleet.estimate import Estimate
from zmeld_fleet.schema import FOLDER, THETA_ALL


def machine(path: Path) -> Sketch:
    """All owners of a survey as one."""
    owners = unions.read([str(path)])
    cut_off = [one.owner for one in owners if one.theta != THETA_ALL]
    if cut_off:
        sys.exit(f"{path}: not all contents of {', '.join(cut_off)} are listed")
    contents: Counter[Hash] = Counter()
    for one in owners:
        contents.update(one.contents)
    return Sketch(
        survey=owners[0].survey,
        owner="machine",
        kind="machine",
        name=" + ".join(sorted(one.name for one in owners if one.kind == "service")),
        theta=THETA_ALL,
        pages=sum(one.pages for one in owners),
        pages_zero=sum(one.pages_zero for one in owners),
        pages_same=sum(one.pages_same for one in owners),
        contents=dict(contents),
    )


def line(name: str, exact: int, estimate: Estimate) -> bool:
    """Prints one comparison; whether the interval holds the truth."""
    covers = estimate.low - 0.5 <= exact <= estimate.high + 0.5
    span = f"{estimate.low:>8,.0f} to {estimate.high:>8,.0f}"
    print(f"{name:<26}{exact:>10,}{estimate.value:>10,.0f}   {span}{'' if covers else '   no'}")
    return covers


def main(words: list[str]) -> int:
    """Compares, and ends with 1 where fewer than nine in ten intervals hold the truth."""
    place, size = Path(words[0]), int(words[1]) if len(words) > 1 else 1024
    paths = (place / FOLDER).glob("*/[!.]*.parquet")
    machines = sorted((machine(path) for path in paths), key=lambda one: (one.name, one.survey))
    if len(machines) < 2:
        sys.exit(f"{place}: {len(machines)} surveys; cargo xtask bench surveys makes nine")
    sketches = [unions.cut(one, size) for one in machines]
    print(f"{len(machines)} machines, sketches of {size:,} contents\n")
    print(f"{'contents of':<26}{'exact':>10}{'estimate':>10}   {'95 % interval':>20}")
    held = []
    for at, (whole, sketch) in enumerate(zip(machines, sketches, strict=True), 1):
        name = f"{at} {whole.name}"[:25]
        held.append(line(name, len(whole.contents), unions.distinct([sketch])))
    print("\nshared by")
    for one, other in itertools.combinations(range(len(machines)), 2):
        both = len(machines[one].contents.keys() & machines[other].contents.keys())
        estimate = unions.shared(sketches[one], sketches[other])
        held.append(line(f"{one + 1} and {other + 1}", both, estimate))
    everything = set().union(*(one.contents for one in machines))
    pages = sum(one.content_pages for one in machines)
    drops = pages - len(everything)
    print("\nof all")
    held.append(line("distinct contents", len(everything), unions.distinct(sketches)))
    held.append(line("pages that melding drops", drops, unions.dropped(sketches)))
    alone = sum(one.content_pages - len(one.contents) for one in machines)
    print(
        f"\n{pages:,} pages; melding within machines drops {alone:,}, between them"
        f" {drops - alone:,} more.\n{sum(held)} of {len(held)} intervals hold the truth."
    )
    return 0 if sum(held) >= 0.9 * len(held) else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))

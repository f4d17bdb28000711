# SPDX-License-Identifier: GPL-2.0-or-later
"""Sketches in memory, united and intersected: docs/survey.md, "The sketch".

For a handful of owners that are at hand; what is asked of many machines is asked of an
engine (`expressions`), with the same estimators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet.estimate import Estimate, sampled_sum
from zmeld_fleet.schema import CONTENT, OWNER, THETA_ALL, sampled

Hash = tuple[int, int]


@dataclass
class Sketch:
    """One owner's contents below its theta, with what is known of all of its pages."""

    survey: str
    owner: str
    kind: str
    name: str
    theta: int
    pages: int
    pages_zero: int
    pages_same: int
    contents: dict[Hash, int] = field(default_factory=dict)
    """Pages of each."""

    @property
    def id(self) -> tuple[str, str]:
        """Its survey and its name there."""
        return self.survey, self.owner

    @property
    def content_pages(self) -> int:
        """Pages that are neither zero nor same-filled."""
        return self.pages - self.pages_zero - self.pages_same


def read(paths: Iterable[str]) -> list[Sketch]:
    """The sketches of these files, in the order of survey and owner."""
    found: dict[tuple[str, str], Sketch] = {}
    for path in paths:
        for sketch in _of_file(path):
            found.setdefault(sketch.id, sketch)
    return [found[key] for key in sorted(found)]


_OWNER = ("survey", "owner", "kind", "name", "theta", "pages", "pages_zero", "pages_same")
_CONTENT = ("survey", "owner", "hash_high", "hash_low", "count")


def _of_file(path: str) -> list[Sketch]:
    names = [*dict.fromkeys(("record", *_OWNER, *_CONTENT))]
    with pq.ParquetFile(path) as file:
        table = file.read(columns=names)
    owners = table.filter(pc.equal(table["record"], OWNER)).select(_OWNER).to_pylist()
    sketches = {(row["survey"], row["owner"]): Sketch(**row) for row in owners}
    contents = table.filter(pc.equal(table["record"], CONTENT)).select(_CONTENT)
    for row in contents.to_pylist():
        sketch = sketches[row["survey"], row["owner"]]
        sketch.contents[row["hash_high"], row["hash_low"]] = row["count"]
    return list(sketches.values())


def theta_of(sketches: Iterable[Sketch]) -> int:
    """Below it every content of every one of them is listed."""
    return min((sketch.theta for sketch in sketches), default=THETA_ALL)


def shared(one: Sketch, other: Sketch) -> Estimate:
    """Contents that both hold."""
    theta = theta_of((one, other))
    fewer, more = sorted((one.contents, other.contents), key=len)
    seen = float(sum(key in more and key[0] < theta for key in fewer))
    return sampled_sum(seen, seen, 1.0, sampled(theta))


def distinct(sketches: Iterable[Sketch]) -> Estimate:
    """Contents of all of them together, each once."""
    sketches = list(sketches)
    theta = theta_of(sketches)
    seen = float(len({key for one in sketches for key in one.contents if key[0] < theta}))
    return sampled_sum(seen, seen, 1.0, sampled(theta))


def dropped(sketches: Iterable[Sketch]) -> Estimate:
    """Pages that melding all of them drops: all that have a content, less the distinct."""
    sketches = list(sketches)
    whole = float(sum(one.content_pages for one in sketches))
    return distinct(sketches).taken_from(whole).within(0.0, whole)


def cut(sketch: Sketch, k: int) -> Sketch:
    """The same as if it had been made with a smaller k."""
    keys = sorted(sketch.contents)
    if len(keys) <= k:
        return sketch
    theta = keys[k][0]
    kept = {key for key in keys if key[0] < theta}
    return Sketch(
        *(sketch.survey, sketch.owner, sketch.kind, sketch.name, theta),
        *(sketch.pages, sketch.pages_zero, sketch.pages_same),
        {key: sketch.contents[key] for key in kept},
    )

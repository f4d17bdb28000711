# SPDX-License-Identifier: GPL-2.0-or-later
"""Which groups of workloads belong together: the bytes that they share.

Invariants:
- Schedulers place; this says what belongs together, and nothing about capacity.
- A pair is compared below the smaller bound of its two groups, not of all, so that a large
  group does not make what two small ones share vague.
- The size of a workload is the exact count of its pages, which the survey has.
- What one workload of each group shares, on average over all such pairs, is the sum over
  contents of a b / (n m), where a of the n workloads of one group hold the content, and b of
  the m of the other. Of a group with itself it is a (a - 1) / (n (n - 1)).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa

from zmeld_fleet import expressions
from zmeld_fleet.analysis import CONTENTS_MAX, limit_of, rows_read
from zmeld_fleet.catalogue import Catalogue, LeftOut
from zmeld_fleet.engines import Engine
from zmeld_fleet.estimate import Estimate, sampled_sum
from zmeld_fleet.schema import sampled
from zmeld_fleet.words import FleetError

GROUPS_MAX = 100
"""Groups that are compared: those with most pages."""
WORTH = 0.01
"""A pair is worth standing together where it surely shares so much of the smaller one."""
GIB = 2**30

_REPLICA = re.compile(r"(-[a-z0-9]{6,10})?-[a-z0-9]{5}$|-[0-9]+$")
"""What a ReplicaSet, a DaemonSet and a StatefulSet put behind a pod's name."""


def _deployment(row: dict[str, Any]) -> str | None:
    if row["pod"] is None:
        return None
    return f"{row['namespace']}/{_REPLICA.sub('', row['pod'])}"


GROUPINGS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    **{name: itemgetter(name) for name in ("name", "kind", "owner", "namespace", "image")},
    "deployment": _deployment,
}
"""What workloads can be grouped by; who has no such name is in no group."""


@dataclass(frozen=True)
class Group:
    """Workloads of one name."""

    name: str
    workloads: int
    bytes: int
    share_sampled: float

    @property
    def workload_bytes(self) -> float:
        """What one of them has, on average."""
        return self.bytes / self.workloads


@dataclass(frozen=True)
class Pair:
    """Two groups, or one with itself."""

    group: str
    other: str
    shared: Estimate
    """Bytes of the contents that both hold, each once."""
    saves: Estimate
    """Bytes that one workload of each shares, on average."""
    saves_per_gib: Estimate
    """The same for each GiB of the smaller workload."""
    is_worth_it: bool
    """Whether the lower end is a hundredth of the smaller workload."""


@dataclass
class Affinity:
    """What belongs together, what saves most first."""

    place: str
    engine: str
    by: str
    page_size: int
    key_id: str | None
    machines: int
    groups_left_out: int
    """Groups beyond those with most pages."""
    left_out: list[LeftOut]
    groups: list[Group] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)


def analyse(
    catalogue: Catalogue, engine: Engine, by: str, contents_max: int = CONTENTS_MAX
) -> Affinity:
    """All pairs that share anything."""
    current = catalogue.current
    found = Affinity(
        place=catalogue.place.shown,
        engine=engine.name,
        by=by,
        page_size=catalogue.page_size,
        key_id=catalogue.key_id,
        machines=len(current),
        groups_left_out=0,
        left_out=catalogue.left_out,
    )
    if not current:
        return found
    with rows_read(catalogue, engine, current) as table:
        chosen = engine.keep(pa.table({"survey": [survey.survey for survey in current]}))
        rows = engine.ask(expressions.workloads(table, chosen))
        workloads = _grouped(rows, by)
        if not workloads:
            raise FleetError(f"--by {by}: no workload has one; others are {_others(rows, by)}")
        names = sorted(workloads, key=lambda name: (-_pages(workloads[name]), name))
        found.groups_left_out = max(len(names) - GROUPS_MAX, 0)
        names = names[:GROUPS_MAX]
        groups = [workloads[name] for name in names]
        bounds = _bounds(groups, contents_max)
        found.groups = [
            Group(name, len(own), _pages(own) * catalogue.page_size, sampled(bound))
            for name, own, bound in zip(names, groups, bounds, strict=True)
        ]
        members = [
            {"survey": row["survey"], "owner": row["owner"], "group": at, "bound": bound}
            for at, (own, bound) in enumerate(zip(groups, bounds, strict=True))
            for row in own
        ]
        asked = engine.keep(pa.Table.from_pylist(members))
        held = engine.keep(expressions.held_by_groups(table, asked, max(bounds)))
        tallies = engine.ask(expressions.between_groups(held))
    found.pairs = _pairs(found, bounds, tallies)
    return found


def _grouped(rows: list[dict[str, Any]], by: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        name = GROUPINGS[by](row)
        if name and row["kind"] != "other" and row["pages"]:
            found[name].append(row)
    return dict(found)


def _others(rows: list[dict[str, Any]], by: str) -> str:
    there = [name for name in GROUPINGS if name != by and _grouped(rows, name)]
    return ", ".join(there) or "none"


def _pages(workloads: list[dict[str, Any]]) -> int:
    return sum(int(row["pages"]) for row in workloads)


def _bounds(groups: list[list[dict[str, Any]]], contents_max: int) -> list[int]:
    """Of each group the smallest theta of its workloads; lowered where rows were too many."""
    bounds = [min(int(row["theta"]) for row in own) for own in groups]
    held = [
        (bound, float(row["pages_distinct"] or 0.0))
        for bound, own in zip(bounds, groups, strict=True)
        for row in own
    ]
    limit = limit_of(held, contents_max)
    return [min(bound, limit) for bound in bounds]


def _pairs(found: Affinity, bounds: list[int], tallies: list[dict[str, Any]]) -> list[Pair]:
    seen: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in tallies:
        seen[row["group"], row["other"]].append((int(row["holders"]), int(row["contents"])))
    pairs = [
        _pair(found, at, other, sampled(min(bounds[at], bounds[other])), rows)
        for (at, other), rows in seen.items()
    ]
    return sorted(pairs, key=lambda pair: (-pair.saves.value, pair.group, pair.other))


def _pair(found: Affinity, at: int, other: int, share: float, rows: list[tuple[int, int]]) -> Pair:
    one, two = found.groups[at], found.groups[other]
    smaller = min(one.workload_bytes, two.workload_bytes)
    most = max(one.workloads * (two.workloads if at != other else one.workloads - 1), 1)
    contents = float(sum(times for _, times in rows))
    weights = math.fsum(holders / most * times for holders, times in rows)
    squares = math.fsum((holders / most) ** 2 * times for holders, times in rows)
    page = float(found.page_size)
    shared = sampled_sum(contents, contents, 1.0, share).scaled(page)
    saves = sampled_sum(weights, squares, 1.0, share).scaled(page)
    saves = saves.within(0.0, smaller)
    return Pair(
        group=one.name,
        other=two.name,
        shared=shared.within(0.0, float(min(one.bytes, two.bytes))),
        saves=saves,
        saves_per_gib=saves.scaled(GIB / smaller),
        is_worth_it=saves.low >= WORTH * smaller,
    )


_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def label_value(name: str, by: str) -> str | None:
    """A group's name as the value of a pod's label; none where it cannot be one."""
    value = name.rpartition("/")[2] if by == "deployment" else name
    return value if _LABEL.fullmatch(value) else None


def pod_affinity(found: Affinity, label: str) -> dict[str, Any]:
    """Of each group the terms that its pods would have: what saves most weighs most."""
    best = max((pair.saves.value for pair in found.pairs if pair.is_worth_it), default=0.0)
    terms: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for pair in found.pairs:
        if not pair.is_worth_it:
            continue
        for own, other in dict.fromkeys([(pair.group, pair.other), (pair.other, pair.group)]):
            value = label_value(other, found.by)
            if value is None or label_value(own, found.by) is None:
                continue
            chosen = {"key": label, "operator": "In", "values": [value]}
            term: dict[str, Any] = {
                "labelSelector": {"matchExpressions": [chosen]},
                "topologyKey": "kubernetes.io/hostname",
            }
            if found.by == "deployment":
                term["namespaces"] = [other.partition("/")[0]]
            weight = max(1, round(100 * pair.saves.value / best))
            terms[own].append({"weight": weight, "podAffinityTerm": term})
    return {
        name: {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": own}}
        for name, own in terms.items()
    }

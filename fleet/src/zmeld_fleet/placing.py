# SPDX-License-Identifier: GPL-2.0-or-later
"""A placement from a PLACE: workloads read, planned, compared with chance and the optimum."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from zmeld_fleet import analysis, expressions, optimum, placement, units
from zmeld_fleet.catalogue import Catalogue, LeftOut
from zmeld_fleet.document import Column, Document, Section, Table
from zmeld_fleet.documents import left_out
from zmeld_fleet.engines import Engine, rows_of
from zmeld_fleet.estimate import Estimate
from zmeld_fleet.placement import Machines, Problem, Workload
from zmeld_fleet.schema import THETA_ALL, bound_of, sampled
from zmeld_fleet.words import inert, plural

PLACE_SCHEMA = "zmeld.fleet.place/1"
DRAWS = 200
CONTENTS_MAX = 400_000
GUEST = "machine"
"""Not a kind of owner: all owners of a machine that is itself a guest."""
OWNER_KINDS = ("vm", "container", "service", "scope", "user", "cgroup", "other")


@dataclass(frozen=True)
class Request:
    """What is to be placed, and where."""

    kinds: tuple[str, ...]
    ram_bytes: int
    machines: int | None = None
    tenant: str | None = None
    apart: tuple[tuple[str, str], ...] = ()
    draws: int = DRAWS
    seed: int = 1
    names: str | None = None
    """As a shell's pattern; none: all."""


@dataclass(frozen=True)
class Outcome:
    """What a way of placing comes to."""

    placed: float
    placed_low: float
    placed_high: float
    freed_bytes: Estimate


@dataclass(frozen=True)
class Placed:
    """A workload and its machine; null: it found no room."""

    name: str
    kind: str
    survey: str
    machine: int | None


@dataclass(frozen=True)
class Placement:
    """The plan, beside chance and the optimum."""

    place: str
    workloads: int
    machines: int
    ram_bytes: int
    share_sampled: float
    planned: Outcome
    random: Outcome
    draws: int
    optimum: Outcome | None
    optimum_proved: bool
    placed_max: int | None
    more_than_random: float
    plan: list[Placed]
    used_bytes: list[float]
    left_out: list[LeftOut]


def make(found: Catalogue, engine: Engine, request: Request) -> Placement:
    """Plans, and compares."""
    task = _problem(found, engine, request)
    page = found.page_size
    planned = placement.plan(task)
    drawn = [placement.at_random(task, request.seed + at) for at in range(request.draws)]
    best = optimum.solve(task) if optimum.is_small(task) else None
    by_chance = _by_chance(drawn, page)
    more = planned.placed / by_chance.placed - 1.0 if by_chance.placed else 0.0
    return Placement(
        place=found.place.shown,
        workloads=len(task.workloads),
        machines=task.machines,
        ram_bytes=request.ram_bytes,
        share_sampled=task.share,
        planned=_outcome(planned, page),
        random=by_chance,
        draws=request.draws,
        optimum=None if best is None else _outcome(best.machines, page),
        optimum_proved=best is not None and best.proved,
        placed_max=None if best is None else min(best.placed_max, len(task.workloads)),
        more_than_random=more,
        plan=_plan(planned),
        used_bytes=[pages * page for pages in placement.used_pages(planned)],
        left_out=found.left_out,
    )


def _problem(found: Catalogue, engine: Engine, request: Request) -> Problem:
    current = found.current
    if not current:
        raise placement.PlanError(f"{found.place.shown}: no survey counts")
    bounds = analysis.Bounds({s.survey: THETA_ALL for s in current}, {"": THETA_ALL}, THETA_ALL)
    table = analysis.chosen_surveys(current, bounds)
    with analysis.rows_read(found, engine, current) as rows:
        chosen = engine.take(table)
        kinds = OWNER_KINDS if request.kinds == (GUEST,) else request.kinds
        asked = engine.ask(expressions.workloads(rows, chosen, kinds))
        owners = rows_of(asked, ("survey", "owner"))
        known = {str(one["name"] or one["owner"]) for one in owners}
        if request.names is not None:
            owners = [one for one in owners if fnmatchcase(str(one["name"]), request.names)]
        theta = _bound(owners)
        answer = engine.ask(expressions.sketches(rows, chosen, theta)).to_pylist()
    tenants = {s.survey: s.labels.get(request.tenant or "") for s in current}
    workloads = _workloads(owners, answer, tenants if request.tenant else {})
    if request.kinds == (GUEST,):
        hosts = {survey.survey: survey.facts["host"] or survey.machine for survey in current}
        workloads = _whole_machines(workloads, hosts)
    _check_names(found, request, known | {one.name for one in workloads})
    machines = request.machines or len({one.survey for one in workloads})
    pages = request.ram_bytes / found.page_size
    return placement.problem(workloads, machines, pages, sampled(theta), request.apart)


def _check_names(found: Catalogue, request: Request, known: set[str]) -> None:
    """A name that nothing has keeps nothing apart."""
    for name in {name for pair in request.apart for name in pair} - known:
        raise placement.PlanError(f"--apart {inert(name)}: no workload is called so")
    if request.tenant is not None:
        analysis.check_label(found, "--tenant", request.tenant)


def _bound(owners: list[dict[str, Any]]) -> int:
    theta = min((int(owner["theta"]) for owner in owners), default=THETA_ALL)
    contents = sum(float(owner["pages_distinct"] or 0.0) for owner in owners)
    if contents * sampled(theta) > CONTENTS_MAX:
        return min(theta, bound_of(CONTENTS_MAX / contents))
    return theta


def _workloads(
    owners: list[dict[str, Any]],
    contents: list[dict[str, Any]],
    tenants: dict[str, str | None],
) -> list[Workload]:
    held: dict[tuple[str, str], set[tuple[int, int]]] = {
        (owner["survey"], owner["owner"]): set() for owner in owners
    }
    for row in contents:
        key = (row["survey"], row["owner"])
        if key in held:
            held[key].add((row["hash_high"], row["hash_low"]))
    return [
        Workload(
            survey=owner["survey"],
            owner=owner["owner"],
            kind=owner["owner_kind"],
            name=owner["name"] or owner["owner"],
            tenant=tenants.get(owner["survey"]),
            content_pages=owner["pages"] - owner["pages_zero"] - owner["pages_same"],
            contents=frozenset(held[owner["survey"], owner["owner"]]),
        )
        for owner in owners
        if owner["pages"] > 0
    ]


def _whole_machines(workloads: list[Workload], hosts: dict[str, str]) -> list[Workload]:
    """What each machine holds as one workload: guests that survey themselves."""
    found: dict[str, list[Workload]] = {}
    for workload in workloads:
        found.setdefault(workload.survey, []).append(workload)
    return [
        Workload(
            survey=survey,
            owner=hosts[survey],
            kind=GUEST,
            name=hosts[survey],
            tenant=parts[0].tenant,
            content_pages=sum(part.content_pages for part in parts),
            contents=frozenset().union(*(part.contents for part in parts)),
        )
        for survey, parts in sorted(found.items())
    ]


def _outcome(machines: Machines, page: int) -> Outcome:
    placed = float(machines.placed)
    return Outcome(placed, placed, placed, placement.freed(machines).scaled(page))


def _by_chance(drawn: list[Machines], page: int) -> Outcome:
    placed = sorted(float(machines.placed) for machines in drawn)
    values = sorted(placement.freed(machines).value * page for machines in drawn)
    low, high = int(0.025 * len(drawn)), min(int(0.975 * len(drawn)), len(drawn) - 1)
    mean = statistics.fmean(values)
    return Outcome(
        statistics.fmean(placed),
        placed[low],
        placed[high],
        Estimate(mean, values[low], values[high]),
    )


def _plan(machines: Machines) -> list[Placed]:
    workloads = machines.problem.workloads
    rows = [
        Placed(one.name, one.kind, one.survey, where)
        for one, where in zip(workloads, machines.place, strict=True)
    ]
    return sorted(rows, key=lambda row: (row.machine is None, row.machine, row.name, row.survey))


def document(result: Placement) -> Document:
    """What is shown."""
    frees = units.size(result.planned.freed_bytes.value)
    machines = plural(result.machines, "machine", "machines")
    more = result.more_than_random
    word = "more" if more >= 0.0 else "fewer"
    find = plural(result.workloads, "workload finds", "workloads find")
    lead = (
        f"{int(result.planned.placed)} of {find} room on {machines} "
        f"of {units.size(result.ram_bytes)}; melding frees {frees} there. Placed at random it "
        f"is {result.random.placed:.1f} ({result.random.placed_low:.0f} to "
        f"{result.random.placed_high:.0f}): {units.percent(abs(more))} {word}."
    )
    shown = Document(f"zmeld-fleet placement of {result.place}", lead)
    shown.sections += [_compared(result), _where(result), Section("What was counted")]
    shown.sections[-1].blocks += [
        f"From {units.percent(result.share_sampled)} of all contents, chosen by hash. Pages of "
        "zeros and same-filled pages take no memory. Nothing was moved.",
        *left_out(result.left_out),
    ]
    return shown


def _compared(result: Placement) -> Section:
    heads = [Column("placed", False), Column("workloads"), Column("melding frees")]
    rows = [
        ["as planned", f"{result.planned.placed:.0f}", _size(result.planned.freed_bytes)],
        ["at random, mean", f"{result.random.placed:.1f}", _size(result.random.freed_bytes)],
    ]
    if result.optimum is not None:
        name = "the optimum" if result.optimum_proved else "the best that the solver found"
        freed = _size(result.optimum.freed_bytes)
        rows.append([name, f"{result.optimum.placed:.0f}", freed])
    section = Section("Beside chance and the optimum", [Table(heads, rows)])
    if result.optimum is None:
        section.blocks.append(
            f"The optimum is asked for up to {optimum.WORKLOADS_MAX} workloads on "
            f"{optimum.MACHINES_MAX} machines."
        )
    elif not result.optimum_proved:
        most = plural(result.placed_max or 0, "workload", "workloads")
        section.blocks.append(f"No placement has more than {most}.")
    return section


def _size(estimate: Estimate) -> str:
    return units.size_estimate(estimate)


def _where(result: Placement) -> Section:
    heads = [Column("machine"), Column("uses"), Column("workloads", False)]
    rows = []
    for machine, used in enumerate(result.used_bytes):
        names = [one.name for one in result.plan if one.machine == machine]
        rows.append([str(machine + 1), units.size(used), ", ".join(names) or "–"])
    left = [one.name for one in result.plan if one.machine is None]
    if left:
        rows.append(["none", "–", ", ".join(left)])
    return Section("Where", [Table(heads, rows)])

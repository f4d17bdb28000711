# SPDX-License-Identifier: GPL-2.0-or-later
"""From surveys to results: what each kind of machine would gain, and where.

The engine adds up whole numbers; what follows from them is computed here, in one order,
so that every engine gives the same result to the last bit.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from zmeld_fleet import expressions, outliers
from zmeld_fleet.catalogue import SYNTHETIC, Catalogue, Survey
from zmeld_fleet.engines import Engine
from zmeld_fleet.estimate import Estimate, Z, around, sampled_sum, total
from zmeld_fleet.schema import BLOCK, CLASSES, CODECS, THETA_ALL, bound_of, sampled
from zmeld_fleet.words import FleetError, inert, listed

CONTENTS_MAX = 1_500_000
"""Rows of sketches that a report reads, about: beyond it the bound is lowered."""
NAMES_MAX = 12


@dataclass(frozen=True)
class Setup:
    """Pages in a pool of one codec, melded or not."""

    codec: str
    melded: bool
    takes: Estimate
    gains: Estimate
    ratio: float | None


@dataclass(frozen=True)
class Duplicates:
    """Pages that are there more than once, by how far apart they are."""

    within_owners: Estimate
    between_owners: Estimate
    between_machines: Estimate


@dataclass(frozen=True)
class Kind:
    """Machines of one kind."""

    name: str
    machines: int
    synthetic: int
    ram_bytes: int
    pages: int
    pages_zero: int
    pages_same: int
    pages_swapped: int
    owners: int
    share_sampled: float
    duplicates: Duplicates
    setups: list[Setup]
    compressed_swap: int
    oldest: str
    newest: str


@dataclass(frozen=True)
class Standout:
    """A machine unlike the others of its kind."""

    machine: str
    host: str
    kind: str
    measure: str
    value: Estimate
    usual: float
    """The mean of the machines of its kind that do not stand out."""
    deviations: float


@dataclass(frozen=True)
class Day:
    """All machines that were surveyed on a day."""

    date: str
    machines: int
    pages: int
    duplicate_share: Estimate
    setups: list[Setup]


@dataclass(frozen=True)
class Name:
    """Owners of one name, wherever they are."""

    kind: str
    name: str
    surveys: int
    owners: int
    pages: int
    duplicate_share: Estimate
    codec: str
    takes: Estimate
    gains: Estimate


@dataclass
class Report:
    """What the surveys of PLACE say together."""

    place: str
    engine: str
    by: str
    page_size: int
    key_id: str | None
    files_seen: int
    surveys_seen: int
    surveys_used: int
    machines: int
    synthetic: int
    left_out: list[Any]
    bound_share: float
    kinds: list[Kind] = field(default_factory=list)
    fleet: Kind | None = None
    between_kinds: Estimate | None = None
    names: list[Name] = field(default_factory=list)
    days: list[Day] = field(default_factory=list)
    standouts: list[Standout] = field(default_factory=list)


def _check_label(current: list[Survey], label: str) -> None:
    """A label of no machine tells none from another."""
    if any(label in survey.labels for survey in current):
        return
    known = {name for survey in current for name in survey.labels}
    there = f"there is {listed(known)}" if len(known) == 1 else f"there are {listed(known)}"
    if not known:
        there = "none has labels; `zmeld scan --survey PLACE --label NAME=VALUE` gives one"
    raise FleetError(f"--by {inert(label)}: no machine that counts has that label; {there}")


def kind_of(survey: Survey, by: str | None) -> str:
    """The kind of a machine: a label's value, or distribution, RAM and architecture."""
    if by is not None:
        return survey.labels.get(by, f"without {by}")
    facts = survey.facts
    ram = facts["ram_bytes"]
    memory = f"{_nominal_gib(ram)} GiB" if ram else "RAM unknown"
    return " ".join([facts["distribution"] or "unknown", memory, facts["architecture"] or ""])


def _nominal_gib(ram: int) -> int:
    """The size that was bought: a power of two, or half as much again."""
    gib = ram / 2**30
    steps = [step * 2**power for power in range(14) for step in (1, 1.5)]
    return max(1, math.ceil(min(steps, key=lambda step: abs(math.log(step / gib) - 0.03))))


def analyse(
    catalogue: Catalogue,
    engine: Engine,
    by: str | None = None,
    contents_max: int = CONTENTS_MAX,
) -> Report:
    """The whole report."""
    current = catalogue.current
    report = Report(
        place=catalogue.place.shown,
        engine=engine.name,
        by=by or "distribution, RAM, architecture",
        page_size=catalogue.page_size,
        key_id=catalogue.key_id,
        files_seen=catalogue.files_seen,
        surveys_seen=catalogue.surveys_seen,
        surveys_used=len(catalogue.surveys),
        machines=len(current),
        synthetic=sum(SYNTHETIC in survey.labels for survey in current),
        left_out=catalogue.left_out,
        bound_share=1.0,
    )
    if not current:
        return report
    if by is not None:
        _check_label(current, by)
    with rows_read(catalogue, engine, catalogue.surveys) as table:
        sums = _sums(engine, table)
    report.days = _days(catalogue, sums)
    grouped: dict[str, list[Survey]] = defaultdict(list)
    for survey in current:
        grouped[kind_of(survey, by)].append(survey)
    kinds = sorted(grouped)
    bounds = _bounds(grouped, sums, contents_max)
    report.bound_share = sampled(bounds.fleet)
    with rows_read(catalogue, engine, current) as table:
        answers = _ask(engine, table, _chosen(grouped, bounds), bounds)
    page, sizes = catalogue.page_size, answers["sizes"]
    of_kinds: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in answers["kinds"]:
        of_kinds[row["kind"]].append(row)
    for at, name in enumerate(kinds):
        tallies = Tallies(of_kinds[at], sampled(bounds.kinds[name]), sizes, page)
        report.kinds.append(_kind(name, grouped[name], sums, tallies))
    tallies = Tallies(answers["fleet"], sampled(bounds.fleet), sizes, page)
    report.fleet = _kind("all machines", current, sums, tallies)
    between = Tally(lambda row: int(row["kinds"]) - 1, len(kinds) - 1)
    report.between_kinds = tallies.of(between)
    report.names = _names(answers["names"], page)
    report.standouts = _standouts(grouped, sums, answers["surveys"], bounds, page)
    return report


@contextmanager
def rows_read(catalogue: Catalogue, engine: Engine, surveys: list[Survey]) -> Iterator[ir.Table]:
    """The rows of the files that hold these surveys, each survey from one file."""
    paths = sorted({survey.file.path for survey in surveys})
    ambiguous = catalogue.ambiguous(paths)
    with catalogue.place.on_disk(paths) as there:
        where = dict(zip(paths, there, strict=True))
        plain = [where[path] for path in paths if path not in ambiguous]
        parts = [engine.read(plain)] if plain else []
        for path, chosen in ambiguous.items():
            rows = engine.read([where[path]])
            parts.append(rows.filter(rows.survey.isin(chosen)))
        yield expressions.united(parts)


Sums = dict[str, dict[str, Any]]


def _sums(engine: Engine, table: ir.Table) -> Sums:
    rows = engine.ask(expressions.owner_sums(table))
    return {row["survey"]: _as_integers(row) for row in rows}


def _as_integers(row: dict[str, Any]) -> dict[str, Any]:
    """Sums come as wider types from some engines."""
    return {
        key: value if value is None or isinstance(value, str) else int(value)
        for key, value in row.items()
    }


@dataclass(frozen=True)
class Bounds:
    """Hashes below which contents are read: of each survey, each kind, the fleet."""

    surveys: dict[str, int]
    kinds: dict[str, int]
    fleet: int


def limit_of(held: list[tuple[int, float]], contents_max: int) -> int:
    """A bound below which sketches have about so many rows; of thetas and distinct contents."""
    if math.fsum(sampled(theta) * contents for theta, contents in held) <= contents_max:
        return THETA_ALL
    return bound_of(contents_max / math.fsum(contents for _, contents in held))


def _bounds(grouped: dict[str, list[Survey]], sums: Sums, contents_max: int) -> Bounds:
    held: dict[str, tuple[int, float]] = {}
    for survey in itertools.chain(*grouped.values()):
        own = sums.get(survey.survey, {"theta": THETA_ALL, "pages_distinct": 0})
        held[survey.survey] = own["theta"], own["pages_distinct"]
    limit = limit_of([*held.values()], contents_max)
    surveys = {survey: min(theta, limit) for survey, (theta, _) in held.items()}
    kinds = {name: min(surveys[survey.survey] for survey in own) for name, own in grouped.items()}
    return Bounds(surveys, kinds, min(kinds.values()))


def _chosen(grouped: dict[str, list[Survey]], bounds: Bounds) -> pa.Table:
    rows = [
        (survey.survey, at, bounds.surveys[survey.survey], bounds.kinds[name], bounds.fleet)
        for at, (name, own) in enumerate(sorted(grouped.items()))
        for survey in own
    ]
    names = ("survey", "kind", "survey_bound", "kind_bound", "fleet_bound")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def _ask(engine: Engine, table: ir.Table, chosen: pa.Table, bounds: Bounds) -> dict[str, Any]:
    asked = engine.keep(chosen)
    found = engine.keep(expressions.contents(table, asked, max(bounds.surveys.values())))
    kinds = engine.keep(expressions.by_kind(found))
    return {
        "surveys": engine.ask(expressions.within_surveys(found)),
        "kinds": engine.ask(expressions.within_kinds(kinds)),
        "fleet": engine.ask(expressions.whole_fleet(kinds)),
        "sizes": class_sizes(engine.ask(expressions.class_sizes(table, asked))),
        "names": engine.ask(expressions.owners_by_name(table, asked, NAMES_MAX)),
    }


Sizes = dict[tuple[int, str], tuple[float, float]]
"""Of each class and codec: what a content takes on average, and the mean of its square."""


def class_sizes(rows: list[dict[str, Any]]) -> Sizes:
    """The means of each class that surveys tell of."""
    return {
        (int(row["object_class"]), codec): (
            int(row[f"bytes_{codec}"]) / int(row["count"]),
            int(row[f"squares_{codec}"]) / int(row["count"]),
        )
        for row in rows
        for codec in CODECS
    }


def size_of(sizes: Sizes, at: int | None, codec: str, page_size: int) -> tuple[float, float]:
    """What a content of a class takes; of a class that no survey tells of, its middle."""
    at = min(max(int(at or 0), 0), CLASSES - 1)
    middle = (at + 0.5) * page_size / CLASSES
    return sizes.get((at, codec), (middle, middle * middle))


Weight = Callable[[dict[str, Any]], int]


@dataclass(frozen=True)
class Tally:
    """What a content counts, and what it can count at most: if one is on all of them."""

    weight: Weight
    most: int


@dataclass(frozen=True)
class Tallies:
    """Contents that stand in several places, by how many hold them and by their class."""

    rows: list[dict[str, Any]]
    share: float
    """Of all contents those that are in the sample."""
    sizes: Sizes
    page_size: int

    def of(self, tally: Tally, codec: str | None = None) -> Estimate:
        """The sum of the weights of all contents, each times what it takes with a codec.

        The heaviest content need not be in the sample, so the interval reckons with what one
        can count at most, not with what the heaviest of the sample does.
        """
        summed = squares = 0.0
        for row in self.rows:
            times, contents = tally.weight(row), int(row["contents"])
            mean = square = 1.0
            if codec is not None and times:
                mean, square = size_of(self.sizes, row["object_class"], codec, self.page_size)
            summed += times * contents * mean
            squares += times * times * contents * square
        largest = tally.most * (1 if codec is None else self.page_size)
        return sampled_sum(summed, squares, float(largest), self.share)


def _moment(time: datetime) -> str:
    """Whole seconds of UTC."""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _kind(name: str, surveys: list[Survey], sums: Sums, tallies: Tallies) -> Kind:
    parts = [sums[s.survey] for s in surveys if s.survey in sums]
    contents = float(_content_pages(parts))
    most = sum(max(part["owners"] - 1, 0) for part in parts)
    owners = Tally(lambda row: int(row["owners"]) - int(row["machines"]), most)
    machines = Tally(lambda row: int(row["machines"]) - 1, max(len(parts) - 1, 0))
    swaps = [survey.facts["compressed_swap"] for survey in surveys]
    return Kind(
        name=name,
        machines=len(surveys),
        synthetic=sum(SYNTHETIC in survey.labels for survey in surveys),
        ram_bytes=sum(survey.facts["ram_bytes"] or 0 for survey in surveys),
        pages=_sum(parts, "pages"),
        pages_zero=_sum(parts, "pages_zero"),
        pages_same=_sum(parts, "pages_same"),
        pages_swapped=_sum(parts, "pages_swapped"),
        owners=_sum(parts, "owners"),
        share_sampled=tallies.share,
        duplicates=Duplicates(
            within_owners=_within_owners(parts).within(0.0, contents),
            between_owners=tallies.of(owners).within(0.0, contents),
            between_machines=tallies.of(machines).within(0.0, contents),
        ),
        setups=setups(parts, tallies.page_size, lambda codec: tallies.of(owners, codec)),
        compressed_swap=sum(swap not in (None, "none") for swap in swaps),
        oldest=_moment(min(survey.time for survey in surveys)),
        newest=_moment(max(survey.time for survey in surveys)),
    )


def _sum(parts: list[dict[str, Any]], name: str) -> int:
    return sum(part[name] or 0 for part in parts)


def _content_pages(parts: list[dict[str, Any]]) -> int:
    """Pages that have a content: neither zero nor same-filled."""
    return _sum(parts, "pages") - _sum(parts, "pages_zero") - _sum(parts, "pages_same")


def _within_owners(parts: list[dict[str, Any]]) -> Estimate:
    """Not clipped: a sum of what is, would say that there are duplicates where none are."""
    distinct = around(
        float(_sum(parts, "pages_distinct")), float(_sum(parts, "pages_distinct_half"))
    )
    return distinct.taken_from(float(_content_pages(parts)))


def setups(
    parts: list[dict[str, Any]],
    page_size: int,
    shared: Callable[[str], Estimate] | None,
) -> list[Setup]:
    """Each codec, without and with melding.

    Without: pools come from random samples that know nothing of each other, so their
    variances add up. With: sketches are coordinated, so widths add up; what owners of
    one machine share is taken off once more, `shared`. The two err each for itself, so what
    melding saves may be shown below nothing: the smaller of both would on average save
    something where nothing is there twice.
    """
    whole = float(_sum(parts, "pages") * page_size)
    found = []
    for codec in CODECS if parts else ():
        half = math.sqrt(_sum(parts, f"pool_{codec}_squares")) * BLOCK
        plain = around(float(_sum(parts, f"pool_{codec}")), half).within(0.0, math.inf)
        found.append(_setup(codec, False, plain, whole))
        width = float(_sum(parts, f"melded_{codec}_half") * BLOCK)
        melded = around(float(_sum(parts, f"melded_{codec}")), width)
        if shared is not None:
            again = shared(codec)
            melded = total([melded, Estimate(-again.value, -again.high, -again.low)])
        found.append(_setup(codec, True, melded.within(0.0, math.inf), whole))
    return found


def _setup(codec: str, melded: bool, takes: Estimate, whole: float) -> Setup:
    ratio = whole / takes.value if takes.value > 0.0 else None
    return Setup(codec.replace("_", "-"), melded, takes, takes.taken_from(whole), ratio)


def _days(catalogue: Catalogue, sums: Sums) -> list[Day]:
    by_date: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for survey in catalogue.surveys:
        if survey.survey in sums:
            by_date[survey.date].append(sums[survey.survey])
    days = []
    for date, parts in sorted(by_date.items()):
        share = _within_owners(parts).scaled(1.0 / max(_content_pages(parts), 1)).within(0.0, 1.0)
        own = setups(parts, catalogue.page_size, None)
        days.append(Day(date, len(parts), _sum(parts, "pages"), share, own))
    return days


def _names(rows: list[dict[str, Any]], page_size: int) -> list[Name]:
    names = [_name(_as_integers(row), page_size) for row in rows]
    return sorted(names, key=lambda name: (-name.gains.value, name.kind, name.name))


def _name(row: dict[str, Any], page_size: int) -> Name:
    contents = row["pages"] - row["pages_zero"] - row["pages_same"]
    _, codec = min((row[f"melded_{codec}"], codec) for codec in CODECS)
    half = float(row[f"melded_{codec}_half"] * BLOCK)
    whole = float(row["pages"] * page_size)
    takes = around(float(row[f"melded_{codec}"]), half).within(0.0, whole)
    distinct = around(float(row["pages_distinct"]), float(row["pages_distinct_half"]))
    twins = distinct.taken_from(float(contents)).scaled(1.0 / max(contents, 1))
    return Name(
        kind=row["owner_kind"] or "–",
        name=row["name"] or "–",
        surveys=row["surveys"],
        owners=row["owners"],
        pages=row["pages"],
        duplicate_share=twins.within(0.0, 1.0),
        codec=codec.replace("_", "-"),
        takes=takes,
        gains=takes.taken_from(whole),
    )


Value = tuple[float, float]
"""A machine's value, and its standard error."""
Measure = Callable[[Survey, dict[str, Any]], "Value | None"]


def _standouts(
    grouped: dict[str, list[Survey]],
    sums: Sums,
    shared: list[dict[str, Any]],
    bounds: Bounds,
    page_size: int,
) -> list[Standout]:
    asked: list[tuple[str, str, list[Survey]]] = []
    samples: list[outliers.Sample] = []
    measures = _measures(shared, bounds, page_size)
    for kind, surveys in sorted(grouped.items()):
        counted = [survey for survey in surveys if survey.survey in sums]
        for measure, of in measures.items():
            values = [(of(survey, sums[survey.survey]), survey) for survey in counted]
            known = [(value, survey) for value, survey in values if value is not None]
            asked.append((kind, measure, [survey for _, survey in known]))
            samples.append(outliers.Sample(*np.array([v for v, _ in known]).reshape(-1, 2).T))
    found = [
        _standout(surveys[one.at], kind, measure, sample, one)
        for (kind, measure, surveys), sample, ones in zip(
            asked, samples, outliers.find(samples), strict=True
        )
        for one in ones
    ]
    return sorted(found, key=lambda one: (-one.deviations, one.machine, one.measure))


def _standout(
    survey: Survey, kind: str, measure: str, sample: outliers.Sample, one: outliers.Outlier
) -> Standout:
    value = around(float(sample.values[one.at]), Z * float(sample.errors[one.at]))
    return Standout(
        machine=survey.machine,
        host=survey.facts["host"] or "–",
        kind=kind,
        measure=measure,
        value=value.within(0.0, math.inf),
        usual=max(one.usual, 0.0),
        deviations=one.deviations,
    )


def _measures(shared: list[dict[str, Any]], bounds: Bounds, page_size: int) -> dict[str, Measure]:
    between: dict[str, float] = defaultdict(float)
    variance: dict[str, float] = defaultdict(float)
    for row in shared:
        share = sampled(bounds.surveys[row["survey"]])
        more, contents = int(row["owners"]) - 1, int(row["contents"])
        between[row["survey"]] += more * contents / share
        variance[row["survey"]] += more * more * contents * (1.0 - share) / share**2

    def ratio(_: Survey, part: dict[str, Any]) -> Value | None:
        contents, takes = _content_pages([part]), part["pool_zstd"]
        if not takes:
            return None
        error = math.sqrt(part["pool_zstd_squares"]) * BLOCK / Z
        return contents * page_size / takes, contents * page_size / takes**2 * error

    def duplicates(survey: Survey, part: dict[str, Any]) -> Value | None:
        contents = _content_pages([part])
        if not contents:
            return None
        inside = contents - part["pages_distinct"] + between[survey.survey]
        own = part["pages_distinct_squares"] / Z**2
        return inside / contents, math.sqrt(own + variance[survey.survey]) / contents

    def of_ram(survey: Survey, value: float | None) -> Value | None:
        ram = survey.facts["ram_bytes"]
        return None if value is None or not ram else (value / ram, 0.0)

    def stalled(survey: Survey, _: dict[str, Any]) -> Value | None:
        percent = survey.facts["memory_some_avg300"]
        return None if percent is None else (percent / 100.0, 0.0)

    return {
        "ratio with zstd": ratio,
        "duplicate pages": duplicates,
        "swap used, of RAM": lambda survey, _: of_ram(survey, survey.facts["swap_used_bytes"]),
        "zero pages": lambda _, p: (p["pages_zero"] / p["pages"], 0.0) if p["pages"] else None,
        "pages read, of RAM": lambda survey, p: of_ram(survey, p["pages"] * page_size or None),
        "stalled for memory": stalled,
    }

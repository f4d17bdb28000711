# SPDX-License-Identifier: GPL-2.0-or-later
"""From surveys to results: what each kind of machine would gain, and where.

Engines count contents; what follows from that and from the owners' own rows is computed here,
in one order, so that every engine gives the same result to the last bit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zmeld_fleet import expressions
from zmeld_fleet.catalogue import Catalogue, LeftOut, Silent, Survey
from zmeld_fleet.engines import Engine
from zmeld_fleet.estimate import Estimate, Z, around, of_rare, sampled_sum, varying
from zmeld_fleet.melding import Floats, Numbers, Sampled, groups_of
from zmeld_fleet.schema import CLASSES, CODECS, THETA_ALL, bound_of, sampled
from zmeld_fleet.validity import floats
from zmeld_fleet.words import FleetError, inert, listed

CONTENTS_MAX = 1_500_000
"""Rows of sketches that a question reads, about."""
NAMES_MAX = 12
MACHINES_MIN = 20
"""Of a kind at least so many machines are drawn."""
ROLE = "role"
"""The label that makes kinds where nobody says another."""


@dataclass(frozen=True)
class Setup:
    """Pages in a pool of one codec, melded or not."""

    codec: str
    melded: bool
    takes: Estimate
    """Bytes that all pages take which are not locked in memory."""
    gains: Estimate
    """What that frees: at most, for many of them are in use."""
    ratio: float | None
    idle_gains: float | None
    """Bytes that are freed of what was not used for ten minutes."""

    def less(self, other: Setup) -> Estimate:
        """What another takes less: each is estimated from a sample of its own."""
        halves = [(one.takes.high - one.takes.low) / 2.0 for one in (self, other)]
        return around(self.takes.value - other.takes.value, math.hypot(*halves))


@dataclass(frozen=True)
class Idle:
    """Pages that were not used for so long, of the machines whose kernels say so."""

    machines: int
    ram_bytes: int
    pages_1m: int
    pages_10m: int
    pages_1h: int


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
    ram_bytes: int
    pages: int
    pages_zero: int
    pages_same: int
    pages_swapped: int
    pages_locked: int
    owners: int
    idle: Idle | None
    share_sampled: float
    duplicates: Duplicates
    setups: list[Setup]
    compressed_swap: int
    zram_codecs: list[str]
    """Those that all of these kernels have."""
    modules: bool
    """Whether a module may be loaded on all of them, as far as surveys say."""
    oldest: str
    newest: str

    def gain(self, setup: Setup) -> tuple[float, int]:
        """What it frees, of how much RAM: of what is idle where that is known, or at most."""
        if self.idle is not None and setup.idle_gains is not None:
            return setup.idle_gains, self.idle.ram_bytes
        return setup.gains.value, self.ram_bytes


@dataclass(frozen=True)
class Machine:
    """A machine with the value of a measure."""

    machine: str
    host: str
    value: float


@dataclass(frozen=True)
class Extremes:
    """A measure of a kind's machines: quantiles, and those at both ends."""

    kind: str
    measure: str
    machines: int
    quantiles: dict[str, float]
    lowest: list[Machine]
    highest: list[Machine]


@dataclass(frozen=True)
class Name:
    """Owners of one name, wherever they are."""

    kind: str
    name: str
    machines: int
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
    first_day: str
    oldest: str | None
    newest: str | None
    files_seen: int
    surveys_seen: int
    machines: int
    partly_refused: list[Machine]
    """Machines that count though some processes could not be read; `value` is their share."""
    refused: list[Machine]
    """Machines that gave no survey since memory was short; `value` is their stalls."""
    silent: list[Silent]
    repeated_hosts: dict[str, int]
    """Hosts of one name with several machine ids."""
    left_out: list[LeftOut]
    kinds: list[Kind] = field(default_factory=list)
    fleet: Kind | None = None
    names: list[Name] = field(default_factory=list)
    extremes: list[Extremes] = field(default_factory=list)


def moment(time: datetime) -> str:
    """Whole seconds of UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _check_label(surveys: list[Survey], label: str) -> None:
    """A label of no machine tells none from another."""
    if any(label in survey.labels for survey in surveys):
        return
    known = {name for survey in surveys for name in survey.labels}
    there = f"there is {listed(known)}" if len(known) == 1 else f"there are {listed(known)}"
    if not known:
        there = "none has labels; `zmeld scan --survey PLACE --label NAME=VALUE` gives one"
    raise FleetError(f"--by {inert(label)}: no machine that counts has that label; {there}")


def without(label: str) -> str:
    """The kind of machines that lack it."""
    return f"without {label}"


def kind_of(survey: Survey, by: str | None) -> str:
    """The kind of a machine: a label's value, or distribution, RAM and architecture."""
    if by is not None:
        return survey.labels.get(by, without(by))
    facts = survey.facts
    ram = facts["ram_bytes"]
    memory = f"{_nominal_gib(ram)} GiB" if ram else "RAM unknown"
    return " ".join([facts["distribution"] or "unknown", memory, facts["architecture"] or ""])


def _nominal_gib(ram: int) -> int:
    """The size that was bought: a power of two, or half as much again."""
    gib = ram / 2**30
    steps = [step * 2**power for power in range(14) for step in (1, 1.5)]
    return max(1, math.ceil(min(steps, key=lambda step: abs(math.log(step / gib) - 0.03))))


class Owners:
    """The rows about owners of the surveys that count, as arrays."""

    def __init__(self, rows: pa.Table, surveys: list[Survey], page_size: int) -> None:
        self.rows, self.page = rows, page_size
        self.ram = np.array([survey.facts["ram_bytes"] or 0 for survey in surveys])
        self.survey: Numbers = rows["at"].to_numpy()
        self.pages = floats(rows, "pages")
        self.filled = floats(rows, "pages_zero") + floats(rows, "pages_same")
        self.contents = self.pages - self.filled
        self.theta: Numbers = rows["theta"].to_numpy()
        self.share = np.where(
            self.theta == THETA_ALL, 1.0, (self.theta.astype(np.float64) + 2.0**63) / 2.0**64
        )
        locked = np.minimum(self.known("pages_locked"), self.pages)
        self.unlocked = self.pages - locked
        self.part = np.divide(
            self.unlocked, self.pages, where=self.pages > 0, out=1.0 + 0 * locked
        )
        self.is_told = ~np.isnan(floats(rows, "idle_10m"))

    def known(self, name: str) -> Floats:
        """A column, with 0 for what is not known."""
        return np.nan_to_num(floats(self.rows, name))

    def idle(self, name: str) -> Floats:
        """Idle pages, of those that were read and are not locked."""
        return np.minimum(self.known(name), self.unlocked)

    def half(self, name: str) -> Floats:
        """Half the width of an estimate's interval."""
        return (floats(self.rows, f"{name}_high") - floats(self.rows, f"{name}_low")) / 2.0

    def sum(self, values: Floats, chosen: Numbers) -> float:
        """In which order they stand does not matter."""
        return math.fsum(values[chosen].tolist())

    def melded(self, name: str, weight: Floats, chosen: Numbers) -> tuple[float, float]:
        """The sum of owners' own estimates, and of their variances."""
        value = self.sum(weight * floats(self.rows, name), chosen)
        return value, self.sum((weight * self.half(name) / Z) ** 2, chosen)


class Sizes:
    """What a content of a class takes on average.

    Of a class that nobody tells of: its middle, and with other codecs than zstd as much more or
    less as all contents take.
    """

    def __init__(self, rows: pa.Table | None, owners: Owners) -> None:
        middle = (np.arange(CLASSES) + 0.5) * owners.page / CLASSES
        every = np.arange(len(owners.pages))
        takes = {c: owners.sum(floats(owners.rows, f"melded_{c}"), every) for c in CODECS}
        self.means = {
            codec: np.minimum(middle * takes[codec] / max(takes["zstd"], 1.0), owners.page)
            for codec in CODECS
        }
        if rows is None or not len(rows):
            return
        classes = rows["object_class"].to_numpy().astype(np.int64)
        counts = np.bincount(classes, floats(rows, "count"), CLASSES)
        for codec, means in self.means.items():
            sums = np.bincount(classes, floats(rows, f"bytes_{codec}"), CLASSES)
            np.divide(sums, counts, out=means, where=counts > 0)

    def weight(self, codec: str, part: Floats) -> Callable[[Sampled], Floats]:
        """What contents take with a codec, as far as their owner's pages are not locked."""
        return lambda rows: self.means[codec][rows.size] * part[rows.owner]


def analyse(catalogue: Catalogue, engine: Engine, by: str | None = None) -> Report:
    """The whole report."""
    surveys = catalogue.surveys
    if by is not None:
        _check_label(surveys, by)
    elif any(ROLE in survey.labels for survey in surveys):
        by = ROLE
    hosts: dict[str, int] = defaultdict(int)
    for survey in surveys:
        hosts[survey.host] += 1
    report = Report(
        place=catalogue.place.shown,
        engine=engine.name,
        by=by or "distribution, RAM, architecture",
        page_size=catalogue.page_size,
        key_id=catalogue.key_id,
        first_day=catalogue.first_day,
        oldest=moment(min(survey.time for survey in surveys)) if surveys else None,
        newest=moment(max(survey.time for survey in surveys)) if surveys else None,
        files_seen=catalogue.files_seen,
        surveys_seen=catalogue.surveys_seen,
        machines=len(surveys),
        partly_refused=[
            Machine(one.machine, one.host, one.unread)
            for one in surveys
            if one.facts["processes_refused"]
        ],
        refused=[
            Machine(one.machine, one.host, one.facts["memory_some_avg300"] or 0.0)
            for one in catalogue.refused
        ],
        silent=catalogue.silent,
        repeated_hosts={host: count for host, count in sorted(hosts.items()) if count > 1},
        left_out=catalogue.left_out,
    )
    if not surveys or catalogue.owners is None:
        return report
    owners = Owners(catalogue.owners, surveys, catalogue.page_size)
    names = sorted({kind_of(survey, by) for survey in surveys})
    number = {name: at for at, name in enumerate(names)}
    kind = np.array([number[kind_of(survey, by)] for survey in surveys])
    paths = sorted({survey.file.path for survey in surveys})
    with catalogue.place.for_engines(paths) as there:
        table = engine.read(there)
        bounds, spread = _spread(engine, table, surveys, kind, owners)
        drawn = _drawn(engine, table, surveys, kind, owners)
    sizes = Sizes(catalogue.sizes, owners)
    members = _split(kind, len(names))
    groups = zip(
        _split(kind[owners.survey], len(names)), _split(drawn.kind, len(names)), strict=True
    )
    for at, (chosen, rows) in enumerate(groups):
        own = [surveys[one] for one in members[at]]
        found = owners, chosen, drawn.of(rows), sizes, spread[at], bounds[at]
        report.kinds.append(_kind(names[at], own, *found))
    found = owners, np.arange(len(owners.pages)), drawn, sizes, spread[-1], min(bounds)
    report.fleet = _kind("all machines", surveys, *found)
    report.names = list(_names(owners, drawn, sizes))
    measures = _measures(surveys, owners)
    for name, chosen in zip(names, members, strict=True):
        report.extremes += _extremes(name, surveys, measures, chosen)
    return report


def _split(numbers: Numbers, count: int) -> list[Numbers]:
    """Where each number stands."""
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    return np.split(np.argsort(numbers, kind="stable"), ends[:-1])


Held = list[dict[str, Any]]
"""Contents by how many machines hold them."""


def _spread(
    engine: Engine, table: Any, surveys: list[Survey], kind: Numbers, owners: Owners
) -> tuple[list[int], dict[int, Held]]:
    """The bound of each kind, and contents below it by machines; all machines are kind -1."""
    distinct = np.maximum(floats(owners.rows, "pages_distinct"), 0.0)
    limit = THETA_ALL
    if math.fsum((owners.share * distinct).tolist()) > CONTENTS_MAX:
        limit = bound_of(CONTENTS_MAX / math.fsum(distinct.tolist()))
    least = np.full(int(kind.max()) + 1, limit)
    np.minimum.at(least, kind[owners.survey], owners.theta)
    bounds = [int(one) for one in least]
    asked = pa.table(
        {
            "survey": [survey.survey for survey in surveys],
            "kind": pa.array(kind, pa.int64()),
            "kind_bound": pa.array(least[kind], pa.int64()),
            "fleet_bound": pa.array([min(bounds)] * len(surveys), pa.int64()),
        }
    )
    kinds = engine.keep(expressions.by_kind(table, engine.keep(asked), max(bounds)))
    held: dict[int, Held] = defaultdict(list)
    for row in engine.ask(expressions.within_kinds(kinds)).to_pylist():
        held[row["kind"]].append(row)
    held[-1] = engine.ask(expressions.whole_fleet(kinds)).to_pylist()
    return bounds, held


def _drawn(
    engine: Engine, table: Any, surveys: list[Survey], kind: Numbers, owners: Owners
) -> Sampled:
    """The sketches of as many machines of each kind as can be read."""
    count = len(surveys)
    held = np.bincount(
        owners.survey, owners.share * np.maximum(floats(owners.rows, "pages_distinct"), 0.0), count
    )
    part = min(1.0, CONTENTS_MAX / max(float(held.sum()), 1.0))
    times = np.zeros(count)
    for one in np.unique(kind):
        # Machines are in the order of their keyed ids: the first are as good as any.
        of_kind = np.flatnonzero(kind == one)
        some = of_kind[: max(math.ceil(part * len(of_kind)), min(MACHINES_MIN, len(of_kind)))]
        times[some] = len(of_kind) / len(some)
    chosen = np.flatnonzero(times[owners.survey] > 0.0)
    asked = pa.table(
        {
            "survey": [surveys[at].survey for at in owners.survey[chosen].tolist()],
            "owner": owners.rows["owner"].take(pa.array(chosen)).combine_chunks(),
            "at": pa.array(chosen, pa.int64()),
            "bound": pa.array(owners.theta[chosen], pa.int64()),
        }
    )
    most = int(owners.theta[chosen].max()) if len(chosen) else THETA_ALL
    rows = engine.ask(expressions.of_owners(table, engine.keep(asked), most))
    owner, high, low, size = (rows[name].to_numpy() for name in rows.column_names)
    least = np.full(count, THETA_ALL)
    np.minimum.at(least, owners.survey, owners.theta)
    machine = owners.survey[owner]
    smallest = np.ones(count)
    np.minimum.at(smallest, owners.survey, owners.share)
    return Sampled(
        owner=owner,
        machine=machine,
        kind=kind[machine],
        share=owners.share[owner],
        machine_share=smallest[machine],
        is_below=(high < least[machine]) | (least[machine] == THETA_ALL),
        content=groups_of(low, high),
        size=np.clip(size.astype(np.int64), 0, CLASSES - 1),
        times=times[machine],
    )


def _kind(
    name: str,
    surveys: list[Survey],
    owners: Owners,
    chosen: Numbers,
    drawn: Sampled,
    sizes: Sizes,
    held: Held,
    bound: int,
) -> Kind:
    facts = [survey.facts for survey in surveys]

    def total(values: Floats) -> int:
        return int(owners.sum(values, chosen))

    locked = owners.pages - owners.unlocked
    told = chosen[owners.is_told[chosen]]
    machines = np.unique(owners.survey[told])
    idle = None
    if len(told):
        ram = int(owners.ram[machines].sum())
        pages = (int(owners.sum(owners.idle(f"idle_{n}"), told)) for n in ("1m", "10m", "1h"))
        idle = Idle(len(machines), ram, *pages)
    codecs = [codecs_of(one) for one in facts]
    return Kind(
        name=name,
        machines=len(surveys),
        ram_bytes=sum(one["ram_bytes"] or 0 for one in facts),
        pages=total(owners.pages),
        pages_zero=total(owners.known("pages_zero")),
        pages_same=total(owners.known("pages_same")),
        pages_swapped=total(owners.known("pages_swapped")),
        pages_locked=total(locked),
        owners=len(chosen),
        idle=idle,
        share_sampled=sampled(bound),
        duplicates=_duplicates(owners, chosen, drawn, held, len(surveys), sampled(bound)),
        setups=_setups(owners, chosen, drawn, sizes, told),
        compressed_swap=sum(one["compressed_swap"] not in (None, "none") for one in facts),
        zram_codecs=[one for one in CODEC_NAMES if all(one in own for own in codecs)],
        modules=all(one["modules"] is not False for one in facts),
        oldest=moment(min(survey.time for survey in surveys)),
        newest=moment(max(survey.time for survey in surveys)),
    )


CODEC_NAMES = [codec.replace("_", "-") for codec in CODECS]

_SINCE = {"lz4": (3, 15), "zstd": (4, 15), "lzo-rle": (5, 1)}
"""The first kernels whose zram has them."""


def codecs_of(facts: dict[str, Any]) -> set[str]:
    """zram's codecs on a machine: as its survey says, or as its kernel's version does."""
    if facts["zram_codecs"] is not None:
        return set(facts["zram_codecs"].split())
    digits = (facts["kernel"] or "").split("-")[0].split(".")[:2]
    if len(digits) < 2 or not all(one.isdecimal() for one in digits):
        return set(_SINCE)
    version = tuple(int(one[:9]) for one in digits)
    return {codec for codec, first in _SINCE.items() if version >= first}


def _duplicates(
    owners: Owners, chosen: Numbers, drawn: Sampled, held: Held, machines: int, share: float
) -> Duplicates:
    contents = owners.sum(owners.contents, chosen)
    ones = np.ones(len(owners.pages))
    distinct, variance = owners.melded("pages_distinct", ones, chosen)
    variance += drawn.owners_vary(np.ones(len(drawn.owner)))
    within = varying(distinct, variance).taken_from(contents)
    value, variance, largest = drawn.shared_varies()
    more = [(row["machines"] - 1, row["contents"]) for row in held]
    summed = float(sum(times * count for times, count in more))
    squares = float(sum(times**2 * count for times, count in more))
    elsewhere = sampled_sum(summed, squares, float(machines - 1), share)
    between = of_rare(value, variance, largest) if variance > 0.0 else varying(value, 0.0)
    return Duplicates(*(one.within(0.0, contents) for one in (within, between, elsewhere)))


def _setups(
    owners: Owners, chosen: Numbers, drawn: Sampled, sizes: Sizes, told: Numbers
) -> list[Setup]:
    """Each codec, without and with melding.

    Without: pools come from random samples that know nothing of each other, so their
    variances add up. The two err each for itself, so what melding saves may be shown below
    nothing: the smaller of both would on average save something where nothing is there twice.
    """
    whole = owners.sum(owners.unlocked, chosen) * owners.page
    idle = owners.idle("idle_10m")
    size = np.maximum(owners.pages, 1.0)
    found = []
    for codec in CODECS:
        pool = floats(owners.rows, f"pool_{codec}")
        value, variance = owners.melded(f"pool_{codec}", owners.part, chosen)
        plain = varying(value, variance).within(0.0, math.inf)
        frees = None
        if len(told):
            frees = owners.sum(idle * (owners.page - pool / size), told)
        found.append(_setup(codec, False, plain, whole, frees))
        value, variance = owners.melded(f"melded_{codec}", owners.part, chosen)
        again, more = drawn.melded_varies(sizes.weight(codec, owners.part))
        melded = varying(value - again, variance + more).within(0.0, math.inf)
        if frees is not None and plain.value:
            takes = owners.sum(idle, told) * owners.page - frees
            frees += takes * (1.0 - melded.value / plain.value)
        found.append(_setup(codec, True, melded, whole, frees))
    return found


def _setup(codec: str, melded: bool, takes: Estimate, whole: float, frees: float | None) -> Setup:
    ratio = whole / takes.value if takes.value > 0.0 else None
    gains = takes.taken_from(whole)
    return Setup(codec.replace("_", "-"), melded, takes, gains, ratio, frees)


def _names(owners: Owners, drawn: Sampled, sizes: Sizes) -> Iterator[Name]:
    """The names that hold most pages: services, containers, machines of that name."""
    keys = owners.rows.select(["kind", "name"]).append_column("pages", owners.rows["pages"])
    sums = keys.group_by(["kind", "name"]).aggregate([("pages", "sum")])
    order = [("pages_sum", "descending"), ("kind", "ascending"), ("name", "ascending")]
    found = []
    for row in sums.sort_by(order).slice(0, NAMES_MAX).to_pylist():
        is_it = np.ones(len(owners.pages), dtype=bool)
        for name in ("kind", "name"):
            column = owners.rows[name]
            same = pc.is_null(column) if row[name] is None else pc.equal(column, row[name])
            is_it &= same.fill_null(False).to_numpy(zero_copy_only=False)
        chosen = np.flatnonzero(is_it)
        found.append(_name(row, owners, chosen, drawn.of(is_it[drawn.owner]), sizes))
    yield from sorted(found, key=lambda name: (-name.gains.value, name.kind, name.name))


def _name(
    row: dict[str, Any], owners: Owners, chosen: Numbers, drawn: Sampled, sizes: Sizes
) -> Name:
    contents = owners.sum(owners.contents, chosen)
    ones = np.ones(len(owners.pages))
    takes, codec = min((owners.melded(f"melded_{c}", owners.part, chosen)[0], c) for c in CODECS)
    variance = owners.melded(f"melded_{codec}", owners.part, chosen)[1]
    variance += drawn.owners_vary(sizes.weight(codec, owners.part)(drawn))
    whole = owners.sum(owners.unlocked, chosen) * owners.page
    melded = varying(takes, variance).within(0.0, whole)
    distinct, variance = owners.melded("pages_distinct", ones, chosen)
    variance += drawn.owners_vary(np.ones(len(drawn.owner)))
    twins = varying(distinct, variance).taken_from(contents).scaled(1.0 / max(contents, 1.0))
    return Name(
        kind=row["kind"] or "–",
        name=row["name"] or "–",
        machines=len(np.unique(owners.survey[chosen])),
        owners=len(chosen),
        pages=int(row["pages_sum"]),
        duplicate_share=twins.within(0.0, 1.0),
        codec=codec.replace("_", "-"),
        takes=melded,
        gains=melded.taken_from(whole),
    )


ENDS = 5
"""Machines that are shown at each end of a measure."""
QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}


def _extremes(
    kind: str, surveys: list[Survey], measures: dict[str, Floats], chosen: Numbers
) -> Iterator[Extremes]:
    """For each measure who is at both ends; whether that is unusual is not judged."""
    for measure, values in measures.items():
        known = chosen[~np.isnan(values[chosen])]
        if len(known) < 2:
            continue
        order = known[np.argsort(values[known], kind="stable")]
        ends = min(ENDS, len(order) // 2)
        shown = [
            [Machine(surveys[at].machine, surveys[at].host, float(values[at])) for at in some]
            for some in (order[:ends], order[::-1][:ends])
        ]
        quantiles = np.quantile(values[known], list(QUANTILES.values()))
        told = dict(zip(QUANTILES, map(float, quantiles), strict=True))
        yield Extremes(kind, measure, len(known), told, *shown)


def _measures(surveys: list[Survey], owners: Owners) -> dict[str, Floats]:
    def sums(values: Floats) -> Floats:
        return np.bincount(owners.survey, values, len(surveys)).astype(np.float64)

    def fact(name: str) -> Floats:
        return np.array([survey.facts[name] for survey in surveys], dtype=np.float64)

    pages, contents = sums(owners.pages), sums(owners.contents)
    distinct = sums(floats(owners.rows, "pages_distinct"))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = {
            "ratio with zstd": contents * owners.page / sums(floats(owners.rows, "pool_zstd")),
            "duplicates in services": np.clip((contents - distinct) / contents, 0.0, 1.0),
            "swap used, of RAM": fact("swap_used_bytes") / fact("ram_bytes"),
            "zero pages": sums(owners.known("pages_zero")) / pages,
            "pages read, of RAM": pages * owners.page / fact("ram_bytes"),
            "stalled for memory": fact("memory_some_avg300") / 100.0,
        }
    return {name: np.where(np.isfinite(one), one, np.nan) for name, one in found.items()}

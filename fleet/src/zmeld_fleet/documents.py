# SPDX-License-Identifier: GPL-2.0-or-later
"""What the report shows, in `zmeld`'s words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

from zmeld_fleet import units
from zmeld_fleet.advice import Configuration, configure
from zmeld_fleet.affinity import Affinity
from zmeld_fleet.analysis import Kind, Report, Setup, Standout
from zmeld_fleet.catalogue import LeftOut
from zmeld_fleet.document import (
    Bars,
    Block,
    Code,
    Column,
    Document,
    Lines,
    Note,
    Section,
    Table,
)
from zmeld_fleet.estimate import Estimate, exact, total
from zmeld_fleet.words import plural

KINDS_SHOWN = 8
LEFT_OUT_SHOWN = 20
STANDOUTS_SHOWN = 15
PAIRS_SHOWN = 30


def report_document(report: Report, cost_per_gib: float | None = None) -> Document:
    """The report: what a manager asks first."""
    document = Document(f"zmeld-fleet report of {report.place}", _lead(report))
    sections = document.sections
    if report.fleet is not None:
        sections.append(_in_short(report, report.fleet, cost_per_gib))
        sections.append(_most_need(report))
        sections.append(_where(report))
        sections.extend(_kind_sections(report))
        sections.append(_duplicates(report))
        sections.append(_names(report))
        sections.append(_change(report))
        sections.append(_standouts(report))
    sections.append(_counted(report))
    return document


def affinity_document(found: Affinity) -> Document:
    """Which workloads belong together."""
    worth = [pair for pair in found.pairs if pair.is_worth_it]
    groups = plural(len(found.groups), "group", "groups")
    machines = plural(found.machines, "machine", "machines")
    pairs = plural(len(worth), "pair is", "pairs are")
    lead = f"{pairs} worth standing together, of {groups} by {found.by} on {machines}."
    if not found.machines:
        lead = "No survey counts; what was left out, and why, stands below."
    document = Document(f"zmeld-fleet affinity of {found.place}", lead)
    section = Section("What belongs together")
    heads = [Column("group", False), Column("with", False), Column("a workload saves")]
    heads += [Column("per GiB")]
    shown = worth[:PAIRS_SHOWN]
    rows = [
        [
            pair.group,
            "itself" if pair.group == pair.other else pair.other,
            units.size_estimate(pair.saves),
            units.size_estimate(pair.saves_per_gib),
        ]
        for pair in shown
    ]
    caption = (
        "Bytes that one workload of each group shares with one of the other, on average, and "
        "for each GiB of the smaller of the two, with 95 % intervals."
    )
    if rows:
        section.blocks.append(Table(heads, rows, caption))
    section.blocks += _more(len(worth) - len(shown), "pair is", "pairs are", "--json")
    if found.groups_left_out:
        more = plural(found.groups_left_out, "smaller group was", "smaller groups were")
        section.blocks.append(f"{more} not compared.")
    document.sections += [section, Section("What was left out", left_out(found.left_out))]
    return document


def _lead(report: Report) -> str:
    fleet = report.fleet
    if fleet is None:
        return "No survey counts; what was left out, and why, stands below."
    pages = units.size(fleet.pages * report.page_size)
    machines = plural(fleet.machines, "machine", "machines")
    freed = _freed(report)
    if not freed.value:
        return f"{machines} with {pages} of pages: no compressed swap is advised."
    return f"{units.size(freed.value)} of {pages} of memory of {machines} can be freed."


def _freed(report: Report) -> Estimate:
    """What the advised configurations gain on all machines, if all pages were compressed."""
    found = [one.setup.gains for one in configurations(report) if one.setup is not None]
    return total(found).within(0.0, math.inf)


def _in_short(report: Report, fleet: Kind, cost_per_gib: float | None) -> Section:
    section = Section("In short")
    freed = _freed(report)
    pages = units.size(fleet.pages * report.page_size)
    rows = [["memory freed", f"{units.size_estimate(freed)} of {pages}"]]
    if fleet.ram_bytes:
        saved = [
            min(int(end / fleet.ram_bytes * fleet.machines), max(fleet.machines - 1, 0))
            for end in (freed.low, freed.high)
        ]
        said = " to ".join(dict.fromkeys(units.count(one) for one in saved))
        rows.append(["machines saved", f"{said} of {units.count(fleet.machines)}"])
    if cost_per_gib is not None:
        worth = freed.scaled(cost_per_gib / 2**30)
        ends = [
            units.count(round(end)) if end >= 100.0 else f"{end:.2f}"
            for end in (worth.low, worth.high)
        ]
        said = " to ".join(dict.fromkeys(ends))
        rows.append(["worth", f"{said}, at {cost_per_gib:g} per GiB"])
    caption = (
        "With the advised configurations, if all pages that were read were compressed: the most "
        "that can be had. Machines saved are those that the same load would not need."
    )
    section.blocks.append(Table([Column("what", False), Column("how much", False)], rows, caption))
    idle = sum(1 for kind in report.kinds if kind.pages == 0)
    if idle:
        section.blocks.append(f"Of {plural(idle, 'kind', 'kinds')} no page was read.")
    return section


def _most_need(report: Report) -> Section:
    """One configuration first: the one that most machines need."""
    section = Section("Configuration")
    machines = {kind.name: kind.machines for kind in report.kinds}
    alike: dict[str, list[Configuration]] = defaultdict(list)
    for one in configurations(report):
        alike[one.advice].append(one)
    order = sorted(
        alike.items(), key=lambda item: (-sum(machines[c.kind] for c in item[1]), item[0])
    )
    heads = [Column("advice", False), Column("machines"), Column("kinds of machine", False)]
    rows = [
        [
            advice,
            units.count(sum(machines[one.kind] for one in ones)),
            _listed([one.kind for one in ones]),
        ]
        for advice, ones in order
    ]
    section.blocks.append(Table(heads, rows[:KINDS_SHOWN], "Kinds with the same advice are one."))
    section.blocks += _more(len(rows) - KINDS_SHOWN, "advice is", "advices are")
    section.blocks.append(
        "zmeld.toml for most machines. Codecs' speeds are not in surveys: `zmeld plan` on one "
        "machine of the kind measures them. Where an own module may not be loaded, take the "
        "same with kind zram. --toml DIR writes that of each kind."
    )
    section.blocks.append(Code(max(order[0][1], key=lambda one: machines[one.kind]).toml))
    return section


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {units.count(len(names) - 3)} more"


def _best(kind: Kind, melded: bool) -> Setup | None:
    setups = [setup for setup in kind.setups if setup.melded == melded]
    return min(setups, key=lambda setup: setup.takes.value, default=None)


def _by_memory(report: Report) -> list[Kind]:
    return sorted(report.kinds, key=lambda kind: (-kind.pages, kind.name))


def _where(report: Report) -> Section:
    section = Section("Where it pays most")
    rows = []
    for kind in sorted(report.kinds, key=_gain_of_ram, reverse=True):
        best, page = _best(kind, True), report.page_size
        rows.append(
            [
                kind.name,
                units.count(kind.machines),
                units.size(kind.pages * page),
                units.size_estimate(best.gains if best else None),
                units.percent(_gain_of_ram(kind)),
            ]
        )
    heads = [Column("kind", False), Column("machines"), Column("pages"), Column("gains")]
    heads += [Column("of RAM")]
    shown = rows[: 2 * KINDS_SHOWN]
    caption = "Kinds of machine, by what the best set-up gains of their RAM."
    section.blocks += [
        Table(heads, shown, caption),
        *_more(len(rows) - len(shown), "kind is", "kinds are"),
    ]
    return section


def _gain_of_ram(kind: Kind) -> float:
    best = _best(kind, True)
    return best.gains.value / kind.ram_bytes if best and kind.ram_bytes else 0.0


def _more(count: int, one: str, many: str, where: str = "--json and --parquet") -> list[Block]:
    said = f"{units.count(count)} more {one if count == 1 else many}"
    return [f"{said} in {where}."] if count > 0 else []


def _kind_sections(report: Report) -> list[Section]:
    kinds = _by_memory(report)
    shown = kinds[:KINDS_SHOWN]
    sections = [_kind(kind, report) for kind in shown]
    if len(report.kinds) > 1 and report.fleet is not None:
        sections.append(_kind(report.fleet, report))
    sections[-1].blocks += _more(len(kinds) - len(shown), "kind is", "kinds are")
    sections[-1].blocks.append(_bars(shown, report))
    return sections


def _kind(kind: Kind, report: Report) -> Section:
    machines = plural(kind.machines, "machine", "machines")
    whole = kind.pages * report.page_size
    section = Section(kind.name)
    intro = f"{machines}, {units.size(kind.ram_bytes)} of RAM, {units.size(whole)} of pages"
    zero = (kind.pages_zero + kind.pages_same) / kind.pages if kind.pages else 0.0
    intro += f", of which {units.percent(zero)} are zero or same-filled."
    if kind.compressed_swap:
        intro += f" {plural(kind.compressed_swap, 'has', 'have')} compressed swap already."
    if kind.synthetic:
        intro += f" {plural(kind.synthetic, 'is', 'are')} synthetic."
    heads = [Column("codec", False), Column("melded", False), Column("ratio")]
    heads += [Column("memory used"), Column("gains, of the pages")]
    rows = [
        [
            setup.codec,
            "yes" if setup.melded else "no",
            units.ratio(setup.ratio),
            units.size_estimate(setup.takes),
            units.percent_estimate(setup.gains.scaled(1.0 / whole) if whole else None),
        ]
        for setup in kind.setups
    ]
    section.blocks += [intro, Table(heads, rows)]
    return section


def _bars(kinds: list[Kind], report: Report) -> Bars:
    names = [kind.name for kind in kinds]
    chosen = [("lz4", False), ("zstd", False), ("zstd", True), ("zword", True)]
    values: list[list[float | None]] = []
    ends: list[list[tuple[float, float]]] = []
    for codec, melded in chosen:
        found = [(kind, kind.setup(codec, melded)) for kind in kinds]
        wholes = [max(kind.pages * report.page_size, 1) for kind, _ in found]
        values.append(
            [s.gains.value / w if s else None for (_, s), w in zip(found, wholes, strict=True)]
        )
        ends.append(
            [
                (max(s.gains.low, 0.0) / w, max(s.gains.high, 0.0) / w) if s else (0.0, 0.0)
                for (_, s), w in zip(found, wholes, strict=True)
            ]
        )
    labels = [f"{codec}, melded" if melded else codec for codec, melded in chosen]
    return Bars(
        "What is gained of the pages, with 95 % intervals",
        "gained, of the pages",
        labels,
        names,
        values,
        ends,
    )


_WHERE = ("in the service", "on the machine", "on another")


def _duplicates(report: Report) -> Section:
    section = Section("Duplicates")
    heads = [Column("kind", False), Column("a twin is", False), Column("pages")]
    heads += [Column("of the pages")]
    rows = []
    fleet = [report.fleet] if report.fleet is not None and len(report.kinds) > 1 else []
    for kind in [*_by_memory(report)[:KINDS_SHOWN], *fleet]:
        found = kind.duplicates
        parts = [found.within_owners, found.between_owners, found.between_machines]
        page = report.page_size
        for where, part in zip(_WHERE, parts, strict=True):
            share = part.scaled(1.0 / kind.pages) if kind.pages else None
            size = units.size_estimate(_times(part, page))
            rows.append([kind.name, where, size, units.percent_estimate(share)])
    caption = (
        "Pages that have a twin: in the same service, container or virtual machine; in another "
        "one of the machine; on another machine of the kind. The first two are melded on a "
        "machine, the third is not."
    )
    section.blocks.append(Table(heads, rows, caption))
    if report.between_kinds is not None and len(report.kinds) > 1:
        size = units.size_estimate(_times(report.between_kinds, report.page_size))
        section.blocks.append(f"Between kinds: {size}; it is part of the last row.")
    if report.bound_share < 1.0:
        section.blocks.append(
            f"From {units.percent(report.bound_share)} of all contents of all machines, chosen "
            "by hash; of a kind alone it is more where its sketches allow."
        )
    return section


def _times(estimate: Estimate, factor: int) -> Estimate:
    return estimate.scaled(float(factor))


def _names(report: Report) -> Section:
    section = Section("Services, containers and virtual machines")
    heads = [Column("kind", False), Column("name", False), Column("machines"), Column("pages")]
    heads += [Column("twins"), Column("gains")]
    rows = [
        [
            name.kind,
            name.name,
            units.count(name.surveys),
            units.size(name.pages * report.page_size),
            units.percent_estimate(name.duplicate_share),
            units.size_estimate(name.gains),
        ]
        for name in report.names
    ]
    caption = "Those with most pages, wherever they run, by what the best codec gains, melded."
    section.blocks.append(Table(heads, rows, caption))
    return section


def _change(report: Report) -> Section:
    section = Section("Change over time")
    if len(report.days) < 2:
        section.blocks.append("All surveys are of one day.")
        return section
    heads = [Column("day", False), Column("machines"), Column("pages")]
    heads += [Column("zstd"), Column("zstd, melded")]
    rows, gained, melded = [], [], []
    for day in report.days:
        whole = day.pages * report.page_size
        plain, shared = _day_share(day.setups, False, whole), _day_share(day.setups, True, whole)
        gained.append(plain.value)
        melded.append(shared.value)
        rows.append(
            [
                day.date,
                units.count(day.machines),
                units.size(whole),
                units.percent_estimate(plain),
                units.percent_estimate(shared),
            ]
        )
    caption = "What zstd gains of the pages, day by day."
    section.blocks.append(Table(heads, rows[-3 * KINDS_SHOWN :], caption))
    section.blocks.append(
        Lines(
            "Gained of the pages, and twins within services",
            "of the pages",
            [day.date for day in report.days],
            {
                "zstd": gained,
                "zstd, melded": melded,
                "twins": [day.duplicate_share.value for day in report.days],
            },
        )
    )
    return section


def _day_share(setups: list[Setup], melded: bool, whole: int) -> Estimate:
    found = (s for s in setups if s.codec == "zstd" and s.melded == melded)
    setup = next(found, None)
    if setup is None or not whole:
        return exact(math.nan)
    return setup.gains.scaled(1.0 / whole)


def _standouts(report: Report) -> Section:
    section = Section("Machines that stand out")
    if not report.standouts:
        section.blocks.append("None is unlike the others of its kind.")
        return section
    by_measure: dict[tuple[str, str], list[Standout]] = defaultdict(list)
    for one in report.standouts:
        by_measure[one.kind, one.measure].append(one)
    order = sorted(by_measure.items(), key=lambda item: (-item[1][0].deviations, item[0]))
    heads = [Column("what", False), Column("hosts", False), Column("here"), Column("usual")]
    rows = []
    for (_, measure), ones in order[:STANDOUTS_SHOWN]:
        first = ones[0]
        is_ratio = measure.startswith("ratio")
        show = units.ratio_estimate if is_ratio else units.percent_estimate
        hosts = _listed([one.host for one in ones])
        rows.append([measure, hosts, show(first.value), show(exact(first.usual))])
    caption = (
        "Against the mean of the other machines of their kind; the value is the first host's."
    )
    section.blocks.append(Table(heads, rows, caption))
    section.blocks += _more(len(order) - STANDOUTS_SHOWN, "group of them is", "groups of them are")
    return section


def configurations(report: Report) -> list[Configuration]:
    """zmeld.toml for each kind."""
    return [configure(kind, report.page_size) for kind in _by_memory(report)]


def _counted(report: Report) -> Section:
    section = Section("What was counted")
    used = plural(report.surveys_used, "survey", "surveys")
    machines = plural(report.machines, "machine", "machines")
    files = plural(report.files_seen, "file", "files")
    text = f"{used} of {machines}, from {files}"
    seen = plural(report.surveys_seen, "survey", "surveys")
    text += f" with {seen}. Key {report.key_id or 'unknown'}. "
    text += f"Computed with {report.engine}."
    section.blocks.append(text)
    if report.synthetic:
        section.blocks.append(
            Note("Warning", f"{plural(report.synthetic, 'machine is', 'machines are')} synthetic.")
        )
    section.blocks += left_out(report.left_out)
    return section


def left_out(found: Iterable[LeftOut]) -> list[Block]:
    """What does not count: by reason, then the first of them by name."""
    found = list(found)
    if not found:
        return ["Nothing was left out."]
    counts = Counter(one.reason for one in found)
    heads = [Column("left out for", False), Column("times"), Column("what it is", False)]
    rows = [
        [str(reason.value), units.count(count), reason.meaning]
        for reason, count in sorted(counts.items(), key=lambda item: item[0].value)
    ]
    named = [f"{_short(one)}: {one.reason.value}: {one.why}" for one in found[:LEFT_OUT_SHOWN]]
    return [
        Table(heads, rows),
        *named,
        *_more(len(found) - LEFT_OUT_SHOWN, "of them is", "of them are"),
    ]


def _short(one: LeftOut) -> str:
    name = one.file.rpartition("/")[2]
    return name if one.survey is None else f"{name} (survey {one.survey[:8]})"

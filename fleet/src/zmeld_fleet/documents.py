# SPDX-License-Identifier: GPL-2.0-or-later
"""What the report shows, in `zmeld`'s words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from zmeld_fleet import units
from zmeld_fleet.advice import Configuration, configure
from zmeld_fleet.affinity import Affinity
from zmeld_fleet.analysis import Kind, Report, Setup, Standout
from zmeld_fleet.catalogue import LeftOut
from zmeld_fleet.document import Bars, Block, Code, Document, Lines, Note, Section, Table
from zmeld_fleet.estimate import Estimate, exact, total
from zmeld_fleet.words import plural

KINDS_SHOWN = 8
LEFT_OUT_SHOWN = 20
STANDOUTS_SHOWN = 15
PAIRS_SHOWN = 30


def report_document(report: Report, cost_per_gib: float | None = None) -> Document:
    """The report: what a manager asks first."""
    sections = []
    if report.fleet is not None:
        sections += [_in_short(report, report.fleet, cost_per_gib), _most_need(report)]
        sections += [_where(report), *_kind_sections(report), _duplicates(report)]
        sections += [_names(report), _change(report), _standouts(report)]
    title = f"zmeld-fleet report of {report.place}"
    return Document(title, _lead(report), [*sections, _counted(report)])


def affinity_document(found: Affinity) -> Document:
    """Which workloads belong together."""
    worth = [pair for pair in found.pairs if pair.is_worth_it]
    groups = plural(len(found.groups), "group", "groups")
    machines = plural(found.machines, "machine", "machines")
    pairs = plural(len(worth), "pair is", "pairs are")
    lead = f"{pairs} worth standing together, of {groups} by {found.by} on {machines}."
    if not found.machines:
        lead = "No survey counts; what was left out, and why, stands below."
    rows = [
        [
            pair.group,
            "itself" if pair.group == pair.other else pair.other,
            units.size_estimate(pair.saves),
            units.size_estimate(pair.saves_per_gib),
        ]
        for pair in worth[:PAIRS_SHOWN]
    ]
    caption = (
        "Bytes that one workload of each group shares with one of the other, on average, and "
        "for each GiB of the smaller of the two, with 95 % intervals."
    )
    numbers = ["a workload saves", "per GiB"]
    blocks: list[Block] = [Table(["group", "with"], numbers, rows, caption)] if rows else []
    blocks += _more(len(worth) - PAIRS_SHOWN, "pair is", "pairs are", "--json")
    if found.groups_left_out:
        more = plural(found.groups_left_out, "smaller group was", "smaller groups were")
        blocks.append(f"{more} not compared.")
    sections = [Section("What belongs together", blocks)]
    sections.append(Section("What was left out", left_out(found.left_out)))
    return Document(f"zmeld-fleet affinity of {found.place}", lead, sections)


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
    section = Section("In short", [Table(["what", "how much"], [], rows, caption)])
    idle = sum(1 for kind in report.kinds if kind.pages == 0)
    if idle:
        section.blocks.append(f"Of {plural(idle, 'kind', 'kinds')} no page was read.")
    return section


def _most_need(report: Report) -> Section:
    """One configuration first: the one that most machines need."""
    machines = {kind.name: kind.machines for kind in report.kinds}
    alike: dict[str, list[Configuration]] = defaultdict(list)
    for one in configurations(report):
        alike[one.advice].append(one)
    counts = {advice: sum(machines[one.kind] for one in ones) for advice, ones in alike.items()}
    order = sorted(alike, key=lambda advice: (-counts[advice], advice))
    rows = [
        [advice, _listed([one.kind for one in alike[advice]]), units.count(counts[advice])]
        for advice in order
    ]
    texts, caption = ["advice", "kinds of machine"], "Kinds with the same advice are one."
    return Section(
        "Configuration",
        [
            Table(texts, ["machines"], rows[:KINDS_SHOWN], caption),
            *_more(len(rows) - KINDS_SHOWN, "advice is", "advices are"),
            "zmeld.toml for most machines. Codecs' speeds are not in surveys: `zmeld plan` on one "
            "machine of the kind measures them. Where an own module may not be loaded, take the "
            "same with kind zram. --toml DIR writes that of each kind.",
            Code(max(alike[order[0]], key=lambda one: machines[one.kind]).toml),
        ],
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {units.count(len(names) - 3)} more"


def _by_memory(report: Report) -> list[Kind]:
    return sorted(report.kinds, key=lambda kind: (-kind.pages, kind.name))


def _where(report: Report) -> Section:
    rows = []
    for kind in sorted(report.kinds, key=_gain_of_ram, reverse=True):
        best = _best(kind)
        of_ram = best.gains.scaled(1.0 / kind.ram_bytes) if best and kind.ram_bytes else None
        row = [kind.name, units.count(kind.machines), units.size(kind.pages * report.page_size)]
        row.append(units.size_estimate(best.gains if best else None))
        rows.append([*row, units.percent_estimate(of_ram)])
    shown = rows[: 2 * KINDS_SHOWN]
    caption = "Kinds of machine, by what the best set-up gains of their RAM."
    numbers = ["machines", "pages", "gains", "of RAM"]
    more = _more(len(rows) - len(shown), "kind is", "kinds are")
    return Section("Where it pays most", [Table(["kind"], numbers, shown, caption), *more])


def _best(kind: Kind) -> Setup | None:
    melded = [setup for setup in kind.setups if setup.melded]
    return min(melded, key=lambda setup: setup.takes.value, default=None)


def _gain_of_ram(kind: Kind) -> float:
    best = _best(kind)
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
    intro = f"{machines}, {units.size(kind.ram_bytes)} of RAM, {units.size(whole)} of pages"
    zero = (kind.pages_zero + kind.pages_same) / kind.pages if kind.pages else 0.0
    intro += f", of which {units.percent(zero)} are zero or same-filled."
    if kind.compressed_swap:
        intro += f" {plural(kind.compressed_swap, 'has', 'have')} compressed swap already."
    if kind.synthetic:
        intro += f" {plural(kind.synthetic, 'is', 'are')} synthetic."
    rows = [
        [
            setup.codec,
            "yes" if setup.melded else "no",
            _ratio(setup.takes, whole),
            units.size_estimate(setup.takes),
            units.percent_estimate(_gained(setup, whole)),
        ]
        for setup in kind.setups
    ]
    numbers = ["ratio", "memory used", "gains, of the pages"]
    return Section(kind.name, [intro, Table(["codec", "melded"], numbers, rows)])


def _ratio(takes: Estimate, whole: int) -> str:
    if takes.low <= 0.0:
        return units.ratio(whole / takes.value if takes.value > 0.0 else None)
    return units.ratio_estimate(
        Estimate(whole / takes.value, whole / takes.high, whole / takes.low)
    )


def _gained(setup: Setup, whole: int) -> Estimate:
    """A share of the pages; what sampling says beyond what can be is not shown."""
    return setup.gains.scaled(1.0 / max(whole, 1)).within(0.0, 1.0)


def _bars(kinds: list[Kind], report: Report) -> Bars:
    gained = [
        {(s.codec, s.melded): _gained(s, kind.pages * report.page_size) for s in kind.setups}
        for kind in kinds
    ]
    series = {
        f"{codec}, melded" if melded else codec: [
            own.get((codec, melded), exact(0.0)) for own in gained
        ]
        for codec, melded in (("lz4", False), ("zstd", False), ("zstd", True), ("zword", True))
    }
    caption = "What is gained of the pages, with 95 % intervals"
    return Bars(caption, "gained, of the pages", [kind.name for kind in kinds], series)


def _duplicates(report: Report) -> Section:
    rows = []
    several = report.fleet is not None and len(report.kinds) > 1
    fleet = [report.fleet] if report.fleet is not None and several else []
    for kind in [*_by_memory(report)[:KINDS_SHOWN], *fleet]:
        for where, part in (
            ("in the service", kind.duplicates.within_owners),
            ("on the machine", kind.duplicates.between_owners),
            ("on another", kind.duplicates.between_machines),
        ):
            share = part.scaled(1.0 / kind.pages) if kind.pages else None
            size = units.size_estimate(part.scaled(report.page_size))
            rows.append([kind.name, where, size, units.percent_estimate(share)])
    caption = (
        "Pages that have a twin: in the same service, container or virtual machine; in another "
        "one of the machine; on another machine of the kind. The first two are melded on a "
        "machine, the third is not."
    )
    numbers = ["pages", "of the pages"]
    section = Section("Duplicates", [Table(["kind", "a twin is"], numbers, rows, caption)])
    if report.between_kinds is not None and several:
        size = units.size_estimate(report.between_kinds.scaled(report.page_size))
        section.blocks.append(f"Between kinds: {size}; it is part of the last row.")
    if report.bound_share < 1.0:
        section.blocks.append(
            f"From {units.percent(report.bound_share)} of all contents of all machines, chosen "
            "by hash; of a kind alone it is more where its sketches allow."
        )
    return section


def _names(report: Report) -> Section:
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
    numbers = ["machines", "pages", "twins", "gains"]
    heading = "Services, containers and virtual machines"
    return Section(heading, [Table(["kind", "name"], numbers, rows, caption)])


def _change(report: Report) -> Section:
    if len(report.days) < 2:
        return Section("Change over time", ["All surveys are of one day."])
    rows = []
    shares: dict[str, list[float]] = {"zstd": [], "zstd, melded": [], "twins": []}
    for day in report.days:
        whole = day.pages * report.page_size
        gained = {s.melded: _gained(s, whole) for s in day.setups if s.codec == "zstd" and whole}
        plain, melded = (gained.get(one, exact(math.nan)) for one in (False, True))
        for own, one in zip(shares.values(), (plain, melded, day.duplicate_share), strict=True):
            own.append(one.value)
        row = [day.date, units.count(day.machines), units.size(whole)]
        rows.append([*row, units.percent_estimate(plain), units.percent_estimate(melded)])
    numbers, shown = ["machines", "pages", "zstd", "zstd, melded"], rows[-3 * KINDS_SHOWN :]
    table = Table(["day"], numbers, shown, "What zstd gains of the pages, day by day.")
    caption, days = "Gained of the pages, and twins within services", [d.date for d in report.days]
    return Section("Change over time", [table, Lines(caption, "of the pages", days, shares)])


def _standouts(report: Report) -> Section:
    if not report.standouts:
        none = "None is unlike the others of its kind."
        return Section("Machines that stand out", [none])
    by_measure: dict[tuple[str, str], list[Standout]] = defaultdict(list)
    for one in report.standouts:
        by_measure[one.kind, one.measure].append(one)
    order = sorted(by_measure.items(), key=lambda item: (-item[1][0].deviations, item[0]))
    rows = []
    for (_, measure), ones in order[:STANDOUTS_SHOWN]:
        is_ratio = measure.startswith("ratio")
        show = units.ratio_estimate if is_ratio else units.percent_estimate
        hosts = _listed([one.host for one in ones])
        rows.append([measure, hosts, show(ones[0].value), show(exact(ones[0].usual))])
    caption = (
        "Against the mean of the other machines of their kind; the value is the first host's."
    )
    table = Table(["what", "hosts"], ["here", "usual"], rows, caption)
    more = len(order) - STANDOUTS_SHOWN
    groups = _more(more, "group of them is", "groups of them are")
    return Section("Machines that stand out", [table, *groups])


def configurations(report: Report) -> list[Configuration]:
    """zmeld.toml for each kind."""
    return [configure(kind, report.page_size) for kind in _by_memory(report)]


def _counted(report: Report) -> Section:
    used = plural(report.surveys_used, "survey", "surveys")
    machines = plural(report.machines, "machine", "machines")
    files = plural(report.files_seen, "file", "files")
    seen = plural(report.surveys_seen, "survey", "surveys")
    text = f"{used} of {machines}, from {files} with {seen}. Key {report.key_id or 'unknown'}. "
    blocks: list[Block] = [f"{text}Computed with {report.engine}."]
    if report.synthetic:
        made_up = plural(report.synthetic, "machine is", "machines are")
        blocks.append(Note(f"{made_up} synthetic."))
    return Section("What was counted", blocks + left_out(report.left_out))


def left_out(found: list[LeftOut]) -> list[Block]:
    """What does not count: by reason, then the first of them by name."""
    if not found:
        return ["Nothing was left out."]
    counts = Counter(one.reason for one in found)
    rows = [
        [str(reason.value), reason.meaning, units.count(counts[reason])]
        for reason in sorted(counts, key=lambda reason: str(reason.value))
    ]
    named: list[Block] = []
    for one in found[:LEFT_OUT_SHOWN]:
        survey = f" (survey {one.survey[:8]})" if one.survey else ""
        named.append(f"{one.file.rpartition('/')[2]}{survey}: {one.reason.value}: {one.why}")
    return [
        Table(["left out for", "what it is"], ["times"], rows),
        *named,
        *_more(len(found) - LEFT_OUT_SHOWN, "of them is", "of them are"),
    ]

# SPDX-License-Identifier: GPL-2.0-or-later
"""What the report shows, in `zmeld`'s words."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timezone

from zmeld_fleet import analysis, units
from zmeld_fleet.advice import Configuration, configure
from zmeld_fleet.analysis import Extremes, Kind, Machine, Report, Setup, moment
from zmeld_fleet.catalogue import LeftOut, utc_now
from zmeld_fleet.document import Bars, Block, Code, Document, Section, Table
from zmeld_fleet.estimate import Estimate
from zmeld_fleet.words import listed, plural

KINDS_SHOWN = 8
LEFT_OUT_SHOWN = 20
FILES_MANY = 1000
"""From so many files on uniting them is worth a line."""


def report_document(report: Report) -> Document:
    """The report: how old it is, what is idle, which kinds gain most and how; then the rest."""
    sections = []
    if report.fleet is not None:
        ranked = ranking(report)
        sections += [_ranked(report, ranked), _configurations(ranked), _setups(report)]
        sections += [_duplicates(report), _names(report), _extremes(report)]
    title = f"zmeld-fleet report of {report.place}"
    return Document(title, _lead(report), [*sections, _machines(report), _counted(report)])


def ranking(report: Report) -> list[tuple[Kind, Configuration]]:
    """The kinds with their configurations, by what these free of their RAM."""
    found = [(kind, configure(kind, report.page_size)) for kind in report.kinds]

    def key(one: tuple[Kind, Configuration]) -> tuple[float, float, str]:
        freed, most = _of_ram(*one)
        return -(freed or 0.0), -most, one[0].name

    return sorted(found, key=key)


def _of_ram(kind: Kind, advised: Configuration) -> tuple[float | None, float]:
    """What its configuration frees of RAM: of what is idle, and at most."""
    setup = advised.setup
    freed = 0.0 if kind.idle is not None else None
    if setup is None:
        return freed, 0.0
    if kind.idle is not None and setup.idle_gains is not None:
        freed = setup.idle_gains / max(kind.idle.ram_bytes, 1)
    return freed, max(setup.gains.value, 0.0) / max(kind.ram_bytes, 1)


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def age(report: Report) -> str:
    """Of when the surveys are: `2026-11-26 to 2026-11-28, the newest 3 hours old`."""
    oldest, newest = report.oldest or "", report.newest or ""
    days = " to ".join(dict.fromkeys((oldest[:10], newest[:10])))
    hours = max((utc_now() - _time(newest)).total_seconds(), 0.0) / 3600.0
    old = "less than an hour" if hours < 1.0 else plural(round(hours), "hour", "hours")
    if hours >= 48.0:
        old = plural(round(hours / 24.0), "day", "days")
    return f"{days}, the newest {old} old"


def _lead(report: Report) -> str:
    fleet = report.fleet
    if fleet is None:
        return "No survey counts; what was left out, and why, stands below."
    said = [f"{plural(report.machines, 'machine', 'machines')}, surveyed {age(report)}."]
    if report.silent:
        said.append(f"{plural(len(report.silent), 'machine has', 'machines have')} gone silent.")
    if report.refused:
        gave = plural(len(report.refused), "machine gave", "machines gave")
        said.append(f"{gave} no survey since memory was short there.")
    setups = [one.setup for _, one in ranking(report) if one.setup is not None]
    if fleet.idle is not None:
        idle = units.size(fleet.idle.pages_10m * report.page_size)
        who = "" if fleet.idle.machines == fleet.machines else f" of {fleet.idle.machines} of them"
        said.append(f"{idle} of memory{who} was not used for ten minutes.")
        freed = math.fsum(setup.idle_gains or 0.0 for setup in setups)
        frees = f"The configurations below would free {units.size(freed)} of it, and"
    else:
        whose = "Its kernel does" if report.machines == 1 else "Their kernels do"
        said.append(f"{whose} not say what is idle.")
        frees = "The configurations below would free"
    if not setups:
        return " ".join([*said, "No compressed swap is advised."])
    most = math.fsum(setup.gains.value for setup in setups)
    pages = most + math.fsum(setup.takes.value for setup in setups)
    ceiling = f"at most {units.size(most)}, were everything compressed there that is not locked"
    return " ".join([*said, frees, f"{ceiling} ({units.size(pages)})."])


def _ranked(report: Report, ranked: list[tuple[Kind, Configuration]]) -> Section:
    rows, bars = [], []
    for kind, advised in ranked[: 2 * KINDS_SHOWN]:
        freed, most = _of_ram(kind, advised)
        bars.append((kind.name, [freed, most]))
        idle = units.size(kind.idle.pages_10m * report.page_size) if kind.idle else units.MISSING
        ends = [units.percent(freed), units.percent(most)]
        rows.append([kind.name, advised.advice, units.count(kind.machines), idle, *ends])
    caption = "What the configuration frees of RAM: of what is idle for ten minutes, and at most"
    numbers = ["machines", "idle", "frees", "at most"]
    blocks: list[Block] = [
        Bars(caption, ["of what is idle", "at most"], bars[:KINDS_SHOWN]),
        Table(["kind", "configuration"], numbers, rows),
        *_more(len(ranked) - len(rows), "kind is", "kinds are"),
    ]
    if report.by.startswith("distribution"):
        blocks.append(
            "Such kinds mix what machines are for. Give them --label role=NAME: kinds are then "
            "their roles."
        )
    for kind in report.kinds:
        if kind.name == analysis.without(report.by):
            has = plural(kind.machines, "machine has", "machines have")
            blocks.append(f"{has} no label {report.by}: see the kind `{kind.name}`.")
    return Section("Where it pays most", blocks)


def _configurations(ranked: list[tuple[Kind, Configuration]]) -> Section:
    shown = ranked[:KINDS_SHOWN]
    texts = [Code(f"{kind.name}: {advised.advice}", advised.toml) for kind, advised in shown]
    said = (
        "zmeld.toml of each kind; --toml DIR writes the files. Codecs' speeds are not in surveys: "
        "`zmeld plan` on one machine of the kind measures them."
    )
    return Section("Configurations", [said, *texts])


def _by_memory(report: Report) -> list[Kind]:
    return sorted(report.kinds, key=lambda kind: (-kind.pages, kind.name))


def _shown(report: Report) -> list[Kind]:
    """The largest kinds, and all machines together."""
    several = report.fleet is not None and len(report.kinds) > 1
    return _by_memory(report)[:KINDS_SHOWN] + ([report.fleet] if several else [])  # type: ignore


def _more(count: int, one: str, many: str) -> list[Block]:
    return (
        [f"{units.count(count)} more {one if count == 1 else many} in --json."]
        if count > 0
        else []
    )


def _setups(report: Report) -> Section:
    rows = [
        [
            kind.name,
            plain.codec,
            _ratio(plain),
            units.size_estimate(plain.gains.within(0.0, math.inf)),
            _saved(plain, melded),
        ]
        for kind in _shown(report)
        for plain, melded in zip(kind.setups[::2], kind.setups[1::2], strict=True)
    ]
    caption = (
        "Were all pages compressed that were read and are not locked, with 95 % intervals; and "
        "what that would free beyond it, were identical pages of a machine kept once."
    )
    numbers = ["ratio", "frees at most", "melding saves"]
    return Section("Each codec", [Table(["kind", "codec"], numbers, rows, caption)])


def _saved(plain: Setup, melded: Setup) -> str:
    saved = plain.less(melded)
    if saved.low <= 0.0 < saved.high - saved.low:
        return f"at most {units.size(max(saved.high, 0.0))}"
    return units.size_estimate(saved)


def _ratio(setup: Setup) -> str:
    takes = setup.takes
    whole = takes.value + setup.gains.value
    if takes.low <= 0.0:
        return units.ratio(setup.ratio)
    return units.ratio_estimate(
        Estimate(whole / takes.value, whole / takes.high, whole / takes.low)
    )


def _duplicates(report: Report) -> Section:
    rows = []
    for kind in _shown(report):
        for where, part in (
            ("in the service", kind.duplicates.within_owners),
            ("on the machine", kind.duplicates.between_owners),
            ("on another", kind.duplicates.between_machines),
        ):
            share = part.scaled(1.0 / kind.pages) if kind.pages else None
            size = units.size_estimate(part.scaled(report.page_size))
            rows.append([kind.name, where, size, units.percent_estimate(share)])
    caption = (
        "Pages beyond the first of their contents: in the same service, container or virtual "
        "machine; in another one of the machine; on another machine of the kind. The first two "
        "are melded on a machine, the third is not."
    )
    numbers = ["pages", "of the pages"]
    return Section("Duplicates", [Table(["kind", "the first is"], numbers, rows, caption)])


def _names(report: Report) -> Section:
    rows = [
        [
            name.kind,
            name.name,
            units.count(name.machines),
            units.size(name.pages * report.page_size),
            units.percent_estimate(name.duplicate_share),
            units.size_estimate(name.gains),
        ]
        for name in report.names
    ]
    caption = "Those with most pages, and what the best codec gains of all of them, melded."
    numbers = ["machines", "pages", "duplicates", "gains at most"]
    heading = "Services, containers and virtual machines"
    return Section(heading, [Table(["kind", "name"], numbers, rows, caption)])


def _extremes(report: Report) -> Section:
    blocks: list[Block] = [
        "The machines with the lowest and the highest values, five at most and none that has the "
        "median, beside the quantiles of their kind. Somebody is always last: this names who, and "
        "does not judge whether it is unusual."
    ]
    for kind in _by_memory(report)[:KINDS_SHOWN]:
        rows = [
            [one.measure, _ends(one.lowest, one), _ends(one.highest, one)]
            + [_value(one, one.quantiles[q]) for q in ("5 %", "median", "95 %")]
            for one in report.extremes
            if one.kind == kind.name
        ]
        texts, numbers = ["measure", "lowest", "highest"], ["5 %", "median", "95 %"]
        blocks += [Table(texts, numbers, rows, f"{kind.name}:")] if rows else []
    return Section("Both ends of each measure", blocks)


def _value(one: Extremes, value: float) -> str:
    return units.ratio(value) if one.measure.startswith("ratio") else units.percent(value)


def _ends(machines: list[Machine], one: Extremes) -> str:
    median = _value(one, one.quantiles["median"])
    shown = [(machine.host, _value(one, machine.value)) for machine in machines]
    named = [f"{host} {value}" for host, value in shown if value != median]
    return ", ".join(named) or units.MISSING


def _machines(report: Report) -> Section:
    """Who is counted once, who is missing, and since when."""
    blocks: list[Block] = []
    if report.fleet is not None:
        oldest, newest = report.oldest, report.newest
        blocks.append(f"The surveys that count began between {oldest} and {newest}.")
    if report.partly_refused:
        names = [f"{one.host} ({units.percent(one.value)})" for one in report.partly_refused]
        blocks.append(
            "Some processes of these machines could not be read (their share of the memory in "
            f"use): {listed(names)}."
        )
    if report.repeated_hosts:
        names = [f"{host} ({count})" for host, count in report.repeated_hosts.items()]
        said = plural(len(names), "host name has", "host names have")
        blocks.append(f"{said} several machine ids, each counted as a machine: {listed(names)}.")
    if report.refused:
        names = [f"{one.host} ({units.percent(one.value / 100.0)})" for one in report.refused]
        blocks.append(
            "No survey since memory was short, with the share of five minutes that somebody "
            f"waited for it: {listed(names)}."
        )
    if report.silent:
        rows = [[one.host, moment(one.last)] for one in report.silent[::-1][:LEFT_OUT_SHOWN]]
        caption = f"Machines that were surveyed before {report.first_day} and not since."
        blocks.append(Table(["silent", "last survey"], [], rows, caption))
        blocks += _more(len(report.silent) - len(rows), "is", "are")
    return Section("Which machines", blocks or ["None."])


def _counted(report: Report) -> Section:
    used = plural(report.machines, "survey", "surveys")
    files = plural(report.files_seen, "file", "files")
    seen = plural(report.surveys_seen, "survey", "surveys")
    text = f"{used} since {report.first_day}, from {files} with {seen}. "
    blocks: list[Block] = [
        f"{text}Key {report.key_id or 'unknown'}. Computed with {report.engine}."
    ]
    if report.files_seen > FILES_MANY:
        blocks.append(
            "`zmeld-fleet unite PLACE` makes few files of many: reports are then faster."
        )
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
    others = [one for one in found if not one.reason.is_expected]
    for one in others[:LEFT_OUT_SHOWN]:
        survey = f" (survey {one.survey[:8]})" if one.survey else ""
        named.append(f"{one.file.rpartition('/')[2]}{survey}: {one.reason.value}: {one.why}")
    return [
        Table(["left out for", "what it is"], ["times"], rows),
        *named,
        *_more(len(others) - LEFT_OUT_SHOWN, "of them is", "of them are"),
    ]

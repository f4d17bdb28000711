# SPDX-License-Identifier: GPL-2.0-or-later
"""A report as gauges in Prometheus' text format (version 0.0.4).

Names follow its conventions as `zmeld`'s own do (docs/status.md): the prefix `zmeld_fleet_`,
the unit last. `FAMILIES` is the list; docs/fleet.md and the dashboard in packaging/grafana use
these names. Made anew with each report, so all are gauges.

Prometheus takes a file as a whole or not at all, and two samples of a gauge with the same labels
spoil it: texts that differ are told apart here, whoever made them look alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone

from zmeld_fleet.advice import configure
from zmeld_fleet.analysis import Kind, Report
from zmeld_fleet.words import LENGTH_MAX, inert

Sample = tuple[dict[str, str], float]

WHERE = {
    "within_owners": "owner",
    "between_owners": "machine",
    "between_machines": "fleet",
}
"""Where the first of the same contents is: in the owner, in another of the machine, elsewhere."""

KINDS_MAX = 100
"""Kinds that have gauges: each is some 45 series, and a report by node has as many as nodes."""


def distinct(texts: Iterable[str]) -> dict[str, str]:
    """Each text as it is shown. Where two would be shown alike, one that is shown as it is keeps
    its name, and the others are numbered."""
    shown: dict[str, str] = {}
    taken: set[str] = set()
    for text in sorted(set(texts), key=lambda one: (inert(one) != one, one)):
        name, number = inert(text), 1
        while name in taken:
            number += 1
            name = f"{inert(text)[: LENGTH_MAX - 20]} ({number})"
        shown[text] = name
        taken.add(name)
    return shown


def told(report: Report) -> dict[str, Kind]:
    """The kinds that have gauges, by what they are called: those with most machines."""
    kinds = sorted(report.kinds, key=lambda kind: (-kind.machines, kind.name))[:KINDS_MAX]
    shown = distinct(kind.name for kind in kinds)
    return {shown[kind.name]: kind for kind in kinds}


Samples = Callable[[Report], Iterable[Sample]]


def _kinds(value: Callable[[Kind], float]) -> Samples:
    """A value of each kind. All machines together are no kind: a sum over kinds is right."""
    return lambda report: (({"kind": name}, value(kind)) for name, kind in told(report).items())


def _pages(of: str) -> Samples:
    """Bytes of so many pages of each kind."""
    return lambda report: _kinds(lambda kind: getattr(kind, of) * report.page_size)(report)


def _one(value: Callable[[Report], float]) -> Samples:
    return lambda report: [({}, value(report))]


def _setups(of: str, end: str = "value") -> Samples:
    def samples(report: Report) -> Iterator[Sample]:
        for name, kind in told(report).items():
            for setup in kind.setups:
                labels = {"kind": name, "codec": setup.codec}
                labels["melded"] = "yes" if setup.melded else "no"
                yield labels, getattr(getattr(setup, of), end)

    return samples


def _duplicates(report: Report) -> Iterator[Sample]:
    for name, kind in told(report).items():
        for of, where in WHERE.items():
            pages = getattr(kind.duplicates, of).value
            yield {"kind": name, "where": where}, pages * report.page_size


def _left_out(report: Report) -> Iterator[Sample]:
    reasons = Counter(one.reason.value for one in report.left_out)
    for reason, count in sorted(reasons.items()):
        yield {"reason": reason}, count


def _idle(report: Report) -> Iterator[Sample]:
    for name, kind in told(report).items():
        if kind.idle is not None:
            for since in ("1m", "10m", "1h"):
                pages = getattr(kind.idle, f"pages_{since}")
                yield {"kind": name, "since": since}, pages * report.page_size


def _idle_gains(report: Report) -> Iterator[Sample]:
    for name, kind in told(report).items():
        setup = configure(kind, report.page_size).setup
        if kind.idle is not None:
            yield {"kind": name}, (setup.idle_gains or 0.0) if setup is not None else 0.0


def _seconds(moment: str) -> float:
    return datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()


FAMILIES: dict[str, tuple[str, Samples]] = {
    "zmeld_fleet_machines": ("Machines whose surveys count.", _kinds(lambda kind: kind.machines)),
    "zmeld_fleet_compressed_swap_machines": (
        "Of these: machines that have compressed swap already.",
        _kinds(lambda kind: kind.compressed_swap),
    ),
    "zmeld_fleet_ram_bytes": ("RAM of these machines.", _kinds(lambda kind: kind.ram_bytes)),
    "zmeld_fleet_read_bytes": ("Pages that their surveys read.", _pages("pages")),
    "zmeld_fleet_swapped_bytes": ("In swap, which surveys do not read.", _pages("pages_swapped")),
    "zmeld_fleet_pool_bytes": (
        "What all these pages take in a compressed pool.",
        _setups("takes"),
    ),
    "zmeld_fleet_gain_bytes": ("What that frees: a ceiling, much is in use.", _setups("gains")),
    "zmeld_fleet_gain_low_bytes": ("Lower end of its 95 % interval.", _setups("gains", "low")),
    "zmeld_fleet_gain_high_bytes": ("Upper end of its 95 % interval.", _setups("gains", "high")),
    "zmeld_fleet_duplicate_bytes": (
        "Pages beyond the first of their contents in an owner, on a machine, in a kind (fleet).",
        _duplicates,
    ),
    "zmeld_fleet_oldest_survey_time_seconds": (
        "When the oldest of the machines' latest surveys began, since 1970.",
        _kinds(lambda kind: _seconds(kind.oldest)),
    ),
    "zmeld_fleet_newest_survey_time_seconds": (
        "When the newest survey began, since 1970.",
        _kinds(lambda kind: _seconds(kind.newest)),
    ),
    "zmeld_fleet_idle_bytes": ("Memory not used for so long, where kernels say so.", _idle),
    "zmeld_fleet_idle_gain_bytes": (
        "What the kind's configuration would free of what was not used for ten minutes.",
        _idle_gains,
    ),
    "zmeld_fleet_silent_machines": (
        "Machines that were surveyed before the days that count, and not since.",
        _one(lambda report: len(report.silent)),
    ),
    "zmeld_fleet_refused_machines": (
        "Machines that gave no survey since their memory was short.",
        _one(lambda report: len(report.refused)),
    ),
    "zmeld_fleet_surveys_used": ("That count, one a machine.", _one(lambda it: it.machines)),
    "zmeld_fleet_left_out": ("Files and surveys that do not count, by reason.", _left_out),
    "zmeld_fleet_kinds_left_out": (
        f"Kinds without gauges: the {KINDS_MAX} with most machines have some.",
        _one(lambda report: max(0, len(report.kinds) - KINDS_MAX)),
    ),
}


def render(report: Report) -> str:
    """The text that a monitoring system reads; a family without a sample is left out."""
    lines = []
    for name, (help_text, samples) in FAMILIES.items():
        own = [
            f"{name}{_labels(labels)} {float(value)!r}"
            for labels, value in samples(report)
            if math.isfinite(value)
        ]
        if own:
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *own]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: dict[str, str]) -> str:
    """Names of kinds and hosts are other people's text."""
    pairs = []
    for name, value in labels.items():
        escaped = inert(value).replace("\\", "\\\\").replace('"', '\\"')
        pairs.append(f'{name}="{escaped}"')
    return "{" + ",".join(pairs) + "}" if pairs else ""

# SPDX-License-Identifier: GPL-2.0-or-later
"""A report from a PLACE, with files left out that break while they are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from zmeld_fleet import affinity, analysis, catalogue, documents, engines, places
from zmeld_fleet.catalogue import Catalogue
from zmeld_fleet.engines import Engine
from zmeld_fleet.words import FleetError
from zmeld_fleet.writing import write_whole

T = TypeVar("T")


def make(place: str, by: str | None = None, **how: Any) -> analysis.Report:
    """The report of PLACE; `how` as for `ask`."""
    return ask(lambda found, engine: analysis.analyse(found, engine, by), place, **how)


def make_affinity(place: str, by: str = "name", **how: Any) -> affinity.Affinity:
    """Which workloads of PLACE belong together; `how` as for `ask`."""
    return ask(lambda found, engine: affinity.analyse(found, engine, by), place, **how)


def ask(
    question: Callable[[Catalogue, Engine], T],
    place: str,
    engine: str = "duckdb",
    key_id: str | None = None,
    threads: int | None = None,
    since: int | None = None,
) -> T:
    """Asks an engine about PLACE, of the last `since` days.

    A file that only breaks in its middle fails the engine: then every file is read.
    """
    found = catalogue.read(places.open_place(place), key_id, since=since)
    while True:
        runner = engines.ENGINES[engine](threads)  # A new one, whatever broke the last.
        try:
            return question(found, runner)
        except Exception as error:
            if isinstance(error, FleetError) or not drop_damaged(found):
                raise
        finally:
            runner.close()


def drop_damaged(found: Catalogue) -> bool:
    """Leaves out files that cannot be read to their end; whether there were any."""
    files = {survey.file.path: survey.file for survey in found.surveys}
    flaws = {
        path: flaw
        for path, stored in files.items()
        if (flaw := catalogue.verify(found.place, stored)) is not None
    }
    found.left_out += flaws.values()
    found.surveys = [survey for survey in found.surveys if survey.file.path not in flaws]
    return bool(flaws)


def write_configurations(report: analysis.Report, folder: Path) -> list[Path]:
    """A file for each kind, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[Path, None] = {}
    alike: Counter[str] = Counter()
    for configuration in documents.configurations(report):
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", configuration.kind).strip("-.")[:80] or "kind"
        path = folder / f"{name}.toml"
        while path in written:
            alike[name] += 1
            path = folder / f"{name}--{alike[name] + 1}.toml"
        write_whole(path, configuration.toml.encode())
        written[path] = None
    return list(written)

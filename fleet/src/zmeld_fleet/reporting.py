# SPDX-License-Identifier: GPL-2.0-or-later
"""A report from a PLACE, with files left out that break while they are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from zmeld_fleet import affinity, analysis, catalogue, documents, engines, places
from zmeld_fleet.catalogue import Catalogue
from zmeld_fleet.engines import Engine, EngineError
from zmeld_fleet.results import write_whole

T = TypeVar("T")


def make(
    place: str,
    engine: str = "duckdb",
    by: str | None = None,
    key_id: str | None = None,
    threads: int | None = None,
    since: int | None = None,
) -> analysis.Report:
    """Reads PLACE and analyses what is there, of the last `since` days."""
    found = catalogue.read(places.open_place(place), key_id, since=since)
    if by is not None:
        analysis.check_label(found, "--by", by)
    runner = engines.start(engine, threads)
    try:
        return analyse_what_is_whole(found, runner, by)
    finally:
        runner.close()


def make_affinity(
    place: str,
    by: str = "name",
    engine: str = "duckdb",
    key_id: str | None = None,
    threads: int | None = None,
    since: int | None = None,
) -> affinity.Affinity:
    """Reads PLACE and says which workloads belong together."""
    found = catalogue.read(places.open_place(place), key_id, since=since)
    runner = engines.start(engine, threads)
    try:
        return of_what_is_whole(found, lambda: affinity.analyse(found, runner, by))
    finally:
        runner.close()


def analyse_what_is_whole(found: Catalogue, runner: Engine, by: str | None) -> analysis.Report:
    """The report of the files that can be read to their end."""
    return of_what_is_whole(found, lambda: analysis.analyse(found, runner, by))


def of_what_is_whole(found: Catalogue, ask: Callable[[], T]) -> T:
    """A file that only breaks in its middle fails the engine: then every file is read."""
    try:
        return ask()
    except (EngineError, affinity.GroupingError):
        raise
    except Exception:
        if not drop_damaged(found):
            raise
        return ask()


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

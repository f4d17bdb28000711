# SPDX-License-Identifier: GPL-2.0-or-later
"""A report from a PLACE, and the files that it writes."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

from zmeld_fleet import advice, analysis, catalogue, engines, places
from zmeld_fleet.words import FleetError
from zmeld_fleet.writing import write_whole


def make(
    place: str,
    by: str | None = None,
    engine: str = "duckdb",
    key_id: str | None = None,
    threads: int | None = None,
    since: int = catalogue.DAYS,
) -> analysis.Report:
    """The report of PLACE, of its last `since` days."""
    found = catalogue.read(places.open_place(place), key_id, since)
    runner = engines.ENGINES[engine](threads)
    try:
        return analysis.analyse(found, runner, by)
    finally:
        runner.close()


def write_configurations(report: analysis.Report, folder: Path) -> list[Path]:
    """A file for each kind, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[Path, bytes] = {}
    alike: Counter[str] = Counter()
    for kind in report.kinds:
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", kind.name).strip("-.")[:80] or "kind"
        path = folder / f"{name}.toml"
        while path in texts:
            alike[name] += 1
            path = folder / f"{name}--{alike[name] + 1}.toml"
        texts[path] = advice.configure(kind, report.page_size).toml.encode()
        with suppress(FileNotFoundError):
            if path.read_bytes() != texts[path]:
                raise FleetError(f"{path}: it is there already with other settings: remove it")
    for path, toml in texts.items():
        write_whole(path, toml)
    return list(texts)

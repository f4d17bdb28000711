# SPDX-License-Identifier: GPL-2.0-or-later
"""Results for programs: JSON with a versioned schema, and tables as Parquet."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zmeld_fleet import __version__
from zmeld_fleet.affinity import Affinity
from zmeld_fleet.analysis import Kind, Report
from zmeld_fleet.documents import configurations
from zmeld_fleet.estimate import Estimate
from zmeld_fleet.writing import write_whole

AFFINITY_SCHEMA = "zmeld.fleet.affinity/1"
REPORT_SCHEMA = "zmeld.fleet.report/2"


def plain(value: Any) -> Any:
    """Data classes as JSON has them; what is not finite is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def report_json(report: Report) -> str:
    """The report as one object."""
    body = {"schema": REPORT_SCHEMA, "zmeld_version": __version__, **plain(report)}
    for kind, configuration in zip(
        sorted(body["kinds"], key=lambda kind: (-kind["pages"], kind["name"])),
        configurations(report),
        strict=True,
    ):
        kind["configuration"] = configuration.toml
        kind["reasons"] = configuration.reasons
    return text_of(body)


def affinity_json(found: Affinity) -> str:
    """What belongs together, as one object."""
    return text_of({"schema": AFFINITY_SCHEMA, "zmeld_version": __version__, **plain(found)})


def text_of(body: dict[str, Any]) -> str:
    """JSON that no terminal takes for orders."""
    return json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False).replace(
        "\x7f", "\\u007f"
    )


def report_tables(report: Report) -> dict[str, pa.Table]:
    """The report's tables, by the name of their file."""
    kinds = [*report.kinds, *([report.fleet] if report.fleet else [])]
    return {
        "kinds": _table([_kind_row(kind) for kind in kinds]),
        "setups": _table([row for kind in kinds for row in _setup_rows(kind)]),
        "names": _table([_flattened(name) for name in report.names]),
        "days": _table(
            [
                {"date": day.date, "machines": day.machines, "pages": day.pages}
                | _flat("duplicate_share", day.duplicate_share)
                | {"codec": setup.codec}
                | {"melded": setup.melded}
                | _flat("takes_bytes", setup.takes)
                for day in report.days
                for setup in day.setups
            ]
        ),
        "standouts": _table([_flattened(one) for one in report.standouts]),
        "left_out": _table([plain(one) for one in report.left_out]),
    }


def _kind_row(kind: Kind) -> dict[str, Any]:
    left = {"duplicates", "setups"}
    row = {key: value for key, value in plain(kind).items() if key not in left}
    for name in ("within_owners", "between_owners", "between_machines"):
        row |= _flat(f"duplicates_{name}_pages", getattr(kind.duplicates, name))
    return row


def _setup_rows(kind: Kind) -> Iterable[dict[str, Any]]:
    for setup in kind.setups:
        yield (
            {"kind": kind.name, "codec": setup.codec, "melded": setup.melded}
            | {"ratio": setup.ratio}
            | _flat("takes_bytes", setup.takes)
            | _flat("gains_bytes", setup.gains)
        )


def _flattened(record: Any) -> dict[str, Any]:
    """A row whose estimates are three columns."""
    row: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        row |= _flat(field.name, value) if isinstance(value, Estimate) else {field.name: value}
    return row


def _flat(name: str, estimate: Any) -> dict[str, float]:
    return {
        name: estimate.value,
        f"{name}_low": estimate.low,
        f"{name}_high": estimate.high,
    }


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def write_tables(tables: dict[str, pa.Table], folder: Path) -> list[Path]:
    """A Parquet file for each table that has rows."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        if table.num_columns == 0:
            # Of an earlier report: it would be taken for this one's.
            path.unlink(missing_ok=True)
            continue
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd")
        write_whole(path, buffer.getvalue().to_pybytes())
        written.append(path)
    return written

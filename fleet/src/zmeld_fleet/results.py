# SPDX-License-Identifier: GPL-2.0-or-later
"""Results for programs: JSON with a versioned schema, and tables as Parquet."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zmeld_fleet import __version__
from zmeld_fleet.affinity import Affinity
from zmeld_fleet.analysis import Duplicates, Report
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
    tables = {
        "kinds": [_row(kind) | _row(kind.duplicates, "duplicates_{}_pages") for kind in kinds],
        "setups": [
            {"kind": kind.name} | _row(setup, "{}_bytes")
            for kind in kinds
            for setup in kind.setups
        ],
        "names": [_row(name) for name in report.names],
        "days": [
            _row(day) | _row(setup, "{}_bytes") for day in report.days for setup in day.setups
        ],
        "standouts": [_row(one) for one in report.standouts],
        "left_out": [plain(one) for one in report.left_out],
    }
    return {name: pa.Table.from_pylist(rows) for name, rows in tables.items()}


def _row(record: Any, estimates: str = "{}") -> dict[str, Any]:
    """What has one value, and of each estimate three."""
    row: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Estimate):
            name = estimates.format(field.name)
            row |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif not isinstance(value, (list, Duplicates)):
            row[field.name] = value
    return row


def write_tables(tables: dict[str, pa.Table], folder: Path) -> None:
    """A Parquet file for each table that has rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        if table.num_columns == 0:
            # Of an earlier report: it would be taken for this one's.
            path.unlink(missing_ok=True)
            continue
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd")
        write_whole(path, buffer.getvalue().to_pybytes())

# SPDX-License-Identifier: GPL-2.0-or-later
"""Results for programs: JSON with a versioned schema."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import datetime
from enum import Enum
from typing import Any

from zmeld_fleet import __version__
from zmeld_fleet.advice import configure
from zmeld_fleet.analysis import Report, moment

REPORT_SCHEMA = "zmeld.fleet.report/3"


def plain(value: Any) -> Any:
    """Data classes as JSON has them; what is not finite is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def report_json(report: Report) -> str:
    """The report as one object, which no terminal takes for orders."""
    body = {"schema": REPORT_SCHEMA, "zmeld_version": __version__, **plain(report)}
    for shown, kind in zip(body["kinds"], report.kinds, strict=True):
        configuration = configure(kind, report.page_size)
        shown["configuration"] = configuration.toml
        shown["reasons"] = configuration.reasons
    text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f")

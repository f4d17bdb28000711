# SPDX-License-Identifier: GPL-2.0-or-later
"""Long tests run where `--long` asks for them; what is left out says so."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from made import NOON
from zmeld_fleet import catalogue, documents

TOP = Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="Spark, many machines")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)


@pytest.fixture(autouse=True, scope="session")
def _clock():
    """The tests' surveys are two days old at most."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(catalogue, "utc_now", lambda: NOON + timedelta(days=1, hours=20))
        patched.setattr(documents, "utc_now", catalogue.utc_now)
        yield


@pytest.fixture(scope="session")
def zmeld() -> str:
    """The real program: what `ZMELD` names, what this checkout built, what is installed."""
    built = TOP / "target" / "debug" / "zmeld"
    found = os.environ.get("ZMELD") or (str(built) if built.exists() else shutil.which("zmeld"))
    if not found:
        pytest.skip("zmeld is not built: cargo build -p zmeld")
    return found

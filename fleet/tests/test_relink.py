# SPDX-License-Identifier: GPL-2.0-or-later
"""Surveys of one process under two keys: what stands beside contents hardly links them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import relink

QUIET = "import time; rows = [f'row {at}' for at in range(200_000)]; print(); time.sleep(600)"


def test_contents_under_two_keys_hardly_link(zmeld, tmp_path):
    """By exact sizes 1,787 of 1,906 contents were linked."""
    command = [sys.executable, "-c", QUIET]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            surveys = [survey(zmeld, tmp_path / name, process.pid) for name in ("one", "two")]
        finally:
            process.kill()
    found, seen = relink.linked(*surveys)
    assert seen > 1000 and found <= 0.01 * seen, (found, seen)


def survey(zmeld: str, folder: Path, pid: int) -> str:
    folder.mkdir()
    key = str(folder / "key")
    subprocess.run([zmeld, "scan", "--survey-new-key", key], check=True, capture_output=True)
    scan = [zmeld, "scan", "--survey", str(folder), "--key", key, "--pid", str(pid)]
    done = subprocess.run([*scan, "--sketch", "100000"], capture_output=True, text=True)
    if done.returncode == 75:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    (path,) = folder.rglob("*.parquet")
    return str(path)

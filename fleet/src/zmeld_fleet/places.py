# SPDX-License-Identifier: GPL-2.0-or-later
"""PLACE: a folder.

Names that begin with a dot are never read: they are files on their way.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache

from zmeld_fleet.schema import FOLDER
from zmeld_fleet.words import FleetError, inert

_FILE = re.compile(r"[A-Za-z0-9._-]+\.parquet")
_PLAIN = re.compile(r"[A-Za-z0-9/._=@+~-]+")
"""Paths in which no engine sees a pattern."""


@cache
def _is_day(date: str) -> bool:
    try:
        return f"{datetime.strptime(date, '%Y-%m-%d'):%Y-%m-%d}" == date
    except ValueError:
        return False


@dataclass(frozen=True)
class StoredFile:
    """A file with surveys in it."""

    path: str
    name: str
    date: str
    size: int
    modified: datetime
    mode: int

    @property
    def is_named_well(self) -> bool:
        """As surveys are: engines take other names for patterns of names."""
        return _is_day(self.date) and bool(_FILE.fullmatch(self.name))


@dataclass(frozen=True)
class Place:
    """A folder with surveys."""

    shown: str
    root: str

    def listed(self) -> tuple[list[StoredFile], dict[str, str]]:
        """All files that are whole, by their names; folders that cannot be listed, and why.

        No folder is entered that surveys are not in, and no link leads in a circle.
        """
        try:
            folders = sorted(os.listdir(f"{self.root}/{FOLDER}"))
        except FileNotFoundError as error:
            folder = os.path.abspath(self.root)
            if os.path.basename(folder) == FOLDER:
                above = f"name the folder above it, {os.path.dirname(folder)}"
                raise FleetError(f"{self.shown}: these are its surveys: {above}") from error
            raise FleetError(
                f"{self.shown}: no folder {FOLDER} there; `zmeld scan --survey {self.shown}` "
                "on a machine makes one"
            ) from error
        stored: list[StoredFile] = []
        refused: dict[str, str] = {}
        for day in folders:
            if not day.startswith("date="):
                continue
            folder = f"{self.root}/{FOLDER}/{day}"
            try:
                stored += _files(folder, day[5:])
            except NotADirectoryError:
                continue
            except OSError as error:
                refused[folder] = error.strerror or str(error)
        return sorted(stored, key=lambda file: file.path), refused

    @contextmanager
    def for_engines(self, paths: list[str]) -> Iterator[list[str]]:
        """The files as paths in which no engine sees a pattern."""
        if _PLAIN.fullmatch(self.root):
            yield paths
            return
        with tempfile.TemporaryDirectory(prefix="zmeld-fleet-") as folder:
            os.symlink(self.root, f"{folder}/place")
            yield [f"{folder}/place{path[len(self.root) :]}" for path in paths]


def _files(folder: str, date: str) -> Iterator[StoredFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.endswith(".parquet"):
                continue
            if entry.is_file():
                found = entry.stat()
                modified = datetime.fromtimestamp(found.st_mtime, timezone.utc)
                yield StoredFile(
                    entry.path, entry.name, date, found.st_size, modified, found.st_mode
                )


def open_place(place: str) -> Place:
    """PLACE as it is written."""
    scheme, of_url, _ = place.partition("://")
    if of_url:  # What stands behind a scheme may be a secret, and is not shown.
        said = "surveys are read from a folder; rclone mount makes one of an object store"
        raise FleetError(f"{inert(scheme)}://...: {said}")
    if not os.path.isdir(place):
        raise FleetError(f"{inert(place)}: not a folder; give the PLACE of the surveys")
    return Place(inert(place), os.path.abspath(place))

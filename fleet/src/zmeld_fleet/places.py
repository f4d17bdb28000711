# SPDX-License-Identifier: GPL-2.0-or-later
"""PLACE: a folder, or an object store by its URL, which is copied first.

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
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from zmeld_fleet.schema import FOLDER
from zmeld_fleet.words import FleetError, inert

_FILE = re.compile(r"[A-Za-z0-9._-]+\.parquet")
_SECRET = re.compile(r"//[^?#\s]*@|\?.*")
_PLAIN = re.compile(r"[A-Za-z0-9/._=@+~-]+")
"""Paths in which no engine sees a pattern."""


class PlaceError(FleetError):
    """PLACE cannot be read: what, and the way out."""


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
            raise PlaceError(
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


@contextmanager
def open_place(place: str, first_day: str = "") -> Iterator[Place]:
    """PLACE as it is written; of an object store the days from `first_day` on are copied."""
    shown = inert(_SECRET.sub("//" if "@" in place else "", place))
    if "://" not in place:
        if not os.path.isdir(place):
            raise PlaceError(f"{shown}: not a folder; give the PLACE of the surveys")
        yield Place(shown, os.path.abspath(place))
        return
    with tempfile.TemporaryDirectory(prefix="zmeld-fleet-") as root:
        try:
            files, there = fs.FileSystem.from_uri(place)
            top = f"{there.rstrip('/')}/{FOLDER}"
            for day in files.get_file_info(fs.FileSelector(top)):
                if day.type == fs.FileType.Directory and day.base_name >= f"date={first_day}":
                    to = Path(root) / FOLDER / day.base_name
                    to.mkdir(parents=True)
                    fs.copy_files(day.path, str(to), files, fs.LocalFileSystem())
        except (OSError, pa.ArrowException) as error:
            said = inert(_SECRET.sub("//", str(error)))
            raise PlaceError(f"{shown}: cannot be read: {said}") from error
        yield Place(shown, root)

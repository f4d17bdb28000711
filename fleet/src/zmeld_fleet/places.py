# SPDX-License-Identifier: GPL-2.0-or-later
"""PLACE: a folder, or an object store by its URL.

Names that begin with a dot are never read: they are files on their way.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from zmeld_fleet.schema import FOLDER
from zmeld_fleet.words import FleetError, inert

_FILE = re.compile(r"[A-Za-z0-9._-]+\.parquet")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_USER = re.compile(r"//[^?#\s]*@")
"""Of a URL what may hold a secret."""
_PLAIN = re.compile(r"[A-Za-z0-9/._=@+~-]+")
"""Paths in which no engine sees a pattern."""


class PlaceError(FleetError):
    """PLACE cannot be read: what, and the way out."""


@dataclass(frozen=True)
class StoredFile:
    """A file with surveys in it."""

    path: str
    name: str
    date: str
    size: int
    modified: datetime | None

    @property
    def is_named_well(self) -> bool:
        """As surveys are: engines take other names for patterns of names."""
        return bool(_FILE.fullmatch(self.name) and _DATE.fullmatch(self.date))


@dataclass(frozen=True)
class Place:
    """Where surveys are."""

    shown: str
    root: str
    files: fs.FileSystem
    local: bool

    def listed(self, first: str | None = None) -> tuple[list[StoredFile], dict[str, str]]:
        """All files that are whole, by their names; folders that cannot be listed, and why.

        No folder is entered that surveys are not in, and no link leads in a circle. Days
        before `first` are not opened.
        """
        top = f"{self.root}/{FOLDER}"
        try:
            found = self._infos(top, recursive=not self.local)
        except FileNotFoundError as error:
            raise PlaceError(
                f"{self.shown}: no folder {FOLDER} there; `zmeld scan --survey {self.shown}` "
                "on a machine makes one"
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise PlaceError(f"{self.shown}: cannot be listed: {inert(error)}") from error
        refused: dict[str, str] = {}
        if self.local:
            folders = sorted(i.path for i in found if i.type == fs.FileType.Directory)
            found = []
            for folder in folders:
                name = folder.rpartition("/")[2]
                if not name.startswith("date=") or (first is not None and name[5:] < first):
                    continue
                try:
                    found += self._infos(folder)
                except (OSError, pa.ArrowException) as error:
                    number = error.errno if isinstance(error, OSError) else None
                    refused[folder] = os.strerror(number) if number else inert(error)
        stored = [self._stored(info, top) for info in found if info.type == fs.FileType.File]
        kept = [file for file in stored if file and (first is None or file.date >= first)]
        return sorted(kept, key=lambda file: file.path), refused

    def _infos(self, folder: str, recursive: bool = False) -> list[fs.FileInfo]:
        return list(self.files.get_file_info(fs.FileSelector(folder, recursive=recursive)))

    def _stored(self, info: fs.FileInfo, top: str) -> StoredFile | None:
        day, _, name = info.path[len(top) :].lstrip("/").partition("/")
        hidden = name.startswith(".") or "/" in name
        if hidden or not day.startswith("date=") or not name.endswith(".parquet"):
            return None
        size = _on_disk(info) if self.local else info.size
        return StoredFile(info.path, name, day[5:], size, info.mtime)

    def open(self, path: str) -> pa.NativeFile:
        """A file for reading at any position."""
        if self.local and not stat.S_ISREG(os.stat(path).st_mode):
            raise FileNotFoundError(errno.ENOENT, "it is no file any more", path)
        return self.files.open_input_file(path)

    @contextmanager
    def on_disk(self, paths: list[str]) -> Iterator[list[str]]:
        """The files as paths that every engine can open; copies, from an object store."""
        if self.local and _PLAIN.fullmatch(self.root):
            yield paths
            return
        with tempfile.TemporaryDirectory(prefix="zmeld-fleet-") as folder:
            if self.local:
                link = os.path.join(folder, "place")
                os.symlink(self.root, link)
                yield [link + path[len(self.root) :] for path in paths]
                return
            yield [self._fetch(path, f"{folder}/{at}.parquet") for at, path in enumerate(paths)]

    def _fetch(self, path: str, target: str) -> str:
        fs.copy_files(path, target, self.files, fs.LocalFileSystem())
        return target


def _on_disk(info: fs.FileInfo) -> int:
    """Holes say nothing: a file is no larger than twice what it holds.

    Blocks do not tell: some file systems count them late, and some put small files elsewhere.
    """
    held = at = 0
    with suppress(OSError), open(os.open(info.path, os.O_NONBLOCK), "rb") as file:
        while at < info.size:
            start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            held += at - start
    return min(info.size, 2 * held) if held else info.size


def open_place(place: str) -> Place:
    """PLACE as it is written: a folder, `s3://`, `gs://`, `az://`."""
    scheme = urlsplit(place).scheme
    if scheme in ("", "file") or "://" not in place:
        folder = os.path.abspath(place.removeprefix("file://"))
        if not os.path.isdir(folder):
            raise PlaceError(f"{inert(place)}: not a folder; give the PLACE of the surveys")
        return Place(inert(place), folder, fs.LocalFileSystem(), True)
    return _open_url(place, scheme)


def _open_url(place: str, scheme: str) -> Place:
    shown = inert(_USER.sub("//", place))
    root = place.partition("://")[2].rstrip("/")
    try:
        if scheme == "az":
            account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
            return Place(shown, root, fs.AzureFileSystem(account_name=account), False)
        if scheme == "s3" and (endpoint := os.environ.get("AWS_ENDPOINT_URL")):
            return Place(shown, root, fs.S3FileSystem(endpoint_override=endpoint), False)
        if scheme in ("s3", "gs"):
            files, root = fs.FileSystem.from_uri(place)
            return Place(shown, root.rstrip("/"), files, False)
    except (OSError, pa.ArrowException, AttributeError) as error:
        said = inert(_USER.sub("//", str(error)))
        raise PlaceError(f"{shown}: cannot be opened: {said}") from error
    raise PlaceError(f"{shown}: give a folder, or a URL with s3://, gs:// or az://")

# SPDX-License-Identifier: GPL-2.0-or-later
"""What the pages of a Parquet file unpack to, by the headers that readers go by.

A footer says how large a row group is in memory, and nobody holds it to that: readers take
what each page's header says, up to 2 GiB for a page of a few bytes. So headers are read
(Thrift's compact protocol, parquet.thrift), before any page is unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HEADER_MAX = 1 << 16
PAGES_MAX = 2_000
DEPTH_MAX = 8
DELTA_BYTE_ARRAY = 7
"""Texts that repeat the start of the one before: a few bytes can be a text of any length."""
_UNPACKED, _PACKED, _DATA, _DATA_2 = 2, 3, 5, 8
_ENCODING = {_DATA: 2, _DATA_2: 4}


class PageError(ValueError):
    """A header that makes no sense."""


class UnlikeError(Exception):
    """A page that is right, and that no survey has."""


def unpacked(file: pa.NativeFile, group: pq.RowGroupMetaData, names: set[str]) -> int:
    """Bytes that these columns of a row group take when all of their pages are unpacked."""
    total = 0
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema in names:
            total += sum(_pages(file, column))
    return total


def _pages(file: pa.NativeFile, column: pq.ColumnChunkMetaData) -> Iterator[int]:
    first = column.dictionary_page_offset if column.has_dictionary_page else None
    # Without rows it may have a dictionary and no page of data, whose place is then 0.
    at = min(place for place in (column.data_page_offset, first or 0, 1 << 62) if place > 0)
    end = at + column.total_compressed_size
    for _ in range(PAGES_MAX):
        if at >= end:
            return
        fields, length = _header(file, at)
        size, packed = fields.get(_UNPACKED), fields.get(_PACKED)
        if not isinstance(size, int) or not isinstance(packed, int) or min(size, packed) < 0:
            raise PageError(f"{column.path_in_schema} has a page without its size")
        for kind, encoding in _ENCODING.items():
            data = fields.get(kind)
            if isinstance(data, dict) and data.get(encoding) == DELTA_BYTE_ARRAY:
                raise UnlikeError(f"{column.path_in_schema} is packed as no survey's is")
        yield size
        at += length + packed
    raise UnlikeError(f"{column.path_in_schema} has more than {PAGES_MAX} pages")


def _header(file: pa.NativeFile, at: int) -> tuple[dict[int, Any], int]:
    for most in (256, HEADER_MAX):
        reader = _Compact(file.read_at(most, at))
        try:
            return reader.fields(0), reader.at
        except IndexError:
            continue
    raise PageError("a page has a header that does not end")


class _Compact:
    """Numbers and structures; of the rest only where it ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self, depth: int) -> dict[int, Any]:
        if depth > DEPTH_MAX:
            raise PageError("a page has a header that does not end")
        found: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._number()
            found[number] = self._value(byte & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self._number()
        if kind == 8:
            return self._pass(self._varint())
        if kind == 12:
            return self.fields(depth + 1)
        lengths = {3: 1, 7: 8}
        if kind not in lengths:
            raise PageError("a page has a header that is none")
        return self._pass(lengths[kind])

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _pass(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise PageError("a page has a header that is none")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

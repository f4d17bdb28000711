# SPDX-License-Identifier: GPL-2.0-or-later
"""The format `zmeld.survey/2` (docs/survey.md): its columns, its bounds, its order."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = "zmeld.survey/2"
FOLDER = "zmeld-survey-2"
PACKED_PREFIX = "packed-"

MACHINE, LABEL, OWNER, SIZE, CONTENT = "machine", "label", "owner", "size", "content"

CODECS = ("lzo_rle", "lz4", "zstd", "zword")

BLOCK = 4096
"""Bytes in which half-widths of intervals are added up."""

HASH_MIN = -(2**63)
THETA_ALL = 2**63 - 1
"""theta of an owner whose contents are all listed."""

_T, _I, _D = pa.string(), pa.int64(), pa.float64()

MACHINE_COLUMNS: dict[str, pa.DataType] = {
    "key_id": _T,
    "host": _T,
    "zmeld_version": _T,
    "kernel": _T,
    "architecture": _T,
    "distribution": _T,
    "page_size": _I,
    "ram_bytes": _I,
    "swap_bytes": _I,
    "swap_used_bytes": _I,
    "compressed_swap": _T,
    "ksm_pages_shared": _I,
    "ksm_pages_sharing": _I,
    "memory_some_avg300": _D,
    "memory_full_avg300": _D,
    "uptime_seconds": _D,
    "seconds": _D,
    "cpu_seconds": _D,
    "interrupted": pa.bool_(),
    "selection": _T,
    "processes_refused": _I,
    "sketch_size": _I,
    "rows": _I,
}

OWNER_COLUMNS: dict[str, pa.DataType] = {
    "owner": _T,
    "kind": _T,
    "name": _T,
    "namespace": _T,
    "pod": _T,
    "image": _T,
    "processes": _I,
    "pages": _I,
    "pages_zero": _I,
    "pages_same": _I,
    "pages_distinct": _D,
    "pages_distinct_low": _D,
    "pages_distinct_high": _D,
    "pages_anonymous": _I,
    "pages_shared_memory": _I,
    "pages_file": _I,
    "pages_swapped": _I,
    "pages_ksm": _I,
    "pages_huge": _I,
    "pages_locked": _I,
    "pages_skipped": _I,
    "idle_1m": _I,
    "idle_10m": _I,
    "idle_1h": _I,
    "theta": _I,
}
for _codec in CODECS:
    for _what in ("pool", "melded"):
        for _end in ("", "_low", "_high"):
            OWNER_COLUMNS[f"{_what}_{_codec}{_end}"] = _D

CONTENT_COLUMNS: dict[str, pa.DataType] = {
    "hash_high": _I,
    "hash_low": _I,
    "count": _I,
    "object_class": pa.int32(),
}

CLASSES = 8
"""Of sizes: eighths of a page that a content takes with zstd."""

SIZE_COLUMNS: dict[str, pa.DataType] = {}
for _codec in CODECS:
    SIZE_COLUMNS[f"bytes_{_codec}"] = _I
    SIZE_COLUMNS[f"squares_{_codec}"] = _I

DIGEST = b"zmeld.columns_crc32"
"""The key in a file's metadata: the CRC-32 of all columns' bytes."""

COLUMNS: dict[str, pa.DataType] = {
    "schema": _T,
    "record": _T,
    "machine": _T,
    "survey": _T,
    "time": pa.timestamp("us", tz="UTC"),
    **MACHINE_COLUMNS,
    "label_name": _T,
    "label_value": _T,
    **OWNER_COLUMNS,
    **CONTENT_COLUMNS,
    **SIZE_COLUMNS,
}

ARROW = pa.schema(list(COLUMNS.items()))


def sampled(theta: int) -> float:
    """The share of all contents that has a hash below `theta`: p of docs/survey.md."""
    return 1.0 if theta == THETA_ALL else (theta - HASH_MIN) / 2.0**64


def bound_of(share: float) -> int:
    """The hash below which that share of all contents stands; `THETA_ALL` from 1 on."""
    if share >= 1.0:
        return THETA_ALL
    return HASH_MIN + int(share * 2.0**64)

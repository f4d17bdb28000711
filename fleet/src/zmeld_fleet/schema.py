# SPDX-License-Identifier: GPL-2.0-or-later
"""The format `zmeld.survey/2` (docs/survey.md): its columns, its bounds, its order."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = "zmeld.survey/2"
FOLDER = "zmeld-survey-2"

RECORDS = MACHINE, LABEL, OWNER, SIZE, CONTENT = "machine", "label", "owner", "size", "content"

CODECS = ("lzo_rle", "lz4", "zstd", "zword")

HASH_MIN = -(2**63)
THETA_ALL = 2**63 - 1
"""theta of an owner whose contents are all listed."""

_T, _I, _D = pa.string(), pa.int64(), pa.float64()
Columns = dict[str, pa.DataType]


def _of(kind: pa.DataType, names: str) -> Columns:
    return dict.fromkeys(names.split(), kind)


MACHINE_COLUMNS: Columns = (
    _of(_T, "key_id host zmeld_version kernel architecture distribution")
    | _of(_I, "page_size ram_bytes swap_bytes swap_used_bytes")
    | _of(_T, "compressed_swap")
    | _of(_I, "ksm_pages_shared ksm_pages_sharing")
    | _of(_D, "memory_some_avg300 memory_full_avg300 uptime_seconds seconds cpu_seconds")
    | _of(pa.bool_(), "interrupted")
    | _of(_T, "selection")
    | _of(_I, "processes_refused sketch_size rows")
    | _of(_T, "zram_codecs")
    | _of(pa.bool_(), "modules")
)

NEW = ("zram_codecs", "modules")
"""Columns that older surveys lack: they are NULL there."""

OWNER_COLUMNS: Columns = (
    _of(_T, "owner kind name namespace pod image")
    | _of(_I, "processes pages pages_zero pages_same")
    | _of(_D, "pages_distinct pages_distinct_low pages_distinct_high")
    | _of(_I, "pages_anonymous pages_shared_memory pages_file pages_swapped pages_ksm")
    | _of(_I, "pages_huge pages_locked pages_skipped idle_1m idle_10m idle_1h theta")
)
for _codec in CODECS:
    for _what in (f"pool_{_codec}", f"melded_{_codec}"):
        OWNER_COLUMNS |= _of(_D, f"{_what} {_what}_low {_what}_high")

CONTENT_COLUMNS: Columns = _of(_I, "hash_high hash_low count") | _of(pa.int32(), "object_class")

CLASSES = 8
"""Of sizes: eighths of a page that a content takes with zstd."""

SIZE_COLUMNS: Columns = {}
for _codec in CODECS:
    SIZE_COLUMNS |= _of(_I, f"bytes_{_codec} squares_{_codec}")

DIGEST = b"zmeld.columns_crc32"
"""The key in a file's metadata: the CRC-32 of all columns' bytes."""

COLUMNS: Columns = (
    _of(_T, "schema record machine survey")
    | {"time": pa.timestamp("us", tz="UTC")}
    | MACHINE_COLUMNS
    | _of(_T, "label_name label_value")
    | OWNER_COLUMNS
    | CONTENT_COLUMNS
    | SIZE_COLUMNS
)

ARROW = pa.schema(list(COLUMNS.items()))


def sampled(theta: int) -> float:
    """The share of all contents that has a hash below `theta`: p of docs/survey.md."""
    return 1.0 if theta == THETA_ALL else (theta - HASH_MIN) / 2.0**64


def bound_of(share: float) -> int:
    """The hash below which that share of all contents stands; `THETA_ALL` from 1 on."""
    if share >= 1.0:
        return THETA_ALL
    return HASH_MIN + int(share * 2.0**64)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a survey that stands in two files says the same in both.

Its rows are added up as numbers that depend on a secret of this run, so their order does
not matter and nobody can write other rows that come to the same.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zmeld_fleet.schema import CONTENT

_KEY = secrets.token_bytes(32)
_ODD = np.uint64(secrets.randbits(64) | 1)
_SHIFT = np.uint64(29)
_NUMBERS = ("hash_high", "hash_low", "count", "object_class")


def digests(path: str) -> dict[str, int]:
    """Of each survey in the file a number that stands for all of its rows."""
    found: dict[str, int] = defaultdict(int)
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            content = pc.equal(table["record"], CONTENT)
            for row in table.filter(pc.invert(content)).to_pylist():
                said = sorted((key, value) for key, value in row.items() if value is not None)
                found[row["survey"]] += _of_text(repr(said))
            for survey, number in _of_contents(table.filter(content)).items():
                found[survey] += number
    return {survey: number % 2**64 for survey, number in found.items()}


def _of_text(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), key=_KEY, digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _of_contents(table: pa.Table) -> dict[str, int]:
    if len(table) == 0:
        return {}
    survey, names = _numbered(table["survey"])
    owner, owners = _numbered(table["owner"])
    mixed = np.array([_of_text(repr(name)) for name in owners], np.uint64)[owner]
    for name in _NUMBERS:
        column = pc.fill_null(table[name].cast(pa.int64()), -1).to_numpy()
        mixed = (mixed ^ column.view(np.uint64)) * _ODD
        mixed ^= mixed >> _SHIFT
    sums = np.zeros(len(names), np.uint64)
    np.add.at(sums, survey, mixed)
    return dict(zip(names, sums.tolist(), strict=True))


def _numbered(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    encoded = pc.dictionary_encode(column.cast(pa.string()), null_encoding="encode")
    one = encoded.unify_dictionaries().combine_chunks()
    chunk = one.chunk(0) if isinstance(one, pa.ChunkedArray) else one
    return chunk.indices.to_numpy(), chunk.dictionary.to_pylist()

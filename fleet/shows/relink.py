# SPDX-License-Identifier: GPL-2.0-or-later
"""What of two surveys can be linked though they were made with different keys.

    PYTHONPATH=fleet/src python fleet/shows/relink.py OLD.parquet NEW.parquet

Who has no key sees of a content its class of sizes and on how many pages it stands. This
counts the contents of an owner that these tell from all others of it, in both surveys, and so
link. Contents of one owner are the same in both where the process did not change in between.
"""

from __future__ import annotations

import sys
from collections import Counter

import pyarrow.compute as pc
import pyarrow.parquet as pq


def contents(path: str) -> dict[str, Counter[tuple[int, int]]]:
    """Of each owner, how many contents have each pair of class and pages."""
    names = ["record", "owner", "object_class", "count"]
    with pq.ParquetFile(path) as file:
        table = file.read(columns=names)
    table = table.filter(pc.equal(table["record"], "content"))
    found: dict[str, Counter[tuple[int, int]]] = {}
    for row in table.to_pylist():
        key = (row["object_class"], row["count"])
        found.setdefault(row["owner"], Counter())[key] += 1
    return found


def linked(old_path: str, new_path: str) -> tuple[int, int]:
    """How many contents are linked, and how many there are in the first."""
    old, new = contents(old_path), contents(new_path)
    seen = found = 0
    for owner in old.keys() & new.keys():
        seen += old[owner].total()
        found += sum(new[owner][key] == 1 for key, times in old[owner].items() if times == 1)
    return found, seen


if __name__ == "__main__":
    print(
        "{} of {} contents are linked by class and number of pages".format(*linked(*sys.argv[1:]))
    )

# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes very many surveys for measurements: `python scale.py PLACE MACHINES CONTENTS files|united`.

Machines are made from a few whose pages are known: with other ids, other hashes for what is theirs
alone, and those of their libraries as they are.
"""

from __future__ import annotations

import secrets
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from made import Machine, Owner, contents, hashes, table_of, write
from zmeld_fleet import schema, unite

SERVICES = 10
LIBRARY = 600


def models(sampled: int) -> list[pa.Table]:
    """Machines with so many sampled contents, in ten services."""
    k, found = sampled // SERVICES, []
    for at in range(5):
        library = contents("libc", LIBRARY)
        owners = [
            Owner(
                f"/system.slice/s{one}.service",
                np.concatenate([library, contents((at, one), k * (one + 2))]),
                facts={"idle_10m": k, "idle_1m": k, "idle_1h": k // 2},
            )
            for one in range(SERVICES)
        ]
        found.append(table_of(Machine(f"m{at}", owners, {"role": f"role{at}"}, k=k)))
    return found


def another(model: pa.Table, random: np.random.Generator, moment: datetime) -> pa.Table:
    """A machine like it."""
    shared = np.isin(model["hash_high"].to_numpy(zero_copy_only=False), LIBRARY_HASHES)
    is_content = pc.equal(model["record"], "content").to_numpy()
    high = model["hash_high"].to_numpy(zero_copy_only=False).copy()
    own = is_content & ~shared
    # Near where it was: below the bound of its sketch all the same.
    high[own] -= random.integers(0, 1 << 40, own.sum())
    named = {"machine": secrets.token_hex(16), "survey": secrets.token_hex(16)}
    table = model
    for name, value in {**named, "time": moment}.items():
        column = pa.repeat(pa.scalar(value, schema.COLUMNS[name]), len(model))
        table = table.set_column(table.column_names.index(name), name, column)
    filled = pa.array(np.where(is_content, high, 0).astype(np.int64), mask=~is_content)
    return table.set_column(table.column_names.index("hash_high"), "hash_high", filled)


LIBRARY_HASHES = hashes(contents("libc", LIBRARY))[0]


def main(place: Path, machines: int, sampled: int, form: str) -> None:
    random = np.random.default_rng(1)
    moment = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1)
    made = models(sampled)
    for start in range(0, machines, each := max(1, unite.ROWS_MAX // (sampled + 20))):
        batch = [
            another(made[at % len(made)], random, moment)
            for at in range(start, min(start + each, machines))
        ]
        if form == "files":
            for table in batch:
                ids = table["survey"][0].as_py(), table["machine"][0].as_py()
                whose = Machine("", [], time=moment, survey=ids[0])
                Machine.machine = property(lambda _, own=ids[1]: own)
                write(place, whose, table)
            continue
        facts, columns = [], []
        owners = unite._Texts()
        for number, table in enumerate(batch):
            is_content = pc.equal(table["record"], "content")
            facts.append(table.filter(pc.invert(is_content)))
            rows = table.filter(is_content)
            columns.append(
                [np.full(len(rows), number), owners.numbers(rows["owner"])]
                + [rows[name].to_numpy() for name in unite.CONTENT[1:]]
            )
        folder = place / schema.FOLDER / f"date={moment:%Y-%m-%d}"
        folder.mkdir(parents=True, exist_ok=True)
        surveys = pa.array([table["survey"][0].as_py() for table in batch])
        joined = [np.concatenate(own) for own in zip(*columns, strict=True)]
        unite.write(folder, pa.concat_tables(facts), surveys, owners.texts, joined, 0o600)
        print(start + len(batch), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

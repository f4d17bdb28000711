# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes very many surveys to measure: `python scale.py PLACE MACHINES CONTENTS files|united`.

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


LIBRARY_HASHES = hashes(contents("libc", LIBRARY))[0]


def ids(count: int) -> pa.Array:
    """So many names of chance."""
    return pa.array([secrets.token_hex(16) for _ in range(count)])


def many(model: pa.Table, count: int, moment: datetime) -> tuple[pa.Table, pa.Table]:
    """So many machines like it: their rows, those about contents by themselves."""
    random = np.random.default_rng(secrets.randbits(64))
    names = {"machine": ids(count), "survey": ids(count), "host": ids(count)}
    is_content = pc.equal(model["record"], schema.CONTENT)
    found = []
    told = ["machine", "host", "time", *unite.CONTENT]
    for rows in (model.filter(pc.invert(is_content)), model.filter(is_content).select(told)):
        whose = pa.array(np.repeat(np.arange(count), len(rows)))
        table = rows.take(pa.array(np.tile(np.arange(len(rows)), count)))
        values = {name: own.take(whose) for name, own in names.items()}
        values["host"] = pc.if_else(pc.is_valid(table["host"]), values["host"], None)
        values["time"] = pa.repeat(pa.scalar(moment, schema.COLUMNS["time"]), len(table))
        if rows["hash_high"].null_count == 0:
            high = table["hash_high"].to_numpy().copy()
            own = ~np.isin(high, LIBRARY_HASHES)
            # Near where it was: below the bound of its sketch all the same.
            high[own] -= random.integers(0, 1 << 40, own.sum())
            values["hash_high"] = pa.array(high)
        for name, column in values.items():
            table = table.set_column(table.column_names.index(name), name, column)
        found.append(table)
    return found[0], found[1]


def main(place: Path, machines: int, sampled: int, form: str) -> None:
    moment = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1)
    made = models(sampled)
    each = unite.ROWS_MAX // (sampled + 20) // len(made) if form == "united" else 20
    folder = place / schema.FOLDER / f"date={moment:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, machines // len(made), each):
        count = min(each, machines // len(made) - start)
        parts = [many(model, count, moment) for model in made]
        if form == "files":
            for facts, rows in parts:
                facts, rows = facts.cast(schema.ARROW), unite.whole_rows(rows)
                for one in range(count):
                    each_has = [(part, len(part) // count) for part in (facts, rows)]
                    own = [part.slice(one * has, has) for part, has in each_has]
                    whose = Machine(secrets.token_hex(8), [], time=moment)
                    write(place, whose, pa.concat_tables(own))
            continue
        facts = pa.concat_tables([part[0] for part in parts]).cast(schema.ARROW)
        rows = pa.concat_tables([part[1] for part in parts])
        for at, name in enumerate(rows.column_names):
            if name in ("survey", "owner"):
                rows = rows.set_column(at, name, rows[name].dictionary_encode())
        unite.write(folder, facts, rows.select(unite.CONTENT), 0o600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions, once for all engines, as Ibis expressions over the rows of surveys.

Invariants:
- Nothing but what SQL has everywhere: filter, join, group, count, sum, minimum, maximum,
  floor, cast. No function of one engine.
- What is added up is whole numbers, so that the order in which an engine adds does not
  matter and two engines agree to the last bit. Estimates are rounded to whole bytes
  first, half the width of an interval to blocks of 4 KiB, so that no sum of squares of a
  survey leaves 64 bits.
- No sum over contents holds a square that grows with the number of machines: contents
  are counted by how many hold them, and Python squares.
"""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

from zmeld_fleet.schema import BLOCK, CODECS, COLUMNS, CONTENT, OWNER

SURVEYS = ibis.schema(
    {
        "survey": "string",
        "kind": "int64",
        "survey_bound": "int64",
        "kind_bound": "int64",
        "fleet_bound": "int64",
    }
)
"""Which surveys are asked about, of which kind of machine, and below which hash."""


def rows() -> ir.Table:
    """The rows of surveys, bound to no engine: for SQL that is only generated."""
    kinds = {name: _ibis_type(kind) for name, kind in COLUMNS.items()}
    return ibis.table(kinds, name="survey_rows")


def surveys() -> ir.Table:
    """The chosen surveys, bound to no engine."""
    return ibis.table(SURVEYS, name="chosen_surveys")


def _ibis_type(kind: object) -> str:
    names = {"string": "string", "int64": "int64", "int32": "int32", "double": "float64"}
    return names.get(str(kind), "boolean" if str(kind) == "bool" else "timestamp('UTC', 6)")


def _whole(column: ir.Value) -> ir.Value:
    # Engines differ in how they round halves, and agree in what the floor is.
    return (column + 0.5).floor().cast("int64")


def _blocks(low: ir.Value, high: ir.Value) -> ir.Value:
    return _whole((high - low) / (2.0 * BLOCK))


def _pages(low: ir.Value, high: ir.Value) -> ir.Value:
    return _whole((high - low) / 2.0)


_COUNTS = (
    "pages",
    "pages_zero",
    "pages_same",
    "pages_swapped",
    "pages_file",
    "pages_ksm",
    "pages_skipped",
    "idle_1h",
)


def united(parts: list[ir.Table]) -> ir.Table:
    """The rows of several reads, in the columns of the format."""
    if len(parts) == 1:
        return parts[0]
    names = list(COLUMNS)
    return ibis.union(*(part.select(names) for part in parts))


def owner_sums(table: ir.Table) -> ir.Table:
    """A row for each survey: sums over its owners."""
    owners = table.filter(table.record == OWNER)
    half = _pages(owners.pages_distinct_low, owners.pages_distinct_high)
    sums = {
        "owners": owners.count(),
        "theta": owners.theta.min(),
        "distinct": _whole(owners.pages_distinct).sum(),
        "distinct_half": half.sum(),
        "distinct_squares": (half * half).sum(),
    }
    for name in _COUNTS:
        sums[name] = owners[name].sum()
    for codec in CODECS:
        sums.update(_codec_sums(owners, codec))
    return owners.group_by("survey").agg(**sums)


def _codec_sums(owners: ir.Table, codec: str) -> dict[str, ir.Scalar]:
    pool = owners[f"pool_{codec}"]
    half = _blocks(owners[f"pool_{codec}_low"], owners[f"pool_{codec}_high"])
    melded = owners[f"melded_{codec}"]
    melded_half = _blocks(owners[f"melded_{codec}_low"], owners[f"melded_{codec}_high"])
    return {
        f"measured_{codec}": pool.count(),
        f"pool_{codec}": _whole(pool).sum(),
        f"pool_{codec}_squares": (half * half).sum(),
        f"melded_{codec}": _whole(melded).sum(),
        f"melded_{codec}_half": melded_half.sum(),
    }


def owners_by_name(table: ir.Table, chosen: ir.Table, most: int) -> ir.Table:
    """The names that hold most pages: services, containers, machines of that name."""
    owners = table.filter(table.record == OWNER)
    named = owners.join(chosen, "survey").select(
        *("survey", "name", "pages", "pages_zero", "pages_same"),
        *(f"pages_distinct{end}" for end in ("", "_low", "_high")),
        *(f"melded_{codec}{end}" for codec in CODECS for end in ("", "_low", "_high")),
        owner_kind=owners["kind"],
    )
    sums = {
        "surveys": named.survey.nunique(),
        "owners": named.count(),
        "pages": named.pages.sum(),
        "pages_zero": named.pages_zero.sum(),
        "pages_same": named.pages_same.sum(),
        "distinct": _whole(named.pages_distinct).sum(),
        "distinct_half": _pages(named.pages_distinct_low, named.pages_distinct_high).sum(),
    }
    for codec in CODECS:
        melded = f"melded_{codec}"
        sums[melded] = _whole(named[melded]).sum()
        sums[f"{melded}_half"] = _blocks(named[f"{melded}_low"], named[f"{melded}_high"]).sum()
    found = named.group_by("owner_kind", "name").agg(**sums)
    order = [ibis.desc("pages"), ibis.asc("owner_kind"), ibis.asc("name")]
    return found.order_by(order).limit(most)


_HASH = ("hash_high", "hash_low")
_OBJECTS = tuple(f"object_{codec}" for codec in CODECS)


def contents(table: ir.Table, chosen: ir.Table, bound: int) -> ir.Table:
    """A row for each content of a survey that is below the survey's bound.

    `bound` is the largest of all bounds: said by itself, it keeps engines from reading
    what no survey needs, since files are sorted by hash.
    """
    sampled = table.filter(table.record == CONTENT, table.hash_high < bound)
    sampled = sampled.select("survey", *_HASH, *_OBJECTS)
    joined = sampled.join(chosen, "survey")
    below = joined.filter(joined.hash_high < joined.survey_bound)
    keys = ("survey", "kind", "kind_bound", "fleet_bound", *_HASH)
    objects = {name: below[name].max().cast("int64") for name in _OBJECTS}
    return below.group_by(*keys).agg(owners=below.count(), **objects)


def _tally(table: ir.Table, *keys: str) -> ir.Table:
    """Contents counted by how many hold them, with the sums that intervals need."""
    sums: dict[str, ir.Scalar] = {"contents": table.count()}
    for name in _OBJECTS:
        sums[name] = table[name].sum()
        sums[f"{name}_squares"] = (table[name] * table[name]).sum()
    return table.group_by(*keys).agg(**sums)


def within_surveys(found: ir.Table) -> ir.Table:
    """Of each survey: contents that several of its owners hold."""
    return _tally(found.filter(found.owners > 1), "survey", "owners")


def by_kind(found: ir.Table) -> ir.Table:
    """A row for each content of a kind of machine, below the bound of the kind."""
    below = found.filter(found.hash_high < found.kind_bound)
    objects = {name: below[name].max() for name in _OBJECTS}
    return below.group_by("kind", "fleet_bound", *_HASH).agg(
        owners=below.owners.sum().cast("int64"), machines=below.count(), **objects
    )


def within_kinds(kinds: ir.Table) -> ir.Table:
    """Of each kind: contents by owners and machines that hold them."""
    return _tally(kinds, "kind", "owners", "machines")


def whole_fleet(kinds: ir.Table) -> ir.Table:
    """Of all machines: contents by owners, machines and kinds that hold them."""
    below = kinds.filter(kinds.hash_high < kinds.fleet_bound)
    objects = {name: below[name].max() for name in _OBJECTS}
    everywhere = below.group_by(*_HASH).agg(
        owners=below.owners.sum().cast("int64"),
        machines=below.machines.sum().cast("int64"),
        kinds=below.count(),
        **objects,
    )
    return _tally(everywhere, "owners", "machines", "kinds")

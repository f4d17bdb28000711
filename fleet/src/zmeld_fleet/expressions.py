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

from zmeld_fleet.schema import BLOCK, CODECS, COLUMNS, CONTENT, OWNER, SIZE, SIZE_COLUMNS


def _whole(column: ir.Value) -> ir.Value:
    # Engines differ in how they round halves, and agree in what the floor is.
    return (column + 0.5).floor().cast("int64")


def _half(table: ir.Table, name: str, unit: int) -> ir.Value:
    return _whole((table[f"{name}_high"] - table[f"{name}_low"]) / (2.0 * unit))


_COUNTS = ("pages", "pages_zero", "pages_same", "pages_swapped")
_ESTIMATES = {"pages_distinct": 1} | {
    f"{of}_{codec}": BLOCK for codec in CODECS for of in ("pool", "melded")
}
_MELDED = [name for name in _ESTIMATES if not name.startswith("pool")]


def united(parts: list[ir.Table]) -> ir.Table:
    """The rows of several reads, in the columns of the format."""
    return ibis.union(*(part.select(*COLUMNS) for part in parts))


def _sums(table: ir.Table, name: str, unit: int) -> dict[str, ir.Scalar]:
    """Of estimates the values, and half the widths of their intervals."""
    return {name: _whole(table[name]).sum(), f"{name}_half": _half(table, name, unit).sum()}


def owner_sums(table: ir.Table) -> ir.Table:
    """A row for each survey: sums over its owners."""
    owners = table.filter(table.record == OWNER)
    sums = {"owners": owners.count(), "theta": owners.theta.min()}
    sums |= {name: owners[name].sum() for name in _COUNTS}
    for name, unit in _ESTIMATES.items():
        sums |= _sums(owners, name, unit)
        if not name.startswith("melded"):
            half = _half(owners, name, unit)
            sums[f"{name}_squares"] = (half * half).sum()
    return owners.group_by("survey").agg(**sums)


def owners_by_name(table: ir.Table, chosen: ir.Table, most: int) -> ir.Table:
    """The names that hold most pages: services, containers, machines of that name."""
    owners = table.filter(table.record == OWNER)
    named = owners.join(chosen, "survey").select(
        *("survey", "name", "pages", "pages_zero", "pages_same"),
        *(f"{name}{end}" for name in _MELDED for end in ("", "_low", "_high")),
        owner_kind=owners["kind"],
    )
    sums = {
        "surveys": named.survey.nunique(),
        "owners": named.count(),
        "pages": named.pages.sum(),
        "pages_zero": named.pages_zero.sum(),
        "pages_same": named.pages_same.sum(),
    }
    for name in _MELDED:
        sums |= _sums(named, name, _ESTIMATES[name])
    found = named.group_by("owner_kind", "name").agg(**sums)
    order = [ibis.desc("pages"), ibis.asc("owner_kind"), ibis.asc("name")]
    return found.order_by(order).limit(most)


_HASH = ("hash_high", "hash_low")


def contents(table: ir.Table, chosen: ir.Table, bound: int) -> ir.Table:
    """A row for each content of a survey that is below the survey's bound.

    `bound` is the largest of all bounds: said by itself, it keeps engines from reading
    what no survey needs, since files are sorted by hash.
    """
    sampled = table.filter(table.record == CONTENT, table.hash_high < bound)
    # Whose owner has no row of its own is nobody's, however many such there are.
    owned = sampled.semi_join(table.filter(table.record == OWNER), ("survey", "owner"))
    owned = owned.select("survey", "owner", *_HASH, "object_class")
    joined = owned.join(chosen, "survey")
    below = joined.filter(joined.hash_high < joined.survey_bound)
    keys = ("survey", "kind", "kind_bound", "fleet_bound", *_HASH)
    return below.group_by(*keys).agg(
        owners=below.owner.nunique(), object_class=below.object_class.max().cast("int64")
    )


def class_sizes(table: ir.Table, chosen: ir.Table) -> ir.Table:
    """What contents of each class of sizes take, over all surveys."""
    sizes = table.filter(table.record == SIZE).select(
        "survey", "object_class", "count", *SIZE_COLUMNS
    )
    joined = sizes.join(chosen, "survey")
    # Squares of large pages leave 64 bits, which some engines do not notice.
    whole = {name: joined[name].cast("decimal(38, 0)") for name in ("count", *SIZE_COLUMNS)}
    sums = {name: value.sum() for name, value in whole.items()}
    return joined.group_by("object_class").agg(**sums)


def _tally(table: ir.Table, *keys: str) -> ir.Table:
    """Contents counted by how many hold them and by their class of sizes."""
    return table.group_by(*keys, "object_class").agg(contents=table.count())


def within_surveys(found: ir.Table) -> ir.Table:
    """Of each survey: contents that several of its owners hold."""
    return _tally(found.filter(found.owners > 1), "survey", "owners")


def by_kind(found: ir.Table) -> ir.Table:
    """A row for each content of a kind of machine, below the bound of the kind."""
    below = found.filter(found.hash_high < found.kind_bound)
    return below.group_by("kind", "fleet_bound", *_HASH).agg(
        owners=below.owners.sum().cast("int64"),
        machines=below.count(),
        object_class=below.object_class.max(),
    )


def within_kinds(kinds: ir.Table) -> ir.Table:
    """Of each kind: contents by owners and machines that hold them."""
    return _tally(kinds, "kind", "owners", "machines")


def whole_fleet(kinds: ir.Table) -> ir.Table:
    """Of all machines: contents by owners, machines and kinds that hold them."""
    below = kinds.filter(kinds.hash_high < kinds.fleet_bound)
    everywhere = below.group_by(*_HASH).agg(
        owners=below.owners.sum().cast("int64"),
        machines=below.machines.sum().cast("int64"),
        kinds=below.count(),
        object_class=below.object_class.max(),
    )
    return _tally(everywhere, "owners", "machines", "kinds")


_WORKLOAD = ("survey", "owner", "kind", "name", "namespace", "pod", "image")


def workloads(table: ir.Table, chosen: ir.Table) -> ir.Table:
    """The owners of the chosen surveys."""
    owners = table.filter(table.record == OWNER)
    return owners.join(chosen, "survey").select(*_WORKLOAD, "pages", "pages_distinct", "theta")


def held_by_groups(table: ir.Table, asked: ir.Table, bound: int) -> ir.Table:
    """A row for each group and content below its bound: how many workloads hold it."""
    sampled = table.filter(table.record == CONTENT, table.hash_high < bound)
    joined = sampled.select("survey", "owner", *_HASH).join(asked, ("survey", "owner"))
    below = joined.filter(joined.hash_high < joined.bound).distinct()
    return below.group_by("group", "bound", *_HASH).agg(held=below.count().cast("int64"))


def between_groups(held: ir.Table) -> ir.Table:
    """Of each pair of groups: contents that both hold, by the pairs of workloads that do.

    Of a group with itself: pairs of two workloads of it.
    """
    names = {"group": "other", "bound": "other_bound", "held": "other_held"}
    other = held.select(*_HASH, **{new: held[name] for name, new in names.items()})
    both = held.join(other, _HASH)
    both = both.filter(
        both.group <= both.other, both.hash_high < both.bound, both.hash_high < both.other_bound
    )
    same = (both.group == both.other).cast("int64")
    pairs = both.select("group", "other", holders=both.held * (both.other_held - same))
    pairs = pairs.filter(pairs.holders > 0)
    return pairs.group_by("group", "other", "holders").agg(contents=pairs.count())

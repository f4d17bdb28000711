# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions about contents, once for all engines, as Ibis expressions.

Invariant: nothing but what SQL has everywhere (filter, join, group, count), and whole numbers
only, so that the order in which an engine adds does not matter and two engines agree.
"""

from __future__ import annotations

import ibis.expr.types as ir

from zmeld_fleet.schema import CONTENT

_HASH = ("hash_high", "hash_low")


def _contents(table: ir.Table, bound: int) -> ir.Table:
    """Rows about contents below a bound.

    `bound` is the largest of all that are asked for: said by itself, it keeps engines from
    reading what nobody needs, since files are sorted by hash.
    """
    return table.filter(table.record == CONTENT, table.hash_high < bound)


def of_owners(table: ir.Table, asked: ir.Table, bound: int) -> ir.Table:
    """A row for each content of the owners that are asked for, each once, by their numbers."""
    rows = _contents(table, bound).select("survey", "owner", *_HASH, "object_class")
    joined = rows.join(asked, ("survey", "owner"))
    below = joined.filter(joined.hash_high < joined.bound)
    return below.group_by("at", *_HASH).agg(object_class=below.object_class.max())


def by_kind(table: ir.Table, asked: ir.Table, bound: int) -> ir.Table:
    """A row for each content of a kind of machine, below the bound of the kind."""
    joined = _contents(table, bound).select("survey", *_HASH).join(asked, "survey")
    below = joined.filter(joined.hash_high < joined.kind_bound)
    return below.group_by("kind", "fleet_bound", *_HASH).agg(machines=below.survey.nunique())


def within_kinds(kinds: ir.Table) -> ir.Table:
    """Of each kind: contents by how many machines hold them."""
    return kinds.group_by("kind", "machines").agg(contents=kinds.count())


def whole_fleet(kinds: ir.Table) -> ir.Table:
    """Of all machines: contents by how many machines hold them."""
    below = kinds.filter(kinds.hash_high < kinds.fleet_bound)
    everywhere = below.group_by(*_HASH).agg(machines=below.machines.sum().cast("int64"))
    return everywhere.group_by("machines").agg(contents=everywhere.count())

# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers and names as `zmeld` writes them."""

from __future__ import annotations

import pytest

from zmeld_fleet import units
from zmeld_fleet.document import Table
from zmeld_fleet.estimate import Estimate, around
from zmeld_fleet.render_text import table
from zmeld_fleet.words import inert, width


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1024**3 * 4.213, "4.21 GiB")]
    + [(1023.7 * 1024, "1.00 MiB"), (1012 * 1024, "1012 KiB"), (-2048, "-2.00 KiB")]
    + [(float("nan"), "–"), (None, "–")],
)
def test_sizes(value, text):
    assert units.size(value) == text


def test_other_numbers():
    assert units.count(12345678) == "12\u202f345\u202f678"
    assert [units.percent(x) for x in (0.128, 0.0001, 0.9999)] == ["12.8 %", "<0.1 %", ">99.9 %"]
    assert [units.ratio(x) for x in (2.314, 12.34, 0.04, None)] == ["2.31x", "12.3x", "0.04x", "–"]
    assert units.size_estimate(around(2**30 * 2.31, 2**30 * 0.02)) == "2.31 ± 0.02 GiB"
    assert units.size_estimate(Estimate(2**20 * 2.0, 2**20 * 1.9, 2**20 * 4.0)).endswith("MiB")
    assert units.size_estimate(Estimate(0.0, 0.0, 2**20 * 40.0)) == "0 (0 to 40) MiB"


def test_text_of_others_is_inert():
    assert inert("a\x1b[1m\nb\u202ec") == "a\\x1b[1m\\x0ab\\u{202e}c"
    assert len(inert("x" * 10_000)) < 1000


def test_tables_fold_names_and_never_numbers():
    name = "web-" + "\u4e2d" * 100 + " 2.8 %"
    text = table(Table(["name"], ["size"], [[name, "1234567890 GiB"]]), 40)
    assert all(width(line) <= 40 for line in text.split("\n"))
    assert "1234567890 GiB" in text and "…" not in text and text.count("\u4e2d") == 100

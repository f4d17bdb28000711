# SPDX-License-Identifier: GPL-2.0-or-later
"""Sketches read back from files, against the pages that they were made from."""

from __future__ import annotations

import itertools
import random

from made import Machine, Owner, program, write
from zmeld_fleet import unions


def owners():
    made = [Owner(f"o{at}", program(f"own{at % 3}", 900 + 70 * at, 300)) for at in range(6)]
    made.append(Owner("small", {("small", at): 3 for at in range(40)}, zero=5))
    return made


def read(tmp_path, k):
    write(tmp_path, Machine("host", owners(), k=k))
    return unions.read(str(path) for path in tmp_path.rglob("*.parquet"))


def test_with_all_contents_everything_is_exact(tmp_path):
    sketches = read(tmp_path, 100_000)
    pages = {one.name: one.pages for one in owners()}
    for one, other in itertools.combinations(sketches, 2):
        truth = len(pages[one.owner].keys() & pages[other.owner].keys())
        assert unions.shared(one, other).value == truth
    union = {content for held in pages.values() for content in held}
    whole = sum(sum(held.values()) for held in pages.values())
    assert unions.distinct(sketches).value == len(union)
    assert unions.dropped(sketches).value == whole - len(union)


def test_sketches_hold_what_is_exact_and_do_not_ask_for_order(tmp_path):
    whole, small = read(tmp_path / "whole", 100_000), read(tmp_path / "small", 256)
    truth = unions.distinct(whole).value
    estimate = unions.distinct(small)
    assert estimate.low <= truth <= estimate.high and estimate.high > estimate.low
    for seed in range(5):
        other = list(small)
        random.Random(seed).shuffle(other)
        assert unions.distinct(other) == estimate


def test_a_large_sketch_cut_is_the_small_one(tmp_path):
    whole, small = read(tmp_path / "whole", 100_000), read(tmp_path / "small", 256)
    for one, other in zip(whole, small, strict=True):
        cut = unions.cut(one, 256)
        assert (cut.theta, cut.contents) == (other.theta, other.contents)

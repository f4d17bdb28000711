# SPDX-License-Identifier: GPL-2.0-or-later
"""What workloads share, held to truth: sizes from 8 MiB to 2 GiB, mixed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from made import Machine, Owner, program, write
from zmeld_fleet import affinity, cli, reporting, results
from zmeld_fleet.affinity import Affinity, Group, _pair
from zmeld_fleet.schema import HASH_MIN, THETA_ALL, sampled

SEED = 20261124
MIB = 2**20
PAGE = 4096


def trial(random, k=1024):
    """A pair of groups of one to five workloads each: the estimate and the truth.

    Contents are drawn as hashes; shared ones are held by some of the workloads of each group.
    """
    sizes = np.exp(random.uniform(np.log(8 * MIB), np.log(2048 * MIB), 2)) // PAGE
    counts = random.integers(1, 6, 2)
    common = int(min(sizes) * random.choice([0.0, 0.01, 0.1, 0.5, 0.95]))
    hashes = random.integers(HASH_MIN, 2**63 - 1, common, dtype=np.int64)
    holders = [random.binomial(n, 0.7, common) for n in counts]
    thetas = []
    for size, n, held in zip(sizes, counts, holders, strict=True):
        for _ in range(n):
            # The smallest k + 1 of the workload's hashes: the common ones that it holds, in
            # part, and its own, of which only the order statistic matters.
            own = int(size) - int(held.sum() // n)
            smallest = np.sort(random.random(own))[: k + 1]
            some = random.random(common) < held / n
            merged = np.concatenate(
                [smallest, (hashes[some].astype(np.float64) - HASH_MIN) / 2.0**64]
            )
            merged = np.sort(merged)
            share = merged[k] if len(merged) > k else 1.0
            thetas.append(HASH_MIN + int(share * 2.0**64) if share < 1.0 else THETA_ALL)
    theta = min(thetas)
    below = hashes < theta
    products = holders[0] * holders[1]
    tallies = list(
        zip(
            *map(list, np.unique(products[below & (products > 0)], return_counts=True)),
            strict=True,
        )
    )
    groups = [
        Group(str(at), int(n), int(size * n) * PAGE, sampled(theta))
        for at, (n, size) in enumerate(zip(counts, sizes, strict=True))
    ]
    found = Affinity("", "", "name", PAGE, None, 1, 0, [], groups)
    pair = _pair(found, 0, 1, sampled(theta), [(int(a), int(b)) for a, b in tallies])
    shared = int((products > 0).sum()) * PAGE
    saves = float(products.sum()) / (counts[0] * counts[1]) * PAGE
    return pair, shared, saves


def test_intervals_hold_the_truth_from_8_mib_to_2_gib():
    random = np.random.default_rng(SEED)
    trials = [trial(random) for _ in range(100)]
    shared = [pair.shared.low <= truth <= pair.shared.high for pair, truth, _ in trials]
    saves = [pair.saves.low <= truth <= pair.saves.high for pair, _, truth in trials]
    # 95 of 100, less two standard deviations of a binomial number.
    assert sum(shared) >= 91 and sum(saves) >= 91, (sum(shared), sum(saves))


def place_of(tmp_path, k=100_000):
    """Two that share much, one that shares little, and one that runs twice."""
    for at in range(2):
        owners = [
            Owner("web", program("web", 500, 600, "python")),
            Owner("api", program("api", 900, 600, "python")),
            Owner("db", program(f"db{at}", 4000, 100, "libc")),
            Owner("log", program(f"log{at}", 100, 100, "libc")),
        ]
        write(tmp_path, Machine(f"host{at}", owners, k=k))
    return tmp_path


def test_pairs_are_exact_where_all_contents_are_listed(tmp_path):
    found = reporting.make_affinity(str(place_of(tmp_path)))
    pairs = {(pair.group, pair.other): pair for pair in found.pairs}
    both = pairs["api", "web"] if ("api", "web") in pairs else pairs["web", "api"]
    assert both.shared.value == both.saves.value == both.saves.low == 600 * PAGE
    assert both.saves_per_gib.value == pytest.approx(600 / 1100 * 2**30)
    assert pairs["web", "web"].saves.value == 1100 * PAGE, "the same program on both"
    assert pairs["db", "db"].saves.value == 100 * PAGE
    assert ("web", "db") not in pairs and ("db", "web") not in pairs
    order = [pair.saves.value for pair in found.pairs]
    assert order == sorted(order, reverse=True)


def test_terms_are_for_pods_and_for_what_is_worth_it(tmp_path, capsys):
    place = str(place_of(tmp_path))
    assert cli.main(["affinity", place, "--pod-affinity", "app"]) == 0
    terms = json.loads(capsys.readouterr().out)
    (first, *_) = terms["web"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    chosen = first["podAffinityTerm"]["labelSelector"]["matchExpressions"][0]
    assert chosen["key"] == "app" and chosen["operator"] == "In"
    assert 1 <= first["weight"] <= 100
    assert first["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"


def test_table_and_json_say_the_same(tmp_path, capsys):
    place = str(place_of(tmp_path, k=256))
    assert cli.main(["affinity", place, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == results.AFFINITY_SCHEMA
    assert cli.main(["affinity", place]) == 0
    out = capsys.readouterr().out
    assert "itself" in out and max(map(len, out.splitlines())) <= 80
    assert cli.main(["affinity", place, "--by", "image"]) == 2
    err = capsys.readouterr().err
    assert "--by image: no workload has one; others are name, kind, owner" in err


def test_pods_are_grouped_by_their_deployment():
    def named(pod):
        return affinity.GROUPINGS["deployment"]({"namespace": "shop", "pod": pod})

    assert named("web-6d4f5b7c9-x2x9z") == "shop/web"
    assert named("agent-x2x9z") == "shop/agent"
    assert named("db-0") == "shop/db"
    assert named(None) is None

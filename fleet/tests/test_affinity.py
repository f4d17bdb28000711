# SPDX-License-Identifier: GPL-2.0-or-later
"""What workloads share, held to what they really have in common."""

from __future__ import annotations

import json

import pytest

from made import Machine, Owner, program, write
from zmeld_fleet import affinity, cli, reporting, results

PAGE = 4096


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


def test_intervals_of_samples_hold_the_exact_values(tmp_path):
    exact, sampled = (
        reporting.make_affinity(str(place_of(tmp_path / str(k), k))) for k in (100_000, 256)
    )
    assert all(group.share_sampled < 0.5 for group in sampled.groups if group.name != "log")
    found = {(pair.group, pair.other): pair for pair in sampled.pairs}
    for pair in exact.pairs:
        other = found[pair.group, pair.other]
        for truth, estimate in ((pair.shared, other.shared), (pair.saves, other.saves)):
            assert estimate.low <= truth.value <= estimate.high, pair


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

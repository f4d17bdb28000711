# SPDX-License-Identifier: GPL-2.0-or-later
"""Placement: its limits are kept, it is near the optimum, and better than chance."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from made import Machine, Owner, program, write
from zmeld_fleet import cli, optimum, placement
from zmeld_fleet.placement import Machines, Workload


def workload(name, contents, tenant=None):
    hashes = frozenset((hash((0, one)), hash((1, one))) for one in contents)
    return Workload("s", name, "vm", name, tenant, len(contents), hashes)


def mix(seed, count=8, families=3):
    """Guests of a few families: each holds its family's pages and some of its own."""
    chance = random.Random(seed)
    made = []
    for at in range(count):
        family = chance.randrange(families)
        common = {("family", family, page) for page in range(60)}
        own = {("own", at, page) for page in range(chance.randrange(10, 40))}
        made.append(workload(f"g{at}", common | own))
    return made


def total(machines):
    return machines.score


def every_placement(task):
    choices = [*range(task.machines), None]
    for places in itertools.product(choices, repeat=len(task.workloads)):
        machines = Machines(task)
        if all(
            where is None or (machines.fits(at, where) and machines.put(at, where) is None)
            for at, where in enumerate(places)
        ):
            yield machines


def kept(machines):
    task = machines.problem
    for at in range(task.machines):
        inside = [one for one, where in enumerate(machines.place) if where == at]
        union = 0
        for one in inside:
            union |= task.sets[one]
            assert not task.apart[one] & machines.members[at]
        assert union == machines.contents[at] and union.bit_count() <= task.room


@pytest.mark.parametrize("seed", range(6))
def test_the_solver_finds_the_optimum_and_the_plan_is_near(seed):
    task = placement.problem(mix(seed, count=6), 2, 150.0, 1.0)
    best = max(total(machines) for machines in every_placement(task))
    found = optimum.solve(task)
    assert found.proved and total(found.machines) == best
    assert found.placed_max >= best[0]
    planned = placement.plan(task)
    kept(planned)
    assert planned.placed == best[0]


def test_gaps_are_filled_where_nothing_is_shared():
    """Bin packing alone: sizes that only fit together in one way."""
    sizes = [60, 50, 40, 30, 70, 20, 45, 55, 35, 65, 10, 20]
    made = [workload(f"g{at}", {(at, page) for page in range(n)}) for at, n in enumerate(sizes)]
    task = placement.problem(made, 5, 100.0, 1.0)
    planned = placement.plan(task)
    kept(planned)
    assert planned.placed == 12


def test_the_plan_is_never_worse_than_the_best_of_many_random_ones():
    for seed in range(4):
        task = placement.problem(mix(seed, count=24, families=5), 5, 260.0, 1.0)
        planned = placement.plan(task)
        kept(planned)
        drawn = [placement.at_random(task, at) for at in range(50)]
        for machines in drawn:
            kept(machines)
        assert planned.placed >= max(machines.placed for machines in drawn)


def test_families_that_share_most_stand_together():
    made = [workload(f"{f}{n}", {(f, page) for page in range(100)}) for f in "abc" for n in "12"]
    planned = placement.plan(placement.problem(made, 3, 150.0, 1.0))
    assert planned.placed == 6
    assert placement.freed(planned).value == 300.0


def test_tenants_and_named_pairs_never_share():
    same = {("all", page) for page in range(50)}
    tenants = [workload(f"t{at}", same, tenant=f"tenant{at % 2}") for at in range(6)]
    planned = placement.plan(placement.problem(tenants, 2, 1000.0, 1.0))
    kept(planned)
    assert planned.placed == 6 and planned.place[0] != planned.place[1]
    alone = placement.plan(placement.problem(tenants, 1, 1000.0, 1.0))
    assert alone.placed == 3
    pair = [workload("a", same), workload("b", same)]
    assert placement.plan(placement.problem(pair, 1, 1000.0, 1.0, [("b", "a")])).placed == 1
    best = optimum.solve(placement.problem(tenants, 1, 1000.0, 1.0))
    assert best.machines.placed == 3


def test_what_no_machine_holds_stays_out():
    planned = placement.plan(placement.problem(mix(1), 2, 10.0, 1.0))
    assert planned.placed == 0 and placement.freed(planned).value == 0.0


def test_half_of_a_sample_plans_and_the_other_half_judges():
    made = mix(3, count=10)
    task = placement.problem(made, 3, 1e6, 0.5)
    for planned, judged, one in zip(task.sets, task.judged, made, strict=True):
        assert planned & judged == 0
        assert (planned | judged).bit_count() == len(one.contents)
    assert task.set_share == task.judged_share == 0.25


def guests(place, k=1024):
    """Twelve guests of three images on three machines, mixed as they came."""
    for at in range(3):
        owners = [
            Owner(f"vm:{image}{at}{n}", program((image, at, n), 100, 400, image), kind="vm")
            for n, image in enumerate(("debian", "alpine", "rocky", "debian"))
        ]
        write(place, Machine(f"host{at}", owners, {"tenant": "x"}, k=k))


def test_the_command_plans_more_than_chance_and_says_what_it_did(tmp_path, capsys):
    guests(tmp_path)
    ram = str(1200 * 4096)
    arguments = ["place", str(tmp_path), "--ram", ram, "--machines", "2", "--draws", "50"]
    assert cli.main([*arguments, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "zmeld.fleet.place/1"
    assert body["optimum"]["placed"] >= body["planned"]["placed"] >= body["random"]["placed"]
    assert body["more_than_random"] > 0.0
    assert max(body["used_bytes"]) <= 1200 * 4096 * 1.1
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "Nothing was moved" in text
    assert all(len(line) <= 80 for line in text.split("\n"))


def test_guests_that_survey_themselves_are_placed_whole(tmp_path, capsys):
    for at in range(6):
        image = "ab"[at % 2]
        owners = [Owner("init", program(f"init{image}", 50, 300, image))]
        owners.append(Owner("app", program(at, 100, 300, image)))
        write(tmp_path, Machine(f"guest{at}", owners))
    place = ["place", str(tmp_path), "--ram", "4MiB", "--machines", "2", "--json"]
    assert cli.main([*place, "--kind", "machine"]) == 0
    body = json.loads(capsys.readouterr().out)
    together = {(one["name"], one["machine"]) for one in body["plan"]}
    assert body["planned"]["placed"] == 6 == len(together)
    machine = dict(together)
    assert machine["guest0"] == machine["guest2"] != machine["guest1"] == machine["guest3"]
    assert cli.main([*place, "--kind", "machine", "--kind", "vm"]) == 2


def test_nothing_to_place_is_one_line(tmp_path, capsys):
    guests(tmp_path)
    assert cli.main(["place", str(tmp_path), "--ram", "1GiB", "--kind", "container"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit) as ended:
        cli.main(["place", str(tmp_path), "--ram", "much"])
    assert ended.value.code == 2


def test_a_name_or_label_that_nothing_has_is_an_error(tmp_path, capsys):
    for at, name in enumerate(("db-a", "db-b")):
        owner = Owner(name, program(name, 300), kind="container")
        write(tmp_path, Machine(f"host{at}", [owner], {"customer": str(at)}))
    asked = ["place", str(tmp_path), "--ram", "1GiB", "--machines", "2", "--draws", "2"]
    for more, code in (
        (["--apart", "db-a", "db-b", "--tenant", "customer"], 0),
        (["--apart", "db-a", "db_b"], 2),
        (["--tenant", "custommer"], 2),
    ):
        assert cli.main([*asked, *more]) == code
        err = capsys.readouterr().err
        assert err.count("\n") == (1 if code else 0) and (not code or more[-1] in err)


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("64GiB", 64 << 30),
        ("64G", 64 << 30),
        ("64g", 64 << 30),
        ("1.5 gib", 3 << 29),
        ("512MiB", 512 << 20),
        ("2048k", 2 << 20),
        ("68719476736", 64 << 30),
        ("68719476736B", 64 << 30),
    ],
)
def test_ram_is_taken_as_zmeld_takes_sizes(written, taken):
    assert cli._ram(written) == taken


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("64", "64 has no unit, and so many bytes are less than 1 MiB"),
        ("64", "write 64GiB"),
        ("64K", "64K is less than 1 MiB"),
        ("0", "write"),
        ("64GB", "64GB: write it as 8GiB or 512MiB"),
        ("-1GiB", "expected one argument"),
        ("9" * 19 + "TiB", "more than any machine has"),
        ("9" * 400, "write it as"),
        ("\u0663GiB", "write it as"),
        ("nan", "write it as"),
    ],
)
def test_ram_that_cannot_be_meant_is_refused_with_the_way_out(tmp_path, capsys, written, said):
    with pytest.raises(SystemExit) as ended:
        cli.main(["place", str(tmp_path), "--ram", written])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert said in err and "Traceback" not in err


@pytest.mark.parametrize("written", ["0", "-1", "two", "1.5", "9" * 5000])
def test_a_number_that_is_none_is_refused_in_words(tmp_path, capsys, written):
    with pytest.raises(SystemExit) as ended:
        cli.main(["place", str(tmp_path), "--ram", "1GiB", f"--machines={written}"])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == 1
    assert "write a whole number, 1 or more" in err and "_positive" not in err

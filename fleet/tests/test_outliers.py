# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines that stand out: 1,000 simulated fleets without any, and with one."""

from __future__ import annotations

import numpy as np
import pytest

from made import Machine, Owner, write
from zmeld_fleet import outliers, reporting
from zmeld_fleet.outliers import Sample

FLEETS = 1000
SEED = 20261124


def duplicates(random, machines, k=1024):
    """Machines with no duplicates at all, of other sizes: what a sketch says of them."""
    pages = np.exp(random.uniform(np.log(4_000), np.log(400_000), machines))
    distinct = k / random.beta(k + 1, pages - k)
    return Sample(1.0 - distinct / pages, np.sqrt((1.0 - k / pages) / (k - 1)))


def fleet(random, machines):
    """Four measures: two exact ones, a mean of a sample, and what sketches say."""
    none = np.zeros(machines)
    errors = random.uniform(0.01, 0.1, machines)
    return [
        duplicates(random, machines),
        Sample(random.normal(0.4, 0.05, machines), none),
        Sample(random.normal(0.2, 0.03, machines), none),
        Sample(random.normal(2.5, 0.05, machines) + random.normal(0.0, errors), errors),
    ]


@pytest.mark.parametrize("machines", [5, 30, 100])
def test_of_1000_fleets_without_any_at_most_5_percent_show_one(machines):
    random = np.random.default_rng(SEED)
    shown = sum(any(outliers.find(fleet(random, machines))) for _ in range(FLEETS))
    # Two standard deviations of a binomial number beyond the 50 that are allowed.
    assert shown <= FLEETS * outliers.FALSE_ALARMS + 14, shown


@pytest.mark.parametrize("machines", [50, 100])
def test_a_machine_five_standard_deviations_off_is_found(machines):
    random = np.random.default_rng(SEED + 1)
    found = 0
    for _ in range(FLEETS):
        samples = fleet(random, machines)
        samples[1].values[7] = 0.4 + 5 * 0.05
        found += 7 in [one.at for one in outliers.find(samples)[1]]
    assert found >= 0.95 * FLEETS, found


def test_two_do_not_hide_each_other():
    random = np.random.default_rng(SEED + 2)
    values = random.normal(0.4, 0.05, 40)
    values[[3, 9]] = 1.0, 1.02
    (found,) = outliers.find([Sample(values, np.zeros(40))])
    assert {one.at for one in found} == {3, 9}
    assert all(8 < one.deviations < 20 for one in found)


def test_what_sampling_explains_does_not_stand_out():
    values = np.concatenate([np.full(29, 0.30) + np.linspace(0, 0.004, 29), [0.36]])
    exact = Sample(values, np.zeros(30))
    vague = Sample(values, np.concatenate([np.zeros(29), [0.03]]))
    assert [one.at for one in outliers.find([exact])[0]] == [29]
    assert outliers.find([vague])[0] == []


def test_thirty_machines_without_duplicates_have_none_that_stands_out(tmp_path):
    random = np.random.default_rng(SEED + 3)
    for at in range(30):
        pages = int(np.exp(random.uniform(np.log(2_000), np.log(20_000))))
        owner = Owner("own", {(at, page): 1 for page in range(pages)})
        ram = pages * 4096 * 4
        machine = Machine(f"host{at}", [owner], {"role": "x"}, {"ram_bytes": ram}, k=256)
        machine.survey = f"{at:032x}"
        write(tmp_path, machine)
    report = reporting.make(str(tmp_path), by="role")
    assert report.standouts == []
    within = report.fleet.duplicates.within_owners
    assert within.low <= 0.0 <= within.high, "what is shown has the truth, which is none"

# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals of rare contents cover the exact value in at least 94 % of 1,000 trials."""

from __future__ import annotations

import numpy as np
import pytest

from zmeld_fleet.estimate import Estimate, around, exact, sampled_sum

TRIALS = 1000
COVERED_MIN = 0.94
SEED = 20260314


def covered(trials):
    hits = [estimate.low <= truth <= estimate.high for estimate, truth in trials]
    return sum(hits) / len(hits)


def skewed(random, everywhere, elsewhere):
    """A few contents on all of a thousand machines, the others on one or on some."""
    fleet = 1000
    machines = np.concatenate(
        [np.full(everywhere, fleet), 1 + random.poisson(elsewhere, size=5_000)]
    )
    share = float(np.exp(random.uniform(np.log(0.002), np.log(0.5))))
    more = machines[random.random(len(machines)) < share] - 1.0
    found = sampled_sum(more.sum(), (more**2).sum(), fleet - 1.0, share)
    return found, int((machines - 1).sum())


@pytest.mark.parametrize(("everywhere", "elsewhere"), [(1, 0.0), (5, 0.0), (5, 0.3), (60, 2.0)])
def test_a_few_contents_that_are_on_all_machines(everywhere, elsewhere):
    random = np.random.default_rng(SEED + 3)
    share = covered([skewed(random, everywhere, elsewhere) for _ in range(TRIALS)])
    assert share >= COVERED_MIN, share


def test_what_was_read_whole_is_exact():
    assert sampled_sum(17.0, 99.0, 5.0, 1.0) == exact(17.0)


def test_nothing_seen_is_not_nothing_there():
    estimate = sampled_sum(0.0, 0.0, 1.0, 0.01)
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    # A hundred times the 3.69 of Poisson's law.
    assert 360 < estimate.high < 375


def test_what_is_certain_bounds_an_interval():
    assert around(5.0, 9.0).within(0.0, 10.0) == Estimate(5.0, 0.0, 10.0)
    assert around(4.0, 1.0).taken_from(10.0) == Estimate(6.0, 5.0, 7.0)

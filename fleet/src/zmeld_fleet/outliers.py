# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machines stand out, with what each machine's own estimate may err by.

The test is Rosner's for several outliers (generalized extreme studentized deviate,
Technometrics 25, 1983): the farthest value is held against the mean and the standard
deviation of the others, then the next one, so that two outliers do not hide each other.
Machines differ in how well they were measured: what a machine's own variance of sampling
exceeds that of the others by is added to theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Values = NDArray[np.float64]

MACHINES_MIN = 5
"""Machines of a kind from which on one can stand out."""
FALSE_ALARMS = 0.05
"""Of reports in which no machine is unlike the others, so many may show one, at most."""
SHARE_MIN = 10
"""What more than one machine in ten has is not unusual."""
LEAST_SPREAD = 0.01
"""Machines that are all alike to a hundredth do not make the next one strange."""


@dataclass(frozen=True)
class Sample:
    """One measure of the machines of one kind."""

    values: Values
    errors: Values
    """The standard error of each value; 0 where it is exact."""

    @property
    def floor(self) -> float:
        """The least standard deviation that counts."""
        return LEAST_SPREAD * max(abs(float(np.median(self.values))), 0.1)

    @property
    def has_spread(self) -> bool:
        """Whether any machine could stand out at all."""
        return len(self.values) >= MACHINES_MIN and bool(np.ptp(self.values) > self.floor)


@dataclass(frozen=True)
class Outlier:
    """One value, far from the mean of those that do not stand out."""

    at: int
    usual: float
    deviations: float


def find(samples: list[Sample]) -> list[list[Outlier]]:
    """Of each sample those that stand out; `FALSE_ALARMS` holds for all of them together."""
    tests = sum(sample.has_spread for sample in samples)
    return [_of(sample, tests) if sample.has_spread else [] for sample in samples]


def _of(sample: Sample, tests: int) -> list[Outlier]:
    count = len(sample.values)
    remaining = np.arange(count)
    removed: list[int] = []
    outliers = 0
    for _ in range(max(2, count // SHARE_MIN)):
        candidate = remaining[np.argmax(_deviations(sample, remaining, remaining))]
        others = remaining[remaining != candidate]
        m = len(others)
        deviation = float(_deviations(sample, np.array([candidate]), others)[0])
        # The mean of the others is an estimate, too.
        deviation /= np.sqrt(1.0 + 1.0 / m)
        removed.append(int(candidate))
        if deviation > stdtrit(m - 1, 1.0 - FALSE_ALARMS / tests / (2.0 * (m + 1))):
            outliers = len(removed)
        remaining = others
    found = np.array(removed[:outliers], dtype=np.int64)
    usual = np.setdiff1d(np.arange(count), found)
    mean = float(sample.values[usual].mean())
    deviations = _deviations(sample, found, usual)
    return [Outlier(int(at), mean, float(by)) for at, by in zip(found, deviations, strict=True)]


def _deviations(sample: Sample, asked: NDArray[np.int64], among: NDArray[np.int64]) -> Values:
    """How far off the asked are, in standard deviations of `among` and of themselves."""
    values, own = sample.values[among], sample.errors[asked] ** 2
    variance = max(float(values.var(ddof=1)), sample.floor**2)
    more = np.maximum(own - np.mean(sample.errors[among] ** 2), 0.0)
    return np.asarray(np.abs(sample.values[asked] - values.mean()) / np.sqrt(variance + more))

# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimates from samples of contents, with 95 % intervals.

A content is in the sample when its hash is below a bound, which happens with
probability p. So a sum over all contents is estimated by the sum over the sample,
divided by p (Horvitz and Thompson), with variance sum(w^2) (1 - p) / p^2. Its interval
is that of Fay and Feuer (Statistics in Medicine 16, 1997) for weighted sums of rare
events, made narrower by the factor 1 - p for sampling without replacement: unlike the
normal interval it holds where two or three contents were seen, or none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import gammaincinv

TAIL = 0.025
"""Of each side of the interval."""
Z = 1.959964
"""Standard errors of a normal interval to either side."""


@dataclass(frozen=True)
class Estimate:
    """A value and the interval that holds the truth in 95 of 100 cases."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Estimate:
        """Times a factor that is not negative."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def taken_from(self, whole: float) -> Estimate:
        """What is left of `whole`, which is exact."""
        return Estimate(whole - self.value, whole - self.high, whole - self.low)

    def within(self, least: float, most: float) -> Estimate:
        """The same, inside of what is certain."""
        low, high = max(self.low, least), min(self.high, most)
        return Estimate(min(max(self.value, least), most), min(low, most), max(high, least))


def exact(value: float) -> Estimate:
    """A value without doubt."""
    return Estimate(value, value, value)


def around(value: float, half_width: float) -> Estimate:
    """A value with as much doubt to either side."""
    return Estimate(value, value - half_width, value + half_width)


def sampled_sum(total: float, squares: float, largest: float, share: float) -> Estimate:
    """The sum over all contents.

    `total` and `squares` are the sums of the sample's weights and of their squares,
    `largest` the largest weight that a content can have, `share` the sampled share p. The
    interval reckons with one such content that the sample does not have.
    """
    if share >= 1.0:
        return exact(total)
    return of_rare(total / share, squares * (1.0 - share) / share**2, largest / share, total)


def of_rare(value: float, variance: float, largest: float, least: float = 0.0) -> Estimate:
    """A sum over contents of which few may have been seen, or none."""
    low = _gamma(TAIL, value, variance) if value > 0 else 0.0
    high = _gamma(1.0 - TAIL, value + largest, variance + largest * largest)
    return Estimate(value, low, max(high, least))


def _gamma(quantile: float, mean: float, variance: float) -> float:
    """The quantile of the gamma distribution with that mean and variance."""
    if variance <= 0.0 or mean <= 0.0:
        return mean
    shape = mean * mean / variance
    return float(gammaincinv(shape, quantile)) * variance / mean


def varying(value: float, variance: float) -> Estimate:
    """A value with a normal interval."""
    return around(value, Z * math.sqrt(max(variance, 0.0)))

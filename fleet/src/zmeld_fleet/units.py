# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as `zmeld` writes them: the rules of crates/zmeld-report/src/units.rs."""

from __future__ import annotations

import math

from zmeld_fleet.estimate import Estimate
from zmeld_fleet.words import grouped

MISSING = "–"
IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def _leading(value: float, decimals: int) -> tuple[int, int]:
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return int(mantissa[0]), int(exponent)


def _significant(value: float) -> str:
    if value == 0.0:
        return "0"
    _, exponent = _leading(abs(value), 2)
    return _fixed(value, max(2 - exponent, 0))


def _iec_power(size: float) -> int:
    power = 0
    while size >= 1023.5 and power + 1 < len(IEC):
        size, power = size / 1024.0, power + 1
    return power


def size(value: float | None) -> str:
    """Bytes: `4.21 GiB`."""
    if value is None or not math.isfinite(value):
        return MISSING
    power = _iec_power(abs(value))
    if power == 0:
        return f"{_fixed(value, 0)} B"
    return f"{_significant(value / 1024.0**power)} {IEC[power]}"


def size_estimate(estimate: Estimate | None) -> str:
    """Bytes with their interval: `2.31 ± 0.02 GiB`, `2.31 (2.28 to 2.40) GiB`."""
    if estimate is None or not estimate.high > estimate.low:
        return size(estimate.value if estimate else None)
    power = _iec_power(
        max(abs(estimate.value), estimate.high / (100.0 if estimate.value else 1.0))
    )
    return _with_interval(estimate.scaled(1024.0**-power), f" {IEC[power]}")


def _with_interval(estimate: Estimate, unit: str) -> str:
    value, low, high = estimate.value, estimate.low, estimate.high
    below, above = value - low, high - value
    if abs(below - above) <= 0.1 * max(abs(below), abs(above)):
        half = (high - low) / 2.0
        decimals = _decimals(half)
        return f"{_fixed(value, decimals)} ± {_fixed(half, decimals)}{unit}"
    smaller = min(abs(below), abs(above))
    decimals = _decimals(max(smaller, (high - low) / 10.0))
    ends = f"{_fixed(low, decimals)} to {_fixed(high, decimals)}"
    return f"{_fixed(value, decimals)} ({ends}){unit}"


def _decimals(half_width: float) -> int:
    if half_width <= 0.0 or not math.isfinite(half_width):
        return 2
    first, exponent = _leading(half_width, 0)
    return min(max((1 if first == 1 else 0) - exponent, 0), 12)


def count(value: int | None) -> str:
    """`9999`, `12 345`."""
    return MISSING if value is None else grouped(str(value))


def percent(fraction: float | None) -> str:
    """`12.8 %`; what is not nothing is never shown as nothing."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    if 0.0 < fraction < 0.0005:
        return "<0.1 %"
    if 0.9995 <= fraction < 1.0:
        return ">99.9 %"
    return f"{grouped(_fixed(fraction * 100.0, 1))} %"


def percent_estimate(estimate: Estimate | None) -> str:
    """A fraction with its interval: `12.8 ± 0.4 %`."""
    if estimate is None or not estimate.high > estimate.low:
        return percent(estimate.value if estimate else None)
    return _with_interval(estimate.scaled(100.0), " %")


def ratio_estimate(estimate: Estimate) -> str:
    """`2.31 ± 0.02x`."""
    if not estimate.high > estimate.low:
        return ratio(estimate.value)
    return _with_interval(estimate, "x")


def ratio(value: float | None) -> str:
    """`2.31x`."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{_fixed(value, 2) if abs(value) < 1 else _significant(value)}x"

# SPDX-License-Identifier: GPL-2.0-or-later
"""The configuration for a kind of machine, and why: the rules of crates/zmeld-config/src/advice.

A survey says what pages take, not how fast codecs are on that machine. So of the codecs
of zram the fastest is taken that gains nearly as much as the best; `zmeld plan` on one
machine of the kind knows the speeds, too.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

from zmeld_fleet import units
from zmeld_fleet.analysis import Kind, Setup
from zmeld_fleet.words import inert, plural

WORTH = 0.05
"""Share of the compressed memory that melding has to save (zmeld-config, advice/meld.rs)."""
NEARLY = 0.95
"""Share of the best gain that lets a faster codec be taken."""
GAIN_MIN = 0.1
"""Of each byte, what has to be saved for compression to be worth it (codec.rs)."""
RAM_MIN = 0.01
"""Of RAM, what has to be freed."""
JUDGED_FROM = 16 << 20
"""From fewer bytes of pages nothing follows."""
MARGIN = 1.2
LIMIT_MAX_PERCENT = 50
STEPS = (100, 75, 50, 25)
UNMEASURED_PERCENT = 50
BASIS_MIN_PERCENT = 25
RATIO_ASSUMED = 2.0

FASTEST_FIRST = ("lz4", "lzo-rle", "zstd")
"""zram's codecs, by how fast they decompress; zword comes with zmeld's module alone."""


@dataclass(frozen=True)
class Configuration:
    """What a kind of machine should have."""

    kind: str
    setup: Setup | None
    toml: str
    reasons: list[str]
    advice: str
    """The same in a few words."""


def configure(kind: Kind, page_size: int) -> Configuration:
    """zmeld.toml for a kind of machine."""
    measured = kind.pages * page_size
    if measured < JUDGED_FROM:
        why = f"only {units.size(measured)} of pages were read: nothing follows from them"
        return _nothing(kind, why)
    there = [codec for codec in FASTEST_FIRST if codec in kind.zram_codecs]
    plain = [s for s in kind.setups if not s.melded and s.codec in there]
    if not plain:
        return _nothing(kind, f"these kernels' zram has none of {', '.join(FASTEST_FIRST)}")
    best = max(plain, key=lambda setup: setup.gains.value)
    if best.takes.value > measured * (1.0 - GAIN_MIN):
        why = f"the best codec, {best.codec}, saves less than {units.percent(GAIN_MIN)}"
        return _nothing(kind, why)
    near = [s for s in plain if s.gains.value >= NEARLY * best.gains.value]
    chosen = min(near, key=lambda setup: FASTEST_FIRST.index(setup.codec))
    reasons = [_why_codec(chosen, best, there, measured), *_why_not(kind, chosen)]
    melded = next(s for s in kind.setups if s.melded and s.codec == chosen.codec)
    melds = kind.modules and _saved(chosen, melded) >= WORTH
    reasons.append(_why_meld(kind, chosen, melded, melds))
    setup = melded if melds else chosen
    gain, ram = kind.gain(setup)
    if gain < RAM_MIN * ram:
        idle = "what is idle" if kind.idle is not None else "all of it"
        why = f"of {idle} it would free {units.percent(gain / max(ram, 1))} of RAM, less than 1 %"
        return _nothing(kind, why)
    return _written(kind, setup, melds, reasons, page_size)


def _why_codec(chosen: Setup, best: Setup, there: list[str], measured: float) -> str:
    holds = f"{units.ratio(chosen.ratio)} on {units.size(measured)} of pages"
    if chosen is best:
        return f"{chosen.codec}: {holds}, the best of {', '.join(there)}"
    part = units.percent(chosen.gains.value / best.gains.value)
    return f"{chosen.codec}: {holds}; it gains {part} of what {best.codec} does, and is faster"


def _why_not(kind: Kind, chosen: Setup) -> list[str]:
    """Codecs that gain more, and that these kernels do not have."""
    lacking = {*FASTEST_FIRST}.difference(kind.zram_codecs)
    others = [s for s in kind.setups if not s.melded and s.codec in lacking]
    return [
        f"{one.codec} gains {units.percent(one.gains.value / chosen.gains.value - 1.0)} more; "
        "zram lacks it on some of these machines"
        for one in others
        if one.gains.value * NEARLY > chosen.gains.value
    ]


def _saved(plain: Setup, melded: Setup) -> float:
    return 1.0 - melded.takes.value / plain.takes.value if plain.takes.value > 0.0 else 0.0


def _why_meld(kind: Kind, plain: Setup, melded: Setup, melds: bool) -> str:
    share = max(_saved(plain, melded), 0.0)
    saved = f"it saves {units.percent(share)} of the pool"
    if not kind.modules and share >= WORTH:
        return f"melding is not advised: {saved}, but no module can be loaded on some machines"
    word = "pays" if melds else "does not pay"
    return f"melding {word}: {saved}, and pays from {units.percent(WORTH)} on"


def _nothing(kind: Kind, why: str) -> Configuration:
    said = _comment(f"No compressed swap is advised: {why}.")
    text = "\n".join([f"# {inert(kind.name)}", *said, ""])
    return Configuration(
        kind.name, None, text, [f"no compressed swap: {why}"], "no compressed swap"
    )


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(inert(text), 74)]


def size_percent(ratio: float, thin: bool) -> int:
    """Disk size in percent of RAM: what half of RAM holds with a fifth to spare."""
    if thin:
        ratio = min(ratio, RATIO_ASSUMED)
    fitting = [s for s in STEPS if s * MARGIN / max(ratio, 1.0) <= LIMIT_MAX_PERCENT]
    size = fitting[0] if fitting else STEPS[-1]
    return min(size, UNMEASURED_PERCENT) if thin else size


def limit_percent(size: int, ratio: float) -> int:
    """The pool's limit in percent of RAM, no more than the size (zmeld-config, advice/size.rs)."""
    limit = max(size / max(ratio, 1.0) * MARGIN, size / RATIO_ASSUMED)
    return max(math.ceil(min(limit, size, LIMIT_MAX_PERCENT)), 1)


def _written(
    kind: Kind, setup: Setup, melds: bool, reasons: list[str], page_size: int
) -> Configuration:
    ratio = math.floor((setup.ratio or 1.0) * 10.0 + 0.5) / 10.0
    thin = kind.pages * page_size < kind.ram_bytes * BASIS_MIN_PERCENT / 100
    size = size_percent(ratio, thin)
    limit = limit_percent(size, ratio)
    basis = "few pages were read, so no more than half of RAM" if thin else f"at {ratio:.1f}x"
    why = f"size {size} % of RAM ({basis}); the pool may take {limit} % of RAM"
    reasons = [*reasons, why]
    device = "zmeld" if melds else "zram"
    lines = [f"# {inert(kind.name)}: {plural(kind.machines, 'machine', 'machines')}"]
    lines += [line for reason in reasons for line in _comment(reason)]
    lines += ["", "[tier.ram]", f'kind = "{device}"']
    lines += [f'size = "{size}%"', f'memory_limit = "{limit}%"', f'codec = "{setup.codec}"']
    if melds:
        lines.append('meld = "auto"')
    lines += ["", "[tunables]", 'swappiness = "auto"', ""]
    advice = f"{device}, {setup.codec}{', melded' if melds else ''}, {size}% of RAM"
    return Configuration(kind.name, setup, "\n".join(lines), reasons, advice)

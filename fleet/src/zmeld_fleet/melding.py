# SPDX-License-Identifier: GPL-2.0-or-later
"""What contents that stand in several places do to sums over owners.

Each owner's estimate sums what its sampled contents take, divided by its share p: a content c is
in the sample where its hash is below p. Samples are coordinated: the same hash decides in all
owners. So what two owners, of whatever machines, have in common errs in both at once: a content
with weights s and t in samples of shares p >= q adds 2 s t (1 / p - 1) to the variance. Such
a pair is seen where the hash is below q, so its term is divided by q to estimate the sum of all
(Horvitz and Thompson). What owners of one machine share is stored once there: a term of its own,
with the negative weight of the copies beyond the first.

Where a fleet has more contents than are read, whole machines are drawn, in each kind: their
terms stand for those of the others, and how they differ among each other adds to the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


def groups_of(*keys: NDArray) -> Numbers:
    """A number for each different combination of keys."""
    order = np.lexsort(keys)
    changed = np.zeros(len(order), dtype=bool)
    for key in keys:
        ordered = key[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.cumsum(changed)
    return found


def _pairs(group: Numbers, weight: Floats, share: Floats) -> float:
    """The variance of a sum in which the terms of one group err together."""
    if not len(group):
        return 0.0
    order = np.lexsort((-share, group))
    group, weight, share = group[order], weight[order], share[order]
    errs = weight * (1.0 / share - 1.0)
    before = np.cumsum(errs) - errs
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    before -= np.repeat(before[starts], np.diff(np.r_[starts, len(group)]))
    return float(np.sum(weight / share * (2.0 * before + errs)))


@dataclass(frozen=True)
class Sampled:
    """Contents of the owners of some machines: a row for each content of an owner."""

    owner: Numbers
    machine: Numbers
    kind: Numbers
    share: Floats
    """Of the owner's contents those that are in its sample."""
    machine_share: Floats
    """The smallest of the machine's owners."""
    is_below: NDArray[np.bool_]
    """Whether the content would be in the sample of every owner of the machine."""
    content: Numbers
    size: Numbers
    """The class of sizes."""
    times: Floats
    """Machines of the kind for each that was drawn."""

    def of(self, chosen: NDArray[np.bool_] | Numbers) -> Sampled:
        """Some of the rows."""
        return Sampled(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def owners_vary(self, weight: Floats) -> float:
        """What is to be added to the variances of the owners' own sums."""
        place = groups_of(self.content, self.machine)
        own = np.sum(self.times * weight**2 * (1.0 / self.share - 1.0) / self.share)
        return self._spread(self.content, place, weight, self.share, self.times) - float(own)

    @staticmethod
    def _spread(
        content: Numbers, place: Numbers, weight: Floats, share: Floats, times: Floats
    ) -> float:
        """Pairs on one machine stand for as many as it does, pairs of two machines for more."""
        within = _pairs(place, weight * np.sqrt(times), share)
        drawn = _pairs(place, weight * times, share)
        return within + _pairs(content, weight * times, share) - drawn

    def shared(self) -> tuple[Sampled, Floats]:
        """What several owners of a machine hold, once: with the copies beyond the first."""
        below = self.of(self.is_below)
        place = groups_of(below.content, below.machine)
        copies = np.bincount(place)
        first = np.zeros(len(place), dtype=bool)
        first[np.unique(place, return_index=True)[1]] = True
        several = first & (copies[place] > 1)
        return below.of(several), (copies[place][several] - 1).astype(np.float64)

    def melded_varies(self, weight: Callable[[Sampled], Floats]) -> tuple[float, float]:
        """What owners of a machine store once less often, and what all this adds to the variance
        of the sums of the owners."""
        again, copies = self.shared()
        lost = copies * weight(again)
        own = weight(self)
        place = groups_of(np.r_[self.content, again.content], np.r_[self.machine, again.machine])
        more = self._spread(
            np.r_[self.content, again.content],
            place,
            np.r_[own, -lost],
            np.r_[self.share, again.machine_share],
            np.r_[self.times, again.times],
        )
        more -= float(np.sum(self.times * own**2 * (1.0 / self.share - 1.0) / self.share))
        taken = lost / again.machine_share
        return float(np.sum(taken * again.times)), more + self.machines_vary(again, taken)

    def shared_varies(self) -> tuple[float, float, float]:
        """Copies of what owners of a machine share, their variance, and what one content on all
        machines would add."""
        again, copies = self.shared()
        place = groups_of(again.content, again.machine)
        spread = self._spread(again.content, place, copies, again.machine_share, again.times)
        taken = copies / again.machine_share
        variance = spread + self.machines_vary(again, taken)
        one = np.unique(self.machine, return_index=True)[1]
        largest = float(np.sum((self.times / self.machine_share)[one]))
        return float(np.sum(taken * again.times)), variance, largest

    def machines_vary(self, again: Sampled, taken: Floats) -> float:
        """The variance of drawing machines, kind by kind."""
        total = 0.0
        machines, one = np.unique(self.machine, return_index=True)
        sums = np.bincount(np.searchsorted(machines, again.machine), taken, len(machines))
        for kind in np.unique(self.kind[one]):
            of_kind = self.kind[one] == kind
            drawn, times = int(of_kind.sum()), float(self.times[one][of_kind][0])
            if times > 1.0 and drawn > 1:
                total += drawn * times * (times - 1.0) * float(sums[of_kind].var(ddof=1))
        return total

# SPDX-License-Identifier: GPL-2.0-or-later
"""Which workloads to put together, so that melding frees most. It plans; it moves nothing.

A workload is the set of its contents below the smallest theta of all: a bit for each. A
machine's memory is the union of its workloads' sets, divided by the sampled share. What
is planned on a sample looks better there than it is, so half of the sample makes the
plan and the other half judges it, where the sample is not all there is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zmeld_fleet.estimate import Estimate, sampled_sum

ROUNDS_MAX = 50
"""Passes of the local search."""
PAIRS_MAX = 200
"""Workloads up to which every pair of workload and machine is looked at, each time."""
RANDOM_STARTS = 10
RUINS_MAX = 600
RUIN_STEPS_MAX = 60_000
RUIN_MOST = 8
"""Workloads that are taken out at once, at most."""
RUIN_SEED = 1_000_003
"""Chance in planning is always the same, and never that of the random placements."""
SWAPS_MAX = 20_000
"""Exchanges that one pass of the local search looks at."""


class PlanError(Exception):
    """What was asked for cannot be planned."""


@dataclass(frozen=True)
class Workload:
    """What is placed as a whole."""

    survey: str
    owner: str
    kind: str
    name: str
    tenant: str | None
    content_pages: int
    contents: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Problem:
    """What has to be placed, and what must not be."""

    workloads: list[Workload]
    machines: int
    ram_pages: float
    share: float
    """The sampled share of all contents."""
    apart: list[int] = field(default_factory=list)
    """Of each workload a bit for each that must not stand beside it."""
    sets: list[int] = field(default_factory=list)
    """Of each workload the contents that the plan is made from."""
    judged: list[int] = field(default_factory=list)
    """Of each workload the contents that it is judged by."""
    set_share: float = 1.0
    judged_share: float = 1.0

    @property
    def room(self) -> float:
        """Contents of the plan's sample that one machine holds."""
        return self.ram_pages * self.set_share


def problem(
    workloads: list[Workload],
    machines: int,
    ram_pages: float,
    share: float,
    apart: Iterable[tuple[str, str]] = (),
) -> Problem:
    """Contents become bits; halves are told apart by the last bit of their hash."""
    if not workloads:
        raise PlanError("no workload of these kinds in the surveys that count; see --kind")
    if machines < 1 or ram_pages <= 0:
        raise PlanError("there has to be a machine, and RAM in it")
    whole = share >= 1.0
    number: dict[tuple[int, int], int] = {}
    for workload in workloads:
        for content in sorted(workload.contents):
            number.setdefault(content, len(number))
    planned = [_bits(one, number, None if whole else 0) for one in workloads]
    judged = planned if whole else [_bits(one, number, 1) for one in workloads]
    half = share if whole else share / 2.0
    return Problem(
        workloads,
        machines,
        ram_pages,
        share,
        _apart(workloads, apart),
        planned,
        judged,
        half,
        half,
    )


def _bits(workload: Workload, number: dict[tuple[int, int], int], parity: int | None) -> int:
    bits = bytearray(len(number) // 8 + 1)
    for content in workload.contents:
        if parity is None or content[1] & 1 == parity:
            at = number[content]
            bits[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(bits, "little")


def _apart(workloads: list[Workload], pairs: Iterable[tuple[str, str]]) -> list[int]:
    """Two tenants never share a machine, nor do two workloads that are named."""
    named = {frozenset(pair) for pair in pairs}
    apart = [0] * len(workloads)
    for at, one in enumerate(workloads):
        for other_at, other in enumerate(workloads):
            tenants = one.tenant != other.tenant
            if at != other_at and (tenants or frozenset((one.name, other.name)) in named):
                apart[at] |= 1 << other_at
    return apart


class Machines:
    """A placement that grows: of each machine its workloads and their contents."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.members = [0] * problem.machines
        self.contents = [0] * problem.machines
        self.place: list[int | None] = [None] * len(problem.workloads)

    def copy(self) -> Machines:
        """Another one that is alike."""
        other = Machines(self.problem)
        other.members, other.contents = list(self.members), list(self.contents)
        other.place = list(self.place)
        return other

    def fits(self, workload: int, machine: int) -> bool:
        """Whether it may go there, and there is room."""
        if self.members[machine] & self.problem.apart[workload]:
            return False
        union = self.contents[machine] | self.problem.sets[workload]
        return union.bit_count() <= self.problem.room

    def adds(self, workload: int, machine: int) -> int:
        """Contents that are new there."""
        return (self.problem.sets[workload] & ~self.contents[machine]).bit_count()

    def put(self, workload: int, machine: int) -> None:
        """Places it."""
        self.place[workload] = machine
        self.members[machine] |= 1 << workload
        self.contents[machine] |= self.problem.sets[workload]

    def take(self, workload: int) -> int:
        """Takes it back, and says from where."""
        machine = self.place[workload]
        assert machine is not None
        self.place[workload] = None
        self.members[machine] &= ~(1 << workload)
        self.contents[machine] = 0
        for other, where in enumerate(self.place):
            if where == machine:
                self.contents[machine] |= self.problem.sets[other]
        return machine

    @property
    def placed(self) -> int:
        """Workloads that have a machine."""
        return sum(where is not None for where in self.place)

    @property
    def size(self) -> int:
        """Contents on all machines, each once a machine."""
        return sum(contents.bit_count() for contents in self.contents)

    @property
    def score(self) -> tuple[int, int]:
        """More workloads are better, then fewer contents for each of them."""
        own = sum(
            self.problem.sets[at].bit_count()
            for at, where in enumerate(self.place)
            if where is not None
        )
        return self.placed, own - self.size


def plan(problem: Problem) -> Machines:
    """The best of some greedy placements, improved by moves and exchanges."""
    count = len(problem.workloads)
    sizes = [contents.bit_count() for contents in problem.sets]
    starts = [
        _in_order(problem, sorted(range(count), key=lambda at: (-sizes[at], at))),
        _in_order(problem, sorted(range(count), key=lambda at: (sizes[at], at))),
        _in_order(problem, _by_likeness(problem, sizes)),
    ]
    if count <= PAIRS_MAX:
        starts.append(_cheapest_first(problem))
        starts += [at_random(problem, RUIN_SEED + at) for at in range(RANDOM_STARTS)]
    improved = [_improve(start) for start in starts]
    return _ruin_and_rebuild(max(improved, key=lambda machines: machines.score))


def _ruin_and_rebuild(best: Machines) -> Machines:
    """Takes some out by chance and puts them in again, where that is not worse.

    (Schrimpf et al., Record breaking optimization results using the ruin and recreate
    principle, 2000.) It finds what no single move does: three that fit in a gap.
    """
    chance = random.Random(RUIN_SEED)
    count = len(best.place)
    now = best
    for _ in range(min(RUINS_MAX, RUIN_STEPS_MAX // max(count, 1))):
        tried = now.copy()
        out = [at for at in range(count) if tried.place[at] is None]
        inside = [at for at in range(count) if tried.place[at] is not None]
        for workload in chance.sample(inside, min(len(inside), chance.randint(2, RUIN_MOST))):
            tried.take(workload)
            out.append(workload)
        chance.shuffle(out)
        for workload in out:
            where = _best_machine(tried, workload)
            if where is not None:
                tried.put(workload, where)
        if tried.score >= now.score:
            now = tried
        if now.score > best.score:
            best = now
    return best


def _best_machine(machines: Machines, workload: int) -> int | None:
    """Where it adds least; of equals where most is already, then the first."""
    fitting = [at for at in range(machines.problem.machines) if machines.fits(workload, at)]
    return min(
        fitting,
        key=lambda at: (machines.adds(workload, at), -machines.contents[at].bit_count(), at),
        default=None,
    )


def _in_order(problem: Problem, order: Iterable[int]) -> Machines:
    machines = Machines(problem)
    for workload in order:
        where = _best_machine(machines, workload)
        if where is not None:
            machines.put(workload, where)
    return machines


def _by_likeness(problem: Problem, sizes: list[int]) -> list[int]:
    """Each followed by the one that shares most with it."""
    left = set(range(len(sizes)))
    at = max(left, key=lambda one: (sizes[one], -one))
    order = []
    while True:
        order.append(at)
        left.discard(at)
        if not left:
            return order
        here = problem.sets[at]
        at = max(left, key=lambda one: ((problem.sets[one] & here).bit_count(), -one))


def _cheapest_first(problem: Problem) -> Machines:
    """Always the workload that adds least anywhere."""
    machines = Machines(problem)
    left = set(range(len(problem.workloads)))
    while left:
        found = [
            (machines.adds(workload, at), -problem.sets[workload].bit_count(), workload, at)
            for workload in left
            for at in range(problem.machines)
            if machines.fits(workload, at)
        ]
        if not found:
            break
        _, _, workload, where = min(found)
        machines.put(workload, where)
        left.discard(workload)
    return machines


def _improve(machines: Machines) -> Machines:
    """Moves and exchanges, as long as they make it better."""
    for _ in range(ROUNDS_MAX):
        before = machines.score
        _insert_left(machines)
        _move_each(machines)
        _exchange(machines)
        if machines.score <= before:
            break
    _insert_left(machines)
    return machines


def _insert_left(machines: Machines) -> None:
    for workload, where in enumerate(machines.place):
        if where is None:
            better = _best_machine(machines, workload)
            if better is not None:
                machines.put(workload, better)


def _move_each(machines: Machines) -> None:
    for workload, where in enumerate(machines.place):
        if where is not None:
            machines.take(workload)
            better = _best_machine(machines, workload)
            machines.put(workload, where if better is None else better)


def _exchange(machines: Machines) -> None:
    looked = 0
    count = len(machines.place)
    for one in range(count):
        for other in range(one + 1, count):
            here, there = machines.place[one], machines.place[other]
            if here == there:
                continue
            looked += 1
            if looked > SWAPS_MAX:
                return
            _try_exchange(machines, one, other)


def _try_exchange(machines: Machines, one: int, other: int) -> None:
    """Puts each where the other was, and back where that is not better."""
    before = machines.score
    was = machines.place[one], machines.place[other]
    for workload, where in zip((one, other), was, strict=True):
        if where is not None:
            machines.take(workload)
    target = was[1], was[0]
    for workload, where in zip((one, other), target, strict=True):
        if where is not None and machines.fits(workload, where):
            machines.put(workload, where)
    if machines.score > before:
        return
    for workload in (one, other):
        if machines.place[workload] is not None:
            machines.take(workload)
    for workload, where in zip((one, other), was, strict=True):
        if where is not None:
            machines.put(workload, where)


def at_random(problem: Problem, seed: int) -> Machines:
    """In any order, each on any machine where it fits: what is equal there melds, too."""
    chance = random.Random(seed)
    machines = Machines(problem)
    order = list(range(len(problem.workloads)))
    chance.shuffle(order)
    for workload in order:
        fitting = [at for at in range(problem.machines) if machines.fits(workload, at)]
        if fitting:
            machines.put(workload, chance.choice(fitting))
    return machines


def freed(machines: Machines) -> Estimate:
    """Pages that melding frees, by the half of the sample that did not make the plan."""
    problem = machines.problem
    whole = 0
    times: dict[int, int] = {}
    unions = [0] * problem.machines
    for workload, where in enumerate(machines.place):
        if where is not None:
            whole += problem.workloads[workload].content_pages
            unions[where] |= problem.judged[workload]
    for count in _holders(unions):
        times[count] = times.get(count, 0) + 1
    total = float(sum(count * number for count, number in times.items()))
    squares = float(sum(count * count * number for count, number in times.items()))
    # A content that no sketch shows may be on all of them.
    largest = float(max(sum(union != 0 for union in unions), 1))
    distinct = sampled_sum(total, squares, largest, problem.judged_share)
    return distinct.taken_from(float(whole)).within(0.0, float(whole))


def _holders(unions: Sequence[int]) -> Iterable[int]:
    """Of each content on any machine: on how many."""
    counts: dict[int, int] = {}
    for union in unions:
        at = 0
        for byte in union.to_bytes((union.bit_length() + 7) // 8, "little"):
            while byte:
                low = byte & -byte
                bit = at + low.bit_length() - 1
                counts[bit] = counts.get(bit, 0) + 1
                byte ^= low
            at += 8
    return counts.values()


def used_pages(machines: Machines) -> list[float]:
    """Of each machine the pages that its workloads take, melded."""
    share = machines.problem.set_share
    return [contents.bit_count() / share for contents in machines.contents]

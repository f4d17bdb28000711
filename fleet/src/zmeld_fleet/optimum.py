# SPDX-License-Identifier: GPL-2.0-or-later
"""The best placement there is, for small cases: a mixed integer program for HiGHS.

x[w, m] says that workload w is on machine m, z[c, m] that contents of class c are. A class
is all contents that the same workloads hold, so there are few. Most workloads count
first, then what melding frees of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from zmeld_fleet.placement import Machines, Problem

WORKLOADS_MAX = 24
MACHINES_MAX = 6
SECONDS_MAX = 20.0


@dataclass(frozen=True)
class Optimum:
    """What the solver found, and what no placement can exceed."""

    machines: Machines
    placed_max: int
    proved: bool


def is_small(problem: Problem) -> bool:
    """Whether the solver is asked."""
    return len(problem.workloads) <= WORKLOADS_MAX and problem.machines <= MACHINES_MAX


def solve(problem: Problem, seconds: float = SECONDS_MAX) -> Optimum | None:
    """The optimum; `None` where the solver found nothing in that time."""
    program = _Program(problem)
    found = milp(
        c=program.costs(),
        constraints=program.constraints(),
        integrality=program.integrality(),
        bounds=Bounds(0.0, 1.0),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    machines = Machines(problem)
    for workload in range(program.workloads):
        for machine in range(problem.machines):
            if found.x[program.x(workload, machine)] > 0.5:
                machines.put(workload, machine)
    bound = -float(found.mip_dual_bound) / program.reward
    return Optimum(machines, int(np.floor(bound + 1e-6)), found.status == 0)


class _Program:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.workloads = len(problem.workloads)
        classes: Counter[tuple[int, ...]] = Counter()
        for content in range(max(one.bit_length() for one in problem.sets)):
            held = (at for at, bits in enumerate(problem.sets) if bits >> content & 1)
            classes[tuple(held)] += 1
        self.classes = sorted((held, count) for held, count in classes.items() if held)
        self.sizes = [bits.bit_count() for bits in problem.sets]
        self.reward = float(sum(self.sizes) + 1)
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self._most: list[float] = []

    def x(self, workload: int, machine: int) -> int:
        return workload * self.problem.machines + machine

    def z(self, content_class: int, machine: int) -> int:
        first = self.workloads * self.problem.machines
        return first + content_class * self.problem.machines + machine

    @property
    def variables(self) -> int:
        return (self.workloads + len(self.classes)) * self.problem.machines

    def costs(self) -> np.ndarray:
        """Less is better: a workload is worth more than all that melding could free."""
        costs = np.zeros(self.variables)
        for workload, size in enumerate(self.sizes):
            for machine in range(self.problem.machines):
                costs[self.x(workload, machine)] = -self.reward - size
        for at, (_, count) in enumerate(self.classes):
            for machine in range(self.problem.machines):
                costs[self.z(at, machine)] = count
        return costs

    def integrality(self) -> np.ndarray:
        whole = np.zeros(self.variables)
        whole[: self.workloads * self.problem.machines] = 1
        return whole

    def _at_most(self, terms: list[tuple[int, float]], most: float) -> None:
        row = len(self._most)
        for column, value in terms:
            self._rows.append(row)
            self._columns.append(column)
            self._values.append(value)
        self._most.append(most)

    def constraints(self) -> LinearConstraint:
        machines = range(self.problem.machines)
        for workload in range(self.workloads):
            self._at_most([(self.x(workload, machine), 1.0) for machine in machines], 1.0)
        for machine in machines:
            self._one_machine(machine)
        shape = (len(self._most), self.variables)
        matrix = coo_array((self._values, (self._rows, self._columns)), shape=shape)
        return LinearConstraint(matrix.tocsr(), -np.inf, np.array(self._most))

    def _one_machine(self, machine: int) -> None:
        sizes = [(self.z(at, machine), float(c)) for at, (_, c) in enumerate(self.classes)]
        self._at_most(sizes, self.problem.room)
        for at, (held, _) in enumerate(self.classes):
            for workload in held:
                terms = [(self.x(workload, machine), 1.0), (self.z(at, machine), -1.0)]
                self._at_most(terms, 0.0)
        for one in range(self.workloads):
            for other in range(one + 1, self.workloads):
                if self.problem.apart[one] >> other & 1:
                    pair = [(self.x(one, machine), 1.0), (self.x(other, machine), 1.0)]
                    self._at_most(pair, 1.0)

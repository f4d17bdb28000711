# SPDX-License-Identifier: GPL-2.0-or-later
"""The study's model in SimPy, for a comparison of speed.

One process per processor and per submitted process's life, round robin with time slices, pulls by idle processors,
periodic looks, linux and on-demand. A simulated process makes its references in chunks of `--chunk` (SimPy has no
closed form for a batch; a chunk of 1 would make every reference an event). Results are of the same kind as the
simulator's, not the same to the digit: they are printed so that the two can be seen to do the same work.

    python3 study_model.py --processes 50 --run-time-ms 500 --replications 5
"""
import argparse
import json
import math
import random
import time

import simpy

SLIT = [[10, 20, 35, 55], [20, 10, 55, 35], [35, 55, 10, 20], [55, 35, 20, 10]]
SLICE, SWITCH, FAULT, MOVE, COPY, PTE = 100.0, 0.005, 0.002, 0.005, 0.0041, 0.0001  # ms
BUSY, FACTOR, IDLE, IMBALANCE = 256.0, 2.0, 8.0, 1.05
ACCESS, PAGE_KB = 0.0001, 4.0


class Task:
    def __init__(self, rng, args):
        self.work = rng.expovariate(1.0 / args.run_time_ms)
        self.pages = [None] * max(1, math.ceil(args.size_kb / PAGE_KB))
        self.unmapped = [False] * len(self.pages)
        self.cpu = rng.randrange(8)
        self.at = 0


class Machine:
    def __init__(self, env, args, policy, seed):
        self.env, self.args, self.policy = env, args, policy
        rng = random.Random(seed)
        self.tasks = [Task(rng, args) for _ in range(args.processes)]
        self.queues = [[] for _ in range(8)]
        self.running = [None] * 8
        self.wake = [env.event() for _ in range(8)]
        self.left = len(self.tasks)
        self.moves = 0
        self.events = 0
        self.done = env.event()
        for task in self.tasks:
            self.queues[task.cpu].append(task)
        for cpu in range(8):
            env.process(self.processor(cpu))
            for level in range(4):
                env.process(self.looks(cpu, level))

    def load(self, cpu):
        return len(self.queues[cpu]) + (self.running[cpu] is not None)

    def wait(self, ms):
        self.events += 1
        return self.env.timeout(ms)

    def processor(self, cpu):
        while self.left:
            if not self.queues[cpu] and not any(self.balance(cpu, level) for level in range(4)):
                self.wake[cpu] = self.env.event()
                yield self.wake[cpu]
                continue
            task = self.queues[cpu].pop(0)
            self.running[cpu] = task
            yield self.wait(SWITCH)
            yield from self.slice(cpu, task)
            self.running[cpu] = None
            if task.work <= 0:
                self.left -= 1
                if not self.left:
                    self.done.succeed()
            else:
                self.queues[cpu].append(task)

    def slice(self, cpu, task):
        a, r = self.args.access_share, self.args.reuse_share
        whole = ACCESS / (a * r)
        node, left = cpu // 2, SLICE
        while left > 0 and task.work > 0:
            slot = task.at % len(task.pages)
            if task.pages[slot] is None:
                task.pages[slot] = node
                left -= FAULT
                yield self.wait(FAULT)
            elif task.unmapped[slot]:
                task.unmapped[slot] = False
                cost = FAULT
                if task.pages[slot] != node:
                    cost += MOVE + COPY * SLIT[node][task.pages[slot]] / 10
                    task.pages[slot] = node
                left -= cost
                yield self.wait(cost)
            distance = SLIT[node][task.pages[slot]]
            cost = whole - ACCESS + ACCESS * distance / 10
            count = max(1, min(self.args.chunk, math.ceil(left / cost), math.ceil(task.work / whole)))
            left -= count * cost
            task.work -= count * whole
            task.at += 1
            yield self.wait(count * cost)

    def looks(self, cpu, level):
        while self.left:
            idle = self.running[cpu] is None
            yield self.wait(IDLE if idle else BUSY * FACTOR**level)
            self.balance(cpu, level)

    def balance(self, cpu, level):
        node = cpu // 2
        if level == 0:
            groups = {c: [c] for c in (2 * node, 2 * node + 1)}
            me = cpu
        else:
            reach = sorted(range(4), key=lambda n: SLIT[node][n])[: level + 1]
            groups = {n: [2 * n, 2 * n + 1] for n in reach}
            me = node
        loads = {g: sum(map(self.load, cpus)) / len(cpus) for g, cpus in groups.items()}
        busiest = max((g for g in groups if g != me), key=lambda g: loads[g])
        average = sum(loads.values()) / len(loads)
        if loads[me] >= loads[busiest] or loads[me] >= average or loads[busiest] <= IMBALANCE * loads[me]:
            return False
        wanted = int(min((loads[busiest] - average), (average - loads[me])) * len(groups[me]))
        if wanted == 0 and (loads[busiest] >= loads[me] + 2 or (self.running[cpu] is None and loads[busiest] > 1)):
            wanted = 1
        source = max(groups[busiest], key=lambda c: len(self.queues[c]))
        moved = False
        for _ in range(wanted):
            if not self.queues[source]:
                break
            task = self.queues[source].pop()
            if task.cpu // 2 != node:
                self.moves += 1
                if self.policy == "on-demand":
                    task.unmapped = [page is not None for page in task.pages]
            task.cpu = cpu
            self.queues[cpu].append(task)
            moved = True
        if moved and self.running[cpu] is None and not self.wake[cpu].triggered:
            self.wake[cpu].succeed()
        return moved


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--run-time-ms", type=float, default=500.0)
    parser.add_argument("--size-kb", type=float, default=50.0)
    parser.add_argument("--access-share", type=float, default=0.6)
    parser.add_argument("--reuse-share", type=float, default=0.4)
    parser.add_argument("--chunk", type=int, default=64, help="references per event: one visit to a page")
    parser.add_argument("--replications", type=int, default=3)
    args = parser.parse_args()
    totals, events, moves = {"linux": 0.0, "on-demand": 0.0}, 0, 0
    started = time.perf_counter()
    for seed in range(args.replications):
        for policy in totals:
            env = simpy.Environment()
            machine = Machine(env, args, policy, seed)
            env.run(until=machine.done)
            totals[policy] += env.now
            events += machine.events
            moves += machine.moves
    took = time.perf_counter() - started
    runs = 2 * args.replications
    print(json.dumps({
        "seconds_per_run": took / runs,
        "events_per_second": events / took,
        "events_per_run": events / runs,
        "node_moves_per_run": moves / runs,
        "linux_ms": totals["linux"] / args.replications,
        "on_demand_gain_percent": 100 * (1 - totals["on-demand"] / totals["linux"]),
    }))


if __name__ == "__main__":
    main()

//! The engine against a deliberately simple second implementation of the same model.
//!
//! It has no heap, no batches and no closed forms: it looks for the earliest event in lists, and makes every
//! reference one by one. The rules are written down again here. On small cases with the same seeds the two must
//! agree to the last picosecond and count.

use std::collections::VecDeque;

use proptest::prelude::*;
use zmeld_numa::engine::{Recording, SimulationCase};
use zmeld_numa::machine::NumaMachine;
use zmeld_numa::policy::{FullSettings, PolicyName, PolicySettings};
use zmeld_numa::scheduler::Scheduler;
use zmeld_numa::workload::{
    Arrivals, Distribution, DistributionShape, ProcessPlan, Quantity, StartNode, Workload,
};

struct Task {
    plan: ProcessPlan,
    node_of: Vec<Option<usize>>,
    unmapped: Vec<bool>,
    done: u64,
    remote: u64,
    until_renewal: u64,
    oldest: usize,
    owed: u64,
    cpu: usize,
    arrived: bool,
    copied_at: Option<u64>,
    finish: Option<u64>,
}

struct Cpu {
    node: usize,
    queue: VecDeque<usize>,
    current: Option<usize>,
    last: Option<usize>,
    /// When what it does now is over: one reference, or a pause.
    busy_until: u64,
    /// When the reference it makes began; `None` in a pause.
    reference_since: Option<u64>,
    slice_left: u64,
    load: u64,
    leaves_to: Option<usize>,
    looked: u64,
    levels: Vec<Vec<usize>>,
    looked_level: Vec<u64>,
}

struct Simple<'a> {
    machine: &'a NumaMachine,
    rules: &'a Scheduler,
    policy: PolicyName,
    full: FullSettings,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    link_free: Vec<Vec<u64>>,
    copies: u64,
    moves: [u64; 2],
    node_moves: u64,
    migrated: u64,
    touched: u64,
    end: u64,
}

fn ps_of_ms(ms: f64) -> u64 {
    (ms * 1e9).round() as u64
}

fn ps_of_us(us: f64) -> u64 {
    (us * 1e6).round() as u64
}

impl<'a> Simple<'a> {
    fn new(
        machine: &'a NumaMachine,
        rules: &'a Scheduler,
        policy: PolicyName,
        full: FullSettings,
        plans: &[ProcessPlan],
    ) -> Self {
        let task = |plan: &ProcessPlan| Task {
            node_of: vec![None; plan.pages],
            unmapped: vec![false; plan.pages],
            done: 0,
            remote: 0,
            until_renewal: plan.renewal_refs,
            oldest: 0,
            owed: 0,
            cpu: usize::MAX,
            arrived: false,
            copied_at: None,
            finish: None,
            plan: plan.clone(),
        };
        let mut cpus = Vec::new();
        for node in 0..machine.nodes() {
            // The own node (as an empty list) if it has company there, then what each larger distance adds.
            let mut levels = Vec::new();
            if machine.processors[node] > 1 {
                levels.push(vec![]);
            }
            let mut distances = machine.slit[node].to_vec();
            distances.remove(node);
            distances.sort();
            distances.dedup();
            let mut size = 1;
            for d in distances {
                let near = |&n: &usize| n == node || machine.slit[node][n] <= d;
                let reach: Vec<usize> = (0..machine.nodes())
                    .filter(|&n| machine.processors[n] > 0)
                    .filter(near)
                    .collect();
                if reach.len() > size {
                    size = reach.len();
                    levels.push(reach);
                }
            }
            for _ in 0..machine.processors[node] {
                cpus.push(Cpu {
                    node,
                    queue: VecDeque::new(),
                    current: None,
                    last: None,
                    busy_until: 0,
                    reference_since: None,
                    slice_left: 0,
                    load: 0,
                    leaves_to: None,
                    looked: 0,
                    looked_level: vec![0; levels.len()],
                    levels: levels.clone(),
                });
            }
        }
        Self {
            machine,
            rules,
            policy,
            full,
            tasks: plans.iter().map(task).collect(),
            cpus,
            link_free: vec![vec![0; machine.nodes()]; machine.nodes()],
            copies: 0,
            moves: [0, 0],
            node_moves: 0,
            migrated: 0,
            touched: 0,
            end: 0,
        }
    }

    fn run(mut self) -> Self {
        while self.tasks.iter().any(|t| t.finish.is_none()) {
            // At one time: arrivals, then copies that end, then processors, then looks; then by number.
            let mut next = (u64::MAX, 0, 0, 0);
            for (i, task) in self.tasks.iter().enumerate() {
                if !task.arrived {
                    next = next.min((task.plan.arrival, 0, i, 0));
                }
                if let Some(time) = task.copied_at {
                    next = next.min((time, 1, i, 0));
                }
            }
            for (i, cpu) in self.cpus.iter().enumerate() {
                if cpu.current.is_some() {
                    next = next.min((cpu.busy_until, 2, i, 0));
                }
                for level in 0..cpu.levels.len() {
                    next = next.min((self.next_look(i, level), 3, i, level));
                }
            }
            let (now, kind, i, level) = next;
            match kind {
                0 => {
                    self.tasks[i].arrived = true;
                    let to = self.tasks[i].plan.start.unwrap_or_else(|| self.emptiest());
                    self.tasks[i].cpu = to;
                    self.cpus[to].load += 1;
                    self.enqueue(i, now);
                }
                1 => {
                    self.tasks[i].copied_at = None;
                    self.change_pace(-1, now);
                    self.enqueue(i, now);
                }
                2 => self.step(i, now),
                _ => {
                    self.cpus[i].looked_level[level] = now;
                    if self.someone_waits() || self.rules.spread_running {
                        self.balance(i, level, now, 1);
                    }
                }
            }
        }
        self
    }

    fn someone_waits(&self) -> bool {
        self.cpus.iter().any(|c| !c.queue.is_empty())
    }

    fn next_look(&self, cpu: usize, level: usize) -> u64 {
        if !self.rules.balance_periodically {
            return u64::MAX;
        }
        let every = if self.cpus[cpu].current.is_none() {
            ps_of_ms(self.rules.idle_balance_ms)
        } else {
            ps_of_ms(self.rules.busy_balance_ms * self.rules.level_factor.powi(level as i32))
        };
        // The grid: every so often, from the processor's share of the first interval on.
        let mut at = every * cpu as u64 / self.cpus.len() as u64;
        let after = self.cpus[cpu]
            .looked
            .max(self.cpus[cpu].looked_level[level]);
        if at == 0 && after == 0 {
            at = every;
        }
        if at <= after && after > 0 {
            at += (after - at) / every * every;
            if at <= after {
                at += every;
            }
        }
        at
    }

    fn node_load(&self, node: usize) -> u64 {
        self.cpus
            .iter()
            .filter(|c| c.node == node)
            .map(|c| c.load)
            .sum()
    }

    fn emptiest(&self) -> usize {
        let key = |i: &usize| {
            let node = self.cpus[*i].node;
            (
                self.cpus[*i].load,
                self.node_load(node) * 1024 / self.machine.processors[node] as u64,
                *i,
            )
        };
        (0..self.cpus.len()).min_by_key(key).unwrap()
    }

    fn enqueue(&mut self, task: usize, now: u64) {
        let to = self.tasks[task].cpu;
        self.cpus[to].queue.push_back(task);
        if self.cpus[to].current.is_none() {
            self.dispatch(to, now);
        }
    }

    fn dispatch(&mut self, cpu: usize, now: u64) {
        if self.cpus[cpu].queue.is_empty() {
            self.cpus[cpu].current = None;
            if self.rules.pull_when_idle && self.someone_waits() {
                for level in 0..self.cpus[cpu].levels.len() {
                    if self.balance(cpu, level, now, 0) {
                        break;
                    }
                }
            }
            if self.cpus[cpu].current.is_none() {
                self.cpus[cpu].looked = now;
            }
            return;
        }
        let task = self.cpus[cpu].queue.pop_front().unwrap();
        if self.cpus[cpu].current.is_none() {
            self.cpus[cpu].looked = now;
        }
        self.cpus[cpu].current = Some(task);
        self.cpus[cpu].slice_left = ps_of_ms(self.rules.slice_ms);
        let mut pause = self.tasks[task].owed;
        self.tasks[task].owed = 0;
        if self.cpus[cpu].last != Some(task) {
            pause += ps_of_us(self.machine.costs.switch_us);
        }
        self.cpus[cpu].last = Some(task);
        self.pause(cpu, now + pause);
    }

    fn pause(&mut self, cpu: usize, until: u64) {
        self.cpus[cpu].busy_until = until;
        self.cpus[cpu].reference_since = None;
    }

    /// The page of a task's next reference: visits of `dwell` references, slot after slot.
    fn next_slot(&self, task: usize) -> usize {
        let plan = &self.tasks[task].plan;
        let mut at = self.tasks[task].done % plan.round.refs;
        for (slot, &refs) in plan.round.visits.iter().enumerate() {
            if at < u64::from(refs) {
                return slot;
            }
            at -= u64::from(refs);
        }
        unreachable!()
    }

    fn reference_cost(&self, cpu: usize, pace: u64) -> u64 {
        let task = self.cpus[cpu].current.unwrap();
        let page = self.tasks[task].node_of[self.next_slot(task)].unwrap();
        let distance = self.machine.slit[self.cpus[cpu].node][page];
        let plan = &self.tasks[task].plan;
        (plan.rest + plan.access * u64::from(distance) / 10) * pace / 1000
    }

    fn pace(&self) -> u64 {
        1000 + self.copies * (self.full.hold_back * 1000.0).round() as u64
    }

    fn change_pace(&mut self, copies: i64, now: u64) {
        self.copies = self.copies.checked_add_signed(copies).unwrap();
        // A reference in progress ends at its old pace, unless it begins just now.
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].current.is_some() && self.cpus[cpu].reference_since == Some(now) {
                self.cpus[cpu].busy_until = now + self.reference_cost(cpu, self.pace());
            }
        }
    }

    /// A processor's work is over.
    fn step(&mut self, cpu: usize, now: u64) {
        let task = self.cpus[cpu].current.unwrap();
        if let Some(since) = self.cpus[cpu].reference_since.take() {
            let slot = self.next_slot(task);
            if self.tasks[task].node_of[slot] != Some(self.cpus[cpu].node) {
                self.tasks[task].remote += 1;
            }
            self.tasks[task].done += 1;
            self.cpus[cpu].slice_left = self.cpus[cpu].slice_left.saturating_sub(now - since);
            if self.tasks[task].done == self.tasks[task].plan.refs {
                return self.finish(cpu, task, now);
            }
            if self.tasks[task].plan.renewal_refs > 0 {
                self.tasks[task].until_renewal -= 1;
                if self.tasks[task].until_renewal == 0 {
                    let t = &mut self.tasks[task];
                    t.until_renewal = t.plan.renewal_refs;
                    t.node_of[t.oldest] = None;
                    t.unmapped[t.oldest] = false;
                    t.oldest = (t.oldest + 1) % t.plan.pages;
                }
            }
        }
        if self.cpus[cpu].slice_left == 0 {
            return self.slice_ends(cpu, task, now);
        }
        let slot = self.next_slot(task);
        if self.tasks[task].node_of[slot].is_none() || self.tasks[task].unmapped[slot] {
            let spent = self.fault(cpu, task, slot, now);
            self.cpus[cpu].slice_left = self.cpus[cpu].slice_left.saturating_sub(spent);
            return self.pause(cpu, now + spent);
        }
        self.cpus[cpu].reference_since = Some(now);
        self.cpus[cpu].busy_until = now + self.reference_cost(cpu, self.pace());
    }

    fn fault(&mut self, cpu: usize, task: usize, slot: usize, now: u64) -> u64 {
        let here = self.cpus[cpu].node;
        let cost = ps_of_us(self.machine.costs.fault_us);
        let Some(from) = self.tasks[task].node_of[slot] else {
            self.touched += 1;
            self.tasks[task].node_of[slot] = Some(here);
            return cost;
        };
        self.tasks[task].unmapped[slot] = false;
        if from == here {
            return cost;
        }
        self.tasks[task].node_of[slot] = Some(here);
        self.migrated += 1;
        cost + self.copy(from, here, now + cost) + ps_of_us(self.machine.costs.move_page_us)
    }

    fn copy(&mut self, from: usize, to: usize, now: u64) -> u64 {
        let local = (self.machine.page_bytes as f64 * 1000.0 / self.machine.costs.copy_mb_per_s
            * 1000.0)
            .round() as u64;
        let starts = now.max(self.link_free[from][to]);
        self.link_free[from][to] = starts + local * u64::from(self.machine.slit[to][from]) / 10;
        self.link_free[from][to] - now
    }

    fn slice_ends(&mut self, cpu: usize, task: usize, now: u64) {
        if let Some(to) = self.cpus[cpu].leaves_to.take() {
            if self.cpus[to].load == 0 {
                self.cpus[cpu].current = None;
                self.relocate(task, to, now, 1);
                return self.dispatch(cpu, now);
            }
        }
        if self.cpus[cpu].queue.is_empty() {
            self.cpus[cpu].slice_left = ps_of_ms(self.rules.slice_ms);
            return self.step(cpu, now);
        }
        self.cpus[cpu].queue.push_back(task);
        self.dispatch(cpu, now);
    }

    fn finish(&mut self, cpu: usize, task: usize, now: u64) {
        self.tasks[task].finish = Some(now);
        self.end = now;
        self.cpus[cpu].load -= 1;
        self.cpus[cpu].leaves_to = None;
        self.cpus[cpu].current = None;
        self.dispatch(cpu, now);
    }

    fn relocate(&mut self, task: usize, to: usize, now: u64, why: usize) {
        let from = self.tasks[task].cpu;
        self.cpus[from].load -= 1;
        self.cpus[to].load += 1;
        self.tasks[task].cpu = to;
        self.moves[why] += 1;
        let target = self.cpus[to].node;
        if self.cpus[from].node == target {
            return self.enqueue(task, now);
        }
        self.node_moves += 1;
        if self.policy == PolicyName::OnDemand {
            for slot in 0..self.tasks[task].plan.pages {
                if self.tasks[task].node_of[slot].is_some() && !self.tasks[task].unmapped[slot] {
                    self.tasks[task].unmapped[slot] = true;
                    self.tasks[task].owed += ps_of_us(self.machine.costs.pte_us);
                }
            }
        }
        if self.policy == PolicyName::Full {
            let (mut took, mut pages) = (0, 0);
            for slot in 0..self.tasks[task].plan.pages {
                if let Some(source) = self.tasks[task].node_of[slot].filter(|&n| n != target) {
                    let own = self.copy(source, target, now + took)
                        + ps_of_us(self.machine.costs.move_page_us);
                    took += self.full.page_ms.map_or(own, ps_of_ms);
                    self.tasks[task].node_of[slot] = Some(target);
                    pages += 1;
                }
            }
            self.migrated += pages;
            if pages > 0 {
                self.change_pace(1, now);
                self.tasks[task].copied_at = Some(now + took + ps_of_ms(self.full.stop_ms));
                return;
            }
        }
        self.enqueue(task, now);
    }

    fn balance(&mut self, cpu: usize, level: usize, now: u64, why: usize) -> bool {
        let node = self.cpus[cpu].node;
        let span = self.cpus[cpu].levels[level].clone();
        let idle = self.cpus[cpu].current.is_none();
        // Groups as (processors, load): the processors of the own node, or the nodes of the span.
        let own_node: Vec<usize> = (0..self.cpus.len())
            .filter(|&c| self.cpus[c].node == node)
            .collect();
        let inside = span.is_empty();
        let groups: Vec<(usize, Vec<usize>)> = if inside {
            own_node.iter().map(|&c| (c, vec![c])).collect()
        } else {
            let of = |n: usize| {
                (0..self.cpus.len())
                    .filter(|&c| self.cpus[c].node == n)
                    .collect()
            };
            span.iter().map(|&n| (n, of(n))).collect()
        };
        let me = if inside { cpu } else { node };
        let load = |group: &[usize]| group.iter().map(|&c| self.cpus[c].load).sum::<u64>();
        let per_cpu = |group: &[usize]| load(group) * 1024 / group.len() as u64;
        let mine = groups.iter().find(|(id, _)| *id == me).unwrap();
        let this = per_cpu(&mine.1);
        let total: u64 = groups.iter().map(|(_, g)| load(g) * 1024).sum();
        let average = total / groups.iter().map(|(_, g)| g.len() as u64).sum::<u64>();
        let mut busiest: Option<&(usize, Vec<usize>)> = None;
        for group in groups.iter().filter(|(id, g)| *id != me && load(g) > 0) {
            if busiest.is_none_or(|b| per_cpu(&group.1) > per_cpu(&b.1)) {
                busiest = Some(group);
            }
        }
        let Some(busiest) = busiest else { return false };
        let max = per_cpu(&busiest.1);
        let even = this >= max
            || this >= average
            || max as f64 * 100.0 <= self.rules.imbalance_percent * this as f64;
        if !even {
            let pull = (max - average) * busiest.1.len() as u64;
            let room = (average - this) * mine.1.len() as u64;
            let mut wanted = pull.min(room) / 1024;
            if wanted == 0 && (max - this >= 2048 || (idle && max > 1024)) {
                wanted = 1;
            }
            let mut source = busiest.1[0];
            for &c in &busiest.1 {
                if self.cpus[c].queue.len() > self.cpus[source].queue.len() {
                    source = c;
                }
            }
            let mut moved = false;
            for _ in 0..wanted {
                if let Some(task) = self.cpus[source].queue.pop_back() {
                    self.relocate(task, cpu, now, why);
                    moved = true;
                }
            }
            if moved {
                return true;
            }
        }
        if !inside && self.rules.spread_running && self.node_load(node) == 0 {
            let mut crowded: Option<usize> = None;
            for &n in &span {
                let load = self.node_load(n);
                if load >= 2 && crowded.is_none_or(|c| load > self.node_load(c)) {
                    crowded = Some(n);
                }
            }
            if let Some(n) = crowded {
                let there: Vec<usize> = (0..self.cpus.len())
                    .filter(|&c| self.cpus[c].node == n)
                    .collect();
                if there.iter().all(|&c| self.cpus[c].leaves_to.is_none()) {
                    if let Some(&c) = there.iter().find(|&&c| self.cpus[c].current.is_some()) {
                        self.cpus[c].leaves_to = Some(cpu);
                    }
                }
            }
        }
        false
    }
}

/// A machine with slow accesses, so that a run has few enough references to be made one by one.
fn machine(chain: bool, processors: Vec<usize>) -> NumaMachine {
    let mut machine = NumaMachine::find("altix-4x2").unwrap();
    machine.costs.access_ns = 20_000.0;
    machine.costs.copy_mb_per_s = 20.0;
    if !chain {
        let rows = vec![
            vec![10, 20, 35, 55],
            vec![20, 10, 55, 35],
            vec![35, 55, 10, 20],
            vec![55, 35, 20, 10],
        ];
        machine.slit = rows;
    }
    machine.processors = processors;
    machine.check().unwrap()
}

fn compare(
    machine: &NumaMachine,
    rules: &Scheduler,
    workload: &Workload,
    full: FullSettings,
    seed: u64,
) -> u64 {
    workload.check(machine).unwrap();
    let plans = workload.plans(machine, seed, 0);
    let case = SimulationCase {
        machine: machine.clone(),
        scheduler: rules.clone(),
        workload: workload.clone(),
        policy: PolicySettings {
            full,
            ..PolicySettings::default()
        },
    };
    let mut moves = 0;
    for policy in [
        PolicyName::NoBalancing,
        PolicyName::OnDemand,
        PolicyName::Full,
    ] {
        let ours = case.simulate(policy, &plans, Recording::TOTALS);
        let simple = Simple::new(machine, rules, policy, full, &plans).run();
        let each = ours.processes.iter().map(|p| (p.finish, p.remote_refs));
        let tasks = simple.tasks.iter();
        let theirs = tasks.map(|t| (t.finish.unwrap(), t.remote));
        let (each, theirs): (Vec<_>, Vec<_>) = (each.collect(), theirs.collect());
        assert_eq!(each, theirs, "{policy}, seed {seed}: ends in ps, remote");
        let c = &ours.counters;
        assert_eq!(
            (ours.total_time, &c.process_moves[..2], c.node_moves),
            (simple.end, &simple.moves[..], simple.node_moves),
            "{policy}, seed {seed}: end, moves, moves between nodes"
        );
        assert_eq!(
            (c.numa_pages_migrated, c.pages_touched),
            (simple.migrated, simple.touched),
            "{policy}, seed {seed}: pages moved, first touches"
        );
        moves += simple.node_moves;
    }
    moves
}

#[test]
fn agrees_on_the_study_in_small() {
    let machine = machine(false, vec![2, 2, 2, 2]);
    let rules = Scheduler {
        slice_ms: 10.0,
        busy_balance_ms: 20.0,
        imbalance_percent: 110.0,
        spread_running: true,
        ..Scheduler::default()
    };
    let workload = Workload {
        processes: 30,
        run_time_ms: Quantity::Distribution(Distribution {
            mean: 60.0,
            shape: DistributionShape::Exponential,
            spread: 0.0,
        }),
        dwell: 3,
        renewal_kb_per_s: 300.0,
        start: StartNode::Random,
        ..Workload::default()
    };
    let full = FullSettings {
        stop_ms: 1.0,
        page_ms: Some(2.0),
        hold_back: 0.4,
    };
    let moves: u64 = (1..6)
        .map(|seed| compare(&machine, &rules, &workload, full, seed))
        .sum();
    assert!(moves > 50, "cases in which processes move: {moves}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn agrees_on_random_small_cases(
        seed in any::<u32>(),
        chain in any::<bool>(),
        processors in prop::collection::vec(0usize..3, 4),
        processes in 1usize..25,
        run_time in 5.0f64..80.0,
        size_kb in 1.0f64..120.0,
        shares in (0.05f64..1.0, 0.05f64..1.0),
        dwell in 1u32..9,
        skew in prop::sample::select(vec![0.0, 1.0]),
        renewal in prop::sample::select(vec![0.0, 100.0, 2000.0]),
        slice in prop::sample::select(vec![1.0, 7.0, 100.0]),
        balance in (1.0f64..50.0, 1.0f64..4.0, 100.0f64..130.0),
        switches in (any::<bool>(), any::<bool>(), any::<bool>()),
        start in prop::sample::select(vec![StartNode::LeastLoaded, StartNode::Random, StartNode::InTurn]),
        gap in prop::sample::select(vec![0.0, 3.0]),
        full in (0.0f64..3.0, prop::option::of(0.0f64..3.0), 0.0f64..2.0),
    ) {
        prop_assume!(processors.iter().sum::<usize>() > 0);
        let machine = machine(chain, processors);
        let rules = Scheduler {
            slice_ms: slice,
            busy_balance_ms: balance.0,
            level_factor: balance.1,
            imbalance_percent: balance.2,
            pull_when_idle: switches.0,
            balance_periodically: switches.1,
            spread_running: switches.2,
            ..Scheduler::default()
        };
        let workload = Workload {
            processes,
            run_time_ms: Quantity::Distribution(Distribution { mean: run_time, shape: DistributionShape::Gamma, spread: 0.8 }),
            size_kb: Quantity::Same(size_kb),
            access_share: shares.0,
            reuse_share: shares.1,
            dwell,
            skew,
            renewal_kb_per_s: renewal,
            arrivals: if gap > 0.0 { Arrivals::Poisson { gap_ms: gap } } else { Arrivals::Together },
            start,
        };
        let full = FullSettings { stop_ms: full.0, page_ms: full.1, hold_back: full.2 };
        compare(&machine, &rules, &workload, full, u64::from(seed));
    }
}

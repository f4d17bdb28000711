//! The simulation: discrete events on a heap.
//!
//! A process runs in *batches*: stretches of references between two events that could change what a
//! reference costs. A batch's cost is computed in closed form, exactly, whatever its length. Events
//! are first touches, faults on pages made inaccessible, renewals, scans, ends of slices and of
//! processes, arrivals, the end of a whole copy, and the scheduler's looks at its domains.
//!
//! Invariants:
//! - Time is whole picoseconds; two events at one time are handled in the order of `Event`'s fields, which
//!   does not depend on when they were put on the heap.
//! - A reference is never split: slices, changes of pace and scans take effect at the end of the reference in progress.
//! - Every reference of every process is made exactly once; every page is on one node, or nowhere before its first touch.
//! - A processor has a current process or is idle; idle with a non-empty queue does not occur between events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::machine::NumaMachine;
use crate::outcome::{Counters, MoveReason, Outcome, ProcessOutcome, Stalls, Timeline};
use crate::policy::{OnMove, Policy, PolicyName, PolicySettings, ScanRequest};
use crate::scheduler::{Domains, Scheduler};
use crate::time::{from_ns, US};
use crate::workload::{ProcessPlan, Workload};

/// No node: the page was never touched, or was freed.
const NOWHERE: u16 = u16::MAX;

/// The pace at which references cost what they cost; copies under way add to it.
const PACE: u64 = 1000;

/// How much a simulation records beyond its totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recording {
    /// Width of the time buckets for the local share over time, in picoseconds; 0 for none.
    pub bucket: u64,
    /// Whether accesses and copies are counted by pair of nodes.
    pub traffic: bool,
}

impl Recording {
    /// Totals only.
    pub const TOTALS: Self = Self {
        bucket: 0,
        traffic: false,
    };
}

/// One machine with its load and rules: everything but the policy. It must have been checked.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationCase {
    pub machine: NumaMachine,
    pub scheduler: Scheduler,
    pub workload: Workload,
    pub policy: PolicySettings,
}

impl SimulationCase {
    /// Runs all processes of one replication to their end under one policy.
    pub fn simulate(
        &self,
        policy: PolicyName,
        plans: &[ProcessPlan],
        detail: Recording,
    ) -> Outcome {
        let policy = policy.build(&self.policy, &self.machine);
        Engine::new(self, plans, detail, policy).run()
    }
}

/// An event, in the order in which events of one time are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: u64,
    kind: EventKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Arrival(usize),
    /// A script moves a process to a processor.
    Scripted(usize, usize),
    /// A process's whole copy is done, which held the others back by so much.
    Copied(usize, i64),
    /// A processor's batch is over; the batch by its generation.
    Batch(usize, u32),
    /// A processor looks at one of its domains; the looks by their generation.
    Look(usize, usize, u32),
}

#[derive(Debug, Clone, Copy)]
struct Page {
    node: u16,
    /// The node before the last migration.
    from: u16,
    /// The node of the last hinting fault.
    hinted: u16,
    inaccessible: bool,
    bounces: u32,
}

const FRESH: Page = Page {
    node: NOWHERE,
    from: NOWHERE,
    hinted: NOWHERE,
    inaccessible: false,
    bounces: 0,
};

struct Process<'a> {
    plan: &'a ProcessPlan,
    pages: Vec<Page>,
    /// Pages whose next reference faults.
    faulting: usize,
    refs_done: u64,
    /// The visit in progress and its references already made.
    visit: usize,
    in_visit: u32,
    renewal_left: u64,
    oldest: usize,
    scan_left: u64,
    scan_at: usize,
    scans: u32,
    /// Costs to be paid when it next runs.
    owed: u64,
    processor: usize,
    outcome: ProcessOutcome,
}

impl<'a> Process<'a> {
    /// One that has yet to arrive.
    fn new(plan: &'a ProcessPlan, scan_every: u64) -> Process<'a> {
        Process {
            plan,
            pages: vec![FRESH; plan.pages],
            faulting: plan.pages,
            refs_done: 0,
            visit: 0,
            in_visit: 0,
            renewal_left: plan.renewal_refs,
            oldest: 0,
            scan_left: scan_every,
            scan_at: 0,
            scans: 0,
            owed: 0,
            processor: usize::MAX,
            outcome: ProcessOutcome {
                arrival: plan.arrival,
                ideal: plan.ideal(),
                ..ProcessOutcome::default()
            },
        }
    }
}

#[derive(Default)]
struct Processor {
    node: usize,
    queue: VecDeque<usize>,
    current: Option<usize>,
    last: Option<usize>,
    generation: u32,
    /// The batch in progress: when it starts and how many references are planned.
    start: u64,
    planned: u64,
    slice_left: u64,
    /// Processes assigned: current, queued, and those whose copy is under way.
    load: u32,
    /// The running process leaves for this processor when its slice ends.
    leaves_to: Option<usize>,
    look_generation: u32,
    looking: bool,
    /// Looks at this time and before have been made, or were given up when it went idle or busy.
    looked_until: u64,
}

struct Engine<'a> {
    case: &'a SimulationCase,
    plans: &'a [ProcessPlan],
    detail: Recording,
    policy: Policy,
    domains: Domains,
    processes: Vec<Process<'a>>,
    processors: Vec<Processor>,
    by_node: Vec<std::ops::Range<usize>>,
    node_load: Vec<u32>,
    node_used: Vec<u64>,
    /// Until when the link between two nodes is busy with copies.
    link_free: Vec<u64>,
    heap: BinaryHeap<Reverse<Event>>,
    waiting: usize,
    /// Processors with looks on the heap.
    looking: usize,
    /// How long everything takes now, in thousandths: more while whole copies are under way.
    pace: u64,
    unfinished: usize,
    scan: Option<ScanRequest>,
    pinned: bool,
    costs: CostTable,
    counters: Counters,
    timeline: Timeline,
    traffic: Vec<u64>,
    copied: Vec<u64>,
    events: u64,
    end: u64,
}

/// The machine's costs in picoseconds.
struct CostTable {
    fault: u64,
    move_page: u64,
    pte: u64,
    switch: u64,
    /// Copying one page to a node at distance 10.
    copy_local: u64,
}

impl CostTable {
    fn new(machine: &NumaMachine) -> Self {
        let us = |value: f64| (value * US as f64).round() as u64;
        let costs = &machine.costs;
        Self {
            fault: us(costs.fault_us),
            move_page: us(costs.move_page_us),
            pte: us(costs.pte_us),
            switch: us(costs.switch_us),
            copy_local: from_ns(machine.page_bytes as f64 * 1000.0 / costs.copy_mb_per_s),
        }
    }

    /// Copying one page over a distance: bandwidth falls with distance / 10.
    fn copy(&self, distance: u32) -> u64 {
        self.copy_local * u64::from(distance) / 10
    }
}

/// The cost of one reference to a page at a distance, while others' copies slow everything down to `pace` thousandths.
fn ref_cost(plan: &ProcessPlan, distance: u32, pace: u64) -> u64 {
    (plan.rest + plan.access * u64::from(distance) / 10) * pace / PACE
}

impl Process<'_> {
    fn done(&self) -> bool {
        self.refs_done == self.plan.refs
    }

    fn faults_next(&self) -> bool {
        self.faulting > 0 && {
            let page = &self.pages[self.visit];
            page.node == NOWHERE || page.inaccessible
        }
    }

    /// The fewest references that take `budget` or longer, but at most `limit`, stopping before a page that faults.
    fn stretch(&self, distances: &[u32], pace: u64, budget: u64, limit: u64) -> (u64, u64) {
        if budget == 0 || limit == 0 {
            return (0, 0);
        }
        let visits = &self.plan.round.visits;
        let (mut visit, mut skip) = (self.visit, self.in_visit);
        let (mut refs, mut time) = (0, 0);
        let mut may_leap = self.faulting == 0;
        loop {
            if may_leap && visit == 0 && skip == 0 {
                may_leap = false;
                let costs = visits.iter().zip(&self.pages).map(|(&refs, page)| {
                    let distance = distances[usize::from(page.node)];
                    u64::from(refs) * ref_cost(self.plan, distance, pace)
                });
                let round_cost: u64 = costs.sum();
                // Whole rounds that end before the budget does, so that the last reference is found below.
                let rounds =
                    ((budget - time - 1) / round_cost).min((limit - refs) / self.plan.round.refs);
                refs += rounds * self.plan.round.refs;
                time += rounds * round_cost;
                if refs == limit {
                    return (refs, time);
                }
            }
            let page = &self.pages[visit];
            if page.node == NOWHERE || page.inaccessible {
                return (refs, time);
            }
            let cost = ref_cost(self.plan, distances[usize::from(page.node)], pace);
            let take = u64::from(visits[visit] - skip)
                .min(limit - refs)
                .min((budget - time).div_ceil(cost));
            refs += take;
            time += take * cost;
            if time >= budget || refs == limit {
                return (refs, time);
            }
            skip = 0;
            visit = (visit + 1) % visits.len();
        }
    }

    /// Calls `each` with every page's slot and the references that the next `refs` make to it, in one or more parts.
    fn each_reference(&self, refs: u64, mut each: impl FnMut(usize, u64)) {
        let round = &self.plan.round;
        let rounds = refs / round.refs;
        if rounds > 0 {
            for (slot, &refs) in round.visits.iter().enumerate() {
                each(slot, rounds * u64::from(refs));
            }
        }
        let mut left = refs % round.refs;
        let (mut visit, mut skip) = (self.visit, self.in_visit);
        while left > 0 {
            let take = u64::from(round.visits[visit] - skip).min(left);
            each(visit, take);
            left -= take;
            skip = 0;
            visit = (visit + 1) % round.visits.len();
        }
    }

    /// Moves the position in the round on by `refs`.
    fn advance(&mut self, refs: u64) {
        self.refs_done += refs;
        let round = &self.plan.round;
        let mut left = refs % round.refs;
        while left > 0 {
            let rest = u64::from(round.visits[self.visit] - self.in_visit);
            if left < rest {
                self.in_visit += left as u32;
                return;
            }
            left -= rest;
            self.in_visit = 0;
            self.visit = (self.visit + 1) % round.visits.len();
        }
    }
}

impl<'a> Engine<'a> {
    fn new(
        case: &'a SimulationCase,
        plans: &'a [ProcessPlan],
        detail: Recording,
        policy: Policy,
    ) -> Self {
        let machine = &case.machine;
        let nodes = machine.nodes();
        let mut by_node = Vec::with_capacity(nodes);
        let mut first = 0;
        for &count in &machine.processors {
            by_node.push(first..first + count);
            first += count;
        }
        let scan = policy.scan;
        let scan_every = scan.map_or(0, |scan| scan.every);
        let process = |plan| Process::new(plan, scan_every);
        let pairs = if detail.traffic { nodes * nodes } else { 0 };
        Self {
            domains: Domains::new(machine, &case.scheduler),
            processes: plans.iter().map(process).collect(),
            processors: machine
                .processor_nodes()
                .into_iter()
                .map(|node| Processor {
                    node,
                    ..Processor::default()
                })
                .collect(),
            by_node,
            node_load: vec![0; nodes],
            node_used: vec![0; nodes],
            link_free: vec![0; nodes * nodes],
            heap: BinaryHeap::new(),
            waiting: 0,
            looking: 0,
            pace: PACE,
            unfinished: plans.len(),
            scan,
            pinned: policy.pins_processes(),
            costs: CostTable::new(machine),
            counters: Counters::default(),
            timeline: Timeline::new(detail.bucket),
            traffic: vec![0; pairs],
            copied: vec![0; pairs],
            events: 0,
            end: 0,
            case,
            plans,
            detail,
            policy,
        }
    }

    fn run(mut self) -> Outcome {
        for (process, plan) in self.plans.iter().enumerate() {
            self.push(plan.arrival, EventKind::Arrival(process));
            for &(time, to) in &plan.moves {
                self.push(time, EventKind::Scripted(process, to));
            }
        }
        while self.unfinished > 0 {
            let Some(Reverse(Event { time, kind })) = self.heap.pop() else {
                unreachable!("processes are left but no event is");
            };
            self.handle(time, kind);
        }
        self.outcome()
    }

    fn handle(&mut self, now: u64, kind: EventKind) {
        match kind {
            EventKind::Arrival(process) => self.arrive(process, now),
            EventKind::Scripted(process, to) => self.scripted(process, to, now),
            EventKind::Copied(process, hold_back) => {
                self.copies_change(now, -hold_back);
                self.enqueue(process, now);
            }
            EventKind::Batch(cpu, generation) => {
                if self.processors[cpu].generation != generation {
                    return;
                }
                self.batch_ends(cpu, now);
            }
            EventKind::Look(cpu, level, generation) => {
                if self.processors[cpu].look_generation != generation {
                    return;
                }
                self.look(cpu, level, now);
            }
        }
        self.events += 1;
    }

    fn push(&mut self, time: u64, kind: EventKind) {
        self.heap.push(Reverse(Event { time, kind }));
    }

    // Placing and moving processes.

    fn arrive(&mut self, process: usize, now: u64) {
        let to = self.plans[process]
            .start
            .unwrap_or_else(|| self.least_loaded());
        self.assign(process, to);
        self.enqueue(process, now);
    }

    fn least_loaded(&self) -> usize {
        let loads = self.processors.iter().enumerate().map(|(cpu, p)| {
            let node = p.node;
            // The emptiest processor; among equals the one on the emptiest node, then the first.
            (
                p.load,
                self.node_load[node] * 1024 / self.case.machine.processors[node] as u32,
                cpu,
            )
        });
        loads.min().map_or(0, |(_, _, cpu)| cpu)
    }

    fn assign(&mut self, process: usize, to: usize) {
        self.processes[process].processor = to;
        self.processors[to].load += 1;
        self.node_load[self.processors[to].node] += 1;
    }

    fn unassign(&mut self, process: usize) {
        let from = self.processes[process].processor;
        self.processors[from].load -= 1;
        self.node_load[self.processors[from].node] -= 1;
    }

    /// Whether a look could find anything to move: something waits, or running processes could be spread.
    fn worth_looking(&self) -> bool {
        let mut loads = self.node_load.iter().zip(&self.by_node);
        self.waiting > 0
            || (self.case.scheduler.spread_running
                && self.node_load.iter().any(|&load| load >= 2)
                && loads.any(|(&load, processors)| load == 0 && !processors.is_empty()))
    }

    /// Puts a process that can run at the end of its processor's queue, and starts it if the processor is idle.
    fn enqueue(&mut self, process: usize, now: u64) {
        let to = self.processes[process].processor;
        self.processors[to].queue.push_back(process);
        self.waiting += 1;
        if self.processors[to].current.is_none() {
            self.dispatch(to, now);
        }
        self.start_looking(now);
    }

    /// Moves a process that is not running and in no queue.
    fn relocate(&mut self, process: usize, to: usize, now: u64, reason: MoveReason) {
        let from = self.processes[process].processor;
        self.unassign(process);
        self.assign(process, to);
        self.counters.process_moves[reason as usize] += 1;
        let (from_node, to_node) = (self.processors[from].node, self.processors[to].node);
        if from_node == to_node {
            return self.enqueue(process, now);
        }
        self.counters.node_moves += 1;
        match self.policy.moved() {
            OnMove::Stay => self.enqueue(process, now),
            OnMove::Unmap => {
                self.unmap_all(process);
                self.enqueue(process, now);
            }
            OnMove::Copy(whole) => {
                let (mut took, mut pages) = (0, 0);
                for slot in 0..self.processes[process].pages.len() {
                    let source = self.processes[process].pages[slot].node;
                    if source == NOWHERE || usize::from(source) == to_node {
                        continue;
                    }
                    let Some(target) = self.room_near(to_node) else {
                        continue;
                    };
                    let own = self.costs.move_page;
                    let copy = self.copy_time(usize::from(source), target, now + took);
                    took += whole.page.unwrap_or(own + copy);
                    self.put_page(process, slot, target);
                    pages += 1;
                }
                if pages == 0 {
                    // It has touched nothing yet, or its memory is there already: nothing to stop for.
                    return self.enqueue(process, now);
                }
                took += whole.stop;
                self.counters.whole_copies += 1;
                self.processes[process].outcome.stalls.copying += took;
                self.copies_change(now, whole.hold_back);
                self.start_looking(now);
                self.push(now + took, EventKind::Copied(process, whole.hold_back));
            }
        }
    }

    /// A whole copy begins (or ends, with a negative share): everything that runs goes on at another pace, from the end
    /// of its reference in progress.
    fn copies_change(&mut self, now: u64, hold_back: i64) {
        if hold_back == 0 {
            return;
        }
        let boundaries: Vec<u64> = (0..self.processors.len())
            .map(|cpu| self.commit(cpu, now))
            .collect();
        self.pace = self
            .pace
            .checked_add_signed(hold_back)
            .expect("each copy takes back what it added");
        for (cpu, boundary) in boundaries.into_iter().enumerate() {
            if self.processors[cpu].current.is_some() {
                self.plan_batch(cpu, boundary.max(now));
            }
        }
    }

    /// Moves a process to a processor because a script says so, from the end of its reference in progress.
    fn scripted(&mut self, process: usize, to: usize, now: u64) {
        let from = self.processes[process].processor;
        let Some(cpu) = self.processors.get_mut(from).filter(|_| from != to) else {
            return;
        };
        if cpu.current == Some(process) {
            let boundary = self.commit(from, now);
            if self.processes[process].done() {
                // Its last reference ends it; the batch's own event sees to that.
                return self.plan_batch(from, boundary);
            }
            self.processes[process].owed += boundary.saturating_sub(now);
            self.processors[from].current = None;
            self.relocate(process, to, now, MoveReason::Scripted);
            return self.dispatch(from, now);
        }
        if let Some(at) = cpu.queue.iter().position(|&queued| queued == process) {
            cpu.queue.remove(at);
            self.waiting -= 1;
            self.relocate(process, to, now, MoveReason::Scripted);
        }
    }

    fn unmap_all(&mut self, process: usize) {
        let process = &mut self.processes[process];
        let mut changed = 0;
        for page in &mut process.pages {
            if page.node != NOWHERE && !page.inaccessible {
                page.inaccessible = true;
                changed += 1;
            }
        }
        process.faulting += changed;
        process.owed += changed as u64 * self.costs.pte;
        process.outcome.stalls.scanning += changed as u64 * self.costs.pte;
        self.counters.pages_unmapped += changed as u64;
    }

    // Running processes.

    /// Gives an idle processor its next process, pulling one if its queue is empty.
    fn dispatch(&mut self, cpu: usize, now: u64) {
        if self.processors[cpu].queue.is_empty() {
            self.processors[cpu].current = None;
            self.processors[cpu].generation += 1;
            if self.case.scheduler.pull_when_idle && self.waiting > 0 && !self.pinned {
                let levels = self.domains.of_node(self.processors[cpu].node).len();
                // A pull by `relocate` dispatches; without one the processor stays idle.
                let _pulled =
                    (0..levels).any(|level| self.balance(cpu, level, now, MoveReason::Idle));
            }
            if self.processors[cpu].current.is_none() {
                self.stop_looking(cpu, now);
                self.start_looking(now);
            }
            return;
        }
        let Some(next) = self.processors[cpu].queue.pop_front() else {
            return;
        };
        self.waiting -= 1;
        let was_idle = self.processors[cpu].current.is_none();
        self.processors[cpu].current = Some(next);
        self.processors[cpu].slice_left = crate::time::from_ms(self.case.scheduler.slice_ms);
        if was_idle {
            self.stop_looking(cpu, now);
            self.start_looking(now);
        }
        let mut from = now;
        if self.processors[cpu].last != Some(next) {
            from += self.costs.switch;
        }
        self.processors[cpu].last = Some(next);
        let process = &mut self.processes[next];
        from += std::mem::take(&mut process.owed);
        self.plan_batch(cpu, from);
    }

    /// Plans the next batch of a processor's current process, to start at `from`.
    fn plan_batch(&mut self, cpu: usize, from: u64) {
        let Some(current) = self.processors[cpu].current else {
            return;
        };
        let processor = &self.processors[cpu];
        let distances = &self.case.machine.slit[processor.node];
        let process = &mut self.processes[current];
        let mut budget = processor.slice_left;
        if self.scan.is_some() {
            budget = budget.min(process.scan_left);
        }
        let mut limit = process.plan.refs - process.refs_done;
        if process.plan.renewal_refs > 0 {
            limit = limit.min(process.renewal_left);
        }
        let (refs, time) = process.stretch(distances, self.pace, budget, limit);
        let processor = &mut self.processors[cpu];
        processor.start = from;
        processor.planned = refs;
        processor.generation = processor.generation.wrapping_add(1);
        let kind = EventKind::Batch(cpu, processor.generation);
        self.push(from + time, kind);
    }

    /// Makes the references of the batch in progress, up to the end of the one under way at `now`.
    /// Returns when that is.
    fn commit(&mut self, cpu: usize, now: u64) -> u64 {
        let processor = &self.processors[cpu];
        let Some(current) = processor.current else {
            return now;
        };
        if now <= processor.start {
            return processor.start;
        }
        let (node, start, planned) = (processor.node, processor.start, processor.planned);
        let distances = &self.case.machine.slit[node];
        let process = &mut self.processes[current];
        let (refs, time) = process.stretch(distances, self.pace, now - start, planned);
        if refs == 0 {
            return start;
        }
        let record = self.detail.traffic;
        let mut remote = 0;
        // Time of the same references, undisturbed: all local, and each where its page is.
        let local_time = refs * ref_cost(process.plan, crate::machine::LOCAL_DISTANCE, PACE);
        let mut calm_time = 0;
        let traffic = &mut self.traffic;
        let nodes = self.node_used.len();
        let (pages, plan) = (&process.pages, process.plan);
        process.each_reference(refs, |slot, refs| {
            let at = usize::from(pages[slot].node);
            if at != node {
                remote += refs;
            }
            calm_time += refs * ref_cost(plan, distances[at], PACE);
            if record {
                traffic[node * nodes + at] += refs;
            }
        });
        process.advance(refs);
        process.outcome.refs += refs;
        process.outcome.remote_refs += remote;
        process.outcome.stalls.remote += calm_time - local_time;
        process.outcome.stalls.held_back += time - calm_time;
        process.outcome.ran += time;
        if process.plan.renewal_refs > 0 {
            process.renewal_left -= refs;
        }
        process.scan_left = process.scan_left.saturating_sub(time);
        let accesses = refs as f64 * process.plan.accesses_per_ref;
        self.timeline.add(start + time, accesses, remote as f64);
        let processor = &mut self.processors[cpu];
        processor.slice_left = processor.slice_left.saturating_sub(time);
        processor.planned -= refs;
        processor.start = start + time;
        processor.start
    }

    fn batch_ends(&mut self, cpu: usize, now: u64) {
        self.commit(cpu, now);
        let Some(index) = self.processors[cpu].current else {
            return;
        };
        if self.processes[index].done() {
            return self.finish(cpu, index, now);
        }
        if self.processes[index].plan.renewal_refs > 0 && self.processes[index].renewal_left == 0 {
            self.renew(index);
        }
        let mut spent = 0;
        if self.scan.is_some() && self.processes[index].scan_left == 0 {
            spent += self.scan_pages(index);
        }
        if self.processors[cpu].slice_left > 0 && self.processes[index].faults_next() {
            spent += self.fault(cpu, index, now + spent);
        }
        let processor = &mut self.processors[cpu];
        processor.slice_left = processor.slice_left.saturating_sub(spent);
        if processor.slice_left > 0 {
            return self.plan_batch(cpu, now + spent);
        }
        if spent > 0 {
            // The kernel's work used the slice up: it ends when that work does.
            processor.start = now + spent;
            processor.planned = 0;
            processor.generation = processor.generation.wrapping_add(1);
            let kind = EventKind::Batch(cpu, processor.generation);
            return self.push(now + spent, kind);
        }
        self.slice_ends(cpu, index, now);
    }

    fn slice_ends(&mut self, cpu: usize, index: usize, now: u64) {
        let leaves_to = self.processors[cpu].leaves_to.take();
        if let Some(to) = leaves_to.filter(|&to| self.processors[to].load == 0) {
            self.processors[cpu].current = None;
            self.relocate(index, to, now, MoveReason::Periodic);
            return self.dispatch(cpu, now);
        }
        if self.processors[cpu].queue.is_empty() {
            self.processors[cpu].slice_left = crate::time::from_ms(self.case.scheduler.slice_ms);
            return self.plan_batch(cpu, now);
        }
        self.processors[cpu].queue.push_back(index);
        self.waiting += 1;
        self.dispatch(cpu, now);
    }

    fn finish(&mut self, cpu: usize, index: usize, now: u64) {
        let process = &mut self.processes[index];
        process.outcome.finish = now;
        for slot in 0..process.pages.len() {
            self.release(index, slot);
        }
        self.unassign(index);
        self.unfinished -= 1;
        self.end = now;
        self.processors[cpu].leaves_to = None;
        self.processors[cpu].current = None;
        self.dispatch(cpu, now);
    }

    // Pages.

    /// Handles the fault of a process on its next page; returns what it costs the process.
    fn fault(&mut self, cpu: usize, index: usize, now: u64) -> u64 {
        let here = self.processors[cpu].node;
        let process = &self.processes[index];
        let slot = process.visit;
        let page = process.pages[slot];
        let mut cost = self.costs.fault;
        if page.node == NOWHERE {
            let wanted = self.policy.place(slot, here);
            let node = self.room_near(wanted).unwrap_or(wanted);
            self.counters.pages_touched += 1;
            self.counters.numa_hit += u64::from(node == wanted);
            self.counters.numa_miss += u64::from(node != wanted);
            self.put_page(index, slot, node);
            self.processes[index].faulting -= 1;
            self.processes[index].outcome.stalls.faulting += cost;
            return cost;
        }
        let process = &mut self.processes[index];
        process.pages[slot].inaccessible = false;
        process.faulting -= 1;
        let is_local = usize::from(page.node) == here;
        if self.scan.is_some() {
            self.counters.numa_hint_faults += 1;
            self.counters.numa_hint_faults_local += u64::from(is_local);
        } else {
            self.counters.next_touch_faults += 1;
        }
        let again = usize::from(page.hinted) == here;
        let migrates = !is_local && self.policy.migrates(again, process.scans);
        process.pages[slot].hinted = here as u16;
        process.outcome.stalls.faulting += cost;
        if migrates && self.free(here) != Some(0) {
            let copy =
                self.copy_time(usize::from(page.node), here, now + cost) + self.costs.move_page;
            self.processes[index].outcome.stalls.copying += copy;
            cost += copy;
            self.put_page(index, slot, here);
        }
        cost
    }

    /// Copies a page over the link between two nodes, waiting while it is busy; returns the time until it is done.
    fn copy_time(&mut self, from: usize, to: usize, now: u64) -> u64 {
        let nodes = self.node_used.len();
        let link = &mut self.link_free[from * nodes + to];
        let start = (*link).max(now);
        *link = start + self.costs.copy(self.case.machine.slit[to][from]);
        *link - now
    }

    fn free(&self, node: usize) -> Option<u64> {
        self.case.machine.memory_pages[node].map(|total| total.saturating_sub(self.node_used[node]))
    }

    /// The nearest node to `wanted` with a free page.
    fn room_near(&self, wanted: usize) -> Option<usize> {
        if self.free(wanted) != Some(0) {
            return Some(wanted);
        }
        let row = &self.case.machine.slit[wanted];
        (0..row.len())
            .filter(|&node| self.free(node) != Some(0))
            .min_by_key(|&node| (row[node], node))
    }

    /// Puts a page on a node: its first, or another.
    fn put_page(&mut self, index: usize, slot: usize, to: usize) {
        let page = &mut self.processes[index].pages[slot];
        if page.node != NOWHERE {
            self.node_used[usize::from(page.node)] -= 1;
            self.counters.numa_pages_migrated += 1;
            if page.from == to as u16 {
                page.bounces += 1;
                if page.bounces == 1 {
                    self.counters.ping_pong_pages += 1;
                }
                self.counters.ping_pong_moves += 1;
            }
            page.from = page.node;
            if self.detail.traffic {
                self.copied[usize::from(page.node) * self.node_used.len() + to] += 1;
            }
        }
        page.node = to as u16;
        self.node_used[to] += 1;
    }

    fn release(&mut self, index: usize, slot: usize) {
        let process = &mut self.processes[index];
        let page = process.pages[slot];
        if page.node == NOWHERE {
            return;
        }
        self.node_used[usize::from(page.node)] -= 1;
        if !page.inaccessible {
            process.faulting += 1;
        }
        process.pages[slot] = FRESH;
    }

    fn renew(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.renewal_left = process.plan.renewal_refs;
        let slot = process.oldest;
        process.oldest = (slot + 1) % process.pages.len();
        self.counters.pages_renewed += 1;
        self.release(index, slot);
    }

    /// Makes the next pages of a process inaccessible; returns what that costs it.
    fn scan_pages(&mut self, index: usize) -> u64 {
        let Some(scan) = self.scan else { return 0 };
        let here = self.processors[self.processes[index].processor].node;
        let process = &mut self.processes[index];
        process.scans += 1;
        process.scan_left = scan.every;
        let mut updates = 0;
        for _ in 0..scan.pages.min(process.pages.len()) {
            let at = process.scan_at;
            process.scan_at = (at + 1) % process.pages.len();
            let page = &mut process.pages[at];
            let spared = usize::from(page.node) == here;
            if page.node != NOWHERE && !page.inaccessible && !spared {
                page.inaccessible = true;
                process.faulting += 1;
                updates += 1;
            }
        }
        self.counters.numa_pte_updates += updates;
        let cost = updates * self.costs.pte;
        process.outcome.stalls.scanning += cost;
        cost
    }

    // Balancing.

    /// Sees to it that every processor has its next looks on the heap while there is something to look for.
    fn start_looking(&mut self, now: u64) {
        if !self.case.scheduler.balance_periodically || self.pinned {
            return;
        }
        if self.looking == self.processors.len() || !self.worth_looking() {
            return;
        }
        for cpu in 0..self.processors.len() {
            if self.processors[cpu].looking {
                continue;
            }
            self.processors[cpu].looking = true;
            self.looking += 1;
            // A look that is due right now is still made.
            let after = self.processors[cpu].looked_until.max(now.saturating_sub(1));
            for level in 0..self.domains.of_node(self.processors[cpu].node).len() {
                self.push_look(cpu, level, after);
            }
        }
    }

    /// Takes a processor's looks back: its state changed, or there is nothing to look for.
    fn stop_looking(&mut self, cpu: usize, now: u64) {
        let processor = &mut self.processors[cpu];
        processor.look_generation = processor.look_generation.wrapping_add(1);
        self.looking -= usize::from(processor.looking);
        processor.looking = false;
        processor.looked_until = now;
    }

    fn push_look(&mut self, cpu: usize, level: usize, after: u64) {
        let idle = self.processors[cpu].current.is_none();
        let time = self
            .domains
            .next_look(after, level, idle, cpu, self.processors.len());
        let generation = self.processors[cpu].look_generation;
        self.push(time, EventKind::Look(cpu, level, generation));
    }

    fn look(&mut self, cpu: usize, level: usize, now: u64) {
        if !self.worth_looking() {
            // Looks start again when there is something to look for; the grid of times stays the same.
            return self.stop_looking(cpu, now);
        }
        self.counters.looks += 1;
        let generation = self.processors[cpu].look_generation;
        self.balance(cpu, level, now, MoveReason::Periodic);
        if self.processors[cpu].look_generation == generation {
            self.push_look(cpu, level, now);
        }
    }

    /// One look of a processor at one of its domains; pulls what the rule of Linux 2.6's `load_balance` pulls.
    /// Returns whether anything was moved.
    fn balance(&mut self, cpu: usize, level: usize, now: u64, reason: MoveReason) -> bool {
        let node = self.processors[cpu].node;
        let domain = &self.domains.of_node(node)[level];
        let idle = self.processors[cpu].current.is_none();
        let inside = domain.len() == 1;
        let of = |group: usize| match inside {
            true => (u64::from(self.processors[group].load), 1),
            false => (
                u64::from(self.node_load[group]),
                self.by_node[group].len() as u64,
            ),
        };
        let (me, own, others) = match inside {
            true => (cpu, self.by_node[node].clone(), &[][..]),
            false => (node, 0..0, &domain[..]),
        };
        // Loads per processor in 1024ths.
        let (mut busiest, mut max, mut total, mut count) = (None, 0, 0, 0);
        for group in own.chain(others.iter().copied()) {
            let (load, processors) = of(group);
            total += load * 1024;
            count += processors;
            if group != me && load * 1024 / processors > max {
                (busiest, max) = (Some(group), load * 1024 / processors);
            }
        }
        let (own_load, own_processors) = of(me);
        let this = own_load * 1024 / own_processors;
        let Some(busiest) = busiest else { return false };
        let average = total / count;
        let threshold = self.case.scheduler.imbalance_percent;
        if this >= max || this >= average || max as f64 * 100.0 <= threshold * this as f64 {
            return self.spread(cpu, level, inside);
        }
        let pull = (max - average) * of(busiest).1;
        let mut wanted = pull.min((average - this) * own_processors) / 1024;
        // Less than one process to even things out: still one, if it would run instead of waiting, or if the
        // difference is two or more.
        if wanted == 0 && (max >= this + 2048 || (idle && max > 1024)) {
            wanted = 1;
        }
        let range = if inside {
            busiest..busiest + 1
        } else {
            self.by_node[busiest].clone()
        };
        let Some(source) = range.max_by_key(|&c| (self.processors[c].queue.len(), Reverse(c)))
        else {
            return false;
        };
        let mut moved = false;
        for _ in 0..wanted {
            // The last in the queue ran most recently, or has just come: it would wait longest.
            let Some(process) = self.processors[source].queue.pop_back() else {
                break;
            };
            self.waiting -= 1;
            moved = true;
            self.relocate(process, cpu, now, reason);
        }
        if moved {
            return true;
        }
        self.spread(cpu, level, inside)
    }

    /// Marks a running process on a node that runs two or more to come to this idle node at the end of its slice.
    fn spread(&mut self, cpu: usize, level: usize, inside: bool) -> bool {
        let node = self.processors[cpu].node;
        if inside || !self.case.scheduler.spread_running || self.node_load[node] > 0 {
            return false;
        }
        let domain = &self.domains.of_node(node)[level];
        let crowded = domain.iter().copied();
        let crowded = crowded.filter(|&n| self.node_load[n] >= 2);
        let Some(from) = crowded.max_by_key(|&n| (self.node_load[n], Reverse(n))) else {
            return false;
        };
        if self.by_node[from]
            .clone()
            .any(|c| self.processors[c].leaves_to.is_some())
        {
            return false;
        }
        let Some(source) = self.by_node[from]
            .clone()
            .find(|&c| self.processors[c].current.is_some())
        else {
            return false;
        };
        self.processors[source].leaves_to = Some(cpu);
        false
    }

    fn outcome(self) -> Outcome {
        let mut stalls = Stalls::default();
        let (mut refs, mut remote, mut accesses) = (0, 0, 0.0);
        for process in &self.processes {
            stalls.add(&process.outcome.stalls);
            refs += process.outcome.refs;
            remote += process.outcome.remote_refs;
            accesses += process.outcome.refs as f64 * process.plan.accesses_per_ref;
        }
        Outcome {
            total_time: self.end,
            refs,
            remote_refs: remote,
            accesses,
            stalls,
            counters: self.counters,
            page_bytes: self.case.machine.page_bytes,
            events: self.events,
            processes: self.processes.into_iter().map(|p| p.outcome).collect(),
            timeline: self.timeline,
            traffic_refs: self.traffic,
            pages_copied: self.copied,
            pages_left: self.node_used.iter().sum(),
        }
    }
}

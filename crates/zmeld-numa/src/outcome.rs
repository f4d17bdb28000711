//! Outcome of a simulation.

use serde::Serialize;

use crate::time::to_ms;

/// Why the scheduler moved a process after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveReason {
    /// A processor went idle and pulled it.
    Idle = 0,
    /// A periodic look at a domain moved it.
    Periodic = 1,
    /// A script moved it.
    Scripted = 2,
}

/// Counts, under the kernel's names where it has one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Counters {
    /// Moves of processes between processors, by [`MoveReason`].
    pub process_moves: [u64; 3],
    /// Moves of processes to another node.
    pub node_moves: u64,
    /// Moves that copied a whole address space.
    pub whole_copies: u64,
    /// Pages first touched.
    pub pages_touched: u64,
    /// Pages freed because newer ones took their place.
    pub pages_renewed: u64,
    /// Pages marked not present at a move.
    pub pages_unmapped: u64,
    /// Faults on pages marked not present at a move.
    pub next_touch_faults: u64,
    /// Pages placed on the node that the policy wanted.
    pub numa_hit: u64,
    /// Pages placed elsewhere because that node was full.
    pub numa_miss: u64,
    /// Page-table entries that scans made inaccessible.
    pub numa_pte_updates: u64,
    /// Faults on pages that a scan made inaccessible.
    pub numa_hint_faults: u64,
    /// Faults on pages that a scan made inaccessible and that were on the faulting node.
    pub numa_hint_faults_local: u64,
    /// Pages moved from one node to another, for whatever reason.
    pub numa_pages_migrated: u64,
    /// Pages that returned to the node they had come from, each counted once.
    pub ping_pong_pages: u64,
    /// Returns of pages to the node they had come from.
    pub ping_pong_moves: u64,
    /// Times that a processor looked whether others have more to do.
    pub looks: u64,
}

/// Time that processes lost, in picoseconds, by cause. Each is charged to the process that waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Stalls {
    /// Accesses to memory of other nodes, beyond what they would take locally.
    pub remote: u64,
    /// Taking faults.
    pub faulting: u64,
    /// Waiting for copies of its own pages.
    pub copying: u64,
    /// Changing page tables.
    pub scanning: u64,
    /// Held back by copies for other processes.
    pub held_back: u64,
}

impl Stalls {
    pub fn add(&mut self, other: &Self) {
        self.remote += other.remote;
        self.faulting += other.faulting;
        self.copying += other.copying;
        self.scanning += other.scanning;
        self.held_back += other.held_back;
    }
}

/// One process. Times in picoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessOutcome {
    pub arrival: u64,
    pub finish: u64,
    /// How long it would run alone with all memory local.
    pub ideal: u64,
    /// How long it made references.
    pub ran: u64,
    pub refs: u64,
    pub remote_refs: u64,
    pub stalls: Stalls,
}

/// Accesses in time buckets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Timeline {
    /// Width of a bucket, in picoseconds; 0 where nothing is recorded.
    pub bucket: u64,
    /// For each bucket: accesses, and those to other nodes. A batch counts where it ends.
    pub accesses: Vec<(f64, f64)>,
}

impl Timeline {
    /// With buckets of this width.
    pub fn new(bucket: u64) -> Self {
        Self {
            bucket,
            accesses: Vec::new(),
        }
    }

    /// Adds accesses that ended at `time`.
    pub fn add(&mut self, time: u64, accesses: f64, remote: f64) {
        let Some(index) = time.checked_div(self.bucket) else {
            return;
        };
        let index = index as usize;
        if self.accesses.len() <= index {
            self.accesses.resize(index + 1, (0.0, 0.0));
        }
        self.accesses[index].0 += accesses;
        self.accesses[index].1 += remote;
    }
}

/// Everything one simulation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From time 0 to the end of the last process, in picoseconds: the study's measure.
    pub total_time: u64,
    pub refs: u64,
    pub remote_refs: u64,
    /// Accesses made: references and the accesses to new places that go with them.
    pub accesses: f64,
    pub stalls: Stalls,
    pub counters: Counters,
    pub page_bytes: u64,
    pub events: u64,
    pub processes: Vec<ProcessOutcome>,
    /// Local share over time, if asked for.
    pub timeline: Timeline,
    /// References by node of the processor (rows) and of the page (columns), if asked for.
    pub traffic_refs: Vec<u64>,
    /// Pages copied by source (rows) and target (columns), if asked for.
    pub pages_copied: Vec<u64>,
    /// Pages still held when all processes had ended: 0, or pages were lost.
    pub pages_left: u64,
}

impl Outcome {
    /// Total time in milliseconds.
    pub fn total_ms(&self) -> f64 {
        to_ms(self.total_time)
    }

    /// Share of all accesses that were local, 0 to 1.
    pub fn local_share(&self) -> f64 {
        if self.accesses > 0.0 {
            1.0 - self.remote_refs as f64 / self.accesses
        } else {
            1.0
        }
    }

    /// The processes' time from submission to end, over that which they take alone with all memory
    /// local: of sums. The mean of each one's own is no figure: where run times are exponential,
    /// short ones that wait give it no expectation.
    pub fn slowdown(&self) -> f64 {
        let sum = |time: fn(&ProcessOutcome) -> u64| -> f64 {
            self.processes.iter().map(|it| time(it) as f64).sum()
        };
        sum(|it| it.finish - it.arrival) / sum(|it| it.ideal)
    }

    /// Share of the processes' time, from submission to end, that they waited for a processor.
    pub fn queued_share(&self) -> f64 {
        let lived: u64 = self.processes.iter().map(|it| it.finish - it.arrival).sum();
        // Stalls of accesses are part of the time that references took.
        let busy = self.processes.iter().map(|it| {
            let Stalls {
                faulting,
                copying,
                scanning,
                ..
            } = it.stalls;
            it.ran + faulting + copying + scanning
        });
        let busy: u64 = busy.sum();
        (1.0 - busy as f64 / lived.max(1) as f64).max(0.0)
    }

    /// Bytes of pages moved between nodes.
    pub fn bytes_migrated(&self) -> u64 {
        self.counters.numa_pages_migrated * self.page_bytes
    }
}

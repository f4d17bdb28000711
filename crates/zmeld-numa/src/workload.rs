//! The processes: how long they run, how large they are, how they use memory, and when they arrive.
//!
//! **How memory is used.** A process spends the share `a` of its run time in memory accesses. Of these, the share
//! `r` goes to places accessed before: to its resident pages, in visits of `dwell` accesses to a page at a time, page after page.
//! The rest goes to new places, which Linux allocates near the processor: those accesses are local under every
//! policy. New places push out old ones: each `renewal_kb_per_s` of them (per second of time spent in new places)
//! the oldest resident page is freed and one is first touched in its stead.
//!
//! The simulator's unit of work is therefore the *reference*: one access to a resident page, with the computing
//! and the new places that go with it. All local it takes `access_ns / (a r)`; the part that a distance
//! multiplies is `access_ns`.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, Gamma, LogNormal, Normal};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::error::within;
use crate::machine::NumaMachine;
use crate::time::{from_ms, from_ns, SECOND};

/// A quantity that differs from process to process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "write a number, or as { mean = 500, shape = \"exponential\" }"
)]
pub enum Quantity {
    Same(f64),
    Distribution(Distribution),
}

/// A distribution by its mean and shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The mean, in the quantity's unit.
    pub mean: f64,
    /// The family.
    pub shape: DistributionShape,
    /// Standard deviation over mean, for the families that have it to choose (not for `exponential`).
    #[serde(default)]
    pub spread: f64,
}

/// A family of distributions of positive values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DistributionShape {
    /// Memoryless; the spread is 1.
    Exponential,
    /// Between mean (1 - s√3) and mean (1 + s√3), where s is the spread, up to 0.577.
    Uniform,
    /// Normal, drawn again below a tenth of the mean.
    Normal,
    /// Gamma (Erlang where 1/s² is whole).
    Gamma,
    /// The logarithm is normal.
    LogNormal,
}

impl Quantity {
    pub fn mean(&self) -> f64 {
        match self {
            Self::Same(value) => *value,
            Self::Distribution(drawn) => drawn.mean,
        }
    }

    /// Whether processes differ in it by chance.
    pub fn is_random(&self) -> bool {
        matches!(self, Self::Distribution(_))
    }

    fn check(&self, key: &'static str) -> Result<(), (&'static str, String)> {
        within(key, self.mean(), f64::MIN_POSITIVE..=f64::MAX)?;
        let Self::Distribution(Distribution { shape, spread, .. }) = *self else {
            return Ok(());
        };
        let most = match shape {
            DistributionShape::Exponential => return Ok(()),
            DistributionShape::Uniform => 0.577,
            _ => 10.0,
        };
        let checked = within("its spread", spread, f64::MIN_POSITIVE..=most);
        checked.map_err(|(_, why)| (key, format!("{key}: {why}")))
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        let Self::Distribution(Distribution {
            mean,
            shape,
            spread,
        }) = *self
        else {
            return self.mean();
        };
        match shape {
            DistributionShape::Exponential => mean * rng.sample::<f64, _>(Exp1),
            DistributionShape::Uniform => {
                mean * (1.0 + spread * 3f64.sqrt() * (2.0 * rng.random::<f64>() - 1.0))
            }
            DistributionShape::Normal => {
                let normal =
                    Normal::new(mean, spread * mean).expect("mean and spread were checked");
                (0..64)
                    .map(|_| normal.sample(rng))
                    .find(|&x| x >= 0.1 * mean)
                    .unwrap_or(mean)
            }
            DistributionShape::Gamma => {
                let k = 1.0 / (spread * spread);
                Gamma::new(k, mean / k)
                    .expect("mean and spread were checked")
                    .sample(rng)
            }
            DistributionShape::LogNormal => {
                let variance = (1.0 + spread * spread).ln();
                let log = LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt());
                log.expect("mean and spread were checked").sample(rng)
            }
        }
    }
}

/// When processes are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "pattern", deny_unknown_fields)]
pub enum Arrivals {
    /// All at time 0.
    Together,
    /// One every `gap_ms`.
    Steady { gap_ms: f64 },
    /// With independent exponential gaps of this mean.
    Poisson { gap_ms: f64 },
}

/// Placement of new processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "place", deny_unknown_fields)]
pub enum StartNode {
    /// On the processor with the shortest queue (`exec` balancing); the lowest number wins.
    LeastLoaded,
    /// On a processor drawn at random (no balancing at the start).
    Random,
    /// Round robin over the processors.
    InTurn,
    /// All on the first processor of one node, where the submitting shell runs.
    OnNode { node: usize },
}

/// The most processes of a replication: each is kept with its plan and its figures, and
/// a machine that is simulated has a few thousand at most.
const PROCESSES_MAX: usize = 1_000_000;

/// A set of processes.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// How many; where a scenario does not say, six for each processor.
    #[default = 50]
    pub processes: usize,
    /// Run time with all memory local, in milliseconds.
    #[default(Quantity::Distribution(Distribution {
        mean: 500.0,
        shape: DistributionShape::Exponential,
        spread: 0.0,
    }))]
    pub run_time_ms: Quantity,
    /// Resident memory in KB (1024 bytes).
    #[default(Quantity::Same(50.0))]
    pub size_kb: Quantity,
    /// Share of the run time spent in memory accesses, `a`, 0 to 1.
    #[default = 0.6]
    pub access_share: f64,
    /// Share of accesses that go to a place accessed before, `r`, 0 to 1.
    #[default = 0.4]
    pub reuse_share: f64,
    /// References to one page before the next page's turn.
    #[default = 64]
    pub dwell: u32,
    /// How unequal pages are: page i of n gets visits in proportion to 1 / (i+1)^skew; 0 makes all equal.
    pub skew: f64,
    /// KB of new pages first touched, per second spent in accesses to new places; the oldest pages are freed.
    pub renewal_kb_per_s: f64,
    #[default(Arrivals::Together)]
    pub arrivals: Arrivals,
    #[default(StartNode::LeastLoaded)]
    pub start: StartNode,
}

/// The order in which a process visits its pages, one after the other, repeated for as long as it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceCycle {
    /// References of each page's visit, by its slot; at least 1.
    pub visits: Arc<[u32]>,
    /// References of one round.
    pub refs: u64,
}

impl ReferenceCycle {
    fn new(pages: usize, dwell: u32, skew: f64) -> Self {
        // The last page gets `dwell`; the others more, as the law says.
        let refs = |slot: usize| {
            let law = (pages as f64 / (slot + 1) as f64).powf(skew);
            (f64::from(dwell) * law).round().min(1e9) as u32
        };
        let visits: Arc<[u32]> = match skew == 0.0 {
            true => vec![dwell; pages].into(),
            false => (0..pages).map(refs).collect(),
        };
        Self {
            refs: visits.iter().map(|&refs| u64::from(refs)).sum(),
            visits,
        }
    }
}

/// One process, ready to be simulated. Times in picoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessPlan {
    pub arrival: u64,
    pub refs: u64,
    /// Time of a reference beyond its access to a resident page: computing and new places.
    pub rest: u64,
    /// Time of an access to a resident page at distance 10.
    pub access: u64,
    /// Accesses to memory per reference: the one to a resident page and those to new places.
    pub accesses_per_ref: f64,
    pub pages: usize,
    pub round: ReferenceCycle,
    /// References between two renewals of the oldest page; 0 where pages are never renewed.
    pub renewal_refs: u64,
    /// The processor it starts on; `None` for the least loaded.
    pub start: Option<usize>,
    /// Moves that a script makes (`sched_setaffinity(2)`): when, and to which processor. A process that has not
    /// arrived, has ended, or waits for a copy is left alone.
    pub moves: Vec<(u64, usize)>,
}

impl ProcessPlan {
    /// How long it would run alone with all memory local, without faults.
    pub fn ideal(&self) -> u64 {
        self.refs * (self.rest + self.access)
    }
}

impl Workload {
    pub fn check(&self, machine: &NumaMachine) -> Result<(), (&'static str, String)> {
        within(
            "processes",
            self.processes as f64,
            1.0..=PROCESSES_MAX as f64,
        )?;
        self.run_time_ms.check("run_time_ms")?;
        self.size_kb.check("size_kb")?;
        for (key, found, range) in [
            ("access_share", self.access_share, 0.0..=1.0),
            ("reuse_share", self.reuse_share, 0.0..=1.0),
            ("dwell", f64::from(self.dwell), 1.0..=f64::MAX),
            ("skew", self.skew, 0.0..=4.0),
            ("renewal_kb_per_s", self.renewal_kb_per_s, 0.0..=f64::MAX),
        ] {
            within(key, found, range)?;
        }
        if let Arrivals::Steady { gap_ms } | Arrivals::Poisson { gap_ms } = self.arrivals {
            within("gap_ms", gap_ms, 0.0..=f64::MAX)?;
        }
        match self.start {
            StartNode::OnNode { node }
                if machine
                    .place(node)
                    .is_none_or(|at| machine.processors[at] == 0) =>
            {
                Err((
                    "start",
                    format!("processes start on node {node}, which has no processor"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether replications differ.
    pub fn is_random(&self) -> bool {
        self.run_time_ms.is_random()
            || self.size_kb.is_random()
            || matches!(self.arrivals, Arrivals::Poisson { .. })
            || self.start == StartNode::Random
    }

    /// Draws the processes of one replication. The same seed and replication give the same processes, whatever the
    /// policy, so that policies are compared on the same load.
    pub fn plans(&self, machine: &NumaMachine, seed: u64, replication: u64) -> Vec<ProcessPlan> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(replication);
        let access = from_ns(machine.costs.access_ns).max(1);
        let share = self.access_share * self.reuse_share;
        // Without reuse nothing depends on where pages are: a reference is then a whole access time of work.
        let (access, whole) = if share > 0.0 {
            (access, (access as f64 / share).round() as u64)
        } else {
            (0, access.max(1))
        };
        let accesses_per_ref = if share > 0.0 {
            1.0 / self.reuse_share
        } else {
            self.access_share
        };
        let new_share = self.access_share * (1.0 - self.reuse_share);
        let page_kb = machine.page_bytes as f64 / 1024.0;
        let renewal_refs = if self.renewal_kb_per_s > 0.0 && new_share > 0.0 {
            let seconds = page_kb / (self.renewal_kb_per_s * new_share);
            ((seconds * SECOND as f64 / whole as f64).round() as u64).max(1)
        } else {
            0
        };
        let processors = machine.processors_total();
        let mut rounds: Vec<(usize, ReferenceCycle)> = Vec::new();
        let mut clock = 0.0;
        let mut plans = Vec::with_capacity(self.processes);
        for index in 0..self.processes {
            let run_time = from_ms(self.run_time_ms.draw(&mut rng));
            let size_kb = self.size_kb.draw(&mut rng);
            let start = match self.start {
                StartNode::LeastLoaded => None,
                StartNode::Random => Some(rng.random_range(0..processors)),
                StartNode::InTurn => Some(index % processors),
                StartNode::OnNode { node } => {
                    let before = &machine.processors[..machine.place(node).unwrap_or(0)];
                    Some(before.iter().sum())
                }
            };
            match self.arrivals {
                Arrivals::Together => {}
                Arrivals::Steady { gap_ms } => clock = gap_ms * index as f64,
                Arrivals::Poisson { gap_ms } => clock += gap_ms * rng.sample::<f64, _>(Exp1),
            }
            let pages = ((size_kb / page_kb).ceil() as usize).max(1);
            let round = match rounds.iter().find(|(known, _)| *known == pages) {
                Some((_, round)) => round.clone(),
                None => {
                    let round = ReferenceCycle::new(pages, self.dwell, self.skew);
                    rounds.push((pages, round.clone()));
                    round
                }
            };
            plans.push(ProcessPlan {
                arrival: from_ms(clock),
                refs: ((run_time as f64 / whole as f64).round() as u64).max(1),
                rest: whole - access,
                access,
                accesses_per_ref,
                pages,
                round,
                renewal_refs,
                start,
                moves: Vec::new(),
            });
        }
        plans
    }
}

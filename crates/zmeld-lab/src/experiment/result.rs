//! The result of an experiment: schema `zmeld.bench/2`. It holds all that is needed to judge it and
//! to run it again.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use rand::seq::SliceRandom;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::measure::{Counters, HostFacts, Series, WorkloadEnd};
use crate::recipe::{Case, Metric, Recipe};
use crate::vm::{self, GuestClock};
use zmeld_report::statistics::verdict::{Judgement, VariantSummary};

/// An experiment, whole or in part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Experiment {
    /// The recipe as it was run.
    pub recipe: Recipe,
    /// Whether at the published size.
    pub full: bool,
    /// Seed of random orders and intervals.
    pub seed: u64,
    /// The machine.
    pub machine: HostFacts,
    /// Seconds since 1970 when it began.
    pub began_unix_s: u64,
    /// Whether Ctrl-C ended it before its time.
    pub interrupted: bool,
    /// Whether the time ran out before the intervals were narrow.
    pub budget_spent: bool,
    /// Facts about each case, found before its runs.
    pub cases: Vec<CaseFacts>,
    /// Judgement of each case: computed from the runs, never read.
    #[serde(skip_deserializing)]
    pub judgements: Vec<CaseJudgement>,
    /// Every run in its order, warm-ups too.
    pub runs: Vec<Run>,
}

/// Facts about a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CaseFacts {
    /// Name of the case.
    pub case: String,
    /// The workload and its data, in words.
    pub workload: String,
    /// Footprint: measured without a limit, or taken from the settings.
    pub footprint_bytes: u64,
    /// Whether it was measured.
    pub footprint_measured: bool,
    /// The limit of its runs.
    pub limit_bytes: Option<u64>,
    /// Variants that this machine cannot have.
    pub skipped: Vec<SkippedVariant>,
    /// The machine that its runs are made on, where each has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<vm::GuestFacts>,
    /// Why it is not run at all, where its workload cannot be had here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

impl CaseFacts {
    /// Of a case without a limit, which needs that much.
    pub fn new(case: &Case, footprint_bytes: u64) -> CaseFacts {
        CaseFacts {
            case: case.name.clone(),
            workload: case.workload.describe(),
            footprint_bytes,
            footprint_measured: false,
            limit_bytes: None,
            skipped: Vec::new(),
            on: None,
            left_out: None,
        }
    }

    /// Whether its runs' times are those of an imitated processor, as fast as that came along.
    pub fn is_emulated(&self) -> bool {
        self.on
            .as_ref()
            .is_some_and(|on| on.emulated && on.clock == GuestClock::Real)
    }
}

/// A variant that this machine cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkippedVariant {
    /// Name of the variant.
    pub variant: String,
    /// The missing part.
    pub why: String,
}

/// Judgement of a case.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CaseJudgement {
    /// Name of the case.
    pub case: String,
    /// The verdicts.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The variant without a limit, which is compared with none; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<VariantSummary>,
    /// The recipe's further metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<MetricJudgement>,
}

/// Judgement of a further metric of a case.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MetricJudgement {
    /// The metric.
    pub metric: Metric,
    /// The verdicts.
    #[serde(flatten)]
    pub judgement: Judgement,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum Outcome {
    /// It finished, and what it verifies was right.
    Finished,
    /// It was killed for want of memory.
    OutOfMemory,
    /// It took longer than the recipe allows.
    TimedOut,
    /// It failed by itself.
    Failed(String),
    /// Ctrl-C.
    #[default]
    Stopped,
}

impl Outcome {
    pub fn words(&self) -> &str {
        match self {
            Outcome::Finished => "finished",
            Outcome::OutOfMemory => "out of memory",
            Outcome::TimedOut => "timed out",
            Outcome::Failed(why) => why,
            Outcome::Stopped => "stopped",
        }
    }
}

/// Why runs did not finish, and how many; none where all did.
pub fn unfinished<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes.filter(|it| !matches!(it, Outcome::Finished | Outcome::Stopped)) {
        *reasons.entry(outcome.words()).or_default() += 1;
    }
    let words = reasons.iter().map(|(why, count)| format!("{count} {why}"));
    let words = words.collect::<Vec<_>>().join("; ");
    (!words.is_empty()).then_some(words)
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Run {
    /// The case.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// The block it belongs to, from 0; the first ones are warm-ups.
    pub block: usize,
    /// Whether it does not count.
    pub warm_up: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// Value of the metric; infinite or 0 for a run that did not finish.
    #[serde(with = "zmeld_report::statistics::real")]
    #[schemars(with = "zmeld_report::statistics::real::Real")]
    pub value: f64,
    /// Pages of the workload that were in swap at once at most, bytes.
    pub swapped_max_bytes: u64,
    /// End and usage of the process.
    pub ended: WorkloadEnd,
    /// The workload's own figures.
    pub figures: BTreeMap<String, f64>,
    /// Whether the workload verified its result.
    pub verified: bool,
    /// Seconds that it took with setting up and taking back, and booting where a machine was booted.
    #[serde(default)]
    pub took_s: f64,
    /// The machine's counters over the run.
    pub machine: Counters,
    /// The control group's counters at its end.
    pub group: BTreeMap<String, f64>,
    /// The variant's devices at its end.
    pub devices: BTreeMap<String, BTreeMap<String, f64>>,
    /// Memory and swap over time.
    pub series: Series,
}

/// Less than that in swap at any time is no pressure: some 16 pages go there for reasons of their own.
const PRESSURE_BYTES: u64 = 64 << 10;

impl Run {
    /// The most that compressed pages took up.
    pub fn store_max_bytes(&self) -> u64 {
        let stores = self.series.samples.iter().map(|it| it.store_bytes);
        stores.max().unwrap_or(0)
    }

    /// Whether memory was short: pages were swapped out, or it was killed for want of memory.
    pub fn was_pressed(&self) -> bool {
        self.swapped_max_bytes >= PRESSURE_BYTES || self.outcome == Outcome::OutOfMemory
    }
}

impl Experiment {
    /// An experiment of which nothing was run.
    pub fn new(recipe: Recipe, full: bool, seed: u64) -> Experiment {
        Experiment {
            recipe: if full { recipe.full() } else { recipe },
            full,
            seed,
            machine: HostFacts::here(0),
            began_unix_s: UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
            interrupted: false,
            budget_spent: false,
            cases: Vec::new(),
            judgements: Vec::new(),
            runs: Vec::new(),
        }
    }

    pub fn facts(&self, case: &str) -> Option<&CaseFacts> {
        self.cases.iter().find(|facts| facts.case == case)
    }

    pub fn takes_part(&self, case: usize, variant: usize) -> bool {
        let (case, variant) = (&self.recipe.cases[case], &self.recipe.variants[variant]);
        if variant.unlimited && case.limit.is_none() {
            return false;
        }
        !self.facts(&case.name).is_some_and(|facts| {
            facts.left_out.is_some() || facts.skipped.iter().any(|it| it.variant == variant.name)
        })
    }

    /// The runs of a block, as indexes of cases and variants: every variant of every case once, in
    /// an order drawn from the seed and the block's number alone, so that an experiment that
    /// is carried on goes on in the same order.
    pub(super) fn block(&self, block: usize) -> Vec<(usize, usize)> {
        let variants = self.recipe.variants.len();
        let cases = 0..self.recipe.cases.len();
        let mut all: Vec<(usize, usize)> = cases
            .flat_map(|case| (0..variants).map(move |variant| (case, variant)))
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(block as u64);
        all.shuffle(&mut random);
        all.retain(|&(case, variant)| self.takes_part(case, variant));
        all
    }

    /// The variants of a case, in the recipe's order.
    pub fn variants_of(&self, case: &str) -> Vec<&str> {
        let Some(at) = self.recipe.cases.iter().position(|it| it.name == case) else {
            return Vec::new();
        };
        (0..self.recipe.variants.len())
            .filter(|&variant| self.takes_part(at, variant))
            .map(|variant| self.recipe.variants[variant].name.as_str())
            .collect()
    }

    /// Whether a variant runs without the limit, and so is not compared.
    pub fn is_unlimited(&self, variant: &str) -> bool {
        let mut variants = self.recipe.variants.iter();
        variants.any(|it| it.name == variant && it.unlimited)
    }

    /// Blocks that the recipe asks for at most.
    pub(super) fn blocks(&self) -> usize {
        self.recipe.warm_ups + self.recipe.stopping.runs_max
    }

    pub(super) fn has(&self, case: usize, variant: usize, block: usize) -> bool {
        let recipe = &self.recipe;
        let (case, variant) = (&recipe.cases[case].name, &recipe.variants[variant].name);
        let is_it = |run: &Run| run.case == *case && run.variant == *variant && run.block == block;
        self.runs.iter().any(is_it)
    }

    /// The runs that count, in their order.
    pub fn counted<'a>(&'a self, case: &'a str, variant: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs
            .iter()
            .filter(move |run| !run.warm_up && run.case == case && run.variant == variant)
    }

    /// Whether a case has been run often enough. Decided between blocks only: within one, variants
    /// would differ in their number of runs by what the last value was.
    pub(super) fn is_enough(&self, case: usize) -> bool {
        let case = &self.recipe.cases[case].name;
        let variants = self.variants_of(case);
        let runs = variants.iter().map(|it| self.counted(case, it).collect());
        let all: Vec<Vec<&Run>> = runs.collect();
        let even = all.windows(2).all(|two| two[0].len() == two[1].len());
        let compared = variants.iter().zip(&all);
        let values: Vec<Vec<f64>> = compared
            .filter(|(variant, _)| !self.is_unlimited(variant))
            .map(|(_, runs)| runs.iter().map(|run| run.value).collect())
            .collect();
        let least = values.iter().map(Vec::len).min().unwrap_or(0);
        let rule = &self.recipe.stopping;
        // More runs without pressure would be as void as these.
        let void = least >= rule.runs_min && !all.iter().flatten().any(|run| run.was_pressed());
        even && (void || rule.is_enough(values.iter().map(Vec::as_slice), self.seed))
    }

    /// Runs done, at most in all, and about how many seconds the rest takes.
    pub(super) fn progress(&self) -> (usize, Option<usize>, Option<f64>) {
        let blocks = self.blocks();
        let mut of = 0;
        let mut left_s = 0.0;
        let mut known = true;
        for (at, case) in self.recipe.cases.iter().enumerate() {
            let enough = self.is_enough(at);
            for variant in self.variants_of(&case.name) {
                let times: Vec<f64> = self
                    .runs
                    .iter()
                    .filter(|run| run.case == case.name && run.variant == variant)
                    .map(|run| run.took_s.max(run.ended.usage.elapsed_s))
                    .collect();
                of += if enough { times.len() } else { blocks };
                if !enough {
                    known &= !times.is_empty();
                    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
                    left_s += mean * blocks.saturating_sub(times.len()) as f64;
                }
            }
        }
        (self.runs.len(), Some(of), known.then_some(left_s))
    }
}

//! The record of a search for the least RAM: schema `zmeld.bench.size/2`.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::search::{Bracket, LimitRule, Verdict, FIRST_LOOK};
use crate::error::Error;
use crate::experiment::result::{Outcome, Run};
use crate::measure::HostFacts;
use crate::recipe::{Case, Metric, Recipe};
use crate::variant::Variant;
use zmeld_report::statistics::sample::median;
use zmeld_report::statistics::Direction;
use zmeld_report::Estimate;

/// No smaller limit is tried.
const FLOOR_BYTES: u64 = 4 << 20;
/// Nor one of a smaller share of what is used without a limit.
const FLOOR_SHARE: u64 = 64;
/// Runs without a limit before the first one with one.
pub const UNLIMITED_FIRST: usize = 5;
/// A step is compared with at most so many runs without a limit, the latest: a machine changes while it measures.
const UNLIMITED_COMPARED: usize = 20;

/// The RAM that is minimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Of a control group: the compressed store comes on top.
    Group,
    /// Of a machine: the workload and the store share it.
    Machine,
}

/// Parameters of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Question {
    /// How much slower than without a limit still counts as doing the job, 0.05 for 5 %.
    pub slowdown: f64,
    /// How close the ends of the answer are to be, 0.05 for 5 %.
    pub within: f64,
    /// At most so many runs for each limit.
    pub runs_max: usize,
    /// A run is ended after so many times as long as one without a limit.
    pub give_up: f64,
    /// Basis of the RAM.
    pub basis: Basis,
    /// Whether a program's own time counts in each run as the median of runs without a limit, so
    /// that only the kernel's part and waiting are compared: a limit changes these, and others'
    /// work on the machine disturbs them far less.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub steady: bool,
}

impl Question {
    /// Checks that an answer to it can be found.
    pub fn check(&self) -> Result<(), String> {
        let Question {
            slowdown,
            within,
            runs_max,
            give_up,
            ..
        } = *self;
        if !(0.001..=10.0).contains(&slowdown) {
            return Err("a slowdown is from 0.1 % to 1000 %".to_owned());
        }
        if !(0.005..=1.0).contains(&within) {
            return Err("the ends of an answer can be from 0.5 % to 100 % apart".to_owned());
        }
        if !(FIRST_LOOK..=99).contains(&runs_max) {
            return Err(format!("a limit is decided by {FIRST_LOOK} to 99 runs"));
        }
        if !(give_up > 1.0 + slowdown && give_up <= 1000.0) {
            return Err(format!(
                "a run can be ended after more than {} times as long as without a limit, at most 1000 times",
                1.0 + slowdown
            ));
        }
        Ok(())
    }

    /// The rule that decides a step.
    pub fn rule(&self) -> LimitRule {
        LimitRule {
            allowed: 1.0 + self.slowdown,
            runs_max: self.runs_max,
        }
    }
}

/// A search, whole or in part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SizeSearch {
    /// The workload and the variants; its one case has no limit.
    pub recipe: Recipe,
    /// Whether at the published size.
    pub full: bool,
    /// Parameters of the search.
    pub question: Question,
    /// Seed of random orders.
    pub seed: u64,
    /// The machine.
    pub machine: HostFacts,
    /// Seconds since 1970 when it began.
    pub began_unix_s: u64,
    /// Whether Ctrl-C ended it before its time.
    pub interrupted: bool,
    /// Whether the time ran out before every variant had its answer.
    pub budget_spent: bool,
    /// The workload and its data, in words.
    pub workload: String,
    /// Its footprint, bytes of anonymous memory, measured without a limit; 0 before.
    pub footprint_bytes: u64,
    /// The most that its group used without a limit, files that it read included; 0 before.
    pub peak_bytes: u64,
    /// Runs without a limit that count.
    pub unlimited: Vec<SizeRun>,
    /// Each variant.
    pub variants: Vec<VariantSearch>,
}

/// Results for one variant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VariantSearch {
    /// Its name.
    pub name: String,
    /// Why it is not tried: what this machine lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// The limits that were tried, in that order.
    pub steps: Vec<Step>,
    /// The answer, as far as there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Least>,
}

/// A limit that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Step {
    /// The limit.
    pub limit_bytes: u64,
    /// Its verdict.
    pub verdict: Verdict,
    /// Cost of a run with it over one without; infinite: killed, failed, or ended.
    pub slowdown: Estimate,
    /// Its runs.
    pub runs: Vec<SizeRun>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SizeRun {
    /// How it ended.
    pub outcome: Outcome,
    /// The compared figure: a time, or the inverse of a rate; infinite where it did not finish.
    #[serde(with = "zmeld_report::statistics::real")]
    #[schemars(with = "zmeld_report::statistics::real::Real")]
    pub cost: f64,
    /// How long it ran.
    pub elapsed_s: f64,
    /// Its processor time in the kernel.
    pub system_s: f64,
    /// Its processor time outside of it.
    #[serde(default)]
    pub user_s: f64,
    /// Faults that waited for a page.
    pub faults_major: u64,
    /// The most that was in swap at once, bytes before compression.
    pub swapped_max_bytes: u64,
    /// The most that compressed pages took up.
    pub store_max_bytes: u64,
    /// Seconds with setting up and taking back.
    pub took_s: f64,
}

/// The least RAM of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Least {
    /// The least that was shown to do.
    pub bytes: u64,
    /// The most that was shown not to do; 0: none is known.
    pub does_not_bytes: u64,
    /// Whether both are as close as asked for, or `bytes` is the least that is tried.
    pub resolved: bool,
    /// Whether `bytes` is what is used without a limit, so that no smaller limit was shown to do.
    pub unlimited: bool,
    /// The store at its largest with that limit.
    pub store_bytes: u64,
}

impl SizeRun {
    /// Of a run of an experiment.
    pub(crate) fn of(run: &Run, metric: &Metric) -> SizeRun {
        let finished = run.outcome == Outcome::Finished;
        let cost = match metric.better {
            Direction::Lower => run.value,
            Direction::Higher => 1.0 / run.value,
        };
        let cost = Some(cost).filter(|cost| finished && cost.is_finite());
        let usage = &run.ended.usage;
        SizeRun {
            outcome: run.outcome.clone(),
            cost: cost.unwrap_or(f64::INFINITY),
            elapsed_s: usage.elapsed_s,
            system_s: usage.system_s,
            user_s: usage.user_s,
            faults_major: usage.faults_major,
            swapped_max_bytes: run.swapped_max_bytes,
            store_max_bytes: run.store_max_bytes(),
            took_s: run.took_s,
        }
    }
}

impl Step {
    pub fn finished(&self) -> impl Iterator<Item = &SizeRun> {
        let runs = self.runs.iter();
        runs.filter(|run| run.outcome == Outcome::Finished)
    }

    /// The middle of what runs gave; 0 without any.
    pub fn median_of(&self, get: impl Fn(&SizeRun) -> f64) -> f64 {
        let values: Vec<f64> = self.runs.iter().map(get).collect();
        if values.is_empty() {
            return 0.0;
        }
        median(&values)
    }
}

impl VariantSearch {
    fn bracket(&self, peak_bytes: u64) -> Bracket {
        let steps = self.steps.iter();
        Bracket::of(
            peak_bytes,
            steps.map(|step| (step.limit_bytes, step.verdict)),
        )
    }

    pub fn step(&self, limit_bytes: u64) -> Option<&Step> {
        self.steps
            .iter()
            .find(|step| step.limit_bytes == limit_bytes)
    }
}

impl SizeSearch {
    /// A search of which nothing was run: for the workload of a recipe's last case, with its variants.
    ///
    /// # Errors
    /// A question that makes no sense; a recipe whose case is a machine.
    pub fn new(
        recipe: Recipe,
        full: bool,
        question: Question,
        seed: u64,
    ) -> Result<SizeSearch, Error> {
        let wrong = |problem: String| Error::recipe(&recipe.name, problem);
        question.check().map_err(wrong)?;
        if question.steady && recipe.metric != Metric::default() {
            return Err(wrong(format!(
                "its metric is {}, of which the program's own computing cannot be told apart: leave --steady out",
                recipe.metric.name
            )));
        }
        let mut recipe = if full { recipe.full() } else { recipe };
        let case = recipe.cases.pop().map(|case| Case {
            limit: None,
            full: None,
            full_limit: None,
            machine: None,
            counts_store: question.basis == Basis::Machine,
            ..case
        });
        recipe.cases = case.into_iter().collect();
        recipe.variants.retain(|variant| !variant.unlimited);
        let checked = recipe.check();
        checked.map_err(|problem| Error::recipe(&recipe.name, problem))?;
        let untried = |variant: &Variant| VariantSearch {
            name: variant.name.clone(),
            ..VariantSearch::default()
        };
        Ok(SizeSearch {
            workload: recipe.cases[0].workload.describe(),
            variants: recipe.variants.iter().map(untried).collect(),
            recipe,
            full,
            question,
            seed,
            machine: HostFacts::here(0),
            began_unix_s: UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
            interrupted: false,
            budget_spent: false,
            footprint_bytes: 0,
            peak_bytes: 0,
            unlimited: Vec::new(),
        })
    }

    pub(crate) fn case(&self) -> &Case {
        &self.recipe.cases[0]
    }

    /// The smallest limit that is tried.
    pub fn floor_bytes(&self) -> u64 {
        FLOOR_BYTES.max(self.peak_bytes / FLOOR_SHARE / 4096 * 4096)
    }

    /// Whether the workload needs no more than that, so that nothing is tried.
    pub fn is_too_small(&self) -> bool {
        (1..=self.floor_bytes()).contains(&self.peak_bytes)
    }

    /// Costs of runs, as they are compared.
    pub fn costs<'a>(&self, runs: impl IntoIterator<Item = &'a SizeRun>) -> Vec<f64> {
        let own: Vec<f64> = self.lately().iter().map(|run| run.user_s).collect();
        let own_s = median(&own);
        let cost = |run: &SizeRun| match self.question.steady && own_s.is_finite() {
            // A run that did not finish is infinitely slow.
            true if run.cost.is_finite() => run.elapsed_s - run.user_s + own_s,
            _ => run.cost,
        };
        runs.into_iter().map(cost).collect()
    }

    /// Runs without a limit that others are compared with.
    pub fn lately(&self) -> &[SizeRun] {
        let from = self.unlimited.len().saturating_sub(UNLIMITED_COMPARED);
        &self.unlimited[from..]
    }

    /// How long a run without a limit takes, in the middle.
    pub fn unlimited_s(&self) -> Option<f64> {
        let times: Vec<f64> = self.unlimited.iter().map(|run| run.elapsed_s).collect();
        (!times.is_empty()).then(|| median(&times))
    }

    /// The limit that a variant is tried with next: one that is not decided yet, or a new one.
    pub(crate) fn next_limit(&self, variant: usize) -> Option<u64> {
        let variant = &self.variants[variant];
        if variant.left_out.is_some() || self.peak_bytes == 0 {
            return None;
        }
        let open = variant
            .steps
            .iter()
            .find(|step| step.verdict == Verdict::Open);
        if let Some(step) = open {
            return Some(step.limit_bytes);
        }
        let bracket = variant.bracket(self.peak_bytes);
        bracket.next(self.floor_bytes(), self.question.within)
    }

    /// Adds a run with a limit, and says what follows.
    pub(crate) fn add(&mut self, variant: usize, limit_bytes: u64, run: SizeRun) {
        let unlimited = self.costs(self.lately());
        let rule = self.question.rule();
        let steps = &mut self.variants[variant].steps;
        let at = match steps
            .iter()
            .position(|step| step.limit_bytes == limit_bytes)
        {
            Some(at) => at,
            None => {
                steps.push(Step {
                    limit_bytes,
                    verdict: Verdict::Open,
                    slowdown: rule.judge(&unlimited, &[]).1,
                    runs: Vec::new(),
                });
                steps.len() - 1
            }
        };
        steps[at].runs.push(run);
        let limited = self.costs(&self.variants[variant].steps[at].runs);
        let step = &mut self.variants[variant].steps[at];
        (step.verdict, step.slowdown) = rule.judge(&unlimited, &limited);
        self.find_answers();
    }

    /// Computes the answers anew from the steps.
    pub(crate) fn find_answers(&mut self) {
        let (peak, floor, within) = (self.peak_bytes, self.floor_bytes(), self.question.within);
        for variant in &mut self.variants {
            let bracket = variant.bracket(peak);
            let (low, high) = bracket.ends();
            let open = variant
                .steps
                .iter()
                .any(|step| step.verdict == Verdict::Open);
            let close = low > 0 && high as f64 <= low as f64 * (1.0 + within) + 4096.0;
            let at_floor = low == 0 && high <= floor;
            let step = variant.step(high);
            let store_bytes = step.map_or(0, |step| {
                let stores = step.runs.iter().map(|run| run.store_max_bytes);
                stores.max().unwrap_or(0)
            });
            variant.least = bracket.is_known().then_some(Least {
                bytes: high,
                does_not_bytes: low,
                resolved: !open && (close || at_floor),
                unlimited: high == peak,
                store_bytes,
            });
        }
    }

    /// Runs done, and about how many seconds the rest takes.
    pub(crate) fn progress(&self) -> (usize, Option<usize>, Option<f64>) {
        let of_steps =
            |variant: &VariantSearch| variant.steps.iter().map(|s| s.runs.len()).sum::<usize>();
        let done = self.unlimited.len() + self.variants.iter().map(of_steps).sum::<usize>();
        let runs = self.variants.iter().flat_map(|variant| &variant.steps);
        let runs = runs.flat_map(|step| &step.runs).chain(&self.unlimited);
        let times: Vec<f64> = runs.map(|run| run.took_s).collect();
        if self.peak_bytes == 0 || times.is_empty() {
            return (done, None, None);
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        (done, None, Some(mean * self.runs_left() as f64))
    }

    /// Variants that have no answer yet, by their places.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.variants.len()).filter(|&at| self.next_limit(at).is_some())
    }

    /// About how many runs are left: most steps are decided at the first look or the second,
    /// beside one run without a limit each time.
    pub(crate) fn runs_left(&self) -> usize {
        let steps = self.open().map(|at| {
            let (low, high) = self.variants[at].bracket(self.peak_bytes).ends();
            let apart = high as f64 / low.max(self.floor_bytes()) as f64;
            let levels = apart.ln() / self.question.within.ln_1p();
            levels.log2().ceil().max(1.0) as usize
        });
        let most = steps.clone().max().unwrap_or(0);
        (steps.sum::<usize>() + most) * (FIRST_LOOK + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Kept;
    use zmeld_report::Style;

    fn run(cost: f64) -> SizeRun {
        let finished = cost.is_finite();
        SizeRun {
            outcome: match finished {
                true => Outcome::Finished,
                false => Outcome::OutOfMemory,
            },
            cost,
            elapsed_s: 1.0,
            system_s: 0.0,
            user_s: 0.0,
            faults_major: 0,
            swapped_max_bytes: 0,
            store_max_bytes: 7 << 20,
            took_s: 1.0,
        }
    }

    fn question() -> Question {
        Question {
            slowdown: 0.05,
            within: 0.05,
            runs_max: 7,
            give_up: 3.0,
            basis: Basis::Group,
            steady: false,
        }
    }

    fn search() -> SizeSearch {
        let recipe = Recipe::load("codecs").unwrap();
        let mut search = SizeSearch::new(recipe, false, question(), 1).unwrap();
        search.peak_bytes = 100 << 20;
        search.unlimited = vec![run(1.0); 8];
        search
    }

    #[test]
    fn what_was_decided_leads_to_an_answer_with_its_store() {
        let mut search = search();
        let limit = search.next_limit(0).unwrap();
        assert_eq!(limit, 80 << 20);
        for _ in 0..3 {
            assert_eq!(search.next_limit(0), Some(limit));
            search.add(0, limit, run(1.01));
        }
        let least = search.variants[0].least.unwrap();
        assert_eq!((least.bytes, least.does_not_bytes), (limit, 0));
        assert!(!least.resolved && !least.unlimited && least.store_bytes == 7 << 20);
        while let Some(limit) = search.next_limit(0) {
            search.add(0, limit, run(f64::INFINITY));
        }
        let least = search.variants[0].least.unwrap();
        assert!(least.resolved && least.bytes == 80 << 20, "{least:?}");
        assert!(least.does_not_bytes as f64 * 1.05 >= least.bytes as f64 - 4096.0);
        let said = crate::size::report::document(&search).to_text(&Style::plain(300));
        let with_store = " needs at least 87.0 MiB with ";
        assert!(said.contains(with_store), "{said}");
        assert!(said.contains(", 7.00 MiB of it the store."), "{said}");
        let row = said
            .lines()
            .find(|line| line.contains("80.0 MiB ("))
            .unwrap();
        assert!(
            row.contains(" 7.00 MiB ") && row.contains(" 87.0 MiB "),
            "{said}"
        );
        search.question.basis = Basis::Machine;
        let said = crate::size::report::document(&search).to_text(&Style::plain(300));
        assert!(said.contains(" needs at least 80.0 MiB with "), "{said}");
        // The other variants have nothing yet.
        assert!(search.variants[1].least.is_none() && !search.is_complete());
    }

    #[test]
    fn steady_costs_leave_out_what_others_do_to_a_program_s_own_computing() {
        // The program computes for 0.9 s, more where others disturb it; the kernel's part is 0.1 s, and 0.17 s with the limit.
        let of = |own_s: f64, rest_s: f64| SizeRun {
            elapsed_s: own_s + rest_s,
            user_s: own_s,
            ..run(own_s + rest_s)
        };
        let own = [0.9, 1.2, 0.91, 1.1, 0.88, 0.9, 1.0, 0.93];
        let mut verdicts = Vec::new();
        for steady in [false, true] {
            let mut search = search();
            search.question.steady = steady;
            search.unlimited = own.iter().map(|&own_s| of(own_s, 0.1)).collect();
            for own_s in [1.1, 0.9, 1.0] {
                search.add(0, 80 << 20, of(own_s, 0.17));
            }
            verdicts.push(search.variants[0].steps[0].verdict);
            let step = search.variants[0].steps[0].clone();
            assert!(
                !steady || (step.slowdown.value - 1.0675).abs() < 0.01,
                "{step:?}"
            );
            search.add(0, 80 << 20, run(f64::INFINITY));
            let costs = search.costs(&search.variants[0].steps[0].runs);
            assert!(costs[3].is_infinite());
        }
        assert_eq!(verdicts, [Verdict::Open, Verdict::DoesNot]);
    }

    #[test]
    fn what_does_not_do_at_any_limit_needs_what_it_uses() {
        let mut search = search();
        while let Some(limit) = search.next_limit(0) {
            search.add(0, limit, run(f64::INFINITY));
        }
        let least = search.variants[0].least.unwrap();
        assert!(least.unlimited && least.resolved && least.bytes == 100 << 20);
    }
}

//! The runs of a search for the least RAM: in each round one of every variant that has no
//! answer yet, with the limit that is its turn, and one without a limit, in an order drawn
//! anew.

use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use zmeld_report::units::{bytes, duration, seconds};

use super::result::{CaseFacts, Outcome};
use super::{all_left_out, failed, same, Event, Kept, Lab};
use crate::error::Error;
use crate::measure::HostFacts;
use crate::recipe::{Case, Recipe};
use crate::size::result::UNLIMITED_FIRST;
use crate::size::{SizeRun, SizeSearch};
use crate::variant::{SizeBases, Variant};

/// After so many runs without a limit, one in every third round shows whether the machine is still as it was.
const UNLIMITED_OFTEN: usize = 16;
/// No run is ended earlier, however short the workload.
const GIVE_UP_S: f64 = 1.0;

impl Kept for SizeSearch {
    const SCHEMA: (&'static str, u32) = ("zmeld.bench.size", 2);

    fn runs_made(&self) -> usize {
        self.progress().0
    }

    fn is_complete(&self) -> bool {
        self.peak_bytes > 0 && self.open().next().is_none()
    }

    fn go_on_with(&mut self, asked: SizeSearch) -> Result<(), Error> {
        same("recipe", &self.recipe.compared(), &asked.recipe.compared())?;
        same("question", &self.question, &asked.question)?;
        let names = |of: &SizeSearch| -> Vec<String> {
            of.variants.iter().map(|it| it.name.clone()).collect()
        };
        same("choice of variants", &names(self), &names(&asked))?;
        self.recipe = asked.recipe;
        Ok(())
    }

    fn state(&mut self) -> (bool, &mut HostFacts, &mut bool) {
        let has_runs = !self.unlimited.is_empty();
        (has_runs, &mut self.machine, &mut self.interrupted)
    }

    fn carry_out(&mut self, lab: &mut Lab<'_>) -> Result<(), Error> {
        lab.search(self)
    }

    fn conclude(&mut self) {
        self.find_answers();
    }
}

impl Lab<'_> {
    /// Searches until every variant has its answer, the budget is spent, or it is stopped.
    pub(super) fn search(&mut self, search: &mut SizeSearch) -> Result<(), Error> {
        let begin = Instant::now();
        self.others_swap(&search.recipe)?;
        let mut first_s = None;
        if search.peak_bytes == 0 {
            (self.listener)(Event::Note(
                "a first run without a limit tells how many runs follow, some 30 for each variant, \
                 and how long they take; --budget TIME ends them sooner",
            ));
            first_s = self.look_at_workload(search)?;
            if first_s.is_none() {
                return Ok(());
            }
        }
        // Swapped pages compress to at most their own size.
        self.fits(search.case(), search.peak_bytes)?;
        self.leave_variants_out(search)?;
        if let Some(run_s) = first_s.filter(|_| !search.is_too_small()) {
            (self.listener)(Event::Note(&how_long(search, run_s)));
        }
        for round in 0.. {
            let turns = turns(search, round);
            if turns.is_empty() {
                return Ok(());
            }
            for turn in turns {
                let over = |budget: Duration| begin.elapsed() >= budget;
                search.budget_spent = self.settings.budget.is_some_and(over);
                if self.stopped() || search.budget_spent {
                    return Ok(());
                }
                match turn {
                    Turn::Unlimited => self.try_unlimited(search)?,
                    Turn::Variant(at) => self.try_variant(search, at, round)?,
                }
            }
        }
        Ok(())
    }

    /// Measures use without a limit; seconds of the run, which do not count. None: stopped.
    fn look_at_workload(&mut self, search: &mut SizeSearch) -> Result<Option<f64>, Error> {
        let recipe = search.recipe.clone();
        let case = &recipe.cases[0];
        self.fits(case, case.workload.expected_bytes().unwrap_or(0))?;
        self.tell("without a limit".to_owned(), search.progress());
        let Some(measured) = self.without_limit(&recipe, case)? else {
            return Ok(None);
        };
        let footprint = measured.needed_bytes();
        let peak = measured.peak_bytes().max(footprint);
        search.footprint_bytes = footprint;
        search.peak_bytes = peak.next_multiple_of(4096);
        Ok(Some(measured.run.ended.usage.elapsed_s))
    }

    /// Those that this machine cannot have.
    fn leave_variants_out(&mut self, search: &mut SizeSearch) -> Result<(), Error> {
        let bases = SizeBases {
            limit: search.peak_bytes,
            footprint: search.footprint_bytes,
        };
        for at in 0..search.variants.len() {
            if let Some(why) = self.lacks(&search.recipe.variants[at], bases)? {
                self.leave_variant_out(search, at, why);
            }
        }
        all_left_out(search.variants.iter().map(|it| it.left_out.as_deref()))
    }

    fn leave_variant_out(&mut self, search: &mut SizeSearch, at: usize, why: String) {
        let variant = &mut search.variants[at];
        (self.listener)(Event::Note(&format!(
            "variant {} is left out: {why}",
            variant.name
        )));
        variant.left_out = Some(why);
    }

    fn try_unlimited(&mut self, search: &mut SizeSearch) -> Result<(), Error> {
        self.tell("without a limit".to_owned(), search.progress());
        let variant = Variant::without_limit();
        let recipe = search.recipe.clone();
        let Some(run) = self.tried(search, &recipe, &variant, search.peak_bytes, 0)? else {
            return Ok(());
        };
        if run.outcome != Outcome::Finished {
            return Err(failed(search.case(), &run.outcome));
        }
        search.unlimited.push(run);
        (self.listener)(Event::Tried(search));
        Ok(())
    }

    fn try_variant(
        &mut self,
        search: &mut SizeSearch,
        at: usize,
        round: usize,
    ) -> Result<(), Error> {
        let Some(limit) = search.next_limit(at) else {
            return Ok(());
        };
        let variant = search.recipe.variants[at].clone();
        let what = format!("{} with {}", variant.name, bytes(limit));
        self.tell(what, search.progress());
        let mut recipe = search.recipe.clone();
        if let Some(seconds) = search.unlimited_s() {
            let give_up = (seconds * search.question.give_up).max(GIVE_UP_S);
            recipe.run_max_s = recipe.run_max_s.min(give_up);
        }
        match self.tried(search, &recipe, &variant, limit, round) {
            Ok(Some(run)) => search.add(at, limit, run),
            Ok(None) => return Ok(()),
            // That a module is not there shows when it is loaded.
            Err(err) if err.is_missing() => self.leave_variant_out(search, at, err.to_string()),
            // Compressed pages that came back wrong are an error; a program that fails for want of memory is not.
            Err(err) => return Err(err),
        }
        (self.listener)(Event::Tried(search));
        Ok(())
    }

    /// One run; none: stopped.
    fn tried(
        &mut self,
        search: &SizeSearch,
        recipe: &Recipe,
        variant: &Variant,
        limit: u64,
        round: usize,
    ) -> Result<Option<SizeRun>, Error> {
        let case = Case {
            limit: Some(limit.to_string()),
            ..search.case().clone()
        };
        let facts = CaseFacts {
            limit_bytes: Some(limit),
            ..CaseFacts::new(&case, search.footprint_bytes)
        };
        let begin = Instant::now();
        let mut run = self.run_once(recipe, &case, variant, &facts, round)?;
        run.took_s = begin.elapsed().as_secs_f64();
        Ok((run.outcome != Outcome::Stopped).then(|| SizeRun::of(&run, &recipe.metric)))
    }
}

/// What is ahead, for who decides whether to wait or to choose fewer variants.
fn how_long(search: &SizeSearch, run_s: f64) -> String {
    let (variants, runs) = (search.open().count(), search.runs_left());
    format!(
        "a run takes {} without a limit: {variants} {}, some {runs} runs in all, {} if a limit slows \
         none down; fewer where answers come early, more where runs differ",
        seconds(run_s),
        if variants == 1 { "variant" } else { "variants" },
        duration(Duration::from_secs_f64(run_s * runs as f64))
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Unlimited,
    Variant(usize),
}

/// The runs of a round; none: every variant has its answer.
fn turns(search: &SizeSearch, round: usize) -> Vec<Turn> {
    let open: Vec<Turn> = search.open().map(Turn::Variant).collect();
    let unlimited = search.unlimited.len();
    if open.is_empty() {
        return open;
    }
    if unlimited < UNLIMITED_FIRST {
        return vec![Turn::Unlimited; UNLIMITED_FIRST - unlimited];
    }
    let mut turns = open;
    if unlimited < UNLIMITED_OFTEN || round.is_multiple_of(3) {
        turns.push(Turn::Unlimited);
    }
    let mut random = ChaCha8Rng::seed_from_u64(search.seed);
    random.set_stream(unlimited as u64 ^ (round as u64) << 32);
    turns.shuffle(&mut random);
    turns
}

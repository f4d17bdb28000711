//! The runs of a search for the least RAM: in each round one of every set-up that has no
//! answer yet, with the limit that is its turn, and one without a limit, in an order drawn
//! anew.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::result::{CaseFacts, Outcome};
use super::{Event, Lab, RunSetup, RESERVE_BYTES};
use crate::arm::{Arm, SizeBases};
use crate::error::Error;
use crate::limit::Group;
use crate::measure::machine::{held, memory};
use crate::recipe::{Case, Metric, Recipe};
use crate::size::predict::{cost_of, scan_cost_of, FaultCost, Prediction, Probed};
use crate::size::result::{TIMED_LEAST, UNLIMITED_FIRST};
use crate::size::sampled::{Looker, PageOut, Sampled};
use crate::size::touches::{self, TouchLog};
use crate::size::{SizeRun, SizeSearch};
use crate::statistics::sample::median;
use crate::statistics::stopping::StoppingRule;
use crate::workload::content::PageContent;
use crate::workload::{Copies, Touch, Workload};

/// After so many runs without a limit, one in every third round shows whether the machine is still as it was.
const UNLIMITED_OFTEN: usize = 16;
/// No run is ended earlier, however short the workload.
const GIVE_UP_S: f64 = 1.0;

/// After so long no further run shows how long one takes that nobody looks at.
const TIMED_MAX_S: f64 = 10.0;

/// What a fault costs is measured in so many runs, of so much memory, that are ended after so long.
const PROBE_RUNS: usize = 3;
const PROBE_BYTES: u64 = 32 << 20;
const PROBE_MAX_S: f64 = 30.0;
const PROBE_TOUCHES: u64 = 30_000;
const PROBE_WRITES: f64 = 0.3;
/// The same with pages of the workload: with little room, and with so much that most pages that reclaim looks at are in use.
/// What the probe has besides lies in it, too.
const TIGHT: Room = Room {
    share: 0.7,
    touches: 100_000,
};
const LOOSE: Room = Room {
    share: 1.05,
    touches: 1_000_000,
};
/// Where a fault takes longer, what reclaim looks at is not told apart.
const SCAN_TOLD_S: f64 = 1e-4;
/// Where pages of the workload are while that is measured, in the experiment's folder, which is closed to others.
const OWN_PAGES: &str = "pages";

/// Whether anything is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predicts {
    /// Nothing: limits are tried.
    No,
    /// Before limits are tried.
    First,
    /// And no limit is tried.
    Only,
}

impl Lab<'_> {
    /// Searches until every set-up has its answer, the budget is spent, or it is stopped.
    pub(super) fn search(
        &mut self,
        search: &mut SizeSearch,
        predicts: Predicts,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        self.others_swap(&search.recipe)?;
        if search.peak_bytes == 0 && !self.look_at_workload(search, predicts)? {
            return Ok(());
        }
        self.fits(search.peak_bytes)?;
        self.leave_set_ups_out(search)?;
        self.look_page_by_page(search)?;
        self.measure_costs(search)?;
        search.conclude();
        if predicts == Predicts::Only {
            return Ok(());
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
                    Turn::SetUp(at) => self.try_set_up(search, at, round)?,
                }
            }
        }
        Ok(())
    }

    /// What it takes without a limit: a run that does not count for its time. `false`: stopped.
    fn look_at_workload(
        &mut self,
        search: &mut SizeSearch,
        predicts: Predicts,
    ) -> Result<bool, Error> {
        let recipe = search.recipe.clone();
        let case = &recipe.cases[0];
        self.fits(case.workload.expected_bytes().unwrap_or(0))?;
        self.tell(search, None, None);
        let group = Group::create(&self.hierarchy, "footprint")?;
        let (folder, over) = (group.file(""), AtomicBool::new(false));
        let (measured, log) = std::thread::scope(|scope| {
            let watching =
                (predicts != Predicts::No).then(|| scope.spawn(|| touches::watch(&folder, &over)));
            let measured = self.supervised(case, recipe.run_max_s, &group, None, &[]);
            over.store(true, Ordering::SeqCst);
            (measured, watching.and_then(|watching| watching.join().ok()))
        });
        let measured = measured?;
        match &measured.outcome {
            Outcome::Finished => {}
            Outcome::Stopped => return Ok(false),
            outcome => return Err(failed(case, outcome)),
        }
        let footprint = measured.needed_bytes();
        let peak = measured.peak_bytes().max(footprint);
        search.footprint_bytes = footprint;
        search.peak_bytes = peak.next_multiple_of(4096);
        if log.as_ref().is_some_and(|log| !log.is_enough()) {
            (self.listener)(Event::Note(
                "nothing is predicted: a run is too short to see which pages are touched again",
            ));
        }
        search.prediction = log.filter(TouchLog::is_enough).map(|log| Prediction {
            log,
            sampled: None,
            run_s: measured.ended.usage.elapsed_s,
            costs: Vec::new(),
            curves: Vec::new(),
        });
        Ok(true)
    }

    /// Which pages are touched, and when: another run without a limit, of which a sample of pages is swapped out on
    /// purpose. Where that cannot be done, it is said why, and what was seen of all pages has to do.
    fn look_page_by_page(&mut self, search: &mut SizeSearch) -> Result<(), Error> {
        let wanted = |prediction: &Prediction| prediction.sampled.is_none();
        let Some(run_s) = search
            .prediction
            .as_ref()
            .filter(|it| wanted(it))
            .map(|it| it.run_s)
        else {
            return Ok(());
        };
        let bases = SizeBases {
            limit: search.peak_bytes,
            footprint: search.footprint_bytes,
        };
        let arms = Recipe::load("size")?.arms;
        let mut arms = arms.into_iter().filter(|arm| arm.name.starts_with("zram"));
        let arm = arms.find(|arm| arm.check(&self.host, bases).is_ok());
        let found = match (self.settings.page_out, arm) {
            (None, _) => Err("this program cannot swap pages of another one out"),
            (_, None) => Err("there is no zram to swap to"),
            (Some(page_out), Some(arm)) => {
                self.tell(search, Some("which pages are touched"), None);
                self.sampled(search, run_s, page_out, &arm)?
            }
        };
        // The first run read its files, and was looked at: how long it takes is better seen without either.
        let mut again_s = Vec::new();
        while found.is_ok()
            && again_s.len() < TIMED_LEAST
            && again_s.iter().sum::<f64>() < TIMED_MAX_S
            && !self.stopped()
        {
            match self.timed(search)? {
                Some(seconds) => again_s.push(seconds),
                None => break,
            }
        }
        match (found, &mut search.prediction) {
            (Ok(sampled), Some(prediction)) => {
                prediction.sampled = Some(sampled);
                if !again_s.is_empty() {
                    prediction.run_s = median(&again_s);
                }
            }
            (Err(why), _) if !self.stopped() => (self.listener)(Event::Note(&format!(
                "which pages are touched is not seen page by page: {why}"
            ))),
            _ => {}
        }
        Ok(())
    }

    /// How long a run without a limit takes that nobody looks at; none: it did not finish.
    fn timed(&mut self, search: &SizeSearch) -> Result<Option<f64>, Error> {
        self.tell(search, None, None);
        let (recipe, case) = (search.recipe.clone(), search.case().clone());
        let facts = CaseFacts::new(&case, search.footprint_bytes);
        let run = self.run_once(&recipe, &case, &Arm::without_limit(), &facts, 0)?;
        Ok((run.outcome == Outcome::Finished).then_some(run.ended.usage.elapsed_s))
    }

    fn sampled(
        &mut self,
        search: &SizeSearch,
        run_s: f64,
        page_out: PageOut,
        arm: &Arm,
    ) -> Result<Result<Sampled, &'static str>, Error> {
        let bases = SizeBases {
            limit: search.peak_bytes,
            footprint: search.footprint_bytes,
        };
        let group = Group::create(&self.hierarchy, "pages")?;
        let applied = match arm.apply(&self.host, bases, &group, self.disk.as_ref()) {
            Ok(applied) => applied,
            Err(err) if err.is_missing() => return Ok(Err("there is no zram to swap to")),
            Err(err) => return Err(err),
        };
        let set_up = RunSetup { group, applied };
        let RunSetup { group, applied } = &set_up;
        let devices = applied.devices().to_vec();
        let (folder, over) = (group.file(""), AtomicBool::new(false));
        let looker = Looker::new(
            &folder,
            group.freezer(),
            page_out,
            search.footprint_bytes,
            run_s,
        );
        let stored = || {
            let held = devices.iter().find_map(|name| held(name))?;
            Some((held.stored_bytes, held.compressed_bytes))
        };
        let (measured, trace) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| looker.watch(&over, &stored));
            let measured = self.supervised(
                search.case(),
                search.recipe.run_max_s,
                group,
                None,
                &devices,
            );
            over.store(true, Ordering::SeqCst);
            (measured, looking.join().ok())
        });
        let measured = measured?;
        drop(set_up.group);
        set_up.applied.undo()?;
        Ok(match (measured.outcome, trace) {
            (Outcome::Finished, Some(trace)) => {
                let own = self.folder.path().join(OWN_PAGES);
                let copies = trace.copies();
                if !copies.is_empty() {
                    fs::write(&own, copies).map_err(|err| Error::io("write", own, err))?;
                }
                trace.concluded(measured.ended.usage.elapsed_s)
            }
            _ => Err("the run that was looked at did not finish"),
        })
    }

    /// What a fault costs with each set-up that swaps: short runs of pages touched at random, with a limit and without.
    fn measure_costs(&mut self, search: &mut SizeSearch) -> Result<(), Error> {
        let Some(mut prediction) = search.prediction.take() else {
            return Ok(());
        };
        let result = self.add_costs(search, &mut prediction);
        search.prediction = Some(prediction);
        result
    }

    fn add_costs(
        &mut self,
        search: &mut SizeSearch,
        prediction: &mut Prediction,
    ) -> Result<(), Error> {
        let wanted: Vec<usize> = (0..search.set_ups.len())
            .filter(|&at| search.set_ups[at].left_out.is_none() && search.recipe.arms[at].swaps())
            .filter(|&at| {
                let mut costs = prediction.costs.iter();
                !costs.any(|cost| cost.set_up == search.set_ups[at].name)
            })
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let own = self.folder.path().join(OWN_PAGES);
        let pages = own.exists().then_some(own.clone());
        let result = self.add_costs_of(pages, &wanted, search, prediction);
        let _ = fs::remove_file(own);
        result
    }

    fn add_costs_of(
        &mut self,
        pages: Option<PathBuf>,
        wanted: &[usize],
        search: &mut SizeSearch,
        prediction: &mut Prediction,
    ) -> Result<(), Error> {
        let tight = probe(pages.clone(), TIGHT);
        let mut without_s = Vec::new();
        let mut with: Vec<Vec<Probed>> = vec![Vec::new(); wanted.len()];
        for round in 0..PROBE_RUNS {
            self.tell(search, Some("what a fault costs"), None);
            match self.probed(&tight, TIGHT, &Arm::without_limit(), round)? {
                Some(run) => without_s.push(run.elapsed_s),
                None => return Ok(()),
            }
            for (which, &at) in wanted.iter().enumerate() {
                if search.set_ups[at].left_out.is_some() {
                    continue;
                }
                let arm = search.recipe.arms[at].clone();
                match self.probed(&tight, TIGHT, &arm, round) {
                    Ok(Some(run)) => with[which].push(run),
                    Ok(None) => return Ok(()),
                    Err(err) if err.is_missing() => {
                        self.leave_set_up_out(search, at, err.to_string());
                    }
                    Err(err) => return Err(err),
                }
            }
        }
        let found = wanted.iter().zip(&with).filter_map(|(&at, runs)| {
            let name = &search.set_ups[at].name;
            Some((at, cost_of(name, &without_s, runs)?))
        });
        let mut found: Vec<_> = found.collect();
        // What reclaim looks at costs the same wherever it puts what it evicts: it shows best where that is fast.
        let seconds = |it: &(usize, FaultCost)| it.1.seconds.value;
        let fastest = found
            .iter()
            .filter(|it| pages.is_some() && seconds(it) < SCAN_TOLD_S)
            .min_by(|one, other| seconds(one).total_cmp(&seconds(other)));
        if let Some((at, cost)) = fastest {
            let arm = search.recipe.arms[*at].clone();
            let Some((without_s, with)) = self.probed_loosely(search, pages.clone(), &arm)? else {
                return Ok(());
            };
            let scan_s = scan_cost_of(cost, &without_s, &with).unwrap_or(0.0);
            found.iter_mut().for_each(|(_, cost)| cost.scan_s = scan_s);
        }
        prediction
            .costs
            .extend(found.into_iter().map(|(_, cost)| cost));
        Ok(())
    }

    /// Runs with room for most of the probe's pages, and times without a limit; none: stopped.
    fn probed_loosely(
        &mut self,
        search: &SizeSearch,
        pages: Option<PathBuf>,
        arm: &Arm,
    ) -> Result<Option<Probes>, Error> {
        let loose = probe(pages, LOOSE);
        let (mut without_s, mut with) = (Vec::new(), Vec::new());
        for round in 0..PROBE_RUNS {
            self.tell(search, Some("what a fault costs"), None);
            let without = self.probed(&loose, LOOSE, &Arm::without_limit(), round)?;
            let Some(without) = without else {
                return Ok(None);
            };
            let Some(run) = self.probed(&loose, LOOSE, arm, round)? else {
                return Ok(None);
            };
            without_s.push(without.elapsed_s);
            with.push(run);
        }
        Ok(Some((without_s, with)))
    }

    /// What a run of the probe took, whether or not it reached its end; none: stopped.
    fn probed(
        &mut self,
        probe: &Recipe,
        room: Room,
        arm: &Arm,
        round: usize,
    ) -> Result<Option<Probed>, Error> {
        let case = &probe.cases[0];
        let facts = CaseFacts {
            limit_bytes: Some((PROBE_BYTES as f64 * room.share) as u64 / 4096 * 4096),
            ..CaseFacts::new(case, PROBE_BYTES)
        };
        let run = self.run_once(probe, case, arm, &facts, round)?;
        let usage = &run.ended.usage;
        // The group's own count, where the kernel has one; else the machine's.
        let of_machine = || run.machine.0.get("vm_pgscan_anon");
        let scanned = run.group.get("pgscan").or_else(of_machine).copied();
        Ok((run.outcome != Outcome::Stopped).then_some(Probed {
            elapsed_s: usage.elapsed_s,
            faults: usage.faults_major,
            scanned,
        }))
    }

    /// What is swapped out compresses to at most itself.
    fn fits(&self, needs: u64) -> Result<(), Error> {
        let available = memory().available_bytes;
        if available >= needs.saturating_add(RESERVE_BYTES) {
            return Ok(());
        }
        let bytes = zmeld_report::units::bytes;
        Err(Error::Unsafe {
            what: format!(
                "the workload needs {} and the machine has {} to give, of which {} stay for others: choose a smaller \
                 workload",
                bytes(needs),
                bytes(available),
                bytes(RESERVE_BYTES)
            ),
        })
    }

    /// Those that this machine cannot have.
    fn leave_set_ups_out(&mut self, search: &mut SizeSearch) -> Result<(), Error> {
        let bases = SizeBases {
            limit: search.peak_bytes,
            footprint: search.footprint_bytes,
        };
        for at in 0..search.set_ups.len() {
            match search.recipe.arms[at].check(&self.host, bases) {
                Ok(()) => {}
                Err(err @ Error::Recipe { .. }) => return Err(err),
                Err(err) => self.leave_set_up_out(search, at, err.to_string()),
            }
        }
        if search
            .set_ups
            .iter()
            .all(|set_up| set_up.left_out.is_some())
        {
            let why: Vec<String> = search
                .set_ups
                .iter()
                .filter_map(|set_up| set_up.left_out.clone())
                .collect();
            return Err(Error::Missing {
                what: why.join("; "),
            });
        }
        Ok(())
    }

    fn leave_set_up_out(&mut self, search: &mut SizeSearch, at: usize, why: String) {
        let set_up = &mut search.set_ups[at];
        (self.listener)(Event::Note(&format!(
            "set-up {} is left out: {why}",
            set_up.name
        )));
        set_up.left_out = Some(why);
    }

    fn tell(&mut self, search: &SizeSearch, set_up: Option<&str>, limit_bytes: Option<u64>) {
        let (done, seconds) = search.progress();
        (self.listener)(Event::Tries {
            set_up,
            limit_bytes,
            done,
            left: seconds.map(Duration::from_secs_f64),
        });
    }

    fn try_unlimited(&mut self, search: &mut SizeSearch) -> Result<(), Error> {
        self.tell(search, None, None);
        let arm = Arm::without_limit();
        let recipe = search.recipe.clone();
        let Some(run) = self.tried(search, &recipe, &arm, search.peak_bytes, 0)? else {
            return Ok(());
        };
        if run.outcome != Outcome::Finished {
            return Err(failed(search.case(), &run.outcome));
        }
        search.unlimited.push(run);
        (self.listener)(Event::Tried(search));
        Ok(())
    }

    fn try_set_up(
        &mut self,
        search: &mut SizeSearch,
        at: usize,
        round: usize,
    ) -> Result<(), Error> {
        let Some(limit) = search.next_limit(at) else {
            return Ok(());
        };
        let arm = search.recipe.arms[at].clone();
        self.tell(search, Some(&arm.name), Some(limit));
        let mut recipe = search.recipe.clone();
        if let Some(seconds) = search.unlimited_s() {
            let give_up = (seconds * search.question.give_up).max(GIVE_UP_S);
            recipe.run_max_s = recipe.run_max_s.min(give_up);
        }
        match self.tried(search, &recipe, &arm, limit, round) {
            Ok(Some(run)) => search.add(at, limit, run),
            Ok(None) => return Ok(()),
            // That a module is not there shows when it is loaded.
            Err(err) if err.is_missing() => self.leave_set_up_out(search, at, err.to_string()),
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
        arm: &Arm,
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
        let mut run = self.run_once(recipe, &case, arm, &facts, round)?;
        run.took_s = begin.elapsed().as_secs_f64();
        Ok((run.outcome != Outcome::Stopped).then(|| SizeRun::of(&run, &recipe.metric)))
    }
}

/// How long the probe takes without a limit, and its runs with one.
type Probes = (Vec<f64>, Vec<Probed>);

/// Room for that share of the probe's pages, and how many of them are touched.
#[derive(Debug, Clone, Copy)]
struct Room {
    share: f64,
    touches: u64,
}

/// The workload that shows what a fault costs: with pages that the workload had, where they are known.
fn probe(pages: Option<PathBuf>, room: Room) -> Recipe {
    let workload = match pages {
        Some(pages) => Workload::Copies(Copies {
            pages,
            bytes: PROBE_BYTES,
            touches: room.touches,
            write_share: PROBE_WRITES,
        }),
        None => Workload::Touch(Touch {
            bytes: PROBE_BYTES,
            touches: PROBE_TOUCHES,
            zipf: 0.5,
            write_share: PROBE_WRITES,
            content: PageContent::default(),
        }),
    };
    Recipe {
        name: "what a fault costs".to_owned(),
        question: String::new(),
        about: String::new(),
        also: Vec::new(),
        metric: Metric::default(),
        minutes: 0.0,
        stopping: StoppingRule {
            runs_min: 1,
            runs_max: 1,
            width: 1.0,
        },
        warm_ups: 0,
        run_max_s: PROBE_MAX_S,
        cases: vec![Case {
            name: "pages touched again and again".to_owned(),
            workload,
            full: None,
            limit: Some(format!("{}% of footprint", room.share * 100.0)),
            full_limit: None,
            counts_store: false,
            huge_pages: false,
            machine: None,
            arms: Vec::new(),
        }],
        arms: Vec::new(),
        published: Vec::new(),
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Unlimited,
    SetUp(usize),
}

/// The runs of a round; none: every set-up has its answer.
fn turns(search: &SizeSearch, round: usize) -> Vec<Turn> {
    let open: Vec<Turn> = (0..search.set_ups.len())
        .filter(|&at| search.next_limit(at).is_some())
        .map(Turn::SetUp)
        .collect();
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

fn failed(case: &Case, outcome: &Outcome) -> Error {
    Error::Workload {
        what: match outcome {
            Outcome::Failed(why) => format!("without any limit: {why}"),
            other => format!("{}: {other:?} without any limit", case.workload.describe()),
        },
        integrity: false,
    }
}

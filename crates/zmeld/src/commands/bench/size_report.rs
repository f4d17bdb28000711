//! What a search for the least RAM looks like.

use zmeld_lab::experiment::result::Outcome as RunOutcome;
use zmeld_lab::recipe::Metric;
use zmeld_lab::size::predict::{Point, Prediction};
use zmeld_lab::size::{Basis, Least, SetUp, SizeRun, SizeSearch, Step, Verdict};
use zmeld_lab::statistics::effect::effect;
use zmeld_lab::statistics::sample::{median, noise};
use zmeld_lab::statistics::Interval;
use zmeld_report::plot::{Axis, Lines};
use zmeld_report::units::{bytes, percent, ratio, seconds};
use zmeld_report::{cells, Cell, Column, Document, Estimate, Section, Table, Tone, Unit};

use super::report::of_machine;

/// A plot shows what is predicted up to so many times the slowdown that is allowed, or what was measured.
const SHOWN: f64 = 6.0;
/// With fewer faults nothing is said of how well they were predicted.
const FAULTS_TOLD: f64 = 100.0;

/// Does nothing swap with it?
fn swaps(search: &SizeSearch, set_up: &SetUp) -> bool {
    let mut arms = search.recipe.arms.iter();
    arms.any(|arm| arm.name == set_up.name && arm.swaps())
}

/// An answer that is as close as was asked for is one figure, any other an interval.
fn amount(least: &Least) -> String {
    match (least.resolved, least.does_not_bytes) {
        (true, 0) => format!("at most {}", bytes(least.bytes)),
        (true, _) => bytes(least.bytes),
        (false, 0) => format!("at most {}", bytes(least.bytes)),
        (false, low) => format!("{} to {}", bytes(low), bytes(least.bytes)),
    }
}

/// The answer in one sentence.
fn answer(search: &SizeSearch) -> String {
    let name = &search.recipe.cases[0].name;
    let mut swapping: Vec<(&SetUp, &Least)> = Vec::new();
    let mut without: Vec<&Least> = Vec::new();
    for set_up in &search.set_ups {
        match (&set_up.least, swaps(search, set_up)) {
            (Some(least), true) => swapping.push((set_up, least)),
            (Some(least), false) => without.push(least),
            (None, _) => {}
        }
    }
    if swapping.is_empty() && without.is_empty() {
        if let Some(predicted) = predicted(search) {
            return predicted;
        }
        return "There is no answer yet: no limit was decided.".to_owned();
    }
    swapping.sort_by_key(|(_, least)| least.bytes);
    let mut parts: Vec<String> = swapping
        .iter()
        .map(|(set_up, least)| format!("{} and {}", amount(least), set_up.name))
        .collect();
    let without: Vec<String> = without
        .iter()
        .map(|least| format!("{} without swap", amount(least)))
        .collect();
    let mut text = format!("`{name}` does with {}", parts.join(", "));
    if parts.is_empty() {
        parts = without;
        text.push_str(&parts.join("; "));
    } else if !without.is_empty() {
        text = format!("{text}; {}", without.join("; "));
    }
    format!("{text}.")
}

/// The answer where nothing was limited, as it is predicted.
fn predicted(search: &SizeSearch) -> Option<String> {
    let curves = &search.prediction.as_ref()?.curves;
    let mut parts: Vec<(u64, &str)> = curves
        .iter()
        .filter_map(|curve| Some((curve.least_bytes?, curve.set_up.as_str())))
        .collect();
    parts.sort_unstable();
    let parts: Vec<String> = parts
        .iter()
        .map(|(least, set_up)| format!("{} and {set_up}", bytes(*least)))
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "It is predicted that `{}` does with {}; no limit was decided.",
            search.recipe.cases[0].name,
            parts.join(", ")
        )
    })
}

/// One row a set-up.
fn answers_table(search: &SizeSearch) -> Table {
    let mut table = Table::new("Least RAM")
        .column(Column::text("set-up").names_row())
        .column(Column::bytes("least RAM").with_interval())
        .column(Column::ratio("time").with_interval())
        .column(Column::count("faults"))
        .column(Column::bytes("store"));
    let best = search
        .set_ups
        .iter()
        .filter_map(|set_up| set_up.least.filter(|least| !least.unlimited))
        .map(|least| least.bytes)
        .min();
    for set_up in search.set_ups.iter().filter(|it| it.left_out.is_none()) {
        let Some(least) = &set_up.least else {
            table.row(cells![
                set_up.name.as_str(),
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
                Cell::Empty
            ]);
            continue;
        };
        let range = Estimate::new(
            least.bytes as f64,
            least.does_not_bytes as f64,
            least.bytes as f64,
        );
        let step = set_up.step(least.bytes);
        let of_step = |get: fn(&Step) -> Cell| step.map_or(Cell::Empty, get);
        let row = table.row(cells![
            set_up.name.as_str(),
            range,
            of_step(slowdown),
            of_step(|step| step.median_of(|run| run.faults_major as f64).into()),
            of_step(|step| step.median_of(|run| run.store_max_bytes as f64).into()),
        ]);
        if best == Some(least.bytes) {
            row.strong();
        }
    }
    table.note(
        "Least RAM: what was shown to do, and in brackets from what was shown not to do. The other columns are of \
         runs with that limit: time over that without a limit, major faults, RAM of compressed pages.",
    );
    table
}

fn slowdown(step: &Step) -> Cell {
    let all = &step.slowdown;
    match all.value.is_finite() {
        true => Cell::Estimate(Estimate::new(all.value, all.low, all.high)),
        false => Cell::Empty,
    }
}

/// Every limit that was tried.
fn steps_table(search: &SizeSearch) -> Table {
    let mut table = Table::new("What was tried")
        .column(Column::text("set-up").names_row())
        .column(Column::bytes("limit").names_row())
        .column(Column::text("does"))
        .column(Column::ratio("time").with_interval())
        .column(Column::count("runs"))
        .column(Column::text("unfinished"));
    for set_up in &search.set_ups {
        let mut steps: Vec<&Step> = set_up.steps.iter().collect();
        steps.sort_by_key(|step| step.limit_bytes);
        for step in steps {
            table.row(cells![
                set_up.name.as_str(),
                step.limit_bytes,
                verdict(step.verdict),
                slowdown(step),
                step.runs.len(),
                unfinished(search, &step.runs),
            ]);
        }
    }
    table
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Open => "not decided yet",
        Verdict::Does => "yes",
        Verdict::DoesNot => "no",
        Verdict::Undecided => "cannot be told",
    }
}

/// Why runs did not finish, and how many.
fn unfinished(search: &SizeSearch, runs: &[SizeRun]) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for run in runs {
        let why = match &run.outcome {
            RunOutcome::Finished | RunOutcome::Stopped => continue,
            RunOutcome::OutOfMemory => "out of memory".to_owned(),
            RunOutcome::TimedOut => format!("over {}", ratio(search.question.give_up)),
            RunOutcome::Failed(why) => why.clone(),
        };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    let words: Vec<String> = reasons
        .iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    words.join("; ")
}

/// The least RAM of each set-up as it was predicted, and what a fault costs.
fn predicted_table(prediction: &Prediction) -> Table {
    let mut table = Table::new("Predicted from runs without a limit")
        .column(Column::text("set-up").names_row())
        .column(Column::bytes("least RAM"))
        .column(Column::count("faults").with_interval())
        .column(Column::nanoseconds("a fault costs").with_interval());
    for curve in &prediction.curves {
        let least = curve.least_bytes;
        let point = least.and_then(|least| prediction.point(&curve.set_up, least));
        let cost = prediction.costs.iter().find(|it| it.set_up == curve.set_up);
        let nanoseconds =
            |cost: &Interval| Estimate::new(cost.value * 1e9, cost.low * 1e9, cost.high * 1e9);
        table.row(cells![
            curve.set_up.as_str(),
            least.map_or(Cell::Empty, Cell::from),
            point.map_or(Cell::Empty, |point| Cell::Estimate(interval(&point.faults))),
            cost.map_or(Cell::Empty, |cost| Cell::Estimate(nanoseconds(
                &cost.seconds
            ))),
        ]);
    }
    let passed_over = prediction.costs.iter().find(|cost| cost.scan_s > 0.0);
    if let Some(cost) = passed_over {
        table.note(format!(
            "A fault costs that where reclaim looks at {:.1} pages for one that it evicts; each page more that it passes \
             over, as it is in use, costs {}. How many there are with a limit is predicted, too.",
            cost.scanned,
            seconds(cost.scan_s)
        ));
    }
    let log = &prediction.log;
    if let Some(sampled) = &prediction.sampled {
        table.note(format!(
            "In another run without a limit, which took {} instead of {}, a sample of {} pages ({} of all) was swapped \
             out {} times to see which came back. A fault's cost is of pages that the program had.",
            seconds(sampled.elapsed_s),
            seconds(prediction.run_s),
            sampled.pages,
            percent(sampled.share),
            sampled.looks
        ));
        return table;
    }
    table.note(format!(
        "In {} epochs of {} it was looked at which pages were touched again, which took {} of the time. A fault's \
         cost is of pages touched at random that compress to some 40 %; those of programs may cost more.",
        log.epochs.len(),
        seconds(log.elapsed_s),
        percent(log.cost_s / log.elapsed_s.max(1e-9))
    ));
    table
}

fn interval(of: &Interval) -> Estimate {
    Estimate::new(of.value, of.low, of.high)
}

/// A limit that was tried beside what was predicted of it.
struct Compared<'a> {
    set_up: &'a str,
    finished: usize,
    runs: usize,
    /// In the middle of the runs that finished.
    faults: f64,
    /// The same, over the middle of those without a limit.
    time: f64,
    point: Point,
}

impl Compared<'_> {
    fn is_near(&self) -> [bool; 4] {
        let within = |by: f64, share: f64| (by - 1.0).abs() <= share;
        let covers = |of: &Interval, what: f64| of.low <= what && what <= of.high;
        let Point {
            faults, slowdown, ..
        } = &self.point;
        [
            within(faults.value / self.faults, 0.1),
            covers(faults, self.faults),
            within(slowdown.value / self.time, 0.15),
            covers(slowdown, self.time),
        ]
    }
}

/// Limits that were tried, with runs that finished.
fn compared(search: &SizeSearch) -> Vec<Compared<'_>> {
    // What is predicted is a time, whatever limits are decided by.
    let is_time = search.recipe.metric == Metric::default();
    let (Some(unlimited_s), Some(cost)) = (search.unlimited_s(), search.unlimited_cost()) else {
        return Vec::new();
    };
    let all = search.set_ups.iter();
    let steps = all.flat_map(|set_up| set_up.steps.iter().map(move |step| (set_up, step)));
    steps
        .filter_map(|(set_up, step)| {
            let finished: Vec<&SizeRun> = step.finished().collect();
            let middle = |values: Vec<f64>| (!values.is_empty()).then(|| median(&values));
            let of =
                |get: fn(&SizeRun) -> f64| middle(finished.iter().map(|run| get(run)).collect());
            let time = match is_time {
                true => middle(search.costs(step.finished()))? / cost,
                false => of(|run| run.elapsed_s)? / unlimited_s,
            };
            Some(Compared {
                set_up: &set_up.name,
                finished: finished.len(),
                runs: step.runs.len(),
                faults: of(|run| run.faults_major as f64)?,
                time,
                point: step.predicted?,
            })
        })
        .collect()
}

/// How good the prediction was, in a sentence: a share of next to no faults says nothing.
fn how_good(all: &[Compared]) -> String {
    let told: Vec<[bool; 4]> = all
        .iter()
        .filter(|it| it.faults >= FAULTS_TOLD)
        .map(Compared::is_near)
        .collect();
    let count = |which: usize| told.iter().filter(|it| it[which]).count();
    format!(
        "Of {} limits that were tried and had {FAULTS_TOLD} faults or more, the prediction has the major faults within \
         10 % in {}, its interval covers {}; it has the time within 15 % in {}, its interval covers {}.",
        told.len(),
        count(0),
        count(1),
        count(2),
        count(3)
    )
}

/// Every limit that was tried beside what was predicted of it.
fn compared_table(all: &[Compared]) -> Table {
    let mut table = Table::new("Predicted and measured")
        .column(Column::text("set-up").names_row())
        .column(Column::bytes("limit").names_row())
        .column(Column::text("finished"))
        .column(Column::count("faults"))
        .column(Column::count("predicted").with_interval())
        .column(Column::ratio("time"))
        .column(Column::ratio("predicted").with_interval());
    for it in all {
        table.row(cells![
            it.set_up,
            it.point.limit_bytes,
            format!("{} of {}", it.finished, it.runs),
            it.faults,
            interval(&it.point.faults),
            it.time,
            interval(&it.point.slowdown),
        ]);
    }
    table
}

/// What follows, in words.
fn findings(search: &SizeSearch) -> Vec<(Tone, String)> {
    let mut all = Vec::new();
    let asked = &search.question;
    let of = |swapping: bool| {
        let fit = search
            .set_ups
            .iter()
            .filter(move |it| swaps(search, it) == swapping);
        fit.filter_map(|it| Some((it, it.least?)))
    };
    let best = of(true).min_by_key(|(_, least)| least.bytes);
    if let (Some((set_up, least)), Some((_, without))) = (best, of(false).next()) {
        let (with_store, of_what) = match asked.basis {
            Basis::Group => (least.bytes + least.store_bytes, " with its store"),
            Basis::Machine => (least.bytes, ""),
        };
        let text = match with_store < without.does_not_bytes.max(1) {
            true => format!(
                "{} saves {} against no swap: it takes {}{of_what}.",
                set_up.name,
                bytes(without.bytes - with_store),
                bytes(with_store)
            ),
            false => format!(
                "No set-up is shown to need less RAM than no swap: {} takes {}{of_what}.",
                set_up.name,
                bytes(with_store)
            ),
        };
        all.push((Tone::Neutral, text));
    }
    let unknown: Vec<&str> = search
        .set_ups
        .iter()
        .filter(|it| it.left_out.is_none() && it.least.is_none())
        .map(|it| it.name.as_str())
        .collect();
    if !unknown.is_empty()
        && asked.limits.is_empty()
        && search.set_ups.iter().any(|it| !it.steps.is_empty())
    {
        all.push((
            Tone::Warning,
            format!("Missing: no limit was decided of {}.", unknown.join(", ")),
        ));
    }
    for set_up in &search.set_ups {
        if let Some(why) = &set_up.left_out {
            all.push((Tone::Warning, format!("{} is left out: {why}", set_up.name)));
        } else if let Some(text) = doubt(search, set_up) {
            all.push((Tone::Warning, text));
        }
    }
    if let Some(text) = own_time(search) {
        all.push((Tone::Neutral, text));
    }
    let noise = noise(&search.costs(&search.unlimited));
    if noise.relative_spread > asked.slowdown / 2.0 {
        all.push((
            Tone::Warning,
            format!(
                "Runs without a limit differ by {}, which is much for a slowdown of {}: a quieter machine, \
                 --steady, a larger --slowdown or more --runs decide more.",
                percent(noise.relative_spread),
                percent(asked.slowdown)
            ),
        ));
    }
    all
}

/// What `--steady` leaves out: how much longer the program itself computed with a limit.
fn own_time(search: &SizeSearch) -> Option<String> {
    let of =
        |runs: &mut dyn Iterator<Item = &SizeRun>| runs.map(|run| run.user_s).collect::<Vec<_>>();
    let steps = search.set_ups.iter().flat_map(|it| &it.steps);
    let with = of(&mut steps.flat_map(Step::finished));
    let without = of(&mut search.lately().iter());
    if !search.question.steady || with.len() < 3 || without.len() < 3 {
        return None;
    }
    let found = effect(&without, &with, 0.95).ratio;
    Some(format!(
        "What --steady leaves out: the program itself computed {} times as long ({} to {}) in runs with a limit.",
        ratio(found.value),
        ratio(found.low),
        ratio(found.high)
    ))
}

/// What is not known of a set-up, and why.
fn doubt(search: &SizeSearch, set_up: &SetUp) -> Option<String> {
    let undecided = set_up
        .steps
        .iter()
        .filter(|step| step.verdict == Verdict::Undecided)
        .map(|step| bytes(step.limit_bytes))
        .collect::<Vec<_>>();
    match &set_up.least {
        None => None,
        // What lies between limits that were named was not asked.
        Some(_) if !search.question.limits.is_empty() => None,
        Some(least) if !least.resolved => Some(match undecided.is_empty() {
            true => format!(
                "{}: not finished; what is known is that {} does.",
                set_up.name,
                bytes(least.bytes)
            ),
            false => format!(
                "{}: with {} it cannot be told whether {} of slowdown are exceeded.",
                set_up.name,
                undecided.join(" and "),
                percent(search.question.slowdown)
            ),
        }),
        Some(least) if least.unlimited => Some(format!(
            "{}: no limit below {}, what is used without one, was shown to do.",
            set_up.name,
            bytes(least.bytes)
        )),
        Some(_) => None,
    }
}

/// RAM against slowdown, a line for each set-up.
fn plot(search: &SizeSearch) -> Lines {
    let of = match search.question.basis {
        Basis::Group => "RAM of the control group",
        Basis::Machine => "RAM of the machine, store included",
    };
    let mut lines = Lines::new(
        "RAM against time (1 is without a limit; lines end where it does not finish)",
        Axis::new(of, Unit::Bytes),
        Axis::new("time", Unit::Ratio),
    );
    let peak = search.peak_bytes as f64;
    let asked = 1.0 + search.question.slowdown;
    let steps = search.set_ups.iter().flat_map(|it| &it.steps);
    let drawn = steps.filter(|step| step.slowdown.value.is_finite());
    let tops = drawn.clone().map(|step| step.slowdown.value);
    // What is asked and what was measured shall be seen, and not lie flat below what is predicted of far smaller limits.
    let top = tops.fold(1.0 + SHOWN * search.question.slowdown, f64::max);
    let curves = search.prediction.iter().flat_map(|it| &it.curves);
    let predicted = curves.map(|curve| {
        let points = curve.points.iter();
        let points = points.filter(|point| point.slowdown.value <= top);
        let points = points.map(|point| (point.limit_bytes as f64, point.slowdown.value));
        (&curve.set_up, points.collect::<Vec<_>>())
    });
    let predicted: Vec<_> = predicted.filter(|(_, points)| !points.is_empty()).collect();
    let least = drawn.map(|step| step.limit_bytes as f64);
    let least = least.chain(predicted.iter().flat_map(|(_, all)| all).map(|&(at, _)| at));
    let ends = [least.fold(peak, f64::min), peak];
    for set_up in search.set_ups.iter().filter(|it| !it.steps.is_empty()) {
        let mut points: Vec<(f64, Estimate)> = set_up
            .steps
            .iter()
            .filter(|step| step.slowdown.value.is_finite())
            .map(|step| (step.limit_bytes as f64, within_reach(step, top)))
            .collect();
        points.push((peak, Estimate::exact(1.0)));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines = lines.band(&set_up.name, points);
    }
    for (set_up, points) in predicted {
        lines = lines.series(&format!("{set_up}, predicted"), points);
    }
    lines.series(
        &format!("allowed: {}", ratio(asked)),
        ends.map(|at| (at, asked)),
    )
}

/// The interval of a step without infinite ends, which no plot has room for; none where there are too few runs for one.
fn within_reach(step: &Step, top: f64) -> Estimate {
    let all = &step.slowdown;
    if step.verdict == Verdict::Open || !all.low.is_finite() {
        return Estimate::exact(all.value);
    }
    let high = all.high.clamp(all.value, top.max(all.value));
    Estimate::new(all.value, all.low.clamp(0.0, all.value), high)
}

/// Every run in a row.
pub fn runs_table(search: &SizeSearch) -> Table {
    let mut table = Table::new("Runs")
        .column(Column::text("set-up").names_row())
        .column(Column::bytes("limit").names_row())
        .column(Column::text("outcome"))
        .column(Column::number("cost"))
        .column(Column::seconds("elapsed"))
        .column(Column::seconds("system"))
        .column(Column::count("major faults"))
        .column(Column::bytes("in swap"))
        .column(Column::bytes("store"));
    let mut add = |set_up: &str, limit: Cell, run: &SizeRun| {
        let outcome = match &run.outcome {
            RunOutcome::Finished => "finished",
            RunOutcome::OutOfMemory => "out of memory",
            RunOutcome::TimedOut => "timed out",
            RunOutcome::Failed(why) => why,
            RunOutcome::Stopped => "stopped",
        };
        table.row(cells![
            set_up,
            limit,
            outcome,
            run.cost,
            run.elapsed_s,
            run.system_s,
            run.faults_major,
            run.swapped_max_bytes,
            run.store_max_bytes,
        ]);
    };
    for run in &search.unlimited {
        add("no limit", Cell::Empty, run);
    }
    for set_up in &search.set_ups {
        for step in &set_up.steps {
            for run in &step.runs {
                add(&set_up.name, step.limit_bytes.into(), run);
            }
        }
    }
    table
}

/// The result for a terminal or as Markdown.
pub fn document(search: &SizeSearch) -> Document {
    build(search, false)
}

/// The result as a page, with a plot and every limit that was tried.
pub fn page(search: &SizeSearch) -> Document {
    build(search, true)
}

fn facts(search: &SizeSearch) -> String {
    let asked = &search.question;
    let time = search.unlimited_s().map_or(String::new(), |time| {
        format!(" and takes {}", seconds(time))
    });
    let steady = match asked.steady {
        true => ", by the kernel's part of its time and waiting: what it computes itself counts as without a limit",
        false => "",
    };
    let basis = match asked.basis {
        Basis::Group => {
            "RAM is the limit of its control group; the compressed store comes on top of it"
        }
        Basis::Machine => {
            "RAM is what it and the compressed store share; a machine's kernel and other programs come on top of it"
        }
    };
    format!(
        "{}. Without a limit it uses {} ({} of them its own memory, the rest files){time}. It does its job where it \
         takes at most {} more{steady}. {basis}.",
        search.workload,
        bytes(search.peak_bytes),
        bytes(search.footprint_bytes),
        percent(asked.slowdown)
    )
}

fn build(search: &SizeSearch, plots: bool) -> Document {
    let text = answer(search);
    let mut lead = text;
    if search.interrupted {
        lead += " (Stopped by Ctrl-C: this is what was known by then.)";
    } else if search.budget_spent {
        lead += " (The time ran out before every set-up had its answer.)";
    }
    let mut section = Section::new("");
    if search.peak_bytes > 0 {
        section = section.paragraph(facts(search));
    }
    if plots && search.peak_bytes > 0 {
        section = section.plot(plot(search));
    }
    let tried = search.set_ups.iter().any(|it| !it.steps.is_empty());
    if tried || search.prediction.is_none() {
        section = section.table(answers_table(search));
    }
    if let Some(prediction) = &search.prediction {
        section = section.table(predicted_table(prediction));
    }
    let compared = compared(search);
    // Who names limits asks for this.
    if !compared.is_empty() && !plots && !search.question.limits.is_empty() {
        section = section.table(compared_table(&compared));
    }
    if compared.iter().any(|it| it.faults >= FAULTS_TOLD) {
        section = section.paragraph(how_good(&compared));
    }
    for (tone, text) in findings(search) {
        section = section.advice(tone, text);
    }
    let mut document = Document::new("zmeld bench size")
        .lead(lead)
        .section(section);
    if plots {
        document = document.section(Section::new("Limits").table(steps_table(search)));
        if !compared.is_empty() {
            let section = Section::new("The prediction").table(compared_table(&compared));
            document = document.section(section);
        }
    }
    let steps: usize = search.set_ups.iter().map(|it| it.steps.len()).sum();
    let runs: usize = search
        .set_ups
        .iter()
        .flat_map(|it| &it.steps)
        .map(|step| step.runs.len())
        .sum();
    of_machine(document, &search.machine).provenance(
        "runs",
        format!(
            "{runs} with {steps} limits, {} without, seed {}",
            search.unlimited.len(),
            search.seed
        ),
    )
}

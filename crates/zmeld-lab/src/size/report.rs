//! Report of a search for the least RAM.

use zmeld_report::plot::{Axis, Lines};
use zmeld_report::statistics::effect::effect;
use zmeld_report::statistics::sample::noise;
use zmeld_report::units::{bytes, percent, plural, ratio, seconds};
use zmeld_report::{Cell, Column, Document, Estimate, Section, Table, Tone, Unit};

use super::{Basis, Least, SizeRun, SizeSearch, Step, VariantSearch, Verdict};
use crate::experiment::result::unfinished;
use crate::experiment::NEEDED_LEAST;
use crate::measure::HostFacts;

pub fn of_machine(document: Document, machine: &HostFacts) -> Document {
    document
        .provenance(
            "machine",
            format!(
                "{}, {} processors, {}",
                machine.processor,
                machine.processors,
                bytes(machine.ram_bytes)
            ),
        )
        .provenance(
            "kernel",
            format!(
                "{}, control groups v{}",
                machine.kernel, machine.cgroup_version
            ),
        )
}

fn swaps(search: &SizeSearch, of: &VariantSearch) -> bool {
    let mut variants = search.recipe.variants.iter();
    variants.any(|variant| variant.name == of.name && variant.swaps())
}

/// The store that comes on top of a limit.
fn store_above(search: &SizeSearch, least: &Least) -> u64 {
    match search.question.basis {
        Basis::Group => least.store_bytes,
        Basis::Machine => 0,
    }
}

fn with_store(search: &SizeSearch, least: &Least) -> u64 {
    least.bytes + store_above(search, least)
}

/// The RAM with the store. An answer that is as close as was asked for is one figure, any other
/// an interval.
fn amount(least: &Least, store: u64) -> String {
    let most = bytes(least.bytes + store);
    match (least.resolved, least.does_not_bytes) {
        (_, 0) => format!("at most {most}"),
        // Of its use without a limit nobody knows whether less would be enough.
        (true, _) if !least.unlimited => format!("at least {most}"),
        (_, low) => format!("more than {}, at most {most}", bytes(low + store)),
    }
}

fn answer(search: &SizeSearch) -> String {
    let name = &search.recipe.cases[0].name;
    let found = search.variants.iter();
    let mut found: Vec<(bool, &Least, &VariantSearch)> = found
        .filter_map(|it| Some((swaps(search, it), it.least.as_ref()?, it)))
        .collect();
    if found.is_empty() {
        return match search.is_too_small() {
            true => format!(
                "`{name}` needs no more than {} of RAM, the smallest limit that is tried: nothing was \
                 compared.",
                bytes(search.floor_bytes())
            ),
            false => "There is no answer yet: no limit was decided.".to_owned(),
        };
    }
    found.sort_by_key(|&(swaps, least, _)| (!swaps, with_store(search, least)));
    let without = found.iter().find(|it| !it.0).map(|it| it.1);
    let is_no_less = |least: &Least| {
        without.is_some_and(|all| {
            all.resolved && least.resolved && with_store(search, least) >= all.bytes
        })
    };
    let mut parts: Vec<String> = without
        .map(|least| {
            let too_little = match (least.resolved, least.does_not_bytes) {
                (true, low @ 1..) if !least.unlimited => {
                    format!(" ({} is too little)", bytes(low))
                }
                _ => String::new(),
            };
            format!("{} of RAM without swap{too_little}", amount(least, 0))
        })
        .into_iter()
        .collect();
    for (_, least, variant) in found.iter().filter(|it| it.0) {
        let store = store_above(search, least);
        let of_store = match store {
            0 => String::new(),
            store => format!(", {} of it the store", bytes(store)),
        };
        parts.push(match is_no_less(least) {
            true => format!("{} does not lower that", variant.name),
            false => format!("{} with {}{of_store}", amount(least, store), variant.name),
        });
    }
    format!("`{name}` needs {}.", parts.join("; "))
}

fn answers_table(search: &SizeSearch) -> Table {
    let all = || search.variants.iter().filter(|it| it.left_out.is_none());
    let found = all().filter_map(|variant| variant.least.filter(|least| !least.unlimited));
    let best = found.map(|least| with_store(search, &least)).min();
    let best = best.filter(|_| all().count() > 1);
    let mut table = zmeld_report::table!("Least RAM", for variant in all(),
        where {
            let least = variant.least.as_ref();
            let step = least.and_then(|least| variant.step(least.bytes));
        }
        Column::text("variant").names_row() => variant.name.as_str(),
        Column::bytes("least RAM").with_interval() => least.map_or(Cell::Empty, |least| {
            let (low, high) = (least.does_not_bytes, least.bytes);
            match (least.unlimited, low) {
                (true, 0) => Cell::from(format!("at most {}", bytes(high))),
                (true, _) => Cell::from(format!("{} to {}", bytes(low), bytes(high))),
                (false, _) => {
                    Cell::Estimate(Estimate::new(high as f64, low as f64, high as f64))
                }
            }
        }),
        Column::bytes("store") => least.filter(|least| least.store_bytes > 0).map(|it| it.store_bytes),
        Column::bytes("with store") => least.map(|least| with_store(search, least)),
        Column::ratio("time").with_interval() => step.map_or(Cell::Empty, slowdown),
        Column::count("faults") => step.map(|step| step.median_of(|run| run.faults_major as f64)),
        ; strong if least.is_some_and(|least| best == Some(with_store(search, least)))
    );
    let has_store = all().any(|it| it.least.is_some_and(|least| least.store_bytes > 0));
    let store = match has_store {
        true => " the most RAM that compressed pages took, which a control group does not count;",
        false => "",
    };
    let best = match best {
        Some(_) => " Marked (* or bold): the least of all, with its store.",
        None => "",
    };
    let is_unlimited = |least: &Least| least.unlimited;
    let limited = all()
        .filter_map(|it| it.least.as_ref())
        .filter(|it| !is_unlimited(it));
    let unlimited = all().any(|it| it.least.as_ref().is_some_and(is_unlimited));
    let of_limited = "the smallest limit shown to be enough; in brackets, the largest shown to be \
                      too small. The other columns are of runs with that limit:";
    let of_both = "the smallest limit shown to be enough, in brackets the largest shown to be too \
                   small; where none was enough, from the largest that was too small to the use \
                   without a limit. The other columns are of runs with that limit:";
    let what = match (limited.count(), unlimited) {
        (0, true) => {
            let mut table = table.without_empty_columns();
            table.note(
                "Least RAM: up to the use without a limit, since no lower one was shown to be enough.",
            );
            return table;
        }
        (_, true) => of_both,
        (_, false) => of_limited,
    };
    table.note(format!(
        "Least RAM: {what}{store} time over that without a limit; major faults.{best}"
    ));
    table
}

fn slowdown(step: &Step) -> Cell {
    match step.slowdown.value.is_finite() {
        true => Cell::Estimate(step.slowdown),
        false => Cell::Empty,
    }
}

fn steps_table(search: &SizeSearch) -> Table {
    let steps = search.variants.iter().flat_map(|variant| {
        let mut steps: Vec<&Step> = variant.steps.iter().collect();
        steps.sort_by_key(|step| step.limit_bytes);
        steps.into_iter().map(|step| (variant.name.as_str(), step))
    });
    let table = zmeld_report::table!("What was tried", for (variant, step) in steps,
        Column::text("variant").names_row() => variant,
        Column::bytes("limit").names_row() => step.limit_bytes,
        Column::text("enough") => verdict(step.verdict),
        Column::ratio("time").with_interval() => slowdown(step),
        Column::count("faults") => step.median_of(|run| run.faults_major as f64),
        Column::count("runs") => step.runs.len(),
        Column::text("unfinished") => unfinished(step.runs.iter().map(|run| &run.outcome)),
    );
    table.without_empty_columns()
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Open => "not decided yet",
        Verdict::Does => "yes",
        Verdict::DoesNot => "no",
        Verdict::Undecided => "cannot be told",
    }
}

fn findings(search: &SizeSearch) -> Vec<(Tone, String)> {
    let mut all = Vec::new();
    let asked = &search.question;
    let of = |swapping: bool| {
        let fit = search
            .variants
            .iter()
            .filter(move |it| swaps(search, it) == swapping);
        fit.filter_map(|it| Some((it, it.least?)))
    };
    let best = of(true).min_by_key(|(_, least)| with_store(search, least));
    if let (Some((variant, least)), Some((_, without))) = (best, of(false).next()) {
        let needed = with_store(search, &least);
        let of_what = match asked.basis {
            Basis::Group => " with its store",
            Basis::Machine => "",
        };
        let text = match needed < without.does_not_bytes.max(1) {
            true => format!(
                "{} saves {} against no swap: it takes {}{of_what}.",
                variant.name,
                bytes(without.bytes - needed),
                bytes(needed)
            ),
            false => format!(
                "No variant is shown to need less RAM than no swap: {} takes {}{of_what}.",
                variant.name,
                bytes(needed)
            ),
        };
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
    all.extend(doubts(search));
    if let Some(text) = own_time(search) {
        all.push((Tone::Neutral, text));
    }
    all
}

/// Says how much longer the program itself computed with a limit, left out by `--steady`.
fn own_time(search: &SizeSearch) -> Option<String> {
    let of =
        |runs: &mut dyn Iterator<Item = &SizeRun>| runs.map(|run| run.user_s).collect::<Vec<_>>();
    let steps = search.variants.iter().flat_map(|it| &it.steps);
    let with = of(&mut steps.flat_map(Step::finished));
    let without = of(&mut search.lately().iter());
    if !search.question.steady || with.len() < 3 || without.len() < 3 {
        return None;
    }
    let found = effect(&without, &with, 0.95).ratio;
    Some(format!(
        "Left out by --steady: the program itself computed {} times as long ({} to {}) in runs \
         with a limit.",
        ratio(found.value),
        ratio(found.low),
        ratio(found.high)
    ))
}

/// What is not known of a variant that was not left out.
fn doubt(search: &SizeSearch, variant: &VariantSearch) -> Option<String> {
    let undecided = variant.steps.iter();
    let undecided = undecided.filter(|step| step.verdict == Verdict::Undecided);
    let mut undecided: Vec<u64> = undecided.map(|step| step.limit_bytes).collect();
    undecided.sort_unstable();
    let slowdown = percent(search.question.slowdown);
    let open =
        |limits| format!("with {limits} it is undecided whether the slowdown exceeds {slowdown}");
    let doubt = match variant.least {
        None if search.variants.iter().all(|it| it.steps.is_empty()) => return None,
        None if search.budget_spent => "no limit was decided in that time".to_owned(),
        None => "no limit was decided".to_owned(),
        Some(least) if least.resolved && least.unlimited => format!(
            "no limit below {} (its use without one) was shown to be enough",
            bytes(least.bytes)
        ),
        Some(least) if least.resolved => return None,
        Some(least) => match undecided[..] {
            [] => format!("not finished; {} is known to be enough", bytes(least.bytes)),
            [one] => open(bytes(one)),
            [low, .., high] => {
                let all = undecided.len();
                open(format!(
                    "{all} limits from {} to {}",
                    bytes(low),
                    bytes(high)
                ))
            }
        },
    };
    Some(doubt)
}

/// What is not known, and of which variants; and which this machine cannot have.
fn doubts(search: &SizeSearch) -> Vec<(Tone, String)> {
    let mut doubts: Vec<(String, Vec<&str>)> = Vec::new();
    for variant in search.variants.iter().filter(|it| it.left_out.is_none()) {
        let Some(doubt) = doubt(search, variant) else {
            continue;
        };
        match doubts.iter_mut().find(|it| it.0 == doubt) {
            Some((_, names)) => names.push(&variant.name),
            None => doubts.push((doubt, vec![&variant.name])),
        }
    }
    let told = doubts.iter();
    let told = told.map(|(doubt, names)| format!("{}: {doubt}.", names.join(", ")));
    let mut told: Vec<_> = told.map(|text| (Tone::Warning, text)).collect();
    let left_out = search.variants.iter().filter(|it| it.left_out.is_some());
    let left_out: Vec<&str> = left_out.map(|it| it.name.as_str()).collect();
    if !left_out.is_empty() {
        let text = format!(
            "Left out, since this machine cannot have them (--json tells why): {}.",
            left_out.join(", ")
        );
        told.push((Tone::Neutral, text));
    }
    told
}

/// RAM against slowdown, a line for each variant; none where no limit has a time.
fn plot(search: &SizeSearch) -> Option<Lines> {
    let steps = search.variants.iter().flat_map(|it| &it.steps);
    let drawn = steps.filter(|step| step.slowdown.value.is_finite());
    let least = drawn.map(|step| step.limit_bytes).min()? as f64;
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
    let ends = [least.min(peak), peak];
    for variant in search.variants.iter().filter(|it| !it.steps.is_empty()) {
        let mut points: Vec<(f64, Estimate)> = variant
            .steps
            .iter()
            .filter(|step| step.slowdown.value.is_finite())
            .map(|step| (step.limit_bytes as f64, within_reach(step)))
            .collect();
        points.push((peak, Estimate::exact(1.0)));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines = lines.band(&variant.name, points);
    }
    let allowed = format!("allowed: {}", ratio(asked));
    Some(lines.series(&allowed, ends.map(|at| (at, asked))))
}

/// The interval of a step, not to infinity, which no plot has room for; none where there are too few
/// runs for one.
fn within_reach(step: &Step) -> Estimate {
    let all = &step.slowdown;
    if step.verdict == Verdict::Open || !all.low.is_finite() {
        return Estimate::exact(all.value);
    }
    let (low, high) = (
        all.low.clamp(0.0, all.value),
        all.high.clamp(all.value, 1.5 * all.value),
    );
    Estimate::new(all.value, low, high)
}

pub fn runs_table(search: &SizeSearch) -> Table {
    let unlimited = search.unlimited.iter().map(|run| ("no limit", None, run));
    let limited = search.variants.iter().flat_map(|variant| {
        let steps = variant.steps.iter();
        let runs = steps.flat_map(|step| step.runs.iter().map(move |run| (step.limit_bytes, run)));
        runs.map(|(limit, run)| (variant.name.as_str(), Some(limit), run))
    });
    zmeld_report::table!("Runs", for (variant, limit, run) in unlimited.chain(limited),
        Column::text("variant").names_row() => variant,
        Column::bytes("limit").names_row() => limit,
        Column::text("outcome") => run.outcome.words(),
        Column::number("cost") => run.cost,
        Column::seconds("elapsed") => run.elapsed_s,
        Column::seconds("system") => run.system_s,
        Column::count("major faults") => run.faults_major,
        Column::bytes("in swap") => run.swapped_max_bytes,
        Column::bytes("store") => run.store_max_bytes,
    )
}

fn facts(search: &SizeSearch) -> String {
    let asked = &search.question;
    let time = search.unlimited_s().map_or(String::new(), |time| {
        format!(" and takes {}", seconds(time))
    });
    let workload = match search.workload == search.case().name {
        true => String::new(),
        false => format!("{}. ", search.workload),
    };
    let own = match search.footprint_bytes {
        ..=NEEDED_LEAST => String::new(),
        own => format!(
            ", files included ({} of its own were seen at once)",
            bytes(own)
        ),
    };
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
        "{workload}Without a limit it uses {}{own}{time}. A \
         limit is enough if the job takes at most {} longer{steady}. {basis}.",
        bytes(search.peak_bytes),
        percent(asked.slowdown)
    )
}

pub fn document(search: &SizeSearch) -> Document {
    let mut lead = answer(search);
    if search.interrupted {
        lead += " (Stopped by Ctrl-C: this is what was known by then.)";
    } else if search.budget_spent {
        lead += " (The time ran out before every variant had its answer.)";
    }
    let document = of_machine(
        Document::new("zmeld bench size").lead(lead),
        &search.machine,
    );
    if search.is_too_small() {
        return document;
    }
    let mut section = Section::new("");
    if search.peak_bytes > 0 {
        section = section.paragraph(facts(search));
    }
    if let Some(plot) = plot(search) {
        section = section.plot(plot);
    }
    section = section.table(answers_table(search));
    for (tone, text) in findings(search) {
        section = section.advice(tone, text);
    }
    let steps: usize = search.variants.iter().map(|it| it.steps.len()).sum();
    let (unlimited, seed) = (search.unlimited.len(), search.seed);
    let limited = search.progress().0 - unlimited;
    let limits = format!("{steps} limit{}", plural(steps as u64));
    let limits_section = Section::new("Limits").table(steps_table(search));
    document
        .section(section)
        .section(limits_section)
        .provenance(
            "runs",
            format!("{limited} with {limits}, {unlimited} without, seed {seed}"),
        )
}

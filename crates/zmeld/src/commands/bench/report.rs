//! Report of an experiment.

use std::fmt::Write;

use zmeld_lab::experiment::result::{unfinished, CaseFacts, CaseJudgement, Experiment, Run};
use zmeld_lab::recipe::{Metric, PublishedTable};
use zmeld_lab::size::report::of_machine;
use zmeld_lab::variant::Variant;
use zmeld_lab::vm::{GuestClock, GuestFacts};
use zmeld_lab::Recipe;
use zmeld_report::plot::{Axis, Bars, Lines};
use zmeld_report::statistics::sample::median;
use zmeld_report::statistics::verdict::{Judgement, VariantSummary, SIGNIFICANCE};
use zmeld_report::statistics::{Comparison, Direction, Verdict};
use zmeld_report::units::{bytes, percent, plural, ratio};
use zmeld_report::{Cell, Column, Document, Estimate, Section, Table, Tone, Unit};

const READING: &str = "Intervals are at 83.4 %: where those of two variants do not overlap, their medians differ at the 5 % \
                       level. A winner also passes Mann-Whitney's test with Holm's correction for all pairs.";

fn unit(metric: &Metric) -> Unit {
    match metric.name.as_str() {
        name if name.ends_with("_s") && !name.ends_with("per_s") => Unit::Seconds,
        "mb_per_s" => Unit::MbPerSecond,
        name if name.ends_with("_bytes") => Unit::Bytes,
        _ => Unit::Number,
    }
}

fn label(metric: &Metric) -> String {
    match metric.name.as_str() {
        "elapsed_s" => "elapsed".to_owned(),
        "measured_s" => "measured time".to_owned(),
        "mb_per_s" => "speed".to_owned(),
        "memory_mean_bytes" => "memory".to_owned(),
        "taken_mean_bytes" => "memory and store".to_owned(),
        name => name
            .trim_end_matches("_bytes")
            .replace("_per_s", "/s")
            .replace('_', " ")
            .replace("kib/s", "KiB/s"),
    }
}

/// The answer for one case in a sentence.
fn sentence(case: &CaseJudgement, experiment: &Experiment) -> (Tone, String) {
    let judgement = &case.judgement;
    if judgement.variants.iter().all(|it| it.runs == 0) {
        return (Tone::Warning, "No run that counts was made.".to_owned());
    }
    if judgement.void {
        let text = "No memory pressure: this comparison is void. Nothing was swapped and nothing was killed, so \
                    that whatever differs is noise.";
        return (Tone::Warning, text.to_owned());
    }
    let mut text = String::new();
    if let Some(winner) = &judgement.winner {
        let _ = write!(text, "`{winner}` is ahead of every other variant.");
    }
    for summary in judgement.variants.iter().filter(|it| it.unfinished > 0) {
        let _ = write!(
            text,
            " `{}` did not finish {} of {} runs ({}).",
            summary.variant,
            summary.unfinished,
            summary.runs,
            unfinished(
                experiment
                    .counted(&case.case, &summary.variant)
                    .map(|run| &run.outcome)
            )
            .unwrap_or_default()
        );
    }
    if let Some(base) = judgement.variants.first().map(|it| &it.variant) {
        for comparison in judgement.comparisons.iter().filter(|c| c.base == *base) {
            let _ = write!(
                text,
                " {}",
                against(judgement, comparison, experiment.recipe.metric.better)
            );
        }
    }
    for also in &case.also {
        text.push_str(&of_memory(&also.metric, &also.judgement));
    }
    if text.is_empty() {
        text.push_str("Every run finished; there is no other variant to compare with.");
    }
    let tone = if judgement.winner.is_some() {
        Tone::Good
    } else {
        Tone::Neutral
    };
    (tone, text.trim().to_owned())
}

/// Variants that take more or less memory than the first, each in a sentence.
fn of_memory(metric: &Metric, judgement: &Judgement) -> String {
    let base = judgement.variants.first();
    let other = |comparison: &&Comparison| {
        base.is_some_and(|base| comparison.base == base.variant)
            && matches!(comparison.verdict, Verdict::Better(_))
    };
    let of = |name: &str| {
        let found = judgement.variants.iter().find(|it| it.variant == *name);
        found.map_or(String::new(), |it| unit(metric).format(it.median.value))
    };
    let all = judgement.comparisons.iter().filter(other);
    let all = all.filter(|_| unit(metric) == Unit::Bytes);
    all.map(|Comparison { base, variant, .. }| {
        format!(
            " In {}, `{variant}` takes {} and `{base}` {}.",
            label(metric),
            of(variant),
            of(base)
        )
    })
    .collect()
}

/// The answer to the recipe's question, in one sentence.
fn answer(experiment: &Experiment) -> String {
    let cases = experiment.judgements.iter();
    let judged: Vec<&CaseJudgement> = cases
        .filter(|case| case.judgement.variants.iter().any(|it| it.runs > 0))
        .collect();
    let mut clauses: Vec<(String, Vec<&str>)> = Vec::new();
    for case in &judged {
        let judgement = &case.judgement;
        let clause = match (&judgement.winner, &judgement.variants[..]) {
            _ if judgement.void => "nothing was swapped, so nothing can be said,".to_owned(),
            (Some(winner), _) => format!("`{winner}` is ahead of every other variant"),
            (None, [only]) => format!(
                "`{}`, the only variant{}, finished {} of {} runs",
                only.variant,
                match case.baseline {
                    Some(_) => " with a limit",
                    None => "",
                },
                only.runs - only.unfinished,
                only.runs
            ),
            (None, _) => "no variant is shown to be ahead of all others".to_owned(),
        };
        match clauses.iter_mut().find(|(known, _)| *known == clause) {
            Some((_, cases)) => cases.push(&case.case),
            None => clauses.push((clause, vec![&case.case])),
        }
    }
    if clauses.is_empty() {
        return "There is no answer yet: no run that counts was made.".to_owned();
    }
    let parts: Vec<String> = clauses
        .iter()
        .map(|(clause, cases)| match (judged.len(), cases.len()) {
            (1, _) => clause.trim_end_matches(',').to_owned(),
            (all, these) if these == all => format!("{clause} in every case"),
            _ => format!("{clause} in \"{}\"", cases.join("\", \"")),
        })
        .collect();
    format!("Answer: {}.", parts.join("; "))
}

/// Cost of the limit for each variant, held against the variant without one.
fn price(experiment: &Experiment, case: &CaseJudgement) -> Option<String> {
    let metric = &experiment.recipe.metric;
    let baseline = case.baseline.as_ref()?;
    let free = baseline.median.value;
    if baseline.unfinished > 0 || !free.is_finite() || free <= 0.0 {
        return Some(format!(
            "`{}`, without a limit, finished {} of {} runs: the cost of the limit is unknown.",
            baseline.variant,
            baseline.runs - baseline.unfinished,
            baseline.runs
        ));
    }
    let variants: Vec<String> = case
        .judgement
        .variants
        .iter()
        .map(|it| match most_unfinished(it, metric) {
            true => format!("`{}` does not finish most runs", it.variant),
            false => {
                let times = it.median.value / free;
                match metric.better {
                    Direction::Lower => format!("`{}` takes {} of that", it.variant, ratio(times)),
                    Direction::Higher => {
                        format!("`{}` reaches {} of that", it.variant, percent(times))
                    }
                }
            }
        })
        .collect();
    Some(format!(
        "The median is {} ({}) without the limit; with it, {}.",
        unit(metric).format(free),
        label(metric),
        variants.join(", ")
    ))
}

/// The one finishes and the other does not, as far as that is so: the median of a
/// variant is that of a run that did not finish from half of them on.
fn finishes(judgement: &Judgement, by: &str, other: &str) -> String {
    let runs = |name: &str| {
        let summary = judgement.variants.iter().find(|it| it.variant == name);
        summary.map_or((0, 0), |it| (it.runs - it.unfinished, it.runs))
    };
    let ((won, of), (lost, of_lost)) = (runs(by), runs(other));
    if won == of && lost == 0 {
        return format!("`{by}` finishes where `{other}` does not.");
    }
    format!("`{by}` finishes {won} of {of} runs, `{other}` {lost} of {of_lost}.")
}

fn against(judgement: &Judgement, comparison: &Comparison, better: Direction) -> String {
    let Comparison {
        base,
        variant,
        effect,
        p_corrected,
        verdict,
    } = comparison;
    let two = format!("`{variant}` against `{base}`:");
    match verdict {
        Verdict::Void => format!("{two} void, nothing was swapped."),
        Verdict::Emulated => {
            format!("{two} both finish; times of an emulated machine are not compared.")
        }
        Verdict::TooFewRuns => format!("{two} too few runs to say anything."),
        Verdict::NoWinner if *p_corrected <= SIGNIFICANCE => format!(
            "{two} no difference could be shown (p {p_corrected:.2}, but the intervals overlap)."
        ),
        Verdict::NoWinner => format!("{two} no difference could be shown (p {p_corrected:.2})."),
        Verdict::Better(by) => {
            let value = effect.ratio.value;
            if !value.is_finite() || value == 0.0 {
                return finishes(judgement, by, if by == variant { base } else { variant });
            }
            let words = match better {
                Direction::Lower if value < 1.0 => {
                    format!("takes {} less time than", percent(1.0 - value))
                }
                Direction::Lower => format!("takes {} the time of", ratio(value)),
                Direction::Higher => format!("is {} as fast as", ratio(value)),
            };
            format!("`{variant}` {words} `{base}` (p {p_corrected:.3}).")
        }
    }
}

fn median_of(runs: &[&Run], get: impl Fn(&Run) -> f64) -> f64 {
    let values: Vec<f64> = runs.iter().map(|run| get(run)).collect();
    median(&values)
}

fn variants_table(experiment: &Experiment, case: &CaseJudgement) -> Table {
    let metric = &experiment.recipe.metric;
    let mut table = zmeld_report::table!(&case.case, for it in case.baseline.iter().chain(&case.judgement.variants),
        where {
            let runs: Vec<&Run> = experiment.counted(&case.case, &it.variant).collect();
            let swapped = median_of(&runs, |run| run.swapped_max_bytes as f64);
            let store = median_of(&runs, |run| run.store_max_bytes() as f64);
        }
        Column::text("variant") => it.variant.as_str(),
        Column::unit(&label(metric), unit(metric)).with_interval() => value_cell(it, metric),
        Column::text("finished") => format!("{} of {}", it.runs - it.unfinished, it.runs),
        Column::seconds("system") => median_of(&runs, |run| run.ended.usage.system_s),
        Column::count("major faults") => median_of(&runs, |run| run.ended.usage.faults_major as f64),
        Column::bytes("in swap") => swapped,
        Column::bytes("store") => store,
        ; strong if case.judgement.winner.as_deref() == Some(it.variant.as_str())
    );
    if case.judgement.winner.is_some() {
        table.note("Marked (* or bold): the winner.");
    }
    table
}

fn value_cell(summary: &VariantSummary, metric: &Metric) -> Cell {
    // How many did not finish stands in another column.
    match most_unfinished(summary, metric) {
        true => Cell::Empty,
        false => Cell::Estimate(summary.median),
    }
}

/// Whether the median is that of runs that did not finish: no figure.
fn most_unfinished(summary: &VariantSummary, metric: &Metric) -> bool {
    summary.unfinished > 0 && summary.median.value == metric.better.worst()
}

pub fn runs_table(experiment: &Experiment) -> Table {
    zmeld_report::table!("Runs", for run in &experiment.runs,
        where {
            let usage = &run.ended.usage;
        }
        Column::text("case") => run.case.as_str(),
        Column::text("variant").names_row() => run.variant.as_str(),
        Column::count("block").names_row() => run.block,
        Column::text("warm-up") => if run.warm_up { "yes" } else { "no" },
        Column::text("outcome") => run.outcome.words(),
        Column::number("value") => run.value,
        Column::seconds("elapsed") => usage.elapsed_s,
        Column::seconds("user") => usage.user_s,
        Column::seconds("system") => usage.system_s,
        Column::bytes("rss max") => (usage.rss_max_bytes > 0).then_some(usage.rss_max_bytes),
        Column::count("minor faults") => usage.faults_minor,
        Column::count("major faults") => usage.faults_major,
        Column::count("voluntary switches") => usage.switches_voluntary,
        Column::count("involuntary switches") => usage.switches_involuntary,
        Column::count("file inputs") => usage.file_inputs,
        Column::count("file outputs") => usage.file_outputs,
        Column::bytes("in swap") => run.swapped_max_bytes,
        Column::count("swapped in") => run.machine.get("vm_pswpin"),
        Column::count("swapped out") => run.machine.get("vm_pswpout"),
    )
}

fn published(table: &PublishedTable) -> Table {
    let mut out = Table::new(&table.title);
    for column in &table.columns {
        out = out.column(Column::text(column));
    }
    for row in &table.rows {
        out.row(row.iter().map(|cell| Cell::from(cell.as_str())));
    }
    if let Some(note) = &table.note {
        out.note(note.as_str());
    }
    out
}

/// The machine of its own that a case's runs were made on.
fn machine_line(on: &GuestFacts) -> String {
    let way = match (on.emulated, on.user_mode) {
        _ if on.clock == GuestClock::Instructions => {
            "Emulated; its clock counts instructions, a nanosecond each. Compare these figures \
             only with each other."
        }
        (false, _) => "Run by the processor itself (KVM).",
        (true, false) => "Emulated: compare counts, not times.",
        (true, true) => "User-mode Linux, whose faults take longer: compare counts, not times.",
    };
    let processors = match on.processors {
        1 => "one processor".to_owned(),
        several => format!("{several} processors"),
    };
    format!(
        "Each run in a virtual machine of its own, freshly booted: {} of RAM and {} for its own programs, of which its \
         kernel ({}) left {} to all of them; {}. {way}",
        bytes(on.ram_bytes),
        bytes(on.programs_bytes),
        on.kernel,
        bytes(on.visible_bytes),
        processors,
    )
}

fn facts_line(facts: &CaseFacts, counts_store: bool, charges_zswap: bool) -> String {
    let on_top = match charges_zswap {
        true => "the compressed store comes on top of that, zswap's does not",
        false => "the compressed store comes on top of that",
    };
    let limit = match facts.limit_bytes {
        None if facts.on.is_some() => "limited by its machine".to_owned(),
        None => "not limited".to_owned(),
        Some(limit) if counts_store => format!(
            "limited to {} together with the compressed store",
            bytes(limit)
        ),
        Some(limit) => format!(
            "limited to {} ({} of what it needs); {on_top}",
            bytes(limit),
            percent(limit as f64 / facts.footprint_bytes.max(1) as f64)
        ),
    };
    let is_counted = |on: &GuestFacts| on.clock == GuestClock::Instructions;
    let footprint = bytes(facts.footprint_bytes);
    let needs = match facts.footprint_measured {
        true => format!("It needs {footprint} (measured)"),
        // Not measured where it would take hours.
        false if facts.on.as_ref().is_some_and(is_counted) => {
            format!("It needs {footprint} at most")
        }
        false => format!("It needs {footprint} (by its settings)"),
    };
    format!("{}. {needs} and is {limit}.", facts.workload)
}

fn case_section(experiment: &Experiment, case: &CaseJudgement) -> Section {
    let mut section = Section::new(&case.case);
    let recipe = &experiment.recipe;
    let settings = recipe.cases.iter().find(|it| it.name == case.case);
    let facts = experiment.facts(&case.case);
    if let Some(facts) = facts {
        if let Some(why) = &facts.left_out {
            return section.advice(Tone::Warning, format!("This case was left out: {why}"));
        }
        let charges_zswap = experiment.machine.cgroup_version == 2
            && recipe.variants.iter().any(Variant::uses_zswap);
        let counts_store = settings.is_some_and(|it| it.counts_store);
        section = section.paragraph(facts_line(facts, counts_store, charges_zswap));
        if let Some(on) = &facts.on {
            section = section.paragraph(machine_line(on));
        }
    }
    let (tone, text) = sentence(case, experiment);
    section = section.advice(tone, text);
    if let Some(price) = price(experiment, case) {
        section = section.paragraph(price);
    }
    section = section
        .plot(bars(experiment, case))
        .table(variants_table(experiment, case));
    if !case.also.is_empty() {
        section = section.table(metrics_table(experiment, case));
    }
    for skipped in facts.iter().flat_map(|facts| &facts.skipped) {
        let text = format!("`{}` was left out: {}", skipped.variant, skipped.why);
        section = section.advice(Tone::Warning, text);
    }
    series(experiment, case)
        .into_iter()
        .fold(section, Section::plot)
}

/// Every metric of a recipe that has more than one: each variant, and how it stands to the
/// first.
fn metrics_table(experiment: &Experiment, case: &CaseJudgement) -> Table {
    let first = std::iter::once((&experiment.recipe.metric, &case.judgement));
    let also = case.also.iter().map(|it| (&it.metric, &it.judgement));
    let rows = first.chain(also).flat_map(|(metric, judgement)| {
        let variants = judgement.variants.iter();
        variants.map(move |summary| (metric, judgement, summary))
    });
    let mut table = zmeld_report::table!("All metrics", for (metric, judgement, summary) in rows,
        where {
            let base = judgement.variants.first().map(|it| it.variant.as_str());
            let mut all = judgement.comparisons.iter();
            let compared = all.find(|c| Some(&*c.base) == base && c.variant == summary.variant);
            let ratio = compared.map(|it| &it.effect.ratio);
        }
        Column::text("metric") => label(metric),
        Column::text("variant").names_row() => summary.variant.as_str(),
        Column::text("median") => unit(metric).format(summary.median.value),
        Column::text("of the first").key("ratio") => ratio.map_or(String::new(), |it| {
            format!("{:.3} ({:.3} to {:.3})", it.value, it.low, it.high)
        }),
    );
    table.note(
        "Memory is what the group had in RAM in the second half of a run, on average; the store is \
         what compressed devices took. Ratios with 95 % intervals (Hodges and Lehmann's estimate).",
    );
    table
}

fn bars(experiment: &Experiment, case: &CaseJudgement) -> Bars {
    let metric = &experiment.recipe.metric;
    let better = match metric.better {
        Direction::Lower => "less is better",
        Direction::Higher => "more is better",
    };
    let mut bars = Bars::new(
        &format!("{} ({better})", label(metric)),
        &label(metric),
        unit(metric),
    );
    for summary in case.baseline.iter().chain(&case.judgement.variants) {
        let (name, runs) = (&summary.variant, summary.runs);
        let name = match summary.unfinished {
            0 => name.clone(),
            lost => format!("{name} ({lost} of {runs} unfinished)"),
        };
        let value = match most_unfinished(summary, metric) {
            false => summary.median,
            true => Estimate::exact(f64::NAN),
        };
        bars = bars.bar(&name, value);
    }
    bars
}

/// Memory and swap over time, of the middle run of each variant.
fn series(experiment: &Experiment, case: &CaseJudgement) -> Vec<Lines> {
    let variants = case.judgement.variants.iter();
    let runs: Vec<(&str, &Run)> = variants
        .filter_map(|it| {
            let mut runs: Vec<&Run> = experiment.counted(&case.case, &it.variant).collect();
            runs.sort_by(|a, b| a.ended.usage.elapsed_s.total_cmp(&b.ended.usage.elapsed_s));
            Some((it.variant.as_str(), *runs.get(runs.len() / 2)?))
        })
        .collect();
    type Get = fn(&zmeld_lab::measure::Sample) -> u64;
    let plot = |title: &str, get: Get| {
        let time = Axis::new("time", Unit::Seconds).from_zero();
        let lines = Lines::new(title, time, Axis::new("", Unit::Bytes).from_zero());
        runs.iter().fold(lines, |lines, (variant, run)| {
            let samples = run.series.samples.iter();
            lines.series(variant, samples.map(|it| (it.at_s, get(it) as f64)))
        })
    };
    let all: [(&str, Get); 3] = [
        ("Memory of the workload over time", |it| it.memory_bytes),
        ("Its pages in swap, before compression", |it| it.swap_bytes),
        ("RAM taken up by the compressed store", |it| it.store_bytes),
    ];
    let samples = || runs.iter().flat_map(|(_, run)| &run.series.samples);
    let told = all
        .into_iter()
        .filter(|(_, get)| samples().any(|it| get(it) > 0));
    told.map(|(title, get)| plot(title, get)).collect()
}

pub fn document(experiment: &Experiment) -> Document {
    let recipe = &experiment.recipe;
    let machine = &experiment.machine;
    let counted = experiment.runs.iter().filter(|run| !run.warm_up).count();
    let warm_ups = experiment.runs.len() - counted;
    let mut lead = recipe.question.clone();
    if experiment.interrupted {
        lead += " (Stopped by Ctrl-C: what follows is in part.)";
    } else if experiment.budget_spent {
        lead += " (The time ran out before all intervals were narrow.)";
    }
    let mut document = Document::new(&format!("zmeld bench: {}", recipe.name))
        .lead(lead)
        .section(Section::new("").paragraph(answer(experiment)));
    for case in &experiment.judgements {
        document = document.section(case_section(experiment, case));
    }
    if !recipe.published.is_empty() {
        let mut section = Section::new("As published");
        for table in &recipe.published {
            section = section.table(published(table));
        }
        document = document.section(section);
    }
    document = document.section(Section::new("How to read this").paragraph(READING));
    of_machine(document, machine)
        .provenance(
            "runs",
            format!(
                "{counted} that count, {warm_ups} warm-up{}",
                plural(warm_ups as u64)
            ),
        )
        .provenance(
            "order",
            format!("drawn anew for each block, seed {}", experiment.seed),
        )
}

pub fn recipes_table(recipes: &[Recipe]) -> Table {
    zmeld_report::table!("", for recipe in recipes,
        Column::text("recipe") => recipe.name.as_str(),
        Column::text("question") => recipe.question.as_str(),
        Column::text("uses") => recipe.uses().into_iter().collect::<Vec<_>>().join(", "),
        Column::seconds("takes about") => recipe.minutes * 60.0,
    )
}

pub fn recipes(recipes: &[Recipe]) -> Document {
    let told = |recipe: &Recipe| {
        let needs = recipe.uses();
        let needs = needs.iter().map(|need| match &**need {
            "zmeld.ko" => ", zmeld.ko if there".to_owned(),
            need => format!(", {need}"),
        });
        let needs: String = needs.collect();
        (
            recipe.name.clone(),
            format!("{} ({} minutes{needs})", recipe.question, recipe.minutes),
        )
    };
    Document::new("Recipes")
        .lead(
            "To begin with: zmeld bench size -- PROGRAM, for a program of your own that ends by \
             itself; without one, zmeld bench run codecs. An experiment limits a control group of \
             its own, sets up swap, and takes both back when it ends.",
        )
        .section(Section::new("").values(recipes.iter().map(told)).paragraph(
            "Behind each question: how long the recipe takes on a machine with two processors, and \
             what it needs beside root. All run without zmeld.ko; its variants are left \
             out then, and the recipe melding compares nothing. zmeld bench size runs a program some 30 times \
             for each variant of the recipe size; the first run tells how many in all, and how long; \
             --budget TIME ends them sooner.",
        ).paragraph(
            "zmeld bench list RECIPE prints a recipe's file: copy it, change it, and run it by its path.",
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_report::statistics::verdict::{judge, VariantRuns};

    /// Nine runs of a variant, of which so many did not finish.
    fn variant(name: &str, unfinished: usize, base: f64) -> VariantRuns {
        VariantRuns {
            variant: name.to_owned(),
            values: (0..9)
                .map(|run| match run < unfinished {
                    true => f64::INFINITY,
                    false => base + run as f64 / 100.0,
                })
                .collect(),
            unfinished,
            pressure: true,
        }
    }

    #[test]
    fn a_single_variant_is_told_with_its_runs() {
        let mut experiment = Experiment::new(Recipe::load("bt").unwrap(), false, 1);
        experiment.judgements = vec![CaseJudgement {
            case: "short".to_owned(),
            judgement: judge(&[variant("no swap", 9, 9.0)], Direction::Lower, 1),
            baseline: None,
            also: Vec::new(),
        }];
        assert_eq!(
            answer(&experiment),
            "Answer: `no swap`, the only variant, finished 0 of 9 runs."
        );
    }

    /// Judgement of two variants, of whose nine runs so many did not finish.
    fn said(unfinished: [usize; 2]) -> String {
        let variants = [
            variant("disk", unfinished[0], 9.0),
            variant("zram", unfinished[1], 3.0),
        ];
        let judgement = judge(&variants, Direction::Lower, 1);
        against(&judgement, &judgement.comparisons[0], Direction::Lower)
    }

    #[test]
    fn a_variant_finishes_where_the_other_does_not_only_where_that_is_so() {
        assert_eq!(said([9, 0]), "`zram` finishes where `disk` does not.");
        // One run of the one finished, or one of the other did not.
        assert_eq!(said([8, 0]), "`zram` finishes 9 of 9 runs, `disk` 1 of 9.");
        assert_eq!(said([9, 1]), "`zram` finishes 8 of 9 runs, `disk` 0 of 9.");
        // The median of both is that of a run that finished.
        let both = said([1, 0]);
        assert!(!both.contains("finishes"), "{both}");
    }
}

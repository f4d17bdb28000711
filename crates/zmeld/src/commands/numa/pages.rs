//! Results as documents: what `zmeld numa` prints, and its HTML pages.

use zmeld_report::plot::{Axis, Bars, HeatMap, Lines};
use zmeld_report::{Cell, Column, Document, Estimate, Plot, Section, Table, Tone, Unit};

use zmeld_numa::machine::{NumaMachine, PRESETS};
use zmeld_numa::outcome::Outcome;
use zmeld_numa::policy::{PolicyName, ALL};
use zmeld_numa::replicate::{metric, Replications, METRICS};
use zmeld_numa::scenario::Scenario;
use zmeld_numa::statistics::Interval;
use zmeld_numa::study::{self, Measure, Reproduction, StudyPoint, PROBES};
use zmeld_numa::sweep::{PointResult, SweepResults};
use zmeld_numa::time::{to_ms, to_s};
use zmeld_numa::workload::Workload;

/// A document, and its plots for those who want them alone.
#[derive(Debug, Clone)]
pub struct Page {
    /// The document.
    pub document: Document,
    /// Its plots, in order.
    pub plots: Vec<Plot>,
}

impl From<Document> for Page {
    fn from(document: Document) -> Self {
        Self {
            document,
            plots: Vec::new(),
        }
    }
}

fn kept(plots: &mut Vec<Plot>, plot: impl Into<Plot>) -> Plot {
    let plot = plot.into();
    plots.push(plot.clone());
    plot
}

fn estimate(interval: Interval) -> Estimate {
    Estimate::around(interval.value, interval.half_width)
}

fn share(interval: Interval) -> Estimate {
    estimate(interval.scaled(0.01))
}

fn cell(interval: Interval) -> Cell {
    Cell::from(estimate(interval))
}

/// The run time that a process must stay on a node for moving its pages there to pay, in milliseconds, and where
/// that comes from: all its pages' faults, bookkeeping and copies, over what local accesses save of each millisecond
/// of run time, `a r (distance / 10 - 1)`. `None` where nothing is saved.
pub fn break_even_ms(
    machine: &NumaMachine,
    workload: &Workload,
    from: usize,
    to: usize,
) -> Option<f64> {
    let pages = (workload.size_kb.mean() * 1024.0 / machine.page_bytes as f64).ceil();
    let distance = f64::from(machine.slit.distance(to, from)) / 10.0;
    let copy_us = machine.page_bytes as f64 / machine.costs.copy_mb_per_s * distance;
    let page_us =
        machine.costs.pte_us + machine.costs.fault_us + machine.costs.move_page_us + copy_us;
    let saved = workload.access_share * workload.reuse_share * (distance - 1.0);
    (saved > 0.0).then(|| pages * page_us / 1000.0 / saved)
}

/// The presets.
pub fn machines() -> Document {
    let mut table = Table::new("Presets")
        .column(Column::text("name"))
        .column(Column::count("nodes"))
        .column(Column::count("processors"))
        .column(Column::text("distances"))
        .column(Column::nanoseconds("local access"))
        .column(Column::mb_per_s("copy"))
        .column(Column::text("about"));
    for preset in PRESETS {
        let Some(machine) = NumaMachine::preset(preset.name) else {
            continue;
        };
        let levels: Vec<String> = machine
            .slit
            .levels()
            .iter()
            .map(ToString::to_string)
            .collect();
        table.row([
            Cell::from(preset.name),
            Cell::from(machine.nodes() as u64),
            Cell::from(machine.processors_total() as u64),
            Cell::from(format!("10 {}", levels.join(" "))),
            Cell::from(machine.costs.access_ns),
            Cell::from(machine.costs.copy_mb_per_s),
            Cell::from(preset.about),
        ]);
    }
    Document::new("Machines").section(Section::new("").table(table).paragraph(
        "Also `host` (this machine, from `/sys/devices/system/node`), and any file with the output of `numactl -H`.",
    ))
}

/// One machine.
pub fn machine(machine: &NumaMachine) -> Page {
    let mut plots = Vec::new();
    let names: Vec<String> = (0..machine.nodes()).map(|node| node.to_string()).collect();
    let mut heat = HeatMap::new(
        "Distances (10 is local)",
        Unit::Number,
        "from node",
        "to node",
    )
    .columns(names.clone());
    let mut table = Table::new("Nodes")
        .column(Column::text("node"))
        .column(Column::count("processors"));
    table = table
        .column(Column::bytes("memory"))
        .column(Column::text("distances"));
    for (node, name) in names.iter().enumerate() {
        let row = machine.slit.row(node);
        heat = heat.row(name, row.iter().map(|&d| f64::from(d)));
        let memory = machine.memory_pages[node].map(|pages| pages * machine.page_bytes);
        table.row([
            Cell::from(name.as_str()),
            Cell::from(machine.processors[node] as u64),
            memory.map_or_else(|| Cell::from("any"), Cell::from),
            Cell::from(
                row.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        ]);
    }
    let mut section = Section::new("").table(table);
    if machine.nodes() <= 64 {
        section = section.plot(kept(&mut plots, heat));
    }
    let document = Document::new(&machine.to_string())
        .lead(machine.about.as_str())
        .section(section);
    Page { document, plots }
}

/// The policies with their rules and sources.
pub fn policies() -> Document {
    let mut document = Document::new("Policies");
    for about in ALL {
        document = document.section(
            Section::new(about.name.as_str())
                .paragraph(about.rule)
                .paragraph(format!("Source: {}.", about.source)),
        );
    }
    document
}

fn provenance(document: Document, scenario: &Scenario) -> Document {
    document
        .provenance("machine", scenario.case.machine.to_string())
        .provenance("scenario", scenario.name.as_str())
        .provenance("seed", scenario.seed.to_string())
        .provenance("replications", scenario.replications.to_string())
        .provenance("zmeld", env!("CARGO_PKG_VERSION"))
}

/// One replication under one policy, in detail.
pub fn run(scenario: &Scenario, policy: PolicyName, outcome: &Outcome) -> Page {
    let mut plots = Vec::new();
    let case = &scenario.case;
    let nodes = case.machine.nodes();
    let total: u64 = outcome.processes.iter().map(|p| p.ran).sum();
    let mut stalls = Table::new("Time lost by all processes")
        .column(Column::text("to"))
        .column(Column::seconds("time"))
        .column(Column::percent("of run time"));
    let s = outcome.stalls;
    for (name, lost) in [
        ("accesses to other nodes", s.remote),
        ("faults", s.faulting),
        ("copies of own pages", s.copying),
        ("page-table changes", s.scanning),
        ("copies for other processes", s.held_back),
    ] {
        stalls.row([
            Cell::from(name),
            Cell::from(to_s(lost)),
            Cell::from(lost as f64 / total.max(1) as f64),
        ]);
    }
    let mut counters = Table::new("Counters")
        .column(Column::text("counter"))
        .column(Column::count("value"));
    if let Ok(serde_json::Value::Object(all)) = serde_json::to_value(&outcome.counters) {
        for (name, value) in &all {
            if let Some(value) = value.as_u64() {
                counters.row([Cell::from(name.as_str()), Cell::from(value)]);
            }
        }
    }
    counters.note(format!(
        "Process moves: {} by idle processors, {} periodically.",
        outcome.counters.process_moves[0], outcome.counters.process_moves[1]
    ));
    let mut slow: Vec<f64> = outcome.processes.iter().map(|p| p.slowdown()).collect();
    slow.sort_by(f64::total_cmp);
    let at = |q: f64| slow[((slow.len() - 1) as f64 * q).round() as usize];
    let costs = &case.machine.costs;
    let copy_us = case.machine.page_bytes as f64 / costs.copy_mb_per_s;
    let mut values = vec![
        (
            "total time",
            zmeld_report::units::seconds(to_s(outcome.total_time)),
        ),
        (
            "local accesses",
            zmeld_report::units::percent(outcome.local_share()),
        ),
        (
            "slowdown of processes",
            format!("{:.2} median, {:.2} to {:.2}", at(0.5), at(0.0), at(1.0)),
        ),
        (
            "moved",
            zmeld_report::units::bytes(outcome.bytes_migrated()),
        ),
        (
            "balancing cost",
            format!(
                "{} (Cpte {} us, Chint {} us, Ccopy {copy_us:.1} us)",
                zmeld_report::units::seconds(
                    outcome.balancing_cost(costs.pte_us, costs.fault_us, copy_us) / 1e6
                ),
                costs.pte_us,
                costs.fault_us
            ),
        ),
    ];
    if let Some(convergence) = outcome.convergence() {
        values.push(("convergence", zmeld_report::units::percent(convergence)));
    }
    let pairs = (0..nodes)
        .flat_map(|a| (0..nodes).map(move |b| (a, b)))
        .filter(|(a, b)| a != b);
    let stays: Vec<f64> = pairs
        .filter_map(|(a, b)| break_even_ms(&case.machine, &case.workload, a, b))
        .collect();
    if let (Some(least), Some(most)) = (
        stays.iter().copied().min_by(f64::total_cmp),
        stays.iter().copied().max_by(f64::total_cmp),
    ) {
        let text = format!("{least:.2} to {most:.2} ms of run time, by pair of nodes");
        values.push(("break-even residence", text));
    }
    let mut section = Section::new("Result")
        .values(values)
        .table(stalls)
        .table(counters);
    let timeline = &outcome.timeline;
    if timeline.accesses.len() > 1 {
        let points = timeline
            .accesses
            .iter()
            .enumerate()
            .map(|(i, (all, remote))| {
                let local = if *all > 0.0 {
                    1.0 - remote / all
                } else {
                    f64::NAN
                };
                (to_s(timeline.bucket) * (i as f64 + 0.5), local)
            });
        let lines = Lines::new(
            "Local accesses over time",
            Axis::new("time", Unit::Seconds).from_zero(),
            Axis::new("local accesses", Unit::Fraction),
        );
        section = section.plot(kept(&mut plots, lines.series(policy.as_str(), points)));
    }
    if nodes > 1 && nodes <= 32 && !outcome.traffic_refs.is_empty() {
        let names: Vec<String> = (0..nodes).map(|n| n.to_string()).collect();
        let matrix = |title: &str, cells: &[u64], what: &str, to: &str| {
            let mut heat = HeatMap::new(title, Unit::Count, what, to).columns(names.clone());
            for (node, row) in cells.chunks(nodes).enumerate() {
                heat = heat.row(&names[node], row.iter().map(|&count| count as f64));
            }
            heat
        };
        section = section
            .plot(kept(
                &mut plots,
                matrix(
                    "Accesses to resident pages",
                    &outcome.traffic_refs,
                    "processor's node",
                    "page's node",
                ),
            ))
            .plot(kept(
                &mut plots,
                matrix("Pages moved", &outcome.pages_copied, "from node", "to node"),
            ));
    }
    let lead = format!(
        "{} processes under {policy}: {} in all, {} of accesses local.",
        outcome.processes.len(),
        zmeld_report::units::seconds(to_s(outcome.total_time)),
        zmeld_report::units::percent(outcome.local_share())
    );
    let document = provenance(
        Document::new("zmeld numa run").lead(lead).section(section),
        scenario,
    );
    Page { document, plots }
}

/// Which policy suits best, as far as the replications tell: the one whose interval lies above all others', and
/// which is faster than each of them pair by pair.
fn which_suits(
    base: PolicyName,
    gains: &[(PolicyName, Interval)],
    replications: u64,
    is_faster: impl Fn(PolicyName, PolicyName) -> bool,
) -> String {
    let percent = |gain: &Interval| zmeld_report::units::percent(gain.value);
    let mut ranked: Vec<&(PolicyName, Interval)> = gains
        .iter()
        .filter(|(policy, gain)| *policy != base && gain.value > 0.0)
        .collect();
    ranked.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    if replications < 2 {
        let least = ranked.first().map_or(base, |(policy, _)| *policy);
        return format!(
            "With a single replication chance cannot be told from the policy; {least} took least time in it. Give \
             --replications."
        );
    }
    ranked.retain(|(_, gain)| gain.low() > 0.0);
    let Some((best, gain)) = ranked.first().copied() else {
        return format!("No policy is faster than {base} here, beyond what chance explains.");
    };
    let near: Vec<&str> = ranked[1..]
        .iter()
        .filter(|(policy, other)| other.high() >= gain.low() || !is_faster(*best, *policy))
        .map(|(policy, _)| policy.as_str())
        .collect();
    if near.is_empty() {
        return format!("{best} suits best: it saves {} over {base}.", percent(gain));
    }
    format!(
        "{best} and {} are faster than {base}, and which of them is best cannot be told: their intervals overlap ({best} \
         saves {}). More --replications narrow them.",
        near.join(" and "),
        percent(gain)
    )
}

/// Several policies side by side, the first as base.
pub fn compare(scenario: &Scenario, runs: &Replications) -> Document {
    let base = scenario.policies[0];
    let mut table = Table::new("Policies")
        .column(Column::text("policy"))
        .column(Column::seconds("total time").with_interval())
        .column(Column::percent("saved").with_interval())
        .column(Column::ratio("slowdown").with_interval())
        .column(Column::percent("local accesses").with_interval())
        .column(Column::count("pages moved").with_interval())
        .column(Column::count("pages back and forth").with_interval())
        .column(Column::seconds("lost remotely").with_interval());
    let mut gains: Vec<(PolicyName, Interval)> = Vec::new();
    for &policy in &scenario.policies {
        let mean = |name: &str| {
            let interval = metric(name).and_then(|index| runs.mean(policy, index));
            interval.unwrap_or(Interval {
                value: f64::NAN,
                half_width: 0.0,
            })
        };
        let gain = runs.gain(policy, base).unwrap_or(Interval {
            value: f64::NAN,
            half_width: 0.0,
        });
        gains.push((policy, gain));
        table.row([
            Cell::from(policy.as_str()),
            cell(mean("total_ms").scaled(0.001)),
            if policy == base {
                Cell::from("base")
            } else {
                cell(gain)
            },
            cell(mean("slowdown")),
            cell(mean("local_share")),
            cell(mean("numa_pages_migrated")),
            cell(mean("ping_pong_pages")),
            cell(mean("stall_remote_ms").scaled(0.001)),
        ]);
    }
    table.note(
        "Intervals are 95 %. All policies ran the same processes; \"saved\" compares pair by pair.",
    );
    let lead = which_suits(base, &gains, scenario.replications, |one, other| {
        runs.gain(one, other).is_some_and(|gain| gain.low() > 0.0)
    });
    let mut costs =
        Table::new("Where time goes, summed over processes").column(Column::text("policy"));
    let parts = [
        "stall_remote_ms",
        "stall_fault_ms",
        "stall_copy_ms",
        "stall_scan_ms",
        "stall_held_back_ms",
    ];
    for title in ["remote", "faults", "own copies", "page tables", "held back"] {
        costs = costs.column(Column::seconds(title));
    }
    for &policy in &scenario.policies {
        let value = |name: &str| {
            metric(name)
                .and_then(|index| runs.mean(policy, index))
                .map_or(f64::NAN, |i| i.value)
        };
        let mut row = vec![Cell::from(policy.as_str())];
        row.extend(parts.map(|name| Cell::from(value(name) / 1000.0)));
        costs.row(row);
    }
    provenance(Document::new("zmeld numa compare").lead(lead), scenario)
        .section(Section::new("").table(table).table(costs))
}

/// A sweep: one table, and a plot where one axis is of numbers.
pub fn sweep(results: &SweepResults) -> Page {
    let mut plots = Vec::new();
    let mut table = Table::new("Points");
    for axis in &results.axes {
        table = table.column(Column::text(axis).names_row());
    }
    table = table
        .column(Column::text("policy").names_row())
        .column(Column::seconds("total time").with_interval())
        .column(Column::percent("saved").with_interval())
        .column(Column::percent("local accesses").with_interval());
    let local = metric("local_share").unwrap_or(0);
    for point in &results.points {
        for (index, policy) in results.policies.iter().enumerate() {
            let mut row: Vec<Cell> = point
                .values
                .iter()
                .map(|v| Cell::from(zmeld_numa::sweep::shown(v)))
                .collect();
            row.push(Cell::from(policy.as_str()));
            row.push(cell(point.results[index][0].scaled(0.001)));
            row.push(cell(point.gains[index]));
            row.push(cell(point.results[index][local]));
            table.row(row);
        }
    }
    let mut section = Section::new("").table(table);
    for plot in sweep_plots(results) {
        section = section.plot(kept(&mut plots, plot));
    }
    let document = Document::new("zmeld numa sweep")
        .lead(format!(
            "{} points, {} policies.",
            results.points.len(),
            results.policies.len()
        ))
        .section(section)
        .provenance("zmeld", env!("CARGO_PKG_VERSION"));
    Page { document, plots }
}

/// More maps than that, and nobody finds the one of interest.
const MAPS_MAX: usize = 12;

/// What the swept values change: a curve over one axis of numbers, bars over one of words, and for several axes a map
/// over the last two, one for each policy and each combination of the others.
fn sweep_plots(results: &SweepResults) -> Vec<Plot> {
    let number = |value: &toml::Value| value.as_float().or(value.as_integer().map(|i| i as f64));
    // The base saves nothing over itself: alone, its time is what there is to see.
    let alone = results.policies.len() == 1;
    let shown: Vec<usize> = (usize::from(!alone)..results.policies.len()).collect();
    let value = |point: &PointResult, policy: usize| match alone {
        true => point.results[policy][0].scaled(0.001),
        false => point.gains[policy],
    };
    let (title, axis, unit) = match alone {
        true => (
            format!("Total time under {}", results.policies[0]),
            "total time",
            Unit::Seconds,
        ),
        false => (
            format!("Time saved over {}", results.policies[0]),
            "saved",
            Unit::Fraction,
        ),
    };
    match &results.axes[..] {
        [] => Vec::new(),
        [only]
            if results
                .points
                .iter()
                .all(|p| number(&p.values[0]).is_some()) =>
        {
            let mut lines = Lines::new(
                &title,
                Axis::new(only, Unit::Number),
                Axis::new(axis, unit).from_zero(),
            );
            for &policy in &shown {
                let points = results.points.iter().map(|point| {
                    let x = number(&point.values[0]).unwrap_or(f64::NAN);
                    (x, estimate(value(point, policy)))
                });
                lines = lines.band(results.policies[policy].as_str(), points);
            }
            vec![lines.into()]
        }
        [_] => {
            let mut bars = Bars::new(&title, axis, unit);
            if shown.len() > 1 {
                for &policy in &shown {
                    bars = bars.series(results.policies[policy].as_str());
                }
            }
            for point in &results.points {
                let name = zmeld_numa::sweep::shown(&point.values[0]);
                let values: Vec<Estimate> = shown
                    .iter()
                    .map(|&policy| estimate(value(point, policy)))
                    .collect();
                bars = match values[..] {
                    [only] => bars.estimate(&name, only),
                    _ => bars.group(&name, values),
                };
            }
            vec![bars.into()]
        }
        [others @ .., rows, columns] => {
            let mut maps: Vec<Plot> = Vec::new();
            for &policy in &shown {
                let mut combinations: Vec<&[toml::Value]> = Vec::new();
                for point in &results.points {
                    let of = &point.values[..others.len()];
                    if !combinations.contains(&of) {
                        combinations.push(of);
                    }
                }
                for of in combinations {
                    let within: Vec<&PointResult> = results
                        .points
                        .iter()
                        .filter(|point| point.values[..others.len()] == *of)
                        .collect();
                    let named: Vec<String> = others
                        .iter()
                        .zip(of)
                        .map(|(path, value)| {
                            format!(", {path} = {}", zmeld_numa::sweep::shown(value))
                        })
                        .collect();
                    let of_policy = match alone {
                        true => String::new(),
                        false => format!(" by {}", results.policies[policy]),
                    };
                    let title = format!("{title}{of_policy}{}", named.concat());
                    maps.push(map(&title, unit, (rows, columns), &within, |point| {
                        value(point, policy).value
                    }));
                }
            }
            maps.truncate(MAPS_MAX);
            maps
        }
    }
}

/// One map: the last two values of each point say where it stands.
fn map(
    title: &str,
    unit: Unit,
    (rows, columns): (&str, &str),
    points: &[&PointResult],
    value: impl Fn(&PointResult) -> f64,
) -> Plot {
    let at = |point: &PointResult, from_end: usize| {
        zmeld_numa::sweep::shown(&point.values[point.values.len() - from_end])
    };
    let mut names: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    for point in points {
        for (names, from_end) in names.iter_mut().zip([2, 1]) {
            let name = at(point, from_end);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let [row_names, column_names] = names;
    let mut heat = HeatMap::new(title, unit, rows, columns).columns(column_names.clone());
    for row in &row_names {
        let cells = column_names.iter().map(|column| {
            let found = points
                .iter()
                .find(|point| at(point, 2) == *row && at(point, 1) == *column);
            found.map_or(f64::NAN, |point| value(point))
        });
        heat = heat.row(row, cells);
    }
    heat.into()
}

fn verdict(agrees: bool) -> Cell {
    Cell::from(if agrees { "agrees" } else { "disagrees" })
}

fn load_text(point: &StudyPoint) -> String {
    format!(
        "{} x {} KB, {} ms, a {} %, r {} %",
        point.processes,
        point.size_kb,
        point.run_time_ms,
        point.access_percent,
        point.reuse_percent
    )
}

/// The reproduction of the study, for a reader who has not read it.
pub fn reproduction(study: &Reproduction, scenario: &Scenario) -> Page {
    let mut plots = Vec::new();
    let agree = study.claims.iter().filter(|claim| claim.agrees).count();
    let hold = study.shapes.iter().filter(|shape| shape.holds).count();
    let lead = format!(
        "{agree} of {} published numbers and {hold} of {} described shapes come out, with one set of parameters for all.",
        study.claims.len(),
        study.shapes.len()
    );
    let mut document =
        Document::new("Page migration on a NUMA machine: a published study, reproduced").lead(lead);

    document = document.section(
        Section::new("The question")
            .paragraph(
                "A NUMA machine consists of nodes: processors with memory of their own. Every processor can use all memory, but \
                 memory of another node is slower. When Linux moves a process to another node to even out the load, the \
                 process's pages stay behind, and its accesses become slow. Should the pages follow?",
            )
            .list([
                "linux: pages never move. New pages are placed near the processor, old ones stay.",
                "full: the whole address space is copied at the moment the process is moved.",
                "on-demand: at the move all pages are marked not present; each is moved when it is next touched.",
            ])
            .paragraph(
                "The study simulated four nodes of two processors and measured the time until all submitted processes \
                 had ended. A process spends a share a of its run time in memory accesses, and a share r of those goes \
                 to places that it accessed before.",
            ),
    );

    let mut claims = Table::new("Published numbers beside ours")
        .column(Column::text("figure"))
        .column(Column::text("load"))
        .column(Column::text("measure"))
        .column(Column::text("published"))
        .column(Column::percent("ours").with_interval())
        .column(Column::text("near enough"))
        .column(Column::text("verdict"));
    for judged in &study.claims {
        let claim = &judged.claim;
        let published = match claim.wording {
            "" => format!("{} %", claim.published),
            wording if wording.ends_with(char::is_numeric) => format!("{wording} %"),
            wording => format!("{} % ({wording})", claim.published),
        };
        claims.row([
            Cell::from(claim.figure),
            Cell::from(load_text(&claim.point)),
            Cell::from(match claim.measure {
                Measure::OnDemandGain => "on-demand saves",
                Measure::FullLoss => "full takes longer",
            }),
            Cell::from(published),
            Cell::from(share(judged.ours)),
            Cell::from(format!("± {:.1}", claim.tolerance.of(claim.published))),
            verdict(judged.agrees),
        ]);
    }
    claims.note("Load: processes x size, mean run time, share a of it in accesses, share r of those to known places.");
    claims.note("Percent of linux's total time. Intervals are 95 %, from paired replications.");
    let mut section = Section::new("What agrees").table(claims);
    for judged in study.claims.iter().filter(|judged| !judged.agrees) {
        if let Some(why) = explanation(
            study,
            &judged.claim.point,
            judged.claim.measure,
            judged.claim.published,
        ) {
            section = section.advice(Tone::Warning, why);
        }
    }
    let mut shapes = Table::new("Shapes that the text describes")
        .column(Column::text("what must hold"))
        .column(Column::text("evidence"))
        .column(Column::text("verdict"));
    for shape in &study.shapes {
        let verdict = if shape.holds {
            "holds"
        } else {
            "does not hold"
        };
        shapes.row([
            Cell::from(shape.claim.as_str()),
            Cell::from(shape.evidence.as_str()),
            Cell::from(verdict),
        ]);
    }
    document = document.section(section.table(shapes));

    let seconds = |point: &StudyPoint| f64::from(point.run_time_ms) / 1000.0;
    let kilobytes = |point: &StudyPoint| f64::from(point.size_kb);
    let load = |point: &StudyPoint| f64::from(point.processes);
    let all = study::points();
    let base = |p: &StudyPoint| p.access_percent == 60 && p.reuse_percent == 40;
    type Figure<'f> = (
        &'f str,
        &'f str,
        Axis,
        Vec<StudyPoint>,
        &'f dyn Fn(&StudyPoint) -> f64,
    );
    let figures: [Figure<'_>; 3] = [
        (
            "Run time",
            "50 processes of 50 KB, a = 60 %, r = 40 %, mean run time from 500 ms to 100 s. After a move, memory that \
             stayed behind is replaced by new memory near the processor; the longer a process runs on, the less \
             there is left to gain. A move of everything is dear once, and weighs less in a longer run.",
            Axis::new("mean run time", Unit::Seconds).log(),
            all.iter().copied().filter(|p| base(p) && p.processes == 50 && p.size_kb == 50).collect(),
            &seconds,
        ),
        (
            "Size",
            "50 processes of 10 s, a = 60 %, r = 40 %. A larger process takes longer to replace its memory, so more \
             is to be gained by moving it, and a move of everything costs more.",
            Axis::new("size in KB", Unit::Number),
            all.iter().copied().filter(|p| base(p) && p.processes == 50 && p.run_time_ms == 10_000).collect(),
            &kilobytes,
        ),
        (
            "Load",
            "10 to 750 processes of 50 KB and 500 ms, a = 60 %, r = 40 %. The more processes wait in each queue, the less a \
             single one that ends unbalances them, and the fewer are moved.",
            Axis::new("processes", Unit::Count).log(),
            all.iter().copied().filter(|p| base(p) && p.size_kb == 50 && p.run_time_ms == 500).collect(),
            &load,
        ),
    ];
    for (title, text, axis, mut points, x) in figures {
        points.sort_by(|a, b| x(a).total_cmp(&x(b)));
        points.dedup();
        let measured: Vec<_> = points.iter().filter_map(|&p| study.at(p)).collect();
        let points = &points;
        let published = |measure: Measure| {
            let known = study
                .claims
                .iter()
                .filter(move |j| j.claim.measure == measure && points.contains(&j.claim.point));
            let mut known: Vec<(f64, f64)> = known
                .map(|j| (x(&j.claim.point), j.claim.published / 100.0))
                .collect();
            known.sort_by(|a, b| a.0.total_cmp(&b.0));
            known
        };
        let mut gains = Lines::new(
            &format!("{title}: time that on-demand saves over linux"),
            axis.clone(),
            Axis::new("saved", Unit::Fraction).from_zero(),
        )
        .band(
            "on-demand",
            measured
                .iter()
                .map(|m| (x(&m.point), share(m.on_demand_gain))),
        );
        let known = published(Measure::OnDemandGain);
        if !known.is_empty() {
            gains = gains.series("published", known);
        }
        let mut losses = Lines::new(
            &format!("{title}: time that full takes beyond linux"),
            axis,
            Axis::new("longer", Unit::Fraction).from_zero(),
        )
        .band(
            "full",
            measured.iter().map(|m| (x(&m.point), share(m.full_loss))),
        );
        let known = published(Measure::FullLoss);
        if !known.is_empty() {
            losses = losses.series("published", known);
        }
        let mut table = Table::new(&format!("{title}: every point"))
            .column(Column::text(&title.to_lowercase()))
            .column(Column::seconds("linux, total time").with_interval())
            .column(Column::percent("on-demand saves").with_interval())
            .column(Column::percent("full takes longer").with_interval())
            .column(Column::number("moves between nodes"))
            .column(Column::percent("local accesses"));
        for m in &measured {
            table.row([
                Cell::from(match title {
                    "Run time" => format!("{} ms", m.point.run_time_ms),
                    "Size" => format!("{} KB", m.point.size_kb),
                    _ => format!("{} processes", m.point.processes),
                }),
                cell(m.linux_s),
                Cell::from(share(m.on_demand_gain)),
                Cell::from(share(m.full_loss)),
                Cell::from(m.node_moves),
                Cell::from(m.local_share),
            ]);
        }
        document = document.section(
            Section::new(title)
                .paragraph(text)
                .plot(kept(&mut plots, gains))
                .plot(kept(&mut plots, losses))
                .table(table),
        );
    }

    let mut section = Section::new("Access shares").paragraph(
        "Processes of 50 KB and 500 ms. What is gained is what is lost to accesses over distance, so it grows with both shares.",
    );
    for processes in [200, 400] {
        let columns = study::REUSE_PERCENT.map(|r| format!("r = {r} %"));
        let mut heat = HeatMap::new(
            &format!("{processes} processes: time that on-demand saves"),
            Unit::Fraction,
            "share of time in accesses",
            "share of accesses to known places",
        )
        .columns(columns);
        for a in study::ACCESS_PERCENT {
            let row = study::REUSE_PERCENT.map(|r| {
                let point = all.iter().find(|p| {
                    p.processes == processes
                        && p.access_percent == a
                        && p.reuse_percent == r
                        && p.run_time_ms == 500
                });
                point
                    .and_then(|&p| study.at(p))
                    .map_or(f64::NAN, |m| m.on_demand_gain.value / 100.0)
            });
            heat = heat.row(&format!("a = {a} %"), row);
        }
        section = section.plot(kept(&mut plots, heat));
    }
    document = document.section(section);

    let mut free = Table::new("Free parameters")
        .column(Column::text("parameter"))
        .column(Column::text("why it has its value"));
    for parameter in &scenario.free {
        free.row([
            Cell::from(parameter.path.as_str()),
            Cell::from(parameter.reason.as_str()),
        ]);
    }
    let mut section = Section::new("What the study does not say").paragraph(
        "The study does not give these. They were chosen once, for all figures together, from the values that are \
         written beside them in the scenario file; `zmeld numa reproduce --calibrate` repeats the choice.",
    );
    section = section.table(free);
    if !study.sensitivity.is_empty() {
        let mut table =
            Table::new("How far each figure moves, in percentage points, when one parameter moves")
                .column(Column::text("parameter"))
                .column(Column::text("from"))
                .column(Column::text("to"));
        for probe in PROBES {
            table = table.column(Column::text(probe.name));
        }
        for row in &study.sensitivity {
            let mut cells = vec![
                Cell::from(row.path.as_str()),
                Cell::from(row.value.as_str()),
                Cell::from(row.tried.as_str()),
            ];
            cells.extend(
                row.moved
                    .iter()
                    .map(|moved| Cell::from(format!("{moved:+.1}"))),
            );
            table.row(cells);
        }
        table.note(format!(
            "{} replications each, the same processes as without the change; another schedule alone moves figures by a point or two. \
             Numbers move to half and one and a half times their value, as far as their range allows; choices to each other choice.",
            study.sensitivity_replications
        ));
        section = section.table(table);
    }
    Page {
        document: provenance(document.section(section), scenario),
        plots,
    }
}

/// Why a published number does not come out, with the measured evidence.
fn explanation(
    study: &Reproduction,
    point: &StudyPoint,
    measure: Measure,
    published: f64,
) -> Option<String> {
    let ours = study.at(*point)?;
    if measure == Measure::FullLoss && point.processes == 10 {
        let fifty = study.at(StudyPoint {
            processes: 50,
            ..*point
        })?;
        let extra = |m: &study::MeasuredPoint, percent: f64| m.linux_s.value * percent / 100.0;
        return Some(format!(
            "Almost 800 % at 10 processes cannot go together with almost 200 % at 50. Under linux, 10 processes take {:.2} s and \
             50 take {:.2} s, so full would have to lose {:.1} s with 10 processes and only {:.1} s with 50; yet 10 processes \
             are moved between nodes {:.1} times in all, and 50 are moved {:.1} times. Ours loses {:.1} s and {:.1} s.",
            ours.linux_s.value,
            fifty.linux_s.value,
            extra(ours, 800.0),
            extra(fifty, 200.0),
            ours.node_moves,
            fifty.node_moves,
            extra(ours, ours.full_loss.value),
            extra(fifty, fifty.full_loss.value),
        ));
    }
    let twin = study.claims.iter().any(|other| {
        other.claim.point == *point
            && other.claim.measure == measure
            && other.claim.published != published
    });
    twin.then(|| {
        format!(
            "The text gives two values for one point ({}); at most one can agree. Ours is {:.1} %.",
            load_text(point),
            ours.get_measure(measure).value
        )
    })
}

/// What a machine-readable result of one run holds beyond its outcome.
pub fn metrics_of(outcome: &Outcome) -> Vec<(&'static str, f64)> {
    METRICS
        .iter()
        .map(|metric| (metric.name, (metric.of)(outcome)))
        .collect()
}

/// The processes of one run, one row each.
pub fn processes(outcome: &Outcome) -> Table {
    let mut table = Table::new("Processes");
    for name in ["process", "moves", "node_moves", "refs", "remote_refs"] {
        table = table.column(Column::count(name));
    }
    for name in ["arrival_ms", "finish_ms", "ideal_ms", "slowdown"] {
        table = table.column(Column::number(name));
    }
    for (index, p) in outcome.processes.iter().enumerate() {
        let mut row: Vec<Cell> = [
            index as u64,
            p.moves.into(),
            p.node_moves.into(),
            p.refs,
            p.remote_refs,
        ]
        .into_iter()
        .map(Cell::from)
        .collect();
        row.extend(
            [
                to_ms(p.arrival),
                to_ms(p.finish),
                to_ms(p.ideal),
                p.slowdown(),
            ]
            .map(Cell::from),
        );
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_named_only_where_it_stands_alone() {
        use PolicyName::{Full, Linux, OnDemand};
        let gains = |full: (f64, f64), on_demand: (f64, f64)| {
            let of = |(value, half_width)| Interval { value, half_width };
            [
                (Linux, of((0.0, 0.0))),
                (Full, of(full)),
                (OnDemand, of(on_demand)),
            ]
        };
        let said = |gains: &[(PolicyName, Interval)], faster: bool, replications: u64| {
            which_suits(Linux, gains, replications, |_, _| faster)
        };
        let apart = gains((0.05, 0.01), (0.20, 0.02));
        assert_eq!(
            said(&apart, true, 30),
            "on-demand suits best: it saves 20.0 % over linux."
        );
        for (gains, faster) in [(gains((0.17, 0.02), (0.20, 0.02)), true), (apart, false)] {
            let text = said(&gains, faster, 30);
            assert!(
                text.contains("cannot be told") && !text.contains("suits best"),
                "{text}"
            );
        }
        let none = gains((0.01, 0.02), (-0.2, 0.02));
        assert!(said(&none, true, 30).starts_with("No policy is faster than linux"));
        assert!(said(&apart, true, 1).starts_with("With a single replication"));
    }
}

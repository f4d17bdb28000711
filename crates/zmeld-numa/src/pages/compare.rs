//! Several policies side by side.

use crate::policy::PolicyName;
use crate::replicate::Replications;
use crate::scenario::Scenario;
use zmeld_report::statistics::mean::Interval;
use zmeld_report::{Bars, Cell, Column, Document, Section, Table, Unit};

use super::{cell, estimate, load, narrower, provenance, simulated, REPLICATIONS_USUAL};

/// No value: the metric was not measured under this policy.
const UNKNOWN: Interval = Interval {
    value: f64::NAN,
    half_width: 0.0,
};

/// Several policies side by side, the first as base.
pub fn compare(scenario: &Scenario, runs: &Replications) -> Document {
    let base = scenario.policies[0];
    let gain = |policy| (policy, runs.gain(policy, base).unwrap_or(UNKNOWN));
    let gains: Vec<(PolicyName, Interval)> = scenario.policies.iter().copied().map(gain).collect();
    let moves = |policy| runs.mean(policy, "node_moves").unwrap_or(UNKNOWN).value;
    let is_still = scenario.policies.iter().all(|&policy| moves(policy) == 0.0);
    let suits = match is_still && gains[1..].iter().all(|(_, gain)| gain.value == 0.0) {
        true => nothing_moved(scenario),
        false => which_suits(base, &gains, samples(scenario), |one, other| {
            runs.gain(one, other).unwrap_or(UNKNOWN)
        }),
    };
    let precision = precision(&gains[1..], scenario.replications);
    let lead = format!("{} {suits}{precision}", simulated(&load(scenario)));
    let has_intervals = samples(scenario) == Samples::Several;
    let tables = Section::new("")
        .plot(savings(base, &gains, has_intervals))
        .table(policies_table(base, &gains, runs, has_intervals));
    let tables = match at_stake(scenario, runs) {
        Some(words) => tables.paragraph(words),
        None => tables,
    };
    let tables = tables.table(costs_table(scenario, runs));
    let settings = Section::new("On a machine of your own").list([
        "numastat -p PID shows on which nodes a program's memory is: where nearly all is on one, \
         there is nothing to move.",
        "Whether to set kernel.numa_balancing, only your load decides, not this simulation: time it \
         with sysctl kernel.numa_balancing=0 (no-balancing, above) and 1 (autonuma), and bound to a \
         node: numactl --cpunodebind=0 --membind=0 PROGRAM. Linux does not have full and on-demand.",
        "Another machine or load to simulate: --machine host, --set workload.processes=N \
         (docs/numa.md).",
    ]);
    provenance(Document::new("zmeld numa compare").lead(lead), scenario)
        .provenance("replications", scenario.replications.to_string())
        .section(tables)
        .section(settings)
}

/// Above this share of run time, it is said how total time can change by more.
const EXPLAINED_ABOVE: f64 = 0.01;

/// How much of the time memory on other nodes costs under the base, and so how much there is to
/// save. A share of the run time, not of the total time, which the process that ends last decides.
fn at_stake(scenario: &Scenario, runs: &Replications) -> Option<String> {
    let (base, load) = (scenario.policies[0], &scenario.case.workload);
    let remote_ms = runs.mean(base, "stall_remote_ms").unwrap_or(UNKNOWN).value;
    let all_ms = load.processes as f64 * load.run_time_ms.mean() + remote_ms;
    let share = remote_ms / all_ms;
    let explained = match share {
        share if share > EXPLAINED_ABOVE => {
            " \"Saved\" is of total time, which lasts until the last process ends and can change by \
             more, since processes then run in another order."
        }
        share if share > 0.0 => "",
        _ => return None,
    };
    Some(format!(
        "Under {base}, accesses to other nodes cost {} of the processes' run time, and no policy \
         can save more of that run time.{explained}",
        zmeld_report::units::percent(share)
    ))
}

fn nothing_moved(scenario: &Scenario) -> String {
    let case = &scenario.case;
    let (processes, processors) = (case.workload.processes, case.machine.processors_total());
    let run_time = &case.workload.run_time_ms;
    let more = format!("--set workload.processes={}", 4 * processors.max(processes));
    let unequal = format!(
        "--set 'workload.run_time_ms={{mean={},shape=\"exponential\"}}'",
        run_time.mean()
    );
    let (all, which, settings) = match (run_time.is_random(), processes > processors) {
        (true, _) => ("", "With more processes", more),
        (false, true) => (
            " that all run equally long",
            "With unequal run times",
            unequal,
        ),
        (false, false) => (
            " that all run equally long",
            "With more processes and unequal run times",
            format!("{more} {unequal}"),
        ),
    };
    format!(
        "Every policy comes out the same: with {processes} processes{all} on {processors} \
         processors no process was moved to another node, and so no page was. {which} some are \
         ({settings})."
    )
}

/// What a comparison rests on.
#[derive(Clone, Copy, PartialEq)]
enum Samples {
    Exact,
    /// One of many possible runs.
    Single,
    /// Replications.
    Several,
}

fn samples(scenario: &Scenario) -> Samples {
    match (
        scenario.case.workload.is_random(),
        scenario.replications > 1,
    ) {
        (false, _) => Samples::Exact,
        (true, false) => Samples::Single,
        (true, true) => Samples::Several,
    }
}

fn savings(base: PolicyName, gains: &[(PolicyName, Interval)], has_intervals: bool) -> Bars {
    let intervals = match has_intervals {
        true => ", with 95 % intervals",
        false => "",
    };
    let title = format!("Total time saved over {base}{intervals} (more is better)");
    let bars = Bars::new(&title, "share of total time", Unit::Fraction);
    gains[1..].iter().fold(bars, |bars, (policy, gain)| {
        bars.bar(policy.as_str(), estimate(*gain))
    })
}

/// Precision of so many replications, where more would help.
fn precision(gains: &[(PolicyName, Interval)], replications: u64) -> String {
    let widths = gains.iter().map(|(_, gain)| gain.half_width);
    let widest = widths.fold(0.0, f64::max);
    let Some(times) = narrower(replications).filter(|_| widest > TIE) else {
        return String::new();
    };
    format!(
        " With {replications} replications savings are known to ± {:.1} percentage points at worst; \
         with {REPLICATIONS_USUAL} it would be about ± {:.1}.",
        widest * 100.0,
        widest * 100.0 / times
    )
}

fn policies_table(
    base: PolicyName,
    gains: &[(PolicyName, Interval)],
    runs: &Replications,
    has_intervals: bool,
) -> Table {
    let mut table = zmeld_report::table!("Policies", for &(policy, gain) in gains,
        where {
            let mean = |name: &str| runs.mean(policy, name).unwrap_or(UNKNOWN);
        }
        Column::text("policy") => policy.as_str(),
        Column::seconds("total time").with_interval() => cell(mean("total_ms").scaled(0.001)),
        Column::percent("saved").with_interval() => match policy == base {
            true => Cell::from("base"),
            false => cell(gain),
        },
        Column::ratio("slowdown").with_interval() => cell(mean("slowdown")),
        Column::percent("local accesses").with_interval() => cell(mean("local_share")),
        Column::count("pages moved").with_interval() => cell(mean("numa_pages_migrated")),
        Column::count("ping-pong pages").with_interval() => cell(mean("ping_pong_pages")),
    );
    let intervals = match has_intervals {
        true => "Intervals are 95 %. ",
        false => "",
    };
    table.note(format!(
        "{intervals}All policies ran the same processes; \"saved\", of total time, compares pair by pair. \
         Slowdown: the processes' time from submission to end, over that which they take alone with \
         all memory local. Ping-pong pages went back to the node that they had come from."
    ));
    table
}

fn costs_table(scenario: &Scenario, runs: &Replications) -> Table {
    let policies = &scenario.policies;
    let mut table = zmeld_report::table!("Where time goes, summed over processes", for &policy in policies,
        where {
            let lost = |to: &str| {
                let mean = runs.mean(policy, &format!("stall_{to}_ms"));
                mean.unwrap_or(UNKNOWN).value / 1000.0
            };
        }
        Column::text("policy") => policy.as_str(),
        Column::seconds("remote") => lost("remote"),
        Column::seconds("faults") => lost("fault"),
        Column::seconds("own copies") => lost("copy"),
        Column::seconds("page tables") => lost("scan"),
        Column::seconds("others' copies") => lost("held_back"),
    );
    table.note(
        "Remote: what accesses to other nodes take beyond local ones. Own copies, others' copies: \
         a process waits while pages of its own, or of another process, are copied.",
    );
    table
}

/// Policies less than this share of total time apart tie.
const TIE: f64 = 0.001;

/// Which policy is fastest, as far as the runs tell: the one whose interval lies above all others', and which is
/// faster than each of them pair by pair. `gain_over` gives the saving of one policy over another.
fn which_suits(
    base: PolicyName,
    gains: &[(PolicyName, Interval)],
    samples: Samples,
    gain_over: impl Fn(PolicyName, PolicyName) -> Interval,
) -> String {
    let percent = |gain: &Interval| zmeld_report::units::percent(gain.value);
    let mut ranked: Vec<&(PolicyName, Interval)> = gains
        .iter()
        .filter(|(policy, gain)| *policy != base && gain.value > TIE)
        .collect();
    ranked.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let (ground, chance) = match samples {
        Samples::Exact => ("Nothing is random in this load: one run tells all. ", ""),
        Samples::Several => ("", ", beyond what chance explains"),
        Samples::Single => {
            let least = ranked.first().map_or(base, |(policy, _)| *policy);
            return format!(
                "With a single replication chance cannot be told from the policy; {least} took least time in it. \
                 Give --replications."
            );
        }
    };
    ranked.retain(|(_, gain)| gain.low() > TIE);
    let Some((best, gain)) = ranked.first().copied() else {
        return format!("{ground}No policy is faster than {base} here{chance}.");
    };
    let saves = percent(gain);
    let near: Vec<PolicyName> = ranked[1..]
        .iter()
        .filter(|(policy, other)| {
            other.high() >= gain.low() || gain_over(*best, *policy).low() <= TIE
        })
        .map(|(policy, _)| *policy)
        .collect();
    let Some((last, between)) = near.split_last() else {
        return format!("{ground}{best} is fastest: it saves {saves} over {base}.");
    };
    let between: String = between.iter().map(|policy| format!(", {policy}")).collect();
    let is_tied = |policy: &PolicyName| {
        let gain = gain_over(*best, *policy);
        gain.low() >= -TIE && gain.high() <= TIE
    };
    match near.iter().all(is_tied) {
        true => {
            format!("{ground}{best}{between} and {last} tie: each saves {saves} over {base}.")
        }
        false => format!(
            "{best}{between} and {last} are faster than {base}, and which of them is best cannot be told: their \
             intervals overlap ({best} saves {saves})."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioText;
    use zmeld_report::Style;

    #[test]
    fn it_is_said_why_policies_come_out_the_same() {
        let equal = "run_time_ms = 1000\nprocesses = ";
        for (load, words) in [
            (
                "processes = 16",
                "16 processes on 64 processors no process was moved",
            ),
            ("processes = 256", "faster than no-balancing"),
            (
                "processes = 256",
                "of the processes' run time, and no policy can save more of that run time.",
            ),
            (
                "processes = 90\nrun_time_ms = 1000\naccess_share = 0.9\nreuse_share = 0.9",
                "and no policy can save more of that run time. \"Saved\" is of total time, which lasts",
            ),
            ("", "384 processes of 50 KB"),
            (
                &*format!("{equal}16"),
                "With more processes and unequal run times some are (--set workload.processes=256 \
                 --set 'workload.run_time_ms={mean=1000,shape=\"exponential\"}').",
            ),
            (
                &*format!("{equal}256"),
                "256 processes that all run equally long on 64",
            ),
            (
                &*format!("{equal}90"),
                "one run tells all. on-demand and full tie: each saves 8.1 % over no-balancing.",
            ),
        ] {
            let text =
                format!("replications = 3\n[machine]\nfrom = \"two-socket\"\n[workload]\n{load}\n");
            let scenario = ScenarioText::new(text, "a test".into()).unwrap();
            let scenario = scenario.scenario().unwrap();
            let (case, policies) = (&scenario.case, &scenario.policies);
            let runs = Replications::run(case, policies, scenario.seed, scenario.replications);
            let said = compare(&scenario, &runs).to_text(&Style::plain(80));
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn the_best_is_named_only_where_it_stands_alone() {
        use PolicyName::{Full, NoBalancing, OnDemand};
        let gains = |full: (f64, f64), on_demand: (f64, f64)| {
            let of = |(value, half_width)| Interval { value, half_width };
            [
                (NoBalancing, of((0.0, 0.0))),
                (Full, of(full)),
                (OnDemand, of(on_demand)),
            ]
        };
        let said = |gains: &[(PolicyName, Interval)], apart: (f64, f64), samples: Samples| {
            let (value, half_width) = apart;
            which_suits(NoBalancing, gains, samples, |_, _| Interval {
                value,
                half_width,
            })
        };
        let apart = gains((0.05, 0.01), (0.20, 0.02));
        let (faster, open, tied) = ((0.15, 0.02), (0.01, 0.03), (0.0, 0.0005));
        assert_eq!(
            said(&apart, faster, Samples::Several),
            "on-demand is fastest: it saves 20.0 % over no-balancing."
        );
        let near = gains((0.17, 0.02), (0.20, 0.02));
        for (gains, pair) in [(&near, faster), (&apart, open)] {
            let text = said(gains, pair, Samples::Several);
            assert!(
                text.contains("cannot be told") && !text.contains("is fastest"),
                "{text}"
            );
        }
        assert_eq!(
            said(&near, tied, Samples::Several),
            "on-demand and full tie: each saves 20.0 % over no-balancing."
        );
        let none = gains((0.01, 0.02), (-0.2, 0.02));
        assert!(said(&none, faster, Samples::Several)
            .starts_with("No policy is faster than no-balancing"));
        assert!(said(&apart, faster, Samples::Single).starts_with("With a single replication"));
        assert_eq!(
            precision(&apart, 50),
            " With 50 replications savings are known to ± 2.0 percentage points at worst; with 200 \
             it would be about ± 1.0."
        );
        assert_eq!(precision(&apart, 200), "");
        assert_eq!(precision(&gains((0.05, 1e-16), (0.2, 0.0)), 50), "");
    }
}

//! One replication under one policy, in detail.

use crate::outcome::{Counters, Outcome};
use crate::policy::PolicyName;
use crate::scenario::Scenario;
use crate::time::to_s;
use zmeld_report::plot::{Axis, Lines};
use zmeld_report::{units, Column, Document, Plot, Section, Table, Unit};

use super::{load, provenance, simulated};

/// One replication under one policy, in detail; `base` is the same one under no-balancing.
pub fn run(
    scenario: &Scenario,
    policy: PolicyName,
    replication: u64,
    outcome: &Outcome,
    base: &Outcome,
) -> Document {
    let of_base = match policy {
        PolicyName::NoBalancing => String::new(),
        _ => format!(
            " ({:.2} under {})",
            base.slowdown(),
            PolicyName::NoBalancing
        ),
    };
    let mut section = Section::new("Result")
        .values([
            ("moved", units::bytes(outcome.bytes_migrated())),
            (
                "slowdown of processes",
                format!(
                    "all together, {:.2} times as long as alone with all memory local{of_base}; {} of \
                     their time is waiting for a processor",
                    outcome.slowdown(),
                    units::percent(outcome.queued_share())
                ),
            ),
        ])
        .table(stalls(outcome))
        .table(counters(outcome));
    if outcome.timeline.accesses.len() > 1 {
        section = section.plot(local_accesses(policy, outcome));
    }
    let lead = format!(
        "{} This is one run (--number {replication}). {}",
        simulated(&load(scenario)),
        beside_base(scenario, policy, outcome, base)
    );
    let document = Document::new("zmeld numa run").lead(lead).section(section);
    provenance(document, scenario).provenance("replication", replication.to_string())
}

/// Total time beside that without migration.
fn beside_base(
    scenario: &Scenario,
    policy: PolicyName,
    outcome: &Outcome,
    base: &Outcome,
) -> String {
    let took = |outcome: &Outcome| {
        format!(
            "{} in all, with {} of accesses local",
            units::seconds(to_s(outcome.total_time)),
            units::percent(outcome.local_share())
        )
    };
    let took_base = took(base);
    if policy == PolicyName::NoBalancing {
        return format!(
            "Under {policy}, the baseline, it takes {took_base}; zmeld numa compare sets other \
             policies beside it."
        );
    }
    let saved = 1.0 - outcome.total_time as f64 / base.total_time.max(1) as f64;
    let change = match saved {
        saved if saved >= 0.0 => format!("saves {}", units::percent(saved)),
        saved => format!("takes {} longer", units::percent(-saved)),
    };
    let chance = match scenario.case.workload.is_random() {
        true => {
            "The difference of one run is no measure, since a policy changes the order in which \
             processes run: zmeld numa compare --replications 10 with the same options says what is \
             chance."
        }
        false => {
            "Nothing is random in this load, so one run is enough; zmeld numa compare sets all \
             policies side by side."
        }
    };
    format!(
        "Under {policy} it takes {}. Without migration ({}) the same processes take {took_base}: \
         {policy} {change}. {chance}",
        took(outcome),
        PolicyName::NoBalancing
    )
}

fn stalls(outcome: &Outcome) -> Table {
    let total: u64 = outcome.processes.iter().map(|p| p.ran).sum();
    let stalls = outcome.stalls;
    let causes = [
        ("accesses to other nodes", stalls.remote),
        ("faults", stalls.faulting),
        ("copies of own pages", stalls.copying),
        ("page-table changes", stalls.scanning),
        ("copies for other processes", stalls.held_back),
    ];
    zmeld_report::table!("Time lost by all processes", for (name, lost) in causes,
        Column::text("to") => name,
        Column::seconds("time") => to_s(lost),
        Column::percent("of run time") => lost as f64 / total.max(1) as f64,
    )
}

fn counters(outcome: &Outcome) -> Table {
    let all = serde_json::to_value(&outcome.counters).unwrap_or_default();
    let all = all.as_object().into_iter().flatten();
    let numbers = all.filter_map(|(name, value)| Some((name.as_str(), value.as_u64()?)));
    let schema = schemars::schema_for!(Counters);
    let mut table = zmeld_report::table!("Counters", for (name, value) in numbers.filter(|it| it.1 > 0),
        where {
            let meaning = &schema.as_value()["properties"][name]["description"];
        }
        Column::text("counter") => name,
        Column::count("value") => value,
        Column::text("what it counts") => meaning.as_str().unwrap_or_default(),
    );
    table.note(format!(
        "Those that are 0 are left out; --json has all. Process moves: {} by idle processors, {} \
         periodically.",
        outcome.counters.process_moves[0], outcome.counters.process_moves[1]
    ));
    table
}

fn local_accesses(policy: PolicyName, outcome: &Outcome) -> Plot {
    let timeline = &outcome.timeline;
    let buckets = timeline.accesses.iter().enumerate();
    let points = buckets.map(|(i, (all, remote))| {
        let local = match *all > 0.0 {
            true => 1.0 - remote / all,
            false => f64::NAN,
        };
        (to_s(timeline.bucket) * (i as f64 + 0.5), local)
    });
    Lines::new(
        "Local accesses over time",
        Axis::new("time", Unit::Seconds).from_zero(),
        Axis::new("local accesses", Unit::Fraction).from_zero(),
    )
    .series(policy.as_str(), points)
    .into()
}

#[test]
fn each_counter_says_what_it_counts() {
    let schema = schemars::schema_for!(Counters);
    let properties = schema.as_value()["properties"].as_object().unwrap();
    for (name, property) in properties {
        assert!(property["description"].is_string(), "{name}");
    }
}

#[test]
fn a_run_is_told_beside_the_same_one_without_migration() {
    let text = "[machine]\nfrom = \"altix-4x2\"\n[workload]\nprocesses = 40\nrun_time_ms = 1000\n";
    let scenario = crate::scenario::ScenarioText::new(text.into(), "a test".into()).unwrap();
    let scenario = scenario.scenario().unwrap();
    let plans = scenario
        .case
        .workload
        .plans(&scenario.case.machine, scenario.seed, 0);
    let under = |policy| {
        let totals = crate::engine::Recording::TOTALS;
        scenario.case.simulate(policy, &plans, totals)
    };
    let base = under(PolicyName::NoBalancing);
    for (policy, words) in [
        (PolicyName::NoBalancing, "Under no-balancing, the baseline,"),
        (PolicyName::OnDemand, "local: on-demand saves "),
        (PolicyName::Interleave, "local: interleave takes "),
    ] {
        let page = run(&scenario, policy, 0, &under(policy), &base);
        let said = page.to_text(&zmeld_report::Style::plain(80));
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let took = units::seconds(to_s(base.total_time));
        assert!(said.contains(words) && said.contains(&took), "{said}");
    }
}

#[test]
fn the_slowdown_tells_how_much_of_it_is_waiting_for_a_processor() {
    let queued_share = |processes: u32| {
        let text =
            format!("[machine]\nfrom = \"two-socket\"\n[workload]\nprocesses = {processes}\n");
        let scenario = crate::scenario::ScenarioText::new(text, "a test".into()).unwrap();
        let scenario = scenario.scenario().unwrap();
        let case = &scenario.case;
        let plans = case.workload.plans(&case.machine, scenario.seed, 0);
        let totals = crate::engine::Recording::TOTALS;
        case.simulate(PolicyName::NoBalancing, &plans, totals)
            .queued_share()
    };
    let (alone, crowded) = (queued_share(1), queued_share(1024));
    assert!(alone < 0.01 && crowded > 0.5, "{alone} {crowded}");
}

//! One replication under one policy, in detail.

use crate::outcome::{Counters, Outcome};
use crate::policy::PolicyName;
use crate::scenario::Scenario;
use crate::time::to_s;
use zmeld_report::plot::{Axis, Lines};
use zmeld_report::{units, Column, Document, Plot, Section, Table, Unit};

use super::{load, provenance, simulated};

/// One replication under one policy, in detail.
pub fn run(
    scenario: &Scenario,
    policy: PolicyName,
    replication: u64,
    outcome: &Outcome,
) -> Document {
    let mut section = Section::new("Result")
        .values([
            ("moved", units::bytes(outcome.bytes_migrated())),
            (
                "slowdown of processes",
                format!(
                    "{:.2} times as long as alone with all memory local, on average; {} of all \
                     processes' time is waiting for a processor",
                    outcome.mean_slowdown(),
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
        "{} Under {policy} it takes {} in all, with {} of accesses local.",
        simulated(&load(scenario)),
        units::seconds(to_s(outcome.total_time)),
        units::percent(outcome.local_share())
    );
    let document = Document::new("zmeld numa run").lead(lead).section(section);
    provenance(document, scenario).provenance("replication", replication.to_string())
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

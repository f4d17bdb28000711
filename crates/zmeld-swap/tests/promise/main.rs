//! Yes means yes: where `config check`, `plan` and `up --dry-run` find no error, `up` succeeds,
//! a second one does nothing, `status` finds nothing that was not foretold, and `down` leaves the
//! machine as it was. Where they find one, `up` refuses, and nothing has changed.
//!
//! Configurations are made by a grammar from all keys, for a machine that is no-one's: run in a
//! guest, as root, by `guest/promise.sh`. `promise SEED COUNT WORK DRIVE...`: so many from that seed on, with
//! swap files below WORK and drives that may be overwritten. One is made again by its seed alone.

mod grammar;
#[expect(dead_code)]
#[path = "../keys/mod.rs"]
mod keys;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use grammar::Grammar;
use machine::{Machine, Output};

const FILE: &str = "/etc/zmeld.toml";

/// Findings that follow from pages in swap, which no plan foretells: an area of 36 KiB is full with
/// the first nine, and a device at its limit refuses what this test itself swaps out.
const OF_USE: [&str; 3] = ["near-limit", "failed-writes", "pressure"];

/// Results of the configurations.
#[derive(Default)]
struct Count {
    promised: u64,
    refused: u64,
    changed: u64,
    wrong: u64,
    /// Why they were refused, by its words without names and numbers.
    reasons: BTreeMap<String, u64>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seed, count, work, drives @ ..] = &words[..] else {
        // As cargo's tests run it: on a machine that is somebody's.
        println!("SKIP: it takes a machine that is nobody's, see guest/promise.sh");
        return ExitCode::SUCCESS;
    };
    let seed: u64 = seed.parse().expect("a seed");
    let count: u64 = count.parse().expect("a number");
    let machine = Machine::new(work, drives);
    let grammar = Grammar::new(work, &machine.names());
    let mut counts = Count::default();
    for seed in seed..seed + count {
        if let Err(what) = one(seed, &grammar, &machine, &mut counts) {
            counts.wrong += 1;
            println!("# seed {seed}: {}", what.replace('\n', "\n#   "));
            println!("#   {}", machine.configuration().replace('\n', "\n#   "));
        }
        if (seed + 1) % 100 == 0 {
            println!("# up to seed {seed}");
        }
    }
    machine.renew();
    for (reason, count) in &counts.reasons {
        println!("# {count} x {reason}");
    }
    println!(
        "# {} promised, {} of these a change of another, {} refused, {} wrong",
        counts.promised, counts.changed, counts.refused, counts.wrong
    );
    match counts.wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// One machine, one configuration, and sometimes another that takes its place.
fn one(seed: u64, grammar: &Grammar, machine: &Machine, counts: &mut Count) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    machine.renew();
    machine.furnish(&mut random);
    let before = machine.look();
    let mut held = None;
    for turn in 0..2 {
        let text = match turn {
            0 => grammar.file(&mut random),
            _ if random.random_bool(0.3) => {
                if random.random_bool(0.5) {
                    held = machine.hold(random.random_range(4..24));
                }
                grammar.changed(&mut random, &machine.configuration())
            }
            _ => break,
        };
        machine.write(&text);
        let was = machine.look();
        let is_up = judged(machine, &was, counts)?;
        counts.changed += u64::from(is_up && turn == 1);
        if !is_up && turn == 0 {
            break;
        }
    }
    if held.is_some_and(|held| !machine.is_given_back(held)) {
        return Err("what was swapped out did not come back".to_owned());
    }
    let down = machine.zmeld(&["down"]);
    if down.code != 0 {
        return Err(format!("down ended with {down}"));
    }
    same("after down", &before, &machine.look())
}

/// Whether it was set up; and all that was said of it holds.
fn judged(machine: &Machine, was: &str, counts: &mut Count) -> Result<bool, String> {
    let check = machine.zmeld(&["config", "check"]);
    let plan = machine.zmeld(&["plan", "--json", "--no-scan"]);
    let dry = machine.zmeld(&["up", "--dry-run", "--json", "--no-scan"]);
    same("after looking", was, &machine.look())?;
    let up = machine.zmeld(&["up", "--json", "--no-scan"]);
    let is_refused = |it: &Output| it.code > 1;
    if is_refused(&plan) != is_refused(&dry) {
        return Err(format!("plan ended with {plan}\nup --dry-run with {dry}"));
    }
    if !is_refused(&dry) && !is_refused(&check) && up.code != 0 {
        return Err(format!("promised, and up ended with {up}"));
    }
    if dry.code != up.code {
        return Err(format!("up --dry-run ended with {dry}\nup with {up}"));
    }
    if check.code == 2 && up.code == 0 {
        return Err(format!("config check ended with {check}\nand up with 0"));
    }
    if up.code != 0 {
        counts.refused += 1;
        *counts.reasons.entry(reason(&up)).or_default() += 1;
        if check.code == 0 {
            return Err(format!(
                "config check found nothing, and up ended with {up}"
            ));
        }
        return same("after a refusal", was, &machine.look()).map(|()| false);
    }
    counts.promised += 1;
    let again = machine.zmeld(&["up", "--json", "--no-scan"]);
    let json = again.json();
    let is_empty = |key: &str| json[key].as_array().is_some_and(Vec::is_empty);
    if again.code != 0 || !is_empty("applied") || !is_empty("undone") {
        return Err(format!("a second up ended with {again}"));
    }
    let status = machine.zmeld(&["status", "--json"]).json();
    let told = plan.json();
    let of = |key: &str| told[key].as_array().into_iter().flatten();
    let (problems, skipped) = (of("problems"), of("skipped"));
    let findings = status["findings"].as_array();
    let findings = findings.ok_or("status has no findings")?;
    let has_pages = machine.has_pages_in_swap();
    let is_told = |it: &Value| {
        let id = it["id"].as_str().unwrap_or_default();
        // Nobody starts the watch and the guard here.
        let is_meant = it["severity"] == "notice" || id == "no-watch";
        let is_of_use = has_pages && OF_USE.contains(&id);
        // Which codecs there are is told once a device shows them.
        let what = it["what"].as_str().unwrap_or_default();
        let what = what.split(';').next().unwrap_or_default();
        let is_it = |it: &Value| {
            let text = it["text"].as_str().unwrap_or_default();
            it["trap"].as_str() == Some(id) || text.contains(what)
        };
        // A tier that is optional, and not set up.
        let mut skipped = skipped.clone();
        let group = format!("tier.{}", it["subject"].as_str().unwrap_or_default());
        let is_skipped = id == "not-applied" && skipped.any(|it| it["group"] == group.as_str());
        let is_meant = is_meant || is_skipped;
        is_meant || is_of_use || problems.clone().any(is_it) || machine.is_furnished_with(id)
    };
    let untold: Vec<String> = findings
        .iter()
        .filter(|it| !is_told(it))
        .map(Value::to_string)
        .collect();
    match &untold[..] {
        [] => Ok(true),
        some => Err(format!("status finds {}", some.join("\n"))),
    }
}

fn reason(up: &Output) -> String {
    let line = up.said.lines().rfind(|it| it.starts_with("error: "));
    let line = line.unwrap_or(&up.said);
    let plain = line.split_whitespace().filter(|word| {
        let is_name = word.contains(|c: char| c.is_ascii_digit() || "/\"._=:".contains(c));
        !is_name
    });
    let words: Vec<&str> = plain.take(12).collect();
    words.join(" ")
}

fn same(when: &str, expected: &str, found: &str) -> Result<(), String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (expected, found) = (lines(expected), lines(found));
    let differ: Vec<String> = expected
        .difference(&found)
        .map(|it| format!("- {it}"))
        .chain(found.difference(&expected).map(|it| format!("+ {it}")))
        .collect();
    match &differ[..] {
        [] => Ok(()),
        some => Err(format!("{when} the machine differs:\n{}", some.join("\n"))),
    }
}

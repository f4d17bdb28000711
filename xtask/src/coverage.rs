//! `cargo xtask test --coverage`: which lines and branches of `store/core` and
//! `store/zword` the C tests do not reach.
//!
//! gcc counts, gcov tells. The tests run as short as with `--quick`, once as built and once
//! with fingerprints of one bit; what either reaches is reached. docs/testing.md names
//! the functions of which something stays unreached, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;
use serde_json::Value;

use crate::c_build::{self, Flavour};
use crate::c_tests::{self, CTestEnvironment};
use crate::process::Log;
use crate::step::TestScope;
use crate::workspace;

const FLAVOURS: [Flavour; 2] = [Flavour::Coverage, Flavour::CoverageOneBit];

/// A line of a source below `store`.
type Place = (String, u64);

#[derive(Debug, Default, PartialEq)]
struct Count {
    function: String,
    times: u64,
    branches: Vec<u64>,
}

/// The functions of a file of which docs/testing.md says why something is not reached.
type Named = BTreeSet<(String, String)>;

pub fn run(environment: &CTestEnvironment, scope: TestScope, seed: u64) -> Result<ExitCode> {
    let log = Log::named("coverage")?;
    let mut counts = BTreeMap::new();
    for flavour in FLAVOURS {
        run_tests(&log, environment, flavour, scope, seed)?;
        count(&log, flavour, &mut counts)?;
    }
    let text = fs::read_to_string(workspace::root().join("docs/testing.md"))?;
    let unnamed = report(&counts, &named(&text));
    Ok(ExitCode::from(u8::from(unnamed > 0)))
}

/// The flavour that counts in place of the one that a test is compiled in. None: it
/// has limits of zword that are not those of the format, or a test of four bits, which
/// is there in another flavour, too.
fn counting(flavour: Flavour) -> Option<Flavour> {
    match flavour {
        Flavour::OneBit => Some(Flavour::CoverageOneBit),
        Flavour::FourBits | Flavour::Blocks64 | Flavour::Blocks128 | Flavour::Reads64 => None,
        _ => Some(Flavour::Coverage),
    }
}

fn run_tests(
    log: &Log,
    environment: &CTestEnvironment,
    flavour: Flavour,
    scope: TestScope,
    seed: u64,
) -> Result<()> {
    let folder = workspace::work_folder(&format!("c/{}", flavour.name()))?;
    for counts in workspace::files(&folder, "gcda")? {
        fs::remove_file(counts)?;
    }
    let mut done = BTreeSet::new();
    for test in c_tests::tests(scope).filter(|test| counting(test.flavour) == Some(flavour)) {
        // It is about what looks after locks under the sanitizers.
        if test.name == "locks" {
            continue;
        }
        // Few pages reach the lines that many do.
        for arguments in test.arguments(TestScope::Quick, seed) {
            if !done.insert((test.name, arguments.clone())) {
                continue;
            }
            println!("{} {}", test.name, arguments.join(" "));
            let mut command = environment.command(log, flavour, test.name)?;
            log.must(command.args(arguments))?;
        }
    }
    Ok(())
}

/// Adds what gcov tells of the store's objects.
fn count(log: &Log, flavour: Flavour, counts: &mut BTreeMap<Place, Count>) -> Result<()> {
    let folder = workspace::work_folder(&format!("c/{}", flavour.name()))?;
    let mut command = Command::new("gcov");
    command.current_dir(&folder);
    command.args(["--branch-probabilities", "--json-format", "--stdout"]);
    for source in c_build::sources()? {
        command.arg(format!("{}.o", workspace::stem(&source)));
    }
    let said = log.must(&mut command)?;
    for line in said.lines().filter(|line| line.starts_with('{')) {
        // What gcov has to say of an object follows its counts.
        let object = serde_json::Deserializer::from_str(line).into_iter().next();
        if let Some(object) = object {
            add(&object?, counts);
        }
    }
    Ok(())
}

fn add(object: &Value, counts: &mut BTreeMap<Place, Count>) {
    let store = workspace::root().join("store");
    let none = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&none).clone();
    for file in list(&object["files"]) {
        let path = Path::new(file["file"].as_str().unwrap_or_default());
        let Ok(path) = path.strip_prefix(&store) else {
            continue;
        };
        if !path.starts_with("core") && !path.starts_with("zword") {
            continue;
        }
        for line in list(&file["lines"]) {
            let number = line["line_number"].as_u64().unwrap_or_default();
            let place = (path.display().to_string(), number);
            let count = counts.entry(place).or_default();
            count.times += line["count"].as_u64().unwrap_or_default();
            count.function = line["function_name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            for (at, branch) in list(&line["branches"]).iter().enumerate() {
                if at == count.branches.len() {
                    count.branches.push(0);
                }
                count.branches[at] += branch["count"].as_u64().unwrap_or_default();
            }
        }
    }
}

/// Rows such as "| `core/check.c` | `one`, `other` | why |".
fn named(text: &str) -> Named {
    let mut named = Named::new();
    for line in text.lines() {
        let mut cells = line.split('|').skip(1).map(|cell| cell.trim());
        let (Some(file), Some(functions)) = (cells.next(), cells.next()) else {
            continue;
        };
        for function in functions.split(',').map(|name| name.trim()) {
            let word = |text: &str| text.trim_matches('`').to_owned();
            if file.starts_with('`') && function.starts_with('`') {
                named.insert((word(file), word(function)));
            }
        }
    }
    named
}

fn unreached(count: &Count) -> Option<String> {
    if count.times == 0 {
        return Some("not reached".to_owned());
    }
    let missing = count.branches.iter().filter(|times| **times == 0).count();
    (missing > 0).then(|| format!("{missing} of {} branches not", count.branches.len()))
}

/// Prints what is not reached and not named, then sums; how many places these are.
fn report(counts: &BTreeMap<Place, Count>, named: &Named) -> usize {
    let mut unnamed = 0;
    let (mut lines, mut branches) = ([0, 0], [0, 0]);
    for ((file, number), count) in counts {
        lines[0] += 1;
        lines[1] += usize::from(count.times > 0);
        branches[0] += count.branches.len();
        branches[1] += count.branches.iter().filter(|times| **times > 0).count();
        let Some(what) = unreached(count) else {
            continue;
        };
        if named.contains(&(file.clone(), count.function.clone())) {
            continue;
        }
        unnamed += 1;
        let path = workspace::root().join("store").join(file);
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().nth(*number as usize - 1).unwrap_or_default();
        println!(
            "store/{file}:{number}: {}: {what}: {}",
            count.function,
            line.trim()
        );
    }
    println!(
        "{} of {} lines and {} of {} branches are reached; not named with a reason: {unnamed} lines",
        lines[1], lines[0], branches[1], branches[0]
    );
    unnamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_of_a_line_add_up_over_objects() {
        let path = workspace::root().join("store/core/share.h");
        let object = |times: u64, branches: [u64; 2]| {
            let branches = branches.map(|count| json!({ "count": count }));
            json!({ "files": [
                { "file": path, "lines": [{
                    "line_number": 7, "count": times, "function_name": "f",
                    "branches": branches,
                }] },
                { "file": "/usr/include/x.h", "lines": [{ "line_number": 1 }] },
            ] })
        };
        let mut counts = BTreeMap::new();
        add(&object(1, [1, 0]), &mut counts);
        let place = ("core/share.h".to_owned(), 7);
        assert_eq!(
            unreached(&counts[&place]).as_deref(),
            Some("1 of 2 branches not")
        );
        add(&object(2, [0, 2]), &mut counts);
        assert_eq!(counts.len(), 1);
        assert_eq!(counts[&place].times, 3);
        assert_eq!(unreached(&counts[&place]), None);
    }

    #[test]
    fn functions_are_named_in_a_table() {
        let text = "| file | functions |\n|---|---|\n| `core/a.c` | `one`, `other` | why |\n";
        let named = named(text);
        assert_eq!(named.len(), 2);
        assert!(named.contains(&("core/a.c".to_owned(), "other".to_owned())));
        let lost = Count {
            function: "one".to_owned(),
            ..Count::default()
        };
        let counts = BTreeMap::from([(("core/a.c".to_owned(), 3), lost)]);
        assert_eq!(report(&counts, &named), 0);
        assert_eq!(report(&counts, &Named::new()), 1);
    }
}

//! docs/json.md against what the commands print: every field that is printed is
//! documented with its type, and every documented one is printed or may be absent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use crate::run::*;

/// A table of fields: name and type.
type Fields = Vec<(String, String)>;

struct Documented {
    /// Schema and, where one schema has several, the value of `command`.
    schemas: BTreeMap<(String, Option<String>), String>,
    types: BTreeMap<String, Fields>,
}

fn documented() -> &'static Documented {
    static ALL: OnceLock<Documented> = OnceLock::new();
    ALL.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        read(&std::fs::read_to_string(path).unwrap())
    })
}

fn read(text: &str) -> Documented {
    let mut all = Documented {
        schemas: BTreeMap::new(),
        types: BTreeMap::new(),
    };
    let mut section = String::new();
    for line in text.lines() {
        let code: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        if line.starts_with("## ") {
            section = code.first().unwrap_or(&"").to_string();
        } else if line.starts_with("| `zmeld.") {
            let command = line.contains("`command` is").then(|| code[code.len() - 2]);
            let key = (code[0].to_owned(), command.map(str::to_owned));
            let name = code[code.len() - 1].to_owned();
            assert!(all.schemas.insert(key, name).is_none(), "{line}");
        } else if line.starts_with("| `") {
            let field = (code[0].to_owned(), code[1].to_owned());
            all.types.entry(section.clone()).or_default().push(field);
        }
    }
    assert!(
        all.schemas.len() > 15 && all.types.len() > 60,
        "it was not understood"
    );
    all
}

/// Checks a result against its schema and says which types were seen.
pub fn check(value: &Value) -> BTreeSet<String> {
    let all = documented();
    let schema = value["schema"].as_str().expect("a schema").to_owned();
    let command = value
        .get("command")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let name = [command, None]
        .into_iter()
        .find_map(|command| all.schemas.get(&(schema.clone(), command)))
        .unwrap_or_else(|| panic!("docs/json.md has no {schema}"));
    let mut body = value.clone();
    let map = body.as_object_mut().unwrap();
    map.remove("schema");
    assert!(map
        .remove("zmeld_version")
        .is_some_and(|version| version.is_string()));
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    compare(&body, name, &schema, &mut seen, &mut wrong);
    wrong.sort();
    wrong.dedup();
    assert!(
        wrong.is_empty(),
        "docs/json.md and the program differ:\n{}",
        wrong.join("\n")
    );
    seen
}

fn compare(
    value: &Value,
    kind: &str,
    at: &str,
    seen: &mut BTreeSet<String>,
    wrong: &mut Vec<String>,
) {
    let inner = |open, close| kind.strip_prefix(open)?.strip_suffix(close);
    if let Some(kind) = kind.strip_suffix(" or null") {
        if !value.is_null() {
            compare(value, kind, at, seen, wrong);
        }
        return;
    }
    let fits = match kind {
        "any" => true,
        "text" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number() || value.is_null(),
        "number or text" => value.is_number() || value.is_string() || value.is_null(),
        _ => {
            if let Some(kind) = inner('[', ']') {
                let at = format!("{at}[]");
                match value.as_array() {
                    Some(all) => all
                        .iter()
                        .for_each(|it| compare(it, kind, &at, seen, wrong)),
                    None => wrong.push(format!("{at}: no list: {value}")),
                }
            } else if let Some(kind) = inner('{', '}') {
                let at = format!("{at}.*");
                match value.as_object() {
                    Some(all) => all
                        .values()
                        .for_each(|it| compare(it, kind, &at, seen, wrong)),
                    None => wrong.push(format!("{at}: no object: {value}")),
                }
            } else {
                table(value, kind, at, seen, wrong);
            }
            return;
        }
    };
    if !fits {
        wrong.push(format!("{at}: {value} is no {kind}"));
    }
}

fn table(
    value: &Value,
    kind: &str,
    at: &str,
    seen: &mut BTreeSet<String>,
    wrong: &mut Vec<String>,
) {
    let Some(fields) = documented().types.get(kind) else {
        wrong.push(format!("{at}: there is no table {kind}"));
        return;
    };
    let Some(object) = value.as_object() else {
        wrong.push(format!("{at}: {value} is no {kind}"));
        return;
    };
    seen.insert(kind.to_owned());
    for name in object.keys() {
        if !fields.iter().any(|(field, _)| field == name) {
            wrong.push(format!("{kind}.{name} is not documented"));
        }
    }
    for (field, kind_of_field) in fields {
        let needed = kind_of_field.strip_suffix('?');
        match (object.get(field), needed) {
            (Some(value), optional) => {
                let kind = optional.unwrap_or(kind_of_field);
                compare(value, kind, &format!("{at}.{field}"), seen, wrong);
            }
            (None, Some(_)) => {}
            (None, None) => wrong.push(format!("{kind}.{field} is documented and not printed")),
        }
    }
}

#[test]
fn what_is_printed_is_what_is_documented() {
    let folder = folder();
    let pages = write(folder.path(), "pages", &known_pages().bytes);
    let config = write(
        folder.path(),
        "zmeld.toml",
        b"accept = [\"no-memory-limit\"]\n[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n",
    );
    let trap = write(
        folder.path(),
        "trap.toml",
        b"[tier.fast]\nkind = \"zram\"\nsize = \"100%\"\n",
    );
    // The published study with few processes takes a second.
    let study = text(&run(&["numa", "reproduce", "--print-scenario"]).stdout);
    assert!(study.contains("\nprocesses = 50\n"), "{study}");
    let study = study.replace("\nprocesses = 50\n", "\nprocesses = 4\n");
    let study = write(folder.path(), "study.toml", study.as_bytes());
    let study = ["--scenario", str(&study), "--replications", "2"];
    let reproduce = [&["numa", "reproduce", "--sensitivity", "1"][..], &study].concat();
    let calibrate = [&["numa", "reproduce", "--calibrate", "1"][..], &study].concat();
    let results = folder.path().join("sweep.jsonl");
    let few = ["--set", "workload.processes=8", "--replications", "2"];
    let numa = |command: &'static str, more: &[&'static str]| -> Vec<&'static str> {
        let mut args = vec!["numa", command];
        args.extend(more);
        args
    };
    let mut sweep = numa("sweep", &few);
    sweep.extend(["--over", "workload.size_kb=50,100", "--results"]);
    let mut sweep: Vec<&str> = sweep;
    sweep.push(str(&results));
    let mut seen = BTreeSet::new();
    for args in [
        vec!["scan", "--file", str(&pages)],
        vec!["scan", "--file", str(&pages), "--full"],
        vec!["codecs", str(&pages)],
        vec!["plan", "--no-scan"],
        vec!["plan", "--no-scan", "--config", str(&config)],
        vec!["plan", "--no-scan", "--config", str(&trap)],
        vec!["status"],
        vec!["config", "show", str(&config)],
        vec!["bench", "list"],
        numa("compare", &few),
        numa("run", &["--set", "workload.processes=8"]),
        numa("machines", &[]),
        numa("policies", &[]),
        reproduce,
        calibrate,
        sweep,
    ] {
        let mut args = args;
        args.push("--json");
        let output = zmeld(&args).output().unwrap();
        // What else swaps here may be in the way of a plan, which up would refuse.
        let is_plan = args[0] == "plan" && code(&output) == 2;
        let said = text(&output.stderr);
        assert!(is_plan || code(&output) == 0, "{args:?}: {said}");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        seen.append(&mut check(&value));
    }
    for kind in [
        "ScanResult",
        "Report",
        "PlanBody",
        "PlanProblem",
        "NumaReproduce",
        "NumaCalibrate",
        "Status",
        "Shown",
        "Recipes",
        "PointResult",
    ] {
        assert!(seen.contains(kind), "{kind} was not seen in {seen:?}");
    }
}

#[test]
fn every_table_belongs_to_a_schema() {
    let all = documented();
    let mut reached: BTreeSet<&str> = all.schemas.values().map(String::as_str).collect();
    let mut open: Vec<&str> = reached.iter().copied().collect();
    while let Some(kind) = open.pop() {
        let fields = all
            .types
            .get(kind)
            .unwrap_or_else(|| panic!("no table {kind}"));
        for (_, kind) in fields {
            for word in kind.split(|c: char| !c.is_alphanumeric()) {
                if all.types.contains_key(word) && reached.insert(word) {
                    open.push(word);
                }
            }
        }
    }
    let lost: Vec<&String> = all
        .types
        .keys()
        .filter(|kind| !reached.contains(kind.as_str()))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

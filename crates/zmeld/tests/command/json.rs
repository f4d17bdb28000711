//! Output of the commands against `zmeld schema`: every result fits its schema, and has no field
//! that the schema does not name.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{json, Value};

use crate::run::*;

/// The commands that print JSON, by the value of `schema`.
fn commands() -> &'static BTreeMap<String, Vec<String>> {
    static ALL: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in text(&run(&["schema"]).stdout).lines() {
            let (command, schema) = line.rsplit_once(' ').expect("two columns");
            let commands = all.entry(schema.to_owned()).or_default();
            commands.push(command.trim().to_owned());
        }
        all
    })
}

pub fn check(value: &Value) {
    let schema = value["schema"].as_str().expect("a schema");
    let all = &commands()[schema];
    let command = match value.get("command").and_then(Value::as_str) {
        Some(word) => all.iter().find(|it| it.ends_with(word)),
        None => all.first(),
    };
    let command = command.unwrap_or_else(|| panic!("{schema} is not among {all:?}"));
    let mut schema = json(&[&["schema"][..], &command.split(' ').collect::<Vec<_>>()].concat());
    // Links of the manual lead nowhere from there.
    assert!(!schema.to_string().contains("]("), "{command}");
    close(&mut schema);
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let wrong: Vec<String> = validator
        .iter_errors(value)
        .map(|it| format!("{}: {it}", it.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{command}: {}", wrong.join("\n"));
}

/// Refuses fields that the schema does not name, wherever it stands for a value. Its parts stay
/// open: none of them has all fields.
fn close(schema: &mut Value) {
    open(schema);
    let Value::Object(words) = schema else { return };
    let has_fields = |word: &&str| words.contains_key(*word);
    if ["properties", "$ref", "oneOf", "anyOf"]
        .iter()
        .any(has_fields)
    {
        words.insert("unevaluatedProperties".into(), json!(false));
    }
}

fn open(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    for (word, part) in words {
        match (word.as_str(), part) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(close),
            ("$defs", Value::Object(types)) => types.values_mut().for_each(open),
            ("oneOf" | "anyOf" | "allOf", Value::Array(parts)) => parts.iter_mut().for_each(open),
            ("prefixItems", Value::Array(parts)) => parts.iter_mut().for_each(close),
            ("items" | "additionalProperties", part) => close(part),
            _ => {}
        }
    }
}

#[test]
fn what_is_printed_fits_its_schema() {
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
    let reproduce = [&["numa", "reproduce"][..], &study].concat();
    let few = ["--set", "workload.processes=8", "--replications", "2"];
    let numa = |command: &'static str, more: &[&'static str]| -> Vec<&'static str> {
        let mut args = vec!["numa", command];
        args.extend(more);
        args
    };
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
    ] {
        let mut args = args;
        args.push("--json");
        let output = zmeld(&args).output().unwrap();
        // Other swap here may be in the way of a plan, which up would refuse.
        let is_plan = args[0] == "plan" && code(&output) == 2;
        let said = text(&output.stderr);
        assert!(is_plan || code(&output) == 0, "{args:?}: {said}");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        check(&value);
        let text = value.to_string();
        let measured = text.split_once("set /proc/sys/vm/swappiness to ");
        if let Some((_, measured)) = measured.filter(|_| text.contains("swappiness = \\\"auto")) {
            let number = measured.split('"').next().unwrap();
            let said = format!("# auto: {number} here\nswappiness = \"auto\"");
            assert!(value["toml"].as_str().unwrap().contains(&said), "{value:#}");
        }
    }
}

#[test]
fn every_field_of_every_schema_is_described() {
    for command in commands().values().flatten() {
        let words: Vec<&str> = command.split(' ').collect();
        let schema = json(&[&["schema"][..], &words].concat());
        let mut without = Vec::new();
        look(&schema, command, false, &mut without);
        assert!(without.is_empty(), "{without:#?}");
    }
}

/// The fields without a description. A variant describes its contents.
fn look(schema: &Value, at: &str, is_variant: bool, without: &mut Vec<String>) {
    let Value::Object(words) = schema else { return };
    let is_told = is_variant && words.contains_key("description");
    for (word, part) in words {
        for (name, field) in part.as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            let has = |word| field.get(word).is_some();
            if word == "properties" && !is_told && !has("description") && !has("const") {
                without.push(at.clone());
            }
            look(field, &at, false, without);
        }
        for part in part.as_array().into_iter().flatten() {
            look(part, at, word == "oneOf", without);
        }
    }
}

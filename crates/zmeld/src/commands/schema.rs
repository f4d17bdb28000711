//! `zmeld schema`: what `--json` prints, as JSON Schema. The schemas come from the types
//! that are printed.

use anyhow::bail;
use clap::Args;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{json, Value};
use zmeld_lab::experiment::result::Experiment;
use zmeld_lab::size::SizeSearch;
use zmeld_scan::ScanResult;

use super::{bench, numa};
use crate::exit::Outcome;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zmeld schema                      the commands that print JSON
  zmeld schema status               the schema of zmeld status --json
  zmeld schema bench run > run.schema.json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SchemaArgs {
    /// The command, such as status or bench run [default: list them]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A command's output: its words, the value of its `schema`, and the schema itself.
type Printed = (&'static str, &'static str, fn() -> Schema);

const PRINTED: &[Printed] = &[
    ("scan", "zmeld.scan/3", of::<ScanResult>),
    (
        "scan survey",
        "zmeld.survey.result/1",
        of::<zmeld_scan::survey::report::SurveyResult>,
    ),
    ("codecs", "zmeld.codecs/1", of::<super::codecs::Report>),
    ("plan", "zmeld.plan/1", of::<super::setup::PlanBody>),
    ("up", "zmeld.up/1", of::<super::setup::RunBody>),
    ("down", "zmeld.down/1", of::<super::setup::RunBody>),
    ("status", "zmeld.status/2", of::<zmeld_swap::status::Status>),
    ("config show", "zmeld.config/1", of::<super::config::Shown>),
    ("meld", "zmeld.meld/1", of::<super::meld::PassBody>),
    ("bench run", "zmeld.bench/2", of::<Experiment>),
    ("bench size", "zmeld.bench.size/2", of::<SizeSearch>),
    ("bench list", "zmeld.bench.recipes/2", of::<bench::Recipes>),
    ("numa run", "zmeld.numa/3", of::<numa::RunBody>),
    ("numa compare", "zmeld.numa/3", of::<numa::CompareBody>),
    ("numa reproduce", "zmeld.numa/3", of::<numa::ReproduceBody>),
    ("numa machines", "zmeld.numa/3", of::<numa::MachinesBody>),
    ("numa policies", "zmeld.numa/3", of::<numa::PoliciesBody>),
];

/// Prints a schema, or the commands that have one.
pub fn run(args: &SchemaArgs) -> anyhow::Result<Outcome> {
    let wanted = args.command.join(" ");
    if wanted.is_empty() {
        for (command, name, _) in PRINTED {
            output::print(&format!("{command:<28}{name}\n"))?;
        }
        return Ok(Outcome::Done);
    }
    let Some(printed) = PRINTED.iter().find(|(command, ..)| *command == wanted) else {
        let all = PRINTED.iter().map(|it| it.0);
        let begin: Vec<_> = all.filter(|it| it.starts_with(&wanted)).collect();
        let there = match begin[..] {
            [] => "zmeld schema lists the commands that do".to_owned(),
            _ => format!("there are: {}", begin.join(", ")),
        };
        bail!("{wanted:?} prints no JSON; {there}");
    };
    let text = serde_json::to_string_pretty(&schema(printed))?;
    output::print(&format!("{text}\n"))?;
    Ok(Outcome::Done)
}

fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

/// The body's schema with the fields of its envelope.
fn schema((_, name, of): &Printed) -> Schema {
    let mut schema = of();
    RecursiveTransform(finish).transform(&mut schema);
    schema.insert("title".into(), json!(name));
    let envelope = [
        (
            "schema",
            json!({ "description": "This schema and its version.", "const": name }),
        ),
        (
            "zmeld_version",
            json!({ "description": "The program that wrote it.", "type": "string" }),
        ),
    ];
    for (field, of_field) in envelope {
        if let Some(Value::Object(fields)) = schema.get_mut("properties") {
            fields.insert(field.into(), of_field);
        }
        if let Some(Value::Array(needed)) = schema.get_mut("required") {
            needed.push(json!(field));
        }
    }
    schema
}

/// A number that is not finite is written as null. Descriptions are for readers who follow
/// no links to the sources.
fn finish(schema: &mut Schema) {
    if schema.get("type") == Some(&json!("number")) {
        schema.insert("type".into(), json!(["number", "null"]));
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = without_links(text).replace("[`", "`").replace("`]", "`");
    }
}

/// The text of links, `[text](address)`, in their place.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once(')').unwrap_or(("", part));
        if let Some(begin) = shown.rfind('[') {
            shown.remove(begin);
        }
        shown += rest;
    }
    shown
}

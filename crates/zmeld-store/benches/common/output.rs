//! What a benchmark of runs and tables prints and keeps.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use zmeld_report::document::{Document, Section, Tone};
use zmeld_report::Table;

use crate::command;
use crate::input::Pages;
use crate::machine::Machine;
use crate::runs::Runs;

/// All that was found.
#[derive(Default)]
pub struct Results {
    /// Each with its key in the JSON.
    pub tables: Vec<(&'static str, Table)>,
    /// Behind the tables' figures.
    pub runs: Vec<Runs>,
}

/// A benchmark's JSON.
#[derive(Serialize)]
struct BenchBody<'a> {
    machine: &'a Machine,
    conditions: BTreeMap<&'static str, &'a str>,
    data: &'a str,
    rounds: usize,
    pages: usize,
    tables: BTreeMap<&'static str, Vec<serde_json::Value>>,
    runs: &'a [Runs],
}

/// What was measured, and on what.
pub struct Measured<'a> {
    /// Of the JSON.
    pub schema: &'static str,
    /// Of the document.
    pub title: &'a str,
    /// Where.
    pub machine: &'a Machine,
    /// Pages that were used.
    pub pages: &'a Pages,
    /// How often.
    pub rounds: usize,
    /// What else a reader has to know.
    pub conditions: Vec<(&'static str, String)>,
    /// What came of it.
    pub results: &'a Results,
}

impl Measured<'_> {
    /// Prints all of it; keeps every run in a file where one is given.
    pub fn show(&self, json: Option<&Path>) -> Result<(), String> {
        let tables = self.results.tables.iter();
        let body = BenchBody {
            machine: self.machine,
            conditions: self
                .conditions
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect(),
            data: &self.pages.about,
            rounds: self.rounds,
            pages: self.pages.count(),
            tables: tables
                .map(|(key, table)| (*key, table.to_json_rows()))
                .collect(),
            runs: &self.results.runs,
        };
        command::show(&self.document(), self.schema, &body, json)
    }

    fn document(&self) -> Document {
        let mut document = Document::new(self.title)
            .provenance("processor", &self.machine.cpu)
            .provenance("processors", self.machine.cpus.to_string())
            .provenance("data", &self.pages.about)
            .provenance(
                "rounds",
                format!("{}; medians of rounds, ratios within a round", self.rounds),
            );
        for (name, value) in &self.conditions {
            document = document.provenance(name, value);
        }
        if let Some(warning) = self.machine.warning() {
            document = document.section(Section::new("").advice(Tone::Warning, warning));
        }
        for (_, table) in &self.results.tables {
            document = document.section(Section::new("").table(table.clone()));
        }
        document
    }
}

//! What a benchmark of runs and tables prints and keeps.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use zmeld_report::document::Document;

use crate::command;
use crate::input::Pages;
use crate::machine::Machine;
use crate::results::{Budget, Results};
use crate::runs::Runs;

/// A benchmark's JSON: what they all have, and what is one's own.
#[derive(Serialize)]
struct BenchBody<'a, T> {
    machine: &'a Machine,
    #[serde(flatten)]
    own: T,
    data: &'a str,
    rounds: usize,
    pages: usize,
    budgets: &'a [Budget],
    tables: BTreeMap<&'static str, Vec<serde_json::Value>>,
    runs: &'a [Runs],
}

/// What was measured, and on what.
pub struct Measured<'a> {
    /// Of the JSON.
    pub schema: &'static str,
    /// Where.
    pub machine: &'a Machine,
    /// Pages that were used.
    pub pages: &'a Pages,
    /// How often.
    pub rounds: usize,
    /// What came of it.
    pub results: &'a Results,
}

impl Measured<'_> {
    /// Prints the document; keeps every run, and what only this benchmark has to
    /// say, in a file where one is given.
    pub fn show<T: Serialize>(
        &self,
        document: &Document,
        own: T,
        json: Option<&Path>,
    ) -> Result<(), String> {
        let tables = self.results.tables.iter();
        let body = BenchBody {
            machine: self.machine,
            own,
            data: &self.pages.about,
            rounds: self.rounds,
            pages: self.pages.count(),
            budgets: &self.results.budgets,
            tables: tables
                .map(|(key, table)| (*key, table.to_json_rows()))
                .collect(),
            runs: &self.results.runs,
        };
        command::show(document, self.schema, &body, json)
    }
}

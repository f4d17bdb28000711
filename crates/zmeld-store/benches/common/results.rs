//! What the parts of the benchmark hand back: tables, budgets, raw runs.
#![allow(dead_code)] // Each benchmark uses its part.

use serde::Serialize;
use zmeld_report::{cells, Column, Table};

use crate::runs::Runs;

/// A promise of the design, and what was measured.
#[derive(Clone, Serialize)]
pub struct Budget {
    /// What is promised.
    pub what: String,
    /// The least that will do.
    pub at_least: f64,
    /// What it is here.
    pub measured: f64,
    /// Whether that is enough.
    pub met: bool,
}

/// All that was found.
#[derive(Default)]
pub struct Results {
    /// Each with its key in the JSON.
    pub tables: Vec<(&'static str, Table)>,
    /// In the order of the tables.
    pub budgets: Vec<Budget>,
    /// Behind the tables' figures.
    pub runs: Vec<Runs>,
}

impl Results {
    /// Adds a table.
    pub fn table(&mut self, key: &'static str, table: Table) {
        self.tables.push((key, table));
    }

    /// Adds runs.
    pub fn keep(&mut self, runs: impl IntoIterator<Item = Runs>) {
        self.runs.extend(runs);
    }

    /// Adds a budget; the words for the table's cell.
    pub fn budget(&mut self, what: impl Into<String>, at_least: f64, measured: f64) -> String {
        let met = measured >= at_least;
        self.budgets.push(Budget {
            what: what.into(),
            at_least,
            measured,
            met,
        });
        let verdict = if met { "met" } else { "missed" };
        format!("{at_least}x: {verdict}")
    }

    /// The budgets by themselves.
    pub fn budget_table(&self) -> Table {
        let mut table = Table::new("Budgets")
            .column(Column::text("what"))
            .column(Column::ratio("at least"))
            .column(Column::ratio("measured"))
            .column(Column::text("verdict"));
        for budget in &self.budgets {
            let verdict = if budget.met { "met" } else { "missed" };
            table.row(cells![
                &budget.what,
                budget.at_least,
                budget.measured,
                verdict
            ]);
        }
        table
    }

    /// All runs, a line for each series.
    pub fn runs_table(&self) -> Table {
        let mut table = Table::new("Every run, in milliseconds")
            .column(Column::text("table"))
            .column(Column::text("what"))
            .column(Column::text("runs"));
        for series in &self.runs {
            let runs: Vec<String> = series
                .runs_ns
                .iter()
                .map(|ns| format!("{:.3}", ns / 1e6))
                .collect();
            table.row(cells![series.table, &series.what, runs.join(" ")]);
        }
        table
    }
}

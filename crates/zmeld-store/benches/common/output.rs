//! Output of a benchmark of runs and tables.

use zmeld_report::document::{Document, Section, Tone};
use zmeld_report::Table;

use crate::command;
use crate::input::Pages;
use crate::machine::Machine;

pub struct Measured<'a> {
    pub title: &'a str,
    pub machine: &'a Machine,
    pub pages: &'a Pages,
    pub rounds: usize,
    /// Other facts for a reader.
    pub conditions: Vec<(&'static str, String)>,
    pub tables: Vec<Table>,
}

impl Measured<'_> {
    pub fn show(self) {
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
        for table in self.tables {
            document = document.section(Section::new("").table(table));
        }
        command::print(&document);
    }
}

//! A table as GitHub shows it.

use super::Table;
use crate::text;

impl Table {
    /// The table in GitHub's Markdown, the title in bold above it.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&format!(
                "**{}**\n\n",
                text::markdown(&text::running(&self.title))
            ));
        }
        if !self.columns.is_empty() {
            let titles = self
                .columns
                .iter()
                .map(|column| text::markdown(&text::running(&column.title)));
            push_row(&mut out, titles);
            push_row(
                &mut out,
                self.columns
                    .iter()
                    .map(|c| if c.is_number() { "---:" } else { "---" }.into()),
            );
            for row in &self.rows {
                let cells = self.columns.iter().zip(&row.cells).map(|(column, cell)| {
                    let shown = text::markdown(&column.show(cell));
                    match row.strong && !shown.trim().is_empty() {
                        true => format!("**{}**", shown.trim()),
                        false => shown,
                    }
                });
                push_row(&mut out, cells);
            }
        }
        for note in &self.notes {
            out.push_str(&format!("\n{}\n", text::markdown(&text::running(note))));
        }
        out
    }
}

fn push_row(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        out.push_str(&format!(" {cell} |"));
    }
    out.push('\n');
}

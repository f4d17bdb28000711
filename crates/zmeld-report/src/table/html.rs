//! A table in HTML; everything in it escaped.

use maud::{html, Markup};

use super::{Column, Kind, Table};
use crate::text;

impl Table {
    /// The table as an HTML fragment that scrolls sideways by itself where it is wider than the page.
    pub fn to_html(&self) -> Markup {
        let title = text::running(&self.title);
        html! {
            @if !title.is_empty() { p.zm-caption { (title) } }
            div.zm-table tabindex="0" role="region" aria-label=(if title.is_empty() { "table" } else { &title }) {
                table {
                    thead { tr {
                        @for column in &self.columns {
                            th scope="col" class=(if column.is_number() { "number" } else { "name" }) { (text::running(&column.title)) }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            tr.strong[row.strong] {
                                @for (at, (column, cell)) in self.columns.iter().zip(&row.cells).enumerate() {
                                    @let shown = column.show(cell);
                                    @if at == 0 && !column.is_number() {
                                        th scope="row" class=(class(column, &shown)) { (shown) }
                                    } @else {
                                        td class=(class(column, &shown)) { (shown) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @for note in &self.notes { p.zm-note { (text::running(note)) } }
        }
    }
}

/// Names up to this width stay on one line.
const NAME_WIDTH_MAX: usize = 24;

fn class(column: &Column, shown: &str) -> &'static str {
    match column.is_number() {
        true => "number",
        false if text::width(shown) <= NAME_WIDTH_MAX => "name",
        // A path has no words: it would break behind its first slash.
        false if column.kind == Kind::Path => "words path",
        false => "words",
    }
}

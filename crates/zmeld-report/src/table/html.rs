//! A table in HTML; everything in it escaped.

use maud::{html, Markup};

use super::Table;
use crate::text;

impl Table {
    /// The table as an HTML fragment that scrolls sideways by itself where it is wider than the page.
    pub fn to_html(&self) -> Markup {
        let title = text::running(&self.title);
        html! {
            div.zm-table tabindex="0" role="region" aria-label=(if title.is_empty() { "table" } else { &title }) {
                table {
                    @if !title.is_empty() { caption { (title) } }
                    thead { tr {
                        @for column in &self.columns {
                            th scope="col" class=(class(column.is_number())) { (text::running(&column.title)) }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            tr.strong[row.strong] {
                                @for (at, (column, cell)) in self.columns.iter().zip(&row.cells).enumerate() {
                                    @let shown = column.show(cell);
                                    @if at == 0 && !column.is_number() {
                                        th scope="row" class="word" { (shown) }
                                    } @else {
                                        td class=(class(column.is_number())) { (shown) }
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

fn class(is_number: bool) -> &'static str {
    if is_number {
        "number"
    } else {
        "word"
    }
}

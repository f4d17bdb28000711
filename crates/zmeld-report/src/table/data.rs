//! A table as data: raw values, one name per column, units in the names.

use super::{Cell, Column, Table};

impl Table {
    /// The table as CSV by RFC 4180: a header of keys, raw values, nothing where there is no finite number.
    /// A column with intervals has two more, `_low` and `_high`.
    ///
    /// Names are other people's, and a spreadsheet takes what begins with `=` for a formula: text that begins so
    /// has `'` in front, which says there that it is text; so has text with that in front already.
    pub fn to_csv(&self) -> String {
        let mut csv = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .from_writer(Vec::new());
        let mut record = |record: Vec<String>| {
            csv.write_record(record)
                .expect("writing to memory does not fail");
        };
        record(self.fields().map(|(_, name, _)| name).collect());
        for row in &self.rows {
            record(
                self.fields()
                    .map(|(at, _, part)| raw(&row.cells[at], part))
                    .collect(),
            );
        }
        let bytes = csv.into_inner().expect("writing to memory does not fail");
        String::from_utf8(bytes).expect("cells are UTF-8")
    }

    /// Every field of a row: the column's place, the field's name, and how the part of the cell that it holds is
    /// called: a value, or the `_low` or `_high` end of an interval.
    fn fields(&self) -> impl Iterator<Item = (usize, String, &'static str)> + '_ {
        self.columns.iter().enumerate().flat_map(|(at, column)| {
            let parts: &[&str] = match self.writes_interval(at, column) {
                true => &["", "_low", "_high"],
                false => &[""],
            };
            let field = move |part: &&'static str| (at, format!("{}{part}", column.key), *part);
            parts.iter().map(field)
        })
    }

    fn writes_interval(&self, at: usize, column: &Column) -> bool {
        column.has_interval
            || self
                .rows
                .iter()
                .any(|row| matches!(row.cells[at], Cell::Estimate(_)))
    }
}

/// Beginnings of a formula in spreadsheets, of one in full width, or what they leave out before one (a
/// semicolon may be their separator); and of text.
const FORMULA: [char; 13] = [
    '=', '+', '-', '@', '＝', '＋', '－', '＠', ';', '\t', '\r', '\n', '\'',
];

fn raw(cell: &Cell, part: &str) -> String {
    let real = |value: f64| match value.is_finite() {
        // As in JSON: 187.0, 1e300.
        true => serde_json::json!(value).to_string(),
        false => String::new(),
    };
    match (cell, part) {
        (Cell::Text(text), "") => match text.starts_with(FORMULA) && text.parse::<f64>().is_err() {
            true => format!("'{text}"),
            false => text.clone(),
        },
        (Cell::Whole(value), "") => value.to_string(),
        (Cell::Real(value), "") => real(*value),
        (Cell::Estimate(estimate), "") => real(estimate.value),
        (Cell::Estimate(estimate), "_low") => real(estimate.low),
        (Cell::Estimate(estimate), "_high") => real(estimate.high),
        _ => String::new(),
    }
}

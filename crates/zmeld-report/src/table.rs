//! One table, every format: terminal text, Markdown, CSV, HTML and JSON rows from the same typed cells.
//!
//! A column says what its numbers mean; a cell holds the raw number. Text shows it rounded by [`crate::units`],
//! CSV and JSON carry it raw under a key that ends in the unit (`compressed_bytes`, `compress_mb_per_s`).

mod data;
mod html;
mod markdown;
mod terminal;

use crate::text;
use crate::units::{self, Estimate, Unit};

#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cell {
    /// No value here.
    Empty,
    /// Words or a name; may come from anywhere, and is made inert when shown.
    Text(String),
    /// A whole number, kept exact.
    Whole(u64),
    /// A real number; NaN and infinities are allowed.
    Real(f64),
    /// A measured number with its interval.
    Estimate(Estimate),
}

macro_rules! cell_from {
    ($($type:ty: $value:ident => $cell:expr),* $(,)?) => {$(
        impl From<$type> for Cell {
            fn from($value: $type) -> Self {
                $cell
            }
        }
    )*};
}

cell_from! {
    &str: text => Cell::Text(text.into()),
    String: text => Cell::Text(text),
    &String: text => Cell::Text(text.clone()),
    u64: value => Cell::Whole(value),
    u32: value => Cell::Whole(value.into()),
    usize: value => Cell::Whole(value as u64),
    f64: value => Cell::Real(value),
    Estimate: estimate => Cell::Estimate(estimate),
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Empty, Into::into)
    }
}

/// The cells of one row from values of different types: `cells!["lz4", 4096u64, 2.31]`.
#[macro_export]
macro_rules! cells {
    ($($value:expr),* $(,)?) => { [$($crate::Cell::from($value)),*] };
}

/// A table of which each column says what stands in it: one row for each of `$rows`.
#[macro_export]
macro_rules! table {
    (
        $title:expr, for $row:pat in $rows:expr,
        $(where { $($values:tt)* })?
        $($column:expr => $cell:expr),+ $(,)?
        $(; strong if $strong:expr)?
    ) => {{
        let mut table = $crate::Table::new($title)$(.column($column))+;
        for $row in $rows {
            $($($values)*)?
            let _row = table.row($crate::cells![$($cell),+]);
            $(if $strong {
                _row.strong();
            })?
        }
        table
    }};
}

impl Cell {
    /// The cell as people read it, in the given unit.
    pub fn show(&self, unit: Unit) -> String {
        match self {
            Cell::Empty => units::MISSING.into(),
            Cell::Text(text) => text::inert(text).into_owned(),
            Cell::Whole(value) => unit.format_whole(*value),
            Cell::Real(value) => unit.format(*value),
            Cell::Estimate(estimate) => unit.format_estimate(*estimate),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Path,
    Number(Unit),
}

/// One column: its heading, its key in files, and what its numbers mean.
#[derive(Debug, Clone)]
pub struct Column {
    title: String,
    key: String,
    kind: Kind,
    has_interval: bool,
    names_row: bool,
}

/// A column for each unit.
macro_rules! columns {
    ($($(#[$about:meta])* $name:ident: $unit:ident),* $(,)?) => {$(
        $(#[$about])*
        pub fn $name(title: &str) -> Self {
            Column::unit(title, Unit::$unit)
        }
    )*};
}

impl Column {
    fn new(title: &str, kind: Kind) -> Self {
        let suffix = match kind {
            Kind::Number(unit) => unit.key_suffix(),
            Kind::Text | Kind::Path => String::new(),
        };
        let stem = slug(title);
        let key = if suffix.is_empty() || stem == suffix || stem.ends_with(&format!("_{suffix}")) {
            stem
        } else {
            format!("{stem}_{suffix}")
        };
        Column {
            title: title.into(),
            key,
            kind,
            has_interval: false,
            names_row: false,
        }
    }

    /// Words; wrapped where the table is too wide.
    pub fn text(title: &str) -> Self {
        Column::new(title, Kind::Text)
    }

    /// Paths and other long names; shortened in the middle where the table is too wide.
    pub fn path(title: &str) -> Self {
        Column::new(title, Kind::Path)
    }

    columns! {
        /// Sizes in bytes.
        bytes: Bytes,
        /// How many.
        count: Count,
        /// Fractions, shown in percent.
        percent: Fraction,
        /// Factors, shown as 2.31x.
        ratio: Ratio,
        /// Times in seconds.
        seconds: Seconds,
        /// Times in nanoseconds.
        nanoseconds: Nanoseconds,
        /// Speeds in decimal megabytes per second.
        mb_per_s: MbPerSecond,
        /// Numbers without a unit.
        number: Number,
    }

    /// Numbers in any unit.
    pub fn unit(title: &str, unit: Unit) -> Self {
        Column::new(title, Kind::Number(unit))
    }

    /// The name of the column in CSV and JSON, instead of the title in snake case with the unit behind it.
    pub fn key(mut self, key: &str) -> Self {
        self.key = key.into();
        self
    }

    /// Always write the interval's ends to CSV and JSON (`_low`, `_high`), even if no cell has one.
    pub fn with_interval(mut self) -> Self {
        self.has_interval = true;
        self
    }

    /// Without it nobody knows which row it is: where the table is so wide that it continues below, the column is
    /// repeated there. The first column always is; those that also are come right behind it.
    pub fn names_row(mut self) -> Self {
        self.names_row = true;
        self
    }

    fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number(_))
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// A cell of this column as people read it.
    pub fn show(&self, cell: &Cell) -> String {
        match self.kind {
            Kind::Number(unit) => cell.show(unit),
            Kind::Text | Kind::Path => match cell {
                Cell::Empty => String::new(),
                cell => cell.show(Unit::Number),
            },
        }
    }
}

/// A title as a key: lower case, words joined by underscores.
fn slug(title: &str) -> String {
    let words: Vec<_> = title
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("_")
}

/// One row; made by [`Table::row`].
#[derive(Debug, Clone)]
pub struct Row {
    cells: Vec<Cell>,
    strong: bool,
}

impl Row {
    /// Mark the row as the one that matters: bold where there is bold, a star where there is not.
    pub fn strong(&mut self) {
        self.strong = true;
    }
}

/// A title, columns, rows and notes.
#[derive(Debug, Clone)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    notes: Vec<String>,
    /// Where paths are whole that a terminal has no room for.
    whole_with: Option<&'static str>,
}

impl Table {
    /// An empty table; the title may be empty.
    pub fn new(title: &str) -> Self {
        Table {
            title: title.into(),
            columns: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            whole_with: None,
        }
    }

    /// Adds a column on the right. The first column names the row, with those marked by [`Column::names_row`].
    ///
    /// # Panics
    /// If there are rows already.
    pub fn column(mut self, column: Column) -> Self {
        assert!(self.rows.is_empty(), "columns come before rows");
        self.columns.push(column);
        self
    }

    /// Adds a row at the end.
    ///
    /// # Panics
    /// If the row has not one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Row {
        let cells: Vec<_> = cells.into_iter().collect();
        assert_eq!(
            cells.len(),
            self.columns.len(),
            "one cell for each column of \"{}\"",
            self.title
        );
        let at = self.rows.len();
        self.rows.push(Row {
            cells,
            strong: false,
        });
        &mut self.rows[at]
    }

    /// Adds a column on the right with its cells, one a row.
    pub fn push(&mut self, column: Column, cells: impl IntoIterator<Item = Cell>) {
        self.columns.push(column);
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
    }

    /// Without the columns that no row has.
    pub fn without_empty_columns(&self) -> Table {
        let at_all = |at: &usize| self.rows.iter().any(|it| it.cells[*at] != Cell::Empty);
        self.only((0..self.columns.len()).filter(at_all))
    }

    /// The columns before that one; and it and those behind it, with what names the row.
    pub fn split(&self, at: usize) -> (Table, Table) {
        let rest = std::iter::once(0).chain(at..self.columns.len());
        (self.only(0..at), self.only(rest))
    }

    /// These columns, without notes.
    fn only(&self, columns: impl Iterator<Item = usize>) -> Table {
        let mut table = Table::new(&self.title);
        table.rows.clone_from(&self.rows);
        table.rows.iter_mut().for_each(|row| row.cells.clear());
        for at in columns {
            let cells = self.rows.iter().map(|it| it.cells[at].clone());
            table.push(self.columns[at].clone(), cells);
        }
        table
    }

    pub fn columns(&self) -> impl Iterator<Item = (&Column, Vec<&Cell>)> {
        let columns = self.columns.iter().enumerate();
        columns.map(|(at, column)| (column, self.rows.iter().map(|it| &it.cells[at]).collect()))
    }

    /// Adds a sentence below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The option with which paths are whole: a terminal that shortens one says so below the table.
    pub fn whole_with(&mut self, option: &'static str) {
        self.whole_with = Some(option);
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

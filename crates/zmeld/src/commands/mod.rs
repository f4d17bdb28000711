//! One file a command.

/// A table of which each column says what stands in it: one row for each of `$rows`.
macro_rules! table {
    (
        $title:expr, for $row:pat in $rows:expr,
        $(where { $($values:tt)* })?
        $($column:expr => $cell:expr),+ $(,)?
        $(; strong if $strong:expr)?
    ) => {{
        let mut table = zmeld_report::Table::new($title)$(.column($column))+;
        for $row in $rows {
            $($($values)*)?
            let _row = table.row(zmeld_report::cells![$($cell),+]);
            $(if $strong {
                _row.strong();
            })?
        }
        table
    }};
}

pub mod bench;
pub mod codecs;
pub mod config;
pub mod export;
pub mod generate;
pub mod generator;
pub mod meld;
pub mod metrics;
pub mod numa;
pub mod scan;
mod scan_report;
pub mod schema;
pub mod setup;
pub mod status;
mod survey;
pub mod top;
pub mod watch;

//! One look for every result of zmeld: numbers, tables, plots, pages and versioned JSON.
//!
//! A command fills a [`Document`] (headings, paragraphs, key-value lists, [`Table`]s, [`Plot`]s, notes) once and
//! renders it as terminal text, Markdown or one self-contained HTML page. A table alone is also CSV and JSON.
//! The crate prints nothing: everything is returned as text.
//!
//! Names of processes, files and devices are other people's text. Wherever they end up, they are inert: control
//! characters are made visible in terminals, markup is escaped in Markdown, HTML and SVG.
//!
//! ```
//! use zmeld_report::{cells, Bars, Column, Document, Estimate, Section, Style, Table, Tone, Unit};
//!
//! let mut codecs = Table::new("Codecs on these pages")
//!     .column(Column::text("codec"))
//!     .column(Column::bytes("compressed"))
//!     .column(Column::ratio("ratio"))
//!     .column(Column::mb_per_s("compress"));
//! codecs.row(cells!["lz4", 1_288_490_188u64, 2.31, 612.0]);
//! codecs.row(cells!["zstd", 912_680_550u64, 3.26, 187.0]).strong();
//!
//! assert!(codecs.to_csv().starts_with("codec,compressed_bytes,ratio,compress_mb_per_s\r\n"));
//!
//! let result = Document::new("zmeld scan")
//!     .lead("4.21 GiB would fit into 1.18 GiB.")
//!     .provenance("kernel", "6.12.48-amd64")
//!     .section(
//!         Section::new("Codecs")
//!             .plot(Bars::new("Memory", "size", Unit::Bytes).bar("zero", Estimate::exact(5e8)))
//!             .table(codecs)
//!             .advice(Tone::Good, "zstd saves most here: run `zmeld up --codec zstd`."),
//!     );
//! let text = result.to_text(&Style::plain(80));
//! assert!(text.contains("zstd *     870 MiB  3.26x  187 MB/s"));
//! assert!(result.to_html().starts_with("<!DOCTYPE html>"));
//! ```

pub mod document;
mod html;
mod palette;
pub mod plot;
pub mod schema;
pub mod statistics;
pub mod style;
pub mod table;
pub mod text;
pub mod units;

pub use document::{Document, Section, Tone};
pub use plot::{Axis, Bars, Histogram, Lines, Plot};
pub use style::Style;
pub use table::{Cell, Column, Row, Table};
pub use units::{Estimate, Unit};

//! One table in every format: what it looks like, that it fits, and that it can be read back.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;
use zmeld_report::{cells, Cell, Column, Estimate, Style, Table};

fn codecs() -> Table {
    let mut table = Table::new("Codecs on these pages")
        .column(Column::text("codec"))
        .column(Column::bytes("compressed"))
        .column(Column::bytes("memory used"))
        .column(Column::ratio("ratio"))
        .column(Column::percent("incompressible"))
        .column(Column::mb_per_s("compress"));
    table.row(cells![
        "lz4",
        1_288_490_188u64,
        1_331_439_861u64,
        Estimate::around(2.31, 0.02),
        0.0412,
        612.3
    ]);
    table
        .row(cells![
            "zstd -3",
            912_680_550u64,
            951_260_000u64,
            Estimate::new(3.26, 3.23, 3.29),
            0.0,
            187.0
        ])
        .strong();
    table.row(cells![
        "842",
        None::<u64>,
        None::<u64>,
        f64::NAN,
        None::<f64>,
        None::<f64>
    ]);
    table.note("842 is measured through a kernel device only.");
    table
}

#[test]
fn text_reads_well() {
    let expected = "\
Codecs on these pages
codec      compressed  memory used         ratio  incompressible  compress
──────────────────────────────────────────────────────────────────────────
lz4          1.20 GiB     1.24 GiB  2.31x ± 0.02           4.1 %  612 MB/s
zstd -3 *     870 MiB      907 MiB  3.26x ± 0.03           0.0 %  187 MB/s
842                 –            –             –               –         –
842 is measured through a kernel device only.
";
    assert_eq!(codecs().to_text(&Style::plain(80)), expected);
}

#[test]
fn a_narrow_terminal_wraps_headings_and_then_continues_below() {
    let expected = "\
Codecs on these pages
                          memory
codec      compressed       used         ratio
──────────────────────────────────────────────
lz4          1.20 GiB   1.24 GiB  2.31x ± 0.02
zstd -3 *     870 MiB    907 MiB  3.26x ± 0.03
842                 –          –             –

codec      incompressible  compress
───────────────────────────────────
lz4                 4.1 %  612 MB/s
zstd -3 *           0.0 %  187 MB/s
842                     –         –
842 is measured through a kernel device only.
";
    assert_eq!(codecs().to_text(&Style::plain(46)), expected);
}

/// A row that is told by its first two columns keeps both where the table continues.
#[test]
fn paths_that_differ_in_their_middles_stay_apart() {
    let path = |user: u32| format!("/user.slice/user-{user}.slice/user@{user}.service/app.slice");
    let mut table = Table::new("")
        .column(Column::path("group"))
        .column(Column::count("pages"));
    for user in [1000, 1001] {
        table.row(cells![path(user), 1u64]);
    }
    table.row(cells!["/a/long/path/that/is/one/of/its/own/and/cut", 1u64]);
    let text = table.to_text(&Style::plain(30));
    let joined = text.replace([' ', '\n'], "");
    assert!(
        joined.contains("user@1000.ser") && joined.contains("user@1001.ser"),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.starts_with("/a/long…")),
        "{text}"
    );
}

#[test]
fn a_table_that_continues_below_repeats_what_names_its_rows() {
    let mut table = Table::new("")
        .column(Column::text("case"))
        .column(Column::text("swap").names_row())
        .column(Column::count("runs"))
        .column(Column::bytes("swapped out"))
        .column(Column::seconds("elapsed"));
    table.row(cells!["small", "zram", 5u64, 1u64 << 30, 1.5]);
    table.row(cells!["small", "disk", 5u64, 1u64 << 31, 9.25]);
    let expected = "\
case   swap  runs
─────────────────
small  zram     5
small  disk     5

case   swap  swapped out
────────────────────────
small  zram     1.00 GiB
small  disk     2.00 GiB

case   swap  elapsed
────────────────────
small  zram   1.50 s
small  disk   9.25 s
";
    assert_eq!(table.to_text(&Style::plain(24)), expected);
}

#[test]
fn colour_only_when_asked() {
    let style = Style {
        colour: true,
        ..Style::plain(80)
    };
    let text = codecs().to_text(&style);
    assert!(text.contains("\x1b[1mzstd -3"), "{text}");
    assert!(!text.contains('*'));
    assert!(!codecs().to_text(&Style::plain(80)).contains('\x1b'));
}

#[test]
fn markdown_is_a_github_table() {
    let expected = "\
**Codecs on these pages**

| codec | compressed | memory used | ratio | incompressible | compress |
| --- | ---: | ---: | ---: | ---: | ---: |
| lz4 | 1.20 GiB | 1.24 GiB | 2.31x ± 0.02 | 4.1 % | 612 MB/s |
| **zstd -3** | **870 MiB** | **907 MiB** | **3.26x ± 0.03** | **0.0 %** | **187 MB/s** |
| 842 | – | – | – | – | – |

842 is measured through a kernel device only.
";
    assert_eq!(codecs().to_markdown(), expected);
}

#[test]
fn csv_is_raw() {
    let expected = "\
codec,compressed_bytes,memory_used_bytes,ratio,ratio_low,ratio_high,incompressible_fraction,compress_mb_per_s\r
lz4,1288490188,1331439861,2.31,2.29,2.33,0.0412,612.3\r
zstd -3,912680550,951260000,3.26,3.23,3.29,0.0,187.0\r
842,,,,,,,\r
";
    assert_eq!(codecs().to_csv(), expected);
}

#[test]
fn an_empty_table_is_no_accident() {
    let table = Table::new("").column(Column::text("codec"));
    assert_eq!(table.to_text(&Style::plain(80)), "codec\n─────\n");
    assert_eq!(table.to_csv(), "codec\r\n");
    assert_eq!(Table::new("").to_text(&Style::plain(80)), "");
}

fn any_cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        Just(Cell::Empty),
        ".{0,40}".prop_map(Cell::Text),
        any::<u64>().prop_map(Cell::Whole),
        any::<f64>().prop_map(Cell::Real),
        any::<u64>().prop_map(|bits| Cell::Real(f64::from_bits(bits))),
        (any::<f64>(), any::<f64>(), any::<f64>())
            .prop_map(|(v, l, h)| Cell::Estimate(Estimate::new(v, l, h))),
        Just(Cell::Whole(u64::MAX)),
    ]
}

fn table_of(rows: Vec<Vec<Cell>>) -> Table {
    let mut table = Table::new(
        "A title that may be longer than the line that it has to stand on, as titles are",
    )
    .column(Column::text("process"))
    .column(Column::path("mapping"))
    .column(Column::bytes("memory used after melding"))
    .column(Column::count("pages"))
    .column(Column::percent("share"))
    .column(Column::ratio("ratio"))
    .column(Column::seconds("time"))
    .column(Column::mb_per_s("speed"));
    for mut row in rows {
        // Numbers cannot be broken, so names belong in the columns for names.
        for cell in &mut row[2..] {
            if matches!(cell, Cell::Text(_)) {
                *cell = Cell::Empty;
            }
        }
        table.row(row);
    }
    table
}

fn any_table() -> impl Strategy<Value = Table> {
    prop::collection::vec(prop::collection::vec(any_cell(), 8), 0..6).prop_map(table_of)
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(table in any_table(), width in 80usize..200) {
        for line in table.to_text(&Style::plain(width)).lines() {
            prop_assert!(line.width() <= width, "{} > {width}: {line}", line.width());
        }
    }

    #[test]
    fn text_never_steers_the_terminal(table in any_table(), width in 1usize..100) {
        let text = table.to_text(&Style::plain(width));
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn csv_reads_back(texts in prop::collection::vec("[-=+@＝＋－＠;'\\t]?.{0,40}", 0..6)) {
        let mut table = Table::new("").column(Column::text("name")).column(Column::bytes("size"));
        for text in &texts {
            table.row(cells![text, 1u64]);
        }
        let csv = table.to_csv();
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let names: Vec<_> = reader.records().map(|it| it.unwrap()[0].to_owned()).collect();
        // None is a formula, and nothing is lost.
        let is_formula = |it: &String| it.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', ';', '\t']) && it.parse::<f64>().is_err();
        prop_assert!(!names.iter().any(is_formula), "{names:?}");
        let names: Vec<_> = names.iter().map(|it| it.strip_prefix('\'').unwrap_or(it)).collect();
        prop_assert_eq!(names, texts);
    }

    #[test]
    fn markdown_rows_have_as_many_cells_as_columns(table in any_table()) {
        for line in table.to_markdown().lines().filter(|line| line.starts_with('|')) {
            let bars = line.replace("\\\\", "").replace("\\|", "").matches('|').count();
            prop_assert_eq!(bars, 9, "{}", line);
        }
    }

}

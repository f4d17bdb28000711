//! One table in every format: what it looks like, that it fits, and that it can be read back.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;
use zmeld_report::{cells, Cell, Column, Estimate, Style, Table};

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

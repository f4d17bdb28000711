//! What results look like, whole: `shown/` has it. With ZMELD_SHOW=1 that is written, to be read before
//! it is kept.

use std::fmt::Write;
use std::time::Duration;

use proptest::prelude::*;
use zmeld_report::{
    cells, text, units, Axis, Bars, Cell, Column, Document, Estimate, Histogram, Lines, Plot,
    Section, Style, Table, Tone, Unit,
};
use zmeld_tests::shown::shown;

fn show(name: &str, told: &str) {
    shown(&format!("shown/{name}.txt"), told);
}

const UNITS: [Unit; 8] = [
    Unit::Number,
    Unit::Count,
    Unit::Bytes,
    Unit::Fraction,
    Unit::Ratio,
    Unit::Seconds,
    Unit::Nanoseconds,
    Unit::MbPerSecond,
];

/// At and beside the borders where a form changes.
const VALUES: &str = "
    NaN inf -inf 0 -0.2 -2 1e-12 2.5e-10 9.9994e-10 9.9996e-10 9.999e-7 1e-6 4.31e-6 0.0001
    9.9994e-4 9.9996e-4 0.003421 0.037 0.0999 0.1 0.128 0.5 0.9994 0.9996 0.9999 1 2.309 2.5 9.996
    12.34 59.94 59.95 125 812.4 999.6 1023 1024 1536 3599.4 3599.7 9999 10000 16733 86399 123456
    187200 -187200 1036288 1048575 8.63e10 8.64e10 9.99e14 1e15 1.8e19";

const ESTIMATES: &[[f64; 3]] = &[
    [2.3081, 2.2871, 2.3291],
    [2.3081, 2.2958, 2.3204],
    [1234.0, 1178.0, 1290.0],
    [2.0, 2.0, 2.0],
    [2.31, 2.28, 2.40],
    [100.0, 90.0, 111.0],
    [100.0, 90.0, 111.5],
    [100.0, 100.0, 131.5],
    [1.000_18, 1.000_09, 1.000_27],
    [1.000_18, 0.998_18, 1.002_18],
    [4.5e9, 4.47e9, 4.53e9],
    [0.0, -0.5, 0.5],
    [-3.2, -4.0, -3.0],
    [1e-12, 9e-13, 1.1e-12],
    [1e16, 9e15, 1.1e16],
    [1.0, f64::NEG_INFINITY, 2.0],
    [1.0, 0.0, f64::INFINITY],
    [f64::NAN, 0.0, 1.0],
];

#[test]
fn numbers() {
    let mut told = String::new();
    for value in VALUES.split_whitespace() {
        let all = UNITS.map(|unit| unit.format(value.parse().unwrap()));
        writeln!(told, "{value}: {}", all.join(", ")).unwrap();
    }
    for value in [0, 1, 2, 1023, 9999, 123_456, u64::MAX] {
        let all = UNITS.map(|unit| unit.format_whole(value));
        writeln!(told, "{value}{}: {}", units::plural(value), all.join(", ")).unwrap();
    }
    for [value, low, high] in ESTIMATES {
        let estimate = Estimate::new(*value, *low, *high);
        let all = UNITS.map(|unit| unit.format_estimate(estimate));
        let is = if estimate.has_interval() { "" } else { " none" };
        writeln!(told, "{value} ({low} to {high}){is}: {}", all.join(", ")).unwrap();
    }
    let widths = [0.0, 1e-10, 1e-9, 0.0123, 0.021, 56.0, -0.3, 1e15, f64::NAN];
    for value in [2.3081, 3e15, f64::INFINITY] {
        let all = widths.map(|half| units::uncertain(value, half));
        writeln!(told, "{value:e}: {}", all.join(", ")).unwrap();
    }
    let around = Unit::Number.format_estimate(Estimate::around(2.0, 0.25));
    let exact = Unit::Number.format_estimate(Estimate::exact(2.0));
    let took = units::duration(Duration::from_millis(12));
    writeln!(told, "{around}, {exact}, {took}").unwrap();
    show("numbers", &told);
}

#[test]
fn texts() {
    // With its selector a digit is two columns wide.
    let digits = "0\u{fe0f}".repeat(8);
    let mut told = String::new();
    for width in [0, 1, 2, 3, 4, 5, 9, 16, 25, 26] {
        let path = text::shorten("/usr/lib/firefox/libxul.so", width);
        let (short, prefix) = (text::shorten(&digits, width), text::prefix(&digits, width));
        writeln!(told, "{width}: {path} {short} {prefix}").unwrap();
    }
    for (content, width) in [
        ("codec lzo-rle", 9),
        ("a 0\u{fe0f} b", 4),
        (&*digits, 5),
        (&*digits, 1),
        ("", 5),
    ] {
        writeln!(told, "{width}: {:?}", text::wrap(content, width)).unwrap();
    }
    let values = [
        -1.0,
        0.0,
        0.1,
        20.0,
        35.0,
        50.0,
        60.0,
        80.0,
        99.0,
        100.0,
        400.0,
        f64::NAN,
    ];
    let spark = text::spark(values, 100.0) + &text::spark([0.0, 0.0], 0.0);
    let ascii = text::ascii(&format!("{spark} –─ • … 1\u{202f}234 猫 é\u{7}"));
    writeln!(told, "{spark}\n{ascii:?}").unwrap();
    for content in [
        "<b>|*x* \\ _ {} [] # ~ &",
        "run `zmeld up` now, `",
        "`a|b` `` `a\\|b`",
        "`one` and `two`",
    ] {
        let (markdown, spans) = (text::markdown(content), text::code_spans(content));
        writeln!(told, "{markdown}\n{spans:?}").unwrap();
    }
    writeln!(told, "{:?}", text::running(" a \t\u{1b}b\r\n\nc ")).unwrap();
    show("texts", &told);
}

fn codecs() -> Table {
    let mut table = Table::new("Codecs on these pages")
        .column(Column::text("codec"))
        .column(Column::bytes("compressed"))
        .column(Column::bytes("memory used").with_interval())
        .column(Column::ratio("ratio"))
        .column(Column::percent("incompressible").key("kept_fraction"))
        .column(Column::mb_per_s("compress"))
        .column(Column::seconds("nothing"));
    let none = || Cell::Empty;
    let ratio = Estimate::around(2.31, 0.02);
    table.row(cells![
        "lz4",
        1_288_490_188u64,
        1_331_439_861u64,
        ratio,
        0.0412,
        612.3,
        none()
    ]);
    let ratio = Estimate::new(3.26, 3.23, 3.29);
    let zstd = cells![
        "zstd -3",
        912_680_550u64,
        951_260_000u64,
        ratio,
        0.0,
        187.0,
        none()
    ];
    table.row(zstd).strong();
    table.row(cells![
        "=842",
        none(),
        none(),
        f64::NAN,
        none(),
        none(),
        none()
    ]);
    table.note("842 is measured through a kernel device only, and not by what this machine has.");
    table
}

/// A row that is told by its first two columns keeps both where the table continues.
fn named() -> Table {
    let mut table = Table::new("")
        .column(Column::text("case"))
        .column(Column::text("swap").names_row())
        .column(Column::count("runs"))
        .column(Column::bytes("swapped out"))
        .column(Column::nanoseconds("elapsed ns"));
    table.row(cells!["small", "zram", 5u64, 1u64 << 30, 1.5e9]);
    table.row(cells!["small", "disk", 12_345u64, 1u64 << 31, 9.25e9]);
    table
}

fn paths() -> Table {
    let path = |user: u32| format!("/user.slice/user-{user}.slice/user@{user}.service/app.slice");
    let mut table = Table::new("")
        .column(Column::path("group"))
        .column(Column::text("what it is for"))
        .column(Column::count("pages"));
    table.row(cells![path(1000), "sixteen letters.", 1u64]);
    table.row(cells![
        path(1001),
        "programs that somebody began by hand",
        1u64
    ]);
    table.row(cells![
        "/a/long/path/that/is/one/of/its/own/and/cut",
        None::<&str>,
        1u64
    ]);
    table.whole_with("--json");
    table
}

/// Two long paths, which are the same where they are shortened.
fn alike() -> Table {
    let mut table = Table::new("").column(Column::path("group"));
    for user in [1000, 1001] {
        table.row(cells![format!(
            "/user.slice/user-{user}.slice/user@{user}.service/app.slice"
        )]);
    }
    table.whole_with("--json");
    table
}

#[test]
fn tables() {
    let mut told = String::new();
    let empty = Table::new("").column(Column::text("codec"));
    let colour = Style {
        colour: true,
        ..Style::plain(80)
    };
    for (table, widths) in [
        (codecs(), &[20, 46, 80][..]),
        (named(), &[20, 24]),
        (paths(), &[20, 30, 80]),
        (alike(), &[30]),
        (empty, &[80]),
        (Table::new(""), &[80]),
    ] {
        let (width, is_empty) = (table.width(), table.is_empty());
        writeln!(told, "== {width} wide, is empty: {is_empty}").unwrap();
        for width in widths {
            let text = table.to_text(&Style::plain(*width));
            writeln!(told, "-- {width}\n{text}").unwrap();
        }
        let html = table.to_html().into_string().replace("<tr", "\n<tr");
        let (markdown, csv) = (table.to_markdown(), table.to_csv().replace('\r', "\\r"));
        writeln!(told, "{markdown}\n{csv}\n{html}").unwrap();
    }
    writeln!(told, "{:?}", codecs().to_text(&colour)).unwrap();
    let (left, right) = codecs().split(2);
    let full = codecs().without_empty_columns();
    for part in [left, right, full] {
        writeln!(told, "{}", part.to_text(&Style::plain(120))).unwrap();
    }
    for (column, cells) in named().columns() {
        let cells: Vec<_> = cells.into_iter().map(|it| column.show(it)).collect();
        writeln!(told, "{}: {}", column.title(), cells.join(", ")).unwrap();
    }
    show("tables", &told);
}

#[test]
fn documents() {
    let document = Document::new("zmeld scan, of all that there is")
        .lead("4.21 GiB would fit into 1.18 GiB, `zmeld up` would say, if somebody asked.")
        .provenance("kernel", "6.12")
        .provenance("a name of 20 columns", "its value")
        .provenance("a name that is longer than half of a line", "and what it says of that line")
        .section(Section::new("").paragraph("- no list").paragraph("12) of none"))
        .section(Section::new("Left out").list(Vec::<String>::new()))
        .section(
            Section::new("What to do about it, in some words")
                .advice(Tone::Neutral, "All is as it was, and nothing is to be done about it.")
                .advice(Tone::Good, "Use zstd: run `zmeld up`.")
                .advice(Tone::Warning, "It is full.")
                .advice(Tone::Critical, "It is gone.")
                .values([("pages", "12"), ("zero", "11.3 % of what was there before the scan")])
                .list(["12 monkeys", "3. two", "+ plus", ". a point of more words than a line has"])
                .code("# a comment that is longer than a line\n# goes on in the next\n# now")
                .code("# just as long as that, it is it\n# it\n```\nzmeld status --of-all-that-there-is")
                .table(named()),
        );
    let mut told = String::new();
    for (width, colour) in [(40, false), (80, true)] {
        let text = document.to_text(&Style { width, colour });
        writeln!(told, "{}", text.replace('\x1b', "\\e")).unwrap();
    }
    let html = document.to_html().replace("><", ">\n<");
    let body = html.split_once("<body>").unwrap().1;
    let none = Document::new("");
    let none = [none.to_text(&Style::plain(80)), none.to_markdown()];
    writeln!(told, "{}\n{body}\n{none:?}", document.to_markdown()).unwrap();
    show("documents", &told);
}

/// Each mark on a line of its own.
fn marks(plot: Plot) -> String {
    let figure = plot.to_figure().into_string() + "\n";
    let marks = [
        "<svg", "<line", "<text", "<poly", "<circle", "<rect", "<tr", "<i ", "<b ", "<span",
    ];
    let broken = |text: String, mark: &&str| text.replace(*mark, &format!("\n{mark}"));
    marks.iter().fold(figure, broken)
}

#[test]
fn plots() {
    let point = |at: u32| (f64::from(at), f64::from(at * at));
    let lines = Lines::new(
        "Over time",
        Axis::new("time", Unit::Seconds),
        Axis::new("size", Unit::Bytes),
    )
    .series("gap", [(1.0, 4e9), (2.0, 3e9), (3.0, f64::NAN), (4.0, 2e9)])
    .band(
        "band",
        [
            (1.0, Estimate::around(2e9, 1e9)),
            (4.0, Estimate::exact(1e9)),
        ],
    )
    .series("none", [(f64::NAN, 1.0)]);
    let many = [1, 2, 24, 25, 2, 1, 1].into_iter().fold(
        Lines::new(
            "Many",
            Axis::new("n", Unit::Count),
            Axis::new("n²", Unit::Number),
        ),
        |lines, count| lines.series(&format!("of {count}"), (0..count).map(point)),
    );
    let named = ["low", "high"].into_iter().zip([2.0, 2.5]).fold(
        Lines::new(
            "Points",
            Axis::new("speed", Unit::MbPerSecond).from_zero(),
            Axis::new("ratio", Unit::Ratio).from_zero(),
        ),
        |lines, (name, ratio)| lines.series(name, [(100.0, ratio)]),
    );
    let bars = Bars::new("Each", "ratio", Unit::Ratio)
        .bar("exact", Estimate::exact(2.5))
        .bar("interval", Estimate::new(3.0, 2.5, 3.75))
        .bar("below", Estimate::exact(-1.0))
        .bar("none", Estimate::exact(f64::NAN))
        .bar("zero", Estimate::exact(0.0));
    let stacks = Bars::new("Parts", "size", Unit::Bytes)
        .parts(["zero", "same", "a name that is too long", "nothing"])
        .coloured([2, 0])
        .stack("one", [1e9, 2e9, 3e8])
        .stack("two", [0.0, f64::NAN, 4e9, -1.0]);
    let histogram = Histogram::new(
        "Sizes",
        Axis::new("size", Unit::Bytes),
        Axis::new("pages", Unit::Count),
        512.0,
    )
    .series("a", [1.0, 0.0, 3.0])
    .series("b", [2.0, 2.0, f64::NAN, 4.0]);
    let plots: [Plot; 6] = [
        lines.into(),
        many.into(),
        named.into(),
        bars.into(),
        stacks.into(),
        histogram.into(),
    ];
    show("plots", &plots.map(marks).concat());
}

#[test]
fn axes() {
    let mut told = String::new();
    for (unit, values) in [
        (Unit::Ratio, [1.2, 3.3]),
        (Unit::Bytes, [0.0, 4e9]),
        (Unit::Count, [1.0, 2.0]),
        (Unit::Number, [7.0, 7.0]),
        (Unit::Number, [0.0, 0.0]),
        (Unit::Number, [-5.0, 5.0]),
        (Unit::Number, [-3.0, -2.0]),
        (Unit::Number, [0.0, 40.0]),
        (Unit::Number, [0.0, 6.000_001]),
        (Unit::Number, [1e-300, 1e300]),
        (Unit::Number, [-1e-290, 1e-285]),
        (Unit::Fraction, [0.5, 0.500_01]),
    ] {
        for axis in [Axis::new("", unit), Axis::new("", unit).from_zero()] {
            let plot: Plot = Lines::new("", Axis::new("", Unit::Number), axis)
                .series("", values.map(|value| (0.0, value)))
                .into();
            let figure = plot.to_figure().into_string();
            let figure = roxmltree::Document::parse(&figure).unwrap();
            let ticks = figure
                .descendants()
                .filter(|it| it.attribute("dy").is_some());
            let ticks: Vec<_> = ticks
                .map(|it| format!("{} at {}", it.text().unwrap(), it.attribute("y").unwrap()))
                .collect();
            writeln!(told, "{unit:?} {values:?}: {}", ticks.join(", ")).unwrap();
        }
    }
    show("axes", &told);
}

proptest! {
    #[test]
    fn nothing_panics_and_all_is_short(bits: u64, half: u64, low: u64) {
        let (value, half, low) = (f64::from_bits(bits), f64::from_bits(half), f64::from_bits(low));
        for unit in UNITS {
            prop_assert!(unit.format(value).chars().count() <= 40);
            prop_assert!(unit.format_estimate(Estimate::around(value, half)).chars().count() <= 80);
            let text = unit.format_estimate(Estimate::new(value, low, half));
            prop_assert!(text.chars().count() <= 120, "{}", text);
        }
    }
}

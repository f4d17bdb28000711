//! Pages and plots: well formed, closed to the outside, inert whatever the data, drawn whatever the numbers.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;
use zmeld_report::{
    cells, Axis, Bars, Column, Document, Estimate, Histogram, Lines, Plot, Section, Style, Table,
    Tone, Unit,
};

const HOSTILE: &str = "</title></style><script>alert(1)</script><img src=x onerror=\"alert(2)\">' \x1b[2J\u{202e}&amp;";

/// A document with the text in every place that takes one.
fn everywhere(text: &str) -> Document {
    let mut table = Table::new(text)
        .column(Column::text(text))
        .column(Column::path("path"))
        .column(Column::bytes("size"));
    table.row(cells![text, text, 1u64]).strong();
    table.note(text);
    let section = plots_of(text, &[(1.0, 2.0), (3.0, 4.0)])
        .into_iter()
        .fold(Section::new(text), |section, plot| section.plot(plot))
        .paragraph(text)
        .advice(Tone::Warning, text)
        .values([(text, text)])
        .list([text])
        .code(text)
        .table(table);
    Document::new(text)
        .lead(text)
        .provenance(text, text)
        .section(section)
}

/// Every kind of plot over the same points.
fn plots_of(name: &str, points: &[(f64, f64)]) -> Vec<Plot> {
    let axis = || Axis::new(name, Unit::Number);
    let bytes = || Axis::new(name, Unit::Bytes);
    let estimates = || {
        points
            .iter()
            .map(|(a, b)| Estimate::new(*a, a.min(*b), a.max(*b)))
    };
    let series = || points.iter().copied();
    let mut plots: Vec<Plot> = vec![
        Bars::new(name, name, Unit::Seconds).into(),
        Lines::new(name, axis(), bytes().from_zero())
            .series(name, series())
            .into(),
        Lines::new(name, axis(), bytes())
            .band(name, points.iter().map(|(a, _)| *a).zip(estimates()))
            .into(),
    ];
    let values = || points.iter().map(|(_, value)| *value);
    let bars = Bars::new(name, name, Unit::Bytes).parts([name, name]);
    plots.push(bars.stack(name, values()).stack(name, []).into());
    let histogram = Histogram::new(name, bytes(), axis(), points.first().map_or(0.0, |it| it.0));
    plots.push(histogram.series(name, values()).series(name, [1.0]).into());
    let bars = Bars::new(name, name, Unit::Ratio);
    plots.push(estimates().fold(bars, |plot, it| plot.bar(name, it)).into());
    plots
}

fn check_figure(figure: &str) {
    let document = roxmltree::Document::parse(figure);
    let document = document.unwrap_or_else(|error| panic!("{error}: {figure}"));
    for attribute in document.descendants().flat_map(|it| it.attributes()) {
        let value = attribute.value();
        let is_drawn =
            attribute.name() == "aria-label" || !value.contains("NaN") && !value.contains("inf");
        assert!(is_drawn, "{value} in {figure}");
    }
}

#[test]
fn a_page_is_valid_and_closed() {
    let html = everywhere("a plain name").to_html();
    let page = scraper::Html::parse_document(&html);
    assert!(page.errors.is_empty(), "{:?}", page.errors);
    assert!(html.starts_with("<!DOCTYPE html><html lang=\"en\">"));
    assert!(html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    for outside in [
        "src=", "<script", "<link", "url(", "@import", "<iframe", "https:",
    ] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(
        html.matches("http:").count(),
        0,
        "an SVG inside HTML needs no namespace"
    );
}

#[test]
fn both_schemes_and_paper_are_there() {
    let html = everywhere("x").to_html();
    assert!(html.contains("@media screen and (prefers-color-scheme:dark)"));
    assert!(html.contains("@media print"));
    let used: std::collections::BTreeSet<_> = html
        .match_indices("var(--")
        .map(|(at, _)| &html[at + 4..at + html[at..].find(')').unwrap()])
        .collect();
    for variable in used {
        assert_eq!(
            html.matches(&format!("{variable}:#")).count(),
            2,
            "{variable} in light and in dark"
        );
    }
}

#[test]
fn hostile_names_are_inert_everywhere() {
    let document = everywhere(HOSTILE);
    let html = document.to_html();
    let page = scraper::Html::parse_document(&html);
    assert!(page.errors.is_empty(), "{:?}", page.errors);
    let select = |selector: &str| {
        page.select(&scraper::Selector::parse(selector).unwrap())
            .count()
    };
    assert_eq!(select("script") + select("img") + select("[onerror]"), 0);
    assert_eq!((select("head title"), select("style")), (1, 1));
    for text in [
        html,
        document.to_markdown(),
        document.to_text(&Style::plain(80)),
    ] {
        assert!(!text.contains('\x1b') && !text.contains('\u{202e}'));
    }
    let markdown = document.to_markdown();
    let outside_code: String = markdown.split("```").step_by(2).collect();
    assert!(
        !outside_code.replace("\\<", "").contains('<'),
        "{outside_code}"
    );
    for plot in plots_of(HOSTILE, &[(1.0, 2.0)]) {
        let figure = plot.to_figure().into_string();
        check_figure(&figure);
        assert!(!figure.contains("<script"));
    }
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        Just(f64::NAN),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(0.0),
        Just(7.0),
        0.0f64..1e6,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_data_can_be_drawn(points in prop::collection::vec((any_number(), any_number()), 0..12), name in ".{0,30}") {
        for plot in plots_of(&name, &points) {
            check_figure(&plot.to_figure().into_string());
        }
    }

    #[test]
    fn any_text_makes_a_valid_page(text in "(?s).{0,60}") {
        let page = scraper::Html::parse_document(&everywhere(&text).to_html());
        prop_assert!(page.errors.is_empty(), "{:?}", page.errors);
    }

    #[test]
    fn any_document_fits_the_terminal(text in "[a-z<&|` ]{0,200}", width in 80usize..140) {
        // Code is shown as it is.
        let document = everywhere(&text);
        for line in document.to_text(&Style::plain(width)).lines().filter(|line| !line.starts_with("    ")) {
            prop_assert!(line.width() <= width, "{line}");
        }
    }
}

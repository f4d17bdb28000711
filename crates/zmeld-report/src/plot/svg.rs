//! What all drawings share: how wide text is, markers, the legend, the axes, the CSS.

use maud::{html, Markup};

use super::scale::Scale;
use crate::palette::SERIES;
use crate::text;

/// The size of text in a drawing.
pub const FONT: f64 = 13.0;
/// The height of a line of text.
pub const LINE: f64 = 18.0;

/// A coordinate: a tenth of a pixel is enough.
pub fn px(value: f64) -> String {
    let value = if value.is_finite() {
        value.clamp(-1e6, 1e6)
    } else {
        0.0
    };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).into()
}

/// How wide a text is about to be. Fonts differ, so this errs on the wide side.
pub fn text_width(text: &str) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '\u{202f}'
            | '\u{a0}' => 0.31,
            'f' | 't' | 'r' | '-' | '(' | ')' | '/' | 'I' => 0.42,
            'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' => 0.92,
            'A'..='Z' | '±' => 0.70,
            c if c.is_ascii() => 0.58,
            c => 0.55 * text::width(c.encode_utf8(&mut [0; 4])).max(1) as f64 + 0.03,
        })
        .sum();
    em * FONT
}

/// The text, shortened in the middle to fit so many pixels.
pub fn fit(label: &str, room: f64) -> String {
    let label = text::running(label);
    let mut columns = text::width(&label);
    let mut short = label.clone();
    while columns > 1 && text_width(&short) > room {
        columns -= 1;
        short = text::shorten(&label, columns).into_owned();
    }
    short
}

/// The class for the colour of a series.
pub fn colour(series: usize) -> String {
    format!("c{}", series % SERIES)
}

/// The class for the dashes of a line.
pub fn dash(series: usize) -> String {
    format!("d{}", series % 5)
}

/// A marker that differs from its neighbours in shape, not only in colour.
pub fn marker(series: usize, x: f64, y: f64, tooltip: &str) -> Markup {
    let r = 4.5;
    let corners = |points: &[(f64, f64)]| -> String {
        let points: Vec<_> = points
            .iter()
            .map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy)))
            .collect();
        points.join(" ")
    };
    let class = format!("mark {}", colour(series));
    let (s, d) = (r * 0.9, r * 1.25);
    html! {
        @match series % 4 {
            0 => circle class=(class) cx=(px(x)) cy=(px(y)) r=(px(r)) { (tip(tooltip)) },
            1 => polygon class=(class) points=(corners(&[(-s, -s), (s, -s), (s, s), (-s, s)])) { (tip(tooltip)) },
            2 => polygon class=(class) points=(corners(&[(0.0, -d), (d, d * 0.8), (-d, d * 0.8)])) { (tip(tooltip)) },
            _ => polygon class=(class) points=(corners(&[(0.0, -d), (d, 0.0), (0.0, d), (-d, 0.0)])) { (tip(tooltip)) },
        }
    }
}

/// A tooltip; nothing for an empty text.
pub fn tip(tooltip: &str) -> Markup {
    html! { @if !tooltip.is_empty() { title { (text::running(tooltip)) } } }
}

/// How a series shows in the legend.
#[derive(Clone, Copy)]
pub enum Key {
    /// A filled square.
    Box,
    /// A piece of the line.
    Line,
}

/// Names of series in rows across the top, and the height they take.
pub fn legend(names: &[String], key: Key, left: f64, width: f64) -> (Markup, f64) {
    if names.is_empty() {
        return (html! {}, 0.0);
    }
    let key_width = if matches!(key, Key::Line) { 28.0 } else { 14.0 };
    let (mut x, mut y) = (left, 0.0);
    let mut placed = Vec::new();
    for (series, name) in names.iter().enumerate() {
        let shown = fit(name, width - left - key_width - 24.0);
        let takes = key_width + 6.0 + text_width(&shown);
        if x > left && x + takes > width - 8.0 {
            (x, y) = (left, y + LINE + 2.0);
        }
        placed.push((series, shown, x, y));
        x += takes + 18.0;
    }
    let markup = html! {
        @for (series, shown, x, y) in &placed {
            @match key {
                Key::Box => rect class=(colour(*series)) x=(px(*x)) y=(px(y + 3.0)) width="12" height="12" rx="2" {},
                Key::Line => {
                    line class=(format!("line {} {}", colour(*series), dash(*series)))
                        x1=(px(*x)) x2=(px(x + 26.0)) y1=(px(y + 9.0)) y2=(px(y + 9.0)) {}
                }
            }
            text x=(px(x + key_width + 6.0)) y=(px(y + 13.5)) { (shown) }
        }
    };
    (markup, y + LINE + 10.0)
}

/// The place that data is drawn in.
#[derive(Clone, Copy)]
pub struct Area {
    /// The left edge.
    pub left: f64,
    /// The right edge.
    pub right: f64,
    /// The upper edge.
    pub top: f64,
    /// The lower edge.
    pub bottom: f64,
}

/// Grid lines and texts below the area. Texts that would run into each other are left out.
pub fn axis_below(scale: &Scale, area: Area, heading: &str) -> Markup {
    let mut free_from = f64::NEG_INFINITY;
    let mut ticks = Vec::new();
    for (x, label) in scale.ticks() {
        let half = text_width(&label) / 2.0;
        let centre = x.min(area.right + 8.0 - half).max(half + 1.0);
        let fits = centre - half >= free_from;
        if fits {
            free_from = centre + half + 8.0;
        }
        ticks.push((x, centre, fits.then_some(label)));
    }
    html! {
        @for (x, centre, label) in &ticks {
            line.grid x1=(px(*x)) x2=(px(*x)) y1=(px(area.top)) y2=(px(area.bottom)) {}
            @if let Some(label) = label {
                text.tick x=(px(*centre)) y=(px(area.bottom + 16.0)) text-anchor="middle" { (label) }
            }
        }
        @if !heading.is_empty() {
            text.axis x=(px(area.right)) y=(px(area.bottom + 34.0)) text-anchor="end" {
                (fit(heading, area.right - 4.0)) " →"
            }
        }
    }
}

/// The height of an axis below, texts included.
pub const AXIS_BELOW: f64 = 42.0;

/// Grid lines and texts to the left of the area; the heading stands above, where it can be read.
pub fn axis_left(scale: &Scale, area: Area, heading: &str, width: f64) -> Markup {
    html! {
        @for (y, label) in scale.ticks() {
            line.grid x1=(px(area.left)) x2=(px(area.right)) y1=(px(y)) y2=(px(y)) {}
            text.tick x=(px(area.left - 6.0)) y=(px(y + 4.5)) text-anchor="end" { (label) }
        }
        @if !heading.is_empty() {
            text.axis x="8" y=(px(area.top - 16.0)) { "↑ " (fit(heading, width - 32.0)) }
        }
    }
}

/// The room that the texts of a left axis take.
pub fn axis_left_width(scale: &Scale) -> f64 {
    scale
        .ticks()
        .iter()
        .map(|(_, label)| text_width(label))
        .fold(16.0, f64::max)
        + 14.0
}

/// The classes that drawings use, in terms of the colour variables.
pub fn css() -> String {
    let mut css = String::from(
        ".zm text{font:13px system-ui,sans-serif;fill:var(--text);font-variant-numeric:tabular-nums}\
         .zm .tick,.zm .axis{fill:var(--quiet)}\
         .zm .grid{stroke:var(--line);stroke-width:1;shape-rendering:crispEdges}\
         .zm .base{stroke:var(--quiet);stroke-width:1;shape-rendering:crispEdges}\
         .zm .whisker{stroke:var(--text);stroke-width:1.5;fill:none}\
         .zm .halo{stroke:var(--page);stroke-width:4;stroke-linejoin:round;fill:none}\
         .zm .mark{stroke:var(--page);stroke-width:1}\
         .zm .line{fill:none;stroke-width:2;stroke-linejoin:round}\
         .zm .band{stroke:none;opacity:.22}\
         .zm .hit{fill:transparent}\
         .zm .d1{stroke-dasharray:7 3}.zm .d2{stroke-dasharray:2 3}\
         .zm .d3{stroke-dasharray:9 3 2 3}.zm .d4{stroke-dasharray:14 4}",
    );
    for at in 0..SERIES {
        css.push_str(&format!(
            ".zm .c{at}{{fill:var(--c{at})}}.zm .line.c{at}{{fill:none;stroke:var(--c{at})}}"
        ));
    }
    css
}

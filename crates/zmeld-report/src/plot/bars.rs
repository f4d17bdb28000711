//! Horizontal bars from zero, each of one value with its interval or of parts that add up.

use maud::html;

use super::scale::Scale;
use super::{colour, Axis, Plot};
use crate::text;
use crate::units::{Estimate, Unit};

/// Horizontal bars, one for each name.
#[derive(Debug, Clone)]
pub struct Bars {
    title: String,
    axis: Axis,
    parts: Vec<String>,
    /// The colour of each part, where that is not its place.
    colours: Vec<usize>,
    /// The part whose value stands beside the bar, if not their sum.
    told: Option<usize>,
    bars: Vec<(String, Vec<Estimate>)>,
}

impl Bars {
    /// A plot without bars; the label says what is measured.
    pub fn new(title: &str, label: &str, unit: Unit) -> Self {
        Bars {
            title: title.into(),
            axis: Axis::new(label, unit).from_zero(),
            parts: Vec::new(),
            colours: Vec::new(),
            told: None,
            bars: Vec::new(),
        }
    }

    /// Names the parts of which each bar is made.
    pub fn parts<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.parts = names.into_iter().map(text::running).collect();
        self
    }

    /// Gives the parts these colours, so that a colour has one meaning on a page.
    pub fn coloured(mut self, colours: impl IntoIterator<Item = usize>) -> Self {
        self.colours = colours.into_iter().collect();
        self
    }

    /// Tells the value of that part beside each bar, not the sum of all.
    pub fn telling(mut self, part: usize) -> Self {
        self.told = Some(part);
        self
    }

    /// Adds a bar: a value, with or without an interval; NaN where there is none.
    pub fn bar(mut self, name: &str, value: Estimate) -> Self {
        self.bars.push((name.into(), vec![value]));
        self
    }

    /// Adds a bar of parts, none below zero; NaN where there is none.
    pub fn stack(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().map(|it| Estimate::exact(it.max(0.0)));
        self.bars.push((name.into(), values.collect()));
        self
    }

    fn shown(&self, values: &[Estimate]) -> String {
        match values {
            [value] if value.has_interval() => self.axis.unit.format_estimate(*value),
            [value] => self.axis.unit.format(value.value),
            parts => {
                if let Some(part) = self.told.and_then(|told| parts.get(told)) {
                    return self.axis.unit.format(part.value);
                }
                let drawn = parts.iter().map(|it| it.value).filter(|it| it.is_finite());
                self.axis.unit.format(drawn.sum())
            }
        }
    }
}

/// Begin and end of each part of a bar.
fn spans(values: &[Estimate]) -> Vec<(f64, f64)> {
    let mut end = 0.0;
    let spans = values.iter().map(|it| {
        let begin = end;
        end += if it.value.is_finite() { it.value } else { 0.0 };
        (begin, end)
    });
    spans.collect()
}

impl From<Bars> for Plot {
    fn from(plot: Bars) -> Plot {
        let ends = plot.bars.iter().flat_map(|(_, values)| {
            let spans = spans(values).into_iter().map(|(_, end)| end);
            spans.chain(values.iter().flat_map(|e| [e.low, e.high]))
        });
        let scale = Scale::new(&plot.axis, ends, (0.0, 100.0));
        let stretch = |one: f64, other: f64| {
            let (one, other) = (scale.at(one), scale.at(other));
            let (from, width) = (one.min(other), (one - other).abs());
            format!("left:{from:.2}%;width:{width:.2}%")
        };
        let name = |part: usize| plot.parts.get(part).map_or("", String::as_str);
        let told = |part: usize, value: f64| match name(part) {
            "" => plot.axis.unit.format(value),
            name => format!("{name}: {}", plot.axis.unit.format(value)),
        };
        // The key names what is drawn.
        let is_drawn = |part: usize| {
            let mut values = plot.bars.iter().filter_map(|(_, values)| values.get(part));
            values.any(|it| it.value.is_finite() && it.value != 0.0)
        };
        let colour = |part: usize| colour(plot.colours.get(part).copied().unwrap_or(part));
        let marks = html! {
            @if !plot.parts.is_empty() {
                ul.zm-key { @for (part, name) in plot.parts.iter().enumerate().filter(|(part, _)| is_drawn(*part)) {
                    li { i class=(colour(part)) {} (name) }
                } }
            }
            table.zm-bars aria-label=(plot.axis.heading()) {
                @for (bar, values) in &plot.bars {
                    tr {
                        th scope="row" { (text::running(bar)) }
                        td.bar { div {
                            @for (part, (value, (from, to))) in values.iter().zip(spans(values)).enumerate() {
                                @if value.value.is_finite() && (from != to || plot.parts.is_empty()) {
                                    i class=(colour(part)) style=(stretch(from, to)) title=(told(part, value.value)) {
                                        (name(part))
                                    }
                                    @if value.has_interval() { b style=(stretch(value.low, value.high)) {} }
                                }
                            }
                        } }
                        td.number { (plot.shown(values)) }
                    }
                }
                tr.axis {
                    td {}
                    td.bar { div { @for (at, label) in scale.ticks() {
                        span style=(format!("left:{at}%")) { (label) }
                    } } }
                    td {}
                }
                tr.axis { td {} td.bar { (plot.axis.heading()) " →" } td {} }
            }
        };
        Plot {
            title: plot.title,
            marks,
        }
    }
}

//! Horizontal bars from zero, with intervals and their values written out.

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
    bars: Vec<(String, Estimate)>,
}

impl Bars {
    /// A plot without bars; the label says what is measured.
    pub fn new(title: &str, label: &str, unit: Unit) -> Self {
        Bars {
            title: title.into(),
            axis: Axis::new(label, unit).from_zero(),
            bars: Vec::new(),
        }
    }

    /// Adds a bar: a value, with or without an interval; NaN where there is none.
    pub fn bar(mut self, name: &str, value: Estimate) -> Self {
        self.bars.push((name.into(), value));
        self
    }
}

impl From<Bars> for Plot {
    fn from(plot: Bars) -> Plot {
        let ends = plot.bars.iter().flat_map(|(_, e)| [e.value, e.low, e.high]);
        let scale = Scale::new(&plot.axis, ends, (0.0, 100.0));
        let stretch = |one: f64, other: f64| {
            let (from, to) = (scale.at(one), scale.at(other));
            format!("left:{:.2}%;width:{:.2}%", from.min(to), (to - from).abs())
        };
        let shown = |value: &Estimate| match value.has_interval() {
            true => plot.axis.unit.format_estimate(*value),
            false => plot.axis.unit.format(value.value),
        };
        let marks = html! {
            table.zm-bars aria-label=(plot.axis.heading()) {
                @for (name, value) in &plot.bars {
                    tr {
                        th scope="row" { (text::running(name)) }
                        td.bar { div { @if value.value.is_finite() {
                            i class=(colour(0)) style=(stretch(0.0, value.value)) {}
                            @if value.has_interval() { b style=(stretch(value.low, value.high)) {} }
                        } } }
                        td.number { (shown(value)) }
                    }
                }
            }
        };
        Plot {
            title: plot.title,
            marks,
        }
    }
}

//! Horizontal bars from zero, one or several to a name, with intervals and their values written out.

use maud::html;

use super::scale::Scale;
use super::{colour, legend, Axis, Plot};
use crate::text;
use crate::units::{Estimate, Unit};

/// Horizontal bars: one for each name, or a group of one for each series.
#[derive(Debug, Clone)]
pub struct Bars {
    title: String,
    axis: Axis,
    series: Vec<String>,
    groups: Vec<(String, Vec<Estimate>)>,
}

impl Bars {
    /// A plot without bars; the label says what is measured.
    pub fn new(title: &str, label: &str, unit: Unit) -> Self {
        Bars {
            title: title.into(),
            axis: Axis::new(label, unit).from_zero(),
            series: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Names the next bar of each group. Without series, a group is one bar.
    pub fn series(mut self, name: &str) -> Self {
        self.series.push(name.into());
        self
    }

    /// Adds a bar of an exact value.
    pub fn bar(self, name: &str, value: f64) -> Self {
        self.group(name, [Estimate::exact(value)])
    }

    /// Adds a bar with an interval.
    pub fn estimate(self, name: &str, value: Estimate) -> Self {
        self.group(name, [value])
    }

    /// Adds a group: a value for each series, NaN where there is none.
    pub fn group(mut self, name: &str, values: impl IntoIterator<Item = Estimate>) -> Self {
        self.groups
            .push((name.into(), values.into_iter().collect()));
        self
    }
}

impl From<Bars> for Plot {
    fn from(bars: Bars) -> Plot {
        let estimates = bars.groups.iter().flat_map(|(_, values)| values);
        let ends = estimates.flat_map(|e| [e.value, e.low, e.high]);
        let scale = Scale::new(&bars.axis, ends, (0.0, 100.0));
        let stretch = |one: f64, other: f64| {
            let (from, to) = (scale.at(one), scale.at(other));
            format!("left:{:.2}%;width:{:.2}%", from.min(to), (to - from).abs())
        };
        let shown = |value: &Estimate| match value.has_interval() {
            true => bars.axis.unit.format_estimate(*value),
            false => bars.axis.unit.format(value.value),
        };
        let marks = html! {
            @if !bars.series.is_empty() {
                (legend(bars.series.iter(), |at| html! { i class=(colour(at)) {} }))
            }
            table.zm-bars aria-label=(bars.axis.heading()) {
                @for (name, values) in &bars.groups {
                    @for (at, value) in values.iter().enumerate() {
                        tr {
                            th scope="row" { @if at == 0 { (text::running(name)) } }
                            td.bar { div { @if value.value.is_finite() {
                                i class=(colour(at)) style=(stretch(0.0, value.value)) {}
                                @if value.has_interval() { b style=(stretch(value.low, value.high)) {} }
                            } } }
                            td.number { (shown(value)) }
                        }
                    }
                }
            }
        };
        Plot {
            title: bars.title,
            marks,
        }
    }
}

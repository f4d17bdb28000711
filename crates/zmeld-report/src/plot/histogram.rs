//! How much lies in each of equally wide ranges, by several series on top of each other.

use maud::html;

use super::frame::Frame;
use super::{colour, Axis, Plot};
use crate::text;

/// Columns side by side, from zero on.
#[derive(Debug, Clone)]
pub struct Histogram {
    title: String,
    x: Axis,
    y: Axis,
    width: f64,
    series: Vec<(String, Vec<f64>)>,
}

impl Histogram {
    /// A plot without series; each range is `width` wide.
    pub fn new(title: &str, x: Axis, y: Axis, width: f64) -> Self {
        Histogram {
            title: title.into(),
            x: x.from_zero(),
            y: y.from_zero(),
            width,
            series: Vec::new(),
        }
    }

    /// Adds a series on top of those before: what lies in each range, the lowest first.
    pub fn series(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        // Non-finite values have no height.
        let values = values
            .into_iter()
            .map(|it| if it.is_finite() { it } else { 0.0 });
        self.series.push((name.into(), values.collect()));
        self
    }
}

impl From<Histogram> for Plot {
    fn from(plot: Histogram) -> Plot {
        let ranges = plot
            .series
            .iter()
            .map(|(_, it)| it.len())
            .max()
            .unwrap_or(0);
        let value = |of: &(String, Vec<f64>), range: usize| of.1.get(range).copied().unwrap_or(0.0);
        let sum = |upto: usize, range: usize| -> f64 {
            plot.series[..upto].iter().map(|of| value(of, range)).sum()
        };
        let edge = |range: usize| range as f64 * plot.width;
        let frame = Frame::new(
            (&plot.x, [edge(ranges)].into_iter()),
            (
                &plot.y,
                (0..ranges).map(|range| sum(plot.series.len(), range)),
            ),
        );
        let told = |name: &str, range: usize, value: f64| {
            let (from, to) = (
                plot.x.unit.format(edge(range)),
                plot.x.unit.format(edge(range + 1)),
            );
            text::running(&format!(
                "{name}, {from} to {to}: {}",
                plot.y.unit.format(value)
            ))
        };
        let key = html! { @for (at, (name, _)) in plot.series.iter().enumerate() {
            li { i class=(colour(at)) {} (text::running(name)) }
        } };
        let marks = html! { @for (at, of) in plot.series.iter().enumerate() { @for range in 0..ranges {
            @let value = value(of, range);
            @if value > 0.0 {
                @let (left, right) = (frame.x.at(edge(range)), frame.x.at(edge(range + 1)));
                @let (low, high) = (frame.y.at(sum(at, range)), frame.y.at(sum(at + 1, range)));
                rect class=(colour(at)) x=(format!("{:.1}", left + 1.0)) y=(format!("{high:.1}"))
                    width=(format!("{:.1}", (right - left - 2.0).max(1.0))) height=(format!("{:.1}", low - high))
                    { title { (told(&of.0, range, value)) } }
            }
        } } };
        frame.plot(&plot.title, key, marks)
    }
}

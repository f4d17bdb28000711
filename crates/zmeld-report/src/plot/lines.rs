//! Lines over time or over a parameter. Intervals are bands; what is missing is a gap, not a bridge.

use maud::{html, Markup};

use super::frame::Frame;
use super::scale::Scale;
use super::{colour, Axis, Plot};
use crate::text;
use crate::units::Estimate;

/// Series with at most so many points have markers, which tell their values.
const MARKERS_MAX: usize = 24;
/// Height of the axis of named points, in times the highest.
const HEADROOM: f64 = 1.08;
/// From there on a point's name stands to its left, in pixels of the plot.
const RIGHT_FROM: f64 = 530.0;

type Points = Vec<(f64, Estimate)>;

/// Several series over one axis.
#[derive(Debug, Clone)]
pub struct Lines {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<(String, Points)>,
}

impl Lines {
    /// A plot without series.
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Lines {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
        }
    }

    /// Adds a series of exact values in the order of x; NaN makes a gap.
    pub fn series(self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter();
        self.band(name, points.map(|(x, y)| (x, Estimate::exact(y))))
    }

    /// Adds a series with an interval around each value.
    pub fn band(mut self, name: &str, points: impl IntoIterator<Item = (f64, Estimate)>) -> Self {
        self.series
            .push((name.into(), points.into_iter().collect()));
        self
    }

    fn draw_series(&self, at: usize, x: &Scale, y: &Scale) -> Markup {
        let (name, points) = &self.series[at];
        let runs: Vec<&[(f64, Estimate)]> = points
            .split(|(px, e)| !px.is_finite() || !e.value.is_finite())
            .filter(|run| !run.is_empty())
            .collect();
        let count: usize = runs.iter().map(|run| run.len()).sum();
        let corner = |at: f64, value: f64| format!("{:.1},{:.1}", x.at(at), y.at(value));
        let outline = |run: &[(f64, Estimate)]| -> String {
            let upper = run.iter().map(|(at, e)| corner(*at, e.high.max(e.value)));
            let lower = run.iter().rev();
            let lower = lower.map(|(at, e)| corner(*at, e.low.min(e.value)));
            upper.chain(lower).collect::<Vec<_>>().join(" ")
        };
        let told = |value_x: f64, e: Estimate| {
            let (value_x, value) = (self.x.unit.format(value_x), self.y.unit.format_estimate(e));
            text::running(&format!("{name}, {value_x}: {value}"))
        };
        html! {
            @for run in &runs {
                @if run.iter().any(|(_, e)| e.has_interval()) {
                    polygon class={ "band " (colour(at)) } points=(outline(run)) {}
                }
                @let corners: Vec<_> = run.iter().map(|(at, e)| corner(*at, e.value)).collect();
                polyline class=(line_class(at)) points=(corners.join(" ")) {}
                @if count <= MARKERS_MAX || run.len() == 1 {
                    @for (value_x, e) in *run {
                        circle class=(colour(at)) r="4"
                            cx=(format!("{:.1}", x.at(*value_x))) cy=(format!("{:.1}", y.at(e.value)))
                            { title { (told(*value_x, *e)) } }
                    }
                }
                @if let (true, [(value_x, e)]) = (self.are_points(), *run) {
                    @let (cx, is_right) = (x.at(*value_x), x.at(*value_x) > RIGHT_FROM);
                    text x=(format!("{:.1}", if is_right { cx - 8.0 } else { cx + 8.0 }))
                        y=(format!("{:.1}", y.at(e.value))) dy="4.5"
                        text-anchor=(if is_right { "end" } else { "start" })
                        { (text::running(name)) }
                }
            }
        }
    }

    /// Whether each series is a point, which has its name beside it.
    fn are_points(&self) -> bool {
        self.series.iter().all(|(_, points)| points.len() == 1)
    }
}

fn line_class(series: usize) -> String {
    format!("line {} d{}", colour(series), series % 5)
}

impl From<Lines> for Plot {
    fn from(lines: Lines) -> Plot {
        let points = || lines.series.iter().flat_map(|(_, points)| points.iter());
        // Names beside points need room above them.
        let room = if lines.are_points() { HEADROOM } else { 1.0 };
        let ends = points().flat_map(|(_, e)| [e.value, e.low, e.high * room]);
        let xs = points().map(|(x, _)| *x);
        let frame = Frame::new((&lines.x, xs), (&lines.y, ends));
        let named = if lines.are_points() {
            &[]
        } else {
            &lines.series[..]
        };
        let key = html! { @for (at, (name, _)) in named.iter().enumerate() {
            li {
                svg viewBox="0 0 26 8" { line class=(line_class(at)) x1="0" x2="26" y1="4" y2="4" {} }
                (text::running(name))
            }
        } };
        let marks = html! { @for at in 0..lines.series.len() {
            (lines.draw_series(at, &frame.x, &frame.y))
        } };
        frame.plot(&lines.title, key, marks)
    }
}

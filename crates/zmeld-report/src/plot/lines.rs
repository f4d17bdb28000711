//! Lines over time or over a parameter. Intervals are bands; what is missing is a gap, not a bridge.

use maud::{html, Markup};

use super::scale::Scale;
use super::{colour, Axis, Plot};
use crate::text;
use crate::units::Estimate;

/// Pixels that a plot is wide, on desktops and paper, and high.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 350.0;
/// Where the axes are, with room for texts beside them.
const LEFT: f64 = 90.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = HEIGHT - 40.0;
/// Series with at most so many points have markers, which tell their values.
const MARKERS_MAX: usize = 24;

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
            }
        }
    }
}

fn line_class(series: usize) -> String {
    format!("line {} d{}", colour(series), series % 5)
}

impl From<Lines> for Plot {
    fn from(lines: Lines) -> Plot {
        let points = || lines.series.iter().flat_map(|(_, points)| points.iter());
        let ends = points().flat_map(|(_, e)| [e.value, e.low, e.high]);
        let y = Scale::new(&lines.y, ends, (BOTTOM, TOP));
        let x = Scale::new(&lines.x, points().map(|(x, _)| *x), (LEFT, RIGHT));
        let key = |at| {
            html! { svg viewBox="0 0 26 8" { line class=(line_class(at)) x1="0" x2="26" y1="4" y2="4" {} } }
        };
        let marks = html! {
            ul.zm-key { @for (at, (name, _)) in lines.series.iter().enumerate() {
                li { (key(at)) (text::running(name)) }
            } }
            svg.zm role="img" aria-label=(text::running(&lines.title)) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
                @for (at, label) in x.ticks() {
                    line.grid x1=(at) x2=(at) y1=(TOP) y2=(BOTTOM) {}
                    text.tick x=(at) y=(BOTTOM + 16.0) text-anchor="middle" { (label) }
                }
                @for (at, label) in y.ticks() {
                    line.grid x1=(LEFT) x2=(RIGHT) y1=(at) y2=(at) {}
                    text.tick x=(LEFT - 6.0) y=(at) dy="4.5" text-anchor="end" { (label) }
                }
                text.axis x=(RIGHT) y=(BOTTOM + 34.0) text-anchor="end" { (lines.x.heading()) " →" }
                text.axis x="8" y=(TOP - 16.0) { "↑ " (lines.y.heading()) }
                @for at in 0..lines.series.len() { (lines.draw_series(at, &x, &y)) }
            }
        };
        Plot {
            title: lines.title,
            marks,
        }
    }
}

//! Lines over time or over a parameter. Intervals are bands; what is missing is a gap, not a bridge.

use maud::{html, Markup};

use super::scale::{can_show, Scale};
use super::svg::{self, px, Area, Key};
use super::{Axis, Plot, WIDTH};
use crate::units::Estimate;

/// Pixels between the axes.
const HEIGHT: f64 = 280.0;
/// Series with at most so many points have markers.
const MARKERS_MAX: usize = 24;
/// Series with at most so many points have tooltips.
const TOOLTIPS_MAX: usize = 200;

/// Several series over one axis.
#[derive(Debug, Clone)]
pub struct Lines {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<(String, Vec<(f64, Estimate)>)>,
}

impl From<Lines> for Plot {
    fn from(lines: Lines) -> Self {
        lines.draw()
    }
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
        self.band(
            name,
            points.into_iter().map(|(x, y)| (x, Estimate::exact(y))),
        )
    }

    /// Adds a series with an interval around each value.
    pub fn band(mut self, name: &str, points: impl IntoIterator<Item = (f64, Estimate)>) -> Self {
        self.series
            .push((name.into(), points.into_iter().collect()));
        self
    }

    fn draw(&self) -> Plot {
        let names: Vec<_> = self.series.iter().map(|(name, _)| name.clone()).collect();
        let (legend, legend_height) = svg::legend(&names, Key::Line, 8.0, WIDTH);
        let top = legend_height + 32.0;
        let points = || self.series.iter().flat_map(|(_, points)| points.iter());
        let ends = points().flat_map(|(_, e)| [e.value, e.low, e.high]);
        let y_scale = Scale::new(&self.y, ends, (HEIGHT / 50.0) as usize);
        let area = Area {
            left: svg::axis_left_width(&y_scale),
            right: WIDTH - 16.0,
            top,
            bottom: top + HEIGHT,
        };
        let y_scale = y_scale.on(area.bottom, area.top);
        let tick_count = ((area.right - area.left) / 60.0) as usize;
        let x_scale =
            Scale::new(&self.x, points().map(|(x, _)| *x), tick_count).on(area.left, area.right);
        let marks = html! {
            (legend)
            (svg::axis_below(&x_scale, area, &self.x.heading()))
            (svg::axis_left(&y_scale, area, &self.y.heading(), WIDTH))
            line.base x1=(px(area.left)) x2=(px(area.right)) y1=(px(area.bottom)) y2=(px(area.bottom)) {}
            @for (at, (name, points)) in self.series.iter().enumerate() {
                (self.draw_series(at, name, points, &x_scale, &y_scale))
            }
        };
        let left_out = points()
            .filter(|(x, e)| !self.can_draw(*x, e.value))
            .count();
        let what = format!(
            "{} lines of {} over {}: {}.",
            names.len(),
            self.y.heading(),
            self.x.heading(),
            names.join(", ")
        );
        let height = area.bottom + svg::AXIS_BELOW;
        Plot::new(&self.title, height, &what, left_out, marks)
    }

    fn can_draw(&self, x: f64, y: f64) -> bool {
        can_show(&self.x, x) && can_show(&self.y, y)
    }

    fn draw_series(
        &self,
        at: usize,
        name: &str,
        points: &[(f64, Estimate)],
        x: &Scale,
        y: &Scale,
    ) -> Markup {
        let runs: Vec<Vec<(f64, Estimate)>> = points
            .split(|(x, e)| !self.can_draw(*x, e.value))
            .filter(|run| !run.is_empty())
            .map(|run| thinned(run, 800))
            .collect();
        let count: usize = runs.iter().map(Vec::len).sum();
        html! {
            @for run in &runs {
                @if run.iter().any(|(_, e)| e.has_interval()) {
                    polygon class=(format!("band {}", svg::colour(at))) points=(band(run, x, y)) {}
                }
            }
            @for run in &runs {
                @let corners: Vec<_> = run.iter().map(|(px_, e)| corner(x.at(*px_), y.at(e.value))).collect();
                polyline class=(format!("line {} {}", svg::colour(at), svg::dash(at))) points=(corners.join(" ")) {}
                @for (value_x, e) in run {
                    @let tooltip = format!("{name}, {}: {}", self.x.unit.format(*value_x), self.y.unit.format_estimate(*e));
                    @if count <= MARKERS_MAX || run.len() == 1 {
                        (svg::marker(at, x.at(*value_x), y.at(e.value), &tooltip))
                    } @else if count <= TOOLTIPS_MAX {
                        circle.hit cx=(px(x.at(*value_x))) cy=(px(y.at(e.value))) r="6" { (svg::tip(&tooltip)) }
                    }
                }
            }
        }
    }
}

fn corner(x: f64, y: f64) -> String {
    format!("{},{}", px(x), px(y))
}

/// The outline of a band: along the upper ends, and back along the lower ones.
fn band(run: &[(f64, Estimate)], x: &Scale, y: &Scale) -> String {
    let end = |end: f64, value: f64| y.at(if end.is_finite() { end } else { value });
    let upper = run
        .iter()
        .map(|(at, e)| corner(x.at(*at), end(e.high, e.value)));
    let lower = run
        .iter()
        .rev()
        .map(|(at, e)| corner(x.at(*at), end(e.low, e.value)));
    upper.chain(lower).collect::<Vec<_>>().join(" ")
}

/// At most about so many points: of each stretch the smallest and the largest, so that peaks stay.
fn thinned(run: &[(f64, Estimate)], count: usize) -> Vec<(f64, Estimate)> {
    if run.len() <= count {
        return run.to_vec();
    }
    let stretch = run.len().div_ceil(count / 2);
    let mut kept = Vec::with_capacity(count);
    for chunk in run.chunks(stretch) {
        let by_value = |a: &&(f64, Estimate), b: &&(f64, Estimate)| a.1.value.total_cmp(&b.1.value);
        let (Some(low), Some(high)) =
            (chunk.iter().min_by(by_value), chunk.iter().max_by(by_value))
        else {
            continue;
        };
        let mut pair = [*low, *high];
        pair.sort_by(|a, b| a.0.total_cmp(&b.0));
        kept.extend(pair);
    }
    kept
}

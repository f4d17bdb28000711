//! Horizontal bars from zero, one or several to a name, with intervals and their values written out.

use maud::{html, Markup};

use super::scale::Scale;
use super::svg::{self, px, Area, Key};
use super::{Axis, Plot, WIDTH};
use crate::text;
use crate::units::{Estimate, Unit};

/// More names than this are counted, not drawn.
const NAMES_MAX: usize = 60;
const BAR: f64 = 16.0;

/// Horizontal bars: one for each name, or a group of one for each series.
#[derive(Debug, Clone)]
pub struct Bars {
    title: String,
    axis: Axis,
    series: Vec<String>,
    groups: Vec<(String, Vec<Estimate>)>,
}

impl From<Bars> for Plot {
    fn from(bars: Bars) -> Self {
        bars.draw()
    }
}

impl Bars {
    /// A plot without bars; the axis label says what is measured.
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

    fn drawn(&self) -> &[(String, Vec<Estimate>)] {
        &self.groups[..self.groups.len().min(NAMES_MAX)]
    }

    fn shown(&self, value: Estimate) -> String {
        match value.has_interval() {
            true => self.axis.unit.format_estimate(value),
            false => self.axis.unit.format(value.value),
        }
    }

    fn draw(&self) -> Plot {
        let width = WIDTH;
        let groups = self.drawn();
        let estimates = || groups.iter().flat_map(|(_, values)| values.iter().copied());
        let widest_value = estimates()
            .map(|value| svg::text_width(&self.shown(value)))
            .fold(0.0, f64::max)
            .min(width * 0.45);
        let names_width = groups
            .iter()
            .map(|(name, _)| svg::text_width(&text::running(name)))
            .fold(0.0, f64::max);
        let left = names_width.min(width * 0.3) + 18.0;
        let right = (width - widest_value - 16.0).max(left + 40.0);
        let (legend, legend_height) = svg::legend(&self.series, Key::Box, 8.0, width);

        let ends = estimates().flat_map(|e| [e.value, e.low, e.high]);
        let tick_count = ((right - left) / 80.0) as usize;
        let scale = Scale::new(&self.axis, ends, tick_count.max(2)).on(left, right);

        let mut y = legend_height + 4.0;
        let top = y;
        let mut marks = Vec::new();
        for (name, values) in groups {
            let middle = y + values.len().max(1) as f64 * BAR / 2.0 + 4.5;
            marks.push(html! {
                text x=(px(left - 10.0)) y=(px(middle)) text-anchor="end" {
                    (svg::fit(name, left - 18.0)) (svg::tip(name))
                }
            });
            for (series, value) in values.iter().enumerate() {
                marks.push(self.bar_at(&scale, name, series, *value, y, right + 8.0));
                y += BAR;
            }
            y += if values.is_empty() { BAR } else { 10.0 };
        }
        let area = Area {
            left,
            right,
            top,
            bottom: y.max(top + BAR),
        };
        let zero = scale.at(0.0);
        let hidden = self.groups.len() - groups.len();
        let bottom = area.bottom + svg::AXIS_BELOW;
        let marks = html! {
            (legend)
            (svg::axis_below(&scale, area, &self.axis.heading()))
            line.base x1=(px(zero)) x2=(px(zero)) y1=(px(area.top)) y2=(px(area.bottom)) {}
            @for mark in &marks { (mark) }
            @if hidden > 0 { text.axis x="8" y=(px(bottom + 8.0)) { "and " (hidden) " more" } }
        };
        let left_out = estimates().filter(|e| !e.value.is_finite()).count();
        let what = format!(
            "Horizontal bars of {} for {} names.",
            self.axis.heading(),
            self.groups.len()
        );
        let height = bottom + if hidden > 0 { 16.0 } else { 0.0 };
        Plot::new(&self.title, height, &what, left_out, marks)
    }

    fn bar_at(
        &self,
        scale: &Scale,
        name: &str,
        series: usize,
        value: Estimate,
        y: f64,
        value_x: f64,
    ) -> Markup {
        let shown = self.shown(value);
        let zero = scale.at(0.0);
        let end = scale.at(value.value);
        let tooltip = match self.series.get(series) {
            Some(series) => format!("{name}, {series}: {shown}"),
            None => format!("{name}: {shown}"),
        };
        let middle = y + BAR / 2.0;
        html! {
            @if value.value.is_finite() {
                rect class=(svg::colour(series)) x=(px(zero.min(end))) y=(px(y + 1.0))
                    width=(px((end - zero).abs().max(0.5))) height=(px(BAR - 2.0)) { (svg::tip(&tooltip)) }
                @if value.has_interval() {
                    @let (low, high) = (scale.at(value.low), scale.at(value.high));
                    @let path = format!("M{0} {2}V{3}M{0} {4}H{1}M{1} {2}V{3}",
                        px(low), px(high), px(middle - 4.0), px(middle + 4.0), px(middle));
                    path.halo d=(path) {}
                    path.whisker d=(path) { (svg::tip(&tooltip)) }
                }
            }
            text x=(px(value_x)) y=(px(middle + 4.5)) { (shown) }
        }
    }
}

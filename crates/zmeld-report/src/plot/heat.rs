//! A matrix in colours, with its numbers where they fit.

use maud::{html, Markup};

use super::svg::{self, px, FONT, LINE};
use super::{describe, Drawing, Frame};
use crate::palette::STEPS;
use crate::units::Unit;

/// Larger matrices are shown in blocks, each the mean of its cells.
const SIDE_MAX: usize = 48;

/// A matrix of values, such as the distances between nodes.
#[derive(Debug, Clone)]
pub struct HeatMap {
    pub(super) title: String,
    unit: Unit,
    rows_label: String,
    columns_label: String,
    rows: Vec<String>,
    columns: Vec<String>,
    values: Vec<Vec<f64>>,
}

impl HeatMap {
    /// A matrix without rows; the labels say what rows and columns are ("from node", "to node").
    pub fn new(title: &str, unit: Unit, rows_label: &str, columns_label: &str) -> Self {
        HeatMap {
            title: title.into(),
            unit,
            rows_label: rows_label.into(),
            columns_label: columns_label.into(),
            rows: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Names the columns.
    pub fn columns<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.columns = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a row; NaN where there is no value.
    pub fn row(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        self.rows.push(name.into());
        self.values.push(values.into_iter().collect());
        self
    }

    /// The matrix as drawn: names and values, in blocks if it is large.
    fn blocks(&self) -> (Vec<String>, Vec<String>, Vec<Vec<f64>>, usize) {
        let width = self
            .values
            .iter()
            .map(Vec::len)
            .max()
            .unwrap_or(0)
            .max(self.columns.len());
        let stride = self.rows.len().max(width).div_ceil(SIDE_MAX).max(1);
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        let rows = (0..self.rows.len())
            .step_by(stride)
            .map(|at| name(&self.rows, at))
            .collect();
        let columns = (0..width)
            .step_by(stride)
            .map(|at| name(&self.columns, at))
            .collect();
        let mean = |top: usize, left: usize| {
            let cells = self.values[top..(top + stride).min(self.values.len())]
                .iter()
                .flat_map(|row| row.iter().skip(left).take(stride))
                .filter(|value| value.is_finite());
            let (sum, count) = cells.fold((0.0, 0usize), |(sum, count), value| {
                (sum + value, count + 1)
            });
            sum / count as f64
        };
        let values = (0..self.rows.len())
            .step_by(stride)
            .map(|top| {
                (0..width)
                    .step_by(stride)
                    .map(|left| mean(top, left))
                    .collect()
            })
            .collect();
        (rows, columns, values, stride)
    }

    pub(super) fn draw(&self, frame: Frame) -> Drawing {
        let width = frame.width();
        let (rows, columns, values, stride) = self.blocks();
        let range = Range::of(&values);
        let names_width = rows
            .iter()
            .map(|name| svg::text_width(&crate::text::running(name)))
            .fold(0.0, f64::max);
        let left = (names_width + 18.0).min(width * 0.35);
        let cell = ((width - left - 12.0) / columns.len().max(1) as f64).min(64.0);
        let cell_height = cell.clamp(4.0, 36.0);
        let top = 3.0 * LINE;
        let bottom = top + cell_height * rows.len() as f64;
        let label_every = |count: usize, room: f64| {
            (0..count).step_by((room / cell.max(0.1)).ceil().max(1.0) as usize)
        };
        let column_room = columns
            .iter()
            .map(|c| svg::text_width(&crate::text::running(c)))
            .fold(0.0, f64::max)
            .min(80.0)
            + 6.0;
        let row_step = (FONT / cell_height).ceil() as usize;
        let text_in = |value: f64| self.unit.format(value);
        let widest = finite(&values)
            .map(|value| svg::text_width(&text_in(value)))
            .fold(0.0, f64::max);
        let numbers_fit = stride == 1 && cell >= widest + 4.0 && cell_height >= LINE;
        let mut heading = format!("↓ {}   → {}", self.rows_label, self.columns_label);
        if stride > 1 {
            heading.push_str(&format!("   (means of {stride} × {stride})"));
        }
        let marks = html! {
            text.axis x="8" y=(px(FONT)) { (svg::fit(&heading, width - 16.0)) }
            @for at in label_every(columns.len(), column_room) {
                text.tick x=(px(left + (at as f64 + 0.5) * cell)) y=(px(top - 7.0)) text-anchor="middle" {
                    (svg::fit(&columns[at], column_room.max(cell) - 4.0))
                }
            }
            @for (at, name) in rows.iter().enumerate() {
                @let y = top + at as f64 * cell_height;
                @if at % row_step.max(1) == 0 {
                    text.tick x=(px(left - 8.0)) y=(px(y + cell_height / 2.0 + 4.5)) text-anchor="end" {
                        (svg::fit(name, left - 12.0))
                    }
                }
                @for (column, value) in values[at].iter().enumerate() {
                    @let x = left + column as f64 * cell;
                    @let shown = text_in(*value);
                    @let class = if value.is_finite() { format!("h{}", range.step(*value)) } else { "none".into() };
                    rect class=(class) x=(px(x)) y=(px(y)) width=(px((cell - 1.0).max(0.5))) height=(px((cell_height - 1.0).max(0.5))) {
                        (svg::tip(&format!("{name}, {}: {shown}", columns[column])))
                    }
                    @if numbers_fit && value.is_finite() {
                        text class=(format!("t{}", range.step(*value))) x=(px(x + cell / 2.0)) y=(px(y + cell_height / 2.0 + 4.5))
                            text-anchor="middle" { (shown) }
                    }
                }
            }
            @if range.low <= range.high { (legend(&text_in(range.low), &text_in(range.high), left, bottom + 12.0)) }
        };
        Drawing {
            height: bottom + 36.0,
            description: self.description(columns.len() * stride, stride),
            marks,
        }
    }

    /// What it shows, in words.
    fn description(&self, columns: usize, stride: usize) -> String {
        let all: usize = self.values.iter().map(Vec::len).sum();
        let shown = finite(&self.values).count();
        let mut what = format!(
            "A matrix of {} rows and {} columns.",
            self.rows.len(),
            columns
        );
        if stride > 1 {
            what.push_str(&format!(
                " Each field is the mean of {stride} by {stride} values."
            ));
        }
        describe(what, all - shown)
    }
}

fn finite(values: &[Vec<f64>]) -> impl Iterator<Item = f64> + '_ {
    let all = values.iter().flatten().copied();
    all.filter(|value| value.is_finite())
}

/// What the colours run between; of no values, `low` is above `high`.
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: &[Vec<f64>]) -> Range {
        Range {
            low: finite(values).fold(f64::INFINITY, f64::min),
            high: finite(values).fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// The colour of a value. Halves, since the difference of two large values is none.
    fn step(&self, value: f64) -> usize {
        let part = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        match part.is_finite() {
            true => ((part * STEPS as f64) as usize).min(STEPS - 1),
            false => STEPS / 2,
        }
    }
}

/// The colours from the lowest value to the highest.
fn legend(low: &str, high: &str, left: f64, y: f64) -> Markup {
    let first = left + svg::text_width(low) + 8.0;
    let last = first + STEPS as f64 * 16.0 + 8.0;
    html! {
        text.tick x=(px(left)) y=(px(y + 11.0)) { (low) }
        @for step in 0..STEPS {
            rect class=(format!("h{step}")) x=(px(first + step as f64 * 16.0)) y=(px(y)) width="16" height="14" {}
        }
        text.tick x=(px(last)) y=(px(y + 11.0)) { (high) }
    }
}

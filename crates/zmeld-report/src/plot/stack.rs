//! One bar cut into parts: what a whole consists of.

use maud::html;

use super::bars::bars_text;
use super::svg::{self, px, LINE};
use super::{describe, Drawing, Frame};
use crate::units::{self, Unit};
use crate::Style;

const BAR: f64 = 34.0;
/// The room for the colour, the value and the share beside a name.
const NUMBERS: f64 = 170.0;

/// One bar in parts, each with its value and its share below.
#[derive(Debug, Clone)]
pub struct Stack {
    pub(super) title: String,
    unit: Unit,
    parts: Vec<(String, f64)>,
}

impl Stack {
    /// A whole without parts.
    pub fn new(title: &str, unit: Unit) -> Self {
        Stack {
            title: title.into(),
            unit,
            parts: Vec::new(),
        }
    }

    /// Adds a part on the right. From the ninth on, colours repeat.
    pub fn part(mut self, name: &str, value: f64) -> Self {
        self.parts.push((name.into(), value));
        self
    }

    /// The parts as shares of the whole; what is no positive number is no part of it.
    fn shares(&self) -> Vec<f64> {
        let sizes: Vec<_> = self
            .parts
            .iter()
            .map(|(_, v)| {
                if v.is_finite() {
                    v.clamp(0.0, 1e290)
                } else {
                    0.0
                }
            })
            .collect();
        let whole: f64 = sizes.iter().sum();
        sizes
            .into_iter()
            .map(|size| if whole > 0.0 { size / whole } else { 0.0 })
            .collect()
    }

    pub(super) fn draw(&self, frame: Frame) -> Drawing {
        let width = frame.width();
        let room = width - 16.0;
        let shares = self.shares();
        let mut x = 8.0;
        let mut placed = Vec::new();
        for ((name, value), share) in self.parts.iter().zip(&shares) {
            placed.push((name, self.unit.format(*value), *share, x));
            x += share * room;
        }
        let names_width = self
            .parts
            .iter()
            .map(|(name, _)| svg::text_width(&crate::text::running(name)))
            .fold(0.0, f64::max);
        let names_fit = names_width <= room / 2.0 - 24.0 - NUMBERS;
        let columns = if frame.is_narrow() || placed.len() < 4 || !names_fit {
            1
        } else {
            2
        };
        let rows = placed.len().div_ceil(columns).max(1);
        let column_width = room / columns as f64;
        let list_top = BAR + 18.0;
        // Values and shares in columns of their own, so that they can be compared by eye.
        let table_width = column_width.min((names_width + NUMBERS + 8.0).max(300.0))
            - if columns > 1 { 24.0 } else { 0.0 };
        let marks = html! {
            rect.none x="8" y="4" width=(px(room)) height=(px(BAR)) rx="3" {}
            @for (at, (name, value, share, x)) in placed.iter().enumerate() {
                @if *share > 0.0 {
                    rect class=(format!("part {}", svg::colour(at))) x=(px(*x)) y="4"
                        width=(px((share * room).max(1.0))) height=(px(BAR))
                    {
                        (svg::tip(&format!("{name}: {value}, {}", units::percent(*share))))
                    }
                }
                @let left = 8.0 + (at / rows) as f64 * column_width;
                @let y = list_top + (at % rows) as f64 * (LINE + 3.0);
                rect class=(svg::colour(at)) x=(px(left)) y=(px(y)) width="12" height="12" rx="2" {}
                text x=(px(left + 20.0)) y=(px(y + 11.0)) { (svg::fit(name, table_width - NUMBERS)) (svg::tip(name)) }
                text x=(px(left + table_width - 64.0)) y=(px(y + 11.0)) text-anchor="end" { (value) }
                text.tick x=(px(left + table_width)) y=(px(y + 11.0)) text-anchor="end" { (units::percent(*share)) }
            }
        };
        let left_out = self
            .parts
            .iter()
            .filter(|(_, value)| !value.is_finite() || *value < 0.0)
            .count();
        let list: Vec<_> = placed
            .iter()
            .map(|(name, value, share, _)| format!("{name} {value} ({})", units::percent(*share)))
            .collect();
        let description = describe(
            format!("One bar in {} parts: {}.", placed.len(), list.join(", ")),
            left_out,
        );
        let height = list_top + rows as f64 * (LINE + 3.0);
        Drawing {
            height,
            description: crate::text::running(&description),
            marks,
        }
    }

    pub(super) fn to_text(&self, style: &Style) -> String {
        let lines: Vec<_> = self
            .parts
            .iter()
            .zip(self.shares())
            .map(|((name, value), share)| {
                (
                    name.clone(),
                    share,
                    format!("{} {:>7}", self.unit.format(*value), units::percent(share)),
                )
            })
            .collect();
        bars_text(&self.title, &lines, style)
    }
}

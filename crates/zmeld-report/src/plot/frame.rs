//! The frame of a drawing over two axes: the grid, its texts, both axes' names, the key.

use maud::{html, Markup};

use super::scale::Scale;
use super::{Axis, Plot};
use crate::text;

/// Pixels that a plot is wide, on desktops and paper, and high.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 350.0;
/// Axes, with room for texts beside them.
const LEFT: f64 = 90.0;
const RIGHT: f64 = WIDTH - 40.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = HEIGHT - 40.0;

/// Two axes with their places on the page.
pub struct Frame<'a> {
    axes: [&'a Axis; 2],
    /// The axis to the right.
    pub x: Scale,
    /// The axis upwards.
    pub y: Scale,
}

impl<'a> Frame<'a> {
    pub fn new(
        (x, xs): (&'a Axis, impl Iterator<Item = f64>),
        (y, ys): (&'a Axis, impl Iterator<Item = f64>),
    ) -> Self {
        Frame {
            axes: [x, y],
            x: Scale::new(x, xs, (LEFT, RIGHT)),
            y: Scale::new(y, ys, (BOTTOM, TOP)),
        }
    }

    /// The plot: what is drawn in the frame, and the key to it.
    pub fn plot(&self, title: &str, key: Markup, marks: Markup) -> Plot {
        let marks = html! {
            @if !key.0.is_empty() { ul.zm-key { (key) } }
            svg.zm role="img" aria-label=(text::running(title)) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
                @for (at, label) in self.x.ticks() {
                    line.grid x1=(at) x2=(at) y1=(TOP) y2=(BOTTOM) {}
                    text."tick x" x=(at) y=(BOTTOM + 16.0) text-anchor="middle" { (label) }
                }
                @for (at, label) in self.y.ticks() {
                    line.grid x1=(LEFT) x2=(RIGHT) y1=(at) y2=(at) {}
                    text.tick x=(LEFT - 6.0) y=(at) dy="4.5" text-anchor="end" { (label) }
                }
                text.axis x=(RIGHT) y=(BOTTOM + 34.0) text-anchor="end" { (self.axes[0].heading()) " →" }
                text."axis up" x="8" y=(TOP - 16.0) { "↑ " (self.axes[1].heading()) }
                (marks)
            }
        };
        Plot {
            title: title.into(),
            marks,
        }
    }
}

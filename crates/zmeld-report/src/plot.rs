//! Plots as SVG elements with CSS classes: right in light and dark, on a phone and on paper, without scripts.
//!
//! Where a page is narrower than a plot, the plot scrolls sideways, so that letters stay readable on a phone. Colours are never the only sign: lines have dashes, markers
//! have shapes, bars have names. Every mark says its exact value in a `<title>`, which browsers show as a tooltip.
//!
//! Data may be anything. What cannot be drawn (NaN, infinities, zero and less on a logarithmic axis) is left out,
//! and the description counts it.

mod bars;
mod lines;
mod scale;
mod svg;

use maud::{html, Markup};

pub use bars::Bars;
pub use lines::Lines;
pub(crate) use svg::css;

use crate::text;
use crate::units::Unit;

/// Pixels that a plot is wide, on desktops and paper.
const WIDTH: f64 = 760.0;

/// What one axis shows and how.
#[derive(Debug, Clone)]
pub struct Axis {
    label: String,
    unit: Unit,
    is_log: bool,
    from_zero: bool,
}

impl Axis {
    /// A linear axis over the range of the data.
    pub fn new(label: &str, unit: Unit) -> Self {
        Axis {
            label: label.into(),
            unit,
            is_log: false,
            from_zero: false,
        }
    }

    /// Powers of ten at equal distances; values of zero and less are left out.
    pub fn log(mut self) -> Self {
        self.is_log = true;
        self
    }

    /// Zero is always on the axis.
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    /// The label with the unit that the ticks do not name.
    fn heading(&self) -> String {
        let label = text::running(&self.label);
        let unit = self.unit.axis_name();
        let scale = if self.is_log { "log scale" } else { "" };
        let remarks: Vec<_> = [unit, scale]
            .into_iter()
            .filter(|remark| !remark.is_empty())
            .collect();
        match remarks.is_empty() {
            true => label,
            false => format!("{label} ({})", remarks.join(", ")),
        }
    }
}

/// A plot that is drawn.
#[derive(Debug, Clone)]
pub struct Plot {
    title: String,
    height: f64,
    /// What it is, in a sentence, and how much of the data could not be drawn.
    description: String,
    marks: Markup,
}

impl Plot {
    fn new(title: &str, height: f64, what: &str, left_out: usize, marks: Markup) -> Plot {
        let what = text::running(what);
        Plot {
            title: text::running(title),
            height,
            description: match left_out {
                0 => what,
                1 => format!("{what} One value cannot be drawn."),
                n => format!("{what} {n} values cannot be drawn."),
            },
            marks,
        }
    }

    /// The plot for a page, with its title.
    pub fn to_figure(&self) -> Markup {
        html! {
            figure.zm-plot {
                figcaption { (self.title) }
                svg.zm role="img" aria-label=(self.title)
                    viewBox=(format!("0 0 {} {}", svg::px(WIDTH), svg::px(self.height)))
                {
                    title { (self.title) }
                    desc { (self.description) }
                    (self.marks)
                }
            }
        }
    }
}

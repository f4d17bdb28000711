//! Plots as SVG elements with CSS classes: right in light and dark, on a phone and on paper, without scripts.
//!
//! Every plot is drawn twice, for a wide and for a narrow [`Frame`], in the same text size; the page shows the one
//! that fits, so that letters stay readable on a phone. Colours are never the only sign: lines have dashes, points
//! have shapes, bars have names. Every mark says its exact value in a `<title>`, which browsers show as a tooltip.
//!
//! Data may be anything. What cannot be drawn (NaN, infinities, zero and less on a logarithmic axis) is left out,
//! and the description counts it.

mod bars;
mod heat;
mod lines;
mod scale;
mod scatter;
mod stack;
mod svg;

use maud::{html, Markup};

pub use bars::Bars;
pub use heat::HeatMap;
pub use lines::Lines;
pub use scatter::Scatter;
pub use stack::Stack;

use crate::units::Unit;
use crate::{text, Style};

/// The size that a plot is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// 760 pixels, for desktops and paper.
    Wide,
    /// 360 pixels, for phones.
    Narrow,
}

impl Frame {
    fn width(self) -> f64 {
        match self {
            Frame::Wide => 760.0,
            Frame::Narrow => 360.0,
        }
    }

    fn is_narrow(self) -> bool {
        self == Frame::Narrow
    }
}

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
        let unit = match self.unit {
            Unit::PerSecond(things) => format!("{things}/s"),
            unit => unit.axis_name().to_string(),
        };
        let scale = if self.is_log { "log scale" } else { "" };
        let remarks: Vec<_> = [unit.as_str(), scale]
            .into_iter()
            .filter(|remark| !remark.is_empty())
            .collect();
        match remarks.is_empty() {
            true => label,
            false => format!("{label} ({})", remarks.join(", ")),
        }
    }
}

/// Any plot.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Plot {
    /// Horizontal bars, alone or in groups, with intervals.
    Bars(Bars),
    /// One bar in parts: what a whole consists of.
    Stack(Stack),
    /// Named points.
    Scatter(Scatter),
    /// Lines over time or over a parameter, with bands.
    Lines(Lines),
    /// A matrix.
    HeatMap(HeatMap),
}

impl From<Bars> for Plot {
    fn from(plot: Bars) -> Self {
        Plot::Bars(plot)
    }
}

impl From<Stack> for Plot {
    fn from(plot: Stack) -> Self {
        Plot::Stack(plot)
    }
}

impl From<Scatter> for Plot {
    fn from(plot: Scatter) -> Self {
        Plot::Scatter(plot)
    }
}

impl From<Lines> for Plot {
    fn from(plot: Lines) -> Self {
        Plot::Lines(plot)
    }
}

impl From<HeatMap> for Plot {
    fn from(plot: HeatMap) -> Self {
        Plot::HeatMap(plot)
    }
}

impl Plot {
    /// The title as given.
    pub fn title(&self) -> &str {
        match self {
            Plot::Bars(plot) => &plot.title,
            Plot::Stack(plot) => &plot.title,
            Plot::Scatter(plot) => &plot.title,
            Plot::Lines(plot) => &plot.title,
            Plot::HeatMap(plot) => &plot.title,
        }
    }

    /// The drawing, its height, and what it shows in a sentence.
    fn draw(&self, frame: Frame) -> Drawing {
        match self {
            Plot::Bars(plot) => plot.draw(frame),
            Plot::Stack(plot) => plot.draw(frame),
            Plot::Scatter(plot) => plot.draw(frame),
            Plot::Lines(plot) => plot.draw(frame),
            Plot::HeatMap(plot) => plot.draw(frame),
        }
    }

    /// The plot for a page: title, and the drawing for wide and for narrow screens.
    pub fn to_figure(&self) -> Markup {
        let title = text::running(self.title());
        html! {
            figure.zm-plot {
                figcaption { (title) }
                @for frame in [Frame::Wide, Frame::Narrow] {
                    @let drawing = self.draw(frame);
                    svg class=(if frame.is_narrow() { "zm narrow" } else { "zm wide" }) role="img" aria-label=(title)
                        viewBox=(format!("0 0 {} {}", svg::px(frame.width()), svg::px(drawing.height)))
                    {
                        title { (title) }
                        desc { (drawing.description) }
                        (drawing.marks)
                    }
                }
            }
        }
    }

    /// The plot as a file of its own, with its title and colours, light and dark.
    pub fn to_svg(&self, frame: Frame) -> String {
        let title = text::running(self.title());
        let drawing = self.draw(frame);
        let mut lines = svg::wrap(&title, frame.width() - 16.0, 1.15);
        lines.truncate(3);
        let head = lines.len() as f64 * 20.0 + 8.0;
        let (width, height) = (svg::px(frame.width()), svg::px(drawing.height + head + 4.0));
        let markup = html! {
            svg.zm xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(title)
                width=(width) height=(height) viewBox=(format!("0 0 {width} {height}"))
            {
                title { (title) }
                desc { (drawing.description) }
                style { (svg::standalone_css()) }
                rect.page x="0" y="0" width=(width) height=(height) {}
                @for (at, line) in lines.iter().enumerate() {
                    text.title x="8" y=(svg::px(20.0 + at as f64 * 20.0)) { (line) }
                }
                g transform=(format!("translate(0 {})", svg::px(head))) { (drawing.marks) }
            }
        };
        markup.into_string()
    }

    /// The plot in characters, where that says enough: bars. Empty for the others, whose numbers belong in a table.
    pub fn to_text(&self, style: &Style) -> String {
        match self {
            Plot::Bars(plot) => plot.to_text(style),
            Plot::Stack(plot) => plot.to_text(style),
            Plot::Scatter(_) | Plot::Lines(_) | Plot::HeatMap(_) => String::new(),
        }
    }
}

/// What a plot draws into its frame.
struct Drawing {
    height: f64,
    description: String,
    marks: Markup,
}

/// The description of a plot: what it is, and how much of the data could not be drawn.
fn describe(what: String, left_out: usize) -> String {
    match left_out {
        0 => what,
        1 => format!("{what} One value cannot be drawn."),
        n => format!("{what} {n} values cannot be drawn."),
    }
}

/// The CSS that plots need, apart from the colour variables.
pub(crate) fn css() -> String {
    svg::css()
}

/// The colour variables of a scheme.
pub(crate) fn variables(palette: &crate::palette::Palette) -> String {
    svg::variables(palette)
}

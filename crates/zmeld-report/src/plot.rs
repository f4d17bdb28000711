//! Plots of a page: right in light and dark, on a phone and on paper, without scripts.
//!
//! Colours are never the only sign: lines have dashes, bars have names and their values. Data may
//! be anything. Values that cannot be drawn (NaN, infinities) are left out.

mod bars;
mod frame;
mod histogram;
mod lines;
mod scale;

use maud::{html, Markup};

pub use bars::Bars;
pub use histogram::Histogram;
pub use lines::Lines;

use crate::palette::SERIES;
use crate::text;
use crate::units::Unit;

#[derive(Debug, Clone)]
pub struct Axis {
    label: String,
    unit: Unit,
    from_zero: bool,
}

impl Axis {
    /// A linear axis over the range of the data.
    pub fn new(label: &str, unit: Unit) -> Self {
        Axis {
            label: label.into(),
            unit,
            from_zero: false,
        }
    }

    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    fn heading(&self) -> String {
        text::running(&self.label)
    }
}

#[derive(Debug, Clone)]
pub struct Plot {
    title: String,
    marks: Markup,
}

impl Plot {
    /// The plot for a page, with its title.
    pub fn to_figure(&self) -> Markup {
        html! { figure.zm-plot { figcaption { (text::running(&self.title)) } (self.marks) } }
    }
}

/// The class for the colour of a series.
fn colour(series: usize) -> String {
    format!("c{}", series % SERIES)
}

/// The classes that drawings use, in terms of the colour variables. In a bar the name of a part that
/// is too narrow for it wraps, below what comes before it, to where it is not seen.
pub(crate) fn css() -> String {
    let mut css = String::from(
        "figure{margin:1.5rem 0;max-width:760px;overflow-x:auto}\
         figcaption{font-weight:600;margin-bottom:.5rem}\
         .zm-key{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;font-size:.85rem}\
         .zm-key svg{width:26px;height:8px;margin-right:.4rem}\
         .zm-key i{display:inline-block;width:.8em;height:.8em;margin-right:.4rem}\
         .zm-bars{width:100%}.zm-bars th{text-align:right}.zm-bars tr>*{border:0}\
         .zm-bars .bar{width:66%;min-width:10rem}\
         @media screen and (min-width:601px){.zm-bars th{white-space:nowrap}}\
         .zm-bars .bar div{position:relative;height:1.4rem}\
         .zm-bars i,.zm-bars b{position:absolute;top:0;bottom:0;min-width:1px}\
         .zm-bars i{display:flex;flex-wrap:wrap;overflow:hidden;text-indent:.4rem;\
         font:600 .8rem/1.4rem system-ui,sans-serif;color:var(--page);white-space:nowrap}\
         .zm-bars i::before{content:'';height:100%}\
         .zm-bars .axis{font-size:.8rem;color:var(--quiet)}.zm-bars .axis td{padding-top:0;padding-bottom:0;text-align:right}\
         .zm-bars .axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}\
         .zm-bars b{top:.4rem;bottom:.4rem;background:var(--text);outline:1px solid var(--page)}\
         svg.zm{display:block;width:100%;min-width:600px;height:auto;overflow:visible}\
         .zm text{font:13px system-ui,sans-serif;fill:var(--text);font-variant-numeric:tabular-nums}\
         .zm .tick,.zm .axis{fill:var(--quiet)}\
         .zm .grid{stroke:var(--line);stroke-width:1;shape-rendering:crispEdges}\
         .line{fill:none;stroke-width:2;stroke-linejoin:round}\
         .band{opacity:.22}\
         .d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 3}\
         .d3{stroke-dasharray:9 3 2 3}.d4{stroke-dasharray:14 4}\
         @media screen and (max-width:600px){figure{overflow-x:visible}\
         svg.zm{min-width:0}.zm text{font-size:20px}\
         .zm .tick:not(.x){transform:translateY(-7px)}.zm .up{transform:translateY(-14px)}\
         .zm .x{transform:translateY(5px)}.zm .axis:not(.up){transform:translateY(13px)}\
         .zm .x:nth-of-type(even),.zm-bars .axis span:nth-child(even){display:none}\
         .zm-bars tr{display:grid;grid-template-columns:1fr auto}.zm-bars .bar{width:auto}\
         .zm-bars th{grid-column:1/-1;text-align:left}.zm-bars .axis td:first-child{display:none}}",
    );
    for at in 0..SERIES {
        css.push_str(&format!(
            ".c{at}{{fill:var(--c{at})}}i.c{at}{{background:var(--c{at})}}.line.c{at}{{fill:none;stroke:var(--c{at})}}"
        ));
    }
    css
}

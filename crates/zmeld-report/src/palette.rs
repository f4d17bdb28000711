//! Colours for light and dark, as CSS variables: one place.
//!
//! The series colours start from Okabe and Ito's set ("Color Universal Design", 2008), darkened
//! for light pages and lightened for dark ones until each has at least 3:1 against the page,
//! which WCAG 2.1 asks of graphics (1.4.11), and moved apart until no two look alike to anyone:
//! at least 18 apart in CIELAB, also as protanopes and deuteranopes see them (Machado, Oliveira
//! and Fernandes 2009, severity 1). Text has 4.5:1 against the page and against boxes.

/// How many series have a colour of their own; further ones start again.
pub const SERIES: usize = 8;

/// The colours of one scheme.
pub struct Palette {
    /// The page.
    pub page: &'static str,
    /// Boxes on the page.
    pub raised: &'static str,
    /// Text.
    pub text: &'static str,
    /// Text that steps back: axis labels, notes.
    pub quiet: &'static str,
    /// Grid lines and borders.
    pub line: &'static str,
    /// Good news.
    pub good: &'static str,
    /// A warning.
    pub warning: &'static str,
    /// One for each series.
    pub series: [&'static str; SERIES],
}

/// For light pages and for print.
pub const LIGHT: Palette = Palette {
    page: "#ffffff",
    raised: "#f4f6f8",
    text: "#1b2127",
    quiet: "#56616c",
    line: "#d5dbe1",
    good: "#00735a",
    warning: "#a54a00",
    series: [
        "#0065a4", "#e96f00", "#036d58", "#bc6e95", "#6d5600", "#418de9", "#597846", "#5a2bb0",
    ],
};

/// For dark pages.
pub const DARK: Palette = Palette {
    page: "#12161b",
    raised: "#1b2128",
    text: "#e6eaee",
    quiet: "#a0abb6",
    line: "#343d47",
    good: "#35c79f",
    warning: "#f0a04b",
    series: [
        "#47b8fa", "#ff8f40", "#38c080", "#e682bd", "#f0e341", "#3f73c1", "#dce4c0", "#9f69ff",
    ],
};

impl Palette {
    /// The scheme as CSS declarations.
    pub fn css(&self) -> String {
        let mut css = format!(
            "--page:{};--raised:{};--text:{};--quiet:{};--line:{};--good:{};--warning:{}",
            self.page, self.raised, self.text, self.quiet, self.line, self.good, self.warning
        );
        for (at, colour) in self.series.iter().enumerate() {
            css.push_str(&format!(";--c{at}:{colour}"));
        }
        css
    }
}

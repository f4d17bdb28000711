//! Colours for light and dark, as CSS variables: one place, checked for contrast and for colour-blind readers.
//!
//! The series colours start from Okabe and Ito's set ("Color Universal Design", 2008), darkened for light pages and
//! lightened for dark ones until each has at least 3:1 against the page, which WCAG 2.1 asks of graphics (1.4.11),
//! and moved apart until no two look alike to anyone.

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Red, green and blue as light, 0 to 1.
    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap_or(0)) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    /// The contrast ratio of WCAG 2.1 between two colours.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour: &str| {
            let [r, g, b] = linear(colour);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// How the colour-blind see light: Machado, Oliveira and Fernandes (2009), severity 1.
    const PROTANOPIA: [[f64; 3]; 3] = [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ];
    const DEUTERANOPIA: [[f64; 3]; 3] = [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ];
    const NORMAL: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

    fn lab(light: [f64; 3]) -> [f64; 3] {
        let [r, g, b] = light.map(|v| v.clamp(0.0, 1.0));
        let xyz = [
            (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
            0.2126 * r + 0.7152 * g + 0.0722 * b,
            (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
        ];
        let [x, y, z] = xyz.map(|t| {
            if t > 0.008856 {
                t.cbrt()
            } else {
                7.787 * t + 16.0 / 116.0
            }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn seen(colour: &str, eye: [[f64; 3]; 3]) -> [f64; 3] {
        let light = linear(colour);
        lab(eye.map(|row| row.iter().zip(light).map(|(m, v)| m * v).sum()))
    }

    #[test]
    fn everything_stands_out_from_the_page() {
        for palette in [LIGHT, DARK] {
            for colour in palette.series {
                assert!(
                    contrast(colour, palette.page) >= 3.0,
                    "{colour} on {}",
                    palette.page
                );
            }
            for colour in [palette.text, palette.quiet, palette.good, palette.warning] {
                for ground in [palette.page, palette.raised] {
                    assert!(contrast(colour, ground) >= 4.5, "{colour} on {ground}");
                }
            }
        }
    }

    #[test]
    fn colour_blind_readers_can_tell_series_apart() {
        for (name, palette) in [("light", LIGHT), ("dark", DARK)] {
            for eye in [NORMAL, PROTANOPIA, DEUTERANOPIA] {
                for (at, one) in palette.series.iter().enumerate() {
                    for other in &palette.series[at + 1..] {
                        let (a, b) = (seen(one, eye), seen(other, eye));
                        let distance = a
                            .iter()
                            .zip(b)
                            .map(|(a, b)| (a - b).powi(2))
                            .sum::<f64>()
                            .sqrt();
                        assert!(distance > 18.0, "{name}: {one} {other}: {distance:.1}");
                    }
                }
            }
        }
    }
}

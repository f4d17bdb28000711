//! How text may look on the terminal, decided once from the terminal and the environment. It is UTF-8 everywhere.

/// Width and colour that text output may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns; no line is longer, unless a single number is.
    pub width: usize,
    /// Whether escape sequences for bold and colour are allowed.
    pub colour: bool,
}

/// Lines narrower than this are not attempted.
const WIDTH_MIN: usize = 20;
/// Paragraphs wider than this are tiring to read; tables may be wider.
const PARAGRAPH_WIDTH_MAX: usize = 100;

impl Style {
    /// Without colour, so many columns wide.
    pub fn plain(width: usize) -> Self {
        Style {
            width: width.max(WIDTH_MIN),
            colour: false,
        }
    }

    /// The style for an output: whether it is a terminal, how many columns that has if known, and the environment.
    ///
    /// - Colour needs a terminal that is not `dumb` and an unset or empty `NO_COLOR`; `CLICOLOR_FORCE` (set, not `0`)
    ///   colours pipes too. `NO_COLOR` wins.
    /// - The width is the terminal's, else `COLUMNS`, else 80.
    ///
    /// ```
    /// use std::io::IsTerminal;
    /// let style = zmeld_report::Style::from_env(
    ///     std::io::stdout().is_terminal(), None, |name| std::env::var(name).ok());
    /// ```
    pub fn from_env(
        is_terminal: bool,
        columns: Option<usize>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let able = is_terminal && set("TERM").is_none_or(|term| term != "dumb");
        let width = columns
            .or_else(|| set("COLUMNS").and_then(|columns| columns.parse().ok()))
            .filter(|columns| *columns > 0)
            .unwrap_or(80);
        Style {
            width: width.max(WIDTH_MIN),
            colour: (able || forced) && set("NO_COLOR").is_none(),
        }
    }

    /// The width to which paragraphs are wrapped.
    pub fn paragraph_width(&self) -> usize {
        self.width.min(PARAGRAPH_WIDTH_MAX)
    }

    /// The text in bold, where that is allowed.
    pub fn bold(&self, text: &str) -> String {
        self.escape("1", text)
    }

    /// The text in a quiet colour, where that is allowed.
    pub fn dim(&self, text: &str) -> String {
        self.escape("2", text)
    }

    /// The text in the colour of good news, where that is allowed.
    pub fn good(&self, text: &str) -> String {
        self.escape("32", text)
    }

    /// The text in the colour of a warning, where that is allowed.
    pub fn warning(&self, text: &str) -> String {
        self.escape("33", text)
    }

    fn escape(&self, code: &str, text: &str) -> String {
        match self.colour && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(is_terminal: bool, columns: Option<usize>, variables: &[(&str, &str)]) -> Style {
        Style::from_env(is_terminal, columns, |name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn colour_needs_a_terminal_and_consent() {
        assert!(style(true, None, &[]).colour);
        assert!(style(true, None, &[("NO_COLOR", "")]).colour);
        assert!(!style(true, None, &[("NO_COLOR", "1")]).colour);
        assert!(!style(true, None, &[("TERM", "dumb")]).colour);
        assert!(!style(false, None, &[]).colour);
        assert!(style(false, None, &[("CLICOLOR_FORCE", "1")]).colour);
        assert!(!style(true, None, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).colour);
    }

    #[test]
    fn width_falls_back_to_80() {
        assert_eq!(style(true, Some(132), &[("COLUMNS", "90")]).width, 132);
        assert_eq!(style(false, None, &[("COLUMNS", "90")]).width, 90);
        assert_eq!(style(false, None, &[("COLUMNS", "wide")]).width, 80);
        assert_eq!(style(true, Some(0), &[]).width, 80);
        assert_eq!(style(true, Some(3), &[]).width, WIDTH_MIN);
    }
}

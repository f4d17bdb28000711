//! Text that is safe and fits: visible control characters, display width, wrapping, shortening.

use std::borrow::Cow;

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
pub use zmeld_linux::text::{inert, inert_lines};

/// Running text: white space of every kind becomes one space, the rest as [`inert`].
pub fn running(text: &str) -> String {
    let words: Vec<_> = text
        .split([' ', '\t', '\n', '\r'])
        .filter(|word| !word.is_empty())
        .collect();
    inert(&words.join(" ")).into_owned()
}

/// Columns that the text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Columns of the widest of these texts.
pub fn widest(texts: impl IntoIterator<Item = impl AsRef<str>>) -> usize {
    let widths = texts.into_iter().map(|text| width(text.as_ref()));
    widths.max().unwrap_or(0)
}

/// Running text in lines of at most `width` columns. Hyphens do not break words; only a word
/// that is longer than a line is broken.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    wrap_into(&mut lines, &together(text), width, width);
    let apart = |line: String| line.replace("\u{a0}%", " %");
    let lines = lines.into_iter().map(apart);
    lines
        .map(|it| it.trim_end_matches('\u{a0}').to_owned())
        .collect()
}

/// The text with percent signs that stay with their numbers.
pub(crate) fn together(text: &str) -> String {
    let mut parts = text.split(" %");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_number = out.ends_with(|it: char| it.is_ascii_digit());
        out.push_str(if is_of_number { "\u{a0}%" } else { " %" });
        out.push_str(part);
    }
    out
}

/// The same at `at` columns, and at fewer where that is too wide: the library adds up the widths
/// of characters, and a sequence of them (of emoji) may be wider.
fn wrap_into(lines: &mut Vec<String>, text: &str, width: usize, at: usize) {
    let options = Options::new(at.max(1))
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(true);
    for line in textwrap::wrap(text, options) {
        match line.width() > width && at > 1 {
            true => wrap_into(lines, &line, width, at - 1),
            false => lines.push(line.into_owned()),
        }
    }
}

/// The text cut out in the middle so that it takes at most `width` columns; both ends of a path tell
/// most, and its last name is whole where that fits.
pub fn shorten(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let room = width.saturating_sub(1);
    let last = text.rfind('/').map_or(0, |at| text[at..].width());
    let tail_room = match last > room {
        true => room - room / 2,
        false => last.max(room - room / 2),
    };
    let head = prefix(text, room - tail_room);
    let places = text.char_indices().rev().map(|(at, _)| &text[at..]);
    let tail = last_that_fits(places, tail_room);
    Cow::Owned(if width == 0 {
        String::new()
    } else {
        format!("{head}…{tail}")
    })
}

/// As many of the characters as fit in `width` columns.
pub fn prefix(text: &str, width: usize) -> &str {
    let places = text
        .char_indices()
        .map(|(at, c)| &text[..at + c.len_utf8()]);
    last_that_fits(places, width)
}

/// Of ever longer texts the last before one is too wide: a sequence of characters may be wider than
/// they are one by one.
fn last_that_fits<'a>(texts: impl Iterator<Item = &'a str>, width: usize) -> &'a str {
    texts
        .take_while(|it| it.width() <= width)
        .last()
        .unwrap_or("")
}

/// A sparkline: a character for each value, a point for nothing and bars up to `top`; a blank where
/// there is none.
pub fn spark(values: impl IntoIterator<Item = f64>, top: f64) -> String {
    let levels = (LEVELS.len() - 1) as f64;
    let values = values.into_iter();
    let drawn = values.map(|value| match (value / top * levels).ceil() {
        _ if !value.is_finite() => ' ',
        // Nothing of nothing.
        level if level.is_nan() => LEVELS[0].0,
        level => LEVELS[level.clamp(0.0, levels) as usize].0,
    });
    drawn.collect()
}

/// A sparkline's characters, and what stands for them where there is ASCII alone.
const LEVELS: [(char, char); 8] = [
    ('·', '_'),
    ('▂', '.'),
    ('▃', ':'),
    ('▄', '-'),
    ('▅', '='),
    ('▆', '+'),
    ('▇', '*'),
    ('█', '#'),
];

/// The text for a terminal that has ASCII alone, as wide as it was.
pub fn ascii(text: &str) -> String {
    let one = |c: char| match c {
        _ if c.is_ascii() => c,
        '–' | '─' => '-',
        '•' => '*',
        '…' => '~',
        '\u{202f}' => ' ',
        _ => LEVELS
            .iter()
            .find(|(level, _)| *level == c)
            .map_or('?', |it| it.1),
    };
    let parts = text.chars().map(|c| match c.width() {
        Some(width) => one(c).to_string().repeat(width),
        None => c.to_string(),
    });
    parts.collect()
}

/// A text as Markdown that GitHub shows literally; `code` in single backticks stays code.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (part, is_code) in code_spans(text) {
        // In code a backslash is literal, so that one before a bar cannot be told from one that escapes it: no code then.
        if is_code && !part.contains("\\|") {
            out.push_str(&format!("`{}`", part.replace('|', "\\|")));
            continue;
        }
        for c in part.chars() {
            if matches!(
                c,
                '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&'
            ) {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out
}

/// The text in pieces, each with whether it stood between two backticks. A backtick without a partner is text.
pub fn code_spans(text: &str) -> Vec<(&str, bool)> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('`') {
        let Some(length) = rest[open + 1..].find('`').filter(|length| *length > 0) else {
            break;
        };
        pieces.push((&rest[..open], false));
        pieces.push((&rest[open + 1..open + 1 + length], true));
        rest = &rest[open + length + 2..];
    }
    pieces.push((rest, false));
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// One character (U+17D8) takes three columns, more than any other.
        #[test]
        fn no_line_is_too_long(text in "\\PC{0,200}", width in 3usize..60) {
            for line in wrap(&running(&text), width) {
                prop_assert!(line.width() <= width);
            }
        }

        #[test]
        fn shortened_fits(text in "\\PC{0,80}", width in 0usize..40) {
            prop_assert!(shorten(&text, width).width() <= width);
        }
    }
}

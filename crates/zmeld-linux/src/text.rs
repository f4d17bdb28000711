//! Other people's text: names of processes, files, groups and devices, which
//! any user chooses, on their way to somebody else's terminal.

use std::borrow::Cow;

/// The text with every character that could steer a terminal or reorder a line
/// made visible.
///
/// Control characters become their Unicode pictures (`␛`); others that act
/// without being seen (C1 controls, direction marks and overrides, byte order
/// marks, tags, what XML forbids) become U+FFFD.
pub fn inert(text: &str) -> Cow<'_, str> {
    made_visible(text, visible)
}

/// [`inert`] for text of several lines: line ends and tabs stay.
pub fn inert_lines(text: &str) -> Cow<'_, str> {
    made_visible(text, |c| match c {
        '\n' | '\t' => c,
        c => visible(c),
    })
}

/// Whether a character acts on a terminal or on its neighbours.
pub fn acts(c: char) -> bool {
    visible(c) != c
}

fn made_visible(text: &str, replaced: impl Fn(char) -> char) -> Cow<'_, str> {
    if text.chars().all(|c| replaced(c) == c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(replaced).collect())
}

fn visible(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{fffe}'
        | '\u{ffff}'
        | '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        _ => c,
    }
}

/// Bytes as text; what is neither text nor white space becomes a question mark.
pub fn made_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| match c {
            '\n' | '\t' | ' ' => c,
            c if c.is_control() => '?',
            c => c,
        })
        .collect()
}

/// As much of a text as a message can hold, in one line.
pub fn short(text: &str) -> String {
    const MAX: usize = 60;
    let line = text.replace(['\n', '\t'], " ");
    if line.chars().count() <= MAX {
        return line;
    }
    let mut cut: String = line.chars().take(MAX).collect();
    cut.push_str("...");
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_made_visible() {
        assert_eq!(inert("a\x1b[31mb\nc\x7f"), "a␛[31mb␊c␡");
        assert_eq!(inert("x\u{202e}y\u{9b}"), "x\u{fffd}y\u{fffd}");
        assert_eq!(inert_lines("a\x1b\tb\nc\r"), "a␛\tb\nc␍");
        assert!(matches!(inert("größe 名 👩\u{200d}🔬"), Cow::Borrowed(_)));
    }

    #[test]
    fn nothing_that_acts_is_left() {
        for c in (0..=char::MAX as u32).filter_map(char::from_u32) {
            let text = c.to_string();
            let shown = inert(&text);
            assert!(!shown.chars().any(|c| c.is_control() || acts(c)), "{c:?}");
            assert_eq!(inert(&shown), shown);
        }
    }
}

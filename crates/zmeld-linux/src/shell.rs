//! Words of a POSIX shell: written so that a command can be pasted, and read from
//! files of variables.

use std::path::Path;

/// A word as a shell takes it, quoted where it has to be. `shlex` would quote `=`, `,`
/// and `%`, of which commands for the kernel are full, and double every backslash of a
/// name in `/dev/disk/by-label`.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A path as a shell takes it, and a command takes for no option.
pub fn path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let before = if text.starts_with('-') { "./" } else { "" };
    word(&format!("{before}{text}"))
}

/// The words of a line, quotes and a comment taken off; none where a quote is open.
pub fn words(line: &str) -> Option<Vec<String>> {
    shlex::split(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_back_from_a_shell_as_it_was() {
        assert_eq!(word("/dev/disk/by-uuid/12"), "/dev/disk/by-uuid/12");
        assert_eq!(word("level=3,dict=50%"), "level=3,dict=50%");
        assert_eq!(word(""), "''");
        assert_eq!(path(Path::new("-a'b.gz")), r"'./-a'\''b.gz'");
        for text in ["a b", "it's", "$HOME `id` \\", "\"!\"", "#", "~", "a\nb"] {
            let line = word(text);
            assert_eq!(words(&line), Some(vec![text.to_owned()]), "{line}");
        }
        let both = "a'b\"c$d!e";
        assert_eq!(words(&word(both)), Some(vec![both.to_owned()]));
    }

    #[test]
    fn comments_and_open_quotes_are_no_words() {
        let said = words("ALGO=\"zstd\"  # slower").unwrap();
        assert_eq!(said, ["ALGO=zstd"]);
        assert_eq!(words("ALGO=\"zstd"), None);
    }
}

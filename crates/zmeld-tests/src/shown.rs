//! Text held against what it was.

use std::fs;
use std::path::Path;

/// Holds what is shown against what was, in a file of the crate's tests: cargo runs them in the
/// crate's folder. With ZMELD_SHOW=1 it is written there, to be read before it is kept.
pub fn shown(file: &str, now: &str) {
    let file = Path::new("tests").join(file);
    if std::env::var_os("ZMELD_SHOW").is_some() {
        fs::write(&file, now).unwrap();
    }
    let was = fs::read_to_string(&file).unwrap();
    let mut lines = now.lines().zip(was.lines()).enumerate();
    let other = lines.find(|(_, (now, was))| now != was);
    assert_eq!(other, None, "{}, counted from 0", file.display());
    assert_eq!(
        now.lines().count(),
        was.lines().count(),
        "{}",
        file.display()
    );
}

/// The first paragraph of a comment as tables of the manual have it: in one line, begun small, but
/// for a name, and without its period.
pub fn in_table(comment: &str) -> String {
    let line = comment.split("\n\n").next().unwrap_or_default();
    let line = line.trim_end_matches('.').replace('\n', " ");
    let (first, rest) = line.split_at(1);
    match rest.starts_with(|next: char| next == ' ' || next.is_lowercase()) {
        true => first.to_lowercase() + rest,
        false => line,
    }
}

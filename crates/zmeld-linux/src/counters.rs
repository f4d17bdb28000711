//! The kernel's files with a name and a number a line: `/proc/vmstat`, a control
//! group's `memory.stat` and `memory.events`, `/proc/PID/status` where it counts.

/// The names and numbers, in the file's order; a line that is none is passed over.
pub fn parse(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

/// The number behind a name, 0 where there is none.
pub fn count(text: &str, wanted: &str) -> u64 {
    value(text, wanted).unwrap_or(0)
}

/// The number behind a name; none where there is no such line.
pub fn value(text: &str, wanted: &str) -> Option<u64> {
    parse(text).find_map(|(name, value)| (name == wanted).then_some(value))
}

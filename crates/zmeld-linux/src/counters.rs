//! The kernel's files with a name and a number a line: `/proc/vmstat`, a control
//! group's `memory.stat` and `memory.events`, `/proc/PID/status` where it counts.

/// The names and numbers, in the file's order; a line that is none is passed over.
pub fn parse(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

/// The number behind a name; none where there is no such line.
pub fn value(text: &str, wanted: &str) -> Option<u64> {
    parse(text).find_map(|(name, value)| (name == wanted).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_count_nothing_are_passed_over() {
        let text = "pswpin 12\nnr_dirty x\n\npswpout  7 \n";
        let all: Vec<_> = parse(text).collect();
        assert_eq!(all, [("pswpin", 12), ("pswpout", 7)]);
        assert_eq!(value(text, "pswpout"), Some(7));
        assert_eq!((value(text, "nr_dirty"), value(text, "psw")), (None, None));
    }
}

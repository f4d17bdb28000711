//! Stalls: `/proc/pressure/*`, and `memory.pressure` and its like of a control group.

/// A line of such a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall<'a> {
    /// Who waited: `some` of the tasks, or the `full` number of them.
    pub kind: &'a str,
    /// Percent of the last 10, 60 and 300 seconds.
    pub averages_percent: [f64; 3],
    /// Microseconds since boot.
    pub total_us: u64,
}

/// The lines; one that is none, or has a share that is none, is passed over.
pub fn parse(text: &str) -> impl Iterator<Item = Stall<'_>> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.split_once(' ')?;
        let field = |name: &str| {
            rest.split_whitespace()
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let share = |name: &str| {
            let value: f64 = field(name)?.parse().ok()?;
            (0.0..=100.0).contains(&value).then_some(value)
        };
        Some(Stall {
            kind,
            averages_percent: [share("avg10")?, share("avg60")?, share("avg300")?],
            total_us: field("total")?.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_out_of_range_are_passed_over() {
        let text = "some avg10=1.50 avg60=0.25 avg300=0.00 total=377718\n\
                    full avg10=0.50 avg60=0.00 avg300=0.00 total=294927\n";
        let all: Vec<_> = parse(text).collect();
        let some = Stall {
            kind: "some",
            averages_percent: [1.5, 0.25, 0.0],
            total_us: 377_718,
        };
        assert_eq!(all[0], some);
        assert_eq!((all[1].kind, all[1].total_us), ("full", 294_927));
        for wrong in [
            "",
            "some",
            "some avg10=nan avg60=0 avg300=0 total=1",
            "some avg10=101 avg60=0 avg300=0 total=0",
            "some avg10=1 avg60=0 avg300=0 total=-1",
        ] {
            assert_eq!(parse(wrong).count(), 0, "{wrong}");
        }
    }
}

//! Stalls: `/proc/pressure/*`, and `memory.pressure` and its like of a control group.

use serde::Serialize;

/// Shares of time that tasks waited for memory, from `/proc/pressure/memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks waited at once.
    pub full: Stall,
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Stall {
    /// Percent of the last 10 seconds.
    pub avg10_percent: f64,
    /// Percent of the last minute.
    pub avg60_percent: f64,
    /// Percent of the last 5 minutes.
    pub avg300_percent: f64,
    /// Microseconds since boot.
    pub total_us: u64,
}

impl Pressure {
    /// Reads a pressure file's text; `None` where it is none.
    pub fn parse(text: &str) -> Option<Pressure> {
        Some(Pressure {
            some: line(text, "some")?,
            // CPU pressure had no such line in its first years.
            full: line(text, "full").unwrap_or_default(),
        })
    }
}

/// The first line of that kind, `some` or `full`.
pub fn line(text: &str, kind: &str) -> Option<Stall> {
    parse(text).find_map(|(found, stall)| (found == kind).then_some(stall))
}

/// The lines, each with its kind: `some` of the tasks waited, or the `full` number of
/// them. One that is none, or has a share that is none, is passed over.
pub fn parse(text: &str) -> impl Iterator<Item = (&str, Stall)> {
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
        let stall = Stall {
            avg10_percent: share("avg10")?,
            avg60_percent: share("avg60")?,
            avg300_percent: share("avg300")?,
            total_us: field("total")?.parse().ok()?,
        };
        Some((kind, stall))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_out_of_range_are_passed_over() {
        let text = "some avg10=1.50 avg60=0.25 avg300=0.00 total=377718\n\
                    full avg10=0.50 avg60=0.00 avg300=0.00 total=294927\n";
        let found = Pressure::parse(text).unwrap();
        let some = Stall {
            avg10_percent: 1.5,
            avg60_percent: 0.25,
            avg300_percent: 0.0,
            total_us: 377_718,
        };
        assert_eq!((found.some, found.full.total_us), (some, 294_927));
        for wrong in [
            "",
            "some",
            "some avg10=nan avg60=0 avg300=0 total=1",
            "some avg10=101 avg60=0 avg300=0 total=0",
            "some avg10=1 avg60=0 avg300=0 total=-1",
        ] {
            assert_eq!(Pressure::parse(wrong), None, "{wrong}");
        }
    }
}

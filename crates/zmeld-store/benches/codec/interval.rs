//! What bounds of a figure say of a bar.

use serde::Serialize;

/// Whether the bar is met, by the whole interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Met,
    Undecided,
    Missed,
}

impl Verdict {
    /// From the bounds.
    pub fn of(at_most: f64, low: f64, high: f64) -> Verdict {
        if high <= at_most {
            Verdict::Met
        } else if low <= at_most {
            Verdict::Undecided
        } else {
            Verdict::Missed
        }
    }

    /// In tables.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Undecided => "undecided",
            Verdict::Missed => "missed",
        }
    }
}

//! Results as documents: what `zmeld numa` prints, and its HTML pages. Each command has a file of its own; here is
//! what they share.

use crate::scenario::Scenario;
use zmeld_report::statistics::mean::Interval;
use zmeld_report::{Cell, Document, Estimate};

pub mod compare;
pub mod lists;
pub mod run;
pub mod study;

pub(crate) fn estimate(interval: Interval) -> Estimate {
    Estimate::around(interval.value, interval.half_width)
}

pub(crate) fn share(interval: Interval) -> Estimate {
    estimate(interval.scaled(0.01))
}

pub(crate) fn cell(interval: Interval) -> Cell {
    Cell::from(estimate(interval))
}

pub(crate) fn provenance(document: Document, scenario: &Scenario) -> Document {
    document
        .provenance("machine", scenario.case.machine.to_string())
        .provenance("scenario", scenario.name.as_str())
        .provenance("seed", scenario.seed.to_string())
        .provenance("replications", scenario.replications.to_string())
        .provenance("zmeld", env!("CARGO_PKG_VERSION"))
}

//! Results as documents: what `zmeld numa` prints, and its HTML pages. Each command has a file of its own; here is
//! what they share.

use crate::scenario::Scenario;
use zmeld_report::statistics::mean::{relative_width, Interval};
use zmeld_report::{units, Cell, Document, Estimate};

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

/// What every result is, told first; `load` is what runs.
pub(crate) fn simulated(load: &str) -> String {
    format!(
        "For research: no memory of this machine is moved. A simulation of published \
         page-migration policies, with a scheduler modelled on that of Linux 2.6 and {load}."
    )
}

pub(crate) fn load(scenario: &Scenario) -> String {
    let workload = &scenario.case.workload;
    let size = units::count_real(workload.size_kb.mean());
    format!("{} processes of {size} KB", workload.processes)
}

/// Replications that the study is judged with, and that others are held against.
pub(crate) const REPLICATIONS_USUAL: u64 = 200;

/// How many times narrower an interval of so many replications would be with the usual number;
/// none where they are as many.
pub(crate) fn narrower(replications: u64) -> Option<f64> {
    let is_less = (2..REPLICATIONS_USUAL).contains(&replications);
    is_less.then(|| relative_width(replications) / relative_width(REPLICATIONS_USUAL))
}

pub(crate) fn provenance(document: Document, scenario: &Scenario) -> Document {
    document
        .provenance("machine", scenario.case.machine.to_string())
        .provenance("scenario", scenario.name.as_str())
        .provenance("seed", scenario.seed.to_string())
        .provenance("zmeld", env!("CARGO_PKG_VERSION"))
}

//! Findings as lines of an outcome.

#![allow(dead_code)] // Not every crate of tests has a use for all of it.

use zmeld_config::Finding;
use zmeld_tests::script::Outcome;

pub fn of_findings(found: &[Finding]) -> Outcome {
    let line = |it: &Finding| {
        let about = format!("{} {} {}", it.name(), it.severity.name(), it.about);
        format!("{about}: {} ({}); {}", it.what, it.why, it.remedy)
    };
    found.iter().map(line).collect()
}

pub fn of_problems(problems: &[Finding]) -> Vec<String> {
    let line = |it: &Finding| {
        let warning = it.name();
        format!("{:?}[{warning}] {it}", it.severity)
    };
    problems.iter().map(line).collect()
}

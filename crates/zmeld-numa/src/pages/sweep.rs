//! A sweep: its points as a table, and what the swept values change.

use crate::replicate::METRICS;
use crate::sweep::{shown, PointResult, SweepResults};
use zmeld_report::plot::{Axis, Lines};
use zmeld_report::{Cell, Column, Document, Plot, Section, Table, Unit};

use super::{cell, estimate};

/// A sweep: one table, and a plot where one axis is of numbers.
pub fn sweep(results: &SweepResults) -> Document {
    let mut table = Table::new("Points");
    for axis in &results.axes {
        table = table.column(Column::text(axis).names_row());
    }
    table = table
        .column(Column::text("policy").names_row())
        .column(Column::seconds("total time").with_interval())
        .column(Column::percent("saved").with_interval())
        .column(Column::percent("local accesses").with_interval());
    let mut names = METRICS.iter().map(|(name, _)| *name);
    let local = names.position(|name| name == "local_share").unwrap_or(0);
    for point in &results.points {
        for (index, policy) in results.policies.iter().enumerate() {
            let mut row: Vec<Cell> = point.values.iter().map(|v| Cell::from(shown(v))).collect();
            row.push(Cell::from(policy.as_str()));
            row.push(cell(point.results[index][0].scaled(0.001)));
            row.push(cell(point.gains[index]));
            row.push(cell(point.results[index][local]));
            table.row(row);
        }
    }
    let mut section = Section::new("").table(table);
    for plot in sweep_plots(results) {
        section = section.plot(plot);
    }
    Document::new("zmeld numa sweep")
        .lead(format!(
            "{} points, {} policies.",
            results.points.len(),
            results.policies.len()
        ))
        .section(section)
        .provenance("zmeld", env!("CARGO_PKG_VERSION"))
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|i| i as f64))
}

/// The time saved over the base, or where there is one policy, its time: a curve over one axis
/// of numbers.
fn sweep_plots(results: &SweepResults) -> Vec<Plot> {
    let alone = results.policies.len() == 1;
    let base = results.policies[0];
    let (title, axis, unit) = match alone {
        true => (
            format!("Total time under {base}"),
            "total time",
            Unit::Seconds,
        ),
        false => (format!("Time saved over {base}"), "saved", Unit::Fraction),
    };
    let value = |point: &PointResult, policy: usize| match alone {
        true => estimate(point.results[policy][0].scaled(0.001)),
        false => estimate(point.gains[policy]),
    };
    // The base saves nothing over itself.
    let policies = usize::from(!alone)..results.policies.len();
    match &results.axes[..] {
        [only]
            if results
                .points
                .iter()
                .all(|it| number(&it.values[0]).is_some()) =>
        {
            let mut lines = Lines::new(
                &title,
                Axis::new(only, Unit::Number),
                Axis::new(axis, unit).from_zero(),
            );
            for policy in policies {
                let points = results.points.iter().map(|point| {
                    let x = number(&point.values[0]).unwrap_or(f64::NAN);
                    (x, value(point, policy))
                });
                lines = lines.band(results.policies[policy].as_str(), points);
            }
            vec![lines.into()]
        }
        _ => Vec::new(),
    }
}

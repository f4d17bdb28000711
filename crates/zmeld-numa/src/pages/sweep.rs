//! A sweep: its points as a table, and what the swept values change.

use crate::replicate::metric;
use crate::sweep::{shown, PointResult, SweepResults};
use zmeld_report::plot::{Axis, Bars, Lines};
use zmeld_report::{Cell, Column, Document, Estimate, Plot, Section, Table, Unit};

use super::{cell, estimate, kept, Page};

/// A sweep: one table, and a plot where one axis is of numbers.
pub fn sweep(results: &SweepResults) -> Page {
    let mut plots = Vec::new();
    let mut table = Table::new("Points");
    for axis in &results.axes {
        table = table.column(Column::text(axis).names_row());
    }
    table = table
        .column(Column::text("policy").names_row())
        .column(Column::seconds("total time").with_interval())
        .column(Column::percent("saved").with_interval())
        .column(Column::percent("local accesses").with_interval());
    let local = metric("local_share").unwrap_or(0);
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
        section = section.plot(kept(&mut plots, plot));
    }
    let document = Document::new("zmeld numa sweep")
        .lead(format!(
            "{} points, {} policies.",
            results.points.len(),
            results.policies.len()
        ))
        .section(section)
        .provenance("zmeld", env!("CARGO_PKG_VERSION"));
    Page { document, plots }
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|i| i as f64))
}

/// What the swept values change along one axis: a curve over numbers, bars over words.
fn sweep_plots(results: &SweepResults) -> Vec<Plot> {
    let of = Plotted::of(results);
    let is_number = |point: &PointResult| number(&point.values[0]).is_some();
    match &results.axes[..] {
        [only] if results.points.iter().all(is_number) => vec![of.curve(only)],
        [_] => vec![of.bars()],
        _ => Vec::new(),
    }
}

/// What is plotted of each point: the time saved over the base, or where there is one policy, its time.
struct Plotted<'a> {
    results: &'a SweepResults,
    title: String,
    axis: &'static str,
    unit: Unit,
    alone: bool,
    /// Policies: the base saves nothing over itself, and is left out.
    shown: Vec<usize>,
}

impl Plotted<'_> {
    fn of(results: &SweepResults) -> Plotted<'_> {
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
        Plotted {
            results,
            title,
            axis,
            unit,
            alone,
            shown: (usize::from(!alone)..results.policies.len()).collect(),
        }
    }

    fn value(&self, point: &PointResult, policy: usize) -> Estimate {
        estimate(match self.alone {
            true => point.results[policy][0].scaled(0.001),
            false => point.gains[policy],
        })
    }

    fn curve(&self, axis: &str) -> Plot {
        let mut lines = Lines::new(
            &self.title,
            Axis::new(axis, Unit::Number),
            Axis::new(self.axis, self.unit).from_zero(),
        );
        for &policy in &self.shown {
            let points = self.results.points.iter().map(|point| {
                let x = number(&point.values[0]).unwrap_or(f64::NAN);
                (x, self.value(point, policy))
            });
            lines = lines.band(self.results.policies[policy].as_str(), points);
        }
        lines.into()
    }

    fn bars(&self) -> Plot {
        let mut bars = Bars::new(&self.title, self.axis, self.unit);
        if self.shown.len() > 1 {
            for &policy in &self.shown {
                bars = bars.series(self.results.policies[policy].as_str());
            }
        }
        for point in &self.results.points {
            let name = shown(&point.values[0]);
            let policies = self.shown.iter();
            let values: Vec<Estimate> = policies.map(|&policy| self.value(point, policy)).collect();
            bars = match values[..] {
                [only] => bars.estimate(&name, only),
                _ => bars.group(&name, values),
            };
        }
        bars.into()
    }
}

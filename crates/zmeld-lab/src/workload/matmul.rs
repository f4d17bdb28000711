//! Multiplication of two square matrices, in naive order, as the study of zram
//! ran it, and with inverted indices: filled and walked column first, so that
//! neighbouring accesses are a row apart.
//!
//! The result is verified by Freivalds' method: with a random vector of signs r,
//! C r must equal A (B r).

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::content::mix;
use super::report::{WorkloadError, WorkloadReport};

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matmul {
    /// Rows and columns.
    pub n: usize,
    /// The order in which elements are visited.
    #[serde(default)]
    pub order: VisitOrder,
    /// Values in the matrices.
    #[serde(default)]
    pub values: MatrixValues,
}

/// The order in which elements are visited.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum VisitOrder {
    /// Row by row.
    #[default]
    Rows,
    /// Column by column of matrices that lie row by row in memory.
    Inverted,
}

/// Values in the matrices.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum MatrixValues {
    /// Whole numbers from 0 to 99, as most such programs fill in; they compress well.
    #[default]
    Whole,
    /// All 52 bits of the fraction random: hardly compressible.
    Random,
}

impl Matmul {
    /// Three matrices of doubles.
    pub(super) fn bytes(&self) -> u64 {
        3 * 8 * (self.n as u64).pow(2)
    }

    pub(super) fn describe(&self) -> String {
        let order = match self.order {
            VisitOrder::Rows => "row order",
            VisitOrder::Inverted => "inverted indices",
        };
        let values = match self.values {
            MatrixValues::Whole => "whole numbers from 0 to 99 (compress well)",
            MatrixValues::Random => "random fractions (hardly compress)",
        };
        format!(
            "two {0} x {0} matrices of doubles multiplied, {order}; data: {values}",
            self.n
        )
    }

    fn element(&self, matrix: u64, at: usize) -> f64 {
        let drawn = mix((matrix << 56) ^ at as u64);
        match self.values {
            MatrixValues::Whole => (drawn % 100) as f64,
            MatrixValues::Random => (drawn >> 12) as f64 / (1u64 << 52) as f64,
        }
    }

    fn filled(&self, matrix: u64) -> Vec<f64> {
        let n = self.n;
        let mut elements = vec![0.0; n * n];
        for a in 0..n {
            for b in 0..n {
                let at = match self.order {
                    VisitOrder::Rows => a * n + b,
                    VisitOrder::Inverted => b * n + a,
                };
                elements[at] = self.element(matrix, at);
            }
        }
        elements
    }

    pub(super) fn run(&self) -> Result<WorkloadReport, WorkloadError> {
        let n = self.n;
        if n == 0 {
            return Err(WorkloadError::Settings(
                "a matrix needs at least one row".into(),
            ));
        }
        let begin = Instant::now();
        let (a, b) = (self.filled(1), self.filled(2));
        let mut c = vec![0.0; n * n];
        let product = |row: usize, column: usize| -> f64 {
            (0..n).map(|k| a[row * n + k] * b[k * n + column]).sum()
        };
        for outer in 0..n {
            for inner in 0..n {
                let (row, column) = match self.order {
                    VisitOrder::Rows => (outer, inner),
                    VisitOrder::Inverted => (inner, outer),
                };
                c[row * n + column] = product(row, column);
            }
        }
        let measured_s = begin.elapsed().as_secs_f64();
        self.verify(&a, &b, &c)?;
        let flops = 2.0 * (n as f64).powi(3);
        Ok(WorkloadReport {
            measured_s,
            figures: [("mflop_per_s".to_owned(), flops / measured_s / 1e6)].into(),
            verified: true,
        })
    }

    fn verify(&self, a: &[f64], b: &[f64], c: &[f64]) -> Result<(), WorkloadError> {
        let n = self.n;
        let signs: Vec<f64> = (0..n)
            .map(|at| {
                if mix(99 ^ at as u64) & 1 == 0 {
                    1.0
                } else {
                    -1.0
                }
            })
            .collect();
        let times = |matrix: &[f64], vector: &[f64]| -> Vec<f64> {
            matrix
                .chunks_exact(n)
                .map(|row| row.iter().zip(vector).map(|(x, y)| x * y).sum())
                .collect()
        };
        let (left, right) = (times(c, &signs), times(a, &times(b, &signs)));
        // Whole numbers are exact; rounding of the others grows with the number of terms.
        let largest = (0..n).map(|at| c[at].abs()).fold(1.0, f64::max);
        let tolerance = match self.values {
            MatrixValues::Whole => 0.0,
            MatrixValues::Random => largest * n as f64 * 1e-13,
        };
        let wrong = left
            .iter()
            .zip(&right)
            .position(|(x, y)| (x - y).abs() > tolerance || x.is_nan());
        match wrong {
            None => Ok(()),
            Some(row) => Err(WorkloadError::Wrong(format!(
                "row {row} of the product is wrong"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_multiply_and_a_flipped_bit_is_seen() {
        for order in [VisitOrder::Rows, VisitOrder::Inverted] {
            for values in [MatrixValues::Whole, MatrixValues::Random] {
                let matmul = Matmul {
                    n: 37,
                    order,
                    values,
                };
                assert!(matmul.run().unwrap().verified);
                let (a, b) = (matmul.filled(1), matmul.filled(2));
                let wrong = vec![1.0; 37 * 37];
                assert!(matmul.verify(&a, &b, &wrong).is_err());
            }
        }
    }
}

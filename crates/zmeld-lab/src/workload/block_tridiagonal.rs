//! A block-tridiagonal solver in the manner of NPB BT: five coupled unknowns in
//! each cell of an n x n x n grid, brought to a steady state by implicit steps
//! that are split into sweeps along x, y and z. Each line of a sweep is a
//! tridiagonal system of 5x5 blocks.
//!
//! The equation is ∂u/∂t = Σ (δ²u - a M δu) + f, in units of the grid, with a
//! weak coupling M and a velocity a that differs from cell to cell; f is chosen
//! so that a known u* is its steady state exactly, also after discretisation.
//! One step solves (I - τLx)(I - τLy)(I - τLz) Δu = τ(Lu + f) (Beam and Warming,
//! 1976). Memory is that of NPB 3.4: u, right-hand side, forcing and six
//! coefficients, 21 doubles a cell, 11.4 GB for class D's 408³ cells.
//!
//! Verified is, at the end, the distance from u*.

use std::time::Instant;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::report::{WorkloadError, WorkloadReport};

/// Unknowns in a cell.
const N: usize = 5;
/// Coefficients in a cell: velocity and diffusivity along x, y, z.
const COEFFICIENTS: usize = 6;
type Block = [[f64; N]; N];
type Cell = [f64; N];

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockTridiagonal {
    /// Cells along an edge; NPB's classes: S 12, W 24, A 64, B 102, C 162, D 408.
    pub n: usize,
    /// Steps.
    pub iterations: usize,
    /// Threads; 0 is one for each processor.
    #[serde(default)]
    pub threads: usize,
}

/// A field as one plane for each k; in a plane, rows j of cells i.
type Field = Vec<Vec<f64>>;

struct Solver {
    n: usize,
    tau: f64,
    u: Field,
    rhs: Field,
    forcing: Field,
    coefficients: Field,
}

/// A step brings the error down to at most this share of it, on any grid (0.58 for the slowest wave alone).
const CONTRACTION_MAX: f64 = 0.8;

impl BlockTridiagonal {
    /// 21 doubles a cell.
    pub(super) fn bytes(&self) -> u64 {
        (3 * N + COEFFICIENTS) as u64 * 8 * (self.n as u64).pow(3)
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "block-tridiagonal solver in the manner of NPB BT, {0}x{0}x{0} cells of 5 unknowns, {1} steps, \
             verified; data: smooth fields of doubles (random low bits, like exponents)",
            self.n, self.iterations
        )
    }

    pub(super) fn run(&self) -> Result<WorkloadReport, WorkloadError> {
        if self.n < 3 || self.iterations == 0 {
            return Err(WorkloadError::Settings(
                "a grid needs at least 3 cells along an edge, and one step".into(),
            ));
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .build()
            .map_err(|err| WorkloadError::Settings(format!("{} threads: {err}", self.threads)))?;
        pool.install(|| self.solve())
    }

    fn solve(&self) -> Result<WorkloadReport, WorkloadError> {
        let mut solver = Solver::new(self.n);
        let begin = Instant::now();
        for _ in 0..self.iterations {
            solver.step();
        }
        let measured_s = begin.elapsed().as_secs_f64();
        let error = solver.error();
        let bound = CONTRACTION_MAX.powi(self.iterations as i32) + 1e-9;
        // A comparison that NaN fails as well.
        if !matches!(error.partial_cmp(&bound), Some(std::cmp::Ordering::Less)) {
            return Err(WorkloadError::Wrong(format!(
                "the solution is {error:.3e} from the known one, and may be {bound:.3e}"
            )));
        }
        let cells = (self.n as f64).powi(3) * self.iterations as f64;
        Ok(WorkloadReport {
            measured_s,
            figures: [
                ("cells_per_s".to_owned(), cells / measured_s),
                ("relative_error".to_owned(), error),
            ]
            .into(),
            verified: true,
        })
    }
}

/// The coupling of the unknowns by the velocity.
fn coupling() -> Block {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| match row.abs_diff(column) {
            0 => 0.3,
            1 => 0.2,
            _ => 0.05,
        })
    })
}

impl Solver {
    fn new(n: usize) -> Solver {
        let field = |width: usize| -> Field { (0..n).map(|_| vec![0.0; n * n * width]).collect() };
        let mut solver = Solver {
            n,
            // So that the slowest wave decays fastest: τλ = 1/3 along each axis.
            tau: (n as f64 / std::f64::consts::PI).powi(2) / 3.0,
            u: field(N),
            rhs: field(N),
            forcing: field(N),
            coefficients: field(COEFFICIENTS),
        };
        let velocity = 5.0 / (n * n) as f64;
        solver
            .coefficients
            .par_iter_mut()
            .enumerate()
            .for_each(|(k, plane)| {
                for (at, cell) in plane.chunks_exact_mut(COEFFICIENTS).enumerate() {
                    let place = [at % n, at / n, k].map(|x| x as f64 / n as f64);
                    for axis in 0..3 {
                        cell[axis] = velocity * (1.0 + 0.5 * (7.0 * place[axis]).sin());
                        cell[3 + axis] = 1.0 + 0.1 * (5.0 * place[(axis + 1) % 3]).cos();
                    }
                }
            });
        // The forcing from the known solution; u then starts at zero.
        solver.u.par_iter_mut().enumerate().for_each(|(k, plane)| {
            for (at, cell) in plane.chunks_exact_mut(N).enumerate() {
                cell.copy_from_slice(&known_solution(n, at % n, at / n, k));
            }
        });
        let applied: Field = (0..n).into_par_iter().map(|k| solver.applied(k)).collect();
        for (to, from) in solver.forcing.iter_mut().zip(&applied) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = -from;
            }
        }
        for plane in &mut solver.u {
            plane.fill(0.0);
        }
        solver
    }

    /// L u in a plane; outside the grid u is zero.
    fn applied(&self, k: usize) -> Vec<f64> {
        let n = self.n;
        let m = coupling();
        let cell = |i: usize, j: usize, k: usize| -> Cell {
            let at = (j * n + i) * N;
            let slice = &self.u[k][at..at + N];
            std::array::from_fn(|c| slice[c])
        };
        let mut out = vec![0.0; n * n * N];
        for (at, out) in out.chunks_exact_mut(N).enumerate() {
            let place = [at % n, at / n, k];
            let coefficients = &self.coefficients[k][at * COEFFICIENTS..][..COEFFICIENTS];
            let here = cell(place[0], place[1], place[2]);
            for axis in 0..3 {
                let beside = |up: bool| -> Cell {
                    let mut to = place;
                    match up {
                        true if to[axis] + 1 < n => to[axis] += 1,
                        false if to[axis] > 0 => to[axis] -= 1,
                        _ => return [0.0; N],
                    }
                    cell(to[0], to[1], to[2])
                };
                let (low, high) = (beside(false), beside(true));
                let (velocity, diffusivity) = (coefficients[axis], coefficients[3 + axis]);
                for row in 0..N {
                    let advection: f64 = (0..N).map(|c| m[row][c] * (high[c] - low[c])).sum();
                    out[row] += diffusivity * (low[row] - 2.0 * here[row] + high[row])
                        - velocity * advection / 2.0;
                }
            }
        }
        out
    }

    fn step(&mut self) {
        let n = self.n;
        let mut rhs = std::mem::take(&mut self.rhs);
        rhs.par_iter_mut().enumerate().for_each(|(k, plane)| {
            let applied = self.applied(k);
            for ((to, applied), forcing) in plane.iter_mut().zip(&applied).zip(&self.forcing[k]) {
                *to = self.tau * (applied + forcing);
            }
        });
        let (coefficients, tau) = (&self.coefficients, self.tau);
        rhs.par_iter_mut().enumerate().for_each(|(k, plane)| {
            let mut system = TridiagonalSystem::new(n, tau);
            let coefficients = &coefficients[k];
            for j in 0..n {
                system.sweep(0, plane, coefficients, |i| j * n + i);
            }
            for i in 0..n {
                system.sweep(1, plane, coefficients, |j| j * n + i);
            }
        });
        // Along z a thread needs row j of every plane: rows are handed out plane by plane.
        let mut rows: Vec<Vec<&mut [f64]>> = (0..n).map(|_| Vec::with_capacity(n)).collect();
        for plane in &mut rhs {
            for (j, row) in plane.chunks_exact_mut(n * N).enumerate() {
                rows[j].push(row);
            }
        }
        rows.par_iter_mut().enumerate().for_each(|(j, rows)| {
            let mut system = TridiagonalSystem::new(n, tau);
            for i in 0..n {
                for (k, row) in rows.iter().enumerate() {
                    let coefficients = &coefficients[k][(j * n + i) * COEFFICIENTS..];
                    system.load(k, 2, &row[i * N..], coefficients);
                }
                system.solve();
                for (row, cell) in rows.iter_mut().zip(&system.solution) {
                    row[i * N..][..N].copy_from_slice(cell);
                }
            }
        });
        drop(rows);
        self.u.par_iter_mut().zip(&rhs).for_each(|(u, change)| {
            for (u, change) in u.iter_mut().zip(change) {
                *u += change;
            }
        });
        self.rhs = rhs;
    }

    /// The largest distance from the known solution, relative to its largest value.
    fn error(&self) -> f64 {
        let n = self.n;
        let (off, all) = (0..n)
            .into_par_iter()
            .map(|k| {
                let mut most = (0.0f64, 0.0f64);
                for (at, cell) in self.u[k].chunks_exact(N).enumerate() {
                    for (x, y) in cell.iter().zip(known_solution(n, at % n, at / n, k)) {
                        // `max` would lose a NaN.
                        let off = (x - y).abs();
                        most.0 = if off.is_nan() {
                            f64::INFINITY
                        } else {
                            most.0.max(off)
                        };
                        most.1 = most.1.max(y.abs());
                    }
                }
                most
            })
            .reduce(|| (0.0, 0.0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        off / all
    }
}

/// The known solution: waves that are zero just outside the grid.
fn known_solution(n: usize, i: usize, j: usize, k: usize) -> Cell {
    let wave = |x: usize| (std::f64::consts::PI * (x + 1) as f64 / (n + 1) as f64).sin();
    let product = wave(i) * wave(j) * wave(k);
    std::array::from_fn(|c| (1.0 + 0.3 * c as f64) * product)
}

/// One tridiagonal system of blocks, and the room to solve it.
struct TridiagonalSystem {
    tau: f64,
    m: Block,
    /// Velocity and diffusivity of each cell.
    coefficients: Vec<(f64, f64)>,
    upper: Vec<Block>,
    /// The right-hand side, until it is solved.
    solution: Vec<Cell>,
}

impl TridiagonalSystem {
    fn new(n: usize, tau: f64) -> TridiagonalSystem {
        TridiagonalSystem {
            tau,
            m: coupling(),
            coefficients: vec![(0.0, 0.0); n],
            upper: vec![[[0.0; N]; N]; n],
            solution: vec![[0.0; N]; n],
        }
    }

    /// Takes a cell of the line along an axis.
    fn load(&mut self, at: usize, axis: usize, values: &[f64], coefficients: &[f64]) {
        self.solution[at].copy_from_slice(&values[..N]);
        self.coefficients[at] = (coefficients[axis], coefficients[3 + axis]);
    }

    /// Solves a line in a plane; `cell` says where its cells are.
    fn sweep(
        &mut self,
        axis: usize,
        plane: &mut [f64],
        coefficients: &[f64],
        cell: impl Fn(usize) -> usize,
    ) {
        for at in 0..self.solution.len() {
            let place = cell(at);
            let coefficients = &coefficients[place * COEFFICIENTS..];
            self.load(at, axis, &plane[place * N..], coefficients);
        }
        self.solve();
        for (at, solved) in self.solution.iter().enumerate() {
            plane[cell(at) * N..][..N].copy_from_slice(solved);
        }
    }

    /// The block of a row on its lower (-1), middle (0) or upper (1) diagonal.
    fn block(&self, at: usize, side: i32) -> Block {
        let (velocity, diffusivity) = self.coefficients[at];
        std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                let unit = f64::from(u8::from(row == column));
                match side {
                    0 => unit * (1.0 + 2.0 * self.tau * diffusivity),
                    side => {
                        self.tau
                            * (f64::from(side) * velocity / 2.0 * self.m[row][column]
                                - unit * diffusivity)
                    }
                }
            })
        })
    }

    /// Forward elimination and back substitution, block by block.
    // Rows and columns of several blocks at once are clearer by their numbers.
    #[allow(clippy::needless_range_loop)]
    fn solve(&mut self) {
        let n = self.solution.len();
        for at in 0..n {
            let mut middle = self.block(at, 0);
            let mut right = self.solution[at];
            if at > 0 {
                let lower = self.block(at, -1);
                for row in 0..N {
                    for column in 0..N {
                        let sum: f64 = (0..N)
                            .map(|c| lower[row][c] * self.upper[at - 1][c][column])
                            .sum();
                        middle[row][column] -= sum;
                    }
                    right[row] -= (0..N)
                        .map(|c| lower[row][c] * self.solution[at - 1][c])
                        .sum::<f64>();
                }
            }
            let mut upper = self.block(at, 1);
            eliminate(&mut middle, &mut upper, &mut right);
            self.upper[at] = upper;
            self.solution[at] = right;
        }
        for at in (0..n - 1).rev() {
            let next = self.solution[at + 1];
            for row in 0..N {
                let sum: f64 = (0..N).map(|c| self.upper[at][row][c] * next[c]).sum();
                self.solution[at][row] -= sum;
            }
        }
    }
}

/// Solves `middle` X = `upper` and `middle` x = `right` in place, by Gauss and Jordan without pivots: the diagonal
/// dominates.
fn eliminate(middle: &mut Block, upper: &mut Block, right: &mut Cell) {
    for pivot in 0..N {
        let scale = 1.0 / middle[pivot][pivot];
        for column in 0..N {
            middle[pivot][column] *= scale;
            upper[pivot][column] *= scale;
        }
        right[pivot] *= scale;
        for row in (0..N).filter(|&row| row != pivot) {
            let factor = middle[row][pivot];
            for column in 0..N {
                middle[row][column] -= factor * middle[pivot][column];
                upper[row][column] -= factor * upper[pivot][column];
            }
            right[row] -= factor * right[pivot];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_solution_is_reached() {
        for n in [3, 12, 24] {
            let solver = BlockTridiagonal {
                n,
                iterations: 30,
                threads: 2,
            };
            let report = solver.run().unwrap();
            assert!(report.figures["relative_error"] < 2e-3, "{n}: {report:?}");
        }
    }

    #[test]
    fn one_wrong_bit_is_seen() {
        let mut solver = Solver::new(8);
        for _ in 0..20 {
            solver.step();
        }
        let before = solver.error();
        let cell = &mut solver.u[3][40];
        *cell = f64::from_bits(cell.to_bits() ^ (1 << 61));
        assert!(
            solver.error() > 10.0 * before,
            "{before} {}",
            solver.error()
        );
    }

    #[test]
    fn memory_is_that_of_class_d() {
        let bytes = BlockTridiagonal {
            n: 408,
            iterations: 1,
            threads: 0,
        }
        .bytes();
        assert!((11.3e9..11.5e9).contains(&(bytes as f64)));
    }
}

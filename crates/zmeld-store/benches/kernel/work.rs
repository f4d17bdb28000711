//! Work on the devices, and how long it takes.
//!
//! Devices take turns, a piece of the work at a time, in an order that rotates:
//! what disturbs the machine for a moment disturbs all of them. The clock is the
//! wall's, since part of the work is the kernel's own.

use std::ops::Range;
use std::thread;
use std::time::Instant;

use zmeld_store::page_size;

use crate::device::Device;
use crate::input::{self, chosen, random_at, Pages};
use crate::ring::{Request, Ring, DEPTH};
use crate::runs::Runs;

/// Pages of one turn.
const TURN: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sequential write to an empty device.
    Fill,
    /// Sequential write over other pages.
    Rewrite,
    /// The same, a request for each page.
    Pages,
    /// Sequential read.
    Scan,
    /// Random read.
    Read,
    /// Random, seven reads to three writes.
    Mixed,
}

/// In the order in which a round runs them.
pub const OPERATIONS: [Operation; 6] = [
    Operation::Fill,
    Operation::Rewrite,
    Operation::Pages,
    Operation::Scan,
    Operation::Read,
    Operation::Mixed,
];

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Fill => "write, empty",
            Operation::Rewrite => "write over",
            Operation::Pages => "write singly",
            Operation::Scan => "read",
            Operation::Read => "random read",
            Operation::Mixed => "mixed 70:30",
        }
    }

    /// Whether it takes one page after the other.
    fn is_sequential(self) -> bool {
        !matches!(self, Operation::Read | Operation::Mixed)
    }

    fn writes(self) -> bool {
        matches!(
            self,
            Operation::Fill | Operation::Rewrite | Operation::Pages
        )
    }

    fn request_pages(self) -> usize {
        match self {
            Operation::Fill | Operation::Rewrite | Operation::Scan => DEPTH,
            Operation::Pages | Operation::Read | Operation::Mixed => 1,
        }
    }

    /// The request from page number `at` of `count` on; `chance` is where it goes
    /// instead if it is random.
    fn request(self, at: usize, pages: usize, chance: u64, count: usize) -> Request {
        Request {
            slot: if self.is_sequential() {
                at
            } else {
                chosen(chance, count)
            },
            pages,
            write: self.writes() || (self == Operation::Mixed && chance % 10 < 3),
        }
    }
}

/// Work measured with some devices.
pub struct Plan<'a> {
    pub name: String,
    pub pages: &'a Pages,
    /// Of the pages, repeats of others.
    pub duplicates: f64,
    pub operations: &'a [Operation],
    pub jobs: usize,
    pub rounds: usize,
}

impl Plan<'_> {
    /// Adds each round's time to its operation's and device's runs. The first round warms
    /// everything up and is not counted; `filled` looks at the devices after its first
    /// operation.
    pub fn measure(
        &self,
        devices: &[Device],
        series: &mut [Vec<Runs>],
        mut filled: impl FnMut(&[Device]),
    ) -> Result<(), String> {
        for round in 0..=self.rounds {
            eprintln!("{}, round {round} of {}", self.name, self.rounds);
            for device in devices {
                device.discard_all()?;
            }
            let orders = [0, 1, 2].map(|number| {
                let seed = 3 * round as u64 + number;
                input::order(self.pages.count(), self.duplicates, seed).pages
            });
            for (&operation, series) in self.operations.iter().zip(&mut *series) {
                let order = match operation {
                    Operation::Fill => &orders[0],
                    Operation::Rewrite => &orders[1],
                    _ => &orders[2],
                };
                let number = round as u64;
                let spent = in_turns(operation, devices, self.pages, order, self.jobs, number)?;
                if operation == Operation::Fill && round == 0 {
                    filled(devices);
                }
                if round > 0 {
                    for (runs, ns) in series.iter_mut().zip(spent) {
                        runs.runs_ns.push(ns);
                    }
                }
            }
            for device in devices {
                check(device, self.pages, &orders[2])?;
            }
        }
        Ok(())
    }
}

/// Nanoseconds that each device takes for `order.len()` pages.
///
/// A written page is always the one that `order` gives its slot, so that what
/// the device must hold is known at the end.
fn in_turns(
    operation: Operation,
    devices: &[Device],
    pages: &Pages,
    order: &[usize],
    jobs: usize,
    round: u64,
) -> Result<Vec<f64>, String> {
    let mut rings: Vec<Ring> = (0..jobs).map(|_| Ring::new()).collect::<Result<_, _>>()?;
    let mut spent = vec![0.0; devices.len()];
    for (turn, start) in (0..order.len()).step_by(TURN).enumerate() {
        let range = start..(start + TURN).min(order.len());
        for place in 0..devices.len() {
            let at = (place + turn + round as usize) % devices.len();
            spent[at] += one_turn(
                operation,
                &devices[at],
                pages,
                order,
                range.clone(),
                &mut rings,
                round,
            )?;
        }
    }
    Ok(spent)
}

fn one_turn(
    operation: Operation,
    device: &Device,
    pages: &Pages,
    order: &[usize],
    range: Range<usize>,
    rings: &mut [Ring],
    round: u64,
) -> Result<f64, String> {
    let jobs = rings.len();
    let share = range.len().div_ceil(jobs);
    let size = operation.request_pages();
    let job = |ring: &mut Ring, part: Range<usize>| -> Result<f64, String> {
        let mut spent = 0.0;
        let mut requests = Vec::with_capacity(DEPTH);
        for batch in part.clone().step_by(DEPTH) {
            requests.clear();
            let end = (batch + DEPTH).min(part.end);
            for at in (batch..end).step_by(size) {
                let chance = random_at(round << 32, at as u64);
                let request = operation.request(at, size.min(end - at), chance, order.len());
                for number in 0..if request.write { request.pages } else { 0 } {
                    let page = pages.page(order[request.slot + number]);
                    ring.buffer(at - batch + number).copy_from_slice(page);
                }
                requests.push(request);
            }
            let started = Instant::now();
            ring.run(&device.file, &requests)?;
            spent += started.elapsed().as_nanos() as f64;
        }
        Ok(spent)
    };
    if let [ring] = rings {
        return job(ring, range);
    }
    // The slowest job's time is the turn's.
    thread::scope(|scope| {
        let job = &job;
        let running: Vec<_> = rings
            .iter_mut()
            .enumerate()
            .map(|(number, ring)| {
                let start = (range.start + number * share).min(range.end);
                let part = start..(start + share).min(range.end);
                scope.spawn(move || job(ring, part))
            })
            .collect();
        let mut slowest: f64 = 0.0;
        for thread in running {
            slowest = slowest.max(thread.join().expect("a job does not panic")?);
        }
        Ok(slowest)
    })
}

/// Reads the whole device back: every byte has to be there.
fn check(device: &Device, pages: &Pages, order: &[usize]) -> Result<(), String> {
    let mut ring = Ring::new()?;
    for start in (0..order.len()).step_by(DEPTH) {
        let requests: Vec<Request> = (start..(start + DEPTH).min(order.len()))
            .map(|slot| Request {
                slot,
                pages: 1,
                write: false,
            })
            .collect();
        ring.run(&device.file, &requests)?;
        for (place, request) in requests.iter().enumerate() {
            if ring.buffer(place) != pages.page(order[request.slot]) {
                return Err(format!(
                    "WRONG BYTES: page {} of {} bytes is not what was written",
                    request.slot,
                    page_size()
                ));
            }
        }
    }
    Ok(())
}

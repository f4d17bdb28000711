//! Recorded traces, replayed: a CSV of time, process and page, or the output of `perf script` after `perf mem record`.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::machine::NumaMachine;
use crate::time::{from_ns, NS};
use crate::workload::{PageReferences, ProcessPlan, ReferenceCycle, Workload};

/// A trace that cannot be replayed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum TraceError {
    /// A line that is not understood.
    #[error("{file}: line {line}, column {column}: {why}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1, counted in fields.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// No access at all.
    #[error("{file}: no access in it")]
    Empty {
        /// The file.
        file: String,
    },
}

/// One access or a run of accesses to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TraceAccess {
    time_ns: u64,
    page: u64,
    count: u32,
}

/// The accesses of each process, in order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    processes: BTreeMap<u64, Vec<TraceAccess>>,
    first_ns: u64,
}

impl Trace {
    /// Reads a trace. A CSV has the columns `time_ns,process,page` and optionally `count`, with or without a heading; `page` is
    /// a page number, decimal or with `0x`. Lines of `perf script -F pid,time,addr` are told by their colon.
    ///
    /// # Errors
    /// The line and field that is not understood.
    pub fn parse(text: &str, file: &str, page_bytes: u64) -> Result<Self, TraceError> {
        let mut processes: BTreeMap<u64, Vec<TraceAccess>> = BTreeMap::new();
        let mut first_ns = u64::MAX;
        for (index, raw) in text.lines().enumerate() {
            let line = raw.trim();
            if line.is_empty() || line.starts_with('#') || (index == 0 && line.starts_with("time"))
            {
                continue;
            }
            let wrong = |column: usize, why: String| TraceError::Line {
                file: file.to_owned(),
                line: index + 1,
                column,
                why,
            };
            let (process, access) = if line.contains(',') {
                parse_csv(line).map_err(|(column, why)| wrong(column, why))?
            } else {
                parse_perf(line, page_bytes).map_err(|(column, why)| wrong(column, why))?
            };
            first_ns = first_ns.min(access.time_ns);
            processes.entry(process).or_default().push(access);
        }
        if processes.is_empty() {
            return Err(TraceError::Empty {
                file: file.to_owned(),
            });
        }
        for accesses in processes.values_mut() {
            accesses.sort_by_key(|access| access.time_ns);
        }
        Ok(Self {
            processes,
            first_ns,
        })
    }

    /// Processes.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// The processes to be simulated: each makes its accesses in the recorded order, at a steady pace that makes
    /// its run as long as recorded with local memory (and at least as long as the accesses take).
    pub fn plans(&self, machine: &NumaMachine, workload: &Workload) -> Vec<ProcessPlan> {
        let access = from_ns(machine.costs.access_ns).max(1);
        let plan = |accesses: &Vec<TraceAccess>| {
            let mut slots: BTreeMap<u64, u32> = BTreeMap::new();
            let mut visits: Vec<PageReferences> = Vec::new();
            for one in accesses {
                let next = slots.len() as u32;
                let slot = *slots.entry(one.page).or_insert(next);
                match visits.last_mut() {
                    Some(last) if last.slot == slot => {
                        last.refs = last.refs.saturating_add(one.count)
                    }
                    _ => visits.push(PageReferences {
                        slot,
                        refs: one.count,
                    }),
                }
            }
            let first = accesses.first().map_or(0, |a| a.time_ns);
            let last = accesses.last().map_or(0, |a| a.time_ns);
            let round = ReferenceCycle::new(visits);
            let whole = ((last - first) * NS / round.refs.max(1)).max(access);
            ProcessPlan {
                arrival: (first - self.first_ns) * NS,
                refs: round.refs,
                rest: whole - access,
                access,
                accesses_per_ref: 1.0,
                pages: slots.len(),
                round,
                renewal_refs: 0,
                start: None,
                moves: Vec::new(),
            }
        };
        let plans: Vec<ProcessPlan> = self.processes.values().map(plan).collect();
        let starts = Workload {
            processes: plans.len(),
            ..workload.clone()
        }
        .plans(machine, 0, 0);
        plans
            .into_iter()
            .zip(starts)
            .map(|(plan, drawn)| ProcessPlan {
                start: drawn.start,
                ..plan
            })
            .collect()
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse_csv(line: &str) -> Result<(u64, TraceAccess), (usize, String)> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if !(3..=4).contains(&fields.len()) {
        return Err((
            fields.len(),
            format!(
                "{} fields; time_ns,process,page[,count] are needed",
                fields.len()
            ),
        ));
    }
    let field = |at: usize| {
        number(fields[at]).ok_or((at + 1, format!("{:?} is no whole number", fields[at])))
    };
    let count = if fields.len() == 4 { field(3)? } else { 1 };
    let count = u32::try_from(count)
        .ok()
        .filter(|&c| c > 0)
        .ok_or((4, format!("{count} is no count of accesses")))?;
    Ok((
        field(1)?,
        TraceAccess {
            time_ns: field(0)?,
            page: field(2)?,
            count,
        },
    ))
}

/// `  pid  seconds.micros:  address`, as `perf script -F pid,time,addr` prints it.
fn parse_perf(line: &str, page_bytes: u64) -> Result<(u64, TraceAccess), (usize, String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [pid, time, address, ..] = fields.as_slice() else {
        return Err((
            fields.len(),
            "perf script -F pid,time,addr gives three fields".into(),
        ));
    };
    let process = pid
        .parse()
        .map_err(|_| (1, format!("{pid:?} is no process")))?;
    let time = time.strip_suffix(':').unwrap_or(time);
    let (seconds, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let parsed = seconds.parse::<u64>().ok().zip(
        format!("{fraction:0<9}")
            .get(..9)
            .and_then(|f| f.parse().ok()),
    );
    let (seconds, nanos): (u64, u64) =
        parsed.ok_or((2, format!("{time:?} is no time in seconds")))?;
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)
        .map_err(|_| (3, format!("{address:?} is no address")))?;
    Ok((
        process,
        TraceAccess {
            time_ns: seconds * 1_000_000_000 + nanos,
            page: address / page_bytes,
            count: 1,
        },
    ))
}

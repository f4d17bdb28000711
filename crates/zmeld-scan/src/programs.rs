//! Pages of each program in each control group, their compressed size, and which of them are
//! identical to others.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::memory::{Owner, Region};
use zmeld_linux::groups::Hierarchy;
use zmeld_linux::Host;

use crate::contents::SortedContents;
use crate::duplicates::{Counter, Tally};
use crate::result::{CodecResult, Program};

/// With fewer of its pages in the sample, what a program's come to is not told.
pub(crate) const SAMPLED_MIN: u64 = 32;

/// Programs by what would be saved, the most first; none where no process was read. `sizes` are
/// those of the sample's contents with `codec`.
pub(crate) fn programs(
    host: &Host,
    regions: &[Region],
    counter: &Counter<'_>,
    (sorted, mut tallies): (&SortedContents, Vec<Tally>),
    (codec, sizes): (&CodecResult, &[(u128, u32)]),
    page_size: u64,
) -> Vec<Program> {
    let processes = counter
        .owners(regions)
        .into_iter()
        .map(|owner| match owner {
            Owner::Process { pid, comm } => Some((*pid, comm)),
            _ => None,
        });
    // Of a device or a dump nobody knows whose they are.
    let Some(processes) = processes.collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    for (hash, size) in sizes {
        for (owner, pages) in counter.shares(sorted.find(*hash)) {
            if let Some(tally) = tallies.get_mut(owner as usize) {
                tally.sampled += pages;
                tally.sampled_bytes += pages * u64::from(*size);
            }
        }
    }
    let hierarchy = Hierarchy::find(host).ok().flatten();
    let group_of = |pid: i32| {
        let hierarchy = hierarchy.as_ref()?;
        let group = hierarchy.group_of(host, &pid.to_string()).ok().flatten()?;
        Some(hierarchy.shown(&group))
    };
    let mut found: HashMap<(String, String), (Program, Tally)> = HashMap::new();
    for ((pid, comm), tally) in processes.into_iter().zip(tallies) {
        let key = (comm.to_string(), group_of(pid).unwrap_or_default());
        let (program, sum) = found.entry(key.clone()).or_default();
        (program.program, program.group) = key;
        program.processes += 1;
        sum.pages += tally.pages;
        sum.duplicates += tally.duplicates;
        sum.sampled += tally.sampled;
        sum.sampled_bytes += tally.sampled_bytes;
    }
    // Pool bytes per compressed byte.
    let pool = codec.memory_at_scale_bytes as f64 / codec.compressed_bytes.max(1) as f64;
    let told = found.into_values().map(|(program, sum)| Program {
        bytes: sum.pages * page_size,
        duplicate_bytes: sum.duplicates * page_size,
        compressed_bytes: (sum.sampled >= SAMPLED_MIN).then(|| {
            let mean = sum.sampled_bytes as f64 / sum.sampled as f64;
            (mean * sum.pages as f64 * pool).round() as u64
        }),
        ..program
    });
    let mut told: Vec<Program> = told.filter(|it| it.bytes > 0).collect();
    told.sort_by_key(|it| Reverse((it.saved_bytes(), it.bytes, it.program.clone())));
    told
}

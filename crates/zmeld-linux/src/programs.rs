//! Programs with pages in swap, and the control groups that these come back to.
//!
//! A page in swap stays charged to the group that it was swapped out in. Where that
//! group was removed since, it comes back to the group that its program is in now,
//! whose own counter says nothing of it: what the programs have is added up beside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::groups::Hierarchy;
use crate::{process, Host, HostError};

/// A program with pages in swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name, as `/proc/PID/comm` has it.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// What it has in swap, in bytes.
    pub swapped_bytes: u64,
}

/// All of them, and what their groups come to.
#[derive(Debug, Default)]
pub struct Programs {
    /// Each with the folder of the group that it is in.
    pub all: Vec<(PathBuf, Program)>,
    /// What those of a group and of the groups below it have in swap, in bytes.
    sums: BTreeMap<PathBuf, u64>,
}

impl Programs {
    /// Those of a machine.
    pub fn read(host: &Host, hierarchy: &Hierarchy) -> Result<Programs, HostError> {
        let mut all = Vec::new();
        for pid in host.processes()? {
            // It may have ended meanwhile.
            let Some(swapped_bytes) = swapped(host, pid) else {
                continue;
            };
            let Some(group) = hierarchy.group_of(host, &pid.to_string()) else {
                continue;
            };
            let comm = host.read(format!("/proc/{pid}/comm")).unwrap_or_default();
            let program = Program {
                // Anybody chooses the name of his own.
                name: comm.replace(char::is_control, "?"),
                pid,
                swapped_bytes,
            };
            all.push((group, program));
        }
        let mut sums: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for (group, program) in &all {
            let above = group.ancestors();
            for group in above.take_while(|it| it.starts_with(&hierarchy.top)) {
                let sum = sums.entry(group.to_path_buf()).or_default();
                *sum = sum.saturating_add(program.swapped_bytes);
            }
        }
        Ok(Programs { all, sums })
    }

    /// What those of a group and of the groups below it have in swap, in bytes.
    pub fn of_tree(&self, group: &Path) -> u64 {
        self.sums.get(group).copied().unwrap_or(0)
    }

    /// Of a group and of those below it, the one with the most in swap.
    pub fn largest(&self, group: &Path) -> Option<Program> {
        let below = self.all.iter().filter(|(of, _)| of.starts_with(group));
        let largest = below.max_by_key(|(_, program)| program.swapped_bytes);
        largest.map(|(_, program)| program.clone())
    }
}

/// What a program has in swap, in bytes; none where that is nothing.
fn swapped(host: &Host, pid: u32) -> Option<u64> {
    let text = host.read(format!("/proc/{pid}/status")).ok()?;
    let swapped = process::status(&text, "VmSwap")?.strip_suffix("kB")?;
    let kib: u64 = swapped.trim().parse().ok()?;
    kib.checked_mul(1024).filter(|bytes| *bytes > 0)
}

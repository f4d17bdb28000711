//! Live memory to read: whose, and which of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::LazyLock;

use super::cold_pages::ColdPagesFound;
use super::frames::SeenFrames;
use super::processes::{self, ChosenProcess, Selection};
use crate::memory::{Error, SkipReason};

/// Live memory to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOptions {
    /// Which processes.
    pub selection: Selection,
    /// Deliver shared memory too (it is counted in any case).
    pub shared: bool,
    /// Deliver unmodified pages of mapped files too (counted in any case).
    pub files: bool,
    /// Number and name regions. Without, all are number 0 and none is kept, so that memory
    /// does not grow with the mappings of who is read.
    pub regions: bool,
}

impl LiveOptions {
    /// Private memory of these processes.
    pub fn new(selection: Selection) -> Self {
        LiveOptions {
            selection,
            shared: false,
            files: false,
            regions: true,
        }
    }
}

/// The memory of running processes. The processes are chosen when it is
/// opened; one that starts later is not seen.
#[derive(Debug)]
pub struct LiveMemory {
    pub(crate) options: LiveOptions,
    pub(crate) page_size: usize,
    pub(super) chosen: Vec<ChosenProcess>,
    pub(super) cold: Option<ColdPagesFound>,
    pub(super) seen: Option<Arc<SeenFrames>>,
}

/// A process whose memory is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub pid: i32,
    /// Its name, at most 15 bytes.
    pub comm: Arc<str>,
    /// Its private and shared memory in RAM, in bytes: pages that are shared count
    /// in each process.
    pub resident_bytes: u64,
}

impl LiveMemory {
    /// Chooses the processes.
    ///
    /// # Errors
    /// When a process or control group that was named is not there, or `/proc`
    /// cannot be listed.
    pub fn open(options: LiveOptions) -> Result<Self, Error> {
        let chosen = processes::choose(&options.selection)?;
        Ok(LiveMemory {
            options,
            page_size: rustix::param::page_size(),
            chosen,
            cold: None,
            seen: None,
        })
    }

    /// The processes that are read, by number.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.readable().map(|process| Member {
            pid: process.pid,
            comm: Arc::clone(&process.comm),
            resident_bytes: (process.resident.anonymous + process.resident.shared) * 1024,
        })
    }

    /// Those of its processes alone, and of their pages none that `seen` has already:
    /// readings of several parts deliver each physical page once, where frame numbers
    /// are told.
    #[must_use]
    pub fn part(&self, pids: &BTreeSet<i32>, seen: &Arc<SeenFrames>) -> LiveMemory {
        let is_in = |process: &&ChosenProcess| pids.contains(&process.pid);
        LiveMemory {
            options: self.options.clone(),
            page_size: self.page_size,
            chosen: self.chosen.iter().filter(is_in).cloned().collect(),
            cold: None,
            seen: Some(Arc::clone(seen)),
        }
    }

    /// From now on visits deliver cold pages only, and say how much was cold.
    #[must_use]
    pub fn only_cold(mut self, watched: ColdPagesFound) -> Self {
        self.cold = Some(watched);
        self
    }

    pub(crate) fn readable(&self) -> impl Iterator<Item = &ChosenProcess> {
        self.chosen
            .iter()
            .filter(|process| self.skip_whole(process).is_none())
    }

    /// Why a process is left out whole, if it is.
    pub(super) fn skip_whole(&self, process: &ChosenProcess) -> Option<SkipReason> {
        if process.kernel_thread {
            Some(SkipReason::KernelThread)
        } else if is_scan(process.pid) {
            // Its own buffers would distort the result.
            Some(SkipReason::Myself)
        } else {
            None
        }
    }
}

/// Whether a process is the scan: this one, or the same program that runs this one apart.
fn is_scan(pid: i32) -> bool {
    static PARENT: LazyLock<Option<i32>> = LazyLock::new(|| {
        let parent = rustix::process::getppid()?.as_raw_nonzero().get();
        let program = |pid: &str| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        (program(&parent.to_string())? == program("self")?).then_some(parent)
    });
    pid.unsigned_abs() == std::process::id() || *PARENT == Some(pid)
}

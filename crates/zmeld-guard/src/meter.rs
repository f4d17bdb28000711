//! What a group takes, with all that is below it, and how much more than before.

use std::path::{Path, PathBuf};
use std::time::Instant;

use zmeld_linux::groups::{Hierarchy, Version};
use zmeld_linux::{counters, Host};

use crate::open::OpenFile;
use crate::ring::Ring;

/// What a group takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    /// In RAM and in swap, what comes back when it ends.
    pub held_bytes: u64,
    /// Files in memory.
    pub shared_bytes: u64,
}

impl Taken {
    pub fn bytes(self) -> u64 {
        self.held_bytes.saturating_add(self.shared_bytes)
    }
}

/// The files of it, and what they said lately.
#[derive(Debug)]
pub(crate) struct Meter {
    version: Version,
    stat: OpenFile,
    swap: Option<OpenFile>,
    taken: Ring<u64>,
    pub now: Taken,
    /// How much more that is than at the last look.
    pub took: i64,
}

/// Who has groups: a user or a service. What they take together is his, whatever he makes of
/// them and wherever he moves his processes.
#[derive(Debug)]
pub(crate) struct Owner {
    pub directory: PathBuf,
    /// The place of it, as groups were chosen last.
    pub place: usize,
    pub meter: Meter,
}

impl Meter {
    /// None where it is gone, or has no figures.
    pub fn open(host: &Host, hierarchy: &Hierarchy, directory: &Path) -> Option<Meter> {
        Some(Meter {
            version: hierarchy.version,
            stat: OpenFile::open(host, directory.join("memory.stat"))?,
            swap: OpenFile::open(host, directory.join("memory.swap.current")),
            taken: Ring::new(),
            now: Taken::default(),
            took: 0,
        })
    }

    /// What is known of it already.
    pub fn go_on(&mut self, before: &Meter) {
        self.taken = before.taken;
        self.now = before.now;
        self.took = before.took;
    }

    /// It takes so much now.
    pub fn keep(&mut self, now: Instant, taken: Taken) {
        self.took = taken.bytes() as i64 - self.now.bytes() as i64;
        self.now = taken;
        self.taken.keep(now, taken.bytes());
    }

    /// It was not there at that time.
    pub fn began_after(&mut self, then: Instant) {
        self.taken.keep(then, 0);
    }

    /// How much more it takes than ten seconds ago, files in memory (tmpfs) included: who
    /// fills memory with those is who runs away, though they stay when he ends.
    pub fn grew(&self, now: Instant) -> i64 {
        let before = self.taken.oldest(now);
        before.map_or(0, |(_, before)| self.now.bytes() as i64 - before as i64)
    }

    /// What it takes now; none where it is gone.
    pub fn read(&self, buffer: &mut [u8]) -> Option<Taken> {
        let stat = self.stat.read(buffer).ok()?;
        let sum = |names: &[&str]| -> u64 {
            let counted = counters::parse(stat).filter(|(name, _)| names.contains(name));
            counted.fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
        };
        if self.version == Version::One {
            return Some(Taken {
                held_bytes: sum(&["total_rss", "total_swap"]),
                shared_bytes: sum(&["total_shmem"]),
            });
        }
        // What a bomb of processes takes is the kernel's; as one sum from 5.18 on.
        let kernel = match counters::value(stat, "kernel") {
            // What can be had back at any time is no burden.
            Some(bytes) => bytes.saturating_sub(sum(&["slab_reclaimable"])),
            None => sum(&["kernel_stack", "pagetables", "slab_unreclaimable"]),
        };
        let ram = kernel.saturating_add(sum(&["anon"]));
        let shared_bytes = sum(&["shmem"]);
        let swap = self.swap.as_ref().and_then(|file| {
            let text = file.read(buffer).ok()?;
            text.trim().parse::<u64>().ok()
        });
        Some(Taken {
            held_bytes: ram.saturating_add(swap.unwrap_or(0)),
            shared_bytes,
        })
    }
}

//! What a group takes, with all that is below it, and how much more than before.

use std::path::{Path, PathBuf};
use std::time::Instant;

use zmeld_linux::groups::{Hierarchy, Version};
use zmeld_linux::{counters, Host};

use crate::choice::Figures;
use crate::open::{is_removed, OpenFile};
use crate::ring::Ring;

/// What is asked of `memory.stat`; version 1 has `total_` before each, for all below it.
const FIGURES: [&str; 14] = [
    "anon",
    "rss",
    "shmem",
    "active_anon",
    "inactive_anon",
    "unevictable",
    "sock",
    "swap",
    "swapcached",
    "kernel",
    "slab_reclaimable",
    "kernel_stack",
    "pagetables",
    "slab_unreclaimable",
];

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
    /// What it took when memory was last far from short.
    calm_bytes: Option<u64>,
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

impl Owner {
    /// All that he has.
    pub fn figures(&self, now: Instant) -> Figures {
        Figures {
            owner: self.place,
            all_bytes: self.meter.now.bytes(),
            grew: self.meter.grew(now),
            took: self.meter.took,
            grew_slowly: self.meter.grew_slowly(),
            ..Figures::default()
        }
    }
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
            calm_bytes: None,
        })
    }

    /// What is known of it already.
    pub fn go_on(&mut self, before: &Meter) {
        self.taken = before.taken;
        self.now = before.now;
        self.took = before.took;
        self.calm_bytes = before.calm_bytes;
    }

    /// Looks at it. What cannot be read stays as it was: it is no growth from nothing later.
    pub fn look(&mut self, now: Instant, buffer: &mut [u8]) {
        let Some(taken) = self.read(buffer) else {
            return;
        };
        self.took = taken.bytes() as i64 - self.now.bytes() as i64;
        self.now = taken;
        self.taken.keep(now, taken.bytes());
        self.calm_bytes.get_or_insert(taken.bytes());
    }

    /// Memory is far from short.
    pub fn is_calm(&mut self) {
        self.calm_bytes = Some(self.now.bytes());
    }

    /// It was not there at that time.
    pub fn began_after(&mut self, then: Instant) {
        self.taken.keep(then, 0);
        self.calm_bytes = Some(0);
    }

    /// How much more it takes than ten seconds ago, files in memory (tmpfs) included: who
    /// fills memory with those is who runs away, though they stay when he ends.
    pub fn grew(&self, now: Instant) -> i64 {
        let before = self.taken.oldest(now);
        before.map_or(0, |(_, before)| self.now.bytes() as i64 - before as i64)
    }

    /// How much more it takes than when memory was last far from short.
    pub fn grew_slowly(&self) -> i64 {
        let now = self.now.bytes();
        now as i64 - self.calm_bytes.unwrap_or(now) as i64
    }

    /// What it takes now, nothing where it is gone; none where that cannot be read.
    pub fn read(&self, buffer: &mut [u8]) -> Option<Taken> {
        let stat = match self.stat.read(buffer) {
            Err(err) if is_removed(&err) => return Some(Taken::default()),
            stat => stat.ok()?,
        };
        let total = match self.version {
            Version::One => "total_",
            Version::Two => "",
        };
        let mut figures = [None; FIGURES.len()];
        for (name, figure) in counters::parse(stat) {
            let name = name.strip_prefix(total);
            if let Some(at) = FIGURES.iter().position(|it| name == Some(it)) {
                figures[at] = Some(figure);
            }
        }
        let [anon, rss, shmem, active, inactive, unevictable, sock, swap, swapcached, rest @ ..] =
            figures;
        let [kernel, slab_reclaimable, kernel_stack, pagetables, slab_unreclaimable] = rest;
        let sum = |figures: &[Option<u64>]| -> u64 { figures.iter().flatten().sum() };
        let anon_bytes = anon.or(rss)?;
        let shared_bytes = sum(&[shmem]);
        // Pages of files that cannot be had back, since they are locked: what is neither
        // memory of programs nor of tmpfs of what cannot.
        let locked = (anon_bytes + shared_bytes).saturating_sub(sum(&[active, inactive]));
        let locked_files = sum(&[unevictable]).saturating_sub(locked);
        // What a bomb of processes takes is the kernel's; as one sum from 5.18 on. What can be
        // had back at any time is no burden.
        let kernel = match kernel {
            Some(bytes) => bytes.saturating_sub(sum(&[slab_reclaimable])),
            None => sum(&[kernel_stack, pagetables, slab_unreclaimable]),
        };
        let ram = anon_bytes + locked_files + kernel + sum(&[sock]);
        // What is in RAM again and in swap still counts once.
        let swap = swap.or_else(|| self.swap.as_ref()?.read(buffer).ok()?.trim().parse().ok());
        let swap = sum(&[swap]).saturating_sub(sum(&[swapcached]));
        Some(Taken {
            held_bytes: ram + swap,
            shared_bytes,
        })
    }
}

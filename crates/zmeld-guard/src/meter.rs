//! What an owner holds, and how it came.

use std::path::Path;
use std::time::{Duration, Instant};

use zmeld_linux::groups::Version;
use zmeld_linux::Host;

use crate::open::{OpenFile, Ring};

/// How fast memory goes is judged by so much.
const LATELY: Duration = Duration::from_millis(900);

/// What somebody holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// In RAM: what programs wrote and files in memory (tmpfs).
    pub ram_bytes: u64,
    /// The same with swap, and what the kernel keeps for it.
    pub all_bytes: u64,
}

/// The files that say it, and what they said lately.
#[derive(Debug)]
pub(crate) struct Meter {
    /// None of who has no group: what he held was counted process by process.
    files: Option<(Version, OpenFile, Option<OpenFile>)>,
    pub now: Held,
    held: Ring<u64>,
}

impl Meter {
    /// That of a group; none where it is gone, or is not counted.
    pub fn open(host: &Host, version: Version, directory: &Path) -> Option<Meter> {
        let stat = OpenFile::open(host, directory.join("memory.stat"))?;
        let swap = OpenFile::open(host, directory.join("memory.swap.current"));
        Some(Meter {
            files: Some((version, stat, swap)),
            ..Meter::counted(0)
        })
    }

    /// That of who was counted to hold so much.
    pub fn counted(bytes: u64) -> Meter {
        let mut meter = Meter {
            files: None,
            now: Held::default(),
            held: Ring::new(),
        };
        meter.count(bytes);
        meter
    }

    /// It was counted to be so much.
    pub fn count(&mut self, bytes: u64) {
        (self.now.ram_bytes, self.now.all_bytes) = (bytes, bytes);
    }

    /// What is known of it already.
    pub fn go_on(&mut self, before: &Meter) {
        self.held = before.held;
        if self.files.is_some() {
            self.now = before.now;
        }
    }

    /// It was not there at that time.
    pub fn began_after(&mut self, then: Instant) {
        self.held.keep(then, 0);
    }

    /// Looks at it. What cannot be read stays as it was: it is no growth from nothing later.
    pub fn look(&mut self, now: Instant, buffer: &mut [u8]) {
        if let Some(held) = self.read(buffer) {
            self.now = held;
        }
        self.held.keep(now, self.now.all_bytes);
    }

    /// How much more it is than ten seconds ago.
    pub fn took_bytes(&self, now: Instant) -> u64 {
        let before = self.held.oldest(now);
        before.map_or(0, |(_, before)| self.now.all_bytes.saturating_sub(before))
    }

    /// How many bytes a second it took of late.
    pub fn rate(&self, now: Instant) -> f64 {
        self.held.since(now, LATELY).map_or(0.0, |(age, before)| {
            let took = self.now.all_bytes.saturating_sub(before);
            took as f64 / age.as_secs_f64().max(LATELY.as_secs_f64())
        })
    }

    fn read(&self, buffer: &mut [u8]) -> Option<Held> {
        let (version, stat, swap) = self.files.as_ref()?;
        let (mut ram_bytes, mut other_bytes, mut in_both) = (None, 0, 0);
        for line in stat.read(buffer).ok()?.lines() {
            let (name, value) = line.split_once(' ')?;
            // Version 1 has `total_` before each, for all below it.
            let name = match version {
                Version::One => name.strip_prefix("total_").unwrap_or(""),
                Version::Two => name,
            };
            let value: u64 = value.trim().parse().unwrap_or(0);
            match name {
                "anon" | "rss" | "shmem" => *ram_bytes.get_or_insert(0) += value,
                "swap" | "kernel" => other_bytes += value,
                // The kernel can have that back.
                "slab_reclaimable" => in_both += value,
                // In RAM again, and in swap still.
                "swapcached" => in_both += value,
                _ => {}
            }
        }
        let swap = swap.as_ref().and_then(|it| it.read(buffer).ok());
        let swapped: u64 = swap.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
        let ram_bytes = ram_bytes?;
        Some(Held {
            ram_bytes,
            all_bytes: ram_bytes + (other_bytes + swapped).saturating_sub(in_both),
        })
    }
}

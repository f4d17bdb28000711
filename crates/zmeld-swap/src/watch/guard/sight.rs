//! How much more programs can take, how soon that is gone, and how long all of them
//! waited for memory: what the guard looks at several times a second.
//!
//! The sum is that of `zmeld status` ([`Headroom`](crate::observe::Headroom)), with
//! the ratio of the pages that came within the last ten seconds where those are
//! enough to judge by: a runaway's pages are not those that were there before.

use std::time::{Duration, Instant};

use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{pressure, Host};

use super::open::{touched, OpenFile};
use super::ring::{Ring, WINDOW};
use crate::observe::headroom::{self, Sum};
use crate::observe::{Backed, Held, Observation};

/// What is taken where too little is in a device to judge by: pages of programs nearly
/// always compress better, and an empty device is not one of no use.
const RATIO_UNKNOWN: f64 = 2.0;
/// With less than this there is too little: when memory is short there is no time to wait
/// for as much as a codec is judged by.
const JUDGED_FROM: u64 = 2 << 20;
/// What came lately is judged by itself where it is one part in so many of all.
const MUCH: u64 = 4;
/// What is judged of it needs this much of the window: for how long all waited,
const STALLED_MIN: Duration = Duration::from_secs(8);
/// and how fast memory goes, since one large request is no trend.
const TREND_MIN: Duration = Duration::from_secs(2);
/// A group that is told to end gives its memory back so much later.
const END_TAKES: Duration = Duration::from_secs(1);

/// What is seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// All RAM.
    pub total_bytes: u64,
    /// How much more programs can take.
    pub headroom_bytes: u64,
    /// When that is gone, as it went in the last ten seconds.
    pub gone_in: Option<Duration>,
    /// The same, as it went since the last look: what doubles is faster than it was.
    pub lately_gone_in: Option<Duration>,
    /// The share of the last ten seconds in which no task could go on for want of
    /// memory; absent where the kernel does not measure it, or not long enough yet.
    pub stalled: Option<f64>,
}

/// The files of it.
#[derive(Debug)]
pub(super) struct Sight {
    meminfo: OpenFile,
    pressure: Option<OpenFile>,
    devices: Vec<SwapDevice>,
    /// The most that zswap's pool may take; 0 where it is off.
    pool_bytes: u64,
    headroom: Ring<u64>,
    last: Option<(Instant, u64)>,
    stalled_us: Ring<u64>,
    buffer: Vec<u8>,
}

impl Sight {
    /// Nothing where there is no `/proc/meminfo`.
    pub fn open(host: &Host) -> Option<Sight> {
        let mut sight = Sight {
            meminfo: OpenFile::open(host, meminfo::PATH)?,
            pressure: OpenFile::open(host, "/proc/pressure/memory"),
            devices: Vec::new(),
            pool_bytes: 0,
            headroom: Ring::new(),
            last: None,
            stalled_us: Ring::new(),
            buffer: touched(),
        };
        sight.follow(host);
        Some(sight)
    }

    /// Opens what is swapped to by now; what is known of a device stays.
    pub fn follow(&mut self, host: &Host) {
        let seen = Observation::read(host, rustix::param::page_size() as u64);
        let zswap = seen.zswap.as_ref().filter(|zswap| zswap.enabled);
        self.pool_bytes = zswap.map_or(0, |zswap| zswap.limit_bytes(&seen.memory));
        let known = std::mem::take(&mut self.devices);
        let count = known.len();
        for swap in &seen.swaps {
            let Some(device) = seen.device_of(swap) else {
                continue;
            };
            let Some(opened) = SwapDevice::open(host, &device.name, swap.area.size_bytes) else {
                continue;
            };
            let before = known.iter().find(|it| it.name == opened.name);
            self.devices.push(SwapDevice {
                stored: before.map_or_else(Ring::new, |it| it.stored),
                ..opened
            });
        }
        if self.devices.len() != count {
            // Another sum: what it was before tells nothing of how fast memory goes.
            self.headroom = Ring::new();
            self.last = None;
        }
    }

    /// Looks; nothing where `/proc/meminfo` cannot be read.
    pub fn look(&mut self, now: Instant) -> Option<Seen> {
        let text = self.meminfo.read(&mut self.buffer).ok()?;
        let memory = Meminfo::new(text);
        let total_bytes = memory.total_bytes()?;
        let mut sum = Sum::new(
            memory.available_bytes()?,
            memory.bytes("AnonPages").unwrap_or(0),
        );
        let mut drives = memory.bytes("SwapFree").unwrap_or(0);
        let pool = self.pool_bytes;
        // Before Linux 5.19 nothing says what is in it: it counts as full.
        sum.pool(pool.saturating_sub(memory.bytes("Zswap").unwrap_or(pool)));
        for device in &mut self.devices {
            let free = device.add(&mut sum, drives, now, &mut self.buffer);
            drives = drives.saturating_sub(free.unwrap_or(0));
        }
        sum.drive(drives);
        let headroom_bytes = sum.bytes();
        self.headroom.keep(now, headroom_bytes);
        Some(Seen {
            total_bytes,
            headroom_bytes,
            gone_in: self.gone_in(headroom_bytes, now),
            lately_gone_in: self.lately_gone_in(headroom_bytes, now),
            stalled: self.stalled(now),
        })
    }

    fn gone_in(&self, headroom_bytes: u64, now: Instant) -> Option<Duration> {
        let before = self.headroom.oldest(now)?;
        (before.0 >= TREND_MIN).then(|| gone(before, headroom_bytes))?
    }

    fn lately_gone_in(&mut self, headroom_bytes: u64, now: Instant) -> Option<Duration> {
        let (then, before) = self.last.replace((now, headroom_bytes))?;
        gone((now.duration_since(then), before), headroom_bytes)
    }

    fn stalled(&mut self, now: Instant) -> Option<f64> {
        let text = self.pressure.as_ref()?.read(&mut self.buffer).ok()?;
        let full = pressure::parse(text).find(|stall| stall.kind == "full")?;
        self.stalled_us.keep(now, full.total_us);
        let (age, before) = self.stalled_us.oldest(now)?;
        let waited = full.total_us.saturating_sub(before) as f64;
        (age >= STALLED_MIN).then(|| waited / age.as_micros() as f64)
    }
}

/// When what is left is gone, where so long ago there was so much.
fn gone((age, before): (Duration, u64), left: u64) -> Option<Duration> {
    let went = before.saturating_sub(left);
    let times = left as f64 / went as f64;
    (went > 0).then(|| Duration::try_from_secs_f64(age.as_secs_f64() * times).ok())?
}

/// A compressed device that is swapped to.
#[derive(Debug)]
struct SwapDevice {
    name: String,
    size_bytes: u64,
    held: OpenFile,
    backed: Option<OpenFile>,
    /// What it stored, and the RAM that it took for that.
    stored: Ring<Stored>,
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    pages_bytes: u64,
    elsewhere_bytes: u64,
    used_bytes: u64,
}

impl SwapDevice {
    fn open(host: &Host, name: &str, size_bytes: u64) -> Option<SwapDevice> {
        let file = |file: &str| OpenFile::open(host, format!("/sys/block/{name}/{file}"));
        Some(SwapDevice {
            name: name.to_owned(),
            size_bytes,
            held: file("mm_stat")?,
            backed: file("bd_stat"),
            stored: Ring::new(),
        })
    }

    /// Adds it, and tells how much of its size is free; nothing where it is gone. All that
    /// is free of swap bounds it: pages of zeros take a place and do not reach the device.
    fn add(
        &mut self,
        sum: &mut Sum,
        swap_free: u64,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<u64> {
        let held = Held::parse(self.held.read(buffer).ok()?)?;
        let backed = self.backed.as_ref().and_then(|file| {
            let text = file.read(buffer).ok()?;
            Backed::parse(text)
        });
        let page = rustix::param::page_size() as u64;
        let stored = Stored {
            pages_bytes: held.stored_bytes,
            elsewhere_bytes: held
                .same_filled_pages
                .saturating_mul(page)
                .saturating_add(backed.map_or(0, |it| it.held_bytes)),
            used_bytes: held.memory_used_bytes,
        };
        self.stored.keep(now, stored);
        let free = self.size_bytes.saturating_sub(held.stored_bytes);
        let free = free.min(swap_free);
        let limit = (held.limit_bytes > 0).then_some(held.limit_bytes);
        let left = limit.map(|limit| limit.saturating_sub(held.memory_used_bytes));
        sum.compressed(free, self.ratio(stored, now), left);
        Some(free)
    }

    /// That of all, or of what came lately where that is less and much of all: what was
    /// freed meanwhile is not told apart from it.
    fn ratio(&self, stored: Stored, now: Instant) -> f64 {
        let of = |it: Stored| {
            let pages = it.pages_bytes.saturating_sub(it.elsewhere_bytes);
            headroom::ratio(pages, it.used_bytes).filter(|_| pages >= JUDGED_FROM)
        };
        let came = self.stored.oldest(now).and_then(|(_, before)| {
            let pages_bytes = stored.pages_bytes.checked_sub(before.pages_bytes)?;
            if pages_bytes < stored.pages_bytes / MUCH {
                return None;
            }
            of(Stored {
                pages_bytes,
                elsewhere_bytes: stored
                    .elsewhere_bytes
                    .saturating_sub(before.elsewhere_bytes),
                used_bytes: stored.used_bytes.checked_sub(before.used_bytes)?,
            })
        });
        let all = of(stored).unwrap_or(RATIO_UNKNOWN);
        came.map_or(all, |came| came.min(all))
    }
}

/// Whether it is gone before a group that is told to end now has given anything back.
pub(super) fn is_too_soon(seen: &Seen) -> bool {
    seen.lately_gone_in.is_some_and(|time| time < END_TAKES)
}

/// Whether it is gone within the window.
pub(super) fn is_soon(seen: &Seen) -> bool {
    seen.gone_in.is_some_and(|time| time < WINDOW)
}

//! How much more programs can take, how soon that is gone, and how long all of them
//! waited for memory: what the guard looks at several times a second.
//!
//! The sum is that of `zmeld status`, with
//! the ratio of the pages that came within the last ten seconds where those are
//! enough to judge by: a runaway's pages are not those that were there before.

use std::time::{Duration, Instant};

use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{pressure, Host};

use super::devices::{Latest, Reader};
use super::open::{touched, OpenFile};
use super::ring::{Ring, WINDOW};
use crate::headroom::Sum;

/// What is judged of it needs this much of the window: for how long all waited,
const STALLED_MIN: Duration = Duration::from_secs(8);
/// and how fast memory goes, since one large request is no trend.
const TREND_MIN: Duration = Duration::from_secs(2);
/// A group that is told to end gives its memory back so much later.
const END_TAKES: Duration = Duration::from_secs(1);

/// What is seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    /// All RAM.
    pub total_bytes: u64,
    /// How much more programs can take.
    pub headroom_bytes: u64,
    /// When that is gone, as it went in the last ten seconds.
    pub gone_in: Option<Duration>,
    /// The same, as it went since the last look: what doubles is faster than it was.
    pub lately_gone_in: Option<Duration>,
    /// Files in memory (tmpfs).
    pub shared_bytes: u64,
    /// The share of the last ten seconds in which no task could go on for want of
    /// memory; absent where the kernel does not measure it, or not long enough yet.
    pub stalled: Option<f64>,
}

/// The files of it.
#[derive(Debug)]
pub(crate) struct Sight {
    meminfo: OpenFile,
    pressure: Option<OpenFile>,
    reader: Reader,
    latest: Latest,
    headroom: Ring<u64>,
    last: Option<(Instant, u64)>,
    stalled_us: Ring<u64>,
    buffer: Vec<u8>,
}

impl Sight {
    /// Nothing where there is no `/proc/meminfo`.
    pub fn open(host: &Host, reader: Reader) -> Option<Sight> {
        Some(Sight {
            meminfo: OpenFile::open(host, meminfo::PATH)?,
            pressure: OpenFile::open(host, "/proc/pressure/memory"),
            reader,
            latest: Latest::default(),
            headroom: Ring::new(),
            last: None,
            stalled_us: Ring::new(),
            buffer: touched(),
        })
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
        let shared_bytes = memory.bytes("Shmem").unwrap_or(0);
        let mut drives = memory.bytes("SwapFree").unwrap_or(0);
        let count = self.latest.devices.len();
        self.reader.read(now, &mut self.latest);
        if self.latest.devices.len() != count {
            // Another sum: what it was before tells nothing of how fast memory goes.
            self.headroom = Ring::new();
            self.last = None;
        }
        let pool = self.latest.pool_bytes;
        // Before Linux 5.19 nothing says what is in it: it counts as full.
        sum.pool(pool.saturating_sub(memory.bytes("Zswap").unwrap_or(pool)));
        for device in &self.latest.devices {
            // All that is free of swap bounds it: pages of zeros take a place and do not
            // reach the device.
            let free = device.size_bytes.saturating_sub(device.stored_bytes);
            let free = free.min(drives);
            sum.compressed(free, device.ratio, device.left_bytes);
            drives -= free;
        }
        sum.drive(drives);
        let headroom_bytes = sum.bytes();
        self.headroom.keep(now, headroom_bytes);
        Some(Seen {
            total_bytes,
            headroom_bytes,
            shared_bytes,
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

/// Whether it is gone before a group that is told to end now has given anything back.
pub(crate) fn is_too_soon(seen: &Seen) -> bool {
    seen.lately_gone_in.is_some_and(|time| time < END_TAKES)
}

/// Whether it is gone within the window.
pub(crate) fn is_soon(seen: &Seen) -> bool {
    seen.gone_in.is_some_and(|time| time < WINDOW)
}

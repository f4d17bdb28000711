//! How much more memory programs can take, how soon that is gone, and for how long all of
//! them waited for memory: what the guard looks at several times a second.
//!
//! The sum is that of `zmeld status`, with the ratio of the pages that came within the last
//! ten seconds where those are enough to judge by: a runaway's pages are not those that were
//! there before.
//!
//! Threads of ordinary priority read what makes its reader wait for others. The kernel keeps a
//! device's lock through all of a writeback or a recompression, and whoever reads `mm_stat`
//! meanwhile sleeps until they end. Any reader of `/proc/pressure/memory` reads it under a lock
//! that he keeps while he is not let run. The guard has what was read last.

use std::time::{Duration, Instant};

use zmeld_linux::compressed::{is_on, pool_max_bytes, Backed, MmStat, ZSWAP};
use zmeld_linux::headroom::{self, Sum};
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::service::is_due;
use zmeld_linux::{pressure, Host};

use crate::error::Error;
use crate::open::{touched, OpenFile, Ring, WINDOW};
use crate::worker::Worker;
use crate::GuardRule;

/// On a large machine a share of memory is a lot: this is little, and this very little.
pub const ROOM_BELOW_MAX: u64 = 4 << 30;
/// Nothing is ended above this, whatever the share.
pub const END_BELOW_MAX: u64 = 1 << 30;

/// Judgements need this much of the window: for how long all waited,
const STALLED_MIN: Duration = Duration::from_secs(8);
/// and how fast memory goes, since one large request is no trend.
const TREND_MIN: Duration = Duration::from_secs(2);

/// Assumed ratio where a device holds too little to judge by: pages of programs nearly always
/// compress better, and an empty device is not one of no use.
const RATIO_UNKNOWN: f64 = 2.0;
/// With less than this there is too little.
const JUDGED_FROM: u64 = 2 << 20;
/// Recent pages are judged alone where they are one part in so many of all.
const MUCH: u64 = 4;
/// How often devices are looked for.
const FOLLOW_EVERY: Duration = Duration::from_secs(10);
/// So long the guard waits for the first figures, when it begins.
const FIRST_MAX: Duration = Duration::from_secs(2);
/// How long all waited is not known where it was not read for so long.
const STALE: Duration = Duration::from_secs(3);
/// Figures of more devices are not handed over.
const DEVICES_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Memory that programs can have: what is available, what they have in RAM, and what is in
    /// swap. The kernel's own is none of it, nor are huge pages.
    pub can_bytes: u64,
    /// How much more they can take without swapping,
    pub available_bytes: u64,
    /// and all in all.
    pub headroom_bytes: u64,
    /// How fast that goes, in bytes a second of the last ten; 0 where it does not, or where
    /// too little is known.
    pub goes: f64,
    /// The share of the last ten seconds in which no task could go on for want of
    /// memory; absent where the kernel does not measure it, or not long enough yet.
    pub stalled: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct MemoryMonitor {
    meminfo: OpenFile,
    devices: Worker<Devices>,
    /// Their last figures, and the most that zswap's pool may take.
    rooms: Vec<Room>,
    pool_bytes: u64,
    /// Reclaimable by ZFS.
    cache_bytes: u64,
    pressure: Worker<Pressure>,
    stalled: Option<(Instant, f64)>,
    headroom: Ring<u64>,
    buffer: Vec<u8>,
}

impl MemoryMonitor {
    /// One that reads all by itself, or by threads.
    pub fn open(host: &Host, by_threads: bool) -> Result<MemoryMonitor, Error> {
        let meminfo = OpenFile::open(host, meminfo::PATH).ok_or_else(|| Error::CannotGuard {
            why: "/proc/meminfo cannot be opened".to_owned(),
        })?;
        let name = |name| by_threads.then_some(name);
        let begin = Instant::now();
        let all = Devices {
            host: host.clone(),
            all: Vec::new(),
            rooms: Vec::new(),
            pool_bytes: 0,
            cache_bytes: 0,
            followed: None,
            now: begin,
            buffer: touched(),
        };
        let mut devices = Worker::new(name("guard-devices"), all, Devices::read)?;
        let waits = Pressure {
            file: OpenFile::open(host, "/proc/pressure/memory"),
            buffer: touched(),
            total_us: Ring::new(),
            now: begin,
            stalled: None,
        };
        let read = |it: &mut Pressure| it.stalled = it.share();
        let pressure = Worker::new(name("guard-pressure"), waits, read)?;
        if by_threads {
            devices.send();
        }
        while devices.get().is_none() && begin.elapsed() < FIRST_MAX {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(MemoryMonitor {
            meminfo,
            devices,
            rooms: Vec::with_capacity(DEVICES_MAX),
            pool_bytes: 0,
            cache_bytes: 0,
            pressure,
            stalled: None,
            headroom: Ring::new(),
            buffer: touched(),
        })
    }

    /// Looks; nothing where `/proc/meminfo` cannot be read.
    pub fn look(&mut self, now: Instant) -> Option<Sample> {
        let (rooms, pool_bytes) = (&mut self.rooms, &mut self.pool_bytes);
        let cache_bytes = &mut self.cache_bytes;
        let count = rooms.len();
        self.devices.renew(|it| {
            rooms.clear();
            rooms.extend_from_slice(&it.rooms);
            (*pool_bytes, *cache_bytes) = (it.pool_bytes, it.cache_bytes);
            it.now = now;
        });
        if self.rooms.len() != count {
            // Another sum: what it was before tells nothing of how fast memory goes.
            self.headroom = Ring::new();
        }
        let stalled = &mut self.stalled;
        self.pressure.renew(|it| {
            *stalled = it.stalled.map(|share| (now, share));
            it.now = now;
        });
        let stalled = stalled.filter(|(then, _)| now.duration_since(*then) <= STALE);
        let memory = Meminfo::new(self.meminfo.read(&mut self.buffer).ok()?);
        let of = |name: &str| memory.bytes(name).unwrap_or(0);
        let (anonymous, available_bytes) = (of("AnonPages"), memory.available_bytes()?);
        let available_bytes = available_bytes + self.cache_bytes;
        let in_ram_bytes = anonymous + of("Shmem");
        let swapped = of("SwapTotal").saturating_sub(of("SwapFree"));
        // Locked memory is not swapped, however well it would compress.
        let mut sum = Sum::new(available_bytes, anonymous.saturating_sub(of("Mlocked")));
        // Before Linux 5.19 nothing says what is in zswap's pool: it counts as full.
        let (in_pool, pooled) = (memory.bytes("Zswap"), of("Zswapped"));
        let in_pool = in_pool.unwrap_or(self.pool_bytes);
        let left = self.pool_bytes.saturating_sub(in_pool);
        sum.pool(left, judged(pooled, in_pool).unwrap_or(RATIO_UNKNOWN));
        let mut drives = of("SwapFree");
        for room in &self.rooms {
            // All that is free of swap bounds it: pages of zeros take a place and do not
            // reach the device.
            let free = room.free_bytes.min(drives);
            sum.compressed(free, room.ratio, room.left_bytes);
            drives -= free;
        }
        sum.drive(drives);
        let headroom_bytes = sum.bytes();
        self.headroom.keep(now, headroom_bytes);
        let oldest = self.headroom.oldest(now);
        let oldest = oldest.filter(|(age, _)| *age >= TREND_MIN);
        let goes = oldest.map_or(0.0, |(age, before)| {
            before.saturating_sub(headroom_bytes) as f64 / age.as_secs_f64()
        });
        Some(Sample {
            can_bytes: available_bytes + in_ram_bytes + swapped,
            available_bytes,
            headroom_bytes,
            goes,
            stalled: stalled.map(|(_, share)| share),
        })
    }
}

pub(crate) fn is_soon(seen: &Sample) -> bool {
    (seen.headroom_bytes as f64) < seen.goes * WINDOW.as_secs_f64()
}

/// Threshold in bytes below which something is ended.
pub(crate) fn end_below(rule: &GuardRule, sample: &Sample) -> u64 {
    rule.end_below.of(sample.can_bytes).min(END_BELOW_MAX)
}

/// How long all tasks waited for memory.
#[derive(Debug)]
struct Pressure {
    file: Option<OpenFile>,
    buffer: Vec<u8>,
    total_us: Ring<u64>,
    /// When it is asked for, and the share of the last ten seconds.
    now: Instant,
    stalled: Option<f64>,
}

impl Pressure {
    fn share(&mut self) -> Option<f64> {
        let text = self.file.as_ref()?.read(&mut self.buffer).ok()?;
        let full = pressure::line(text, "full")?;
        self.total_us.keep(self.now, full.total_us);
        let (age, before) = self.total_us.oldest(self.now)?;
        let waited = full.total_us.saturating_sub(before) as f64;
        (age >= STALLED_MIN).then(|| waited / age.as_micros() as f64)
    }
}

#[derive(Debug, Clone, Copy)]
struct Room {
    free_bytes: u64,
    /// How many times smaller pages are in it.
    ratio: f64,
    /// RAM left by its limit.
    left_bytes: Option<u64>,
}

/// The devices' files, and what they said last.
#[derive(Debug)]
struct Devices {
    host: Host,
    all: Vec<SwapDevice>,
    rooms: Vec<Room>,
    /// The most that zswap's pool may take; 0 where it is off.
    pool_bytes: u64,
    cache_bytes: u64,
    followed: Option<Instant>,
    /// When it is asked for.
    now: Instant,
    buffer: Vec<u8>,
}

impl Devices {
    fn read(&mut self) {
        if is_due(self.followed, FOLLOW_EVERY, self.now) {
            self.followed = Some(self.now);
            self.follow();
        }
        self.cache_bytes = zfs_bytes(&self.host).unwrap_or(0);
        self.rooms.clear();
        for device in self.all.iter_mut().take(DEVICES_MAX) {
            let room = device.room(self.now, &mut self.buffer);
            self.rooms.extend(room);
        }
    }

    /// Opens what is swapped to by now; what is known of a device stays.
    fn follow(&mut self) {
        self.pool_bytes = pool_bytes(&self.host).unwrap_or(0);
        let mut known = std::mem::take(&mut self.all);
        for swap in self.host.swaps().unwrap_or_default() {
            let name = swap.path.file_name().and_then(|it| it.to_str());
            let file =
                |file: &str| OpenFile::open(&self.host, format!("/sys/block/{}/{file}", name?));
            let (Some(held), Some(name)) = (file("mm_stat"), name) else {
                continue;
            };
            let before = known.iter_mut().find(|it| it.name == name);
            self.all.push(SwapDevice {
                name: name.to_owned(),
                size_bytes: swap.size_bytes,
                held,
                backed: file("bd_stat"),
                pages: before.map_or_else(Ring::new, |it| it.pages),
            });
        }
    }
}

/// ZFS's reclaimable cache, in bytes: it is none of `MemAvailable`.
fn zfs_bytes(host: &Host) -> Option<u64> {
    let text = host.read("/proc/spl/kstat/zfs/arcstats").ok()?;
    let of = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        let mut words = lines.find_map(|mut it| (it.next() == Some(name)).then_some(it))?;
        words.nth(1)?.parse::<u64>().ok()
    };
    let evictable = [
        "mru_evictable_data",
        "mru_evictable_metadata",
        "mfu_evictable_data",
        "mfu_evictable_metadata",
    ];
    let evictable: Option<Vec<u64>> = evictable.into_iter().map(of).collect();
    let evictable = evictable.map_or(u64::MAX, |it| it.iter().sum());
    Some(of("size")?.saturating_sub(of("c_min")?).min(evictable))
}

/// The most that zswap's pool may take; none where it is off.
fn pool_bytes(host: &Host) -> Option<u64> {
    let is_on = is_on(&host.read(format!("{ZSWAP}/enabled")).ok()?);
    let percent = host.read_u64(format!("{ZSWAP}/max_pool_percent"));
    let total = Meminfo::new(&host.read(meminfo::PATH).ok()?).total_bytes()?;
    is_on.then_some(pool_max_bytes(total, percent.ok()?))
}

#[derive(Debug)]
struct SwapDevice {
    name: String,
    size_bytes: u64,
    held: OpenFile,
    backed: Option<OpenFile>,
    /// The size of the pages that it compressed, and the RAM that they took.
    pages: Ring<(u64, u64)>,
}

impl SwapDevice {
    /// Nothing where it is gone.
    fn room(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Room> {
        let held = MmStat::parse(self.held.read(buffer).ok()?)?;
        let backed = match &self.backed {
            Some(file) => Backed::parse(file.read(buffer).ok()?)?.held_bytes,
            None => 0,
        };
        let page = rustix::param::page_size() as u64;
        let elsewhere = held.same_filled_pages.saturating_mul(page) + backed;
        let (limit, used) = (held.limit_bytes, held.memory_used_bytes);
        let pages = held.stored_bytes.saturating_sub(elsewhere);
        self.pages.keep(now, (pages, used));
        // The ratio of all, or of what came lately where that is less and much of all: what was
        // freed meanwhile is not told apart from it.
        let ratio = judged(pages, used).unwrap_or(RATIO_UNKNOWN);
        let came = self.pages.oldest(now).and_then(|(_, before)| {
            let came = pages.checked_sub(before.0)?;
            judged(came, used.checked_sub(before.1)?).filter(|_| came >= pages / MUCH)
        });
        Some(Room {
            free_bytes: self.size_bytes.saturating_sub(held.stored_bytes),
            ratio: came.map_or(ratio, |came| came.min(ratio)),
            left_bytes: (limit > 0).then_some(limit.saturating_sub(used)),
        })
    }
}

/// The ratio of pages, where they are enough to judge by.
fn judged(pages_bytes: u64, used_bytes: u64) -> Option<f64> {
    headroom::ratio(pages_bytes, used_bytes).filter(|_| pages_bytes >= JUDGED_FROM)
}

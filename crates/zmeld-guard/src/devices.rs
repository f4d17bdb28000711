//! What the devices that are swapped to hold.
//!
//! Their files are read by a thread of ordinary priority: the kernel keeps a device's lock
//! through all of a writeback or a recompression, and whoever reads `mm_stat` meanwhile
//! sleeps until they end. The guard has what was read last, and never waits for more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::Host;

use super::open::{touched, OpenFile};
use super::ring::Ring;
use crate::{headroom, is_due, Error};

/// What is taken where too little is in a device to judge by: pages of programs nearly
/// always compress better, and an empty device is not one of no use.
const RATIO_UNKNOWN: f64 = 2.0;
/// With less than this there is too little: when memory is short there is no time to wait
/// for as much as a codec is judged by.
const JUDGED_FROM: u64 = 2 << 20;
/// What came lately is judged by itself where it is one part in so many of all.
const MUCH: u64 = 4;
/// How often devices are looked for.
const FOLLOW_EVERY: Duration = Duration::from_secs(10);
/// They are read at each look, and at least so often.
const READ_EVERY: Duration = Duration::from_secs(1);
/// So long the guard waits for the first figures, when it begins.
const FIRST_MAX: Duration = Duration::from_secs(2);
/// Figures of more devices are not handed over.
const DEVICES_MAX: usize = 64;

/// What a device holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceFigures {
    pub size_bytes: u64,
    pub stored_bytes: u64,
    /// How many times smaller pages are in it.
    pub ratio: f64,
    /// What its limit leaves of RAM.
    pub left_bytes: Option<u64>,
}

/// What was read last.
#[derive(Debug)]
pub(crate) struct Latest {
    pub devices: Vec<DeviceFigures>,
    /// The most that zswap's pool may take; 0 where it is off.
    pub pool_bytes: u64,
    /// It is there.
    is_read: bool,
}

impl Default for Latest {
    fn default() -> Latest {
        Latest {
            devices: Vec::with_capacity(DEVICES_MAX),
            pool_bytes: 0,
            is_read: false,
        }
    }
}

/// Who reads the devices.
#[derive(Debug)]
pub(crate) enum Reader {
    /// Whoever asks.
    Here(Box<Devices>),
    /// A thread.
    Thread(Arc<Shared>, JoinHandle<()>),
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    latest: Mutex<Latest>,
    stop: AtomicBool,
}

impl Reader {
    pub fn here(host: Host) -> Reader {
        Reader::Here(Box::new(Devices::new(host)))
    }

    /// # Errors
    /// When the thread cannot be started.
    pub fn start(host: Host) -> Result<Reader, Error> {
        let shared = Arc::new(Shared::default());
        let work = {
            let shared = Arc::clone(&shared);
            let mut devices = Devices::new(host);
            let mut latest = Latest::default();
            move || {
                let _ = rustix::process::setpriority_process(None, -20);
                while !shared.stop.load(Ordering::Relaxed) {
                    devices.read(Instant::now(), &mut latest);
                    // Held for as long as it takes to change places.
                    if let Ok(mut shown) = shared.latest.lock() {
                        std::mem::swap(&mut *shown, &mut latest);
                    }
                    std::thread::park_timeout(READ_EVERY);
                }
            }
        };
        let thread = crate::sentry::thread("guard-devices", work)?;
        let begin = Instant::now();
        while begin.elapsed() < FIRST_MAX && !shared.latest.lock().is_ok_and(|it| it.is_read) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(Reader::Thread(shared, thread))
    }

    /// What is known by now, in place of `latest`; asks for what is new.
    pub fn read(&mut self, now: Instant, latest: &mut Latest) {
        match self {
            Reader::Here(devices) => devices.read(now, latest),
            Reader::Thread(shared, thread) => {
                // Where it is being changed, what is known stays for this look.
                if let Ok(shown) = shared.latest.try_lock() {
                    latest.devices.clear();
                    latest.devices.extend_from_slice(&shown.devices);
                    latest.pool_bytes = shown.pool_bytes;
                }
                thread.thread().unpark();
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Reader::Thread(shared, thread) = self {
            // It may sleep in the kernel: it is not waited for.
            shared.stop.store(true, Ordering::Relaxed);
            thread.thread().unpark();
        }
    }
}

/// The devices' files.
#[derive(Debug)]
pub(crate) struct Devices {
    host: Host,
    all: Vec<SwapDevice>,
    pool_bytes: u64,
    followed: Option<Instant>,
    buffer: Vec<u8>,
}

impl Devices {
    fn new(host: Host) -> Devices {
        Devices {
            host,
            all: Vec::new(),
            pool_bytes: 0,
            followed: None,
            buffer: touched(),
        }
    }

    fn read(&mut self, now: Instant, latest: &mut Latest) {
        if is_due(self.followed, FOLLOW_EVERY, now) {
            self.followed = Some(now);
            self.follow();
        }
        latest.is_read = true;
        latest.pool_bytes = self.pool_bytes;
        latest.devices.clear();
        for device in self.all.iter_mut().take(DEVICES_MAX) {
            latest.devices.extend(device.figures(now, &mut self.buffer));
        }
    }

    /// Opens what is swapped to by now; what is known of a device stays.
    fn follow(&mut self) {
        self.pool_bytes = pool_bytes(&self.host).unwrap_or(0);
        let known = std::mem::take(&mut self.all);
        for swap in self.host.swaps().unwrap_or_default() {
            let Some(name) = swap.path.file_name().and_then(|it| it.to_str()) else {
                continue;
            };
            let Some(opened) = SwapDevice::open(&self.host, name, swap.size_bytes) else {
                continue;
            };
            let before = known.iter().find(|it| it.name == opened.name);
            self.all.push(SwapDevice {
                stored: before.map_or_else(Ring::new, |it| it.stored),
                ..opened
            });
        }
    }
}

/// The most that zswap's pool may take; none where it is off.
fn pool_bytes(host: &Host) -> Option<u64> {
    const PARAMETERS: &str = "/sys/module/zswap/parameters";
    let is_on = host.read(format!("{PARAMETERS}/enabled")).ok()? == "Y";
    let percent = host.read_u64(format!("{PARAMETERS}/max_pool_percent"));
    let total = Meminfo::new(&host.read(meminfo::PATH).ok()?).total_bytes()?;
    is_on.then_some(total / 100 * percent.ok()?.min(100))
}

/// The numbers in a line.
fn numbers<const COUNT: usize>(text: &str) -> Option<[u64; COUNT]> {
    let mut words = text.split_whitespace();
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    Some(numbers)
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

    /// Nothing where it is gone.
    fn figures(&mut self, now: Instant, buffer: &mut [u8]) -> Option<DeviceFigures> {
        // Stored, compressed, used, limit, used at most, of one value.
        let [stored_bytes, _, used_bytes, limit, _, same] = numbers(self.held.read(buffer).ok()?)?;
        let backed = self.backed.as_ref().and_then(|file| {
            let [units] = numbers(file.read(buffer).ok()?)?;
            Some(units)
        });
        let page = rustix::param::page_size() as u64;
        let stored = Stored {
            pages_bytes: stored_bytes,
            elsewhere_bytes: same
                .saturating_mul(page)
                .saturating_add(backed.unwrap_or(0).saturating_mul(4096)),
            used_bytes,
        };
        self.stored.keep(now, stored);
        Some(DeviceFigures {
            size_bytes: self.size_bytes,
            stored_bytes,
            ratio: self.ratio(stored, now),
            left_bytes: (limit > 0).then_some(limit.saturating_sub(used_bytes)),
        })
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

//! One action on one device: what is written to which attribute, and what came of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zmeld_report::units::{bytes, count, percent};

use super::limit::LentLimit;
use crate::meld::{self, MeldError, PassOptions};
use crate::Error;
use rustix::io::Errno;
use zmeld_config::{PageFilter, RecompressRule, Span, WritebackRule};
use zmeld_linux::{Host, HostError};
use zmeld_observe::{Backed, Device, MmStat};

/// An action takes so long in one go: the kernel holds the device's lock through a request,
/// and somebody may wait for it, or for the watch.
const TURN: Duration = Duration::from_secs(1);
/// What the kernel is asked for at a time takes about so long,
const PIECE: Duration = Duration::from_millis(250);
/// and is so many pages of 4 KiB at first.
const PIECE_FIRST: u64 = 4096;

struct Pieces<'a> {
    stop: &'a AtomicBool,
    end: Instant,
    began: Instant,
    pages: u64,
    /// What was asked for so far, and may be at most.
    asked: u64,
    most: u64,
}

impl Pieces<'_> {
    fn new(most: u64, stop: &AtomicBool) -> Pieces<'_> {
        let now = Instant::now();
        Pieces {
            stop,
            end: now + TURN,
            began: now,
            pages: PIECE_FIRST,
            asked: 0,
            most,
        }
    }

    fn next(&mut self) -> u64 {
        self.began = Instant::now();
        let pages = self.pages.min(self.most - self.asked);
        self.asked += pages;
        pages
    }

    /// The last piece was done: whether it is another one's turn now.
    fn is_over(&mut self) -> bool {
        let took = self.began.elapsed().max(Duration::from_millis(1));
        let times = PIECE.as_secs_f64() / took.as_secs_f64();
        let pages = self.pages as f64 * times.clamp(0.25, 4.0);
        self.pages = (pages as u64).max(64);
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.end
    }

    fn is_all(&self) -> bool {
        self.asked >= self.most
    }
}

/// Something to do, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The device's name.
    pub device: String,
    /// Why, in words and numbers.
    pub reason: String,
    /// What.
    pub kind: ActionKind,
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionKind {
    /// All pages are marked idle, to see later which were not used.
    MarkAll,
    /// Pages are compressed again.
    Recompress {
        /// Which pages, and how.
        rule: RecompressRule,
        /// Whether idle ones are marked by their age.
        by_age: bool,
        /// Codecs by their priorities.
        codecs: BTreeMap<u8, String>,
        /// At most so many pages.
        pages_max: Option<u64>,
    },
    /// Pages are written to the backing device.
    WriteBack {
        /// Which pages, and how.
        rule: WritebackRule,
        /// Whether idle ones are marked by their age.
        by_age: bool,
        /// At most so much.
        bytes_max: u64,
    },
    /// A pass, if a sample says that it pays.
    Meld(PassOptions),
    /// The day's writeback may begin.
    Budget {
        /// So much.
        bytes: u64,
    },
}

pub(super) enum ActionResult {
    /// Done, with figures.
    Done(String),
    /// Done in part, to go on later; so many pages were asked for.
    Stopped(String, u64),
    /// Idle pages were asked for by age, and the kernel knows no ages.
    NoAges,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.device)?;
        match &self.kind {
            ActionKind::MarkAll => f.write_str("mark all pages"),
            ActionKind::Recompress { rule, codecs, .. } => {
                let names: Vec<_> = codecs.values().map(String::as_str).collect();
                write!(
                    f,
                    "recompress {} pages with {}",
                    word(rule.pages),
                    names.join(", ")
                )
            }
            ActionKind::WriteBack {
                rule, bytes_max, ..
            } => write!(
                f,
                "write back {} pages, at most {}",
                word(rule.pages),
                bytes(*bytes_max)
            ),
            ActionKind::Meld(_) => f.write_str("meld identical pages"),
            ActionKind::Budget { bytes: budget } => {
                write!(f, "allow writeback of {}", bytes(*budget))
            }
        }
    }
}

/// The kernel's word for a choice of pages.
fn word(which: PageFilter) -> &'static str {
    match which {
        PageFilter::Idle => "idle",
        PageFilter::Huge => "huge",
        PageFilter::HugeIdle => "huge_idle",
    }
}

impl Action {
    pub(super) fn recompress(
        device: &Device,
        rule: &RecompressRule,
        marks_by_age: Option<bool>,
        asked_pages: u64,
    ) -> Action {
        let held = device.held.unwrap_or_default();
        Action {
            device: device.name.clone(),
            reason: format!(
                "due every {}; {} are compressed to {}",
                rule.every,
                bytes(device.in_memory_bytes()),
                bytes(held.compressed_bytes)
            ),
            kind: ActionKind::Recompress {
                rule: rule.clone(),
                by_age: marks_by_age != Some(false),
                codecs: device.recompression.clone(),
                pages_max: rule.max_pages.map(|most| most.saturating_sub(asked_pages)),
            },
        }
    }

    pub(super) fn write_back(
        device: &Device,
        rule: &WritebackRule,
        fill: f64,
        marks_by_age: Option<bool>,
        asked_pages: u64,
    ) -> Action {
        Action {
            device: device.name.clone(),
            reason: format!(
                "due every {}; it uses {} of its limit, the rule begins at {}",
                rule.every,
                percent(fill),
                percent(rule.above.fraction())
            ),
            kind: ActionKind::WriteBack {
                rule: rule.clone(),
                by_age: marks_by_age != Some(false),
                bytes_max: rule
                    .at_most
                    .0
                    .saturating_sub(asked_pages.saturating_mul(UNIT)),
            },
        }
    }

    fn path(&self, attribute: &str) -> String {
        format!("/sys/block/{}/{attribute}", self.device)
    }

    pub(super) fn perform(&self, host: &Host, stop: &AtomicBool) -> Result<ActionResult, Error> {
        match &self.kind {
            ActionKind::MarkAll => {
                host.write(self.path("idle"), "all")?;
                Ok(ActionResult::Done("marked".to_owned()))
            }
            ActionKind::Budget { bytes: budget } => {
                host.write(self.path("writeback_limit"), &(budget / UNIT).to_string())?;
                host.write(self.path("writeback_limit_enable"), "1")?;
                Ok(ActionResult::Done("given".to_owned()))
            }
            ActionKind::Recompress {
                rule,
                by_age,
                codecs,
                pages_max,
            } => {
                if !self.mark(host, rule.pages, rule.idle_after, *by_age)? {
                    return Ok(ActionResult::NoAges);
                }
                let before = self.held(host)?;
                let mut pieces = Pieces::new(pages_max.unwrap_or(u64::MAX), stop);
                let (mut after, mut is_over) = (before, false);
                for (priority, codec) in codecs {
                    // Kernels before 7.1 know no priority here and pass it over.
                    let mut request =
                        format!("type={} algo={codec} priority={priority}", word(rule.pages));
                    if rule.threshold.0 > 0 {
                        request += &format!(" threshold={}", rule.threshold.0);
                    }
                    // Until nothing more comes of it.
                    while !is_over && !pieces.is_all() {
                        // Kernels before 6.13 pass that over and take all.
                        let request = format!("{request} max_pages={}", pieces.next());
                        host.write(self.path("recompress"), &request)?;
                        let now = self.held(host)?;
                        let is_more = now.compressed_bytes != after.compressed_bytes;
                        after = now;
                        if !is_more {
                            break;
                        }
                        is_over = pieces.is_over();
                    }
                }
                let text = format!(
                    "compressed {} -> {}, RAM {} -> {}",
                    bytes(before.compressed_bytes),
                    bytes(after.compressed_bytes),
                    bytes(before.memory_used_bytes),
                    bytes(after.memory_used_bytes)
                );
                Ok(match is_over && !pieces.is_all() {
                    true => ActionResult::Stopped(text, pieces.asked),
                    false => ActionResult::Done(text),
                })
            }
            ActionKind::WriteBack {
                rule,
                by_age,
                bytes_max,
            } => match self.mark(host, rule.pages, rule.idle_after, *by_age)? {
                true => self.write_pages_back(host, rule.pages, *bytes_max, stop),
                false => Ok(ActionResult::NoAges),
            },
            ActionKind::Meld(options) => self.meld(host, options),
        }
    }

    /// Marks pages of an age as idle, where idle ones are meant. `false`: the kernel knows no
    /// ages. Not by age, marks made earlier stand.
    fn mark(&self, host: &Host, pages: PageFilter, age: Span, by_age: bool) -> Result<bool, Error> {
        if !by_age || !super::needs_idle(pages) {
            return Ok(true);
        }
        match host.write(self.path("idle"), &age.seconds.to_string()) {
            Ok(()) => Ok(true),
            Err(err) if err.is(Errno::INVAL) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    fn held(&self, host: &Host) -> Result<MmStat, Error> {
        let path = self.path("mm_stat");
        MmStat::parse(&host.read(&path)?)
            .ok_or_else(|| HostError::malformed(&path, "does not have the kernel's columns").into())
    }

    /// The kernel's own limit bounds what one request writes. A limit that the day's
    /// budget set is shortened by what was written, and never lengthened.
    fn write_pages_back(
        &self,
        host: &Host,
        which: PageFilter,
        bytes_max: u64,
        stop: &AtomicBool,
    ) -> Result<ActionResult, Error> {
        let limited = host.read(self.path("writeback_limit_enable"))? == "1";
        let left = || -> Result<_, Error> {
            Ok(match limited {
                true => Some(host.read_u64(self.path("writeback_limit"))?),
                false => None,
            })
        };
        if left()? == Some(0) || bytes_max < UNIT {
            return Ok(ActionResult::Done(
                "nothing: today's writeback budget is used up".to_owned(),
            ));
        }
        let before = self.backed(host)?;
        let mut pieces = Pieces::new(bytes_max / UNIT, stop);
        let is_over = loop {
            let left = left()?;
            let units = pieces.next().min(left.unwrap_or(u64::MAX));
            let lent = LentLimit::take(host, &self.device, left, units)?;
            let asked = host.write(self.path("writeback"), word(which));
            let rest = lent.give_back(host)?;
            // The limit itself ends a request with an I/O error on some kernels.
            if rest > 0 {
                asked?;
            }
            // Less than it was allowed: there is no more.
            if rest > 0 || pieces.is_all() || left == Some(units) {
                break false;
            }
            if pieces.is_over() {
                break true;
            }
        };
        let after = self.backed(host)?;
        let text = format!(
            "wrote {}; {} are on the backing device",
            bytes(after.written_bytes.saturating_sub(before.written_bytes)),
            bytes(after.held_bytes)
        );
        Ok(match is_over {
            true => ActionResult::Stopped(text, pieces.asked),
            false => ActionResult::Done(text),
        })
    }

    fn backed(&self, host: &Host) -> Result<Backed, Error> {
        let path = self.path("bd_stat");
        Backed::parse(&host.read(&path)?)
            .ok_or_else(|| HostError::malformed(&path, "does not have the kernel's columns").into())
    }

    fn meld(&self, host: &Host, options: &PassOptions) -> Result<ActionResult, Error> {
        let result = match meld::run(host, &self.device, options) {
            Ok(result) => result,
            Err(MeldError::Refused(err)) => return Err(err.into()),
            Err(err) => return Ok(ActionResult::Done(format!("not now: {err}"))),
        };
        let part = result
            .duplicate_share()
            .map_or("nothing to sample".to_owned(), |part| {
                format!("{} of the sample repeat", percent(part))
            });
        if result.below_threshold {
            return Ok(ActionResult::Done(format!("{part}: not worth a pass")));
        }
        let text = format!(
            "{part}; melded {} pages, saved {} for {} of metadata",
            count(result.pages_melded),
            bytes(result.bytes_saved),
            bytes(result.bytes_metadata)
        );
        Ok(match result.stopped {
            true => ActionResult::Stopped(format!("{text}; stopped by the time limit"), 0),
            false => ActionResult::Done(text),
        })
    }
}

/// The kernel counts writeback in units of 4 KiB.
const UNIT: u64 = 4096;

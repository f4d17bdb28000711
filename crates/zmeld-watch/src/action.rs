//! One action on one device: what is written to which attribute, and what came of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zmeld_report::units::{bytes, count, percent};

use super::limit::LentLimit;
use crate::meld;
use crate::Error;
use rustix::io::Errno;
use zmeld_config::{PageFilter, RecompressRule, Span};
use zmeld_linux::{Host, HostError};
use zmeld_observe::{Backed, MmStat};

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

/// Something to do on a device, and why.
pub(super) struct Action {
    pub device: String,
    pub reason: String,
    /// Pages of this age are marked idle before, where the kernel can tell ages.
    pub mark: Option<Span>,
    pub kind: ActionKind,
}

/// What is done.
pub(super) enum ActionKind {
    /// All pages are marked idle, to see later which were not used.
    MarkAll,
    /// Pages are compressed again, at most so many, with codecs by their priorities.
    Recompress {
        rule: RecompressRule,
        codecs: BTreeMap<u8, String>,
        pages_max: u64,
    },
    /// Pages are written to the backing device, at most so much.
    WriteBack { pages: PageFilter, bytes_max: u64 },
    /// A pass, if a sample says that it pays: what is asked for.
    Meld(String),
    /// The day's writeback may begin, of so many bytes.
    Budget(u64),
}

pub(super) enum ActionResult {
    /// Done, with figures.
    Done(String),
    /// Done in part, to go on later; so many pages were asked for.
    Stopped(String, u64),
    /// Idle pages were asked for by age, and the kernel knows no ages.
    NoAges,
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
    pub fn what(&self) -> String {
        match &self.kind {
            ActionKind::MarkAll => "mark all pages".to_owned(),
            ActionKind::Recompress { rule, codecs, .. } => {
                let names: Vec<_> = codecs.values().map(String::as_str).collect();
                let pages = word(rule.pages);
                format!("recompress {pages} pages with {}", names.join(", "))
            }
            ActionKind::WriteBack { pages, bytes_max } => {
                let most = bytes(*bytes_max);
                format!("write back {} pages, at most {most}", word(*pages))
            }
            ActionKind::Meld(_) => "meld identical pages".to_owned(),
            ActionKind::Budget(budget) => format!("allow writeback of {}", bytes(*budget)),
        }
    }

    fn path(&self, attribute: &str) -> String {
        format!("/sys/block/{}/{attribute}", self.device)
    }

    pub fn perform(&self, host: &Host, stop: &AtomicBool) -> Result<ActionResult, Error> {
        if let Some(age) = self.mark {
            match host.write(self.path("idle"), &age.seconds.to_string()) {
                Err(err) if err.is(Errno::INVAL) => return Ok(ActionResult::NoAges),
                marked => marked?,
            }
        }
        match &self.kind {
            ActionKind::MarkAll => {
                host.write(self.path("idle"), "all")?;
                Ok(ActionResult::Done("marked".to_owned()))
            }
            ActionKind::Budget(budget) => {
                host.write(self.path("writeback_limit"), &(budget / UNIT).to_string())?;
                host.write(self.path("writeback_limit_enable"), "1")?;
                Ok(ActionResult::Done("given".to_owned()))
            }
            ActionKind::Recompress {
                rule,
                codecs,
                pages_max,
            } => self.recompress(host, rule, codecs, *pages_max, stop),
            ActionKind::WriteBack { pages, bytes_max } => {
                self.write_pages_back(host, *pages, *bytes_max, stop)
            }
            ActionKind::Meld(request) => self.meld(host, request),
        }
    }

    fn recompress(
        &self,
        host: &Host,
        rule: &RecompressRule,
        codecs: &BTreeMap<u8, String>,
        pages_max: u64,
        stop: &AtomicBool,
    ) -> Result<ActionResult, Error> {
        let before = self.stat(host, "mm_stat", MmStat::parse)?;
        let mut pieces = Pieces::new(pages_max, stop);
        let (mut after, mut is_over) = (before, false);
        for (priority, codec) in codecs {
            // Kernels before 7.1 know no priority here and pass it over.
            let mut request = format!("type={} algo={codec} priority={priority}", word(rule.pages));
            if rule.threshold.0 > 0 {
                request += &format!(" threshold={}", rule.threshold.0);
            }
            // Until nothing more comes of it.
            while !is_over && !pieces.is_all() {
                // Kernels before 6.13 pass that over and take all.
                let request = format!("{request} max_pages={}", pieces.next());
                host.write(self.path("recompress"), &request)?;
                let now = self.stat(host, "mm_stat", MmStat::parse)?;
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

    fn stat<T>(&self, host: &Host, name: &str, parse: fn(&str) -> Option<T>) -> Result<T, Error> {
        let path = self.path(name);
        parse(&host.read(&path)?)
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
        let before = self.stat(host, "bd_stat", Backed::parse)?;
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
        let after = self.stat(host, "bd_stat", Backed::parse)?;
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

    fn meld(&self, host: &Host, request: &str) -> Result<ActionResult, Error> {
        let melding = match meld::run(host, &self.device, request) {
            Ok(melding) => melding,
            Err(err @ Error::Host(_)) => return Err(err),
            Err(err) => return Ok(ActionResult::Done(format!("not now: {err}"))),
        };
        let last = |name: &str| melding.counter(&format!("pass_{name}"));
        let part = match melding.duplicates_sampled() {
            Some(part) => format!("{} of the sample repeat", percent(part)),
            None => "nothing to sample".to_owned(),
        };
        if last("below_threshold") != 0 {
            return Ok(ActionResult::Done(format!("{part}: not worth a pass")));
        }
        let text = format!(
            "{part}; melded {} pages, saved {} for {} of metadata",
            count(last("pages_melded")),
            bytes(last("bytes_saved")),
            bytes(last("bytes_metadata"))
        );
        Ok(match last("stopped") != 0 {
            true => ActionResult::Stopped(format!("{text}; stopped by the time limit"), 0),
            false => ActionResult::Done(text),
        })
    }
}

/// The kernel counts writeback in units of 4 KiB.
pub(super) const UNIT: u64 = 4096;

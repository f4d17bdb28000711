//! One action on one device: what is written to which attribute, and what came of it.

use std::fmt;

use zmeld_report::units::{bytes, count, percent};

use super::limit::LentLimit;
use crate::config::{RecompressRule, Which, WritebackRule};
use crate::error::Error;
use crate::meld::{self, MeldError, PassOptions};
use crate::observe::{Backed, Device, Held};
use rustix::io::Errno;
use zmeld_linux::Host;

/// Something to do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The device's name.
    pub device: String,
    /// Why, in words and numbers.
    pub reason: String,
    /// What.
    pub kind: ActionKind,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// All pages are marked idle, to see later which were not used.
    MarkAll,
    /// Pages are compressed again.
    Recompress {
        /// Which.
        which: Which,
        /// Idle pages: of this age.
        idle_after_s: Option<u32>,
        /// Codecs with their priorities.
        codecs: Vec<(u8, String)>,
        /// Only objects of so many bytes at least.
        threshold: u64,
        /// At most so many pages.
        pages_max: Option<u64>,
    },
    /// Pages are written to the backing device.
    WriteBack {
        /// Which.
        which: Which,
        /// Idle pages: of this age.
        idle_after_s: Option<u32>,
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

/// How an action went.
pub(super) enum ActionResult {
    /// Done, with figures.
    Done(String),
    /// Done in part, to go on later.
    Stopped(String),
    /// Idle pages were asked for by age, and the kernel knows no ages.
    NoAges,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.device)?;
        match &self.kind {
            ActionKind::MarkAll => f.write_str("mark all pages"),
            ActionKind::Recompress { which, codecs, .. } => {
                let names: Vec<_> = codecs.iter().map(|(_, name)| name.as_str()).collect();
                write!(
                    f,
                    "recompress {} pages with {}",
                    word(*which),
                    names.join(", ")
                )
            }
            ActionKind::WriteBack {
                which, bytes_max, ..
            } => write!(
                f,
                "write back {} pages, at most {}",
                word(*which),
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
fn word(which: Which) -> &'static str {
    match which {
        Which::Idle => "idle",
        Which::Huge => "huge",
        Which::HugeIdle => "huge_idle",
    }
}

/// The age to mark by; none where marks made earlier do.
fn age(which: Which, seconds: u32, marks_by_age: Option<bool>) -> Option<u32> {
    (super::needs_idle(which) && marks_by_age != Some(false)).then_some(seconds)
}

impl Action {
    pub(super) fn recompress(
        device: &Device,
        rule: &RecompressRule,
        marks_by_age: Option<bool>,
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
                which: rule.pages,
                idle_after_s: age(rule.pages, rule.idle_after.seconds, marks_by_age),
                codecs: device
                    .recompression
                    .iter()
                    .map(|(priority, codec)| (*priority, codec.clone()))
                    .collect(),
                threshold: rule.threshold.0,
                pages_max: rule.max_pages,
            },
        }
    }

    pub(super) fn write_back(
        device: &Device,
        rule: &WritebackRule,
        fill: f64,
        marks_by_age: Option<bool>,
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
                which: rule.pages,
                idle_after_s: age(rule.pages, rule.idle_after.seconds, marks_by_age),
                bytes_max: rule.at_most.0,
            },
        }
    }

    fn path(&self, attribute: &str) -> String {
        format!("/sys/block/{}/{attribute}", self.device)
    }

    pub(super) fn perform(&self, host: &Host) -> Result<ActionResult, Error> {
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
                which,
                idle_after_s,
                codecs,
                threshold,
                pages_max,
            } => {
                if !self.mark(host, *idle_after_s)? {
                    return Ok(ActionResult::NoAges);
                }
                let before = self.held(host)?;
                for (priority, codec) in codecs {
                    // Kernels before 7.1 know no priority here and pass it over.
                    let mut request =
                        format!("type={} algo={codec} priority={priority}", word(*which));
                    if *threshold > 0 {
                        request += &format!(" threshold={threshold}");
                    }
                    if let Some(pages) = pages_max {
                        request += &format!(" max_pages={pages}");
                    }
                    host.write(self.path("recompress"), &request)?;
                }
                let after = self.held(host)?;
                Ok(ActionResult::Done(format!(
                    "compressed {} -> {}, RAM {} -> {}",
                    bytes(before.compressed_bytes),
                    bytes(after.compressed_bytes),
                    bytes(before.memory_used_bytes),
                    bytes(after.memory_used_bytes)
                )))
            }
            ActionKind::WriteBack {
                which,
                idle_after_s,
                bytes_max,
            } => {
                if !self.mark(host, *idle_after_s)? {
                    return Ok(ActionResult::NoAges);
                }
                self.write_pages_back(host, *which, *bytes_max)
            }
            ActionKind::Meld(options) => self.meld(host, options),
        }
    }

    /// Marks pages of an age as idle. `false`: the kernel knows no ages, and marks
    /// made earlier stand.
    fn mark(&self, host: &Host, idle_after_s: Option<u32>) -> Result<bool, Error> {
        let Some(seconds) = idle_after_s else {
            return Ok(true);
        };
        match host.write(self.path("idle"), &seconds.to_string()) {
            Ok(()) => Ok(true),
            Err(err) if err.is(Errno::INVAL) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    fn held(&self, host: &Host) -> Result<Held, Error> {
        let path = self.path("mm_stat");
        Held::parse(&host.read(&path)?)
            .ok_or_else(|| Error::malformed(&path, "does not have the kernel's columns"))
    }

    /// The kernel's own limit bounds what one request writes. A limit that the day's
    /// budget set is shortened by what was written, and never lengthened.
    fn write_pages_back(
        &self,
        host: &Host,
        which: Which,
        bytes_max: u64,
    ) -> Result<ActionResult, Error> {
        let limited = host.read(self.path("writeback_limit_enable"))? == "1";
        let left = match limited {
            true => Some(host.read_u64(self.path("writeback_limit"))?),
            false => None,
        };
        let units = left.unwrap_or(u64::MAX).min(bytes_max / UNIT);
        if units == 0 {
            return Ok(ActionResult::Done(
                "nothing: today's writeback budget is used up".to_owned(),
            ));
        }
        let before = self.backed(host)?;
        let lent = LentLimit::take(host, &self.device, left, units)?;
        let asked = host.write(self.path("writeback"), word(which));
        let rest = lent.give_back(host)?;
        // The limit itself ends a request with an I/O error on some kernels.
        if rest > 0 {
            asked?;
        }
        let after = self.backed(host)?;
        Ok(ActionResult::Done(format!(
            "wrote {}; {} are on the backing device",
            bytes(after.written_bytes.saturating_sub(before.written_bytes)),
            bytes(after.held_bytes)
        )))
    }

    fn backed(&self, host: &Host) -> Result<Backed, Error> {
        let path = self.path("bd_stat");
        Backed::parse(&host.read(&path)?)
            .ok_or_else(|| Error::malformed(&path, "does not have the kernel's columns"))
    }

    fn meld(&self, host: &Host, options: &PassOptions) -> Result<ActionResult, Error> {
        let result = match meld::run(host, &self.device, options) {
            Ok(result) => result,
            Err(MeldError::Refused(err)) => return Err(err),
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
            true => ActionResult::Stopped(format!("{text}; stopped by the time limit")),
            false => ActionResult::Done(text),
        })
    }
}

/// The kernel counts writeback in units of 4 KiB.
const UNIT: u64 = 4096;

//! What the guard says: figures that it left where it acted, made text by who tells them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zmeld_linux::amount::{bytes_text, percent_text as percent, Span};
use zmeld_linux::groups::ProtectedGroup;

use crate::choice::Cause;
use crate::memory::{is_soon, Sample};

/// No more groups are named when it begins.
const SHOWN_MAX: usize = 10;

/// Something that the guard did or sees, told after it.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Memory is short, or is not any more.
    Short(bool, Sample),
    /// Something would have to end, and nothing may.
    Nothing(Cause, Sample, &'static str),
    /// This one would be ended, were it no dry run.
    Would(Victim),
    Ends(Victim, EndedBy),
    /// It was told to end and is killed now: its grace is over, or memory is.
    Killed(Arc<str>, Option<Span>, u64),
    Ended(Gone),
    /// Groups were chosen; and whether for the first time, which is told.
    Chosen(Arc<Report>, bool),
    /// Memory cannot be looked at.
    Blind,
    /// Something cannot be looked at.
    Failed(Arc<str>),
}

/// A group that has to end, and why.
#[derive(Debug, Clone)]
pub(crate) struct Victim {
    pub group: Arc<str>,
    pub held_bytes: u64,
    pub grew_bytes: u64,
    pub processes: u64,
    pub cause: Cause,
    pub sample: Sample,
    /// From the look to the last signal.
    pub reaction: Duration,
}

/// How it is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// By SIGTERM.
    Sigterm,
    /// By SIGKILL: it has begun so many processes that they cannot be told one by one,
    ForkBomb,
    /// or it was told within a minute already,
    SecondTime,
    /// or none of its processes can be told.
    NotSignalled,
}

/// A group that has gone, or does not go.
#[derive(Debug, Clone)]
pub(crate) struct Gone {
    pub victim: Victim,
    pub age: Duration,
    pub is_gone: bool,
    pub was_killed: bool,
    pub headroom_bytes: u64,
}

/// What a rule comes to, as groups were chosen last.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub watched: Vec<String>,
    pub protected: Vec<ProtectedGroup>,
    pub unmatched: Vec<String>,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Short(true, sample) => write!(f, "memory is short: {}", room(sample)),
            Event::Short(false, sample) => {
                write!(f, "memory is not short any more: {}", room(sample))
            }
            Event::Nothing(cause, sample, why) => write!(f, "{}; {why}", because(*cause, sample)),
            Event::Would(victim) => write!(f, "would end {victim}"),
            Event::Ends(victim, how) => {
                let to = match victim.processes {
                    1 => "1 process".to_owned(),
                    count => format!("{count} processes"),
                };
                write!(f, "ends {victim} (")?;
                match how {
                    EndedBy::Sigterm => write!(f, "SIGTERM to {to})"),
                    EndedBy::ForkBomb => {
                        write!(f, "SIGKILL to {to}, which multiply)")
                    }
                    EndedBy::SecondTime => {
                        write!(f, "SIGKILL to {to}, again within a minute)")
                    }
                    EndedBy::NotSignalled => {
                        f.write_str("SIGKILL: none of its processes can be told)")
                    }
                }
            }
            Event::Killed(group, grace, headroom_bytes) => {
                write!(f, "{group} is killed (SIGKILL): ")?;
                match grace {
                    Some(grace) => write!(f, "it did not end within {grace}"),
                    None => write!(f, "programs can take {} more", bytes(*headroom_bytes)),
                }
            }
            Event::Ended(gone) => {
                let how = match gone.is_gone {
                    true => "ended after",
                    false => "does not end, it waits in the kernel: given up after",
                };
                let (age, left) = (gone.age.as_secs_f64(), bytes(gone.headroom_bytes));
                let group = &gone.victim.group;
                write!(f, "{group} {how} {age:.1} s; programs can take {left} more")
            }
            Event::Chosen(report, _) => {
                f.write_str("it follows this machine's memory, and ")?;
                match &report.watched[..] {
                    [] => f.write_str("ends nothing"),
                    all if all.len() <= SHOWN_MAX => write!(f, "may end: {}", all.join(", ")),
                    all => {
                        let (shown, more) = all.split_at(SHOWN_MAX);
                        write!(f, "may end: {} and {} more", shown.join(", "), more.len())
                    }
                }
            }
            Event::Blind => f.write_str("/proc/meminfo cannot be read"),
            Event::Failed(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: it holds {}", self.group, bytes(self.held_bytes))?;
        if self.grew_bytes > 0 {
            write!(f, ", {} more than 10 s ago", bytes(self.grew_bytes))?;
        }
        write!(f, "; {}", because(self.cause, &self.sample))
    }
}

fn bytes(bytes: u64) -> String {
    bytes_text(bytes as f64)
}

fn because(cause: Cause, sample: &Sample) -> String {
    match cause {
        Cause::NoRoom => room(sample),
        Cause::TooSoon => format!(
            "{}; that is used up before a group has ended that is asked to",
            room(sample)
        ),
        Cause::Stalled => format!(
            "nothing went on for want of memory in {} of the last 10 s",
            percent(sample.stalled.unwrap_or_default())
        ),
    }
}

fn room(sample: &Sample) -> String {
    let share = sample.headroom_bytes as f64 / sample.total_bytes.max(1) as f64;
    let (left, share) = (bytes(sample.headroom_bytes), percent(share));
    let room = format!("programs can take {left} more, {share} of RAM");
    match is_soon(sample) {
        true => {
            let time = sample.headroom_bytes as f64 / sample.goes;
            format!("{room}, used up in {:.0} s at this rate", time.ceil())
        }
        false => room,
    }
}

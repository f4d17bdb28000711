//! What the guard says: figures that it left where it acted, made text by who tells them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zmeld_linux::amount::Span;
use zmeld_linux::groups::ProtectedGroup;

use crate::choice::Cause;
use crate::sight::{is_soon, Seen};
use crate::text::{bytes, percent};

/// Something that the guard did or sees, told after it; its text is empty where there is
/// nothing to be told.
#[derive(Debug, Clone)]
pub struct GuardEvent(pub(crate) Event);

#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Memory is short, or is not any more.
    Short(bool, Seen),
    /// Something would have to end, and nothing may.
    Nothing(Cause, Seen, &'static str),
    /// This one would be ended, were it no dry run.
    Would(Victim),
    Ends(Victim, How),
    /// It was told to end and is killed now: its grace is over, or memory is.
    Killed(Arc<str>, Option<Span>, u64),
    Ended(Gone),
    /// Groups were chosen.
    Chosen(Arc<Report>),
    /// Something cannot be looked at.
    Failed(Arc<str>),
    /// So many events were not told.
    Dropped(u64),
}

/// A group that has to end, and why.
#[derive(Debug, Clone)]
pub(crate) struct Victim {
    pub group: Arc<str>,
    pub held_bytes: u64,
    pub grew_bytes: u64,
    pub processes: u64,
    pub cause: Cause,
    pub seen: Seen,
    /// From the look to the last signal.
    pub reaction: Duration,
}

/// How it is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By SIGTERM.
    Told,
    /// By SIGKILL: it has begun so many processes that they cannot be told one by one,
    Multiplies,
    /// or it was told within a minute already,
    Again,
    /// or none of its processes can be told.
    Deaf,
}

/// A group that has gone, or does not go.
#[derive(Debug, Clone)]
pub(crate) struct Gone {
    pub group: Arc<str>,
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

impl fmt::Display for GuardEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Event::Short(true, seen) => write!(f, "memory is short: {}", room(seen)),
            Event::Short(false, seen) => {
                write!(f, "memory is not short any more: {}", room(seen))
            }
            Event::Nothing(cause, seen, why) => write!(f, "{}; {why}", because(*cause, seen)),
            Event::Would(victim) => write!(f, "would end {victim}"),
            Event::Ends(victim, how) => {
                let count = victim.processes;
                write!(f, "ends {victim} (")?;
                match how {
                    How::Told => write!(f, "SIGTERM to {count} processes)"),
                    How::Multiplies => {
                        write!(f, "SIGKILL to {count} processes, which multiply)")
                    }
                    How::Again => {
                        write!(f, "SIGKILL to {count} processes, again within a minute)")
                    }
                    How::Deaf => f.write_str("SIGKILL: none of its processes can be told)"),
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
                let group = &gone.group;
                write!(f, "{group} {how} {age:.1} s; programs can take {left} more")
            }
            Event::Chosen(_) => Ok(()),
            Event::Failed(why) => f.write_str(why),
            Event::Dropped(count) => {
                write!(f, "{count} lines were not told, since nobody took them")
            }
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: it holds {}", self.group, bytes(self.held_bytes))?;
        if self.grew_bytes > 0 {
            write!(f, ", {} more than 10 s ago", bytes(self.grew_bytes))?;
        }
        write!(f, "; {}", because(self.cause, &self.seen))
    }
}

fn because(cause: Cause, seen: &Seen) -> String {
    match cause {
        Cause::NoRoom => room(seen),
        Cause::TooSoon => format!("{}; before anything has ended it would be gone", room(seen)),
        Cause::Stalled => format!(
            "nothing went on for want of memory in {} of the last 10 s",
            percent(seen.stalled.unwrap_or_default())
        ),
    }
}

fn room(seen: &Seen) -> String {
    let share = seen.headroom_bytes as f64 / seen.total_bytes.max(1) as f64;
    let (left, share) = (bytes(seen.headroom_bytes), percent(share));
    let room = format!("programs can take {left} more, {share} of RAM");
    match seen.gone_in.filter(|_| is_soon(seen)) {
        Some(time) => format!("{room}, gone in {:.0} s", time.as_secs_f64().ceil()),
        None => room,
    }
}

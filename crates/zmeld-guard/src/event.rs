//! Events of the guard: figures that it left where it acted, made text by who tells them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::amount::{bytes_text, percent_text as percent};
use zmeld_linux::service::is_due;

use crate::memory::{is_soon, Sample};

/// A thing that stays is told again after so long.
const TOLD_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub now: Instant,
    pub looks: u64,
    pub late_us_max: u64,
    pub headroom_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Programs can take no more.
    NoRoom,
    /// Nothing goes on for want of memory, though they could.
    Stalled,
}

/// Something that the guard did or sees, told after it.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Memory is short, or is not any more.
    Short(bool, Sample),
    /// Something would have to end, and nothing is.
    Nothing(Cause, Sample, Account),
    Would(Victim),
    Ends(Victim),
    Ended(Round),
    /// It was looked; the last of what is said of a look, and not told.
    Looked(Seen),
    Failed(Arc<str>),
}

/// An owner who pays, or would: what he holds, how much more that is than ten seconds ago, and
/// what all took.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub owner: Arc<str>,
    pub id: u64,
    pub held_bytes: u64,
    pub took_bytes: u64,
    pub went_bytes: u64,
    /// Why nothing of his is ended, and whether he is to blame.
    pub spared: Option<(&'static str, bool)>,
}

/// Processes that have to end, of one owner, and why.
#[derive(Debug, Clone)]
pub(crate) struct Victim {
    pub account: Account,
    pub group: Arc<str>,
    pub process: Arc<str>,
    pub pid: u32,
    pub score: u32,
    pub processes: u64,
    pub is_whole: bool,
    pub cause: Cause,
    pub sample: Sample,
}

/// Those of an owner that are told until all have gone, or wait in the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub victim: Victim,
    pub since: Instant,
    /// When the last of them were told.
    pub told: Instant,
    pub was_killed: bool,
    /// How long that took, and whether they have gone; and what programs can take then.
    pub age: Duration,
    pub is_gone: bool,
    pub headroom_bytes: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Short(is_short, sample) => {
                let is = match (is_short, is_soon(sample)) {
                    (true, true) => "memory goes fast",
                    (true, false) => "memory is short",
                    (false, _) => "memory is not short any more",
                };
                write!(f, "{is}: {}", room(sample))
            }
            Event::Nothing(cause, sample, account) => {
                let (why, is_blamed) = account.spared.unwrap_or_default();
                let (owner, held) = (&account.owner, bytes(account.held_bytes));
                let (because, took) = (because(*cause, sample), bytes(account.took_bytes));
                match is_blamed {
                    true => write!(
                        f,
                        "{because}; {owner} took most, {took} in 10 s, holds {held} and is not \
                         ended ({why}): nor is anybody else for it, the kernel decides"
                    ),
                    false => write!(
                        f,
                        "{because}; nothing is ended: {owner} holds most, {held}: {why}"
                    ),
                }
            }
            Event::Would(victim) => write!(f, "would end {victim}"),
            Event::Ends(victim) => write!(f, "ends {victim}"),
            Event::Ended(gone) => {
                let by = if gone.was_killed { " by SIGKILL" } else { "" };
                let how = match gone.is_gone {
                    true => "ended after",
                    false => "does not end, it waits in the kernel: given up after",
                };
                let (age, left) = (gone.age.as_secs_f64(), bytes(gone.headroom_bytes));
                let all = processes(&gone.victim);
                write!(
                    f,
                    "{all} {how} {age:.1} s{by}; programs can take {left} more"
                )
            }
            Event::Looked(_) => Ok(()),
            Event::Failed(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&processes(self))?;
        if self.is_whole {
            write!(f, " with all of {}", self.group)?;
        }
        let account = &self.account;
        write!(
            f,
            ", oom_score {}: {} holds most of those that may be ended, {}, and took {} of the {} \
             that went in 10 s; {}",
            self.score,
            account.owner,
            bytes(account.held_bytes),
            bytes(account.took_bytes),
            bytes(account.went_bytes),
            because(self.cause, &self.sample)
        )
    }
}

fn processes(victim: &Victim) -> String {
    let first = format!("{} ({})", victim.process, victim.pid);
    match victim.processes {
        1 => first,
        count => format!("{first} and {} more", count - 1),
    }
}

fn bytes(bytes: u64) -> String {
    bytes_text(bytes as f64)
}

fn because(cause: Cause, sample: &Sample) -> String {
    match cause {
        Cause::NoRoom => room(sample),
        Cause::Stalled => format!(
            "nothing went on for want of memory in {} of the last 10 s",
            percent(sample.stalled.unwrap_or_default())
        ),
    }
}

fn room(sample: &Sample) -> String {
    let left = sample.headroom_bytes as f64;
    let room = format!("programs can take {} more", bytes_text(left));
    match is_soon(sample) {
        true => format!(
            "{room}, used up in {:.0} s at this rate",
            (left / sample.goes).ceil()
        ),
        false => room,
    }
}

/// Returns true if a thing is to be told again, which is now.
pub(crate) fn is_over(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = is_due(*told, TOLD_EVERY, now);
    if is_over {
        *told = Some(now);
    }
    is_over
}

//! Acts before a machine freezes: says that memory is short, and ends what it was told to
//! end first.
//!
//! What counts is how much more programs can take, in RAM, compressed and on drives,
//! not how much swap is free. Where that is little, or soon gone, `zmeld watch` is told to
//! do at once what its rules do from time to time. Where it is less still, or where nothing
//! goes on for want of memory, a control group that the rule names is told to end, by
//! SIGTERM, then by SIGKILL: the one that grew most within ten seconds.
//!
//! The thread that looks and ends takes no memory, opens nothing and waits for nobody: files
//! stay open, and what is read has its place. Choosing groups, the devices' figures, what has
//! to be opened to end a group, the log and the note have a thread of ordinary priority each,
//! which hands over what is finished.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`rule`] | what is wanted, and how it is read from the configuration |
//! | `guard_loop` | the thread that looks and acts |
//! | `memory` | how much programs can take, and how soon that is gone |
//! | `group` | a group that may be ended, and its owner: what it takes, and how it is ended |
//! | `choosing` | the groups that the rule names, as the machine has them |
//! | `choice` | which of them are ended |
//! | `ending` | some are told to end, killed, and their memory waited for |
//! | `event`, `log` | what is said, and by whom |
//! | [`note`] | what it saw and did, for those who ask |
//! | `worker` | who does what may wait for others |
//! | `open` | a file that stays open; a figure of the last ten seconds |

mod choice;
mod choosing;
mod ending;
mod event;
mod group;
mod guard_loop;
mod log;
mod memory;
pub mod note;
mod open;
pub mod rule;
mod worker;

pub use choosing::{hierarchy, is_never_ended, outlook};
pub use guard_loop::{start, GuardLoop};
pub use note::Guarded;
pub use rule::GuardRule;

use std::time::{Duration, Instant};

/// Why the machine cannot be guarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The guard cannot act.
    #[error("the guard cannot act: {why}")]
    CannotGuard {
        /// Why, with a way out.
        why: String,
    },
    /// The configuration says nothing that can be done.
    #[error("{0}; zmeld config check says where")]
    Config(String),
    /// The machine does not say what it is asked for.
    #[error(transparent)]
    Host(#[from] zmeld_linux::HostError),
}

fn is_due(last: Option<Instant>, every: Duration, now: Instant) -> bool {
    last.is_none_or(|last| now.duration_since(last) >= every)
}

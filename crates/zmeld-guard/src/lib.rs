//! Before the machine stands still, the guard ends what the kernel's OOM killer would end, a
//! process at a time, of the user or service that holds most.
//!
//! Headroom counts: how much more programs can take, in RAM, compressed and on drives, not free
//! swap. Where that is little, `zmeld watch` is told to do at once what its rules do from time to
//! time. Where it is less still, or where nothing goes on for want of memory, the owner pays who
//! holds most of those that may be ended: his process with the highest `oom_score` gets SIGTERM,
//! then SIGKILL. Nobody who holds less than an equal share is ended for another.
//!
//! The thread that looks and ends takes no memory, opens nothing and waits for nobody: files
//! stay open, and what is read has its place. Looking at owners and their processes, the
//! devices' figures, what has to be opened to end a group, the memory of what was killed, the log
//! and the note have a thread each, which hands over what is finished.

mod choice;
mod ending;
mod error;
mod event;
mod guard_loop;
mod log;
mod memory;
pub mod note;
mod open;
mod owners;
mod plan;
mod processes;
mod worker;

pub use error::Error;
pub use guard_loop::{start, GuardLoop};
pub use memory::{END_BELOW_MAX, ROOM_BELOW_MAX};
pub use note::Guarded;
pub use owners::{is_never_ended, outlook, unmatched};
pub use plan::overview;
pub use zmeld_config::GuardRule;

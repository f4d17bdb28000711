//! When `zmeld watch` makes room, and what it may end where that is not enough.

use serde::{Deserialize, Serialize};

use super::{GroupPattern, Percent, Span};

/// What is done before a machine freezes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardRule {
    /// Room is made where programs can take less than this share of RAM more, or
    /// where what they can take is gone within ten seconds at today's rate.
    pub room_below: Percent,
    /// A control group is ended where they can take less than this share of RAM.
    pub end_below: Percent,
    /// One that grows is ended, too, where all tasks waited for memory this share of
    /// the last ten seconds (`/proc/pressure/memory`, `full`).
    pub stalled_max: Percent,
    /// What may be ended: these, each with what is below it, in this order where none
    /// of them grew. Without any, nothing is ever ended.
    pub end: Vec<GroupPattern>,
    /// Never these, nor what is below them.
    pub protect: Vec<GroupPattern>,
    /// Nor groups in which a thread has a real-time priority.
    pub protect_real_time: bool,
    /// Nor the `session.slice` of users' managers, which a desktop's shell is in.
    pub protect_sessions: bool,
    /// The last two protect an owner's groups as long as those together hold no more than
    /// this share of RAM.
    pub protected_max: Percent,
    /// How long a group has from SIGTERM to SIGKILL.
    pub grace: Span,
}

/// What is said of a rule that has nothing to make room with, and nothing to end.
pub(crate) const GUARDS_NOTHING: &str =
    "without end nothing is ended, and no other rule is there to make room with; name the groups \
     that may be ended (end = [\"/user.slice\"]), add [watch.reclaim], or remove [watch.guard]";

impl Default for GuardRule {
    fn default() -> Self {
        GuardRule {
            room_below: Percent::whole(10),
            end_below: Percent::whole(3),
            // systemd-oomd's limit for a group, there for 30 s.
            stalled_max: Percent::whole(60),
            end: Vec::new(),
            protect: Vec::new(),
            protect_real_time: true,
            protect_sessions: true,
            protected_max: Percent::whole(25),
            grace: Span::seconds(3),
        }
    }
}

//! When and where idle memory is reclaimed before it is needed.

use serde::{Deserialize, Serialize};

use super::{GroupPattern, Percent, Span};

/// From which control groups memory is reclaimed, and what that may cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReclaimRule {
    /// From these, with what is below them.
    pub groups: Vec<GroupPattern>,
    /// Never from these, nor from what is below them.
    pub protect: Vec<GroupPattern>,
    /// Nor from groups in which a thread has a real-time priority, as those that play
    /// sound have.
    pub protect_real_time: bool,
    /// What the kernel is asked by.
    #[serde(default)]
    pub mechanism: Mechanism,
    /// By `lru_gen`, only what was not used for so long.
    #[serde(default = "idle_after")]
    pub idle_after: Span,
    /// How often a little is reclaimed.
    pub every: Span,
    /// How much of a group's memory is reclaimed at a time, at first.
    pub step: Percent,
    /// Nothing is reclaimed from a group whose tasks waited for memory this share of
    /// the time since the last look (`memory.pressure`, `some`).
    pub pressure_max: Percent,
    /// Nor from one to which more than this share of its memory came back within a
    /// minute (`workingset_refault_*` of `memory.stat`).
    pub comeback_max: Percent,
}

impl Default for ReclaimRule {
    fn default() -> Self {
        ReclaimRule {
            groups: "/".parse().into_iter().collect(),
            protect: Vec::new(),
            protect_real_time: true,
            mechanism: Mechanism::Auto,
            idle_after: idle_after(),
            every: Span::seconds(5),
            step: Percent::of_hundredths(10),
            // What TMO holds its services to, and g-swap its machines.
            pressure_max: Percent::of_hundredths(10),
            comeback_max: Percent::of_hundredths(20),
        }
    }
}

fn idle_after() -> Span {
    Span::seconds(60)
}

/// By what memory is reclaimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mechanism {
    /// By `lru_gen` where the kernel has it, else by `memory.reclaim` where a group has it.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// By the kernel's multi-generational LRU, where it is known what was not used for how
    /// long (version 2, Linux 6.1, `CONFIG_LRU_GEN`).
    #[serde(rename = "lru_gen")]
    LruGen,
    /// By a control group's file, where the kernel chooses the pages (version 2, Linux
    /// 5.19).
    #[serde(rename = "memory.reclaim")]
    MemoryReclaim,
}

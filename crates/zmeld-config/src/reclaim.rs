//! When and where idle memory is reclaimed before it is needed.

use super::named::named;
use super::section::section;
use super::{GroupPattern, Percent, Span};

section! {
    /// From which control groups memory is reclaimed, and what that may cost.
    #[serde(default)]
    pub struct ReclaimRule in WatchReclaim {
        /// From these, with what is below them.
        groups: Vec<GroupPattern> = "/".parse().into_iter().collect(), always();
        /// Never from these, nor from what is below them.
        protect: Vec<GroupPattern>;
        /// Nor from groups in which a thread has a real-time priority, as those that play
        /// sound have.
        protect_real_time: bool = true, always();
        /// Mechanism of reclaim.
        mechanism: Mechanism, always();
        /// By `lru_gen`, only what was not used for so long.
        idle_after: Span = Span::seconds(60), always();
        /// How often a little is reclaimed.
        every: Span = Span::seconds(5), always();
        /// How much of a group's memory is reclaimed at a time, at first.
        step: Percent = Percent::of_hundredths(10), always();
        /// Nothing is reclaimed from a group whose tasks waited for memory this share of
        /// the time since the last look (`memory.pressure`, `some`): what TMO holds its
        /// services to.
        pressure_max: Percent = Percent::of_hundredths(10), always();
        /// Nor from one to which more than this share of its memory came back within a
        /// minute (`workingset_refault_*` of `memory.stat`): what g-swap holds its machines
        /// to.
        refault_max: Percent = Percent::of_hundredths(20), always();
    }
}

named! {
    /// By what memory is reclaimed.
    #[derive(Default)]
    pub enum Mechanism {
        /// By `lru_gen` where the kernel has it, else by `memory.reclaim` where a group has it.
        #[default]
        Auto = "auto",
        /// By the kernel's multi-generational LRU, where it is known what was not used for how
        /// long (version 2, Linux 6.1, `CONFIG_LRU_GEN`).
        LruGen = "lru_gen",
        /// By a control group's file, where the kernel chooses the pages (version 2, Linux
        /// 5.19).
        MemoryReclaim = "memory.reclaim",
    }
}

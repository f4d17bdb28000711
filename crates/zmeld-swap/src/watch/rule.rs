//! A rule of `[watch]` for compressed devices: each is a module of its own, and a line of
//! `rules` in `mod.rs`. Its keys are in zmeld-config (`settings.rs`).

use crate::observe::Device;
use crate::watch::action::Act;
use zmeld_config::{PageFilter, Span};

pub(super) struct WatchRule {
    /// Its table below `[watch]`.
    pub name: &'static str,
    /// Not more often than that.
    pub every: Span,
    /// After how long its pages are idle, where it is for such.
    pub idle_after: Option<Span>,
    pub plan: MakePlan,
}

/// Makes a rule's plan for a device; none where it would have no effect. With a part, its last turn
/// was stopped after so many pages. While memory is short (true) it is not held back by limits of
/// its own.
pub(super) type MakePlan = Box<dyn Fn(&Device, Option<u64>, bool) -> Option<Plan>>;

/// A rule's action in words, its reason beside its turn, and the act.
pub(super) struct Plan {
    pub what: String,
    pub why: String,
    pub act: Act,
}

/// The age of pages, where it is for idle ones.
pub(super) fn idle_after(pages: PageFilter, age: Span) -> Option<Span> {
    matches!(pages, PageFilter::Idle | PageFilter::HugeIdle).then_some(age)
}

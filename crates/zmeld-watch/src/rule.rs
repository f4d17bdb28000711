//! A rule of `[watch]` for compressed devices: each is a module of its own, and a line of
//! [`all`]. Its keys are in zmeld-config (`settings.rs`, `keys.rs`).

use crate::action::Act;
use zmeld_config::{PageFilter, Span, Watch};
use zmeld_observe::Device;

pub(super) trait Rule {
    /// Its table below `[watch]`.
    fn name(&self) -> &'static str;
    /// Not more often than that.
    fn every(&self) -> Span;
    /// Which pages it is for and, where those are idle ones, their age.
    fn pages(&self) -> Option<(PageFilter, Span)>;
    /// What it would do on a device; none where nothing can come of it. `part`: its last turn
    /// was stopped, when so many pages had been asked for. While memory is short (`is_pressed`)
    /// it is not held back by limits of its own.
    fn plan(&self, device: &Device, part: Option<u64>, is_pressed: bool) -> Option<Plan>;

    /// After how long its pages are idle, where it is for such.
    fn idle_after(&self) -> Option<Span> {
        let (pages, age) = self.pages()?;
        matches!(pages, PageFilter::Idle | PageFilter::HugeIdle).then_some(age)
    }
}

/// What a rule would do, for people; why, besides that it is its turn; and how.
pub(super) struct Plan {
    pub what: String,
    pub why: String,
    pub act: Act,
}

/// Those that a configuration has, in the order in which they have their turns.
pub(super) fn all(watch: &Watch) -> Vec<Box<dyn Rule>> {
    fn boxed<R: Rule + Clone + 'static>(rule: &Option<R>) -> Option<Box<dyn Rule>> {
        rule.clone().map(|rule| Box::new(rule) as Box<dyn Rule>)
    }
    let all = [
        boxed(&watch.recompress),
        boxed(&watch.writeback),
        boxed(&watch.meld),
    ];
    all.into_iter().flatten().collect()
}

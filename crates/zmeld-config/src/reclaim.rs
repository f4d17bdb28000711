//! When and where idle memory is reclaimed before it is needed.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::{GroupPattern, Percent, Span};

/// From which control groups memory is reclaimed, and what that may cost.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReclaimRule {
    /// Whether it is carried out: a drop-in may switch it off.
    #[default = true]
    pub enabled: bool,
    /// From these, with what is below them.
    #[default("/".parse().into_iter().collect())]
    pub groups: Vec<GroupPattern>,
    /// Never from these, nor from what is below them.
    pub protect: Vec<GroupPattern>,
    /// Nor from groups in which a thread has a real-time priority, as those that play
    /// sound have.
    #[default = true]
    pub protect_real_time: bool,
    /// Only what was not used for so long.
    #[default(Span::seconds(60))]
    pub idle_after: Span,
    /// How often a little is reclaimed.
    #[default(Span::seconds(5))]
    pub every: Span,
    /// How much of a group's memory is reclaimed at a time, at first.
    #[default(Percent::of_hundredths(10))]
    pub step: Percent,
    /// Nothing is reclaimed from a group whose tasks waited for memory this share of
    /// the time since the last look (`memory.pressure`, `some`): what TMO holds its
    /// services to.
    #[default(Percent::of_hundredths(10))]
    pub pressure_max: Percent,
    /// Nor from one to which more than this share of its memory came back within a
    /// minute (`workingset_refault_*` of `memory.stat`): what g-swap holds its machines
    /// to.
    #[default(Percent::of_hundredths(20))]
    pub refault_max: Percent,
}

//! The memory controller's groups: where they are, which are meant, and whose they are.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`hierarchy`] | where they are mounted, and which group a process is in |
//! | [`walk`] | the way through them, however deep they are |
//! | [`pattern`] | which are meant, by name or by path |
//! | [`owners`] | all of them, read owner by owner |
//! | [`targets`] | which a rule is for, and which are protected from it |

pub mod hierarchy;
pub mod owners;
pub mod pattern;
pub mod targets;
pub mod walk;

pub use hierarchy::{Hierarchy, NoGroups, Version};
pub use owners::VisitedGroup;
pub use pattern::GroupPattern;
pub use targets::{outlook, Outlook, ProtectedGroup, Selection, Targets};
pub use walk::Walk;

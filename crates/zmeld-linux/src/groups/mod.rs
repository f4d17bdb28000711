//! The memory controller's groups: where they are, which are meant, and whose they are.

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

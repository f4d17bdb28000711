//! From which control groups memory is reclaimed, and from which not.
//!
//! A group that the rule names is reclaimed from as a whole, as long as nothing in it
//! is protected; where something is, the groups beside that are, each by itself.
//! Protected are the rule's `protect`, the groups of threads with a real-time
//! priority, and zmeld's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::{GroupPattern, ReclaimRule};
use zmeld_linux::{process, Host};

use crate::error::Error;
use crate::observe::reclaimed::ProtectedGroup;
use crate::room::hierarchy::Hierarchy;

/// With more groups nothing is chosen: one that is protected might be among the rest,
/// and a user who was given a part of the tree makes as many as he likes.
const GROUPS_MAX: usize = 32_768;
/// As for deeper ones.
const DEPTH_MAX: usize = 64;
/// Scheduling policies that do not wait for others: FIFO, RR, DEADLINE (sched(7)).
const REAL_TIME: [&str; 3] = ["1", "2", "6"];

/// What was chosen.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// Directories, with the groups' paths as they are shown.
    pub groups: BTreeMap<PathBuf, String>,
    pub protected: Vec<ProtectedGroup>,
    /// What the rule names and no group is called, as it is written there.
    pub unmatched: Vec<String>,
}

impl Targets {
    /// Those of the machine as it is.
    ///
    /// # Errors
    /// When a directory of groups cannot be listed, or there are too many.
    pub fn choose(
        host: &Host,
        hierarchy: &Hierarchy,
        rule: &ReclaimRule,
    ) -> Result<Targets, Error> {
        let named = rule.groups.iter().chain(&rule.protect);
        let mut walk = Walk {
            host,
            hierarchy,
            rule,
            protected: protected_by_threads(host, hierarchy, rule),
            unmatched: named.collect(),
            left: GROUPS_MAX,
            found: Targets::default(),
        };
        walk.by_name(&hierarchy.top, 0)?;
        walk.left = GROUPS_MAX;
        walk.choose(&hierarchy.top, false, 0)?;
        let unmatched = walk.unmatched.into_iter().map(ToString::to_string);
        walk.found.unmatched = unmatched.collect();
        Ok(walk.found)
    }
}

struct Walk<'a> {
    host: &'a Host,
    hierarchy: &'a Hierarchy,
    rule: &'a ReclaimRule,
    /// Protected directories, and why each is.
    protected: BTreeMap<PathBuf, String>,
    /// Patterns that no group has matched so far.
    unmatched: Vec<&'a GroupPattern>,
    left: usize,
    found: Targets,
}

impl Walk<'_> {
    fn is_any(&self, patterns: &[GroupPattern], group: &Path) -> bool {
        let path = self.hierarchy.shown(group);
        patterns.iter().any(|pattern| pattern.matches(&path))
    }

    /// Notes the groups that `protect` names, and what the rule names in vain.
    fn by_name(&mut self, group: &Path, depth: usize) -> Result<(), Error> {
        if self.is_any(&self.rule.protect, group) {
            let why = "as [watch.reclaim] protect says".to_owned();
            self.protected.insert(group.to_path_buf(), why);
        }
        let path = self.hierarchy.shown(group);
        self.unmatched.retain(|pattern| !pattern.matches(&path));
        for child in self.children(group, depth)? {
            self.by_name(&child, depth + 1)?;
        }
        Ok(())
    }

    fn children(&mut self, group: &Path, depth: usize) -> Result<Vec<PathBuf>, Error> {
        let children = self.host.folders(group)?;
        let is_too_deep = depth >= DEPTH_MAX && !children.is_empty();
        match self.left.checked_sub(children.len()) {
            Some(left) if !is_too_deep => self.left = left,
            _ => {
                return Err(Error::CannotReclaim {
                    why: format!(
                        "there are more than {GROUPS_MAX} control groups, or deeper ones than \
                         {DEPTH_MAX} below {}: a protected one could be missed",
                        self.hierarchy.shown(group)
                    ),
                })
            }
        }
        Ok(children)
    }

    fn choose(&mut self, group: &Path, is_wanted: bool, depth: usize) -> Result<(), Error> {
        let is_wanted = is_wanted || self.is_any(&self.rule.groups, group);
        if let Some(why) = self.protected.get(group) {
            if is_wanted {
                self.found.protected.push(ProtectedGroup {
                    group: self.hierarchy.shown(group),
                    why: why.clone(),
                });
            }
            return Ok(());
        }
        let is_whole = !self.protected.keys().any(|it| it.starts_with(group));
        // The root has no figures of its own.
        if is_wanted && is_whole && group != self.hierarchy.top {
            let shown = self.hierarchy.shown(group);
            self.found.groups.insert(group.to_path_buf(), shown);
            return Ok(());
        }
        for child in self.children(group, depth)? {
            self.choose(&child, is_wanted, depth + 1)?;
        }
        Ok(())
    }
}

/// The groups of this process and of threads that do not wait for others. The root's
/// are the kernel's own, and nothing is reclaimed from it.
fn protected_by_threads(
    host: &Host,
    hierarchy: &Hierarchy,
    rule: &ReclaimRule,
) -> BTreeMap<PathBuf, String> {
    let mut protected = BTreeMap::new();
    let mut protect = |process: &str, why: String| {
        let group = hierarchy.group_of(host, process);
        if let Some(group) = group.filter(|group| *group != hierarchy.top) {
            protected.entry(group).or_insert(why);
        }
    };
    protect("self", "zmeld's own".to_owned());
    if !rule.protect_real_time {
        return protected;
    }
    for process in host.list("/proc").unwrap_or_default() {
        if process.parse::<u32>().is_err() {
            continue;
        }
        // Whatever ended meanwhile needs no protection.
        for thread in host
            .list(format!("/proc/{process}/task"))
            .unwrap_or_default()
        {
            let stat = host.read(format!("/proc/{process}/task/{thread}/stat"));
            if let Some(name) = stat.ok().as_deref().and_then(real_time_name) {
                protect(&process, format!("{name} (thread {thread}) is real-time"));
                break;
            }
        }
    }
    protected
}

/// The name of a thread that has a real-time policy, the 41st word of its `stat`.
fn real_time_name(stat: &str) -> Option<String> {
    let fields = process::fields(stat)?;
    let name = stat.rsplit_once(')')?.0.split_once('(')?.1;
    let is_real_time = REAL_TIME.contains(fields.get(38)?);
    is_real_time.then(|| name.replace(char::is_control, "?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_policy_is_found_behind_any_name() {
        let stat = |policy: u32| {
            let between = "0 ".repeat(37);
            format!("7 (a) b (c) S {between}{policy} 0 0")
        };
        assert_eq!(real_time_name(&stat(2)).as_deref(), Some("a) b (c"));
        assert_eq!(real_time_name(&stat(0)), None);
        assert_eq!(real_time_name("7 (a) S"), None);
    }
}

//! The machine's control groups, read owner by owner.
//!
//! An owner is the user or the service that a group belongs to, two levels down:
//! `/user.slice/user-1000.slice`, `/system.slice/web.service`. He may make as many groups below his
//! own as he likes, with names as long as he likes. So each owner has a quota of its own, in bytes:
//! nobody's groups crowd out another's. Groups that a rule protects, and those above them, are
//! found by their paths whatever else is there, on a quota beside that one.
//!
//! Invariants: a group stands behind the one above it; what is read takes `ALL_BYTES` at
//! most below the owners.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::hierarchy::{Hierarchy, Version};
use super::pattern::{is_like, GroupPattern};
use crate::{Host, HostError};

/// An owner's groups take no more, in bytes,
const OWNER_BYTES: usize = 2 << 20;
/// and all that is below owners no more: beyond it the owner that takes most is cut off.
const ALL_BYTES: usize = 16 << 20;
/// Bytes of a group beside its path.
const GROUP_BYTES: usize = 256;
/// No deeper groups are looked at,
const DEPTH_MAX: usize = 32;
/// nor those with a longer path, in bytes.
const PATH_MAX: usize = 1024;
/// How deep owners are.
const OWNER_DEPTH: usize = 2;

/// Groups to be found in any case.
#[derive(Debug, Default)]
pub(super) struct Sought<'a> {
    /// Patterns of protected groups,
    pub protect: Vec<&'a GroupPattern>,
    /// and groups that are, with all above them.
    pub paths: HashSet<&'a Path>,
    /// The rule's patterns.
    pub named: Vec<&'a GroupPattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quota {
    Protected,
    Named,
    Other,
}

#[derive(Debug)]
pub struct VisitedGroup {
    /// Its directory,
    pub path: PathBuf,
    /// and its path from the root of its hierarchy on.
    pub shown: String,
    /// The place of the one above it.
    pub above: usize,
    /// The place of its owner; of one above owners its own.
    pub owner: usize,
    /// Not all of what is below it was looked at.
    pub is_cut_off: bool,
    depth: usize,
    quota: Quota,
}

impl VisitedGroup {
    fn bytes(&self) -> usize {
        GROUP_BYTES + self.path.as_os_str().len() + self.shown.len()
    }
}

pub(super) struct Reader<'a> {
    pub host: &'a Host,
    pub hierarchy: &'a Hierarchy,
    pub sought: Sought<'a>,
    pub stop: &'a AtomicBool,
}

impl Reader<'_> {
    /// The groups: the top, what is above owners with those, and what each owner has.
    pub fn read(&self) -> Result<Vec<VisitedGroup>, HostError> {
        let mut groups = vec![self.group(self.hierarchy.top.clone(), 0, Quota::Other)];
        let mut at = 0;
        while at < groups.len() && groups[at].depth < OWNER_DEPTH {
            groups[at].owner = at;
            let mut quotas = [OWNER_BYTES; 3];
            for mut group in self.list(&mut groups[at], &mut quotas)? {
                group.above = at;
                groups.push(group);
            }
            at += 1;
        }
        let mut owners: Vec<Vec<VisitedGroup>> = Vec::new();
        let mut bytes = Vec::new();
        let mut all_bytes = 0;
        for owner in at..groups.len() {
            let below = self.below(&mut groups[owner])?;
            bytes.push(below.iter().map(VisitedGroup::bytes).sum::<usize>());
            all_bytes += bytes.last().unwrap_or(&0);
            owners.push(below);
            while all_bytes > ALL_BYTES {
                let most = (0..bytes.len()).max_by_key(|at| bytes[*at]).unwrap_or(0);
                all_bytes -= std::mem::take(&mut bytes[most]);
                owners[most] = protected_only(std::mem::take(&mut owners[most]));
                groups[at + most].is_cut_off = true;
            }
        }
        Ok(joined(groups, at, owners))
    }

    /// Groups below an owner, level by level; `above` is a place in it, from 1 on, with 0 for the
    /// owner.
    fn below(&self, owner: &mut VisitedGroup) -> Result<Vec<VisitedGroup>, HostError> {
        let mut quotas = [OWNER_BYTES; 3];
        let mut below = self.list(owner, &mut quotas)?;
        let mut at = 0;
        while at < below.len() {
            for mut group in self.list(&mut below[at], &mut quotas)? {
                group.above = at + 1;
                below.push(group);
            }
            at += 1;
        }
        Ok(below)
    }

    /// Whether what the groups in a group take is counted.
    fn counts(&self, group: &VisitedGroup) -> bool {
        if self.hierarchy.version == Version::One || group.depth < OWNER_DEPTH {
            return true;
        }
        let controllers = self.host.read(group.path.join("cgroup.subtree_control"));
        controllers.map_or(true, |all| all.split(' ').any(|it| it == "memory"))
    }

    /// The groups in a group: all of them, or where there are more than the quota is for,
    /// or what they take is not counted, those that are sought.
    fn list(
        &self,
        group: &mut VisitedGroup,
        quotas: &mut [usize; 3],
    ) -> Result<Vec<VisitedGroup>, HostError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let (path, depth) = (&group.path, group.depth + 1);
        let leads = |patterns: &[&GroupPattern]| -> Vec<String> {
            let forms = patterns
                .iter()
                .filter_map(|it| it.leads_below(&group.shown));
            forms.map(str::to_owned).collect()
        };
        let (protect, named) = (leads(&self.sought.protect), leads(&self.sought.named));
        let is_above_sought = self.sought.paths.contains(path.as_path());
        let is_any_sought = !protect.is_empty() || !named.is_empty() || is_above_sought;
        let is_deep = depth > DEPTH_MAX || path.as_os_str().len() > PATH_MAX;
        let mut is_cut_off = false;
        let mut counts = None;
        let mut found: Vec<VisitedGroup> = Vec::new();
        self.host.each_folder(path, &mut |name: &OsStr| {
            let quota = match is_any_sought {
                true => self.quota(path, name, &protect, &named),
                false => Quota::Other,
            };
            let is_counted = *counts.get_or_insert_with(|| self.counts(group));
            is_cut_off |= !is_counted;
            // Deeper than what is looked at nothing is sought either.
            if is_deep {
                is_cut_off = true;
                return false;
            }
            if quota == Quota::Other && is_cut_off {
                return is_any_sought;
            }
            let below = self.group(path.join(name), depth, quota);
            let left = &mut quotas[quota as usize];
            match left.checked_sub(below.bytes()) {
                Some(less) => {
                    *left = less;
                    found.push(below);
                }
                None => is_cut_off = true,
            }
            !is_cut_off || is_any_sought
        })?;
        if is_cut_off {
            group.is_cut_off = true;
            found.retain(|it| it.quota != Quota::Other);
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn quota(&self, path: &Path, name: &OsStr, protect: &[String], named: &[String]) -> Quota {
        let shown = name.to_string_lossy();
        let is_any = |forms: &[String]| forms.iter().any(|form| is_like(form, &shown));
        let is_path = || self.sought.paths.contains(path.join(name).as_path());
        match () {
            () if is_any(protect) || is_path() => Quota::Protected,
            () if is_any(named) => Quota::Named,
            () => Quota::Other,
        }
    }

    fn group(&self, path: PathBuf, depth: usize, quota: Quota) -> VisitedGroup {
        VisitedGroup {
            shown: self.hierarchy.shown(&path),
            path,
            above: 0,
            owner: 0,
            is_cut_off: false,
            depth,
            quota,
        }
    }
}

/// Protected groups of those below an owner.
fn protected_only(below: Vec<VisitedGroup>) -> Vec<VisitedGroup> {
    // Places of those that stay, or that are above what does not.
    let mut places = vec![0];
    let mut kept = Vec::new();
    for mut group in below {
        group.above = places[group.above];
        places.push(group.above);
        if group.quota == Quota::Protected {
            kept.push(group);
            *places.last_mut().unwrap_or(&mut 0) = kept.len();
        }
    }
    kept
}

/// All of them, the owners from that place on with what is below each.
fn joined(
    mut groups: Vec<VisitedGroup>,
    first: usize,
    owners: Vec<Vec<VisitedGroup>>,
) -> Vec<VisitedGroup> {
    for (place, owner) in groups.iter_mut().enumerate().skip(first) {
        owner.owner = place;
    }
    for (owner, below) in owners.into_iter().enumerate() {
        let (owner, offset) = (first + owner, groups.len());
        for mut group in below {
            group.owner = owner;
            group.above = match group.above {
                0 => owner,
                above => offset + above - 1,
            };
            groups.push(group);
        }
    }
    groups
}

//! Which control groups a rule is for, and which not.
//!
//! A group that the rule names is taken as a whole, as long as nothing in it
//! is protected; where something is, the groups beside that are, each by itself.
//! Protected are the rule's `protect`, the groups of threads with a real-time
//! priority, and zmeld's own; and a group that has more below it, or deeper, than is
//! looked at, since a protected one might be there. A user who was given a part of the
//! tree makes as many groups as he likes: they are looked at level by level, so that
//! his are the last, and what they cost is bounded.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::GroupPattern;
use crate::error::Error;
use crate::observe::reclaimed::ProtectedGroup;
use crate::room::hierarchy::Hierarchy;
use rustix::io::Errno;
use zmeld_linux::host::is_absent;
use zmeld_linux::{process, Host, HostError};

/// No more groups are looked at,
pub(super) const GROUPS_MAX: usize = 8192;
/// nor deeper ones,
const DEPTH_MAX: usize = 32;
/// nor those with a longer path, in bytes.
const PATH_MAX: usize = 1024;
/// Scheduling policies that do not wait for others: FIFO, RR, DEADLINE (sched(7)).
const REAL_TIME: [&str; 3] = ["1", "2", "6"];

/// What a rule says of groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    /// For these, with what is below them.
    pub named: &'a [GroupPattern],
    /// Never for these, nor for what is below them.
    pub protect: &'a [GroupPattern],
    /// Where it says so.
    pub protect_says: &'static str,
    /// Nor for groups of real-time threads.
    pub protect_real_time: bool,
    /// Nor for those that have more below them than is looked at: a protected one might
    /// be there, or somebody hides.
    pub protect_cut_off: bool,
}

/// What was chosen.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// Directories, with the groups' paths as they are shown.
    pub groups: BTreeMap<PathBuf, String>,
    /// The rule names the root: those of its own processes that are protected, and why.
    pub root: Option<HashMap<u32, &'static str>>,
    pub protected: Vec<ProtectedGroup>,
    /// What the rule names and no group is called, as it is written there.
    pub unmatched: Vec<String>,
}

/// What a rule comes to on a machine.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    /// What it names and no group is called, as it is written there.
    pub unmatched: Vec<String>,
    /// The groups that it is for, each with what is below it.
    pub groups: Vec<String>,
    /// It names the root, whose own processes it is for, too.
    pub is_for_root: bool,
}

impl From<Targets> for Outlook {
    fn from(targets: Targets) -> Outlook {
        Outlook {
            unmatched: targets.unmatched,
            groups: targets.groups.into_values().collect(),
            is_for_root: targets.root.is_some(),
        }
    }
}

/// What a rule comes to; none where that cannot be told.
pub(crate) fn outlook(host: &Host, rule: Selection) -> Option<Outlook> {
    let never = AtomicBool::new(false);
    let targets = match Hierarchy::find(host).ok()? {
        Some(hierarchy) => Targets::choose(host, &hierarchy, rule, &never),
        None => Targets::without_groups(host, rule, &never),
    };
    Some(targets.ok()?.into())
}

impl Targets {
    /// Those of the machine as it is; none where `stop` is set meanwhile.
    ///
    /// # Errors
    /// When what is protected cannot be told.
    pub fn choose(
        host: &Host,
        hierarchy: &Hierarchy,
        rule: Selection,
        stop: &AtomicBool,
    ) -> Result<Targets, Error> {
        let by_threads = ByThreads::find(host, Some(hierarchy), rule, stop)?;
        let mut protected = by_threads.groups;
        let groups = look(host, hierarchy, stop)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Targets::default());
        }
        let mut marks = Vec::with_capacity(groups.len());
        let mut unmatched: Vec<&GroupPattern> = rule.named.iter().chain(rule.protect).collect();
        for group in &groups {
            unmatched.retain(|pattern| !pattern.matches(&group.shown));
            let is_any = |patterns: &[GroupPattern]| {
                let mut patterns = patterns.iter();
                patterns.any(|pattern| pattern.matches(&group.shown))
            };
            // Those above stand before it; nothing is above the first.
            let above = marks
                .get(group.above)
                .and_then(|mark: &Mark| mark.why_below);
            let why_below = match protected.remove(&group.path) {
                Some(why) => Some(why),
                None if is_any(rule.protect) => Some(rule.protect_says),
                None => above,
            };
            let is_cut_off = group.is_cut_off && rule.protect_cut_off;
            let why =
                why_below.or(is_cut_off.then_some("there is more below it than is looked at"));
            marks.push(Mark {
                holds_protected: why.is_some(),
                why,
                why_below,
                is_named: is_any(rule.named),
                is_over: false,
            });
        }
        // Those below a group stand behind it.
        for at in (1..groups.len()).rev() {
            let above = groups[at].above;
            marks[above].holds_protected |= marks[at].holds_protected;
        }
        let mut found = Targets {
            unmatched: unmatched.into_iter().map(ToString::to_string).collect(),
            root: marks[0].is_named.then_some(by_threads.of_root),
            ..Targets::default()
        };
        for at in 0..groups.len() {
            let above = match at {
                0 => Mark::default(),
                _ => marks[groups[at].above],
            };
            marks[at].is_named |= above.is_named;
            marks[at].is_over = above.is_over;
            let mark = marks[at];
            if mark.is_over || !mark.is_named {
                continue;
            }
            if let Some(why) = mark.why {
                marks[at].is_over = true;
                found.protected.push(ProtectedGroup {
                    group: groups[at].shown.clone(),
                    why: why.to_owned(),
                });
            // The root has no figures of its own.
            } else if !mark.holds_protected && at > 0 {
                marks[at].is_over = true;
                let group = &groups[at];
                found.groups.insert(group.path.clone(), group.shown.clone());
            }
        }
        Ok(found)
    }

    /// Those of a machine without groups: all of its processes are the root's own.
    ///
    /// # Errors
    /// When what is protected cannot be told.
    pub fn without_groups(
        host: &Host,
        rule: Selection,
        stop: &AtomicBool,
    ) -> Result<Targets, Error> {
        let by_threads = ByThreads::find(host, None, rule, stop)?;
        let is_root = |pattern: &&GroupPattern| pattern.matches("/");
        let all = rule.named.iter().chain(rule.protect);
        let unmatched = all.filter(|pattern| !is_root(pattern));
        Ok(Targets {
            unmatched: unmatched.map(ToString::to_string).collect(),
            root: rule
                .named
                .iter()
                .any(|it| is_root(&it))
                .then_some(by_threads.of_root),
            ..Targets::default()
        })
    }
}

/// A group that was looked at.
struct Group {
    path: PathBuf,
    shown: String,
    /// The place of the one above it.
    above: usize,
    /// Not all of what is below it was looked at.
    is_cut_off: bool,
}

/// What becomes of a group.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// Why it is protected.
    why: Option<&'static str>,
    /// Why all that is below it is, too, whether the rule names it or not.
    why_below: Option<&'static str>,
    /// It is, or one below it.
    holds_protected: bool,
    /// The rule names it, or one above it.
    is_named: bool,
    /// It is decided on with one above it.
    is_over: bool,
}

/// The groups, level by level.
fn look(host: &Host, hierarchy: &Hierarchy, stop: &AtomicBool) -> Result<Vec<Group>, HostError> {
    let of = |path: PathBuf, above: usize| Group {
        shown: hierarchy.shown(&path),
        is_cut_off: path.as_os_str().len() > PATH_MAX,
        path,
        above,
    };
    let mut groups = vec![of(hierarchy.top.clone(), 0)];
    let mut depths = vec![0];
    let mut at = 0;
    while at < groups.len() && !stop.load(Ordering::Relaxed) {
        let left = match groups[at].is_cut_off || depths[at] >= DEPTH_MAX {
            true => 0,
            false => GROUPS_MAX - groups.len(),
        };
        match host.folders_at_most(&groups[at].path, left)? {
            Some(below) => {
                for path in below {
                    groups.push(of(path, at));
                    depths.push(depths[at] + 1);
                }
            }
            None => groups[at].is_cut_off = true,
        }
        at += 1;
    }
    Ok(groups)
}

/// What this process and threads that do not wait for others are in, and why it is
/// protected.
#[derive(Default)]
struct ByThreads {
    groups: HashMap<PathBuf, &'static str>,
    /// Processes that are in no group but the root.
    of_root: HashMap<u32, &'static str>,
}

impl ByThreads {
    fn find(
        host: &Host,
        hierarchy: Option<&Hierarchy>,
        rule: Selection,
        stop: &AtomicBool,
    ) -> Result<ByThreads, HostError> {
        let mut found = ByThreads::default();
        // One that cannot be read would leave this process unprotected.
        host.read_bytes("/proc/self/cgroup")?;
        found.protect(host, hierarchy, "self", "zmeld's own");
        if !rule.protect_real_time {
            return Ok(found);
        }
        for process in host.list("/proc")? {
            if process.parse::<u32>().is_err() || stop.load(Ordering::Relaxed) {
                continue;
            }
            // None of what ended meanwhile.
            let threads = or_gone(host.list(format!("/proc/{process}/task")))?;
            for thread in threads.unwrap_or_default() {
                let stat = or_gone(host.read(format!("/proc/{process}/task/{thread}/stat")))?;
                if stat.as_deref().is_some_and(is_real_time) {
                    found.protect(host, hierarchy, &process, "a thread of it is real-time");
                    break;
                }
            }
        }
        Ok(found)
    }

    fn protect(
        &mut self,
        host: &Host,
        hierarchy: Option<&Hierarchy>,
        process: &str,
        why: &'static str,
    ) {
        let is_root = |group: &PathBuf| hierarchy.is_some_and(|it| *group == it.top);
        let group = hierarchy.and_then(|it| it.group_of(host, process));
        if let Some(group) = group.filter(|group| !is_root(group)) {
            self.groups.entry(group).or_insert(why);
        }
        let pid = match process {
            "self" => Some(std::process::id()),
            pid => pid.parse().ok(),
        };
        // Wherever it is: it may be the root's own by the time that it matters.
        if let Some(pid) = pid {
            self.of_root.entry(pid).or_insert(why);
        }
    }
}

/// None where the process has ended: another error is one.
fn or_gone<T>(read: Result<T, HostError>) -> Result<Option<T>, HostError> {
    match read {
        Err(HostError::File(err))
            if is_absent(&err.cause)
                || err.cause.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
        {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Whether a thread has a real-time policy, the 41st field of its `stat`.
fn is_real_time(stat: &str) -> bool {
    let fields = process::fields(stat).unwrap_or_default();
    let policy = fields.get(38);
    policy.is_some_and(|policy| REAL_TIME.contains(policy))
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
        assert!(is_real_time(&stat(2)));
        assert!(!is_real_time(&stat(0)));
        assert!(!is_real_time("7 (a) S"));
    }
}

//! Which control groups a rule is for, and which not.
//!
//! A group that the rule names is taken as a whole, as long as nothing in it
//! is protected; where something is, the groups beside that are, each by itself.
//! Protected are the rule's `protect`, the groups of threads with a real-time
//! priority, and zmeld's own. A group that has more below it, or deeper, than is looked
//! at is protected as well, where the rule wants that, since a protected one might be there.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::hierarchy::{Hierarchy, NoGroups};
use super::owners::{Reader, Sought, VisitedGroup};
use super::pattern::GroupPattern;
use crate::{process, Host, HostError};

/// Scheduling policies that do not wait for others: FIFO, RR, DEADLINE (sched(7)).
const REAL_TIME: [&str; 3] = ["1", "2", "6"];

/// Why a group of theirs is protected.
const IS_REAL_TIME: &str = "a thread of it is real-time";

/// A rule's choice of groups.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// For these, with what is below them.
    pub named: &'a [GroupPattern],
    /// Never for these, nor for what is below them.
    pub protect: &'a [GroupPattern],
    /// Its key in words.
    pub protect_says: &'static str,
    /// Nor for groups of real-time threads.
    pub protect_real_time: bool,
    /// Nor for those that have more below them than is looked at: a protected one might
    /// be there, or somebody hides.
    pub protect_cut_off: bool,
}

#[derive(Debug, Default)]
pub struct Targets {
    /// Directories, with the groups' paths as they are shown.
    pub groups: BTreeMap<PathBuf, String>,
    /// Named groups that may not be taken.
    pub protected: Vec<ProtectedGroup>,
    /// Names in the rule that no group has, as they are written there.
    pub unmatched: Vec<String>,
}

/// A group that a rule leaves alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ProtectedGroup {
    /// Its path from the root of its hierarchy on.
    pub group: String,
    /// Why.
    pub why: String,
}

/// Effect of a rule on a machine.
#[derive(Debug, Default)]
pub struct Outlook {
    /// Its names that no group has, as they are written there.
    pub unmatched: Vec<String>,
    /// The groups that it is for, each with what is below it.
    pub groups: Vec<String>,
    /// It names the root, whose own processes it is for, too.
    pub is_for_root: bool,
    /// Why the machine has no control groups with a memory controller.
    pub no_groups: Option<NoGroups>,
}

/// Effect of a rule; none where that cannot be told.
pub fn outlook(host: &Host, rule: Selection) -> Option<Outlook> {
    let Some(hierarchy) = Hierarchy::find(host).ok()? else {
        let no_groups = NoGroups::read(host).ok()?;
        // All processes of a machine without groups are the root's own.
        let all = rule.named.iter().chain(rule.protect);
        let unmatched = all.filter(|pattern| !pattern.matches("/"));
        return Some(Outlook {
            unmatched: unmatched.map(ToString::to_string).collect(),
            groups: Vec::new(),
            is_for_root: rule.named.iter().any(|pattern| pattern.matches("/")),
            no_groups: Some(no_groups),
        });
    };
    let top = hierarchy.shown(&hierarchy.top);
    let targets = Targets::choose(host, &hierarchy, rule, &AtomicBool::new(false)).ok()?;
    Some(Outlook {
        unmatched: targets.unmatched,
        groups: targets.groups.into_values().collect(),
        is_for_root: rule.named.iter().any(|pattern| pattern.matches(&top)),
        no_groups: None,
    })
}

impl Targets {
    /// Those of the machine as it is; none where `stop` is set meanwhile.
    pub fn choose(
        host: &Host,
        hierarchy: &Hierarchy,
        rule: Selection,
        stop: &AtomicBool,
    ) -> Result<Targets, HostError> {
        let by_threads = protected_by_threads(host, hierarchy, rule, stop)?;
        let above = by_threads.keys().flat_map(|it| it.ancestors());
        let groups = Reader {
            host,
            hierarchy,
            sought: Sought {
                protect: rule.protect.iter().collect(),
                paths: above.filter(|it| it.starts_with(&hierarchy.top)).collect(),
                named: rule.named.iter().collect(),
            },
            stop,
        }
        .read()?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Default::default());
        }
        Ok(Targets::of(&groups, by_threads, rule))
    }

    /// `protected`: the groups that are for what runs in them, and why.
    fn of(
        groups: &[VisitedGroup],
        mut protected: HashMap<PathBuf, &'static str>,
        rule: Selection,
    ) -> Targets {
        let mut marks = Vec::with_capacity(groups.len());
        let mut unmatched: Vec<&GroupPattern> = rule.named.iter().chain(rule.protect).collect();
        for group in groups {
            unmatched.retain(|pattern| !pattern.matches(&group.shown));
            let is_any = |patterns: &[GroupPattern]| {
                let mut patterns = patterns.iter();
                patterns.any(|pattern| pattern.matches(&group.shown))
            };
            let own = protected.remove(&group.path);
            let own = own.or_else(|| is_any(rule.protect).then_some(rule.protect_says));
            // Those above stand before it; nothing is above the first.
            let above: Option<&Mark> = marks.get(group.above);
            let why_below = own.or(above.and_then(|it| it.why_below));
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
            } else if (!mark.holds_protected || groups[at].is_cut_off) && at > 0 {
                marks[at].is_over = true;
                let group = &groups[at];
                found.groups.insert(group.path.clone(), group.shown.clone());
            }
        }
        found
    }
}

#[derive(Clone, Copy, Default)]
struct Mark {
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

/// The groups of this process and of threads that do not wait for others, and why they are
/// protected.
fn protected_by_threads(
    host: &Host,
    hierarchy: &Hierarchy,
    rule: Selection,
    stop: &AtomicBool,
) -> Result<HashMap<PathBuf, &'static str>, HostError> {
    // One that cannot be read would leave this process unprotected.
    host.read_bytes("/proc/self/cgroup")?;
    let mut found = HashMap::new();
    let mut protect = |process: &str, why| {
        // Of one too deep to be named no more is looked at.
        let group = hierarchy.group_of(host, process).ok().flatten();
        if let Some(group) = group.filter(|group| *group != hierarchy.top) {
            found.entry(group).or_insert(why);
        }
    };
    protect("self", "zmeld's own");
    if !rule.protect_real_time {
        return Ok(found);
    }
    for process in host.processes()? {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // None of what ended meanwhile.
        let threads = process::unless_gone(host.list(format!("/proc/{process}/task")))?;
        for thread in threads.unwrap_or_default() {
            let stat =
                process::unless_gone(host.read(format!("/proc/{process}/task/{thread}/stat")))?;
            if stat.as_deref().is_some_and(is_real_time) {
                protect(&process.to_string(), IS_REAL_TIME);
                break;
            }
        }
    }
    Ok(found)
}

/// Whether a thread has a real-time policy, the 41st field of its `stat`.
fn is_real_time(stat: &str) -> bool {
    let fields = process::fields(stat).unwrap_or_default();
    let policy = fields.get(38);
    policy.is_some_and(|policy| REAL_TIME.contains(policy))
}

//! Which groups may be ended, as the rule names them and the machine has them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::candidate::{Candidate, Spared};
use super::choice::Cause;
use super::sight::{is_soon, Seen};
use super::{ring, GuardEvent, Sentry, PAUSE_MAX};
use crate::config::{GroupPattern, GuardRule};
use crate::error::Error;
use crate::room::hierarchy::Hierarchy;
use crate::watch::is_due;
use crate::watch::owners::Group;
use crate::watch::targets::{Outlook, Selection, Targets};
use zmeld_linux::Host;

/// How often groups are chosen; while memory is short and there is some, since what runs
/// away may have begun just now; and where one has to end and none is known.
const CHOOSE_EVERY: Duration = Duration::from_secs(10);
const CHOOSE_EVERY_SHORT: Duration = Duration::from_secs(1);
const CHOOSE_EVERY_LOST: Duration = Duration::from_secs(3);
/// Groups are followed where programs can take less than so many times what the rule
/// calls little.
const FOLLOWED_BELOW: u64 = 4;
/// A group with more below it than is looked at is followed as a whole for so long: what
/// grows does not begin anew each time that some of it comes or goes.
const WHOLE_FOR: Duration = Duration::from_secs(60);
/// No more are followed, the largest ones; of an owner none in place of another's who has
/// fewer.
pub(super) const CANDIDATES_MAX: usize = 64;
/// Before all others, and whatever the configuration says of them: what is needed to
/// get at the machine.
const NEVER: [&str; 11] = [
    // Paths: of a name alone anybody could call a group of his own.
    "/init.scope",
    "/system.slice/systemd-*.service",
    "/system.slice/dbus*.service",
    "/system.slice/ssh*.service",
    "/system.slice/system-ssh*.slice",
    "/system.slice/system-getty.slice",
    "/system.slice/system-serial*getty.slice",
    "/system.slice/*getty*.service",
    "/system.slice/*dm.service",
    "/user.slice/user-0.slice",
    // A desktop's shell: with it, all else of the session would end.
    "/user.slice/user-*.slice/user@*.service/session.slice",
];

impl Sentry {
    /// Looks at what they take, where it may matter soon.
    pub(super) fn look_at_groups(&mut self, seen: &Seen, cause: Option<Cause>, now: Instant) {
        let least = self.room_below(seen).saturating_mul(FOLLOWED_BELOW);
        let is_near = seen.headroom_bytes < least || is_soon(seen) || seen.stalled > Some(0.0);
        let waited = cause.is_some() || is_due(self.looked_at_groups, PAUSE_MAX / 2, now);
        if !is_near || !waited {
            return;
        }
        self.looked_at_groups = Some(now);
        self.went_bytes = self.headroom_then.saturating_sub(seen.headroom_bytes);
        self.headroom_then = seen.headroom_bytes;
        for candidate in &mut self.candidates {
            candidate.look(now, &mut self.buffer);
        }
    }

    /// Looks for them anew where that is due.
    pub(super) fn choose_groups(
        &mut self,
        cause: Option<Cause>,
        now: Instant,
        say: &mut dyn FnMut(GuardEvent),
    ) {
        let is_lost = cause.is_some() && self.candidates.is_empty();
        let every = match (is_lost, self.is_short()) {
            (true, _) => CHOOSE_EVERY_LOST,
            (false, true) => CHOOSE_EVERY_SHORT,
            (false, false) => CHOOSE_EVERY,
        };
        // A tenth of the time at most, whatever there is to look at.
        let every = every.max(self.choosing_took * 10);
        if self.ending.is_some() || !is_due(self.chosen, every, now) {
            return;
        }
        let before = self.chosen.replace(now);
        let begin = Instant::now();
        if self.rule.end.is_empty() {
            return;
        }
        let found = self.find_groups(before, now);
        self.choosing_took = begin.elapsed();
        match found {
            Ok(()) => self.told.failed = None,
            // Those that are known stay.
            Err(err) => self.fail(err, say),
        }
    }

    /// `before`: when they were found last. One that was not there then has grown from
    /// nothing.
    fn find_groups(&mut self, before: Option<Instant>, now: Instant) -> Result<(), Error> {
        let hierarchy = hierarchy(&self.host)?;
        let selection = selection(&self.rule, &self.protect);
        let mut whole: HashSet<PathBuf> = self.whole.keys().cloned().collect();
        self.whole
            .retain(|_, since| now.duration_since(*since) < WHOLE_FOR);
        let cut_off: HashSet<PathBuf> = self.whole.keys().cloned().collect();
        let stop = &self.shared.stop;
        let chosen = Targets::choose_of(&self.host, &hierarchy, selection, &cut_off, stop)?;
        let (mut targets, groups) = chosen;
        targets.unmatched.retain(|it| is_of_rule(it));
        let spared = Arc::new(Spared {
            patterns: self.protect.clone(),
            groups: std::mem::take(&mut targets.spared),
        });
        let mut incomplete = HashSet::new();
        for group in groups.iter().filter(|it| it.is_cut_off) {
            incomplete.insert(group.owner);
            self.whole.entry(group.path.clone()).or_insert(now);
            whole.insert(group.path.clone());
        }
        let mut found: Vec<(usize, Candidate)> = Vec::with_capacity(CANDIDATES_MAX + 1);
        let mut known = HashSet::new();
        for group in self.ended_whole(&groups, &targets.places) {
            let rank = rank(&self.rule.end, &group.shown);
            let spared = group.is_cut_off.then(|| Arc::clone(&spared));
            let opened = Candidate::open(&self.host, &hierarchy, &group.path, rank, spared);
            let Some(mut candidate) = opened else {
                continue;
            };
            candidate.is_unclear = incomplete.contains(&group.owner);
            let mut followed = self.candidates.iter();
            // One that was there and not followed has grown by nothing that is known.
            let is_new = self.is_new(group, &whole);
            match (followed.find(|it| it.directory == group.path), before) {
                (Some(followed), _) => candidate.go_on(followed),
                (None, Some(before)) if is_new => {
                    let oldest = now.checked_sub(ring::WINDOW).unwrap_or(before);
                    candidate.began_after(before.max(oldest));
                }
                (None, _) => candidate.rehearse(&self.host),
            }
            candidate.look(now, &mut self.buffer);
            known.insert(group.path.clone());
            found.push((group.owner, candidate));
            if found.len() > CANDIDATES_MAX {
                found.swap_remove(least(&found));
            }
        }
        self.candidates.clear();
        self.candidates.extend(found.into_iter().map(|(_, it)| it));
        self.known = Some(known);
        self.note.watched = self.candidates.iter().map(|it| it.shown.clone()).collect();
        self.note.protected = targets.protected;
        self.note.unmatched = targets.unmatched;
        Ok(())
    }

    /// Whether a group was not there, or had no processes, when some were chosen last.
    /// What was followed as a `whole` was not told apart.
    fn is_new(&self, group: &Group, whole: &HashSet<PathBuf>) -> bool {
        let was_told = !group.path.ancestors().any(|it| whole.contains(it));
        let is_unknown = |known: &HashSet<PathBuf>| !known.contains(&group.path);
        was_told && self.known.as_ref().is_some_and(is_unknown)
    }

    /// The groups that are ended each by itself: those that have processes of their own,
    /// that the kernel would end whole, too (`memory.oom.group`), or that are cut off. One
    /// without processes cannot be ended.
    fn ended_whole<'a>(&self, groups: &'a [Group], places: &[usize]) -> Vec<&'a Group> {
        let says = |group: &Group, file: &str| {
            let text = self.host.read_start(&group.path.join(file), 16);
            text.unwrap_or_default().trim_ascii().to_vec()
        };
        let mut is_split = vec![false; groups.len()];
        let is_meant: HashSet<usize> = places.iter().copied().collect();
        let mut whole = Vec::new();
        for (at, group) in groups.iter().enumerate().skip(1) {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            if !is_meant.contains(&at) && !is_split[group.above] {
                continue;
            }
            let is_whole = group.is_cut_off
                || !says(group, "cgroup.procs").is_empty()
                || says(group, "memory.oom.group") == b"1";
            match is_whole {
                true => whole.push(group),
                false => is_split[at] = true,
            }
        }
        whole
    }
}

/// The place of the one that is followed least of all: the smallest of the owner who has
/// most.
fn least(found: &[(usize, Candidate)]) -> usize {
    let mut counts = HashMap::new();
    for (owner, _) in found {
        *counts.entry(*owner).or_insert(0) += 1;
    }
    let least = (0..found.len()).min_by_key(|at| {
        let (owner, candidate) = &found[*at];
        (std::cmp::Reverse(counts[owner]), candidate.bytes())
    });
    least.unwrap_or(0)
}

/// Where the groups are that may be ended.
///
/// # Errors
/// When there are none.
pub(crate) fn hierarchy(host: &Host) -> Result<Hierarchy, Error> {
    Hierarchy::find(host)?.ok_or_else(|| Error::CannotGuard {
        why: "the kernel has no control groups that count memory: nothing can be ended by its \
              group"
            .to_owned(),
    })
}

/// Whether a pattern is the rule's own.
fn is_of_rule(pattern: &str) -> bool {
    !NEVER.contains(&pattern)
}

/// Whether a path names what is never ended, or something below that.
pub(crate) fn is_never_ended(pattern: &GroupPattern) -> bool {
    let path = pattern.to_string();
    let mut never = NEVER.iter().filter_map(|it| it.parse().ok());
    let is_it = |never: GroupPattern| {
        let mut above = Path::new(&path).ancestors();
        above.any(|path| path.to_str().is_some_and(|path| never.matches(path)))
    };
    path.starts_with('/') && never.any(is_it)
}

/// What a rule comes to; none where that cannot be told.
pub(crate) fn outlook(host: &Host, rule: &GuardRule) -> Option<Outlook> {
    let hierarchy = hierarchy(host).ok()?;
    let protect = protected(rule).ok()?;
    let never = AtomicBool::new(false);
    let targets = Targets::choose(host, &hierarchy, selection(rule, &protect), &never);
    let mut found = Outlook::from(targets.ok()?);
    found.unmatched.retain(|it| is_of_rule(it));
    Some(found)
}

/// What the rule protects, and what is never ended.
pub(super) fn protected(rule: &GuardRule) -> Result<Vec<GroupPattern>, Error> {
    let never = NEVER.iter().map(|it| it.parse());
    let all = rule.protect.iter().cloned().map(Ok).chain(never);
    all.collect::<Result<_, String>>()
        .map_err(|why| Error::CannotGuard { why })
}

/// What the rule says of groups, with all that it protects.
fn selection<'a>(rule: &'a GuardRule, protect: &'a [GroupPattern]) -> Selection<'a> {
    Selection {
        named: &rule.end,
        protect,
        protect_says: "as [watch.guard] protect says, or it is needed to get at the machine",
        protect_real_time: rule.protect_real_time,
        protect_cut_off: false,
    }
}

/// The place of the first pattern that names a group, or one above it.
fn rank(patterns: &[GroupPattern], shown: &str) -> usize {
    let ends = shown.match_indices('/').map(|(at, _)| at).skip(1);
    let above: Vec<&str> = ends
        .map(|end| &shown[..end])
        .chain(std::iter::once(shown))
        .collect();
    let names = |pattern: &GroupPattern| above.iter().any(|group| pattern.matches(group));
    patterns.iter().position(names).unwrap_or(patterns.len())
}

//! Which groups may be ended, as the rule names them and the machine has them.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::candidate::Candidate;
use super::choice::Cause;
use super::sight::{is_soon, Seen};
use super::{ring, GuardEvent, Sentry, PAUSE_MAX};
use crate::config::{GroupPattern, GuardRule};
use crate::error::Error;
use crate::room::hierarchy::Hierarchy;
use crate::watch::is_due;
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
/// No more groups are looked at for processes,
const LOOKED_AT_MAX: usize = 4096;
/// nor those with a longer path, in bytes.
const PATH_MAX: usize = 1024;
/// No more are followed, the largest ones.
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
        if is_due(self.followed, CHOOSE_EVERY, now) {
            self.followed = Some(now);
            self.sight.follow(&self.host);
        }
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
        let mut targets = Targets::choose(&self.host, &hierarchy, selection, &self.shared.stop)?;
        targets.unmatched.retain(|it| is_of_rule(it));
        let mut found = Vec::with_capacity(CANDIDATES_MAX + 1);
        let (whole, all) = self.ended_whole(targets.groups.into_keys());
        for directory in whole {
            let rank = rank(&self.rule.end, &hierarchy.shown(&directory));
            let Some(mut candidate) = Candidate::open(&self.host, &hierarchy, &directory, rank)
            else {
                continue;
            };
            let mut followed = self.candidates.iter();
            let was_there = |known: &HashSet<PathBuf>| known.contains(&directory);
            // One that was there and not followed has grown by nothing that is known.
            let is_new = self.known.as_ref().is_some_and(|known| !was_there(known));
            match (followed.find(|it| it.directory == directory), before) {
                (Some(followed), _) => candidate.go_on(followed),
                (None, Some(before)) if is_new => {
                    let oldest = now.checked_sub(ring::WINDOW).unwrap_or(before);
                    candidate.began_after(before.max(oldest));
                }
                (None, _) => candidate.rehearse(&self.host),
            }
            candidate.look(now, &mut self.buffer);
            found.push(candidate);
            if found.len() > CANDIDATES_MAX {
                // The largest ones matter.
                let smallest = (0..found.len()).min_by_key(|at| found[*at].bytes());
                found.swap_remove(smallest.unwrap_or(0));
            }
        }
        self.candidates = found;
        self.known = all;
        self.note.watched = self.candidates.iter().map(|it| it.shown.clone()).collect();
        self.note.protected = targets.protected;
        self.note.unmatched = targets.unmatched;
        Ok(())
    }

    /// The groups that are ended each by itself: those that have processes of their own or
    /// none below, or that the kernel would end whole, too (`memory.oom.group`). With them
    /// all groups that were looked at, unless there are more.
    fn ended_whole(
        &self,
        groups: impl Iterator<Item = PathBuf>,
    ) -> (Vec<PathBuf>, Option<HashSet<PathBuf>>) {
        let says = |group: &PathBuf, file: &str| {
            let text = self.host.read_optional(group.join(file)).ok().flatten();
            text.unwrap_or_default()
        };
        // Level by level: who makes many groups hides those of nobody else.
        let mut left: VecDeque<PathBuf> = groups.collect();
        let mut looked_at = 0;
        let mut whole = Vec::new();
        let mut all = HashSet::new();
        let mut are_all = true;
        while let Some(group) = left.pop_front() {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX || self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            all.insert(group.clone());
            let has_own = !says(&group, "cgroup.procs").trim().is_empty();
            let below = match has_own || says(&group, "memory.oom.group").trim() == "1" {
                true => Vec::new(),
                false => {
                    let below = self.host.folders_at_most(&group, LOOKED_AT_MAX);
                    below.ok().flatten().unwrap_or_default()
                }
            };
            // One without any may have some soon. Where there is more than is looked at, or
            // a path that is too long, who hides there does not hide from its end.
            let is_too_much = looked_at + left.len() + below.len() > LOOKED_AT_MAX
                || below.iter().any(|it| it.as_os_str().len() > PATH_MAX);
            are_all &= !is_too_much;
            match below.is_empty() || is_too_much {
                true => whole.push(group),
                false => left.extend(below),
            }
        }
        are_all &= left.is_empty();
        whole.extend(left);
        (whole, are_all.then_some(all))
    }
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

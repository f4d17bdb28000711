//! Which groups may be ended, as the rule names them and the machine has them: chosen by a
//! thread of ordinary priority, since that takes time and memory, as much as whoever makes
//! groups wants it to.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::groups::{self, Group, GroupPattern, Hierarchy, Outlook, Selection, Targets};
use zmeld_linux::host::is_absent;
use zmeld_linux::Host;

use crate::choice::{Cause, Figures};
use crate::ending::Ending;
use crate::event::{Event, Report};
use crate::group::{Meter, Owner, Spared, TrackedGroup};
use crate::guard_loop::GuardLoop;
use crate::open::{touched, WINDOW};
use crate::{is_due, Error, GuardRule};

/// How often groups are chosen; while memory is short and there is some, since what runs
/// away may have begun just now; and where one has to end and none is known.
const CHOOSE_EVERY: Duration = Duration::from_secs(10);
const CHOOSE_EVERY_SHORT: Duration = Duration::from_secs(1);
const CHOOSE_EVERY_LOST: Duration = Duration::from_secs(3);
/// A group with more below it than is looked at is followed as a whole for so long: what
/// grows does not begin anew each time that some of it comes or goes.
const WHOLE_FOR: Duration = Duration::from_secs(60);
/// and no more of an owner than these.
const WHOLE_MAX: usize = 64;
/// No more are followed, the largest ones; of an owner none in place of another's who has
/// fewer.
pub(crate) const CANDIDATES_MAX: usize = 64;
/// Nor more owners.
pub(crate) const OWNERS_MAX: usize = 256;
/// Before all others, and whatever the configuration says of them: what is needed to
/// get at the machine.
const NEVER: [&str; 10] = [
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
];
/// A desktop's shell: with it, all else of the session would end.
const SESSION: &str = "/user.slice/user-*.slice/user@*.service/session.slice";

impl GuardLoop {
    /// Looks for them anew where that is due.
    pub(crate) fn choose_groups(&mut self, cause: Option<Cause>, now: Instant) {
        self.follow(now);
        let (every, rest) = match (cause, self.is_short) {
            // A third of the time at most, whatever there is to look at, and else a tenth.
            (Some(_), _) if self.groups.is_empty() => (CHOOSE_EVERY_LOST, 2),
            (Some(_), _) => (CHOOSE_EVERY_SHORT, 2),
            (None, true) => (CHOOSE_EVERY_SHORT, 9),
            (None, false) => (CHOOSE_EVERY, 9),
        };
        let is_due = is_due(self.chosen, every.max(self.choosing_took * rest), now);
        let asked = self.chooser.get().filter(|_| is_due);
        if let Some(asked) = asked.filter(|_| !self.rule.end.is_empty()) {
            self.chosen = Some(now);
            asked.asked = Some(now);
            // Room for what is retired until the next one comes with it.
            std::mem::swap(&mut asked.retired, &mut self.retired);
            std::mem::swap(&mut asked.suspects, &mut self.suspects);
            self.chooser.send();
            self.follow(now);
        }
    }

    /// Goes on with those that were chosen, if there are any, with what is known of them
    /// already, without those that are on their way out.
    fn follow(&mut self, now: Instant) {
        let Some(chosen) = self.chooser.get().filter(|it| it.is_new) else {
            return;
        };
        chosen.is_new = false;
        if chosen.failed.is_some() {
            // Those that are known stay.
            if chosen.failed != self.failed {
                std::mem::swap(&mut self.failed, &mut chosen.failed);
                if let Some(why) = &self.failed {
                    self.outbox.say(Event::Failed(Arc::clone(why)));
                }
            }
            return;
        }
        std::mem::swap(&mut self.failed, &mut chosen.failed);
        // What is followed no more goes back to be closed.
        std::mem::swap(&mut self.groups, &mut chosen.groups);
        std::mem::swap(&mut self.owners, &mut chosen.owners);
        for group in &mut self.groups {
            let mut before = chosen.groups.iter();
            let mut owners = chosen.owners.iter();
            let directory = group.place.directory.as_path();
            if let Some(before) = before.find(|it| it.place.directory == directory) {
                group.go_on(before);
                group.look(now, &mut self.buffer);
            } else if let Some(before) = owners.find(|it| *it.directory == *directory) {
                // An owner who is followed as one from now on.
                group.meter.go_on(&before.meter);
                group.look(now, &mut self.buffer);
            }
        }
        for owner in &mut self.owners {
            let mut before = chosen.owners.iter();
            if let Some(before) = before.find(|it| it.directory == owner.directory) {
                owner.meter.go_on(&before.meter);
                owner.meter.look(now, &mut self.buffer);
            }
        }
        self.choosing_took = chosen.took;
        let report = Arc::clone(&chosen.report);
        let is_ending = |endings: &[Ending], it: &TrackedGroup| {
            let mut endings = endings.iter();
            endings.any(|ending| ending.directory() == it.place.directory)
        };
        while let Some(at) = self
            .groups
            .iter()
            .position(|it| is_ending(&self.endings, it))
        {
            let group = self.groups.swap_remove(at);
            self.retire(group);
        }
        let is_first = !std::mem::replace(&mut self.has_chosen, true);
        if let Some(first) = self.groups.first_mut().filter(|_| is_first) {
            first.rehearse(&mut self.ender, &mut self.buffer);
        }
        self.outbox.say(Event::Chosen(report, is_first));
    }

    /// Leaves what is followed no more to be closed; where there is no room, it is closed here.
    pub(crate) fn retire(&mut self, mut group: TrackedGroup) {
        group.forget();
        if self.retired.len() < self.retired.capacity() {
            self.retired.push(group);
        }
    }
}

/// What is chosen, and what was before, which is closed by whoever opened it.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    asked: Option<Instant>,
    is_new: bool,
    groups: Vec<TrackedGroup>,
    owners: Vec<Owner>,
    pub retired: Vec<TrackedGroup>,
    /// Owners whose groups cannot be told apart.
    pub suspects: Vec<Arc<Path>>,
    report: Arc<Report>,
    failed: Option<Arc<str>>,
    took: Duration,
}

/// Who chooses them.
pub(crate) fn choosing(
    host: Host,
    rule: GuardRule,
) -> Result<impl FnMut(&mut Chosen) + Send + 'static, Error> {
    let (protect, shelter) = protected(&rule)?;
    let mut choosing = Choosing {
        host,
        rule,
        protect,
        shelter,
        known: None,
        whole: HashMap::new(),
        hierarchy: None,
        buffer: touched(),
    };
    Ok(move |chosen: &mut Chosen| {
        let begin = Instant::now();
        // Before others are opened, so that files do not run out.
        chosen.retired.clear();
        chosen.groups.clear();
        chosen.owners.clear();
        let failed = choosing.choose(chosen.asked.unwrap_or(begin), chosen);
        if failed.is_err() {
            choosing.hierarchy = None;
        }
        chosen.failed = failed.err().map(|err| err.to_string().into());
        chosen.took = begin.elapsed();
        chosen.is_new = true;
    })
}

/// What it is chosen with.
struct Choosing {
    host: Host,
    rule: GuardRule,
    /// What the rule protects, and what is never ended.
    protect: Vec<GroupPattern>,
    /// What is protected no further than `protected_max`.
    shelter: Vec<GroupPattern>,
    /// All groups with processes that were told apart when some were chosen last, and when
    /// that was.
    known: Option<(HashSet<PathBuf>, Instant)>,
    /// Groups that are followed as one, with what is below them, and since when.
    whole: HashMap<PathBuf, Instant>,
    /// Where they are, once that is known.
    hierarchy: Option<Hierarchy>,
    buffer: Vec<u8>,
}

/// One that may be followed.
struct Found<'a> {
    group: &'a Group,
    is_sheltered: bool,
    bytes: u64,
    /// How many of its owner's are larger.
    turn: usize,
}

/// How many of each owner's groups are protected by his own means.
fn sheltered_of_owners(found: &[Found]) -> HashMap<usize, usize> {
    let mut counts = HashMap::new();
    for it in found.iter().filter(|it| it.is_sheltered) {
        *counts.entry(it.group.owner).or_default() += 1;
    }
    counts
}

impl Choosing {
    /// One that was not there when they were chosen last has grown from nothing.
    fn choose(&mut self, now: Instant, chosen: &mut Chosen) -> Result<(), Error> {
        let hierarchy = match self.hierarchy.take() {
            Some(known) => known,
            None => hierarchy(&self.host)?,
        };
        self.hierarchy = Some(hierarchy.clone());
        let selection = selection(&self.rule, &self.protect, &self.shelter);
        let mut whole: HashSet<PathBuf> = self.whole.keys().cloned().collect();
        self.whole
            .retain(|_, since| now.duration_since(*since) < WHOLE_FOR);
        for owner in chosen.suspects.drain(..) {
            self.whole.insert(owner.to_path_buf(), now);
        }
        let cut_off: HashSet<PathBuf> = self.whole.keys().cloned().collect();
        let never = AtomicBool::new(false);
        let found = Targets::choose_of(&self.host, &hierarchy, selection, &cut_off, &never)?;
        let (mut targets, groups) = found;
        targets.unmatched.retain(|it| is_of_rule(it));
        let spared = Arc::new(Spared {
            patterns: self.protect.clone(),
            groups: std::mem::take(&mut targets.spared),
        });
        let kept = Arc::new(Spared {
            patterns: Vec::new(),
            groups: std::mem::take(&mut targets.kept),
        });
        let mut incomplete = HashSet::new();
        for group in groups.iter().filter(|it| it.is_cut_off) {
            incomplete.insert(group.owner);
            whole.insert(group.path.clone());
            let owner = &groups[group.owner].path;
            let own = |it: &&PathBuf| it.starts_with(owner);
            if self.whole.contains_key(&group.path) {
                continue;
            }
            // Of one who has too many, all.
            let path = match self.whole.keys().filter(own).count() < WHOLE_MAX {
                true => &group.path,
                false => {
                    self.whole.retain(|it, _| !it.starts_with(owner));
                    owner
                }
            };
            self.whole.insert(path.clone(), now);
        }
        let mut found = self.ended_whole(&hierarchy, &groups, &targets, &kept);
        let known = found.iter().map(|it| it.group.path.clone()).collect();
        let all = sheltered_of_owners(&found);
        followed(&mut found);
        let some = sheltered_of_owners(&found);
        for Found {
            group,
            is_sheltered,
            ..
        } in found
        {
            let known = Figures {
                rank: rank(&self.rule.end, &group.shown),
                owner: group.owner,
                is_unclear: incomplete.contains(&group.owner),
                is_sheltered,
                has_more_sheltered: all.get(&group.owner) > some.get(&group.owner),
                ..Figures::default()
            };
            let spared = match is_sheltered {
                true => Some(Arc::clone(&kept)),
                false => group.is_cut_off.then(|| Arc::clone(&spared)),
            };
            let (path, buffer) = (&group.path, &mut self.buffer);
            let opened = TrackedGroup::open(&self.host, &hierarchy, path, known, spared, buffer);
            let Some(mut opened) = opened else {
                continue;
            };
            // One that was there and not followed has grown by nothing that is known.
            if let Some(before) = self.is_new_since(group, &whole, now) {
                let oldest = now.checked_sub(WINDOW).unwrap_or(before);
                opened.meter.began_after(before.max(oldest));
            }
            opened.look(now, &mut self.buffer);
            chosen.groups.push(opened);
        }
        self.known = Some((known, now));
        self.add_owners(&hierarchy, &groups, chosen, now);
        let watched = chosen.groups.iter().filter(|it| !it.found.is_sheltered);
        chosen.report = Arc::new(Report {
            watched: watched.map(|it| it.shown.to_string()).collect(),
            protected: targets.protected,
            unmatched: targets.unmatched,
        });
        Ok(())
    }

    /// About what a group takes, page cache included.
    fn size(&self, hierarchy: &Hierarchy, group: &Group) -> u64 {
        let read = |file: &str| self.host.read_u64(group.path.join(file)).unwrap_or(0);
        // Version 1 has no such file.
        read(hierarchy.version.usage_file()).saturating_add(read("memory.swap.current"))
    }

    /// Whose groups may be ended: those who have some now, and those who may.
    fn add_owners(
        &mut self,
        hierarchy: &Hierarchy,
        groups: &[Group],
        chosen: &mut Chosen,
        now: Instant,
    ) {
        let has_some: HashSet<usize> = chosen.groups.iter().map(|it| it.found.owner).collect();
        let has_named = |group: &Group| rank(&self.rule.end, &group.shown) < self.rule.end.len();
        // What is above owners takes what all of them take: it would hide who of them grew.
        let own = groups.iter().enumerate();
        let own = own.filter(|(at, group)| group.owner == *at && group.above > 0);
        for (place, group) in own.filter(|(at, group)| has_some.contains(at) || has_named(group)) {
            if chosen.owners.len() == OWNERS_MAX {
                break;
            }
            if let Some(mut meter) = Meter::open(&self.host, hierarchy, &group.path) {
                meter.look(now, &mut self.buffer);
                let directory = group.path.as_path().into();
                chosen.owners.push(Owner {
                    directory,
                    place,
                    meter,
                });
            }
        }
    }

    /// When some were chosen last, where a group was not there then, or had no processes.
    /// What was followed as a `whole` was not told apart; of what was not there long ago
    /// nobody knows how it grew.
    fn is_new_since(
        &self,
        group: &Group,
        whole: &HashSet<PathBuf>,
        now: Instant,
    ) -> Option<Instant> {
        let (known, before) = self.known.as_ref()?;
        let is_lately = now.duration_since(*before) <= CHOOSE_EVERY + WINDOW / 5;
        let was_told = !group.path.ancestors().any(|it| whole.contains(it));
        (is_lately && was_told && !known.contains(&group.path)).then_some(*before)
    }

    /// The groups that are ended each by itself: those that have processes of their own,
    /// that the kernel would end whole, too (`memory.oom.group`), or that are cut off. One
    /// without processes cannot be ended.
    fn ended_whole<'a>(
        &self,
        hierarchy: &Hierarchy,
        groups: &'a [Group],
        targets: &Targets,
        kept: &Spared,
    ) -> Vec<Found<'a>> {
        let says =
            |group: &Group, file: &str| match self.host.read_start(&group.path.join(file), 16) {
                Ok(text) => Some(text.trim_ascii().to_vec()),
                Err(err) => is_absent(&err.cause).then(Vec::new),
            };
        // Whether they are sheltered: those that are meant, and those that are not ended whole.
        let free = targets.places.iter().map(|at| (*at, false));
        let sheltered = targets.sheltered.iter().map(|at| (*at, true));
        let meant: HashMap<usize, bool> = free.chain(sheltered).collect();
        let mut split = vec![None; groups.len()];
        let mut whole = Vec::new();
        for (at, group) in groups.iter().enumerate().skip(1) {
            let Some(is_sheltered) = meant.get(&at).copied().or(split[group.above]) else {
                continue;
            };
            if kept.groups.contains(&group.path) {
                continue;
            }
            let is_whole = group.is_cut_off
                // What cannot be read now is not new later.
                || says(group, "cgroup.procs").is_none_or(|text| !text.is_empty())
                || says(group, "memory.oom.group").is_some_and(|text| text == b"1");
            match is_whole {
                true => whole.push(Found {
                    bytes: self.size(hierarchy, group),
                    group,
                    is_sheltered,
                    turn: 0,
                }),
                false => split[at] = Some(is_sheltered),
            }
        }
        whole
    }
}

/// Leaves those that are followed, the largest of each owner.
fn followed(found: &mut Vec<Found>) {
    found.sort_by_key(|it| (Reverse(it.bytes), it.is_sheltered));
    let mut counts = HashMap::new();
    for it in found.iter_mut() {
        let count = counts.entry(it.group.owner).or_insert(0);
        it.turn = *count;
        *count += 1;
    }
    found.sort_by_key(|it| it.turn);
    found.truncate(CANDIDATES_MAX);
}

/// Where the groups are that may be ended.
///
/// # Errors
/// When there are none.
pub fn hierarchy(host: &Host) -> Result<Hierarchy, Error> {
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
pub fn is_never_ended(pattern: &GroupPattern) -> bool {
    let path = pattern.to_string();
    let mut never = NEVER.iter().filter_map(|it| it.parse().ok());
    let is_it = |never: GroupPattern| {
        let mut above = Path::new(&path).ancestors();
        above.any(|path| path.to_str().is_some_and(|path| never.matches(path)))
    };
    path.starts_with('/') && never.any(is_it)
}

/// What a rule comes to; none where that cannot be told.
pub fn outlook(host: &Host, rule: &GuardRule) -> Option<Outlook> {
    hierarchy(host).ok()?;
    let (protect, shelter) = protected(rule).ok()?;
    let mut found = groups::outlook(host, selection(rule, &protect, &shelter))?;
    found.unmatched.retain(|it| is_of_rule(it));
    Some(found)
}

/// What the rule protects, with what is never ended; and what is protected no further than
/// `protected_max`.
fn protected(rule: &GuardRule) -> Result<(Vec<GroupPattern>, Vec<GroupPattern>), Error> {
    let never = NEVER.iter().map(|it| it.parse());
    let all = rule.protect.iter().cloned().map(Ok).chain(never);
    let shelter = rule.protect_sessions.then(|| SESSION.parse());
    let parsed = |all: Result<_, String>| all.map_err(|why| Error::CannotGuard { why });
    Ok((
        parsed(all.collect())?,
        parsed(shelter.into_iter().collect())?,
    ))
}

/// What the rule says of groups, with all that it protects.
fn selection<'a>(
    rule: &'a GuardRule,
    protect: &'a [GroupPattern],
    shelter: &'a [GroupPattern],
) -> Selection<'a> {
    Selection {
        named: &rule.end,
        protect,
        protect_says: "as [watch.guard] protect says, or it is needed to get at the machine",
        protect_real_time: rule.protect_real_time,
        shelter,
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

//! Which groups may be ended, as the rule names them and the machine has them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zmeld_linux::groups::{Group, GroupPattern, Hierarchy, Outlook, Selection, Targets};
use zmeld_linux::host::is_absent;
use zmeld_linux::Host;

use super::candidate::{Candidate, Spared};
use super::choice::Cause;
use super::event::{Event, Report};
use super::meter::{Meter, Owner};
use super::open::touched;
use super::sentry::{thread, Sentry, Shared};
use super::{is_due, ring, Error, Rule};

/// How often groups are chosen; while memory is short and there is some, since what runs
/// away may have begun just now; and where one has to end and none is known.
const CHOOSE_EVERY: Duration = Duration::from_secs(10);
const CHOOSE_EVERY_SHORT: Duration = Duration::from_secs(1);
const CHOOSE_EVERY_LOST: Duration = Duration::from_secs(3);
/// A group with more below it than is looked at is followed as a whole for so long: what
/// grows does not begin anew each time that some of it comes or goes.
const WHOLE_FOR: Duration = Duration::from_secs(60);
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

impl Sentry {
    /// Looks for them anew where that is due.
    pub(crate) fn choose_groups(
        &mut self,
        cause: Option<Cause>,
        now: Instant,
        say: &mut dyn FnMut(Event),
    ) {
        let is_lost = cause.is_some() && self.candidates.is_empty();
        let every = match (is_lost, self.is_short) {
            (true, _) => CHOOSE_EVERY_LOST,
            (false, true) => CHOOSE_EVERY_SHORT,
            (false, false) => CHOOSE_EVERY,
        };
        // A tenth of the time at most, whatever there is to look at.
        let every = every.max(self.choosing_took * 10);
        if is_due(self.chosen, every, now) {
            self.chosen = Some(now);
            if !self.rule.end.is_empty() {
                self.chooser.ask(now);
            }
        }
        match self.chooser.answer() {
            Some(Ok(chosen)) => self.follow(chosen, now, say),
            // Those that are known stay.
            Some(Err(why)) => self.fail(&why, say),
            None => {}
        }
    }

    /// Goes on with those that were chosen, with what is known of them already, without those
    /// that are on their way out.
    fn follow(&mut self, chosen: Chosen, now: Instant, say: &mut dyn FnMut(Event)) {
        self.fails_no_more();
        let followed = std::mem::replace(&mut self.candidates, chosen.candidates);
        for candidate in &mut self.candidates {
            let directory = &candidate.place.directory;
            let mut followed = followed.iter();
            if let Some(before) = followed.find(|it| it.place.directory == *directory) {
                candidate.go_on(before);
                candidate.look(now, &mut self.buffer);
            }
        }
        let owners = std::mem::replace(&mut self.owners, chosen.owners);
        for owner in &mut self.owners {
            let before = owners.iter().find(|it| it.directory == owner.directory);
            if let Some(before) = before {
                owner.meter.go_on(&before.meter);
                owner.meter.look(now, &mut self.buffer);
            }
        }
        let is_ending = |it: &Candidate| {
            let mut endings = self.endings.iter();
            endings.any(|ending| ending.directory() == it.place.directory)
        };
        while let Some(at) = self.candidates.iter().position(is_ending) {
            self.chooser.retire(self.candidates.swap_remove(at));
        }
        if let Some(first) = self.candidates.first_mut().filter(|_| !self.has_chosen) {
            first.rehearse(&mut self.buffer);
        }
        self.has_chosen = true;
        self.choosing_took = chosen.took;
        followed.into_iter().for_each(|it| self.chooser.retire(it));
        self.chooser.retire_owners(owners);
        say(Event::Chosen(chosen.report));
    }
}

/// What was chosen.
#[derive(Debug)]
pub(crate) struct Chosen {
    candidates: Vec<Candidate>,
    owners: Vec<Owner>,
    report: Arc<Report>,
    took: Duration,
}

type Answer = Result<Chosen, Arc<str>>;

/// Who chooses them. It takes time and memory, as much as whoever makes groups wants it to.
#[derive(Debug)]
pub(crate) enum Chooser {
    /// Whoever asks, at once.
    Here(Box<Choosing>, Option<Answer>),
    /// A thread of ordinary priority, and what it is left with.
    Thread(Arc<Desk>, JoinHandle<()>),
}

#[derive(Debug, Default)]
pub(crate) struct Desk {
    is_asked: AtomicBool,
    papers: Mutex<Papers>,
}

/// What is handed over: groups that were chosen, and those that are followed no more, whose
/// files are closed by whoever opened them.
#[derive(Debug, Default)]
struct Papers {
    answer: Option<Answer>,
    retired: Vec<Candidate>,
    owners: Vec<Owner>,
}

impl Chooser {
    /// Whoever asks chooses.
    ///
    /// # Errors
    /// When a pattern is none.
    pub fn here(host: Host, rule: Rule, shared: Arc<Shared>) -> Result<Chooser, Error> {
        let choosing = Choosing::new(host, rule, shared)?;
        Ok(Chooser::Here(Box::new(choosing), None))
    }

    /// A thread does.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(host: Host, rule: Rule, shared: Arc<Shared>) -> Result<Chooser, Error> {
        let mut choosing = Choosing::new(host, rule, shared)?;
        let desk = Arc::new(Desk::default());
        let work = {
            let desk = Arc::clone(&desk);
            move || {
                let _ = rustix::process::setpriority_process(None, -20);
                while !choosing.shared.stop.load(Ordering::Relaxed) {
                    if desk.is_asked.swap(false, Ordering::Acquire) {
                        let chosen = choosing.choose(Instant::now());
                        // Room for what is retired until the next answer, taken out of the lock.
                        let mut retired = Vec::with_capacity(2 * CANDIDATES_MAX);
                        let mut owners = Vec::new();
                        if let Ok(mut papers) = desk.papers.lock() {
                            papers.answer = Some(chosen.map_err(|err| err.to_string().into()));
                            std::mem::swap(&mut papers.retired, &mut retired);
                            std::mem::swap(&mut papers.owners, &mut owners);
                        }
                    }
                    std::thread::park_timeout(CHOOSE_EVERY);
                }
            }
        };
        let thread = thread("guard-choose", work)?;
        Ok(Chooser::Thread(desk, thread))
    }

    fn ask(&mut self, now: Instant) {
        match self {
            Chooser::Here(choosing, answer) => {
                let chosen = choosing.choose(now);
                *answer = Some(chosen.map_err(|err| err.to_string().into()));
            }
            Chooser::Thread(desk, thread) => {
                desk.is_asked.store(true, Ordering::Release);
                thread.thread().unpark();
            }
        }
    }

    /// What was chosen since; it is not waited for.
    fn answer(&mut self) -> Option<Answer> {
        match self {
            Chooser::Here(_, answer) => answer.take(),
            Chooser::Thread(desk, _) => desk.papers.try_lock().ok()?.answer.take(),
        }
    }

    fn retire_owners(&mut self, owners: Vec<Owner>) {
        if let Chooser::Thread(desk, _) = self {
            if let Ok(mut papers) = desk.papers.try_lock() {
                papers.owners = owners;
            }
        }
    }

    /// Leaves what is followed no more to be closed.
    pub fn retire(&mut self, candidate: Candidate) {
        if let Chooser::Thread(desk, _) = self {
            if let Ok(mut papers) = desk.papers.try_lock() {
                // Where there is no room, it is closed here.
                if papers.retired.len() < papers.retired.capacity() {
                    papers.retired.push(candidate);
                }
            }
        }
    }
}

/// What it is chosen with.
#[derive(Debug)]
pub(crate) struct Choosing {
    host: Host,
    rule: Rule,
    shared: Arc<Shared>,
    /// What the rule protects, and what is never ended.
    protect: Vec<GroupPattern>,
    /// What is protected no further than `protected_max`.
    shelter: Vec<GroupPattern>,
    /// All groups with processes that were told apart when some were chosen last, and when
    /// that was.
    known: Option<(HashSet<PathBuf>, Instant)>,
    /// Groups with more below them than is looked at, and since when.
    whole: HashMap<PathBuf, Instant>,
    buffer: Vec<u8>,
}

impl Choosing {
    fn new(host: Host, rule: Rule, shared: Arc<Shared>) -> Result<Choosing, Error> {
        let (protect, shelter) = protected(&rule)?;
        Ok(Choosing {
            host,
            rule,
            shared,
            protect,
            shelter,
            known: None,
            whole: HashMap::new(),
            buffer: touched(),
        })
    }

    /// One that was not there when they were chosen last has grown from nothing.
    fn choose(&mut self, now: Instant) -> Result<Chosen, Error> {
        let begin = Instant::now();
        let hierarchy = hierarchy(&self.host)?;
        let selection = selection(&self.rule, &self.protect, &self.shelter);
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
        let kept = Arc::new(Spared {
            patterns: Vec::new(),
            groups: std::mem::take(&mut targets.kept),
        });
        let mut incomplete = HashSet::new();
        for group in groups.iter().filter(|it| it.is_cut_off) {
            incomplete.insert(group.owner);
            self.whole.entry(group.path.clone()).or_insert(now);
            whole.insert(group.path.clone());
        }
        let mut found: Vec<Candidate> = Vec::with_capacity(CANDIDATES_MAX + 1);
        let mut known = HashSet::new();
        let free = self.ended_whole(&groups, &targets.places, &kept);
        let sheltered = self.ended_whole(&groups, &targets.sheltered, &kept);
        let free = free.into_iter().map(|it| (it, false));
        for (group, is_sheltered) in free.chain(sheltered.into_iter().map(|it| (it, true))) {
            let rank = rank(&self.rule.end, &group.shown);
            let spared = match is_sheltered {
                true => Some(Arc::clone(&kept)),
                false => group.is_cut_off.then(|| Arc::clone(&spared)),
            };
            // Whether it can be opened or not: it is not new.
            known.insert(group.path.clone());
            let opened = Candidate::open(&self.host, &hierarchy, &group.path, rank, spared);
            let Some(mut candidate) = opened else {
                continue;
            };
            candidate.is_unclear = incomplete.contains(&group.owner);
            candidate.is_sheltered = is_sheltered;
            candidate.owner = group.owner;
            // One that was there and not followed has grown by nothing that is known.
            if let Some(before) = self.is_new_since(group, &whole) {
                let oldest = now.checked_sub(ring::WINDOW).unwrap_or(before);
                candidate.meter.began_after(before.max(oldest));
            }
            candidate.look(now, &mut self.buffer);
            found.push(candidate);
            if found.len() > CANDIDATES_MAX {
                found.swap_remove(least(&found));
            }
        }
        self.known = Some((known, now));
        let owners = self.owners(&hierarchy, &groups, &found, now);
        let watched = found.iter().filter(|it| !it.is_sheltered);
        let report = Report {
            watched: watched.map(|it| it.shown.to_string()).collect(),
            protected: targets.protected,
            unmatched: targets.unmatched,
        };
        Ok(Chosen {
            candidates: found,
            owners,
            report: Arc::new(report),
            took: begin.elapsed(),
        })
    }

    /// Whose groups may be ended: those who have some now, and those who may.
    fn owners(
        &mut self,
        hierarchy: &Hierarchy,
        groups: &[Group],
        found: &[Candidate],
        now: Instant,
    ) -> Vec<Owner> {
        let mut is_one = vec![false; groups.len()];
        found.iter().for_each(|it| is_one[it.owner] = true);
        let has_named = |group: &Group| rank(&self.rule.end, &group.shown) < self.rule.end.len();
        // What is above owners takes what all of them take: it would hide who of them grew.
        let own = groups.iter().enumerate();
        let own = own.filter(|(at, group)| group.owner == *at && group.above > 0);
        let mut owners = Vec::with_capacity(OWNERS_MAX);
        for (place, group) in own.filter(|(at, group)| is_one[*at] || has_named(group)) {
            if owners.len() == OWNERS_MAX {
                break;
            }
            let Some(mut meter) = Meter::open(&self.host, hierarchy, &group.path) else {
                continue;
            };
            meter.look(now, &mut self.buffer);
            owners.push(Owner {
                directory: group.path.clone(),
                place,
                meter,
            });
        }
        owners
    }

    /// When some were chosen last, where a group was not there then, or had no processes.
    /// What was followed as a `whole` was not told apart.
    fn is_new_since(&self, group: &Group, whole: &HashSet<PathBuf>) -> Option<Instant> {
        let (known, before) = self.known.as_ref()?;
        let was_told = !group.path.ancestors().any(|it| whole.contains(it));
        (was_told && !known.contains(&group.path)).then_some(*before)
    }

    /// The groups that are ended each by itself: those that have processes of their own,
    /// that the kernel would end whole, too (`memory.oom.group`), or that are cut off. One
    /// without processes cannot be ended.
    fn ended_whole<'a>(
        &self,
        groups: &'a [Group],
        places: &[usize],
        kept: &Spared,
    ) -> Vec<&'a Group> {
        let says =
            |group: &Group, file: &str| match self.host.read_start(&group.path.join(file), 16) {
                Ok(text) => Some(text.trim_ascii().to_vec()),
                Err(err) => is_absent(&err.cause).then(Vec::new),
            };
        let mut is_split = vec![false; groups.len()];
        let is_meant: HashSet<usize> = places.iter().copied().collect();
        let mut whole = Vec::new();
        for (at, group) in groups.iter().enumerate().skip(1) {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            if !is_meant.contains(&at) && !is_split[group.above]
                || kept.groups.contains(&group.path)
            {
                continue;
            }
            let is_whole = group.is_cut_off
                // What cannot be read now is not new later.
                || says(group, "cgroup.procs").is_none_or(|text| !text.is_empty())
                || says(group, "memory.oom.group").is_some_and(|text| text == b"1");
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
fn least(found: &[Candidate]) -> usize {
    let mut counts = HashMap::new();
    for candidate in found {
        *counts.entry(candidate.owner).or_insert(0) += 1;
    }
    let least = (0..found.len()).min_by_key(|at| {
        let candidate = &found[*at];
        (
            std::cmp::Reverse(counts[&candidate.owner]),
            candidate.bytes(),
        )
    });
    least.unwrap_or(0)
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
pub fn outlook(host: &Host, rule: &Rule) -> Option<Outlook> {
    let hierarchy = hierarchy(host).ok()?;
    let (protect, shelter) = protected(rule).ok()?;
    let never = AtomicBool::new(false);
    let selection = selection(rule, &protect, &shelter);
    let targets = Targets::choose(host, &hierarchy, selection, &never);
    let mut found = Outlook::from(targets.ok()?);
    found.unmatched.retain(|it| is_of_rule(it));
    Some(found)
}

/// What the rule protects, with what is never ended; and what is protected no further than
/// `protected_max`.
fn protected(rule: &Rule) -> Result<(Vec<GroupPattern>, Vec<GroupPattern>), Error> {
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
    rule: &'a Rule,
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

//! The processes of a control group, where memory is reclaimed from them by
//! `process_madvise`: what they have, what comes back to them, which of it is cold.
//!
//! Nothing counts for a process what was swapped out and came back. What it has in swap is
//! known after each step, so that what it has less at the next look came back or was freed:
//! it is counted up to what it has more in RAM, or up to its major faults, whichever is
//! more. Where it has more in swap than the step left there, somebody else swaps, too, and
//! all its major faults count.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zmeld_linux::host::is_absent;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{counters, process, smaps, Host, HostError};

use super::advise::{is, Advise, Held, Identity};
use super::budget::{Budget, SHORT_MAX};
use super::group::Reading;
use super::parts::{is_untouched, largest, Area, Cold, Marks, Room};
use super::Round;
use crate::config::GroupPattern;
use crate::error::Error;
use crate::observe::Pressure;
use crate::room::hierarchy::Hierarchy;

/// A process with less of its own memory is not followed,
const MEMBER_BYTES_MIN: u64 = 1 << 20;
/// nor more of them in a group, the largest.
const MEMBERS_MAX: usize = 256;
/// Others are looked for so often, as long as that takes little.
const OTHERS_EVERY: Duration = Duration::from_secs(10);
/// which is one part in so many of the time.
const OTHERS_PAUSE: u32 = 100;
/// A process that takes longer to look at, so many times in a row, is left alone.
const LOOK_MAX: Duration = Duration::from_secs(5);
const LONG_LOOKS_MAX: u32 = 3;
/// Looks take hardly longer in one round.
const LOOKS_MAX: Duration = Duration::from_secs(1);
/// In a round so many parts of a process are looked at, as long as that takes less.
const PARTS_A_ROUND: usize = 4;
const ROUND_TRIED: Duration = Duration::from_millis(50);
/// What seems to be cold is asked for so many times more.
const CONFIRMATIONS: u32 = 4;
/// A process with such a mapping runs a virtual machine: what that touches is marked in
/// tables of its own, of which nothing here tells.
const VIRTUAL_PROCESSOR: &str = "anon_inode:kvm-vcpu";
/// What was found cold counts for so long.
const COLD_FOR: Duration = Duration::from_secs(60);
/// While there is so much cold for each byte that is wanted, nothing is looked at.
const COLD_AHEAD: u64 = 12;
/// What is swapped out at a time at least.
const PIECE_BYTES_MIN: u64 = 256 << 10;
/// Of whom something is refused that may pass, nothing is asked for so long, twice as long each
/// time,
const REST_FIRST: Duration = Duration::from_secs(10);
/// but no longer.
const REST_MAX: Duration = Duration::from_secs(3600);
/// Told when it was refused so many times in a row.
const REFUSALS_UNTOLD: u32 = 5;
/// How large huge pages are.
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
pub(super) const PRESSURE: &str = "/proc/pressure/memory";

/// Which processes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Whose {
    pub of: Of,
    /// Nor those that are in such a group by another controller: on version 1 of control
    /// groups a service has one for memory only where somebody limits it.
    pub protect: Vec<GroupPattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Of {
    /// Of a control group and of those below it.
    Group(Hierarchy, PathBuf),
    /// Of the root's own, which is in no other group, or of all where there are no groups;
    /// without these.
    Root(Option<Hierarchy>, HashMap<u32, &'static str>),
}

/// A group's processes.
#[derive(Debug)]
pub(super) struct Processes {
    whose: Whose,
    /// For what is noted of them.
    room: Room,
    members: BTreeMap<u32, Member>,
    /// Pages that came back, in all.
    came_back: u64,
    cold: VecDeque<Found>,
    /// When they were looked at last.
    looked: Option<Instant>,
    /// When others are looked for, that came since.
    next_choice: Option<Instant>,
    huge: u64,
    /// Why one of them is left alone, of those that refused since that was told.
    refused: Option<Error>,
}

#[derive(Debug)]
struct Member {
    identity: Identity,
    figures: Figures,
    marks: Marks,
    /// When it was looked at last, and how long that took.
    looked: Option<(Instant, Duration)>,
    /// Looks in a row that took too long.
    long_looks: u32,
    rest: Rest,
}

/// What a process has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Figures {
    /// Of no file, in RAM.
    anonymous_bytes: u64,
    swap_bytes: u64,
    /// Major faults since it began.
    faults: u64,
}

#[derive(Debug)]
struct Found {
    pid: u32,
    cold: Cold,
    until: Instant,
    /// It was looked at once more, and swapping it out has begun.
    is_begun: bool,
}

impl Processes {
    pub fn new(host: &Host, whose: Whose, room: &Room) -> Processes {
        Processes {
            whose,
            room: room.clone(),
            members: BTreeMap::new(),
            came_back: 0,
            cold: VecDeque::new(),
            looked: None,
            next_choice: None,
            huge: host.read_u64(HUGE).unwrap_or(0),
            refused: None,
        }
    }

    /// Follows those that are there now.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn choose(&mut self, host: &Host, whose: Whose, stop: &AtomicBool) -> Result<(), Error> {
        self.whose = whose;
        let mut found = Vec::new();
        for pid in self.whose.list(host)? {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            // One that cannot be read is not followed, and the others are.
            if let Ok(Some((identity, figures))) = Figures::read(host, pid) {
                if figures.anonymous_bytes + figures.swap_bytes >= MEMBER_BYTES_MIN {
                    found.push((pid, identity, figures));
                }
            }
        }
        found.sort_by_key(|(_, _, it)| std::cmp::Reverse(it.anonymous_bytes + it.swap_bytes));
        found.truncate(MEMBERS_MAX);
        let mut known = std::mem::take(&mut self.members);
        for (pid, identity, figures) in found {
            let member = known.remove(&pid).filter(|it| it.identity == identity);
            let member = member.unwrap_or(Member {
                identity,
                figures,
                marks: Marks::new(&self.room),
                looked: None,
                long_looks: 0,
                rest: Rest::default(),
            });
            self.members.insert(pid, member);
        }
        Ok(())
    }

    /// Follows those that came since, too: programs are begun at any time.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn look_for_others(&mut self, host: &Host, round: &Round) -> Result<(), Error> {
        let next = self.next_choice.get_or_insert(round.now + OTHERS_EVERY);
        if round.now < *next {
            return Ok(());
        }
        let begin = Instant::now();
        self.choose(host, self.whose.clone(), round.stop)?;
        let pause = OTHERS_EVERY.max(begin.elapsed() * OTHERS_PAUSE);
        self.next_choice = Some(round.now + pause);
        Ok(())
    }

    /// What they have of no file, in RAM. Each counts what it shares by fork, so that the
    /// sum may be many times as much as there is: it is no more than the group is charged
    /// with, nor than all have.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn memory_bytes(&self, host: &Host) -> Result<u64, HostError> {
        let each = self.members.values().map(|it| it.figures.anonymous_bytes);
        let memory = host.read_optional(meminfo::PATH)?.unwrap_or_default();
        let memory = Meminfo::new(&memory);
        let all = memory.bytes("AnonPages").or_else(|| memory.total_bytes());
        let mut most = all.unwrap_or(u64::MAX);
        if let Of::Group(_, group) = &self.whose.of {
            let read = |name: &str| host.read_optional(group.join(name));
            // With what is below it, where the kernel counts that there.
            if read("memory.use_hierarchy")?.is_none_or(|it| it.trim() != "0") {
                let usage = read("memory.usage_in_bytes")?.and_then(|it| it.trim().parse().ok());
                let stat = read("memory.stat")?.unwrap_or_default();
                let own = counters::value(&stat, "total_rss");
                most = most.min(own.or(usage).unwrap_or(u64::MAX));
            }
        }
        Ok(most.min(each.fold(0, u64::saturating_add)))
    }

    /// What they have, and what came back; of the group's own counters what it has of them.
    /// None where the group is gone, or nobody measures pressure.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn reading(&mut self, host: &Host, at: Instant) -> Result<Option<Reading>, HostError> {
        let mut ended = Vec::new();
        for (pid, member) in &mut self.members {
            match Figures::read(host, *pid) {
                Ok(Some((identity, now))) if identity == member.identity => {
                    self.came_back += member.figures.came_back(now);
                    member.figures = now;
                }
                _ => ended.push(*pid),
            }
        }
        for pid in ended {
            self.members.remove(&pid);
        }
        if let Of::Group(_, group) = &self.whose.of {
            if let Some(reading) = Reading::take(host, group, super::group::Of::All, at)? {
                return Ok(Some(reading));
            }
            if !host.exists(group) {
                return Ok(None);
            }
        }
        let pressure = host.read_optional(PRESSURE)?;
        let Some(pressure) = pressure.and_then(|text| Pressure::parse(&text)) else {
            return Ok(None);
        };
        Ok(Some(Reading {
            at,
            memory_bytes: self.memory_bytes(host)?,
            kept_bytes: 0,
            swap_bytes: self.members.values().map(|it| it.figures.swap_bytes).sum(),
            stalled_us: pressure.some.total_us,
            refaults: self.came_back,
            swapped_in: 0,
        }))
    }

    /// Why one of them is left alone from now on: the kernel refused something of it. Not
    /// of all of them, and not twice.
    pub fn refused(&mut self) -> Option<Error> {
        self.refused.take()
    }

    /// Asks nothing of it for a while, longer each time, or never again.
    fn leave_alone(&mut self, pid: u32, refusal: Refusal, now: Instant) {
        self.cold.retain(|found| found.pid != pid);
        let Some(member) = self.members.get_mut(&pid) else {
            return;
        };
        if member.rest.begin(refusal.is_lasting, now) {
            self.refused.get_or_insert(refusal.why);
        }
    }

    /// When they were looked at last.
    pub fn looked(&self) -> Option<Instant> {
        self.looked
    }

    /// Looks what is cold, where there is not enough of it for what is wanted. Not while
    /// memory is short: what is looked at is the next that the kernel swaps out where it is
    /// not touched before it gets there, seconds later.
    pub fn look(
        &mut self,
        host: &Host,
        advise: &dyn Advise,
        wanted: u64,
        idle_after: Duration,
        round: &Round,
        budget: &mut Budget,
    ) {
        let now = round.by_now();
        self.cold.retain(|found| found.until > now);
        let is_enough = self.cold_bytes() >= wanted.saturating_mul(COLD_AHEAD);
        if is_enough || round.is_short || !budget.allows(now) {
            return;
        }
        let mut took = Duration::ZERO;
        // Where the part that has its turn is in use, another one may be cold.
        for _ in 0..PARTS_A_ROUND {
            let is_enough = self.cold_bytes() >= wanted.saturating_mul(COLD_AHEAD);
            let is_over = round.is_over() || !budget.allows(round.by_now());
            if is_enough || took > ROUND_TRIED || is_over {
                break;
            }
            took += self.look_once(host, advise, idle_after, round, budget);
        }
        self.looked = Some(round.by_now());
    }

    /// Looks at one part of each process, who waited longest first; how long that took.
    fn look_once(
        &mut self,
        host: &Host,
        advise: &dyn Advise,
        idle_after: Duration,
        round: &Round,
        budget: &mut Budget,
    ) -> Duration {
        let mut took = Duration::ZERO;
        let turns = self.members.iter();
        let mut turns: Vec<_> = turns.map(|(pid, it)| (it.looked, *pid)).collect();
        turns.sort_unstable();
        for (last, pid) in turns {
            if took > LOOKS_MAX || round.is_over() {
                break;
            }
            let now = round.by_now();
            let Some(member) = self.members.get_mut(&pid) else {
                continue;
            };
            let is_left_alone = member.rest.is_on(now) || member.long_looks >= LONG_LOOKS_MAX;
            if is_left_alone || !member.marks.is_due(idle_after, now) {
                continue;
            }
            let long = last.filter(|it| it.1 > SHORT_MAX);
            if long.is_some_and(|it| !budget.allows_long(it.0, now)) {
                continue;
            }
            round.stands_at(pid);
            if !self.whose.has(host, pid) {
                self.members.remove(&pid);
                continue;
            }
            let begin = Instant::now();
            let cold = member.look(host, advise, pid, self.huge, idle_after, round);
            // Who does not answer costs the others no pause.
            let this = match round.is_void() {
                true => begin.elapsed().min(LOOKS_MAX),
                false => begin.elapsed(),
            };
            member.long_looks = match this > LOOK_MAX {
                true => member.long_looks + 1,
                false => 0,
            };
            member.looked = Some((round.by_now(), this));
            let is_long = long.is_some() || this > SHORT_MAX;
            budget.charge(this, is_long, round.by_now());
            took += this;
            let cold = match cold {
                Ok(cold) => cold,
                Err(refusal) => {
                    self.leave_alone(pid, refusal, round.by_now());
                    continue;
                }
            };
            self.cold.extend(cold.into_iter().map(|cold| Found {
                pid,
                cold,
                until: round.by_now() + COLD_FOR,
                is_begun: false,
            }));
        }
        took
    }

    fn cold_bytes(&self) -> u64 {
        let bytes = |found: &Found| found.cold.range.end - found.cold.range.start;
        self.cold.iter().map(bytes).sum()
    }

    /// Swaps out so much of what is cold, as far as there is so much and until the round is
    /// over; how much it was.
    pub fn page_out(
        &mut self,
        host: &Host,
        advise: &dyn Advise,
        wanted: u64,
        round: &Round,
        budget: &mut Budget,
    ) -> u64 {
        let mut done = 0;
        let mut piece = 0;
        while done < wanted && !round.is_over() {
            let Some(mut found) = self.cold.pop_front() else {
                break;
            };
            if found.until <= round.by_now() {
                continue;
            }
            let step = Step {
                wanted,
                done: &mut done,
                piece: &mut piece,
            };
            match self.page_out_one(host, advise, &mut found, step, round, budget) {
                Err(refusal) => self.leave_alone(found.pid, refusal, round.by_now()),
                Ok(()) if found.cold.range.is_empty() => {}
                Ok(()) => self.cold.push_front(found),
            }
        }
        done
    }

    /// The same of one that was found; what is left of it is for later.
    fn page_out_one(
        &mut self,
        host: &Host,
        advise: &dyn Advise,
        found: &mut Found,
        step: Step,
        round: &Round,
        budget: &mut Budget,
    ) -> Result<(), Refusal> {
        round.stands_at(found.pid);
        let range = &mut found.cold.range;
        let held = match self.members.get(&found.pid) {
            Some(member) => Held::new(advise, host, found.pid, member.identity),
            None => Ok(None),
        };
        let held = held.map_err(|err| Refusal::of(found.pid, &err))?;
        let (Some(held), Some(member)) = (held, self.members.get_mut(&found.pid)) else {
            range.start = range.end;
            return Ok(());
        };
        if !self.whose.has(host, found.pid) {
            range.start = range.end;
            return Ok(());
        }
        // Since it was found, it may have come into use, or something else stand there.
        if !found.is_begun {
            let begin = Instant::now();
            let is_cold = is_cold_still(host, &held, found.pid, range, round);
            if !round.is_void() {
                let is_long = member.looked.is_some_and(|it| it.1 > SHORT_MAX);
                budget.charge(begin.elapsed(), is_long, round.by_now());
            }
            member.marks.forgot(range, round.by_now());
            if !is_cold? {
                range.start = range.end;
                return Ok(());
            }
        }
        found.is_begun = true;
        while !range.is_empty() && *step.done < step.wanted && !round.is_over() {
            let unit = match found.cold.has_huge {
                true => self.huge.max(PIECE_BYTES_MIN),
                false => PIECE_BYTES_MIN,
            };
            // Where nothing is, more of it is gone through at a time.
            let piece = (step.wanted - *step.done).max(*step.piece);
            let piece = piece.min(super::PIECE_BYTES);
            let end = (range.start + piece).next_multiple_of(unit).min(range.end);
            let is_there = held.page_out(range.start..end);
            let is_there = is_there.map_err(|err| Refusal::of(found.pid, &err))?;
            let now = Figures::read(host, found.pid).map_err(|err| Refusal {
                why: err.into(),
                is_lasting: false,
            })?;
            let (true, Some((_, now))) = (is_there, now) else {
                range.start = range.end;
                break;
            };
            range.start = end;
            member.rest = Rest::default();
            let gone = now.swap_bytes.saturating_sub(member.figures.swap_bytes);
            *step.piece = match gone {
                0 => piece.saturating_mul(2),
                _ => 0,
            };
            *step.done += gone;
            // What came back meanwhile is seen at the next look.
            member.figures.swap_bytes += gone;
            member.figures.anonymous_bytes = now.anonymous_bytes;
        }
        Ok(())
    }
}

/// How much is to be swapped out, and was.
struct Step<'a> {
    wanted: u64,
    done: &'a mut u64,
    /// What is gone through at a time at least.
    piece: &'a mut u64,
}

impl Member {
    fn look(
        &mut self,
        host: &Host,
        advise: &dyn Advise,
        pid: u32,
        huge: u64,
        idle_after: Duration,
        round: &Round,
    ) -> Result<Vec<Cold>, Refusal> {
        let Some(before) = areas(host, pid)?.filter(|_| !round.is_void()) else {
            return Ok(Vec::new());
        };
        let began = round.by_now();
        self.marks.skip_empty(&before, huge, began);
        if !self.marks.is_due(idle_after, began) {
            return Ok(Vec::new());
        }
        let mut forgotten = self.marks.wanted(&before, huge);
        if !forgotten.is_empty() && !self.marks.has_room(&forgotten) {
            self.marks.pass(began);
            return Ok(Vec::new());
        }
        let held = Held::new(advise, host, pid, self.identity);
        let Some(held) = held.map_err(|err| Refusal::of(pid, &err))? else {
            return Ok(Vec::new());
        };
        if !forgotten.is_empty() {
            let done = held.forget(&forgotten, round.void_at());
            let Ok(Some(done)) = done else {
                // Of some of it they may be forgotten: it is not known how old they are.
                self.marks.pass(round.by_now());
                return done
                    .map(|_| Vec::new())
                    .map_err(|err| Refusal::of(pid, &err));
            };
            forgotten = done;
        }
        let after = areas(host, pid);
        if after.is_err() {
            self.marks.pass(round.by_now());
        }
        let after = after?.unwrap_or_default();
        let marks = &mut self.marks;
        let times = began..round.by_now();
        let cold = marks.looked(&before, &after, &forgotten, huge, idle_after, times);
        let found = cold.first().map(|it| it.range.clone());
        let cold = confirm(host, &held, pid, cold, after, round);
        if let Some(found) = found {
            marks.forgot(&found, round.by_now());
        }
        cold
    }
}

/// Those that are cold indeed: what is used all the time may have been touched again before
/// it was read that its mark was lost.
fn confirm(
    host: &Host,
    held: &Held,
    pid: u32,
    mut cold: Vec<Cold>,
    mut before: Vec<Area>,
    round: &Round,
) -> Result<Vec<Cold>, Refusal> {
    for _ in 0..CONFIRMATIONS {
        if round.is_void() {
            cold.clear();
        }
        if cold.is_empty() {
            break;
        }
        let ranges: Vec<_> = cold.iter().map(|it| it.range.clone()).collect();
        let done = held.forget(&ranges, round.void_at());
        let done = done.map_err(|err| Refusal::of(pid, &err))?;
        let after = areas(host, pid)?.unwrap_or_default();
        let done = done.unwrap_or_default();
        cold.retain(|it| done.contains(&it.range) && is_untouched(&before, &after, &it.range));
        before = after;
    }
    Ok(cold)
}

/// Whether nothing of it is touched while it is looked at once more.
fn is_cold_still(
    host: &Host,
    held: &Held,
    pid: u32,
    range: &Range<u64>,
    round: &Round,
) -> Result<bool, Refusal> {
    let before = areas(host, pid)?.unwrap_or_default();
    let is_there = is_untouched(&before, &before, range);
    if !is_there || round.is_void() {
        return Ok(false);
    }
    let done = held.forget(std::slice::from_ref(range), round.void_at());
    let done = done.map_err(|err| Refusal::of(pid, &err))?;
    let after = areas(host, pid)?.unwrap_or_default();
    let is_done = done.is_some_and(|done| done.contains(range));
    Ok(is_done && is_untouched(&before, &after, range))
}

impl Whose {
    fn list(&self, host: &Host) -> Result<Vec<u32>, Error> {
        let mut pids = Vec::new();
        match &self.of {
            Of::Group(_, group) => members(host, group, &mut pids)?,
            Of::Root(Some(hierarchy), _) => pids = in_group(host, &hierarchy.top)?,
            Of::Root(None, _) => {
                let all = host.list("/proc")?.into_iter();
                pids.extend(all.filter_map(|name| name.parse::<u32>().ok()));
            }
        }
        if let Of::Root(_, protected) = &self.of {
            pids.retain(|pid| !protected.contains_key(pid));
        }
        pids.retain(|pid| !self.protects(host, *pid));
        Ok(pids)
    }

    /// Whether it is one of them still: it may have been moved to a group that is protected.
    fn has(&self, host: &Host, pid: u32) -> bool {
        let group_in = |hierarchy: &Hierarchy| hierarchy.group_of(host, &pid.to_string());
        let is_in = match &self.of {
            Of::Group(hierarchy, group) => {
                group_in(hierarchy).is_some_and(|now| now.starts_with(group))
            }
            Of::Root(hierarchy, protected) => {
                let is_in = hierarchy
                    .as_ref()
                    .is_none_or(|it| group_in(it).as_ref() == Some(&it.top));
                is_in && !protected.contains_key(&pid)
            }
        };
        is_in && !self.protects(host, pid)
    }

    /// Whether it is in a group that is protected, by any controller.
    fn protects(&self, host: &Host, pid: u32) -> bool {
        if self.protect.is_empty() {
            return false;
        }
        let Ok(text) = host.read_bytes(format!("/proc/{pid}/cgroup")) else {
            return true;
        };
        let text = String::from_utf8_lossy(&text);
        // `4:memory:/a/b`
        let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.any(|path| {
            let above = Path::new(path).ancestors();
            let mut names = above.filter_map(Path::to_str);
            names.any(|name| name != "/" && self.protect.iter().any(|it| it.matches(name)))
        })
    }
}

/// Those in a group and below it, without what is promised to groups below.
fn members(host: &Host, group: &Path, pids: &mut Vec<u32>) -> Result<(), HostError> {
    pids.extend(in_group(host, group)?);
    for below in host.folders(group)? {
        let is_promised = |file: &str| -> Result<bool, HostError> {
            let kept = host.read_optional(below.join(file))?;
            Ok(kept.is_some_and(|kept| kept != "0"))
        };
        if !is_promised("memory.min")? && !is_promised("memory.low")? {
            members(host, &below, pids)?;
        }
    }
    Ok(())
}

fn in_group(host: &Host, group: &Path) -> Result<Vec<u32>, HostError> {
    match host.read_optional(group.join("cgroup.procs")) {
        // A group of threads has no processes of its own.
        Err(HostError::File(err)) if is(&err.cause, Errno::OPNOTSUPP) => Ok(Vec::new()),
        text => {
            let text = text?.unwrap_or_default();
            Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
        }
    }
}

impl Figures {
    /// None where it has ended, or has no memory.
    fn read(host: &Host, pid: u32) -> Result<Option<(Identity, Figures)>, HostError> {
        let read = |name: &str| or_gone(host.read(format!("/proc/{pid}/{name}")));
        let (Some(stat), Some(status)) = (read("stat")?, read("status")?) else {
            return Ok(None);
        };
        let status = Meminfo::new(&status);
        let (Some(identity), Some(anonymous_bytes)) =
            (Identity::of(&stat), status.bytes("RssAnon"))
        else {
            return Ok(None);
        };
        let faults = process::fields(&stat).and_then(|fields| fields.get(9)?.parse().ok());
        let figures = Figures {
            anonymous_bytes,
            swap_bytes: status.bytes("VmSwap").unwrap_or(0),
            faults: faults.unwrap_or(0),
        };
        Ok(Some((identity, figures)))
    }

    /// Pages that came back since.
    fn came_back(self, now: Figures) -> u64 {
        let page = rustix::param::page_size() as u64;
        let faults = now.faults.saturating_sub(self.faults);
        if now.swap_bytes > self.swap_bytes {
            return faults;
        }
        let less = (self.swap_bytes - now.swap_bytes) / page;
        let more = now.anonymous_bytes.saturating_sub(self.anonymous_bytes) / page;
        less.min(more.max(faults))
    }
}

/// The mappings of a process that could be swapped out; none where it has ended.
fn areas(host: &Host, pid: u32) -> Result<Option<Vec<Area>>, Refusal> {
    let path = host.path(format!("/proc/{pid}/smaps"));
    let page = rustix::param::page_size() as u64;
    let mut areas = Vec::new();
    let mut is_machine = false;
    let read = File::open(path).and_then(|file| {
        let text = BufReader::with_capacity(64 << 10, file);
        smaps::visit(text, page, &mut |mapping| {
            is_machine |= mapping.name.0.starts_with(VIRTUAL_PROCESSOR);
            areas.extend(Area::of(&mapping, page))
        })
    });
    match read {
        Ok(()) if is_machine => Ok(Some(Vec::new())),
        Ok(()) => Ok(Some(largest(areas))),
        Err(err) if is_absent(&err) || is(&err, Errno::SRCH) => Ok(None),
        Err(err) => Err(Refusal::of(pid, &err)),
    }
}

fn or_gone<T>(read: Result<T, HostError>) -> Result<Option<T>, HostError> {
    match read {
        Err(HostError::File(err)) if is_absent(&err.cause) || is(&err.cause, Errno::SRCH) => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// The kernel did not do what it was told of a process.
struct Refusal {
    why: Error,
    /// It would refuse again.
    is_lasting: bool,
}

impl Refusal {
    fn of(pid: u32, err: &io::Error) -> Refusal {
        let is_any = |all: &[Errno]| all.iter().any(|errno| is(err, *errno));
        let is_forbidden = is_any(&[Errno::PERM, Errno::ACCESS]);
        let is_lasting = is_forbidden || is_any(&[Errno::INVAL, Errno::NOSYS]);
        let why = match (is_forbidden, is_lasting) {
            (true, _) => "only who has CAP_SYS_NICE and CAP_SYS_PTRACE may look at it and swap \
                          out its memory; run zmeld watch as root"
                .to_owned(),
            (false, true) => format!("process_madvise: {err}"),
            (false, false) => format!("process_madvise: {err}; it is tried again now and then"),
        };
        Refusal {
            why: Error::ProcessRefused { pid, why },
            is_lasting,
        }
    }
}

/// Until when nothing is asked of a process, since something was refused of it.
#[derive(Debug, Default)]
struct Rest {
    /// Refusals in a row that may pass.
    refusals: u32,
    until: Option<Instant>,
    is_for_good: bool,
}

impl Rest {
    fn is_on(&self, now: Instant) -> bool {
        self.is_for_good || self.until.is_some_and(|until| now < until)
    }

    /// Whether it is to be told.
    fn begin(&mut self, is_lasting: bool, now: Instant) -> bool {
        self.is_for_good |= is_lasting;
        if self.until.is_some_and(|until| now >= until + REST_MAX) {
            self.refusals = 0;
        }
        let pause = REST_FIRST.saturating_mul(1 << self.refusals.min(16));
        self.until = Some(now + pause.min(REST_MAX));
        self.refusals += 1;
        is_lasting || self.refusals == REFUSALS_UNTOLD
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::sync::Mutex;

    use super::*;

    /// Takes note of what it is told.
    #[derive(Default)]
    struct Noted(Mutex<Vec<Range<u64>>>);

    impl Advise for Noted {
        fn hold(&self, _: u32) -> io::Result<OwnedFd> {
            Ok(File::open("/dev/null")?.into())
        }

        fn forget(
            &self,
            _: BorrowedFd,
            ranges: &[Range<u64>],
            _: Instant,
        ) -> io::Result<Vec<Range<u64>>> {
            let first = ranges.first().cloned();
            self.0.lock().unwrap().extend(first);
            Ok(ranges.to_vec())
        }

        fn page_out(&self, _: BorrowedFd, range: Range<u64>) -> io::Result<()> {
            self.0.lock().unwrap().push(range);
            Ok(())
        }
    }

    /// With one process that has 64 MiB.
    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc/101");
        std::fs::create_dir_all(&proc).unwrap();
        let put = |name: &str, text: &str| std::fs::write(proc.join(name), text).unwrap();
        put("stat", &format!("101 (it) S {}", "1 ".repeat(30)));
        put("status", "RssAnon: 65536 kB\nVmSwap: 0 kB\n");
        put(
            "smaps",
            "10000000-14000000 rw-p 00000000 00:00 0\nRss: 65536 kB\n",
        );
        dir
    }

    fn all(host: &Host, room: &Room) -> Processes {
        let whose = Whose {
            of: Of::Root(None, HashMap::new()),
            protect: Vec::new(),
        };
        let mut of = Processes::new(host, whose.clone(), room);
        of.choose(host, whose, &AtomicBool::new(false)).unwrap();
        of
    }

    /// In which so many KiB were touched after each time that something was forgotten.
    struct Busy {
        smaps: PathBuf,
        touched_kib: Box<dyn Fn(u64) -> u64 + Send + Sync>,
        forgot: Mutex<u64>,
    }

    impl Busy {
        fn new(smaps: &Path, touched: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Busy {
            Busy {
                smaps: smaps.to_owned(),
                touched_kib: Box::new(touched),
                forgot: Mutex::new(0),
            }
        }
    }

    impl Advise for Busy {
        fn hold(&self, _: u32) -> io::Result<OwnedFd> {
            Ok(File::open("/dev/null")?.into())
        }

        fn forget(
            &self,
            _: BorrowedFd,
            ranges: &[Range<u64>],
            _: Instant,
        ) -> io::Result<Vec<Range<u64>>> {
            let mut forgot = self.forgot.lock().unwrap();
            *forgot += 1;
            std::fs::write(&self.smaps, smaps_of((self.touched_kib)(*forgot)))?;
            Ok(ranges.to_vec())
        }

        fn page_out(&self, _: BorrowedFd, _: Range<u64>) -> io::Result<()> {
            unreachable!("nothing is swapped out here")
        }
    }

    fn smaps_of(touched_kib: u64) -> String {
        format!(
            "10000000-14000000 rw-p 00000000 00:00 0\nRss: 65536 kB\nReferenced: {touched_kib} kB\n"
        )
    }

    /// Whether one of its parts is found to be cold.
    fn finds_cold(touched_kib: impl Fn(u64) -> u64 + Send + Sync + 'static) -> bool {
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        let mut of = all(&host, &Room::new(1 << 20));
        let busy = Busy::new(&dir.path().join("proc/101/smaps"), touched_kib);
        let idle_after = Duration::from_secs(60);
        let begin = Instant::now();
        for now in [begin, begin + idle_after + Duration::from_secs(10)] {
            // One part at a time: another would have its turn.
            let round = Round::new(now, &stop, false);
            of.look_once(&host, &busy, idle_after, &round, &mut Budget::default());
        }
        !of.cold.is_empty()
    }

    #[test]
    fn what_is_touched_again_before_it_is_read_is_cold_only_where_it_always_is() {
        let all_looks = 2 + u64::from(CONFIRMATIONS);
        for until in 1..=all_looks {
            let touched_kib = move |time| if time <= until { 8192 } else { 4096 };
            assert_eq!(finds_cold(touched_kib), until == all_looks, "{until}");
        }
    }

    #[test]
    fn what_was_looked_at_late_in_a_round_has_its_time_from_then_on() {
        let idle_after = Duration::from_secs(60);
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        let mut of = all(&host, &Room::new(1 << 20));
        let busy = Busy::new(&dir.path().join("proc/101/smaps"), |_| 0);
        let begin = Instant::now();
        // The first round has been at it for so long.
        for (second, late, calls) in [(0, 9, 1), (61, 0, 1), (68, 0, 1), (71, 0, 6), (72, 0, 11)] {
            let new = Round::new(begin + Duration::from_secs(second), &stop, false);
            let round = Round {
                began: new.began.checked_sub(Duration::from_secs(late)).unwrap(),
                end: new.end,
                ..new
            };
            of.look_once(&host, &busy, idle_after, &round, &mut Budget::default());
            assert_eq!(*busy.forgot.lock().unwrap(), calls, "{second}");
        }
        assert_eq!(of.cold.len(), 2);
        // What is asked for once more before it goes has its time from then on.
        let busy = Busy::new(&dir.path().join("proc/101/smaps"), |times| 4096 * times);
        let round = Round::new(begin + Duration::from_secs(100), &stop, false);
        of.page_out(&host, &busy, 1 << 20, &round, &mut Budget::default());
        assert_eq!(*busy.forgot.lock().unwrap(), 2);
        let member = of.members.get_mut(&101).unwrap();
        let since = |part: usize| member.marks.since(part).unwrap() - begin;
        let times: Vec<u64> = (0..16).map(|part| since(part).as_secs()).collect();
        assert_eq!(
            times.iter().filter(|it| **it == 100).count(),
            2,
            "{times:?}"
        );
        assert_eq!(times.iter().filter(|it| **it == 9).count(), 14, "{times:?}");
    }

    /// In which each look takes at least so long.
    struct Slow(Duration, Mutex<u32>);

    impl Advise for Slow {
        fn hold(&self, _: u32) -> io::Result<OwnedFd> {
            std::thread::sleep(self.0);
            *self.1.lock().unwrap() += 1;
            Ok(File::open("/dev/null")?.into())
        }

        fn forget(
            &self,
            _: BorrowedFd,
            ranges: &[Range<u64>],
            _: Instant,
        ) -> io::Result<Vec<Range<u64>>> {
            Ok(ranges.to_vec())
        }

        fn page_out(&self, _: BorrowedFd, _: Range<u64>) -> io::Result<()> {
            unreachable!("nothing is swapped out here")
        }
    }

    #[test]
    fn a_large_process_is_looked_at_more_seldom_and_not_left_alone() {
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        let mut of = all(&host, &Room::new(1 << 20));
        let slow = Slow(SHORT_MAX + Duration::from_millis(100), Mutex::default());
        let mut budget = Budget::default();
        let idle_after = Duration::from_secs(60);
        let begin = Instant::now();
        // A look takes 0.6 s at least and is paid for after 120 s.
        let mut looks = 0;
        for number in 0..5 {
            for (second, is_looked_at) in [(0, true), (70, false), (118, false)] {
                let now = begin + Duration::from_secs(1000 * number + second);
                let round = Round::new(now, &stop, false);
                of.look_once(&host, &slow, idle_after, &round, &mut budget);
                looks += u32::from(is_looked_at);
                assert_eq!(*slow.1.lock().unwrap(), looks, "{number} {second}");
            }
        }
        // What takes far too long is.
        of.members.get_mut(&101).unwrap().long_looks = LONG_LOOKS_MAX;
        let round = Round::new(begin + Duration::from_secs(9000), &stop, false);
        of.look_once(&host, &slow, idle_after, &round, &mut budget);
        assert_eq!(*slow.1.lock().unwrap(), looks);
    }

    #[test]
    fn who_does_not_answer_costs_nobody_else_as_long_a_pause() {
        /// It is said to stand meanwhile.
        struct Standing<'a>(&'a AtomicBool);
        impl Advise for Standing<'_> {
            fn forget(
                &self,
                _: BorrowedFd,
                ranges: &[Range<u64>],
                _: Instant,
            ) -> io::Result<Vec<Range<u64>>> {
                self.0.store(true, Ordering::Relaxed);
                std::thread::sleep(LOOKS_MAX + Duration::from_millis(500));
                Ok(ranges.to_vec())
            }

            fn hold(&self, _: u32) -> io::Result<OwnedFd> {
                Ok(File::open("/dev/null")?.into())
            }

            fn page_out(&self, _: BorrowedFd, _: Range<u64>) -> io::Result<()> {
                unreachable!("nothing is swapped out here")
            }
        }
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        let mut of = all(&host, &Room::new(1 << 20));
        let mut budget = Budget::default();
        let round = Round::new(Instant::now(), &stop, false);
        of.look_once(&host, &Standing(&stop), COLD_FOR, &round, &mut budget);
        let last = of.members[&101].looked.unwrap();
        assert_eq!(last.1, LOOKS_MAX);
        // As long as a look of one second.
        assert!(budget.allows_long(last.0, round.by_now() + Duration::from_secs(200)));
        assert!(budget.allows(round.by_now()));
    }

    #[test]
    fn while_another_part_is_touched_anew_nothing_is_cold() {
        // What that one wins hides what this one loses, as found on Linux 6.18.
        let wins = [0, 253, 356, 510, 642, 900, 1002, 1100];
        assert!(!finds_cold(move |time| wins[time as usize]));
        assert!(finds_cold(|_| 253));
    }

    #[test]
    fn who_came_since_is_followed_within_ten_seconds() {
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        let mut of = all(&host, &Room::new(1 << 20));
        let others = dir.path().join("proc/102");
        std::fs::create_dir(&others).unwrap();
        for name in ["stat", "status"] {
            std::fs::copy(dir.path().join("proc/101").join(name), others.join(name)).unwrap();
        }
        let begin = Instant::now();
        for (seconds, members) in [(0, 1), (9, 1), (10, 2)] {
            let round = Round::new(begin + Duration::from_secs(seconds), &stop, false);
            of.look_for_others(&host, &round).unwrap();
            assert_eq!(of.members.len(), members, "{seconds}");
        }
    }

    #[test]
    fn what_there_is_no_room_to_note_is_not_looked_at() {
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        let idle_after = Duration::from_secs(60);
        // It has 16 ranges of 16 bytes.
        for (room, calls) in [(16 * 16 - 1, 0), (16 * 16, 1)] {
            let mut of = all(&host, &Room::new(room));
            let noted = Noted::default();
            let round = Round::new(Instant::now(), &stop, false);
            of.look(
                &host,
                &noted,
                1 << 20,
                idle_after,
                &round,
                &mut Budget::default(),
            );
            assert_eq!(noted.0.lock().unwrap().len(), calls);
        }
    }

    fn found(until: Instant) -> Found {
        Found {
            pid: 101,
            cold: Cold {
                range: 0x1000_0000..0x1000_0000 + PIECE_BYTES_MIN,
                has_huge: false,
            },
            until,
            is_begun: false,
        }
    }

    #[test]
    fn what_is_in_use_again_or_is_something_else_by_now_stays() {
        for (smaps, calls) in [
            // A file's, mapped over it; smaller; of a virtual machine.
            (
                "10000000-14000000 rw-p 00000000 08:01 7 /data\nRss: 65536 kB\n".to_owned(),
                0,
            ),
            (
                "10000000-10020000 rw-p 00000000 00:00 0\nRss: 65536 kB\n".to_owned(),
                0,
            ),
            (
                format!(
                    "{}7000000000-7000003000 rw-s 0 00:0e 9 anon_inode:kvm-vcpu:0\n",
                    smaps_of(0)
                ),
                0,
            ),
            // Forgotten, which shows that it was touched.
            (smaps_of(16384), 1),
        ] {
            let dir = machine();
            let host = Host::at(dir.path());
            let path = dir.path().join("proc/101/smaps");
            std::fs::write(&path, smaps).unwrap();
            let stop = AtomicBool::new(false);
            let mut of = all(&host, &Room::new(1 << 20));
            let round = Round::new(Instant::now(), &stop, false);
            of.cold = VecDeque::from([found(round.now + Duration::from_secs(100))]);
            let busy = Busy::new(&path, |_| 8192);
            of.page_out(&host, &busy, 1 << 20, &round, &mut Budget::default());
            assert_eq!(*busy.forgot.lock().unwrap(), calls);
            assert!(of.cold.is_empty());
        }
    }

    #[test]
    fn nothing_is_swapped_out_behind_its_time_nor_when_the_round_is_over() {
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        let mut of = all(&host, &Room::new(1 << 20));
        let round = Round::new(Instant::now(), &stop, false);
        let second = Duration::from_secs(1);
        for (until, end, calls) in [
            (round.now, round.end, 0),
            (round.now + 100 * second, round.now, 0),
            // Looked at once more, and swapped out.
            (round.now + 100 * second, round.end, 2),
        ] {
            of.cold = VecDeque::from([found(until)]);
            let noted = Noted::default();
            let round = Round {
                end,
                ..Round::new(round.now, &stop, false)
            };
            of.page_out(&host, &noted, 1 << 20, &round, &mut Budget::default());
            assert_eq!(noted.0.lock().unwrap().len(), calls);
        }
    }

    #[test]
    fn what_was_to_be_told_too_long_ago_is_void() {
        let dir = machine();
        let host = Host::at(dir.path());
        let stop = AtomicBool::new(false);
        for (seconds, calls) in [(9, 1), (10, 0)] {
            let ago = Duration::from_secs(seconds);
            let new = Round::new(Instant::now(), &stop, false);
            let round = Round {
                began: new.began.checked_sub(ago).unwrap(),
                ..new
            };
            let noted = Noted::default();
            let mut of = all(&host, &Room::new(1 << 20));
            of.look_once(
                &host,
                &noted,
                Duration::from_secs(60),
                &round,
                &mut Budget::default(),
            );
            assert_eq!(noted.0.lock().unwrap().len(), calls, "{seconds}");
            of.cold = VecDeque::from([found(round.now + Duration::from_secs(100))]);
            of.page_out(&host, &noted, 1 << 20, &round, &mut Budget::default());
            assert_eq!(noted.0.lock().unwrap().len(), 3 * calls, "{seconds}");
        }
    }

    #[test]
    fn what_came_back_is_told_from_what_was_freed_and_from_files() {
        let page = rustix::param::page_size() as u64;
        let of = |anonymous: u64, swap: u64, faults: u64| Figures {
            anonymous_bytes: anonymous * page,
            swap_bytes: swap * page,
            faults,
        };
        let before = of(1000, 500, 10);
        for (now, came_back) in [
            (of(1000, 500, 10), 0),
            // Read by fault, and read ahead.
            (of(1040, 460, 50), 40),
            (of(1040, 460, 20), 40),
            // It gave memory back that was swapped out.
            (of(1000, 300, 10), 0),
            // Some of it, and some came back while it gave others back.
            (of(1000, 300, 17), 7),
            // It reads files.
            (of(1000, 500, 900), 0),
            // Somebody else swaps it out: what comes back is hidden.
            (of(900, 600, 40), 30),
        ] {
            assert_eq!(before.came_back(now), came_back, "{now:?}");
        }
    }
}

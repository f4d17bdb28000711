//! The survey: all owners, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::kernel::PoolModel;
use crate::memory::{
    Batch, Counted, LiveMemory, LiveOptions, Member, Note, SeenFrames, Selection, SkipReason,
    Source, Visit,
};
use crate::ScanProgress;
use nix::time::{clock_gettime, ClockId};
use zmeld_linux::others::PatientReader;
use zmeld_linux::Host;

use crate::survey::collect::{Collected, Collector, PageCounts, SharedPages};
use crate::survey::description::{self, MachineDescription};
use crate::survey::idle::{Ages, IdlePages};
use crate::survey::key::{chance, hex, Key};
use crate::survey::objects::{Objects, PoolBytes, CODECS};
use crate::survey::owners::Owner;
use crate::survey::pressure::{self, Watch};
use crate::survey::reservoir;
use crate::survey::sketch::{Estimate, Sketch, CONFIDENCE};
use crate::survey::Error;

/// Owners with rows of their own; all others are one.
const OWNERS_MAX: usize = 63;

/// Why pages count as skipped: they are memory that this survey should have read.
const SKIPPED: [SkipReason; 6] = [
    SkipReason::Permission,
    SkipReason::Held,
    SkipReason::NotTried,
    SkipReason::Vanished,
    SkipReason::ReadFailed,
    SkipReason::TooManyRegions,
];

/// Of a machine's memory in use, so much may be unread.
const UNREAD_MAX: f64 = 0.01;

/// Of the owners with rows of their own, those that ordinary users can make.
const USERS_MAX: usize = 24;

/// The smallest sketch that can be asked for: its intervals are a quarter wide.
pub const SKETCH_MIN: u32 = 64;
/// The largest, for whoever wants every content of small machines: up to 1,600 a sketch
/// is within 64 KiB, at 40 bytes a row, uncompressed.
pub const SKETCH_MAX: u32 = 1 << 20;
/// Default sketch size.
pub const SKETCH: u32 = 1024;

#[derive(Debug, Clone)]
pub struct SurveyOptions {
    /// Which processes' memory; a survey for a fleet is of all.
    pub selection: Selection,
    /// Names and values that its rows carry.
    pub labels: Vec<(String, String)>,
    /// Hashes that are kept of each owner.
    pub sketch: usize,
    /// The program that asks, with its version.
    pub version: String,
}

const LABELS_MAX: usize = 64;
/// Characters of a label's name, and of its value.
const LABEL_CHARACTERS_MAX: usize = 256;

/// Names and values from texts `NAME=VALUE`.
///
/// # Errors
/// When one is none, a name comes twice, or there are too many.
pub fn labels(texts: &[String]) -> Result<Vec<(String, String)>, Error> {
    let mut labels: Vec<(String, String)> = Vec::new();
    for text in texts {
        let bad = |problem| Error::BadLabel {
            text: text.clone(),
            problem,
        };
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| bad("write NAME=VALUE"))?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(bad("its name has letters, digits, and ._-/ only"));
        }
        if name.len() > LABEL_CHARACTERS_MAX || value.chars().count() > LABEL_CHARACTERS_MAX {
            return Err(bad("name and value have 256 characters at most"));
        }
        if value.chars().any(char::is_control) {
            return Err(bad("its value has control characters"));
        }
        if labels.iter().any(|(known, _)| known == name) {
            return Err(bad("that name was given already"));
        }
        if labels.len() == LABELS_MAX {
            return Err(bad("64 labels are the most"));
        }
        labels.push((name.to_owned(), value.to_owned()));
    }
    Ok(labels)
}

#[derive(Debug, Clone)]
pub(crate) struct OwnerResult {
    pub owner: Owner,
    /// Its processes that were read, and what they map.
    pub counted: Counted,
    pub pages: PageCounts,
    /// Distinct contents among those that are neither zero nor same-filled.
    pub distinct: Estimate,
    /// Bytes of the pool for each of [`CODECS`], without melding.
    pub pool: [Estimate; CODECS.len()],
    /// The same, each content once.
    pub melded: [Estimate; CODECS.len()],
    pub idle: Option<IdlePages>,
    pub sketch: Sketch<PoolBytes>,
}

impl OwnerResult {
    /// Whether it was met at all. Pages of processes that ended meanwhile may have been read; and all
    /// pages of those that were read may be another owner's.
    pub(crate) fn is_there(&self) -> bool {
        [self.counted.processes, self.pages.all, self.pages.skipped] != [0; 3]
    }
}

#[derive(Debug, Clone)]
pub struct Survey {
    pub(crate) machine: String,
    pub(crate) id: String,
    /// When reading began.
    pub(crate) time: SystemTime,
    pub(crate) key_id: String,
    pub(crate) facts: MachineDescription,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) page_size: u64,
    /// Which processes, in words; none: all of them.
    pub selection: Option<String>,
    /// Hashes that were kept of each owner.
    pub(crate) sketch_size: u64,
    pub(crate) version: String,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    /// Stopped before everything was read; owners that were read whole are here.
    pub interrupted: bool,
    /// The largest first.
    pub(crate) owners: Vec<OwnerResult>,
    /// Processes that this user may not read.
    pub refused: u64,
    /// Processes that hold up whoever reads them.
    pub(crate) held: u64,
    /// Whether the kernel says who waits for memory; where not, nothing gave way.
    pub(crate) is_pressure_told: bool,
    pub(crate) notes: Vec<Note>,
}

impl Survey {
    /// The share of the memory in use that might not be read, where reports on a fleet leave it
    /// out as partial: 1 % of it and more, of several processes.
    pub fn partial(&self) -> Option<f64> {
        let pages = self.total().pages;
        let share = pages.skipped as f64 / (pages.all + pages.skipped).max(1) as f64;
        (self.refused > 1 && share >= UNREAD_MAX).then_some(share)
    }

    /// Before anything is read.
    fn new(host: &Host, key: &Key, options: &SurveyOptions) -> Result<Survey, Error> {
        Ok(Survey {
            machine: key.machine(&description::id(host)?),
            id: hex(&chance::<16>()?),
            time: SystemTime::now(),
            key_id: key.id(),
            facts: MachineDescription::look(host),
            labels: options.labels.clone(),
            page_size: rustix::param::page_size() as u64,
            selection: None,
            sketch_size: options.sketch as u64,
            version: options.version.clone(),
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
            interrupted: false,
            owners: Vec::new(),
            refused: 0,
            held: 0,
            is_pressure_told: pressure::is_told(host),
            notes: Vec::new(),
        })
    }

    /// A survey without owners, interrupted, of a machine whose memory is too short for one.
    ///
    /// # Errors
    /// When the machine has no id, or the kernel gives no random bytes.
    pub fn refusal(host: &Host, key: &Key, options: &SurveyOptions) -> Result<Survey, Error> {
        let interrupted = true;
        Ok(Survey {
            interrupted,
            ..Survey::new(host, key, options)?
        })
    }

    pub(crate) fn total(&self) -> OwnerResult {
        let mut counted = Counted::default();
        let mut pages = PageCounts::default();
        for owner in &self.owners {
            counted.add(&owner.counted);
            pages.all += owner.pages.all;
            pages.zero += owner.pages.zero;
            pages.same += owner.pages.same;
            pages.skipped += owner.pages.skipped;
        }
        let sketch = Sketch::unite(self.owners.iter().map(|owner| &owner.sketch));
        OwnerResult {
            owner: Owner::others(self.owners.len()),
            counted,
            pages,
            distinct: sketch.distinct(),
            pool: std::array::from_fn(|codec| {
                sum(self.owners.iter().map(|owner| owner.pool[codec]))
            }),
            melded: melded(&sketch),
            idle: None,
            sketch,
        }
    }
}

/// The sum of independent estimates.
fn sum(estimates: impl Iterator<Item = Estimate>) -> Estimate {
    let (mut value, mut variance) = (0.0, 0.0);
    for one in estimates {
        value += one.value;
        variance += ((one.high - one.low) / 2.0 / CONFIDENCE).powi(2);
    }
    Estimate::new(value, variance, (0.0, f64::INFINITY))
}

pub(crate) fn melded(sketch: &Sketch<PoolBytes>) -> [Estimate; CODECS.len()] {
    std::array::from_fn(|codec| sketch.sum(|bytes| bytes[codec]))
}

struct Planned {
    owner: Owner,
    pids: BTreeSet<i32>,
    bytes: u64,
    /// Control groups of its processes, as the kernel's ages name them; none where it
    /// does not say it of one.
    groups: Option<BTreeSet<String>>,
}

/// Owners, the largest first; small ones are merged.
fn plan(host: &Host, live: &LiveMemory) -> Vec<Planned> {
    let mut reader = PatientReader::default();
    by_owner(live.members().map(|member| {
        let (owner, group) = Owner::of_process(host, member.pid, &mut reader);
        (member, owner, group)
    }))
}

/// Of each process its owner and the group that it is charged to.
fn by_owner(members: impl Iterator<Item = (Member, Owner, Option<String>)>) -> Vec<Planned> {
    let mut owners: BTreeMap<String, Planned> = BTreeMap::new();
    for (member, owner, group) in members {
        let planned = owners.entry(owner.id.clone()).or_insert_with(|| Planned {
            owner,
            pids: BTreeSet::new(),
            bytes: 0,
            groups: Some(BTreeSet::new()),
        });
        planned.pids.insert(member.pid);
        planned.bytes += member.resident_bytes;
        match (&mut planned.groups, group) {
            (Some(groups), Some(group)) => drop(groups.insert(group)),
            (groups, _) => *groups = None,
        }
    }
    let mut owners: Vec<Planned> = owners.into_values().collect();
    owners.sort_by(|a, b| (b.bytes, &a.owner.id).cmp(&(a.bytes, &b.owner.id)));
    // Users make as many groups and processes as they like: they leave room for services.
    let mut of_users = 0;
    let (mut shown, mut small) = (Vec::new(), Vec::new());
    for owner in owners {
        let is_users = owner.owner.is_a_users();
        let has_room = shown.len() < OWNERS_MAX && (!is_users || of_users < USERS_MAX);
        of_users += usize::from(is_users && has_room);
        if has_room {
            shown.push(owner);
        } else {
            small.push(owner);
        }
    }
    if !small.is_empty() {
        shown.push(together(small));
    }
    shown
}

fn together(small: Vec<Planned>) -> Planned {
    let mut all = Planned {
        owner: Owner::others(small.len()),
        pids: BTreeSet::new(),
        bytes: 0,
        groups: None,
    };
    for one in small {
        all.pids.extend(one.pids);
        all.bytes += one.bytes;
    }
    all
}

struct Reading<'a> {
    key: &'a Key,
    options: &'a SurveyOptions,
    stop: &'a AtomicBool,
    progress: &'a ScanProgress,
    watch: Watch<'a>,
    live: LiveMemory,
    seen: Arc<SeenFrames>,
    page_size: usize,
    objects: Objects,
    shared: SharedPages,
    ages: Ages,
}

/// Reads the memory of all processes, as far as it may.
///
/// # Errors
/// When memory is short, no process may be read, or it was stopped before one owner was
/// read whole. Nothing was changed.
pub fn survey(
    host: &Host,
    key: &Key,
    options: &SurveyOptions,
    stop: &AtomicBool,
    progress: &ScanProgress,
) -> Result<Survey, Error> {
    let (begun, cpu_begun) = (Instant::now(), cpu_time());
    let mut survey = Survey::new(host, key, options)?;
    let live = LiveMemory::open(LiveOptions {
        shared: true,
        regions: false,
        ..LiveOptions::new(options.selection.clone())
    })?;
    // After what was asked for was looked at: that is wrong at any time.
    let watch = Watch::new(host)?;
    let (page_size, live_name) = (live.page_size(), live.describe());
    survey.selection = (options.selection != Selection::All).then_some(live_name);
    let release = survey.facts.kernel.clone().unwrap_or_default();
    progress.start(live.expected_pages());
    let planned = plan(host, &live);
    let mut reading = Reading {
        key,
        options,
        stop,
        progress,
        watch,
        live,
        seen: Arc::default(),
        page_size,
        objects: Objects::new(PoolModel::running(&release, page_size as u32))?,
        shared: SharedPages::default(),
        ages: Ages::of(host),
    };
    reading.all(planned, &mut survey)?;
    survey.elapsed = begun.elapsed();
    survey.cpu = cpu_time().saturating_sub(cpu_begun);
    Ok(survey)
}

impl Reading<'_> {
    fn all(&mut self, planned: Vec<Planned>, survey: &mut Survey) -> Result<(), Error> {
        for owner in planned {
            let (collected, visit) = self.collect(&owner.pids)?;
            if self.stop.load(Ordering::Relaxed) {
                survey.interrupted = true;
                break;
            }
            survey.refused += visit.skipped.get(SkipReason::Permission).processes;
            for reason in [SkipReason::Held, SkipReason::NotTried] {
                survey.held += visit.skipped.get(reason).processes;
            }
            for note in &visit.notes {
                Note::add(&mut survey.notes, note);
            }
            let found = self.result(owner, collected, &visit)?;
            survey.owners.extend(found.is_there().then_some(found));
        }
        if survey
            .owners
            .iter()
            .all(|owner| owner.counted.processes == 0)
        {
            return Err(match survey.interrupted {
                true => Error::Interrupted,
                false => Error::NotPermitted {
                    processes: survey.refused,
                    is_root: rustix::process::geteuid().is_root(),
                },
            });
        }
        Ok(())
    }

    fn collect(&mut self, pids: &BTreeSet<i32>) -> Result<(Collected, Visit), Error> {
        let part = self.live.part(pids, &self.seen);
        let seed = u64::from_ne_bytes(chance()?);
        let state = OwnerState {
            collector: Collector::new(self.options.sketch, self.page_size, seed),
            objects: &mut self.objects,
            shared: &mut self.shared,
            failure: None,
        };
        let state = Mutex::new(state);
        let over = AtomicBool::new(self.stop.load(Ordering::Relaxed));
        // One thread: it is to be in nobody's way.
        let visit = part.visit(1, &over, &|batch| {
            let mut state = state.lock().expect("no panic");
            let taken = self
                .watch
                .look()
                .and_then(|()| state.batch(batch, self.key, self.page_size));
            if let Err(err) = taken {
                state.failure.get_or_insert(err);
            }
            if state.failure.is_some() || self.stop.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
            }
            self.progress.advance(batch.bytes.len() / self.page_size);
        })?;
        let state = state.into_inner().expect("no panic");
        match state.failure {
            Some(err) => Err(err),
            None => Ok((state.collector.finish(&mut self.objects)?, visit)),
        }
    }

    fn result(
        &self,
        planned: Planned,
        collected: Collected,
        visit: &Visit,
    ) -> Result<OwnerResult, Error> {
        let rest = collected.pages.rest();
        let page_size = self.page_size as u64;
        let skipped = SKIPPED.map(|reason| visit.skipped.get(reason).pages);
        let drawn = |codec: usize| collected.drawn.iter().map(move |bytes| bytes[codec]);
        Ok(OwnerResult {
            counted: visit.counted.clone(),
            pages: PageCounts {
                skipped: skipped.iter().sum(),
                ..collected.pages
            },
            distinct: collected.sketch.distinct(),
            pool: std::array::from_fn(|codec| reservoir::sum(rest, page_size as f64, drawn(codec))),
            melded: melded(&collected.sketch),
            idle: self.idle(&planned),
            sketch: collected.sketch,
            owner: planned.owner,
        })
    }

    fn idle(&self, planned: &Planned) -> Option<IdlePages> {
        let groups = planned.groups.as_ref()?;
        self.ages.of_groups(groups.iter().map(String::as_str))
    }
}

struct OwnerState<'a> {
    collector: Collector,
    objects: &'a mut Objects,
    shared: &'a mut SharedPages,
    failure: Option<Error>,
}

impl OwnerState<'_> {
    fn batch(&mut self, batch: Batch<'_>, key: &Key, page_size: usize) -> Result<(), Error> {
        for (at, page) in batch.bytes.chunks_exact(page_size).enumerate() {
            let maybe = batch.maybe_shared.is_some_and(|shared| shared[at]);
            let shared = maybe.then_some(&mut *self.shared);
            self.collector.add(page, key, shared, self.objects)?;
        }
        Ok(())
    }
}

/// Processor time of this process so far. Not by rustix, which asks for a vDSO that
/// kernels without one (user-mode Linux) do not have.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::owners::OwnerKind;

    fn parsed(texts: &[&str]) -> Result<Vec<(String, String)>, String> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        labels(&texts).map_err(|err| err.to_string())
    }

    #[test]
    fn labels_are_names_with_values() {
        let found = parsed(&["role=web", "app.kubernetes.io/name=a=b c", "empty="]).unwrap();
        assert_eq!(
            found[1],
            ("app.kubernetes.io/name".to_owned(), "a=b c".to_owned())
        );
        assert_eq!(found[2].1, "");
        for (wrong, word) in [
            (&["role"][..], "NAME=VALUE"),
            (&["=x"], "letters"),
            (&["a b=x"], "letters"),
            (&["a=x\u{1b}[2J"], "control"),
            (&["a=1", "a=2"], "already"),
        ] {
            let said = parsed(wrong).unwrap_err();
            assert!(said.contains(word), "{said}");
        }
        let long = format!("a={}", "x".repeat(257));
        assert!(parsed(&[&long]).unwrap_err().contains("256"));
    }

    /// 40 groups of users, larger than 70 services of which two each are of one size.
    #[test]
    fn the_largest_owners_have_rows_of_their_own_and_users_leave_room() {
        let of = |pid: i32, id: String, resident_bytes: u64, group: Option<&str>| {
            let member = Member {
                pid,
                comm: "x".into(),
                resident_bytes,
            };
            let owner = Owner {
                name: id.clone(),
                id,
                kind: OwnerKind::Service,
                pod: None,
            };
            (member, owner, group.map(str::to_owned))
        };
        let users = (0..40).map(|at| {
            let id = format!("/user.slice/{at:02}");
            of(at, id, 1000 + at as u64, Some("/user"))
        });
        let services = (0..70).map(|at| {
            let bytes = 10 + (at / 2 * 2) as u64;
            of(100 + at, format!("/s{at:02}"), bytes, Some("/a"))
        });
        // The kernel does not say where it is charged.
        let more = [
            of(200, "/s69".to_owned(), 500, None),
            of(201, "/s68".to_owned(), 300, Some("/b")),
        ];
        let found = by_owner(users.chain(services).chain(more));
        let at = |at: usize| (&*found[at].owner.id, found[at].bytes, found[at].pids.len());
        assert_eq!(found.len(), OWNERS_MAX + 1);
        assert_eq!(at(0), ("/user.slice/39", 1039, 1));
        assert_eq!(at(23), ("/user.slice/16", 1016, 1));
        assert_eq!(at(24), ("/s69", 578, 2));
        assert_eq!(at(25), ("/s68", 378, 2));
        assert_eq!((at(26), at(27)), (("/s66", 76, 1), ("/s67", 76, 1)));
        assert_eq!(at(62), ("/s30", 40, 1));
        let small = (0..30).map(|it| 10 + it / 2 * 2).sum::<u64>() + 40;
        let small = small + (1000..1016).sum::<u64>();
        assert_eq!(
            (at(63), &*found[63].owner.name),
            (("other", small, 47), "47 more")
        );
        let groups = |at: usize| found[at].groups.as_ref().map(BTreeSet::len);
        assert_eq!([24, 25, 26, 63].map(groups), [None, Some(2), Some(1), None]);
        let one = by_owner([of(1, "/a".to_owned(), 1, None)].into_iter());
        assert_eq!(one.len(), 1);
    }

    #[test]
    fn independent_estimates_add_by_their_variances() {
        let one = Estimate {
            value: 10.0,
            low: 7.0,
            high: 13.0,
        };
        let two = Estimate {
            value: 20.0,
            low: 16.0,
            high: 24.0,
        };
        let both = sum([one, two].into_iter());
        assert!(
            (both.value - 30.0).abs() < 1e-9 && (both.high - 35.0).abs() < 1e-9,
            "{both:?}"
        );
    }
}

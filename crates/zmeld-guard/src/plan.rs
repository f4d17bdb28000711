//! Who would pay, and which of his processes: made again and again while memory is little, by a
//! thread of its own, since it opens files, takes memory, and takes as long as whoever makes
//! groups wants it to.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::amount::bytes_text;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::Host;

use crate::choice::{choose_owner, took_most, went_bytes, OwnerFigures, Right, Verdict};
use crate::ending::ENDING_MAX;
use crate::event::Account;
use crate::guard_loop::{end_below, hurry};
use crate::memory::MemoryMonitor;
use crate::owners::{uid_of, unmatched, Groups, History, Owner, Passed, Place, NOT_NAMED};
use crate::processes::{list, Process};
use crate::{is_due, Error, GuardRule};

/// No more owners are followed, the largest ones.
const OWNERS_MAX: usize = 512;
/// Of so many owners processes are listed, until one has some that may be ended.
const LISTED_MAX: usize = 4;
/// Who has many groups is not gone through for longer, where he is not to pay.
const LOOKED_INTO_MAX: Duration = Duration::from_millis(50);
/// What a process took is told by the list before, where that is no older.
const LISTED_WITHIN: Duration = Duration::from_secs(3);
/// How often owners are looked into for groups that are passed over.
const LOOKED_INTO_EVERY: Duration = Duration::from_secs(1);

/// What is asked for, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub asked: Option<Instant>,
    /// The machine stands still: who waits is asked for.
    pub is_stall: bool,
    /// Processes are listed.
    pub is_listed: bool,
    pub can_bytes: u64,
    /// Processes that were told to end, with their owners; and whether they wait in the kernel.
    pub going: Vec<(u64, u32, bool)>,
    /// Those that have gone, to be closed.
    pub retired: Vec<Process>,

    pub is_new: bool,
    pub account: Option<Account>,
    /// Of who pays, in the order in which they go.
    pub processes: Vec<Process>,
    /// What all owners took a second of late.
    pub rate: f64,
    pub failed: Option<Arc<str>>,
    pub took: Duration,
}

impl Plan {
    /// One with room for what is left in it where no memory may be taken.
    pub fn new() -> Plan {
        Plan {
            going: Vec::with_capacity(ENDING_MAX),
            retired: Vec::with_capacity(ENDING_MAX),
            ..Plan::default()
        }
    }
}

/// Who makes them.
pub(crate) struct Planner {
    host: Host,
    rule: GuardRule,
    groups: Option<Groups>,
    history: History,
    looked: Option<Instant>,
    looked_into: Option<Instant>,
    /// When processes were listed last, and what each would have given back.
    listed: Option<(Instant, HashMap<u32, u64>)>,
    has_thread: bool,
    is_slow: bool,
}

impl Planner {
    pub fn new(host: Host, rule: GuardRule, has_thread: bool) -> Planner {
        Planner {
            host,
            rule,
            groups: None,
            history: History::default(),
            looked: None,
            looked_into: None,
            listed: None,
            has_thread,
            is_slow: has_thread,
        }
    }

    pub fn make(&mut self, plan: &mut Plan) {
        let begin = Instant::now();
        if plan.is_listed && std::mem::take(&mut self.is_slow) {
            // Opening takes memory: who has this priority may have what others may not.
            let _ = hurry(&self.host);
        }
        plan.retired.clear();
        plan.processes.clear();
        plan.account = None;
        let result = self.plan(plan);
        if result.is_err() {
            self.groups = None;
        }
        plan.failed = result.err().map(|err| err.to_string().into());
        plan.took = match self.has_thread {
            true => begin.elapsed(),
            false => Duration::ZERO,
        };
        plan.is_new = true;
    }

    fn plan(&mut self, plan: &mut Plan) -> Result<(), Error> {
        let groups = match self.groups.take() {
            Some(groups) => groups,
            None => Groups::find(&self.host, &self.rule)?,
        };
        let now = plan.asked.unwrap_or_else(Instant::now);
        let before = in_ram_bytes(&self.host);
        let mut owners = self.survey(&groups, plan, now)?;
        plan.rate = owners.iter().map(|it| it.held.rate).sum();
        let owned: u64 = owners.iter().map(|it| it.held.ram_bytes).sum();
        // What comes or goes meanwhile is not nobody's.
        let in_ram = before.min(in_ram_bytes(&self.host));
        let nobodys = in_ram.saturating_sub(owned);
        let mut nobody = Owner::nobody();
        nobody.held = self.history.keep(nobody.id, (nobodys, nobodys), now, None);
        owners.push(nobody);
        if plan.is_listed {
            self.choose(&groups, &owners, plan, now);
        }
        self.history.forget(now);
        self.looked = Some(now);
        self.groups = Some(groups);
        Ok(())
    }

    /// The owners, the largest first, with what they took.
    fn survey(&mut self, groups: &Groups, plan: &Plan, now: Instant) -> Result<Vec<Owner>, Error> {
        let mut owners = groups.owners(plan.is_stall)?;
        owners.sort_by_key(|it| Reverse(it.held.all_bytes));
        owners.truncate(OWNERS_MAX);
        let is_due = is_due(self.looked_into, LOOKED_INTO_EVERY, now);
        for owner in &mut owners {
            let held = (owner.held.ram_bytes, owner.held.all_bytes);
            owner.held = self.history.keep(owner.id, held, now, self.looked);
            let is_named_below = owner.right == Right::Kept(NOT_NAMED);
            let Place::Group(directory) = &owner.place else {
                continue;
            };
            if !is_named_below && (owner.is_kept() || !is_due) {
                continue;
            }
            let (mut is_named, mut passed) = (false, Vec::new());
            let begin = Instant::now();
            groups.walk(directory, |group, it| {
                is_named |= it.is_named;
                it.keep_passed(groups, group, &mut passed);
                begin.elapsed() < LOOKED_INTO_MAX
            });
            // What they take is followed from now on.
            self.shields(&passed, 0, 0, now);
            if is_named && is_named_below {
                owner.right = Right::Ended;
            }
        }
        if is_due {
            self.looked_into = Some(now);
        }
        Ok(owners)
    }

    /// Groups that are passed over and shield what is in them: one that took more than half of
    /// what went shields nobody, nor do all of an owner together.
    fn shields(
        &mut self,
        passed: &[Passed],
        went_bytes: u64,
        can_bytes: u64,
        now: Instant,
    ) -> HashSet<u64> {
        let mut shields = HashMap::new();
        for it in passed {
            let held = self.history.keep(it.id, it.held, now, self.looked_into);
            shields.insert(it.id, held.took_bytes);
        }
        let all: u64 = shields.values().sum();
        let is_most = |took| took_most(took, went_bytes, can_bytes);
        shields.retain(|_, took| !is_most(*took) && !is_most(all));
        shields.into_keys().collect()
    }

    /// Who pays, with his processes.
    fn choose(&mut self, groups: &Groups, owners: &[Owner], plan: &mut Plan, now: Instant) {
        let can = plan.can_bytes as i64;
        let figures = owners.iter().map(|it| OwnerFigures {
            right: it.right,
            holds_bytes: (it.held.all_bytes as i64 + it.shift * (can / 1000)).max(0) as u64,
            took_bytes: it.held.took_bytes,
            is_shielded: it.shift < 0,
            is_stalled: it.is_stalled,
        });
        let figures: Vec<OwnerFigures> = figures.collect();
        let (went_bytes, going) = (went_bytes(&figures), &plan.going);
        let mut left = LISTED_MAX;
        let has_some = |at: usize| {
            if left == 0 {
                return false;
            }
            left -= 1;
            let is_told = |pid| going.iter().any(|(_, told, _)| *told == pid);
            let owner = &owners[at];
            plan.processes = list(groups, owner, is_told, |passed| {
                self.shields(passed, went_bytes, plan.can_bytes, now)
            });
            // Nobody else pays while his are on their way out.
            let mut own = going.iter().filter(|(id, ..)| *id == owner.id);
            let is_going = own.any(|(.., is_stuck)| !is_stuck);
            if plan.processes.is_empty() && !is_going {
                // Nor for what he has under names of his own, where that is most of what he holds: a
                // user's manager alone is not.
                let shields = |passed: &[Passed]| passed_by_root(owner, passed);
                plan.processes = list(groups, owner, is_told, shields);
                let given: u64 = plan.processes.iter().map(|it| it.gives_bytes).sum();
                if given < owner.held.all_bytes / 2 {
                    plan.processes.clear();
                }
            }
            !plan.processes.is_empty() || is_going
        };
        let verdict = choose_owner(&figures, plan.can_bytes, plan.is_stall, has_some);
        let had = self.listed.take();
        let had = had.filter(|(at, _)| now.duration_since(*at) < LISTED_WITHIN);
        if let Some((at, had)) = &had {
            let since = now.duration_since(*at).as_secs_f64().max(0.05);
            for it in &mut plan.processes {
                let before = had.get(&it.pid).copied().unwrap_or(0);
                it.rate = it.gives_bytes.saturating_sub(before) as f64 / since;
            }
        }
        let gives = plan.processes.iter().map(|it| (it.pid, it.gives_bytes));
        self.listed = Some((now, gives.collect()));
        let most = (0..owners.len()).max_by_key(|at| figures[*at].holds_bytes);
        let (at, why) = match verdict {
            Verdict::Pays(at) => (at, None),
            Verdict::Blamed(at) => (at, Some(("OOMScoreAdjust= protects it", true))),
            Verdict::Nobody => (
                most.unwrap_or(0),
                Some(("nothing of it may be ended", false)),
            ),
        };
        let owner = &owners[at];
        plan.account = Some(Account {
            owner: owner.shown.as_str().into(),
            id: owner.id,
            held_bytes: owner.held.all_bytes,
            took_bytes: owner.held.took_bytes,
            went_bytes,
            spared: why.map(|(why, is_blamed)| match owner.right {
                Right::Kept(why) => (why, is_blamed),
                _ => (why, is_blamed),
            }),
        });
    }
}

/// Groups that are passed over and that no user could have made: he makes groups below his manager's.
fn passed_by_root(owner: &Owner, passed: &[Passed]) -> HashSet<u64> {
    let is_his = |directory: &Path| {
        let Place::Group(top) = &owner.place else {
            return false;
        };
        let below = directory.strip_prefix(top).ok();
        let first = below.and_then(|it| it.components().next()?.as_os_str().to_str());
        let is_manager = |it: &str| it.starts_with("user@") && it.ends_with(".service");
        uid_of(top).is_some() && first.is_some_and(is_manager)
    };
    let passed = passed.iter().filter(|it| !is_his(&it.directory));
    passed.map(|it| it.id).collect()
}

/// What programs have in RAM, with files in memory.
fn in_ram_bytes(host: &Host) -> u64 {
    let text = host.read(meminfo::PATH).unwrap_or_default();
    let of = |name: &str| Meminfo::new(&text).bytes(name).unwrap_or(0);
    of("AnonPages") + of("Shmem")
}

/// How much programs can take, and below what something is ended. Then who holds memory, the largest
/// first, a line each: what he holds, whether he may be ended, and which of his processes would go
/// first. At last names in the rule that nobody has.
///
/// # Errors
/// When the machine cannot be looked at.
pub fn overview(host: &Host, rule: &GuardRule) -> Result<Vec<String>, Error> {
    let groups = Groups::find(host, rule)?;
    let mut planner = Planner::new(host.clone(), rule.clone(), false);
    let owners = planner.survey(&groups, &Plan::default(), Instant::now())?;
    let line = |owner: &Owner| {
        let held = bytes_text(owner.held.all_bytes as f64);
        if let Right::Kept(why) = owner.right {
            return format!("{} holds {held}; it is not ended: {why}", owner.shown);
        }
        let all = |passed: &[Passed]| passed.iter().map(|it| it.id).collect();
        let processes = list(&groups, owner, |_| false, all);
        let first = processes.first().map(|it| {
            let (name, pid, score) = (&it.name, it.pid, it.score);
            format!("{name} ({pid}), oom_score {score}, would go first")
        });
        let first = first.unwrap_or_else(|| "nothing of it may be ended".to_owned());
        format!("{} holds {held}; {first}", owner.shown)
    };
    let sample = MemoryMonitor::open(host, false)?.look(Instant::now());
    let room = sample.map(|it| {
        let bytes = |it: u64| bytes_text(it as f64);
        let (left, below) = (it.headroom_bytes, end_below(rule, &it));
        let (left, below) = (bytes(left), bytes(below));
        format!("programs can take {left} more; below {below} something is ended")
    });
    let lines = room.into_iter().chain(owners.iter().map(line));
    Ok(lines.chain(unmatched(host, rule)).collect())
}

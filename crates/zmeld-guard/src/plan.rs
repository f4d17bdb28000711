//! The owner who would pay, and his processes: made again and again while memory is little, by a
//! thread of its own, since it opens files, takes memory, and takes as long as whoever makes groups
//! wants it to.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::amount::bytes_text;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::Host;

use crate::choice::{
    choose_owner, took_most, went_bytes, OwnerFigures, Right, Verdict, ENDING_MAX,
};
use crate::error::Error;
use crate::event::Account;
use crate::memory::{end_below, MemoryMonitor};
use crate::owners::{uid_of, unmatched, Census, Groups, History, Owner, Passed};
use crate::processes::{list, Process};
use crate::worker::hurry;
use crate::GuardRule;

/// No more owners are followed, the largest ones.
const OWNERS_MAX: usize = 512;
/// Of so many owners processes are listed, until one has some that may be ended.
const LISTED_MAX: usize = 4;
/// A process's growth is told by the list before, where it is no older.
const LISTED_WITHIN: Duration = Duration::from_secs(3);

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
    pub retired: Vec<Process>,

    pub is_new: bool,
    pub account: Option<Account>,
    /// Of who pays, in the order in which they go.
    pub processes: Vec<Process>,
    /// All owners' bytes a second of late.
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

/// Key of memory in RAM beside owners.
const IN_RAM: u64 = 0;

pub(crate) struct Planner {
    host: Host,
    rule: GuardRule,
    groups: Option<Groups>,
    history: History,
    looked: Option<Instant>,
    /// When processes were listed last, and what each would have given back.
    listed: Option<(Instant, HashMap<u32, u64>)>,
    has_thread: bool,
    is_slow: bool,
    took: Duration,
}

impl Planner {
    pub fn new(host: Host, rule: GuardRule, has_thread: bool) -> Planner {
        Planner {
            host,
            rule,
            groups: None,
            history: History::default(),
            looked: None,
            listed: None,
            has_thread,
            is_slow: has_thread,
            took: Duration::ZERO,
        }
    }

    pub fn make(&mut self, plan: &mut Plan) {
        let begin = Instant::now();
        if std::mem::take(&mut self.is_slow) {
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
        self.took = plan.took;
        plan.is_new = true;
    }

    fn plan(&mut self, plan: &mut Plan) -> Result<(), Error> {
        let groups = match self.groups.take() {
            Some(groups) => groups,
            None => Groups::find(&self.host, &self.rule)?,
        };
        let now = plan.asked.unwrap_or_else(Instant::now);
        let census = self.census(&groups, plan.is_stall, now)?;
        let owners = census.owners.iter().filter(|it| !it.is_nobody());
        plan.rate = owners.map(|it| it.held.rate).sum();
        if plan.is_listed {
            self.choose(&groups, &census, plan, now);
        }
        self.history.forget(now);
        self.looked = Some(now);
        self.groups = Some(groups);
        Ok(())
    }

    /// The owners, the largest first, with what they took; at last what nobody has any more.
    fn census(&mut self, groups: &Groups, is_stall: bool, now: Instant) -> Result<Census, Error> {
        let before = in_ram_bytes(&self.host);
        let mut census = groups.census(is_stall)?;
        census.owners.truncate(OWNERS_MAX);
        for owner in &mut census.owners {
            let held = (owner.held.ram_bytes, owner.held.all_bytes);
            owner.held = self.history.keep(owner.id, held, now, self.looked);
        }
        for it in &mut census.passed {
            let held = self.history.keep(it.id, (0, it.bytes), now, self.looked);
            it.took_bytes = held.took_bytes;
        }
        // Changes meanwhile are not nobody's, nor is what goes on without who had it taken.
        let in_ram = before.min(in_ram_bytes(&self.host));
        let grown = self.history.keep(IN_RAM, (in_ram, in_ram), now, None);
        let nobodys = in_ram.saturating_sub(census.ram_bytes);
        let mut nobody = Owner::nobody();
        nobody.held = self.history.keep(nobody.id, (nobodys, nobodys), now, None);
        nobody.held.took_bytes = nobody.held.took_bytes.min(grown.took_bytes);
        census.owners.push(nobody);
        Ok(census)
    }

    /// Chooses owner and processes.
    fn choose(&mut self, groups: &Groups, census: &Census, plan: &mut Plan, now: Instant) {
        let owners = &census.owners;
        let can = plan.can_bytes as i64;
        let figures = owners.iter().map(|it| OwnerFigures {
            right: it.right,
            holds_bytes: (it.held.all_bytes as i64 + it.shift() * (can / 1000)).max(0) as u64,
            took_bytes: it.held.took_bytes,
            is_shielded: it.shift() < 0,
            is_stalled: it.is_stalled,
            is_nobody: it.is_nobody(),
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
            // A group that is passed over and took more than half of what went shields nobody, nor do
            // all of an owner together.
            let own = census.passed.iter().filter(|it| it.owner == owner.id);
            let all: u64 = own.map(|it| it.took_bytes).sum();
            let is_most = |took| took_most(took, went_bytes, plan.can_bytes);
            let shields = |it: &Passed| !is_most(it.took_bytes) && !is_most(all);
            plan.processes = list(groups, census, owner, is_told, shields);
            // Nobody else pays while his are on their way out.
            let mut own = going.iter().filter(|(id, ..)| *id == owner.id);
            let is_going = own.any(|(.., is_stuck)| !is_stuck);
            if plan.processes.is_empty() && !is_going {
                // Nor for what he has under names of his own, where that is most of what he holds: a
                // user's manager alone is not.
                let shields = |it: &Passed| !is_his(owner, &it.list);
                plan.processes = list(groups, census, owner, is_told, shields);
                let given: u64 = plan.processes.iter().map(|it| it.gives_bytes).sum();
                if given < owner.held.all_bytes / 2 {
                    plan.processes.clear();
                }
            }
            !plan.processes.is_empty() || is_going
        };
        let verdict = choose_owner(&figures, plan.can_bytes, plan.is_stall, has_some);
        let had = self.listed.take();
        let within = LISTED_WITHIN.max(self.took * 2);
        let had = had.filter(|(at, _)| now.duration_since(*at) < within);
        // Growth of an unseen process, past and to come, is not known.
        if had.is_none() {
            plan.rate = 0.0;
        }
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

/// Whether a user could have made a group: he makes groups below his manager's.
fn is_his(owner: &Owner, list: &Path) -> bool {
    let below = list.strip_prefix(&owner.list).ok();
    let first = below.and_then(|it| it.components().next()?.as_os_str().to_str());
    let is_manager = |it: &str| it.starts_with("user@") && it.ends_with(".service");
    uid_of(&owner.list).is_some() && first.is_some_and(is_manager)
}

/// Programs' bytes in RAM, with files in memory.
fn in_ram_bytes(host: &Host) -> u64 {
    let text = host.read(meminfo::PATH).unwrap_or_default();
    let of = |name: &str| Meminfo::new(&text).bytes(name).unwrap_or(0);
    of("AnonPages") + of("Shmem")
}

/// How much programs can take, and below what something is ended. Then who holds memory, the largest
/// first, a line each: what he holds, whether he may be ended, or would be the first who pays, and which of his
/// processes would go first. At last names in the rule that nobody has.
///
/// # Errors
/// When the machine cannot be looked at.
pub fn overview(host: &Host, rule: &GuardRule) -> Result<Vec<String>, Error> {
    let groups = Groups::find(host, rule)?;
    let mut planner = Planner::new(host.clone(), rule.clone(), false);
    let census = planner.census(&groups, false, Instant::now())?;
    let sample = MemoryMonitor::open(host, false)?.look(Instant::now());
    let mut plan = Plan {
        can_bytes: sample.as_ref().map_or(0, |it| it.can_bytes),
        ..Plan::new()
    };
    planner.choose(&groups, &census, &mut plan, Instant::now());
    let payer = plan.account.filter(|account| account.spared.is_none());
    let line = |owner: &Owner| {
        let held = bytes_text(owner.held.all_bytes as f64);
        if let Right::Kept(why) = owner.right {
            return format!("{} holds {held}; it is not ended: {why}", owner.shown);
        }
        let processes = list(&groups, &census, owner, |_| false, |_| true);
        let first = processes.first().map(|it| {
            let (name, pid, score) = (&it.name, it.pid, it.score);
            format!("{name} ({pid}), oom_score {score}, would be its first to go")
        });
        let first = first.unwrap_or_else(|| "nothing of it may be ended".to_owned());
        let pays = match payer.as_ref().is_some_and(|payer| payer.id == owner.id) {
            true => " and would be first if memory ran out",
            false => "",
        };
        format!("{} holds {held}{pays}; {first}", owner.shown)
    };
    let room = sample.map(|it| {
        let bytes = |it: u64| bytes_text(it as f64);
        let (left, below) = (it.headroom_bytes, end_below(rule, &it));
        let (left, below) = (bytes(left), bytes(below));
        format!("programs can take {left} more; below {below} something is ended")
    });
    let owners = census.owners.iter();
    let owners = owners.filter(|it| it.held.all_bytes > 0 && !it.is_nobody());
    let lines = room.into_iter().chain(owners.map(line));
    Ok(lines.chain(unmatched(host, rule)).collect())
}

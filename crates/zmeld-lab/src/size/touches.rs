//! Which pages are touched again, and when: looked at during a run without a limit.
//!
//! An **epoch** begins by taking the referenced bits from all pages of the workload's
//! processes (`/proc/PID/clear_refs`). Then the kernel is asked again and again how many
//! pages were touched since (`Referenced` in `/proc/PID/smaps`). What was not is
//! **cold**; by how much the cold pages became fewer is how much was **touched again**,
//! the time since the epoch began being how long it had been left alone. Nothing is
//! stopped, and no page of the workload is read.
//!
//! The kernel counts all pages of a process in one walk of its page tables, so that none
//! have to be sampled to keep the cost down; instead an epoch goes on until its looks are
//! at most 4 % of it, and no look follows another at once.
//!
//! Only memory that is swapped counts: anonymous and shared memory, not mapped files.
//! Processes share pages: what each of them counts is scaled by its share of what it maps
//! (`Pss` over `Rss`). Pages of a process that ended were not touched again, nor were
//! pages that were given back: where a process has less memory than at the look before,
//! the cold part of what is gone is taken off.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zmeld_linux::counters;

/// At most so much of an epoch goes into looking, unless the run ends before.
const COST_MAX: f64 = 0.04;
/// So many times as long as a look takes, none follows it.
const PAUSE: f64 = 4.0;
/// The first look of an epoch, and how much later than the one before each further one is.
const FIRST_LOOK_S: f64 = 0.005;
const LATER: f64 = 1.45;
/// How long an epoch lasts at least, and as a share of the time so far: one long one, then two short ones, so that both
/// what is touched seldom and what changes soon is seen.
const EPOCHS: [(f64, f64); 3] = [(0.1, 0.25), (0.04, 0.02), (0.04, 0.02)];
/// An epoch is over when no more than that share of the pages is cold.
const COLD_LEAST: f64 = 0.005;
/// A processor charges so much at once (MEMCG_CHARGE_BATCH), of which half is in use on average.
const CHARGED_AHEAD: u64 = 64 * 4096;
/// The end of a run is looked for so often.
const TICK: Duration = Duration::from_millis(5);

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TouchLog {
    /// How long the run was looked at.
    pub elapsed_s: f64,
    /// How much of that went into looking.
    pub cost_s: f64,
    /// What else is charged to the group and cannot be swapped: page tables and what else the kernel has for it, and
    /// what each processor keeps charged in advance.
    pub kernel_bytes: u64,
    /// The epochs in their order.
    pub epochs: Vec<Epoch>,
}

/// From one resetting of the referenced bits to the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// When it began.
    pub at_s: f64,
    /// How long it lasted.
    pub lasted_s: f64,
    /// The looks.
    pub looks: Vec<Look>,
}

/// With fewer epochs nothing can be said.
const EPOCHS_LEAST: usize = 5;

impl TouchLog {
    /// Whether the run was long enough to predict from.
    pub fn is_enough(&self) -> bool {
        self.epochs.len() >= EPOCHS_LEAST
    }
}

/// What had happened by then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Since the epoch began.
    pub after_s: f64,
    /// Memory that was touched since.
    pub touched_bytes: u64,
    /// Memory that was not.
    pub cold_bytes: u64,
    /// Of what was cold at a look before, what was touched again, in all.
    pub again_bytes: u64,
}

/// A process at a look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Mapped {
    rss: f64,
    cold: f64,
}

/// Looks at the processes of a control group until told that the run is over.
pub(crate) fn watch(group: &Path, over: &AtomicBool) -> TouchLog {
    let mut log = TouchLog::default();
    let procs = &group.join("cgroup.procs");
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let begin = Instant::now();
    for number in 0.. {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let at_s = begin.elapsed().as_secs_f64();
        let mut epoch = epoch(procs, length_s(number, at_s), over, &mut log.cost_s);
        epoch.at_s = at_s;
        epoch.lasted_s = begin.elapsed().as_secs_f64() - at_s;
        log.elapsed_s = begin.elapsed().as_secs_f64();
        let kernel_bytes = kernel(group) + processors * CHARGED_AHEAD / 2;
        log.kernel_bytes = log.kernel_bytes.max(kernel_bytes);
        if !epoch.looks.is_empty() {
            log.epochs.push(epoch);
        }
    }
    log
}

/// How long an epoch lasts that begins then, unless it is over before.
pub(super) fn length_s(number: usize, at_s: f64) -> f64 {
    let (least_s, share) = EPOCHS[number % EPOCHS.len()];
    least_s.max(share * at_s)
}

fn epoch(procs: &Path, length_s: f64, over: &AtomicBool, cost_s: &mut f64) -> Epoch {
    let mut epoch = Epoch::default();
    let reset = Instant::now();
    for pid in pids(procs) {
        // It may have ended since.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "1");
    }
    let mut spent_s = reset.elapsed().as_secs_f64();
    let begin = Instant::now();
    let mut before: BTreeMap<u32, Mapped> = BTreeMap::new();
    let mut again = 0.0;
    let mut due_s = FIRST_LOOK_S;
    while wait(begin, due_s, over) {
        let look = Instant::now();
        let now = mapped(procs);
        let after_s = (begin.elapsed().as_secs_f64() + (look - begin).as_secs_f64()) / 2.0;
        let took_s = look.elapsed().as_secs_f64();
        spent_s += took_s;
        again += again_between(&before, &now);
        let total = |get: fn(&Mapped) -> f64| now.values().map(get).sum::<f64>();
        let (rss, cold) = (total(|it| it.rss), total(|it| it.cold));
        if rss > 0.0 {
            epoch.looks.push(Look {
                after_s,
                touched_bytes: (rss - cold) as u64,
                cold_bytes: cold as u64,
                again_bytes: again as u64,
            });
        }
        before = now;
        let ended = after_s >= length_s || rss > 0.0 && cold < COLD_LEAST * rss;
        if ended {
            // The next one begins when this one has paid for its looks.
            wait(begin, spent_s / COST_MAX, over);
            break;
        }
        due_s = (after_s * LATER).max(after_s + took_s * (1.0 + PAUSE));
    }
    *cost_s += spent_s;
    epoch
}

/// Waits until so long after `begin`; `false`: the run is over.
fn wait(begin: Instant, due_s: f64, over: &AtomicBool) -> bool {
    loop {
        if over.load(Ordering::SeqCst) {
            return false;
        }
        let left = due_s - begin.elapsed().as_secs_f64();
        if left <= 0.0 {
            return true;
        }
        std::thread::sleep(TICK.min(Duration::from_secs_f64(left)));
    }
}

/// What was touched again from one look to the next, bytes.
fn again_between(before: &BTreeMap<u32, Mapped>, now: &BTreeMap<u32, Mapped>) -> f64 {
    let both = now
        .iter()
        .filter_map(|(pid, now)| Some((before.get(pid)?, now)));
    both.map(|(before, now)| {
        let given_back = (before.rss - now.rss).max(0.0);
        let cold_share = before.cold / before.rss.max(1.0);
        (before.cold - now.cold - given_back * cold_share).max(0.0)
    })
    .sum()
}

/// What the kernel has for a group, bytes.
fn kernel(group: &Path) -> u64 {
    let text = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    let of_version_1 = text("memory.kmem.usage_in_bytes").trim().parse().ok();
    of_version_1
        .or_else(|| counters::value(&text("memory.stat"), "kernel"))
        .unwrap_or(0)
}

fn pids(procs: &Path) -> Vec<u32> {
    let text = fs::read_to_string(procs).unwrap_or_default();
    let pids = text.lines().filter_map(|line| line.trim().parse().ok());
    pids.collect()
}

fn mapped(procs: &Path) -> BTreeMap<u32, Mapped> {
    let all = pids(procs).into_iter();
    all.filter_map(|pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
        Some((pid, mapped_of(&text)))
    })
    .collect()
}

/// A mapping, KiB.
#[derive(Debug, Clone, Copy, Default)]
struct Mapping {
    is_shared_memory: bool,
    rss: f64,
    pss: f64,
    touched: f64,
    anonymous: f64,
}

/// How mappings are called whose pages are swapped although they have a file's name.
const SHARED_MEMORY: [&str; 4] = ["/dev/zero", "/dev/shm/", "/SYSV", "/memfd:"];

impl Mapping {
    /// What of it is swapped when memory is short, bytes.
    fn swappable(&self) -> Mapped {
        if self.rss <= 0.0 {
            return Mapped::default();
        }
        let part = match self.is_shared_memory {
            true => 1.0,
            false => (self.anonymous / self.rss).min(1.0),
        };
        let bytes = part * (self.pss / self.rss).min(1.0) * 1024.0;
        Mapped {
            rss: self.rss * bytes,
            cold: (self.rss - self.touched).max(0.0) * bytes,
        }
    }
}

/// From a process's `smaps`: each mapping is a line that begins with its addresses, and lines of what it has.
fn mapped_of(text: &str) -> Mapped {
    let mut all = Mapped::default();
    let mut mapping = Mapping::default();
    let mut add = |mapping: Mapping| {
        let part = mapping.swappable();
        all.rss += part.rss;
        all.cold += part.cold;
    };
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (name, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let Some(name) = name.strip_suffix(':') else {
            add(std::mem::take(&mut mapping));
            let file = words.nth(3).unwrap_or("");
            mapping.is_shared_memory = SHARED_MEMORY.iter().any(|begin| file.starts_with(begin));
            continue;
        };
        let field = match name {
            "Rss" => &mut mapping.rss,
            "Pss" => &mut mapping.pss,
            "Referenced" => &mut mapping.touched,
            "Anonymous" => &mut mapping.anonymous,
            _ => continue,
        };
        *field = value.parse().unwrap_or(0.0);
    }
    add(mapping);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "55d0-7ffe rw-p 00000000 00:00 0                  [heap]\n\
        Rss:  1000 kB\nPss:   500 kB\nPss_Dirty: 3 kB\nReferenced:   600 kB\nAnonymous: 1000 kB\n\
        VmFlags: rd wr\n\
        7f00-7f10 r-xp 00001000 08:01 1234        /usr/lib/libc.so.6\n\
        Rss:  900 kB\nPss:   90 kB\nReferenced:   100 kB\nAnonymous: 0 kB\n\
        7f20-7f30 rw-s 00000000 00:01 77        /dev/zero (deleted)\n\
        Rss:  40 kB\nPss:   10 kB\nReferenced:   20 kB\nAnonymous: 0 kB\n\
        7f40-7f50 ---p 00000000 00:00 0\nRss: 0 kB\n";

    #[test]
    fn what_is_swapped_counts_by_a_process_s_share_of_it() {
        let found = mapped_of(SMAPS);
        assert_eq!((found.rss, found.cold), (510.0 * 1024.0, 205.0 * 1024.0));
        assert_eq!(mapped_of(""), Mapped::default());
        assert_eq!(mapped_of("Rss: x kB\n\u{1b}:\n:"), Mapped::default());
    }

    #[test]
    fn what_was_given_back_or_ended_was_not_touched_again() {
        let of = |rss: f64, cold: f64| Mapped { rss, cold };
        let between =
            |before: Mapped, now: Mapped| again_between(&[(1, before)].into(), &[(1, now)].into());
        assert_eq!(between(of(100.0, 60.0), of(100.0, 50.0)), 10.0);
        // New memory is touched for the first time.
        assert_eq!(between(of(100.0, 60.0), of(150.0, 60.0)), 0.0);
        // Half of it is given back, evenly.
        assert_eq!(between(of(100.0, 60.0), of(50.0, 30.0)), 0.0);
        let gone = again_between(&[(1, of(9.0, 9.0))].into(), &[(2, of(5.0, 0.0))].into());
        assert_eq!(gone, 0.0);
    }

    #[test]
    fn a_process_is_seen_touching_half_of_what_it_has_again() {
        // This process: 32 MiB that are touched once, then the first half in turns.
        let mut memory = vec![1u8; 32 << 20];
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("cgroup.procs"),
            format!("{}\n", std::process::id()),
        )
        .unwrap();
        let over = AtomicBool::new(false);
        let log = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch(folder.path(), &over));
            let begin = Instant::now();
            let mut turns = 0;
            while begin.elapsed() < Duration::from_secs(2) || turns < 3 {
                memory[..16 << 20]
                    .iter_mut()
                    .step_by(4096)
                    .for_each(|byte| *byte = byte.wrapping_add(1));
                turns += 1;
            }
            over.store(true, Ordering::SeqCst);
            watching.join().unwrap()
        });
        assert!(
            log.epochs.len() >= 2 && log.cost_s < log.elapsed_s,
            "{log:?}"
        );
        // Other tests of this process have memory of their own.
        let last = log.epochs.iter().flat_map(|epoch| epoch.looks.last());
        let most = last.clone().map(|look| look.touched_bytes).max().unwrap();
        let cold = last.map(|look| look.cold_bytes).min().unwrap();
        assert!(most >= 16 << 20 && cold >= 15 << 20, "{most} {cold}");
        std::hint::black_box(&memory);
    }
}

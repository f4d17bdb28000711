//! `[watch.reclaim]` on a machine made of files, in which writing `memory.reclaim`
//! makes a control group smaller: from which groups, when not, and what is told.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::command::{Finished, Invocation};
use zmeld_linux::host::{Access, Direct};
use zmeld_linux::lru_gen::{self, Generation};
use zmeld_linux::Host;
use zmeld_swap::config::{Config, ReclaimRule};
use zmeld_swap::findings::findings;
use zmeld_swap::observe::{Observation, Reclaimed};
use zmeld_swap::outstanding::Outstanding;
use zmeld_swap::watch::{WatchEvent, Watcher};

const MIB: u64 = 1 << 20;

/// Reclaims as the kernel would, down to what a group's file `in_use` says.
struct Kernel;

impl Access for Kernel {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        Direct.read(path, limit)
    }

    /// Where `slow_read` says so, after so many milliseconds so many bytes of what is told of
    /// generations; each time is noted in `reads`.
    fn read_until(&self, path: &Path, limit: u64, _: Instant) -> io::Result<(Vec<u8>, bool)> {
        let bytes = Direct.read(path, limit)?;
        let Ok(slow) = fs::read_to_string(path.with_file_name("slow_read")) else {
            return Ok((bytes, true));
        };
        let (ms, length) = slow.split_once(' ').unwrap();
        std::thread::sleep(Duration::from_millis(ms.parse().unwrap()));
        let reads = path.with_file_name("reads");
        let before = fs::read_to_string(&reads).unwrap_or_default();
        fs::write(reads, before + "x")?;
        let length = bytes.len().min(length.parse().unwrap());
        Ok((bytes[..length].to_vec(), length == bytes.len()))
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        if path.ends_with("debug/lru_gen") {
            return generations(path, std::str::from_utf8(value).unwrap());
        }
        assert!(path.ends_with("memory.reclaim"), "{}", path.display());
        let number = |name: &str| -> u64 {
            let text = fs::read_to_string(path.with_file_name(name)).unwrap();
            text.trim().parse().unwrap()
        };
        let wanted: u64 = std::str::from_utf8(value).unwrap().parse().unwrap();
        let (now, in_use) = (number("memory.current"), number("in_use"));
        let given = wanted.min(now.saturating_sub(in_use));
        let left = (now - given).to_string();
        fs::write(path.with_file_name("memory.current"), left)?;
        match given == wanted {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(11)),
        }
    }

    fn run(&self, _: &Invocation) -> io::Result<Finished> {
        unreachable!("watch runs no commands")
    }
}

/// Does what is ordered of generations, and notes it in `orders` beside that file.
fn generations(path: &Path, order: &str) -> io::Result<()> {
    let invalid = Err(io::Error::from_raw_os_error(22));
    let mut groups = lru_gen::parse(&fs::read(path)?, |_| true);
    let words: Vec<&str> = order.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let group = groups.iter_mut().find(|group| group.id == number(1));
    let Some(group) = group else { return invalid };
    let folder = path.ancestors().nth(4).unwrap().join("sys/fs/cgroup");
    let folder = folder.join(group.path.strip_prefix("/").unwrap());
    // A group that is as if it were walked by another task, or refuses all.
    if folder.join("walked").exists() {
        return Err(io::Error::from_raw_os_error(17));
    }
    if folder.join("refused").exists() {
        return Err(io::Error::from_raw_os_error(1));
    }
    let node = group
        .nodes
        .iter_mut()
        .find(|it| u64::from(it.node) == number(2));
    let generations = &mut node.unwrap().generations;
    let youngest = generations.last().unwrap().number;
    match words[0] {
        "+" if number(3) != youngest => return invalid,
        "+" => {
            assert_eq!(words[4..], ["1", "1"]);
            if let Ok(ms) = fs::read_to_string(path.with_file_name("slow_walk")) {
                std::thread::sleep(Duration::from_millis(ms.parse().unwrap()));
            }
            generations.push(Generation {
                number: youngest + 1,
                age_ms: 0,
                anonymous_pages: 0,
                file_pages: 0,
            });
            if generations.len() > 4 {
                let oldest = generations.remove(0);
                generations[0].anonymous_pages += oldest.anonymous_pages;
                generations[0].file_pages += oldest.file_pages;
            }
        }
        "-" if number(3) + 2 > youngest => return invalid,
        "-" if folder.join("stuck").exists() => {}
        "-" => {
            let release = path
                .ancestors()
                .nth(4)
                .unwrap()
                .join("proc/sys/kernel/osrelease");
            let release = fs::read_to_string(release).unwrap_or_default();
            let no_files = if release.starts_with("6.16") {
                "max"
            } else {
                "200"
            };
            assert_eq!(words[4], no_files);
            // Of each generation what can be swapped, and then, up to 6.15, its files. What is
            // kept since it was used becomes younger.
            let page = rustix::param::page_size() as u64;
            let of = |name: &str| -> io::Result<u64> {
                Ok(fs::read_to_string(folder.join(name))?.parse().unwrap())
            };
            let kept = of("kept").unwrap_or(0);
            let (mut left, mut to_swap, mut kept_now) = (number(5), 0, 0);
            for old in generations.iter_mut().filter(|it| it.number <= number(3)) {
                let is_kept = kept.min(old.anonymous_pages);
                if left > old.anonymous_pages - is_kept {
                    old.anonymous_pages -= is_kept;
                    kept_now += is_kept;
                }
                let taken = left.min(old.anonymous_pages);
                old.anonymous_pages -= taken;
                (left, to_swap) = (left - taken, to_swap + taken);
                if no_files == "200" {
                    let files = left.min(old.file_pages);
                    old.file_pages -= files;
                    left -= files;
                }
            }
            generations.last_mut().unwrap().anonymous_pages += kept_now;
            let change = |name: &str, by: i64| -> io::Result<()> {
                let bytes = of(name)?.saturating_add_signed(by * page as i64);
                fs::write(folder.join(name), bytes.to_string())
            };
            change("memory.current", -((number(5) - left) as i64))?;
            // Pages of which swap has a copy still need no more of it.
            if !folder.join("has_copies").exists() {
                change("memory.swap.current", to_swap as i64)?;
            }
        }
        other => panic!("{other}"),
    }
    let mut text = String::new();
    for group in &groups {
        text += &format!("memcg {} {}\n", group.id, group.path.display());
        for node in &group.nodes {
            text += &format!(" node {}\n", node.node);
            for it in &node.generations {
                let (anonymous, file) = (it.anonymous_pages, it.file_pages);
                text += &format!(" {} {} {anonymous} {file}\n", it.number, it.age_ms);
            }
        }
    }
    fs::write(path, text)?;
    let orders = path.with_file_name("orders");
    let before = fs::read_to_string(&orders).unwrap_or_default();
    fs::write(orders, format!("{before}{order}\n"))
}

struct Machine {
    dir: tempfile::TempDir,
    host: Host,
    watcher: Watcher,
    begin: Instant,
    said: Vec<String>,
    stop: AtomicBool,
}

impl Machine {
    fn new(rule: &str, dry_run: bool) -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[watch.reclaim]\n{rule}");
        let config = Config::from_text(Path::new("z.toml"), &text).unwrap();
        let host = Host::with(dir.path(), Arc::new(Kernel));
        let machine = Machine {
            watcher: Watcher::new(host.clone(), config.config, dry_run),
            dir,
            host,
            begin: Instant::now(),
            said: Vec::new(),
            stop: AtomicBool::new(false),
        };
        machine.put(
            "proc/self/mountinfo",
            "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
        );
        machine.put("proc/self/cgroup", "0::/system.slice/zmeld-watch.service\n");
        machine.put("proc/uptime", "1000.00 1.00\n");
        machine.put("proc/sys/kernel/random/boot_id", "boot-1\n");
        let memory = "MemTotal: 4000 kB\nMemFree: 1000 kB\n";
        machine.put(
            "proc/meminfo",
            &format!("{memory}SwapTotal: 1000 kB\nSwapFree: 900 kB\n"),
        );
        machine.put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        for group in ["system.slice", "system.slice/zmeld-watch.service"] {
            machine.group(group, 100, 0);
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A group of so many MiB, of which so many are in use.
    fn group(&self, name: &str, mib: u64, in_use_mib: u64) {
        self.file(name, "memory.current", &(mib * MIB).to_string());
        self.file(name, "in_use", &(in_use_mib * MIB).to_string());
        self.file(name, "memory.swap.current", "0");
        self.file(name, "memory.reclaim", "");
        self.cost(name, 0, 0);
    }

    fn file(&self, group: &str, name: &str, text: &str) {
        self.put(&format!("sys/fs/cgroup/{group}/{name}"), text);
    }

    /// What it cost so far: time waited, and pages that came back.
    fn cost(&self, group: &str, stalled_us: u64, refaults: u64) {
        let line = format!("avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}");
        let pressure = format!("some {line}\nfull {line}\n");
        self.file(group, "memory.pressure", &pressure);
        let stat = format!("anon 1\nworkingset_refault_anon {refaults}\n");
        self.file(group, "memory.stat", &stat);
    }

    fn memory(&self, group: &str) -> u64 {
        let path = format!("sys/fs/cgroup/{group}/memory.current");
        let text = fs::read_to_string(self.dir.path().join(path)).unwrap();
        text.parse().unwrap()
    }

    /// What is said at that second.
    fn at(&mut self, second: u64) -> Vec<String> {
        let said = &mut self.said;
        let now = self.begin + Duration::from_secs(second);
        self.watcher.reclaim(now, &self.stop, &mut |event| {
            said.push(match event {
                WatchEvent::Reclaim(group, what) => format!("{group}: {what}"),
                WatchEvent::ReclaimFailed(err) => err.to_string(),
                WatchEvent::Holding(why) => why,
                other => panic!("{other:?}"),
            });
        });
        std::mem::take(said)
    }

    /// What is done at that second since memory is short.
    fn make_room(&mut self, second: u64) -> Vec<String> {
        let now = self.begin + Duration::from_secs(second);
        let mut done = Vec::new();
        self.watcher
            .make_room(now, &self.stop, &mut |event| match event {
                WatchEvent::Reclaim(_, what) => done.push(what),
                other => panic!("{other:?}"),
            });
        let said = self.at(second);
        assert!(said.is_empty(), "{said:?}");
        done
    }

    /// Every 5 s from one second up to another.
    fn between(&mut self, from: u64, to: u64) -> Vec<String> {
        (from..=to).step_by(5).flat_map(|at| self.at(at)).collect()
    }

    fn noted(&self) -> Reclaimed {
        Observation::read(&self.host, 4096).reclaim.unwrap()
    }
}

#[test]
fn where_memory_is_short_cold_groups_give_more_at_once() {
    let mut machine = Machine::new(
        "groups = [\"*.service\"]\nprotect = [\"kept.service\"]\n",
        false,
    );
    for name in [
        "cold.service",
        "busy.service",
        "full.service",
        "kept.service",
    ] {
        machine.group(name, 400, 0);
    }
    machine.group("full.service", 400, 400);
    machine.between(0, 5);
    // Its tasks wait: what is taken from it comes back.
    machine.cost("busy.service", 2_000_000, 0);
    machine.between(10, 10);
    let groups = [
        "cold.service",
        "busy.service",
        "full.service",
        "kept.service",
    ];
    let had = groups.map(|name| machine.memory(name));
    let done = machine.make_room(11);
    let gave: Vec<u64> = groups
        .iter()
        .zip(had)
        .map(|(name, had)| had - machine.memory(name))
        .collect();
    assert_eq!(gave[1..], [0, 0, 0], "{done:?}");
    // A twentieth of what it had when it was looked at, where a step is a hundredth at most.
    assert!((had[0] / 21..had[0] / 19).contains(&gave[0]), "{done:?}");
    assert_eq!(done.len(), 1);
    assert!(
        done[0].starts_with("reclaimed 20.0 MiB of memory that is idle"),
        "{done:?}"
    );
    // Not again before its time, and not at all where it only says what it would do.
    assert!(machine.make_room(12).is_empty());
    let mut dry = Machine::new("groups = [\"cold.service\"]\n", true);
    dry.group("cold.service", 400, 0);
    dry.between(0, 5);
    assert!(dry.make_room(6).is_empty());
    assert_eq!(dry.memory("cold.service"), 400 * MIB);
}

#[test]
fn what_is_idle_is_reclaimed_and_what_is_in_use_is_left() {
    let mut machine = Machine::new("groups = [\"idle.service\"]\n", false);
    machine.group("idle.service", 400, 300);
    let said = machine.between(0, 1800);
    assert_eq!(machine.memory("idle.service"), 300 * MIB, "{said:?}");
    assert_eq!(machine.memory("system.slice"), 100 * MIB);
    // Told once, not at each of hundreds of steps.
    assert_eq!(said.len(), 1, "{said:?}");
    let noted = machine.noted();
    let group = &noted.groups[0];
    assert_eq!(
        (group.group.as_str(), group.first_memory_bytes),
        ("/idle.service", 400 * MIB)
    );
    assert_eq!(group.reclaimed_bytes, 100 * MIB);
    assert_eq!(noted.seconds, 1800);
}

#[test]
fn it_backs_off_at_the_next_look_where_memory_comes_back() {
    let mut machine = Machine::new("groups = [\"busy.service\"]\n", false);
    machine.group("busy.service", 400, 0);
    machine.between(0, 20);
    // 0.2 % of 400 MiB are 204 pages.
    machine.cost("busy.service", 0, 250);
    let said = machine.at(25);
    let back_off = "of its memory came back within a minute, and 0.20 % is allowed";
    assert!(said[0].ends_with(back_off), "{said:?}");
    let left = machine.memory("busy.service");
    assert!(machine.between(30, 80).is_empty());
    assert_eq!(machine.memory("busy.service"), left);
    assert!(machine.noted().groups[0].backing_off.is_some());
    // A minute later it is forgotten, and the rest is over.
    assert_eq!(machine.between(85, 95), ["/busy.service: goes on"]);
    assert!(machine.memory("busy.service") < left);
    assert_eq!(machine.noted().groups[0].backing_off, None);
}

#[test]
fn it_backs_off_where_tasks_wait() {
    let mut machine = Machine::new("groups = [\"busy.service\"]\n", false);
    machine.group("busy.service", 400, 0);
    machine.between(0, 20);
    // Of 5 s.
    machine.cost("busy.service", 6_000, 0);
    let said = machine.at(25);
    let why = "its tasks waited for memory 0.12 % of the time, and 0.10 % is allowed";
    assert!(said[0].ends_with(why), "{said:?}");
}

#[test]
fn what_is_protected_is_left_alone_and_what_stands_beside_it_is_not() {
    let mut machine = Machine::new("protect = [\"/user.slice/sound*\"]\n", false);
    for group in [
        "system.slice/rt.service",
        "system.slice/plain.service",
        "user.slice",
        "user.slice/sound.service",
        "user.slice/other.service",
        "other.slice",
        "other.slice/below.service",
    ] {
        machine.group(group, 400, 0);
    }
    let words = "0 ".repeat(37);
    machine.put("proc/77/task/78/stat", &format!("78 (jackd) S {words}1 0"));
    machine.put("proc/77/cgroup", "0::/system.slice/rt.service\n");
    machine.between(0, 60);
    let noted = machine.noted();
    let mut groups: Vec<&str> = noted.groups.iter().map(|it| it.group.as_str()).collect();
    groups.sort_unstable();
    assert_eq!(
        groups,
        [
            "/other.slice",
            "/system.slice/plain.service",
            "/user.slice/other.service"
        ]
    );
    for (group, why) in [
        ("/system.slice/rt.service", "a thread of it is real-time"),
        ("/system.slice/zmeld-watch.service", "zmeld's own"),
        ("/user.slice/sound.service", "protect says"),
    ] {
        let found = noted.protected.iter().find(|it| it.group == group);
        assert!(found.is_some_and(|it| it.why.contains(why)), "{noted:?}");
        assert_eq!(machine.memory(&group[1..]) % (100 * MIB), 0);
    }
    assert!(machine.memory("other.slice") < 400 * MIB);
    // Through the group above, not by itself.
    assert_eq!(machine.memory("other.slice/below.service"), 400 * MIB);
}

#[test]
fn what_is_below_a_protected_group_is_protected_whatever_names_it() {
    for (groups, protect, is_taken) in [
        ("below.service", "/system.slice", false),
        ("below.service", "system.slice", false),
        ("/system.slice/below.service", "/system*", false),
        ("below.service", "/other.slice", true),
    ] {
        let rule = format!("groups = [\"{groups}\"]\nprotect = [\"{protect}\"]\n");
        let mut machine = Machine::new(&rule, false);
        machine.group("system.slice", 800, 0);
        machine.group("system.slice/below.service", 400, 0);
        machine.between(0, 60);
        let has = machine.memory("system.slice/below.service");
        assert_eq!(has < 400 * MIB, is_taken, "{rule}");
    }
}

#[test]
fn nothing_is_reclaimed_while_swap_is_full_or_processors_are_busy_or_it_is_dry() {
    let rule = "groups = [\"idle.service\"]\n";
    for (path, text, why) in [
        (
            "proc/meminfo",
            "SwapTotal: 1000 kB\nSwapFree: 90 kB\n",
            "swap is 91",
        ),
        (
            "proc/pressure/cpu",
            "some avg10=30.00 avg60=0.00 avg300=0.00 total=0\n",
            "waited for a processor",
        ),
    ] {
        let mut machine = Machine::new(rule, false);
        machine.group("idle.service", 400, 0);
        machine.put(path, text);
        let said = machine.between(0, 60);
        assert_eq!(machine.memory("idle.service"), 400 * MIB);
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
        assert!(machine.noted().holding.is_some());
    }
    let mut machine = Machine::new(rule, true);
    machine.group("idle.service", 400, 0);
    // Which groups at once, and what of them from the second look on.
    let of_it = "/idle.service: would be reclaimed from by memory.reclaim, of 400 MiB (";
    let said = machine.at(0);
    assert!(said.len() == 1 && said[0].starts_with(of_it), "{said:?}");
    let said = machine.between(5, 10);
    assert_eq!(machine.memory("idle.service"), 400 * MIB);
    assert!(
        said[0].starts_with("/idle.service: would reclaim"),
        "{said:?}"
    );
    assert_eq!(Observation::read(&machine.host, 4096).reclaim, None);
}

#[test]
fn at_the_edge_of_full_swap_it_does_not_go_to_and_fro() {
    let mut machine = Machine::new("groups = [\"idle.service\"]\n", false);
    machine.group("idle.service", 400, 0);
    let swap = |machine: &Machine, free: u32| {
        let text = format!("SwapTotal: 1000 kB\nSwapFree: {free} kB\n");
        machine.put("proc/meminfo", &text);
    };
    machine.between(0, 20);
    swap(&machine, 99);
    let mut said = machine.between(25, 30);
    let left = machine.memory("idle.service");
    // Full by turns, as what was reclaimed is used again.
    for second in (35..=200).step_by(10) {
        swap(&machine, 110);
        said.extend(machine.at(second));
        swap(&machine, 90);
        said.extend(machine.at(second + 5));
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(machine.memory("idle.service"), left);
    swap(&machine, 151);
    machine.between(210, 220);
    assert!(machine.memory("idle.service") < left);
}

#[test]
fn a_machine_that_cannot_says_so_once() {
    let mut machine = Machine::new("groups = [\"nobody.service\"]\n", false);
    let said = machine.between(0, 600);
    assert!(
        said.len() == 2 && said[1].contains("no control group is of that name"),
        "{said:?}"
    );
    let mut machine = Machine::new("", false);
    machine.put("proc/self/mountinfo", "");
    let said = machine.between(0, 600);
    assert!(said.len() == 1 && said[0].contains("version 2"), "{said:?}");
    let mut machine = Machine::new("groups = [\"old.service\"]\n", false);
    machine.group("old.service", 400, 0);
    let file = "sys/fs/cgroup/old.service/memory.reclaim";
    fs::remove_file(machine.dir.path().join(file)).unwrap();
    let said = machine.between(0, 600);
    assert!(
        said.len() == 1 && said[0].contains("Linux 5.19"),
        "{said:?}"
    );
}

#[test]
fn damon_beside_the_rule_is_found() {
    let machine = Machine::new("", false);
    let ruled = Config::from_text(Path::new("z.toml"), "[watch.reclaim]\n").unwrap();
    let found = |config: &Config| -> Vec<String> {
        let seen = Observation::read(&machine.host, 4096);
        let all = findings(&seen, &Outstanding::of(config));
        let both = all.into_iter().filter(|it| it.id == "two-reclaimers");
        both.map(|it| it.subject).collect()
    };
    let module = "sys/module/damon_reclaim/parameters/enabled";
    let threads = "sys/kernel/mm/damon/admin/kdamonds";
    machine.put(module, "N\n");
    for (thread, state, action) in [
        (0, "on", "stat"),
        (1, "off", "pageout"),
        (2, "on", "pageout"),
    ] {
        machine.put(&format!("{threads}/{thread}/state"), &format!("{state}\n"));
        let scheme = format!("{threads}/{thread}/contexts/0/schemes/0/action");
        machine.put(&scheme, &format!("{action}\n"));
    }
    assert_eq!(found(&ruled.config), ["kdamond 2"]);
    machine.put(module, "Y\n");
    assert_eq!(found(&ruled.config), ["damon_reclaim", "kdamond 2"]);
    assert!(found(&Config::default()).is_empty());
    let accepted = "accept = [\"two-reclaimers\"]\n[watch.reclaim]\n";
    let accepted = Config::from_text(Path::new("z.toml"), accepted).unwrap();
    assert!(found(&accepted.config).is_empty());
}

#[test]
fn groups_nested_deeper_than_anybody_does_hide_no_protected_one_and_stop_nobody() {
    let mut machine = Machine::new("protect = [\"kept\"]\n", false);
    machine.group("user", 400, 0);
    machine.group("idle.service", 400, 0);
    let deep = format!("user{}", "/a".repeat(70));
    machine.put(&format!("sys/fs/cgroup/{deep}/cgroup.procs"), "");
    machine.between(0, 30);
    assert_eq!(machine.memory("user"), 400 * MIB);
    assert!(machine.memory("idle.service") < 400 * MIB);
    let noted = machine.noted();
    let cut_off = noted
        .protected
        .iter()
        .filter(|it| it.why.contains("more below"));
    assert_eq!(cut_off.count(), 1, "{noted:?}");
}

#[test]
fn what_a_group_is_promised_is_left_to_it() {
    for file in ["memory.min", "memory.low"] {
        let mut machine = Machine::new("groups = [\"*.service\"]\n", false);
        for group in ["db.service", "whole.service"] {
            machine.group(group, 400, 0);
        }
        machine.file("db.service", file, &(300 * MIB).to_string());
        machine.file("whole.service", file, "max");
        machine.between(0, 3600);
        let left = machine.memory("db.service");
        assert!((300 * MIB..320 * MIB).contains(&left), "{left}");
        assert_eq!(machine.memory("whole.service"), 400 * MIB);
    }
}

#[test]
fn a_stop_is_heard_before_the_next_group() {
    let mut machine = Machine::new("groups = [\"idle.service\"]\n", false);
    machine.group("idle.service", 400, 0);
    machine.between(0, 5);
    let left = machine.memory("idle.service");
    machine.stop.store(true, Ordering::Relaxed);
    machine.between(10, 60);
    assert_eq!(machine.memory("idle.service"), left);
}

#[test]
fn many_groups_that_cannot_be_read_fill_no_log() {
    let mut machine = Machine::new("groups = [\"*.service\"]\n", false);
    for number in 0..40 {
        let group = format!("bad{number}.service");
        machine.group(&group, 400, 0);
        let file = format!("sys/fs/cgroup/{group}/memory.current");
        fs::remove_file(machine.dir.path().join(&file)).unwrap();
        fs::create_dir(machine.dir.path().join(&file)).unwrap();
    }
    let said = machine.between(0, 55);
    assert!((1..=5).contains(&said.len()), "{said:?}");
}

/// What cannot be read as a file.
fn make_unreadable(machine: &Machine, file: &str) {
    let path = machine.dir.path().join(file);
    fs::rename(&path, path.with_extension("was")).unwrap();
    fs::create_dir(&path).unwrap();
}

fn make_readable(machine: &Machine, file: &str) {
    let path = machine.dir.path().join(file);
    fs::remove_dir(&path).unwrap();
    fs::rename(path.with_extension("was"), &path).unwrap();
}

#[test]
fn an_error_about_who_is_protected_takes_nobodys_account() {
    let mut machine = Machine::new("groups = [\"app.service\"]\n", false);
    machine.group("app.service", 400, 0);
    machine.between(0, 175);
    let before = machine.noted().groups[0].clone();
    make_unreadable(&machine, "proc/self/cgroup");
    let said = machine.between(180, 190);
    assert_eq!(said.len(), 1, "{said:?}");
    let left = machine.memory("app.service");
    assert!(machine.between(195, 290).is_empty());
    assert_eq!(machine.memory("app.service"), left);
    assert!(machine.noted().holding.is_some());
    make_readable(&machine, "proc/self/cgroup");
    machine.between(295, 700);
    let after = machine.noted().groups[0].clone();
    assert_eq!(before.first_memory_bytes, after.first_memory_bytes);
    assert!(after.reclaimed_bytes > before.reclaimed_bytes);
    assert_eq!(machine.noted().holding, None);
}

#[test]
fn a_group_whose_counters_cannot_be_read_for_a_while_keeps_its_account() {
    let mut machine = Machine::new("groups = [\"idle.service\"]\n", false);
    machine.group("idle.service", 400, 0);
    machine.between(0, 100);
    let before = machine.noted().groups[0].clone();
    let file = "sys/fs/cgroup/idle.service/memory.current";
    make_unreadable(&machine, file);
    let said = machine.between(105, 200);
    assert!(said.len() <= 3, "{said:?}");
    make_readable(&machine, file);
    machine.between(205, 215);
    let after = machine.noted().groups[0].clone();
    assert_eq!(after.first_memory_bytes, before.first_memory_bytes);
    assert!(after.reclaimed_bytes > before.reclaimed_bytes);
    assert_eq!(after.step, before.step);
}

#[test]
fn a_group_made_anew_under_its_name_is_another() {
    let mut machine = Machine::new("groups = [\"idle.service\"]\n", false);
    machine.group("idle.service", 400, 0);
    machine.cost("idle.service", 0, 1000);
    machine.between(0, 300);
    machine.group("idle.service", 200, 0);
    machine.between(305, 310);
    let group = &machine.noted().groups[0];
    assert_eq!(
        (group.first_memory_bytes, group.step),
        (200 * MIB, ReclaimRule::default().step.fraction())
    );
}

#[test]
fn a_name_that_no_group_has_is_told_once() {
    let rule = "groups = [\"idle.service\"]\nprotect = [\"postgres.service\"]\n";
    let mut machine = Machine::new(rule, false);
    machine.group("idle.service", 400, 0);
    let said = machine.between(0, 300);
    let of_it: Vec<_> = said
        .iter()
        .filter(|line| line.starts_with("postgres.service: no control group"))
        .collect();
    assert_eq!(of_it.len(), 1, "{said:?}");
    assert_eq!(machine.noted().unmatched, ["postgres.service"]);
    let text = format!("[watch.reclaim]\n{rule}");
    let config = Config::from_text(Path::new("z.toml"), &text).unwrap();
    let of_machine = zmeld_swap::machine::Machine::read(&machine.host).unwrap();
    let told = zmeld_swap::plan::against(&machine.host, &of_machine, &config.config, None);
    let told = format!("{told:?}");
    assert!(told.contains("postgres.service here now"), "{told}");
    // Once there is one, it is protected.
    machine.group("postgres.service", 400, 0);
    machine.between(305, 400);
    assert!(machine.noted().unmatched.is_empty());
}

#[test]
fn a_group_that_ends_is_forgotten() {
    let mut machine = Machine::new("groups = [\"idle.service\"]\n", false);
    machine.group("idle.service", 400, 0);
    machine.between(0, 20);
    fs::remove_dir_all(machine.dir.path().join("sys/fs/cgroup/idle.service")).unwrap();
    assert!(machine.between(25, 55).is_empty());
    assert!(machine.noted().groups.is_empty());
}

#[test]
fn an_old_note_is_of_a_watch_that_runs_no_more() {
    let mut machine = Machine::new("groups = [\"idle.service\"]\n", false);
    machine.group("idle.service", 400, 0);
    machine.between(0, 20);
    assert_eq!(machine.noted().every_seconds, 5);
    machine.put("proc/uptime", "1071.00 1.00\n");
    assert_eq!(Observation::read(&machine.host, 4096).reclaim, None);
    machine.put("proc/uptime", "1000.00 1.00\n");
    machine.put("proc/sys/kernel/random/boot_id", "boot-2\n");
    assert_eq!(Observation::read(&machine.host, 4096).reclaim, None);
}

#[test]
fn the_limits_are_those_of_the_published_systems() {
    let rule = ReclaimRule::default();
    assert_eq!(
        (rule.pressure_max.fraction(), rule.comeback_max.fraction()),
        (0.001, 0.002)
    );
}

/// A machine whose kernel tells that of generations, and groups of 400 MiB each.
fn with_generations(rule: &str, told: &str) -> Machine {
    let machine = Machine::new(rule, false);
    machine.put("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
    machine.put("sys/kernel/debug/lru_gen", told);
    for line in told.lines().filter(|line| line.starts_with("memcg")) {
        let path = line.split(' ').nth(2).unwrap().trim_start_matches('/');
        machine.group(path, 400, 0);
        machine.file(path, "memory.min", "0");
        machine.file(path, "memory.low", "0");
    }
    machine
}

fn orders(machine: &Machine) -> Vec<String> {
    let path = machine.dir.path().join("sys/kernel/debug/orders");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The generations of the group with that number, pages of each.
fn generations_of(machine: &Machine, id: u64) -> Vec<u64> {
    let text = fs::read(machine.dir.path().join("sys/kernel/debug/lru_gen")).unwrap();
    let groups = lru_gen::parse(&text, |_| true);
    let group = groups.iter().find(|group| group.id == id).unwrap();
    let generations = group.nodes[0].generations.iter();
    generations.map(|it| it.anonymous_pages).collect()
}

const TOLD: &str = "\
memcg 7 /web.service
 node 0
 10 500000 30 0
 11 90000 4000 0
 12 70000 900 0
 13 1000 800 0
memcg 8 /web.service/below
 node 0
 3 900000 40 0
 4 800000 1 1
 5 1000 1 1
memcg 9 /web.service-other
 node 0
 3 900000 4000 40
 4 800000 1 1
 5 1000 1 1
";

#[test]
fn what_generations_say_is_idle_goes_the_oldest_first() {
    for release in ["6.12.1", "6.16.0"] {
        let rule = "groups = [\"web.service\"]\nstep = \"1%\"\n";
        let mut machine = with_generations(rule, TOLD);
        machine.put("proc/sys/kernel/osrelease", release);
        let said = machine.between(0, 10);
        assert!(
            said.len() == 1 && said[0].contains("by lru_gen, 1.0 % of it"),
            "{said:?}"
        );
        // 1 % of 400 MiB is 1024 pages, and then a little less, since there is less.
        let mut all = orders(&machine);
        let no_files = if release == "6.12.1" { "200" } else { "max" };
        let mut expected = vec![("8 0 3", 40), ("7 0 10", 30)];
        // Before 6.16 a little at a time: 954 pages are 14 times 64, and 58.
        match release {
            "6.12.1" => {
                expected.extend([("7 0 11", 64); 14]);
                expected.push(("7 0 11", 58));
            }
            _ => expected.push(("7 0 11", 954)),
        }
        let first: Vec<String> = all.drain(..expected.len()).collect();
        let expected = expected
            .into_iter()
            .map(|(which, pages)| format!("- {which} {no_files} {pages}"));
        assert_eq!(first, expected.collect::<Vec<_>>());
        assert!(
            all.iter().all(|order| order.starts_with("- 7 0 11 ")),
            "{all:?}"
        );
        let group = machine.noted().groups.remove(0);
        assert_eq!(group.mechanism, "lru_gen");
        assert!(group.reclaimed_bytes > 1024 * 4096);
        // What is left of that generation goes, and nothing that was used since.
        machine.between(15, 600);
        let (own, other) = (generations_of(&machine, 7), generations_of(&machine, 9));
        assert_eq!((own[1], own[2], other[0]), (0, 900, 4000));
    }
}

#[test]
fn what_became_one_generation_when_another_began_is_taken_in_the_same_round() {
    let told = "\
memcg 7 /web.service
 node 0
 10 900000 4000 0
 11 800000 900 0
 12 700000 0 0
 13 600000 80000 0
";
    let rule = "groups = [\"web.service\"]\nstep = \"1%\"\n";
    let mut machine = with_generations(rule, told);
    machine.put("proc/sys/kernel/osrelease", "6.16.0");
    machine.between(0, 10);
    let all = orders(&machine);
    assert_eq!(all[..2], ["+ 7 0 13 1 1", "- 7 0 11 max 1024"]);
    let group = machine.noted().groups.remove(0);
    assert!(group.reclaimed_bytes > 1024 * 4096);
    assert_eq!(group.backing_off, None);
}

/// Pages of files in the oldest generation of the group with that number.
fn files_of(machine: &Machine, id: u64) -> u64 {
    let text = fs::read(machine.dir.path().join("sys/kernel/debug/lru_gen")).unwrap();
    let groups = lru_gen::parse(&text, |_| true);
    let group = groups.iter().find(|group| group.id == id).unwrap();
    group.nodes[0].generations[0].file_pages
}

#[test]
fn up_to_linux_6_15_no_files_go_but_what_one_order_may_take() {
    // Nothing of what seems to be idle is: it was used since.
    let told = |anonymous: u64| {
        format!(
            "memcg 7 /web.service\n node 0\n 10 500000 {anonymous} 90000\n 11 400000 900 0\n \
             12 70000 0 0\n 13 1000 0 0\n"
        )
    };
    for (release, kept, may_go) in [
        ("6.12.1", 4000, 64),
        ("6.12.1", 3000, 64),
        ("6.16.0", 4000, 0),
    ] {
        let rule = "groups = [\"web.service\"]\nstep = \"1%\"\n";
        let mut machine = with_generations(rule, &told(4000));
        machine.put("proc/sys/kernel/osrelease", release);
        machine.file("web.service", "kept", &kept.to_string());
        machine.between(0, 120);
        let gone = 90_000 - files_of(&machine, 7);
        assert!(gone <= may_go, "{gone} pages of files on {release}");
        assert_eq!(generations_of(&machine, 7)[0], 0, "{release}");
    }
    // Where an older generation has files and nothing else, these would be taken first.
    for (release, are_reached) in [("6.12.1", false), ("6.16.0", true)] {
        let mut machine = with_generations("groups = [\"web.service\"]\n", &told(0));
        machine.put("proc/sys/kernel/osrelease", release);
        machine.between(0, 120);
        assert_eq!(!orders(&machine).is_empty(), are_reached, "{release}");
        assert_eq!(files_of(&machine, 7), 90_000);
    }
}

/// A group of which much is idle in one generation.
const MUCH_IDLE: &str = "\
memcg 7 /web.service
 node 0
 10 500000 90000 0
 11 400000 900 0
 12 9000 0 0
 13 1000 0 0
";

#[test]
fn a_step_is_spent_by_what_was_asked_for_and_only_rounds_in_vain_in_a_row_are_rested_from() {
    let rule = "groups = [\"web.service\"]\nstep = \"1%\"\n";
    for release in ["6.12.1", "6.16.0"] {
        let asked = |machine: &Machine| -> u64 {
            let pages = |order: &String| -> u64 {
                assert!(order.starts_with("- "), "{order}");
                order.split(' ').next_back().unwrap().parse().unwrap()
            };
            orders(machine).iter().map(pages).sum()
        };
        // The kernel does what it is told, and nothing is seen of it.
        let mut machine = with_generations(rule, MUCH_IDLE);
        machine.put("proc/sys/kernel/osrelease", release);
        machine.file("web.service", "stuck", "");
        machine.at(0);
        let mut before = 0;
        for round in 1..=3 {
            machine.at(round * 10);
            let after = asked(&machine);
            assert!(
                (1..=1024).contains(&(after - before)),
                "{} in round {round}",
                after - before
            );
            before = after;
        }
        assert_eq!(machine.noted().groups[0].reclaimed_bytes, 0);
        machine.at(40);
        assert_eq!(asked(&machine), before, "it rests after three on {release}");
        let resting = machine.noted().groups[0].backing_off.clone();
        assert!(resting.unwrap().contains("no more that is idle"));
        // Of what swap has a copy still is the group smaller, and no more is in swap.
        let mut machine = with_generations(rule, MUCH_IDLE);
        machine.put("proc/sys/kernel/osrelease", release);
        machine.file("web.service", "has_copies", "");
        machine.between(0, 50);
        let before = asked(&machine);
        machine.between(55, 100);
        assert!(asked(&machine) > before);
        let group = machine.noted().groups.remove(0);
        assert_eq!((group.reclaimed_bytes, group.backing_off), (0, None));
    }
}

#[test]
fn what_is_reclaimed_is_what_went_to_swap() {
    for release in ["6.12.1", "6.16.0"] {
        let rule = "groups = [\"web.service\"]\nstep = \"1%\"\n";
        let mut machine = with_generations(rule, MUCH_IDLE);
        machine.put("proc/sys/kernel/osrelease", release);
        machine.between(0, 100);
        let group = machine.noted().groups.remove(0);
        // The note has the counters from before its round.
        assert!(group.swap_bytes > 16 * MIB);
        let gone = 400 * MIB - machine.memory("web.service");
        assert_eq!(group.reclaimed_bytes, gone);
        let path = "sys/fs/cgroup/web.service/memory.swap.current";
        let swapped = fs::read_to_string(machine.dir.path().join(path)).unwrap();
        assert_eq!(swapped, gone.to_string());
    }
}

/// So many pages came back, by that counter.
fn came_back(machine: &Machine, counter: &str, pages: u64) {
    let stat = format!("anon 1\n{counter} {pages}\n");
    machine.file("web.service", "memory.stat", &stat);
}

#[test]
fn where_too_much_comes_back_memory_must_be_idle_for_longer() {
    let told = "\
memcg 7 /web.service
 node 0
 10 900000 4000 0
 11 200000 9000 0
 12 90000 900 0
 13 100 800 0
";
    let rule = "groups = [\"web.service\"]\nstep = \"0.1%\"\n";
    let mut machine = with_generations(rule, told);
    machine.between(0, 60);
    assert!(orders(&machine)
        .iter()
        .all(|order| order.starts_with("- 7 0 10 ")));
    machine.put("sys/kernel/debug/lru_gen", &told.replace("4000", "0"));
    machine.between(65, 100);
    assert!(orders(&machine)
        .iter()
        .any(|order| order.starts_with("- 7 0 11 ")));
    machine.cost("web.service", 0, 5000);
    let said = machine.between(105, 105);
    assert!(
        said[0].ends_with("; now only what is idle for 2min goes"),
        "{said:?}"
    );
    let longer = machine.noted().groups[0].idle_after_s;
    let before = orders(&machine).len();
    // It goes on, and finds nothing that was idle for so long.
    let said = machine.between(110, 400).join("\n");
    assert!(said.contains("goes on"), "{said}");
    assert_eq!(orders(&machine).len(), before);
    assert_eq!(
        (longer, machine.noted().groups[0].idle_after_s),
        (None, Some(120))
    );
    // What was idle for a little longer goes.
    machine.put(
        "sys/kernel/debug/lru_gen",
        &told.replace(" 90000 ", " 130000 "),
    );
    machine.between(405, 405);
    assert!(orders(&machine).len() > before);
}

#[test]
fn how_long_memory_must_be_idle_has_a_bound_and_goes_back_where_nothing_comes_back() {
    let told = "memcg 7 /web.service\n node 0\n 10 9900000 4000 0\n 11 9800000 9000 0\n \
                12 9000 0 0\n 13 100 0 0\n";
    let rule = "groups = [\"web.service\"]\nstep = \"0.1%\"\n";
    let mut machine = with_generations(rule, told);
    machine.put("proc/sys/kernel/osrelease", "6.16.0");
    let mut pages = 0;
    let mut said = Vec::new();
    // Each 20 min something is taken, and too much is back: up to 16 times the rule's.
    for begin in (0..7).map(|turn| turn * 1200) {
        machine.put("sys/kernel/debug/lru_gen", told);
        machine.between(begin, begin + 20);
        pages += 5000;
        came_back(&machine, "workingset_refault_anon", pages);
        said.extend(machine.between(begin + 25, begin + 180));
    }
    let longer = |said: &[String]| -> Vec<String> {
        let mut all = Vec::new();
        for line in said {
            all.extend(
                line.split_once("what is idle for ")
                    .map(|it| it.1.to_owned()),
            );
        }
        all
    };
    let expected = ["2min goes", "4min goes", "8min goes", "16min goes"];
    assert_eq!(longer(&said), expected, "{said:?}");
    let backed_off = said.iter().filter(|line| line.contains("backs off"));
    assert_eq!(backed_off.count(), 7);
    // 16 times 16, 8, 4 and 2 minutes later it is the rule's: what is idle for 61 s goes.
    let idle = told
        .replace(" 9000 0 0", " 61000 0 0")
        .replace("9800000", "61000");
    let begin = 7 * 1200;
    for (from, minutes, goes) in [(0, 450, false), (452, 490, true)] {
        for minute in (from..minutes).step_by(2) {
            machine.put("sys/kernel/debug/lru_gen", &told.replace("9800000", "100"));
            machine.at(begin + minute * 60);
        }
        let before = orders(&machine).len();
        machine.put("sys/kernel/debug/lru_gen", &idle);
        machine.between(begin + minutes * 60, begin + minutes * 60 + 5);
        assert_eq!(orders(&machine).len() > before, goes, "{minutes} min");
    }
}

#[test]
fn memory_must_be_idle_for_longer_only_where_that_may_be_why_it_came_back() {
    let told = "memcg 7 /web.service\n node 0\n 10 900000 4000 0\n 11 800000 9000 0\n \
                12 9000 0 0\n 13 100 0 0\n";
    let rule = "groups = [\"web.service\"]\nstep = \"0.1%\"\n";
    let is_longer = |said: &[String]| said.iter().any(|line| line.contains("now only"));
    let is_back_off = |said: &[String]| said.iter().any(|line| line.contains("backs off"));
    // Nothing was taken from it.
    let nothing = told.replace("4000", "0").replace("9000 0\n", "0 0\n");
    let mut machine = with_generations(rule, &nothing);
    machine.between(0, 60);
    came_back(&machine, "workingset_refault_anon", 5000);
    let said = machine.between(65, 65);
    assert!(is_back_off(&said) && !is_longer(&said), "{said:?}");
    // Something was, but only files came back, which it does not take.
    let mut machine = with_generations(rule, told);
    machine.between(0, 60);
    came_back(&machine, "workingset_refault_file", 5000);
    let said = machine.between(65, 65);
    assert!(!is_back_off(&said), "{said:?}");
    assert_eq!(machine.noted().groups[0].came_back_bytes, 0);
    // It came back on another node, which the kernel does not call a refault.
    for counter in ["pswpin", "zswpin", "swpin_zero"] {
        let mut machine = with_generations(rule, told);
        machine.between(0, 60);
        came_back(&machine, counter, 5000);
        let said = machine.between(65, 75);
        assert!(is_back_off(&said) && is_longer(&said), "{said:?}");
        assert_eq!(machine.noted().groups[0].came_back_bytes, 5000 * 4096);
    }
    // Again, at once when its rest is over, and something was taken again: not long enough since.
    let mut machine = with_generations("groups = [\"web.service\"]\nidle_after = \"5min\"\n", told);
    machine.between(0, 60);
    came_back(&machine, "workingset_refault_anon", 5000);
    assert!(is_longer(&machine.between(65, 65)));
    machine.between(70, 200);
    came_back(&machine, "workingset_refault_anon", 15000);
    let said = machine.between(205, 205);
    assert!(is_back_off(&said) && !is_longer(&said), "{said:?}");
}

#[test]
fn a_dry_run_gives_the_kernel_no_order_and_says_what_is_idle() {
    let dry = |told: &str| {
        let mut machine = Machine::new("groups = [\"web.service\"]\nstep = \"1%\"\n", true);
        machine.put("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
        machine.put("sys/kernel/debug/lru_gen", told);
        machine.group("web.service", 400, 0);
        let said = machine.between(0, 100);
        assert_eq!(orders(&machine), [""; 0]);
        said
    };
    // 4030 pages of it; what is below it has no memory.low that could be read.
    let said = dry(TOLD);
    let idle = "web.service: would reclaim 4.00 MiB of 15.7 MiB that was not used for 1min";
    assert!(said.iter().any(|line| line.contains(idle)), "{said:?}");
    let said = dry(&TOLD
        .replace("90000 4000", "90000 0")
        .replace("500000 30 ", "500000 3 "));
    let idle = "would reclaim 12.0 KiB of 12.0 KiB";
    assert!(said.iter().any(|line| line.contains(idle)), "{said:?}");
    let said = dry("memcg 7 /web.service\n node 0\n 1 900 4000 0\n 2 800 90000 0\n");
    let nothing: Vec<_> = said
        .iter()
        .filter(|it| it.contains("would reclaim"))
        .collect();
    assert_eq!(nothing.len(), 1, "{said:?}");
    assert!(nothing[0].contains("would reclaim nothing yet"), "{said:?}");
}

/// All generations become older.
fn pass(machine: &Machine, ms: u64) {
    let path = machine.dir.path().join("sys/kernel/debug/lru_gen");
    let mut text = String::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        text += &match words[..] {
            [number, age, anonymous, file] if number != "memcg" => {
                let age: u64 = age.parse().unwrap();
                format!(" {number} {} {anonymous} {file}\n", age + ms)
            }
            _ => format!("{line}\n"),
        };
    }
    fs::write(path, text).unwrap();
}

#[test]
fn where_walks_take_long_nobody_waits_for_one_for_ever() {
    let told = "\
memcg 7 /a.service
 node 0
 1 40000 90000 0
memcg 8 /a.service/below
 node 0
 1 40000 90000 0
memcg 9 /b.service
 node 0
 1 40000 90000 0
";
    let rule = "groups = [\"a.service\", \"b.service\"]\n";
    let mut machine = with_generations(rule, told);
    // A walk is followed by 30 s without at least, and generations begin every 30 s.
    machine.put("sys/kernel/debug/slow_walk", "300");
    let mut walked = Vec::new();
    for second in (0..).step_by(5).take(2000) {
        machine.at(second);
        pass(&machine, 5000);
        let all = orders(&machine);
        let walks = all.iter().filter(|order| order.starts_with('+'));
        walked = walks.map(|order| order[2..3].to_owned()).collect();
        if walked.len() >= 6 {
            break;
        }
    }
    for three in walked.chunks(3) {
        let mut three = three.to_vec();
        three.sort_unstable();
        assert_eq!(three, ["7", "8", "9"], "{walked:?}");
    }
}

#[test]
fn what_takes_long_to_be_told_is_read_seldom_and_who_is_not_told_of_is_named() {
    let group = |id: u32, name: &str| {
        format!(
            "memcg {id} /{name}\n node 0\n 1 900000 90000 0\n 2 800000 0 0\n 3 1000 0 0\n 4 10 0 0\n"
        )
    };
    let told = group(7, "a.service") + &group(8, "b.service");
    let rule = "groups = [\"a.service\", \"b.service\"]\n";
    let mut machine = with_generations(rule, &told);
    // All but the end of what is told of the second one.
    machine.put(
        "sys/kernel/debug/slow_read",
        &format!("100 {}", told.len() - 20),
    );
    let said = machine.between(0, 60).join("\n");
    assert_eq!(
        said.matches("lru_gen: the kernel takes too long").count(),
        1,
        "{said}"
    );
    let all = orders(&machine);
    let is_first = |order: &String| order.starts_with("- 7 ");
    assert!(!all.is_empty() && all.iter().all(is_first), "{all:?}");
    let path = machine.dir.path().join("sys/kernel/debug/reads");
    let reads = fs::read_to_string(path).unwrap().len();
    assert!(reads <= 7, "{reads} times in 60 s, for 100 ms each");
    let why = |machine: &Machine| {
        let groups = machine.noted().groups.into_iter();
        let second = groups.filter(|it| it.group == "/b.service");
        second.map(|it| it.backing_off).next().unwrap()
    };
    assert!(why(&machine).unwrap().contains("takes too long"));
    // All of it is told again.
    fs::remove_file(machine.dir.path().join("sys/kernel/debug/slow_read")).unwrap();
    machine.between(65, 120);
    assert_eq!(why(&machine), None);
    assert!(orders(&machine)
        .iter()
        .any(|order| order.starts_with("- 8 ")));
}

#[test]
fn where_nothing_can_be_swapped_the_kernel_chooses_and_no_page_tables_are_walked() {
    let told = "memcg 7 /web.service\n node 0\n 1 900000 4000 0\n 2 800000 90000 0\n";
    let no_swap = |machine: &Machine| {
        let text = "MemTotal: 4000 kB\nMemFree: 1000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n";
        machine.put("proc/meminfo", text);
    };
    let no_swap_here = |machine: &Machine| machine.file("web.service", "memory.swap.max", "0");
    type SetUp<'a> = &'a dyn Fn(&Machine);
    let cases: [(SetUp, &str); 2] = [
        (&no_swap, "no swap is on"),
        (&no_swap_here, "memory.swap.max lets nothing"),
    ];
    for (set_up, why) in cases {
        let mut machine = with_generations("groups = [\"web.service\"]\n", told);
        set_up(&machine);
        let said = machine.between(0, 60).join("\n");
        assert!(
            said.contains("by memory.reclaim") && said.contains(why),
            "{said}"
        );
        assert!(machine.noted().groups[0].reclaimed_bytes > 0);
        assert_eq!(orders(&machine), [""; 0]);
        // Where it is named nothing is done, and that is said.
        let rule = "groups = [\"web.service\"]\nmechanism = \"lru_gen\"\n";
        let mut machine = with_generations(rule, told);
        set_up(&machine);
        let said = machine.between(0, 60);
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
        assert_eq!(orders(&machine), [""; 0]);
    }
}

#[test]
fn groups_of_which_nothing_may_be_taken_are_not_walked() {
    let told = "\
memcg 7 /web.service
 node 0
 1 900000 90000 0
memcg 8 /web.service/kept
 node 0
 1 950000 90000 0
memcg 9 /web.service/unswapped
 node 0
 1 960000 90000 0
";
    let mut machine = with_generations("groups = [\"web.service\"]\n", told);
    machine.file("web.service/kept", "memory.min", "1048576");
    machine.file("web.service/unswapped", "memory.swap.max", "0");
    machine.between(0, 30);
    assert_eq!(orders(&machine), ["+ 7 0 1 1 1"]);
}

#[test]
fn what_groups_above_keep_is_left_to_them() {
    let told = "memcg 7 /app.slice/web.service\n node 0\n 10 500000 90000 0\n 11 400000 900 0\n \
                12 9000 0 0\n 13 1000 0 0\n";
    for mechanism in ["lru_gen", "memory.reclaim"] {
        let rule =
            format!("groups = [\"web.service\"]\nstep = \"1%\"\nmechanism = \"{mechanism}\"\n");
        let mut machine = with_generations(&rule, told);
        machine.put("proc/sys/kernel/osrelease", "6.16.0");
        let group = "app.slice/web.service";
        machine.group("app.slice", 400, 0);
        machine.file("app.slice", "memory.min", "0");
        for kept in ["max".to_owned(), (400 * MIB).to_string()] {
            machine.file("app.slice", "memory.low", &kept);
            machine.between(0, 20);
            assert_eq!(machine.memory(group), 400 * MIB, "{mechanism}");
            let why = machine.noted().groups[0].backing_off.clone();
            assert!(why.unwrap().contains("a group above has no more"));
        }
        // It has 1 MiB more, which goes, and no step of 4 MiB.
        machine.file("app.slice", "memory.low", &(399 * MIB).to_string());
        machine.at(25);
        assert_eq!(machine.memory(group), 399 * MIB, "{mechanism}");
        machine.file("app.slice", "memory.low", "0");
        machine.at(30);
        assert!(machine.memory(group) < 396 * MIB, "{mechanism}");
    }
}

#[test]
fn where_memory_is_short_idle_generations_go_at_once() {
    let mut machine = with_generations("groups = [\"web.service\"]\n", TOLD);
    machine.between(0, 5);
    let before = generations_of(&machine, 7);
    let done = machine.make_room(7);
    assert!(
        done.iter().any(|line| line.contains("reclaimed")),
        "{done:?}"
    );
    let after = generations_of(&machine, 7);
    assert!(after[1] < before[1] && after[2] == 900, "{after:?}");
}

#[test]
fn what_may_not_be_swapped_is_not_asked_for() {
    let mut machine = with_generations("groups = [\"web.service\"]\n", TOLD);
    machine.file("web.service/below", "memory.swap.max", "0");
    machine.file("web.service/below", "memory.swap.current", "0");
    machine.file("web.service", "memory.swap.max", "max");
    machine.between(0, 30);
    let all = orders(&machine);
    assert!(
        !all.is_empty() && all.iter().all(|order| order.starts_with("- 7 ")),
        "{all:?}"
    );
    // The limit of a group goes for those below it, too.
    let mut machine = with_generations("groups = [\"web.service\"]\n", TOLD);
    machine.file("web.service", "memory.swap.max", "8192");
    machine.file("web.service", "memory.swap.current", "8192");
    machine.file("web.service/below", "memory.swap.max", "max");
    machine.between(0, 30);
    assert_eq!(orders(&machine), [""; 0]);
}

#[test]
fn an_order_that_comes_too_late_costs_no_account_and_one_refused_for_good_another_way() {
    let rule = "groups = [\"web.service\"]\nidle_after = \"2s\"\n";
    let mut machine = with_generations(rule, TOLD);
    machine.file("web.service", "walked", "");
    let said = machine.between(0, 100);
    assert!(
        said.len() == 1 && said[0].contains("reclaimed from by lru_gen"),
        "{said:?}"
    );
    // The group below goes on.
    assert!(orders(&machine).iter().all(|order| order.contains(" 8 ")));
    let mut machine = with_generations(rule, TOLD);
    machine.file("web.service", "refused", "");
    let said = machine.between(0, 100).join("\n");
    assert!(said.contains("lru_gen"), "{said}");
    assert!(said.contains("reclaimed from by memory.reclaim"), "{said}");
}

#[test]
fn a_generation_begins_twice_in_the_time_after_which_memory_is_idle() {
    let told = |youngest_ms: u64| {
        format!("memcg 7 /web.service\n node 0\n 1 900000 0 0\n 2 {youngest_ms} 90000 0\n")
    };
    let rule = "groups = [\"web.service\"]\nidle_after = \"40s\"\n";
    let mut machine = with_generations(rule, &told(19_999));
    machine.between(0, 10);
    assert_eq!(orders(&machine), [""; 0]);
    machine.put("sys/kernel/debug/lru_gen", &told(20_000));
    machine.between(15, 15);
    assert_eq!(orders(&machine), ["+ 7 0 2 1 1"]);
    // While it backs off, too, so that it is known then what is idle.
    machine.cost("web.service", 9_000_000, 0);
    machine.put("sys/kernel/debug/lru_gen", &told(20_000));
    let said = machine.between(20, 20);
    assert!(said[0].contains("backs off"), "{said:?}");
    assert_eq!(orders(&machine).len(), 2);
}

#[test]
fn of_generations_nothing_is_taken_that_is_promised_or_has_nowhere_to_go() {
    let told = "\
memcg 7 /web.service
 node 0
 1 900000 4000 0
 2 800000 0 0
 3 1000 0 0
memcg 8 /web.service/kept
 node 0
 1 900000 9000 0
 2 800000 0 0
 3 1000 0 0
memcg 9 /web.service/kept/below
 node 0
 1 900000 9000 0
 2 800000 0 0
 3 1000 0 0
";
    let rule = "groups = [\"web.service\"]\nmechanism = \"lru_gen\"\n";
    let mut machine = with_generations(rule, told);
    machine.file("web.service/kept", "memory.low", "1048576");
    machine.put(
        "proc/meminfo",
        "MemTotal: 4000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    );
    let said = machine.between(0, 300);
    assert_eq!(orders(&machine), [""; 0]);
    let of_swap: Vec<_> = said
        .iter()
        .filter(|it| it.contains("no swap is on"))
        .collect();
    assert_eq!(of_swap.len(), 1, "{said:?}");
    let memory = "MemTotal: 4000 kB\nSwapTotal: 1000 kB\nSwapFree: 900 kB\n";
    machine.put("proc/meminfo", memory);
    machine.between(305, 320);
    let all = orders(&machine);
    let is_own = |order: &String| order.starts_with("- 7 0 1 200 ");
    assert!(!all.is_empty() && all.iter().all(is_own), "{all:?}");
}

/// What a check says of a configuration on that machine.
fn check(machine: &Machine, text: &str) -> String {
    let config = Config::from_text(Path::new("z.toml"), text).unwrap();
    let of_machine = zmeld_swap::machine::Machine::read(&machine.host).unwrap();
    let told = zmeld_swap::plan::against(&machine.host, &of_machine, &config.config, None);
    format!("{told:?}")
}

#[test]
fn a_check_says_what_will_do_nothing() {
    let told = "memcg 7 /web.service\n node 0\n 1 900000 4000 0\n 2 9 0 0\n";
    let text = "[watch.reclaim]\ngroups = [\"web.service\"]\nmechanism = \"lru_gen\"\n";
    let machine = with_generations("", told);
    let said = check(&machine, text);
    assert!(!said.contains("nothing can be reclaimed"), "{said}");
    fs::remove_file(machine.dir.path().join("sys/kernel/debug/lru_gen")).unwrap();
    let said = check(&machine, text);
    let why = "nothing can be reclaimed: /sys/kernel/debug/lru_gen is not there";
    assert!(said.contains(why) && said.contains("UnusedRule"), "{said}");
    let said = check(&machine, &text.replace("lru_gen", "auto"));
    assert!(!said.contains("nothing can be reclaimed"), "{said}");
    // Nor is there the file.
    for group in [
        "web.service",
        "system.slice",
        "system.slice/zmeld-watch.service",
    ] {
        let file = format!("sys/fs/cgroup/{group}/memory.reclaim");
        fs::remove_file(machine.dir.path().join(file)).unwrap();
    }
    let said = check(&machine, &text.replace("lru_gen", "auto"));
    let why = "nothing can be reclaimed: the kernel has no memory.reclaim (Linux 5.19)";
    assert!(said.contains(why), "{said}");
    // What the guard never ends.
    machine.group("init.scope", 100, 0);
    machine.group("user.slice", 100, 0);
    for (end, is_all) in [
        ("\"/init.scope\"", true),
        ("\"/user.slice\", \"/system.slice/sshd.service\"", false),
        ("\"/user.slice/user-0.slice/session-1.scope\"", true),
    ] {
        let said = check(&machine, &format!("[watch.guard]\nend = [{end}]\n"));
        assert_eq!(
            said.matches("is never ended: it is needed").count(),
            1,
            "{said}"
        );
        assert!(
            !is_all || !said.contains("the guard could end nothing"),
            "{said}"
        );
    }
    let said = check(&machine, "[watch.guard]\nend = [\"/user.slice\"]\n");
    assert!(!said.contains("is never ended"), "{said}");
}

#[test]
fn without_generations_the_kernel_chooses_and_it_is_said_why() {
    let told = "memcg 7 /web.service\n node 0\n 1 900000 4000 0\n 2 9 0 0\n 3 1 0 0\n";
    for (enabled, why) in [
        ("0x0000", "is off"),
        ("0x0001", "is off"),
        ("", "no lru_gen"),
    ] {
        let mut machine = with_generations("groups = [\"web.service\"]\n", told);
        machine.put("sys/kernel/mm/lru_gen/enabled", enabled);
        let said = machine.between(0, 10);
        assert!(
            said[0].contains("by memory.reclaim") && said[0].contains(why),
            "{said:?}"
        );
        let rule = "groups = [\"web.service\"]\nmechanism = \"lru_gen\"\n";
        let mut machine = with_generations(rule, told);
        machine.put("sys/kernel/mm/lru_gen/enabled", enabled);
        let said = machine.between(0, 10);
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
        assert_eq!(orders(&machine), [""; 0]);
    }
}

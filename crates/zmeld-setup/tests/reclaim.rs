//! `[watch.reclaim]` on a machine made of files, in which writing `memory.reclaim`
//! makes a control group smaller: from which groups, when not, and what is told. Most
//! cases are in `reclaim`.

#[path = "script/findings.rs"]
mod as_lines;
mod script;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_config::Config;
use zmeld_linux::command::{Ending, Finished, Invocation};
use zmeld_linux::host::{Access, Direct};
use zmeld_linux::lru_gen::{self, Generation};
use zmeld_linux::Host;
use zmeld_observe::Observation;
use zmeld_status::findings::findings;
use zmeld_status::outstanding::Outstanding;
use zmeld_watch::Watcher;

use script::{Outcome, Script};

const MIB: u64 = 1 << 20;

/// Reclaims as the kernel would, down to what a group's file `in_use` says.
struct Kernel;

impl Access for Kernel {
    /// Of what is told of generations so many bytes where `slow_read` says so, after so many
    /// milliseconds, and blank lines up to all that is read; each time is noted in `reads`.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Direct.read(path, limit)?;
        let slow = fs::read_to_string(path.with_file_name("slow_read"));
        if let (Ok(slow), true) = (slow, limit > 1 && path.ends_with("debug/lru_gen")) {
            let (ms, length) = slow.split_once(' ').unwrap();
            std::thread::sleep(Duration::from_millis(ms.parse().unwrap()));
            let reads = path.with_file_name("reads");
            let before = fs::read_to_string(&reads).unwrap_or_default();
            fs::write(reads, before + "x")?;
            bytes.truncate(length.trim().parse().unwrap());
            bytes.resize(limit as usize, b'\n');
        }
        Ok(bytes)
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

    fn run(&self, _: &Invocation, _: Option<&Ending>) -> io::Result<Finished> {
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
    let root = path.ancestors().nth(4).unwrap();
    let folder = root
        .join("sys/fs/cgroup")
        .join(group.path.strip_prefix("/").unwrap());
    // A group that is as if it were walked by another task, or refuses all.
    if folder.join("walked").exists() {
        return Err(io::Error::from_raw_os_error(17));
    }
    if folder.join("refused").exists() {
        return Err(io::Error::from_raw_os_error(1));
    }
    let mut nodes = group.nodes.iter_mut();
    let node = nodes.find(|it| u64::from(it.node) == number(2));
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
            let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
            let no_files = match release.is_ok_and(|it| it.starts_with("6.16")) {
                true => "max",
                false => "200",
            };
            assert_eq!(words[4], no_files);
            // Of each generation what can be swapped, and then, up to 6.15, its files. What is
            // kept since it was used becomes younger.
            let page = rustix::param::page_size() as u64;
            let of = |name: &str| -> io::Result<u64> {
                Ok(fs::read_to_string(folder.join(name))?
                    .trim()
                    .parse()
                    .unwrap())
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
    stop: AtomicBool,
    /// What groups had when it was looked at last, and how many pages had been asked for.
    had: BTreeMap<String, u64>,
}

fn config(text: &str) -> Config {
    let loaded = Config::from_text(Path::new("z.toml"), text);
    loaded.unwrap_or_else(|err| panic!("{err}")).config
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::with(dir.path(), Arc::new(Kernel));
        let machine = Machine {
            watcher: Watcher::new(host.clone(), Config::default(), false, |host| {
                zmeld_setup::applied::read(host).ok()?
            }),
            dir,
            host,
            begin: Instant::now(),
            stop: AtomicBool::new(false),
            had: BTreeMap::new(),
        };
        let mounts = "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
        let memory = "MemTotal: 4000 kB\nMemFree: 1000 kB\nSwapTotal: 1000 kB\nSwapFree: 900 kB\n";
        for (path, text) in [
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "0::/system.slice/zmeld-watch.service\n"),
            ("proc/uptime", "1000.00 1.00\n"),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/meminfo", memory),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ] {
            machine.put(path, text);
        }
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

    fn rule(&mut self, text: &str, dry_run: bool) {
        let config = config(&format!("[watch.reclaim]\n{text}"));
        self.watcher = Watcher::new(self.host.clone(), config, dry_run, |host| {
            zmeld_setup::applied::read(host).ok()?
        });
    }

    /// A group of so many MiB, of which so many are in use.
    fn group(&self, name: &str, mib: u64, in_use_mib: u64) {
        self.file(name, "memory.current", &(mib * MIB).to_string());
        self.file(name, "in_use", &(in_use_mib * MIB).to_string());
        self.file(name, "memory.swap.current", "0");
        self.file(name, "memory.reclaim", "");
        self.cost(name, "0", "0");
    }

    fn file(&self, group: &str, name: &str, text: &str) {
        self.put(&format!("sys/fs/cgroup/{group}/{name}"), text);
    }

    /// What it cost so far: time waited, and pages that came back.
    fn cost(&self, group: &str, stalled_us: &str, refaults: &str) {
        let line = format!("avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}");
        self.file(
            group,
            "memory.pressure",
            &format!("some {line}\nfull {line}\n"),
        );
        let stat = format!("anon 1\nworkingset_refault_anon {refaults}\n");
        self.file(group, "memory.stat", &stat);
    }

    /// The kernel tells that of generations, of groups of 400 MiB each.
    fn told(&self, told: &str) {
        self.put("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
        self.put("sys/kernel/debug/lru_gen", told);
        for line in told.lines().filter(|line| line.starts_with("memcg")) {
            let path = line.split(' ').nth(2).unwrap().trim_start_matches('/');
            if !self.dir.path().join("sys/fs/cgroup").join(path).exists() {
                self.group(path, 400, 0);
                self.file(path, "memory.min", "0");
                self.file(path, "memory.low", "0");
            }
        }
    }

    fn memory(&self, group: &str) -> u64 {
        let path = format!("sys/fs/cgroup/{group}/memory.current");
        let text = fs::read_to_string(self.dir.path().join(path)).unwrap();
        text.trim().parse().unwrap()
    }

    /// What is said, every 5 s from one second up to another.
    fn between(&mut self, from: u64, to: u64) -> Vec<String> {
        let mut said = Vec::new();
        for second in (from..=to).step_by(5) {
            let now = self.begin + Duration::from_secs(second);
            self.watcher
                .reclaim(now, &self.stop, &mut |line| said.push(line));
        }
        said
    }

    fn orders(&self) -> Vec<String> {
        let path = self.dir.path().join("sys/kernel/debug/orders");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn observe(&self) -> Observation {
        Observation::read(&self.host, 4096)
    }
}

impl script::Case for Machine {
    fn root(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| -> u64 { words[at].parse().unwrap() };
        let unescaped = script::unescaped(rest);
        let mut parts = unescaped.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_default();
        match what {
            "rule" | "dry" => self.rule(&script.text(rest), what == "dry"),
            "file" => self.file(part(), part(), part()),
            // NAME... MEMORY IN_USE, in MiB.
            "group" => {
                let end = words.len() - 2;
                for name in &words[..end] {
                    self.group(name, number(end), number(end + 1));
                }
            }
            "cost" => self.cost(words[0], words[1], words[2]),
            "told" => self.told(&script.text(rest)),
            "stop" => self.stop.store(true, Ordering::Relaxed),
            "at" => return self.between(number(0), number(0)).iter().collect(),
            // Memory is short at that second.
            "room" => {
                let now = self.begin + Duration::from_secs(number(0));
                let mut done = Vec::new();
                let mut take = |line| done.push(line);
                self.watcher.make_room(now, &self.stop, &mut take);
                assert_eq!(self.between(number(0), number(0)), [""; 0], "{place}");
                return done.iter().collect();
            }
            // In MiB, or beside what it had when it was looked at last.
            "memory" => {
                let has = self.memory(words[0]);
                let had = self
                    .had
                    .insert(words[0].to_owned(), has)
                    .unwrap_or(u64::MAX);
                let is_so = match words[1..] {
                    [] => true,
                    ["same"] => has == had,
                    ["less"] => has < had,
                    // By one part in so many.
                    ["less", ..] => (had / number(3)..had / number(2)).contains(&(had - has)),
                    [range] => {
                        let bytes = |mib: &str| mib.parse::<u64>().unwrap() * MIB;
                        match range.split_once("..") {
                            Some((from, to)) => (bytes(from)..bytes(to)).contains(&has),
                            None => has == bytes(range),
                        }
                    }
                    _ => panic!("{place}"),
                };
                assert!(is_so, "{place}: has {has}, had {had}");
            }
            // So many pages since it was looked at last.
            "asked" => {
                let pages = |order: &String| -> u64 {
                    assert!(order.starts_with("- "), "{place}: {order}");
                    order.split(' ').next_back().unwrap().parse().unwrap()
                };
                let all: u64 = self.orders().iter().map(pages).sum();
                let new = all - self.had.insert("asked".to_owned(), all).unwrap_or(0);
                assert!((number(0)..=number(1)).contains(&new), "{place}: {new}");
            }
            "noted" => {
                let Some(mut noted) = self.observe().reclaim else {
                    return Outcome::default();
                };
                let groups = std::mem::take(&mut noted.groups);
                let protected = std::mem::take(&mut noted.protected);
                let mut lines = vec![serde_json::to_string(&noted).unwrap()];
                lines.extend(groups.iter().map(|it| serde_json::to_string(it).unwrap()));
                lines.extend(
                    protected
                        .iter()
                        .map(|it| serde_json::to_string(it).unwrap()),
                );
                return lines.iter().collect();
            }
            "orders" => {
                let orders = self.orders().into_iter().enumerate();
                let orders = orders.map(|(at, order)| format!("{at}: {order}"));
                return orders.collect();
            }
            // Of the group with that number, anonymous ones and files, the oldest first.
            "pages" => {
                let text = fs::read(self.root().join("sys/kernel/debug/lru_gen")).unwrap();
                let groups = lru_gen::parse(&text, |_| true);
                let group = groups.iter().find(|it| it.id == number(0)).unwrap();
                let all = group.nodes[0].generations.iter().enumerate();
                let line = |(at, it): (usize, &Generation)| {
                    format!("{at}: {} {}", it.anonymous_pages, it.file_pages)
                };
                return all.map(line).collect();
            }
            "check" => {
                let of_machine = zmeld_observe::machine::Machine::read(&self.host).unwrap();
                let config = config(&script.text(rest));
                let told = zmeld_status::against::against(&self.host, &of_machine, &config, None);
                return as_lines::of_problems(&told).iter().collect();
            }
            "status" => {
                let config = config(&script.text(rest));
                let found = findings(&self.observe(), &Outstanding::of(&config));
                return as_lines::of_findings(&found);
            }
            _ => {
                let (from, to) = what.split_once("..").unwrap_or_else(|| panic!("{place}"));
                let said = self.between(from.parse().unwrap(), to.parse().unwrap());
                return said.iter().collect();
            }
        }
        Outcome::default()
    }
}

#[test]
fn each_case_of_the_rule_comes_out_as_it_says() {
    script::run("reclaim/rule.txt", Machine::new);
}

#[test]
fn each_case_of_generations_comes_out_as_it_says() {
    script::run("reclaim/generations.txt", Machine::new);
}

#[test]
fn how_long_memory_must_be_idle_has_a_bound_and_goes_back_where_nothing_comes_back() {
    let told = "memcg 7 /web.service\n node 0\n 10 9900000 4000 0\n 11 9800000 9000 0\n \
                12 9000 0 0\n 13 100 0 0\n";
    let rule = "groups = [\"web.service\"]\nstep = \"0.1%\"\n";
    let mut machine = Machine::new();
    machine.rule(rule, false);
    machine.put("proc/sys/kernel/osrelease", "6.16.0");
    let mut pages = 0;
    let mut said = Vec::new();
    // Each 20 min something is taken, and too much is back: up to 16 times the rule's.
    for begin in (0..7).map(|turn| turn * 1200) {
        machine.told(told);
        machine.between(begin, begin + 20);
        pages += 5000;
        machine.cost("web.service", "0", &pages.to_string());
        said.extend(machine.between(begin + 25, begin + 180));
    }
    let longer = said
        .iter()
        .filter_map(|line| line.split_once("what is idle for "));
    let longer: Vec<&str> = longer.map(|it| it.1).collect();
    assert_eq!(
        longer,
        ["2min goes", "4min goes", "8min goes", "16min goes"]
    );
    let backed_off = said.iter().filter(|line| line.contains("backs off"));
    assert_eq!(backed_off.count(), 7);
    // 16 times 16, 8, 4 and 2 minutes later it is the rule's: what is idle for 61 s goes.
    let idle = told
        .replace(" 9000 0 0", " 61000 0 0")
        .replace("9800000", "61000");
    let begin = 7 * 1200;
    for (from, minutes, goes) in [(0, 450, false), (452, 490, true)] {
        for minute in (from..minutes).step_by(2) {
            machine.told(&told.replace("9800000", "100"));
            machine.between(begin + minute * 60, begin + minute * 60);
        }
        let before = machine.orders().len();
        machine.told(&idle);
        machine.between(begin + minutes * 60, begin + minutes * 60 + 5);
        assert_eq!(machine.orders().len() > before, goes, "{minutes} min");
    }
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
    let group = |it: &str| format!("memcg {it}\n node 0\n 1 40000 90000 0\n");
    let mut machine = Machine::new();
    machine.rule("groups = [\"a.service\", \"b.service\"]\n", false);
    machine.told(
        &["7 /a.service", "8 /a.service/below", "9 /b.service"]
            .map(group)
            .concat(),
    );
    // A walk is followed by 30 s without at least, and generations begin every 30 s.
    machine.put("sys/kernel/debug/slow_walk", "300");
    let mut walked = Vec::new();
    for second in (0..).step_by(5).take(2000) {
        machine.between(second, second);
        pass(&machine, 5000);
        let all = machine.orders();
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

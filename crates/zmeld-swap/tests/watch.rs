//! `zmeld watch` on a machine made of files: what is written where, when, and what is left
//! alone. Its kernel does what is ordered of generations. The cases are in `watch` and `reclaim`.

mod as_lines;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_config::{Config, RamDriver};
use zmeld_linux::command::{Ending, Finished, Invocation};
use zmeld_linux::host::{Access, Direct};
use zmeld_linux::lru_gen::{self, Generation, GroupGenerations, Node, ENABLED, PATH};
use zmeld_linux::Host;
use zmeld_report::{Document, Style};
use zmeld_swap::observe::Observation;
use zmeld_swap::setup::journal::State;
use zmeld_swap::setup::step::{MadeDevice, Record, Step};
use zmeld_swap::setup::steps::AddDevice;
use zmeld_swap::status::findings::findings;
use zmeld_swap::status::outstanding::Outstanding;
use zmeld_swap::status::{page, Status};
use zmeld_swap::watch::{is_short, meld, Error, Watcher};
use zmeld_tests::machine;
use zmeld_tests::script::{self, Outcome, Script};

const MIB: u64 = 1 << 20;

/// Does what it is ordered of generations, and what a tier's device is told.
struct Kernel {
    /// The watch is told to stop.
    stop: AtomicBool,
    began: Instant,
    /// So long took what is slow: nothing else takes any time.
    took_ms: AtomicU64,
}

impl Kernel {
    fn take(&self, ms: &str) {
        let ms = ms.trim().parse().unwrap();
        self.took_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Takes as long as that file says, if it is there.
    fn take_as(&self, path: &Path) {
        let ms = fs::read_to_string(path).unwrap_or("0".to_owned());
        self.take(&ms);
    }
}

impl Access for Kernel {
    /// Of what is told of generations so many bytes where `slow_read` says so, after so many
    /// milliseconds, and blank lines up to all that is read; each time is noted in `reads`.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        machine::refuse(path, "read")?;
        let mut bytes = Direct.read(path, limit)?;
        let slow = fs::read_to_string(path.with_file_name("slow_read"));
        if let (Ok(slow), true) = (slow, limit > 1 && path.ends_with("debug/lru_gen")) {
            let (ms, length) = slow.split_once(' ').unwrap();
            self.take(ms);
            append(&path.with_file_name("reads"), "")?;
            bytes.truncate(length.trim().parse().unwrap());
            bytes.resize(limit as usize, b'\n');
        }
        Ok(bytes)
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let name = path.file_name().unwrap().to_str().unwrap();
        let value = std::str::from_utf8(value).unwrap();
        match name {
            "lru_gen" => return generations(self, path, value),
            _ => of_device(path, name, value)?,
        }
        if ["recompress", "writeback"].contains(&name) {
            self.take_as(&path.with_file_name("slow_request"));
            let is_told = path.with_file_name("is_told").exists();
            self.stop.store(is_told, Ordering::Relaxed);
        }
        Ok(())
    }

    fn run(&self, _: &Invocation, _: Option<&Ending>) -> io::Result<Finished> {
        unreachable!("watch runs no commands")
    }

    fn now(&self) -> Instant {
        self.began + Duration::from_millis(self.took_ms.load(Ordering::Relaxed))
    }
}

/// Does what a tier's device is told, and notes it in `written` beside that file. Other files
/// there say how: `no_ages` takes none in `idle`; `killed_at` has the watch killed in the next
/// writeback, of which so much of the limit is left; with `has_pages` pages are compressed
/// further each time, and writeback uses its limit up; with `is_told` the watch is told to stop
/// meanwhile; a request takes the milliseconds in `slow_request`.
fn of_device(path: &Path, name: &str, value: &str) -> io::Result<()> {
    let beside = |name: &str| path.with_file_name(name);
    assert!(path.parent().unwrap().ends_with("block/zmeld0"), "{path:?}");
    if beside("no_ages").exists() && name == "idle" && value != "all" {
        return Err(io::Error::from_raw_os_error(22));
    }
    if name.starts_with("writeback_limit") {
        fs::write(path, value)?;
    }
    if name == "writeback" && beside("killed_at").exists() {
        fs::rename(beside("killed_at"), beside("writeback_limit"))?;
        std::panic::panic_any("killed");
    }
    match name {
        "recompress" if beside("has_pages").exists() => {
            let stat = fs::read_to_string(beside("mm_stat"))?;
            let mut words: Vec<String> = stat.split_whitespace().map(str::to_owned).collect();
            words[1] = (words[1].parse::<u64>().unwrap() - 4096).to_string();
            fs::write(beside("mm_stat"), words.join(" "))?;
        }
        "writeback" if beside("has_pages").exists() => fs::write(beside("writeback_limit"), "0")?,
        _ => {}
    }
    machine::refuse(path, "write")?;
    append(&beside("written"), &format!("{name} <- {value}"))
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let before = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, format!("{before}{line}\n"))
}

/// Does what is ordered of generations, and notes it in `orders` beside that file.
fn generations(kernel: &Kernel, path: &Path, order: &str) -> io::Result<()> {
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
            kernel.take_as(&path.with_file_name("slow_walk"));
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
            kernel.take_as(&path.with_file_name("slow_order"));
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
            let takes_files = folder.join("takes_files");
            if takes_files.exists() {
                fs::copy(takes_files, folder.join("memory.stat"))?;
            }
            // Pages of which swap has a copy still need no more of it.
            if !folder.join("has_copies").exists() {
                change("memory.swap.current", to_swap as i64)?;
            }
        }
        other => panic!("{other}"),
    }
    fs::write(path, told(&groups))?;
    append(&path.with_file_name("orders"), order)
}

/// Generations as the kernel tells them.
fn told(groups: &[GroupGenerations]) -> String {
    let mut text = String::new();
    for group in groups {
        text += &format!("memcg {} {}\n", group.id, group.path.display());
        for node in &group.nodes {
            text += &format!(" node {}\n", node.node);
            for it in &node.generations {
                let (anonymous, file) = (it.anonymous_pages, it.file_pages);
                text += &format!(" {} {} {anonymous} {file}\n", it.number, it.age_ms);
            }
        }
    }
    text
}

struct Machine {
    dir: tempfile::TempDir,
    kernel: Arc<Kernel>,
    host: Host,
    watcher: Watcher,
    begin: Instant,
    /// Memory of groups at the last look, and pages asked for by then.
    had: BTreeMap<String, u64>,
}

fn config(text: &str) -> Config {
    let loaded = Config::from_text(Path::new("z.toml"), text);
    loaded.unwrap_or_else(|err| panic!("{err}")).config
}

fn watcher(host: &Host, config: Config, dry_run: bool) -> Watcher {
    Watcher::new(host.clone(), config, dry_run, |host| {
        zmeld_swap::setup::applied::read(host).ok()?
    })
}

impl Machine {
    fn within(dir: tempfile::TempDir) -> Machine {
        let kernel = Arc::new(Kernel {
            stop: AtomicBool::new(false),
            began: Instant::now(),
            took_ms: AtomicU64::new(0),
        });
        let host = Host::with(dir.path(), kernel.clone());
        Machine {
            watcher: watcher(&host, Config::default(), false),
            dir,
            begin: kernel.began,
            kernel,
            host,
            had: BTreeMap::new(),
        }
    }

    /// One with a tier's device. It has used up its writeback budget.
    fn recorded() -> Machine {
        let machine = Machine::within(machine::plant("7.2").0);
        machine.put("sys/block/zmeld0/writeback_limit_enable", "0");
        machine
    }

    fn with_groups(release: &str) -> Machine {
        let mounts = "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
        let memory = "MemTotal: 4000 kB\nMemFree: 1000 kB\nSwapTotal: 1000 kB\nSwapFree: 900 kB\n";
        let files = [
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "0::/system.slice/zmeld-watch.service\n"),
            ("proc/uptime", "1000.00 1.00\n"),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/meminfo", memory),
            ("proc/sys/kernel/osrelease", release),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ];
        let machine = Machine::within(Host::planted(&files).0);
        machine.put(ENABLED, "0x0007\n");
        machine.put(PATH, "");
        for group in ["system.slice", "system.slice/zmeld-watch.service"] {
            machine.group(group, 100, 0);
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        machine::put(self.dir.path(), path, text);
    }

    /// A group of so many MiB, of which so many are in use.
    fn group(&self, name: &str, mib: u64, in_use_mib: u64) {
        self.file(name, "memory.current", &(mib * MIB).to_string());
        self.file(name, "memory.swap.current", "0");
        let path = Path::new("/").join(name);
        let mut groups = self.generations();
        groups.retain(|group| group.path != path);
        let last = groups.iter().map(|group| group.id).max();
        // What is idle is in the oldest one; none is old enough for the next to begin.
        let (page, idle_mib) = (rustix::param::page_size() as u64, mib - in_use_mib);
        let generations = [
            (900_000, idle_mib),
            (800_000, 0),
            (1000, in_use_mib),
            (10, 0),
        ];
        let generation = |(number, (age_ms, mib)): (u64, (u64, u64))| Generation {
            number,
            age_ms,
            anonymous_pages: mib * MIB / page,
            file_pages: 0,
        };
        groups.push(GroupGenerations {
            id: last.unwrap_or(0) + 1,
            path,
            nodes: vec![Node {
                node: 0,
                generations: (1..).zip(generations).map(generation).collect(),
            }],
        });
        self.put(PATH, &told(&groups));
        self.cost(name, "0", "0");
    }

    fn file(&self, group: &str, name: &str, text: &str) {
        self.put(&format!("sys/fs/cgroup/{group}/{name}"), text);
    }

    /// Sets its cost: time waited, and pages that came back.
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
        for line in told.lines().filter(|line| line.starts_with("memcg")) {
            let path = line.split(' ').nth(2).unwrap().trim_start_matches('/');
            if !self.dir.path().join("sys/fs/cgroup").join(path).exists() {
                self.group(path, 400, 0);
                self.file(path, "memory.min", "0");
                self.file(path, "memory.low", "0");
            }
        }
        self.put(PATH, told);
    }

    fn memory(&self, group: &str) -> u64 {
        let path = format!("sys/fs/cgroup/{group}/memory.current");
        let text = fs::read_to_string(self.dir.path().join(path)).unwrap();
        text.trim().parse().unwrap()
    }

    /// Messages of rounds, each so many seconds from one to another.
    fn between(&mut self, from: u64, to: u64, each: usize) -> Vec<String> {
        let mut said = Vec::new();
        for second in (from..=to).step_by(each) {
            let now = self.begin + Duration::from_secs(second);
            self.watcher
                .reclaim(now, &self.kernel.stop, &mut |line| said.push(line));
        }
        said
    }

    /// A round of all rules so many seconds after the first: what was written, and what was said.
    fn round(&mut self, seconds: u64) -> Outcome {
        let seen = Observation::read(&self.host, 4096);
        let mut said = Vec::new();
        let now = self.begin + Duration::from_secs(seconds);
        let stop = &self.kernel.stop;
        stop.store(false, Ordering::Relaxed);
        self.watcher
            .round(&seen, now, stop, &mut |line| said.push(line));
        let path = "sys/block/zmeld0/written";
        let written = self.lines(path).into_iter().enumerate();
        let written = written.map(|(at, line)| format!("{at} {line}"));
        let all = written.chain(said).collect();
        let _ = fs::remove_file(self.dir.path().join(path));
        all
    }

    fn lines(&self, path: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(path)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn orders(&self) -> Vec<String> {
        self.lines("sys/kernel/debug/orders")
    }

    fn generations(&self) -> Vec<GroupGenerations> {
        let text = fs::read(self.host.path(PATH)).unwrap();
        lru_gen::parse(&text, |_| true)
    }

    /// Generations become so much older.
    fn pass(&self, ms: u64) {
        let mut groups = self.generations();
        let nodes = groups.iter_mut().flat_map(|it| &mut it.nodes);
        nodes
            .flat_map(|it| &mut it.generations)
            .for_each(|it| it.age_ms += ms);
        self.put(PATH, &told(&groups));
    }

    fn observe(&self) -> Observation {
        Observation::read(&self.host, 4096)
    }

    /// The journal of that configuration, whose tier that device is; "-" for none.
    fn journal(&self, device: &str, config: Config) {
        let record = Record {
            group: "tier.ram".to_owned(),
            step: Step::AddDevice(AddDevice {
                driver: RamDriver::Zmeld,
            }),
            done: true,
            before: None,
            outcome: Some(MadeDevice::from(device.to_owned())),
            identity: None,
            run: 1,
        };
        let state = State {
            schema: "zmeld.state/1".to_owned(),
            complete: true,
            config,
            records: if device == "-" { vec![] } else { vec![record] },
            ..State::default()
        };
        let state = serde_json::to_string(&state).unwrap();
        machine::put(self.dir.path(), "/run/zmeld/state.json", state);
    }
}

impl script::Case for Machine {
    fn root(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// What the kernel does of the orders, these say already.
    fn recorded(&self) -> Vec<String> {
        let mut files = script::files(&self.root());
        files.retain(|file| {
            let path = file.split(' ').next().unwrap_or_default();
            let done = ["lru_gen", "memory.current", "memory.swap.current"];
            !done.iter().any(|name| Path::new(path).ends_with(name))
        });
        files
    }

    /// Orders without their numbers: many are the same.
    fn lasting(&self, what: &str, line: &str) -> String {
        let order = line.split_once(": ").filter(|_| what == "orders");
        let line = order.map_or(line, |(_, order)| order);
        line.replace(&*self.root().to_string_lossy(), "")
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| -> u64 { words[at].parse().unwrap() };
        let unescaped = script::unescaped(rest);
        let mut parts = unescaped.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_default();
        match what {
            // `[watch.reclaim]`, and the whole configuration.
            "rule" | "dry" => {
                let config = config(&format!("[watch.reclaim]\n{}", script.text(rest)));
                self.watcher = watcher(&self.host, config, what == "dry");
            }
            "watch" | "dry-watch" => {
                let config = config(&script.text(rest));
                self.watcher = watcher(&self.host, config, what == "dry-watch");
            }
            "ask" => {
                let seconds = words[1].parse().unwrap();
                let then = self.begin + Duration::from_secs(seconds);
                return [self.watcher.ask(words[0], then)].iter().collect();
            }
            // As `zmeld meld` does, of that device or of the only one.
            "meld" => {
                let wanted = Some(rest).filter(|it| !it.is_empty());
                let name = meld::choose(&self.host, wanted);
                let melding = name.and_then(|name| meld::run(&self.host, &name, "start"));
                let errors = melding.as_ref().err().into_iter();
                let kind = |err: &Error| format!("missing: {}", err.is_missing());
                return Outcome {
                    errors: errors.map(|err| (err.to_string(), kind(err))).collect(),
                    lines: melding.iter().map(|it| it.mode.clone()).collect(),
                    ..Outcome::default()
                };
            }
            "meld-stop" => meld::stop(&self.host, rest).unwrap(),
            "round" => return self.round(number(0)),
            // In the first round's writeback, of which the kernel leaves so much of the limit.
            "killed-at" => {
                self.put("sys/block/zmeld0/killed_at", rest);
                let killed = catch_unwind(AssertUnwindSafe(|| self.round(0)));
                assert!(killed.is_err(), "{place}");
                fs::remove_file(self.root().join("sys/block/zmeld0/written")).unwrap();
            }
            "journal" => {
                let (device, text) = rest.split_once(' ').unwrap();
                self.journal(device, config(&script.text(text)));
            }
            "has" => {
                let has = match words[0] {
                    "more" => self.watcher.has_more(),
                    "acted" => self.watcher.has_acted(),
                    "rules" => self.watcher.has_rules(),
                    _ => panic!("{place}"),
                };
                assert_eq!(has.to_string(), words[1], "{place}");
            }
            "is-short" => assert_eq!(is_short(&self.host).to_string(), rest, "{place}"),
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
            "stop" => self.kernel.stop.store(true, Ordering::Relaxed),
            "at" => return self.between(number(0), number(0), 1).iter().collect(),
            // Memory is short at that second.
            "room" => {
                let now = self.begin + Duration::from_secs(number(0));
                let mut done = Vec::new();
                let mut take = |line| done.push(line);
                self.watcher.make_room(now, &self.kernel.stop, &mut take);
                let _ = fs::remove_file(self.dir.path().join("sys/block/zmeld0/written"));
                assert_eq!(self.between(number(0), number(0), 1), [""; 0], "{place}");
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
            // What the next watch is to know, a line a group.
            "learnt" => {
                let learnt = self.lines("run/zmeld/reclaim-learnt.json").concat();
                let learnt: BTreeMap<String, serde_json::Value> =
                    serde_json::from_str(&learnt).unwrap();
                let line = |(group, learnt)| format!("{group} {learnt}");
                return learnt.into_iter().map(line).collect();
            }
            // What a status tells below the tiers.
            "page" => {
                let status = Status::read(&self.host, Ok(&Config::default()), None);
                let text = page::details(Document::new(""), &status);
                return text.to_text(&Style::plain(200)).lines().collect();
            }
            "orders" => {
                let orders = self.orders().into_iter().enumerate();
                let orders = orders.map(|(at, order)| format!("{at}: {order}"));
                return orders.collect();
            }
            // Of the group with that number, anonymous ones and files, the oldest first.
            "pages" => {
                let groups = self.generations();
                let group = groups.iter().find(|it| it.id == number(0)).unwrap();
                let all = group.nodes[0].generations.iter().enumerate();
                let line = |(at, it): (usize, &Generation)| {
                    format!("{at}: {} {}", it.anonymous_pages, it.file_pages)
                };
                return all.map(line).collect();
            }
            // Generations become older all the time, until so many began.
            "walks" => {
                for second in (0..10_000).step_by(5) {
                    self.between(second, second, 1);
                    self.pass(5000);
                    let orders = self.orders();
                    if orders.iter().filter(|it| it.starts_with('+')).count() as u64 >= number(0) {
                        break;
                    }
                }
            }
            "check" => {
                let of_machine = zmeld_config::advice::machine::Machine::read(&self.host).unwrap();
                let config = config(&script.text(rest));
                let told = zmeld_swap::status::config_check::config_check(
                    &self.host,
                    &of_machine,
                    &config,
                    None,
                );
                return as_lines::of_problems(&told).iter().collect();
            }
            "status" => {
                let config = config(&script.text(rest));
                let found = findings(&self.observe(), &Outstanding::of(&config));
                return as_lines::of_findings(&found);
            }
            _ => {
                let (from, to) = what.split_once("..").unwrap_or_else(|| panic!("{place}"));
                // Every 5 s, or as behind the slash.
                let (to, each) = to.split_once('/').unwrap_or((to, "5"));
                let [from, to, each] = [from, to, each].map(|it| it.parse::<u64>().unwrap());
                let said = self.between(from, to, each as usize);
                return said.iter().collect();
            }
        }
        Outcome::default()
    }
}

#[test]
fn each_case_comes_out_as_it_says() {
    script::run("watch/cases.txt", Machine::recorded);
}

#[test]
fn each_case_of_the_rule_that_reclaims_comes_out_as_it_says() {
    script::run("reclaim/rule.txt", || Machine::with_groups("6.16.0"));
}

#[test]
fn each_case_of_generations_comes_out_as_it_says() {
    script::run("reclaim/generations.txt", || Machine::with_groups("6.12.1"));
}

//! `[watch.guard]` on a machine made of files, whose groups hold real processes: who is
//! ended, when, and how, and who never is. The machine has 1,000 MiB of RAM, of which programs
//! can have 950, and what it says of memory follows from what its processes hold. Most cases are
//! in `cases.txt`, trees as they are in the wild in `trees.txt`; their steps are:
//!
//! ```text
//! version-1                    its groups are of version 1: none below a user's manager counts
//! rule TEXT                    a guard of that rule begins; `dry`: one that only tells
//! in GROUP PROCESS...          a group with those processes, as NAME:MIB:ADJ:UID, of which all
//!                              but the first may be missing; NAME*3 is NAME1, NAME2 and NAME3;
//!                              one with "deaf" in its name ignores SIGTERM, of one with
//!                              "headless" the first thread has ended, one with "anew" is
//!                              begun after all that ends, one with "tick" in the same tick,
//!                              of one with "deep" the group is not told, one with "files" has
//!                              as much in files, one with "zombie" has ended, all with
//!                              "shared" have the same memory; "/" is the root
//! files GROUP MIB              it has so much in tmpfs
//! takes PROCESS MIB            takes so much from now on
//! moves PROCESS GROUP          is in that group from now on
//! grows MIB PROCESS...         each takes so much more a second, a minute long or until
//!                              something is ended and memory is not short: what is said
//! available MIB                so much is to be had, whatever processes hold; `memory LINE`
//!                              another line of /proc/meminfo
//! look SECONDS                 so many looks, a second apart: what is said; `tenths COUNT`
//! stalls SECONDS               the same, while nothing goes on in seven tenths of the time
//! ends PROCESS...              these have ended since the case began, and no other
//! by SIGNAL PROCESS...         these were ended by it
//! some-ended COUNT NAME        so many have whose names begin so
//! noted                        what the guard noted, and whether it notes that memory is short
//! marks GROUP                  the marks of systemd-oomd's on a group
//! overview TEXT                what `--dry-run` lists by that rule
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zmeld_guard::{GuardLoop, GuardRule};
use zmeld_linux::Host;
use zmeld_tests::script::{self, Outcome, Script};

const MIB: u64 = 1 << 20;
const TERM: i32 = 15;
const KILL: i32 = 9;
const GROUPS: &str = "sys/fs/cgroup";

/// The guard's texts.
type Said = Arc<Mutex<Vec<String>>>;

/// A machine with 1,000 MiB of RAM.
struct Machine {
    dir: tempfile::TempDir,
    host: Host,
    guard: GuardLoop,
    now: Instant,
    says: Said,
    said: Vec<String>,
    /// Looks of this step.
    looked: u32,
    processes: BTreeMap<String, Process>,
    ended: BTreeMap<String, i32>,
    groups: BTreeSet<String>,
    is_v1: bool,
    files: BTreeMap<String, u64>,
    available: Option<u64>,
    line: String,
    stalled_us: u64,
    /// Last written text, by file.
    written: RefCell<BTreeMap<String, String>>,
}

/// A process in a group, which ends with this.
struct Process {
    child: Child,
    group: String,
    mib: u64,
    adjusted: i64,
    uid: u32,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The group of version 1 that counts the memory of what is in a group of systemd's.
fn counted(group: &str) -> &str {
    let manager = group
        .find("@")
        .and_then(|at| Some(at + group[at..].find(".service/")?));
    manager.map_or(group, |at| &group[..at + ".service".len()])
}

/// Whether a group is Docker's, unknown to systemd.
fn is_dockers(group: &str) -> bool {
    group.starts_with("docker")
}

fn start_process(name: &str) -> Child {
    let script = match name.contains("deaf") {
        true => "trap '' TERM; echo; exec sleep 300",
        false => "echo; exec sleep 300",
    };
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Until it says so, signals find it as it was begun.
    let mut said = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    child
}

fn guard(host: &Host, rule: &str, dry_run: bool) -> (GuardLoop, Said) {
    let said = Said::default();
    let says = Arc::clone(&said);
    let say = move |text| says.lock().unwrap().push(text);
    let guard = GuardLoop::new(host.clone(), rule_of(rule), dry_run, false, say);
    (guard.unwrap(), said)
}

impl Machine {
    fn new() -> Machine {
        let (dir, host) = Host::planted(&[
            (
                "proc/self/mountinfo",
                "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
            ),
            ("proc/self/cgroup", "0::/system.slice/zmeld-guard.service\n"),
            ("proc/uptime", "1000.00 1.00\n"),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            (
                "proc/meminfo",
                "MemTotal: 1024000 kB\nMemAvailable: 972800 kB\n",
            ),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/cgroup.procs", ""),
        ]);
        let (guard, says) = guard(&host, "", false);
        let mut machine = Machine {
            dir,
            host,
            guard,
            says,
            now: Instant::now(),
            said: Vec::new(),
            looked: 0,
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
            groups: BTreeSet::new(),
            is_v1: false,
            files: BTreeMap::new(),
            available: None,
            line: String::new(),
            stalled_us: 0,
            written: RefCell::default(),
        };
        machine.group("system.slice/zmeld-guard.service");
        machine
    }

    fn have_version_1(&mut self) {
        self.is_v1 = true;
        let mount = |name| format!("30 1 0:26 / /{GROUPS}/{name} rw - cgroup cgroup rw,");
        let (memory, systemd) = (mount("memory"), mount("systemd"));
        let text = format!("{memory}memory\n{systemd}name=systemd\n");
        self.put("proc/self/mountinfo", &text);
        self.put(
            "proc/self/cgroup",
            "4:memory:/system.slice/zmeld-guard.service\n",
        );
        fs::remove_file(self.dir.path().join(GROUPS).join("cgroup.controllers")).unwrap();
        self.put(&format!("{GROUPS}/systemd/system.slice/cgroup.procs"), "");
        self.put(&format!("{GROUPS}/memory/memory.limit_in_bytes"), "-1\n");
        self.write();
    }

    fn rule(&mut self, rule: &str, dry_run: bool) {
        (self.guard, self.says) = guard(&self.host, rule, dry_run);
    }

    fn put(&self, path: &str, text: &str) {
        let before = self
            .written
            .borrow_mut()
            .insert(path.to_owned(), text.to_owned());
        if before.as_deref() != Some(text) {
            put(self.dir.path(), path, text);
        }
    }

    /// It is there, with all above it.
    fn group(&mut self, group: &str) {
        let all = Path::new(group)
            .ancestors()
            .filter(|it| !it.as_os_str().is_empty());
        for group in all.map(|it| it.to_str().unwrap().to_owned()) {
            if self.groups.insert(group.clone()) && !group.starts_with('/') && !self.is_v1 {
                fs::create_dir_all(self.dir.path().join(GROUPS).join(group)).unwrap();
            }
        }
    }

    /// NAME:MIB:ADJ:UID
    fn add(&mut self, group: &str, process: &str) {
        self.group(group);
        let words: Vec<&str> = process.split(':').collect();
        let number = |at: usize| {
            words
                .get(at)
                .and_then(|it| it.parse::<i64>().ok())
                .unwrap_or(0)
        };
        for name in names(words[..1].iter().copied()) {
            let process = Process {
                child: start_process(&name),
                group: group.to_owned(),
                mib: number(1) as u64,
                adjusted: number(2),
                uid: number(3) as u32,
            };
            assert!(self.processes.insert(name, process).is_none());
        }
    }

    /// Those that have the same memory.
    fn shared(&self) -> impl Iterator<Item = &Process> {
        let all = self.processes.iter();
        all.filter(|(name, _)| name.contains("shared"))
            .map(|it| it.1)
    }

    /// Writes all that follows from what processes hold.
    fn write(&self) {
        let mut anon: BTreeMap<&Path, u64> = BTreeMap::new();
        let mut shmem: BTreeMap<&Path, u64> = BTreeMap::new();
        let mut lists: BTreeMap<&str, String> = BTreeMap::new();
        let has_own = |it: &Process| !self.shared().skip(1).any(|of| std::ptr::eq(it, of));
        for (name, it) in &self.processes {
            for group in Path::new(&it.group).ancestors().filter(|_| has_own(it)) {
                *anon.entry(group).or_default() += it.mib;
            }
            let pid = it.child.id();
            *lists.entry(&it.group).or_default() += &format!("{pid}\n");
            let kib = it.mib << 10;
            // The kernel shows so much of a name.
            let shown = &name[..name.len().min(15)];
            let own = if name.contains("init") {
                format!("\t{pid}\t1")
            } else {
                format!("\t{pid}")
            };
            let status = format!(
                "Name:\t{shown}\nPPid:\t2\nUid:\t{0}\t{0}\t{0}\t{0}\nNSpid:{own}\n",
                it.uid
            );
            let (half, quarter) = (kib / 2, kib / 4);
            let files = if name.contains("files") { kib } else { 0 };
            let memory = format!(
                "VmRSS:\t{kib} kB\nRssAnon:\t{half} kB\nRssShmem:\t{files} kB\n\
                 VmSwap:\t{quarter} kB\nVmPTE:\t{quarter} kB\n"
            );
            let whole = format!("State:\tS (sleeping)\n{status}{memory}");
            let process = format!("proc/{pid}");
            let ended = format!("State:\tZ (zombie)\n{status}");
            if name.contains("zombie") {
                self.put(&format!("{process}/status"), &ended);
            } else if name.contains("headless") {
                self.put(&format!("{process}/status"), &ended);
                self.put(&format!("{process}/statm"), "0 0 0 0 0 0 0\n");
                self.put(&format!("{process}/task/{pid}/status"), &ended);
                self.put(&format!("{process}/task/9{pid}/status"), &whole);
            } else {
                self.put(&format!("{process}/status"), &whole);
                let pages = kib / 4;
                self.put(
                    &format!("{process}/statm"),
                    &format!("{pages} {pages} 0 0 0 0 0\n"),
                );
            }
            let group = it.group.trim_start_matches('/');
            let group = match self.is_v1 {
                true => {
                    let listed = if is_dockers(group) {
                        "system.slice/containerd.service"
                    } else {
                        group
                    };
                    format!("4:memory:/{}\n1:name=systemd:/{listed}\n", counted(group))
                }
                false => format!("0::/{group}\n"),
            };
            if name.contains("deep") {
                // As the kernel does not tell a path of more than 4,096 bytes.
                let link = self.dir.path().join(&process).join("cgroup");
                let _ = std::os::unix::fs::symlink("e".repeat(300), link);
            } else {
                self.put(&format!("{process}/cgroup"), &group);
            }
            let began = match () {
                () if name.contains("anew") => 900_000,
                () if name.contains("tick") => 100_000,
                () => 1_000,
            };
            let fields = "0 ".repeat(18);
            self.put(
                &format!("{process}/stat"),
                &format!("{pid} (x) S {fields}{began} 0\n"),
            );
            // As the kernel has it since 5.9.
            let points = (1000 + it.mib as i64 + it.adjusted) * 2 / 3;
            let is_never = it.adjusted == -1000 || name.contains("zombie");
            let score = if is_never { 0 } else { points };
            self.put(&format!("proc/{pid}/oom_score"), &format!("{score}\n"));
            self.put(
                &format!("proc/{pid}/oom_score_adj"),
                &format!("{}\n", it.adjusted),
            );
        }
        for (group, mib) in &self.files {
            for group in Path::new(group).ancestors() {
                *shmem.entry(group).or_default() += mib;
            }
        }
        for group in &self.groups {
            let of = |all: &BTreeMap<&Path, u64>| all.get(Path::new(group)).unwrap_or(&0) * MIB;
            let below = if group == "/" { "" } else { group };
            let (anon, shmem) = (of(&anon), of(&shmem));
            let listed = lists.get(group.as_str()).map_or("", |it| it);
            if self.is_v1 {
                if !is_dockers(below) {
                    self.put(&format!("{GROUPS}/systemd/{below}/cgroup.procs"), listed);
                }
                if counted(group) == group {
                    let stat = format!("rss 0\nshmem 0\ntotal_rss {anon}\ntotal_shmem {shmem}\n");
                    self.put(&format!("{GROUPS}/memory/{below}/memory.stat"), &stat);
                    let own = if group == "/" { listed } else { "" };
                    self.put(&format!("{GROUPS}/memory/{below}/cgroup.procs"), own);
                }
                continue;
            }
            let file = |name: &str, text: &str| self.put(&format!("{GROUPS}/{below}/{name}"), text);
            let stat = format!("anon {anon}\ninactive_file 7\nshmem {shmem}\n");
            if group != "/" {
                file("memory.stat", &stat);
                file("memory.swap.current", "0\n");
                file("memory.current", &format!("{}\n", anon + shmem + 7));
            }
            file("cgroup.procs", listed);
        }
        let programs = self.processes.values().filter(|it| has_own(it));
        let programs: u64 = programs.map(|it| it.mib).sum();
        let files: u64 = self.files.values().sum();
        let available = self
            .available
            .unwrap_or(950_u64.saturating_sub(programs + files));
        self.put(
            "proc/meminfo",
            &format!(
                "{}\nMemTotal: 1024000 kB\nMemFree: 0 kB\nMemAvailable: {} kB\nAnonPages: {} kB\n\
                 Shmem: {} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
                self.line.replace("\\n", "\n"),
                available << 10,
                programs << 10,
                files << 10
            ),
        );
    }

    /// So many looks.
    fn looks(&mut self, count: u32, apart: Duration) -> Vec<String> {
        let before = self.said.len();
        for _ in 0..count {
            self.write();
            self.now += apart;
            let pause = self.guard.look(self.now);
            self.reap();
            self.looked += 1;
            let when = format!(" [look {}, next in {} ms]", self.looked, pause.as_millis());
            let said = self.says.lock().unwrap().drain(..).collect::<Vec<_>>();
            self.said.extend(said.into_iter().map(|it| it + &when));
        }
        self.said[before..].to_vec()
    }

    /// Those that were signalled are gone, with what they held.
    fn reap(&mut self) {
        let is_told = |it: &Process| {
            let status = fs::read_to_string(format!("/proc/{}/status", it.child.id()));
            let status = status.unwrap_or_default();
            let mut pending = status.lines().filter(|line| line.contains("Pnd:"));
            let is_asleep = status.contains("State:\tS");
            let is_told = !is_asleep || pending.any(|it| !it.ends_with("0000000000000000"));
            is_told && !status.contains("State:\tZ")
        };
        while self.processes.values().any(is_told) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(1));
        let names: Vec<String> = self.processes.keys().cloned().collect();
        for name in names {
            let process = self.processes.get_mut(&name).unwrap();
            if let Some(status) = process.child.try_wait().unwrap() {
                let _ = fs::remove_dir_all(
                    self.dir.path().join(format!("proc/{}", process.child.id())),
                );
                self.ended
                    .insert(name.clone(), status.signal().unwrap_or(0));
                self.processes.remove(&name);
            }
        }
    }

    fn grows(&mut self, mib: u64, names: &[String]) -> Vec<String> {
        let before = self.said.len();
        for _ in 0..300 {
            for name in names {
                if let Some(it) = self.processes.get_mut(name) {
                    it.mib += (mib / 5).max(1);
                }
            }
            self.looks(1, Duration::from_millis(200));
            let used: u64 = self.processes.values().map(|it| it.mib).sum();
            if !self.ended.is_empty() && used < 700 || used > 1000 {
                break;
            }
        }
        self.looks(2, Duration::from_millis(200));
        self.said[before..].to_vec()
    }
}

/// The names of p*3, or the name.
fn names<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let of = |word: &str| match word.split_once('*') {
        Some((name, count)) => {
            let count: usize = count.parse().unwrap();
            (1..=count).map(|at| format!("{name}{at}")).collect()
        }
        None => vec![word.to_owned()],
    };
    words.flat_map(of).collect()
}

impl script::Case for Machine {
    fn root(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Nothing is written.
    fn recorded(&self) -> Vec<String> {
        Vec::new()
    }

    /// Process numbers are the machine's own, and so is which of equal processes comes first: after
    /// the highest number they begin anew.
    fn lasting(&self, _what: &str, line: &str) -> String {
        let words = line.split(' ').map(|word| {
            let is_pid = word.starts_with('(') && word.contains(|it: char| it.is_ascii_digit());
            if is_pid || word.starts_with("decoy") {
                return "N";
            }
            let is_name = word.starts_with(char::is_alphabetic)
                && word.chars().all(|it| it.is_ascii_alphanumeric());
            match is_name {
                true => word.trim_end_matches(|it: char| it.is_ascii_digit()),
                false => word,
            }
        });
        Vec::from_iter(words).join(" ")
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| -> u64 { words[at].parse().unwrap() };
        self.looked = 0;
        match what {
            "version-1" => self.have_version_1(),
            "rule" => self.rule(&script.text(rest), false),
            "dry" => self.rule(&script.text(rest), true),
            "in" => {
                self.group(words[0]);
                words[1..].iter().for_each(|it| self.add(words[0], it));
            }
            "files" => {
                self.group(words[0]);
                self.files.insert(words[0].to_owned(), number(1));
            }
            "takes" => self.processes.get_mut(words[0]).unwrap().mib = number(1),
            "moves" => {
                self.group(words[1]);
                self.processes.get_mut(words[0]).unwrap().group = words[1].to_owned();
            }
            "grows" => {
                let names = names(words[1..].iter().copied());
                return self.grows(number(0), &names).into_iter().collect();
            }
            "available" => self.available = Some(number(0)),
            "memory" => self.line = rest.to_owned(),
            "look" | "tenths" => {
                let ms = if what == "look" { 1000 } else { 100 };
                let said = self.looks(number(0) as u32, Duration::from_millis(ms));
                return said.into_iter().collect();
            }
            "stalls" => {
                let mut said = Vec::new();
                for _ in 0..number(0) {
                    self.stalled_us += 700_000;
                    let line = format!(
                        "avg10=0.00 avg60=0.00 avg300=0.00 total={}",
                        self.stalled_us
                    );
                    self.put(
                        "proc/pressure/memory",
                        &format!("some {line}\nfull {line}\n"),
                    );
                    said.extend(self.looks(1, Duration::from_secs(1)));
                }
                return said.into_iter().collect();
            }
            "ends" => {
                let expected: BTreeSet<String> = names(words.iter().copied()).into_iter().collect();
                let ended: BTreeSet<String> = self.ended.keys().cloned().collect();
                assert_eq!(ended, expected, "{place}: {:#?}", self.said);
            }
            "by" => {
                let signal = if words[0] == "TERM" { TERM } else { KILL };
                for name in names(words[1..].iter().copied()) {
                    let by = self.ended.get(&name).copied();
                    assert_eq!(by, Some(signal), "{place}: {name}: {:#?}", self.said);
                }
            }
            "some-ended" => {
                let count = self
                    .ended
                    .keys()
                    .filter(|it| it.starts_with(words[1]))
                    .count();
                assert_eq!(count as u64, number(0), "{place}: {:#?}", self.said);
            }
            "noted" => {
                let text = fs::read(self.root().join("run/zmeld/guard.json")).unwrap();
                let note: serde_json::Value = serde_json::from_slice(&text).unwrap();
                let is_short = self.root().join("run/zmeld/short").exists();
                let told = format!("{}, short: {is_short}", note["told"]);
                return [told].into_iter().collect();
            }
            "marks" => {
                let group = self.root().join(GROUPS).join(rest);
                let mark = |name: &str| {
                    let mut text = [0; 16];
                    let length = rustix::fs::getxattr(&group, name, &mut text[..]).unwrap_or(0);
                    format!("{name} {}", String::from_utf8_lossy(&text[..length]))
                };
                return ["user.oomd_ooms", "user.oomd_kill"]
                    .map(mark)
                    .into_iter()
                    .collect();
            }
            "overview" => {
                self.write();
                let rule = rule_of(&script.text(rest).replace("\\n", "\n"));
                return zmeld_guard::overview(&self.host, &rule)
                    .unwrap()
                    .into_iter()
                    .collect();
            }
            _ => panic!("{place}: there is no such step"),
        }
        Outcome::default()
    }
}

fn rule_of(text: &str) -> GuardRule {
    toml::from_str(text).unwrap()
}

/// Writes over what is there, as the kernel would: files that are open stay so.
fn put(root: &Path, path: &str, text: &str) {
    let path = Path::new(path);
    Host::at(root).plant(path.strip_prefix(root).unwrap_or(path), text);
}

/// A guard with threads of its own; one that hangs when it begins is left behind.
fn start(machine: &Machine, rule: &str, say: impl FnMut(String) + Send + 'static) {
    let rule = rule_of(rule);
    let host = machine.host.clone();
    std::thread::spawn(move || zmeld_guard::start(host, rule, false, say));
}

#[test]
fn each_case_comes_out_as_it_says() {
    script::run("cases.txt", Machine::new);
}

/// Each tree has three stories of who grows, and whom a person would end.
#[test]
fn on_each_tree_they_are_ended_whom_a_person_would_end() {
    script::run("trees.txt", Machine::new);
    script::run("trees.txt", || {
        let mut machine = Machine::new();
        machine.have_version_1();
        machine
    });
}

/// While memory is short a look takes none, nor does waiting for one that was told to end.
#[test]
fn who_looks_neither_takes_nor_frees_memory() {
    let mut machine = Machine::new();
    machine.add(
        "user.slice/user-1000.slice/session-1.scope",
        "deaf*20:40:0:1000",
    );
    machine.add("system.slice/a.service", "other:50");
    machine.write();
    let rule = rule_of("grace = \"1s\"");
    let mut guard = GuardLoop::new(machine.host.clone(), rule, false, true, |_| {}).unwrap();
    let mut now = machine.now;
    let begin = Instant::now();
    let noted = machine.dir.path().join("run/zmeld/guard.json");
    let has_ended =
        || fs::read_to_string(&noted).is_ok_and(|it| it.contains("\"process\": \"deaf"));
    while !has_ended() {
        now += Duration::from_millis(200);
        let taken = allocation_counter::measure(|| {
            guard.look(now);
        });
        assert_eq!(
            (taken.count_total, taken.count_current),
            (0, 0),
            "{:?}",
            begin.elapsed()
        );
        machine.reap();
        if begin.elapsed() > Duration::from_secs(1) {
            machine.available = Some(30);
        }
        machine.write();
        assert!(begin.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(machine.processes.contains_key("other"));
}

/// Whether this is a root that cannot become nobody, as in a container.
fn is_confined() -> bool {
    use std::os::unix::process::CommandExt;
    let as_nobody = || Command::new("true").uid(65534).status();
    let is_confined = rustix::process::geteuid().is_root() && as_nobody().is_err();
    if is_confined {
        eprintln!("SKIP: this root cannot become nobody");
    }
    is_confined
}

#[test]
fn arguments_are_told_from_what_is_none() {
    for (arguments, code, expected) in [
        (
            &["--help"][..],
            0,
            "Usage: zmeld-guard [--dry-run] [--config FILE]\n",
        ),
        (&["-h"], 0, "Usage: "),
        (
            &["--version"],
            0,
            concat!("zmeld-guard ", env!("CARGO_PKG_VERSION"), "\n"),
        ),
        (
            &["--dry-run", "--config"],
            2,
            "zmeld-guard: --config needs a file; see --help\n",
        ),
        (
            &["--dry"],
            2,
            "zmeld-guard: there is no argument \"--dry\"; see --help\n",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zmeld-guard"));
        let done = command.args(arguments).output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert_eq!(done.status.code(), Some(code), "{said}");
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn what_is_needed_is_told_from_what_may_be_ended() {
    for (pattern, is_so) in [
        ("/init.scope", true),
        ("/system.slice/dbus.service/below", true),
        ("/system.slice", false),
        ("init.scope", false),
    ] {
        let is_never = zmeld_guard::is_never_ended(&pattern.parse().unwrap());
        assert_eq!(is_never, is_so, "{pattern}");
    }
}

/// Only root may end what others run; what is missing has its own exit code.
#[test]
fn without_root_it_refuses_in_one_line_and_says_what_it_would_do() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if is_confined() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // `nobody` can run it there.
    let program = folder.path().join("zmeld-guard");
    // Not by this process: a child of another test would have it open for writing.
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_zmeld-guard")).arg(&program);
    assert!(copy.status().unwrap().success());
    let run = |config: &str, arguments: &[&str]| {
        let file = folder.path().join("zmeld.toml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new("timeout");
        command.arg("3").arg(&program).arg("--config").arg(&file);
        command.args(arguments);
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, said) = run("[watch.guard]\n", &[]);
    assert_eq!((code, said.lines().count()), (Some(3), 1), "{said}");
    assert!(said.contains("needs root"), "{said}");
    let (code, said) = run("", &[]);
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
    assert!(said.contains("zmeld-guard --dry-run"), "{said}");
    for (config, place) in [
        (
            "[watch.gard]\n",
            "1:8: watch.gard: there is no such key; did you mean \"guard\"?",
        ),
        (
            "\n[wacth.guard]\n",
            "2:2: wacth: there is no such key; did you mean \"watch\"?",
        ),
        (
            "[watch]\ndryrun = true\n",
            "2:1: watch.dryrun: there is no such key; did you mean \"dry_run\"?",
        ),
        (
            "[watch.guard]\nprotcet = []\n",
            "2:1: watch.guard.protcet: there is no such key; did you mean \"protect\"?",
        ),
        ("[watch.guard]\ngrace = 3\n", "2:9: watch.guard.grace: "),
        (
            "[watch.guard]\nend_below = \"16%\"\n",
            "2:13: watch.guard.end_below: 16% is more than room_below",
        ),
        ("watch.guard = true\n", "1:15: watch.guard: "),
        ("watch.guard\n", "1:12: "),
    ] {
        for arguments in [&[][..], &["--dry-run"]] {
            let (code, said) = run(config, arguments);
            assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
            assert!(said.contains(&format!("zmeld.toml:{place}")), "{said}");
        }
    }
    // Faults elsewhere leave no machine unguarded.
    let elsewhere =
        "[tier.x]\nkind = 7\n[tier.y]\n[tunables]\nswapines = 3\n[watch.meld]\nevery = 1\n";
    let (code, said) = run(&format!("{elsewhere}[watch.guard]\n"), &[]);
    assert_eq!(code, Some(3), "{said}");
    // By the defaults, or where all rules are dry; it goes on, until it is ended.
    let dry = "[watch]\ndry_run = true\n[watch.guard]\n";
    for (config, arguments) in [("", &["--dry-run"][..]), (dry, &[])] {
        let (code, said) = run(config, arguments);
        assert_eq!(code, Some(124), "{said}");
        assert!(said.contains(" holds "), "{said}");
        assert!(said.contains("; Ctrl-C ends it\n"), "{said}");
    }
}

/// Its child is nobody's, and knows what was ended.
#[test]
fn what_is_told_of_an_end_runs_as_nobody() {
    use std::os::unix::fs::PermissionsExt;
    let is_root = rustix::process::geteuid().is_root();
    if is_confined() {
        return;
    }
    let mut machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let told = folder.path().join("told");
    let script = format!(
        "echo $ZMELD_PROCESS $ZMELD_OWNER $(id -u) $(nice) $(cat /proc/self/oom_score_adj) >{}",
        told.display()
    );
    machine.rule(
        &format!("on_end = [\"/bin/sh\", \"-c\", \"{script}\"]"),
        false,
    );
    machine.add("system.slice/a.service", "leak:800");
    machine.available = Some(40);
    machine.looks(4, Duration::from_secs(1));
    let is_told = || fs::read_to_string(&told).is_ok_and(|it| it.ends_with('\n'));
    while !is_told() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let user = if is_root {
        65534
    } else {
        rustix::process::geteuid().as_raw()
    };
    let said = fs::read_to_string(&told).unwrap();
    assert!(
        said.starts_with(&format!("leak /system.slice/a.service {user} ")),
        "{said}"
    );
    assert!(said.ends_with(" 0\n"), "{said}");
}

/// Whoever makes groups makes finding them take as long as he likes.
#[test]
fn finding_that_hangs_keeps_it_from_nothing() {
    let mut machine = Machine::new();
    machine.add("system.slice/a.service", "deaf:400");
    machine.add("system.slice/b.service", "other:50");
    machine.available = Some(20);
    machine.write();
    let other = machine.processes["other"].child.id();
    let path = |name: &str| machine.dir.path().join(name);
    // Nobody writes into it: whoever reads it waits.
    let hang = |pipe: &Path| {
        fs::remove_file(pipe).unwrap();
        Command::new("mkfifo").arg(pipe).status().unwrap();
    };
    hang(&path("proc/swaps"));
    let (pipe, said) = (path(&format!("proc/{other}/cgroup")), Said::default());
    let says = Arc::clone(&said);
    let say = move |text: String| {
        if text.contains("ends deaf") {
            hang(&pipe);
        }
        says.lock().unwrap().push(text);
    };
    start(&machine, "grace = \"1s\"", say);
    let deaf = &mut machine.processes.get_mut("deaf").unwrap().child;
    assert_eq!(deaf.wait().unwrap().signal(), Some(KILL));
    let said = said.lock().unwrap().join("\n");
    // No command runs on this machine.
    assert!(said.contains("without a real-time priority: "), "{said}");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().find(|it| it.starts_with("VmLck:")).unwrap();
    let is_locked = !locked.ends_with(" 0 kB");
    assert_ne!(is_locked, said.contains("may be swapped out"), "{said}");
}

/// Its unit may take 128 MiB.
#[test]
fn many_groups_of_long_names_take_little_memory_and_hide_nobody() {
    let mut machine = Machine::new();
    let long = ["a".repeat(250), "b".repeat(250), "c".repeat(250)].join("/");
    let own = "user.slice/user-1000.slice/user@1000.service";
    let many = machine.dir.path().join(format!("{GROUPS}/{own}/{long}"));
    for number in 0..8_300 {
        fs::create_dir_all(many.join(format!("{number}-{}", "d".repeat(150)))).unwrap();
    }
    // With paths of up to 112,500 bytes.
    let mut folder = fs::File::open(machine.dir.path().join(format!("{GROUPS}/{own}"))).unwrap();
    for depth in 0..450 {
        use std::os::fd::AsRawFd;
        let below = "e".repeat(250);
        let below = format!("/proc/self/fd/{}/{below}", folder.as_raw_fd());
        fs::create_dir(&below).unwrap();
        let gone = format!("{}\n", 4_200_000 + depth);
        fs::write(format!("{below}/cgroup.procs"), gone).unwrap();
        folder = fs::File::open(&below).unwrap();
    }
    machine.add(own, "runaway:600:0:1000");
    machine.add(
        "user.slice/user-1001.slice/session-1.scope",
        "other:200:0:1001",
    );
    machine.available = Some(30);
    let taken = allocation_counter::measure(|| {
        machine.looks(4, Duration::from_secs(1));
    });
    assert!(taken.bytes_max < 32 * MIB, "{} MiB", taken.bytes_max / MIB);
    assert_eq!(
        machine.ended.keys().collect::<Vec<_>>(),
        ["runaway"],
        "{:?}",
        machine.said
    );
}

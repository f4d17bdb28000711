//! `[watch.guard]` on a machine made of files, whose groups hold real processes: who is
//! ended, when, and how, and who never is. Most cases are in `cases.txt`, whose steps are:
//!
//! ```text
//! rule TEXT                    a guard of that rule begins; `dry`: one that only tells
//! threads TEXT                 one with threads of its own; `unread`: nobody reads what it says
//! group NAME MIB PROCESS...    a group that takes so much, with those processes; p*3 is p1,
//!                              p2 and p3; one with "deaf" in its name ignores SIGTERM
//! groups PREFIX COUNT MIB      as many, of one process each, which has the group's name
//! procs NAME PROCESS...        a group that is not counted
//! takes NAME MIB               takes so much from now on; `all-take PREFIX COUNT MIB`
//! leaves NAME                  has no process any more
//! many NAME                    has more groups than are looked at
//! available MIB                so much is to be had
//! memory MIB MIB LINE          the same, what programs take, and another line
//! look SECONDS                 so many looks, a second apart: what is said; `tenths COUNT`
//! stalls SECONDS               the same, while nothing goes on in seven tenths of the time
//! ends SECONDS NAME            so many looks, and it is said that this group is ended
//! lives PROCESS...             they run
//! ended SIGNAL PROCESS...      they were ended by it
//! some-ended COUNT PREFIX COUNT  so many of those `groups`, which leave, and no other
//! noted                        what the guard noted, and how many groups it follows
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zmeld_guard::{GuardLoop, Rule};
use zmeld_linux::Host;

#[path = "../../zmeld-setup/tests/script/mod.rs"]
mod script;

use script::{Outcome, Script};

const MIB: u64 = 1 << 20;
const TERM: i32 = 15;
const KILL: i32 = 9;

const ONE: &str = "user.slice/user-1000.slice";
const USER: &str = "user.slice/user-1000.slice/user@1000.service";
const OTHER: &str = "user.slice/user-1001.slice/user@1001.service/app.slice";
const TWO: &str = "user.slice/user-1001.slice";

const MANY_GROUPS: usize = 8_300;

/// A machine with 1,000 MiB of RAM.
struct Machine {
    dir: tempfile::TempDir,
    host: Host,
    guard: GuardLoop,
    now: Instant,
    says: Said,
    said: Vec<String>,
    processes: BTreeMap<String, Process>,
    stalled_us: u64,
}

/// What the guard says.
type Said = Arc<Mutex<Vec<String>>>;

fn guard(host: &Host, rule: &str, dry_run: bool) -> (GuardLoop, Said) {
    let said = Said::default();
    let says = Arc::clone(&said);
    let say = move |text| says.lock().unwrap().push(text);
    let guard = GuardLoop::new(host.clone(), rule_of(rule), dry_run, false, say);
    (guard.unwrap(), said)
}

/// A process in a group, which ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Until it says so, signals find it as it was begun.
        let mut said = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        Process(child)
    }

    fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < Duration::from_secs(600), "it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.0.wait().unwrap()
    }
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        for (path, text) in [
            (
                "proc/self/mountinfo",
                "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
            ),
            ("proc/self/cgroup", "0::/system.slice/zmeld-guard.service\n"),
            ("proc/uptime", "1000.00 1.00\n"),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/swaps", "Filename Type Size Used Priority\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ] {
            put(dir.path(), path, text);
        }
        put(dir.path(), "proc/meminfo", &meminfo(500, 400, ""));
        let (guard, says) = guard(&host, "", false);
        let mut machine = Machine {
            dir,
            host,
            guard,
            says,
            now: Instant::now(),
            said: Vec::new(),
            processes: BTreeMap::new(),
            stalled_us: 0,
        };
        machine.group("system.slice", 0, &[]);
        machine.group("system.slice/zmeld-guard.service", 1, &[]);
        machine
    }

    /// Whose users' programs may be ended.
    fn of_users() -> Machine {
        let mut machine = Machine::new();
        machine.rule("end = [\"/user.slice\"]\n", false);
        machine.group("user.slice", 0, &[]);
        machine
    }

    fn rule(&mut self, rule: &str, dry_run: bool) {
        (self.guard, self.says) = guard(&self.host, rule, dry_run);
    }

    fn put(&self, path: &str, text: &str) {
        put(self.dir.path(), path, text);
    }

    /// Where a group's files are, whose name may begin with one of those above.
    fn folder(&self, group: &str) -> PathBuf {
        let places = [("ONE", ONE), ("TWO", TWO), ("USER", USER), ("OTHER", OTHER)];
        let (first, below) = group.split_once('/').unwrap_or((group, ""));
        let place = places.iter().find(|(name, _)| *name == first);
        let groups = self.dir.path().join("sys/fs/cgroup");
        match place {
            Some((_, place)) => groups.join(place).join(below),
            None => groups.join(group),
        }
    }

    fn file(&self, group: &str, name: &str, text: &str) {
        let path = self.folder(group).join(name);
        put(self.dir.path(), path.to_str().unwrap(), text);
    }

    fn name(&self, group: &str) -> String {
        let groups = self.dir.path().join("sys/fs/cgroup");
        let path = self.folder(group);
        let name = path.strip_prefix(groups).unwrap();
        name.to_str().unwrap().trim_end_matches('/').to_owned()
    }

    /// A group that takes so much, with those processes. Those at the top are there.
    fn group(&mut self, group: &str, mib: u64, processes: &[&str]) {
        let name = self.name(group);
        let top = name.split('/').next().unwrap();
        if top != name && !self.folder(top).join("memory.stat").exists() {
            self.group(top, 0, &[]);
        }
        self.file(group, "memory.swap.current", "0\n");
        self.takes(group, mib);
        self.procs(group, processes);
    }

    fn procs(&mut self, group: &str, processes: &[&str]) {
        let name = self.name(group);
        let mut all = String::new();
        for process in processes {
            let id = self.process(process).0.id();
            all += &format!("{id}\n");
            self.put(&format!("proc/{id}/cgroup"), &format!("0::/{name}\n"));
        }
        self.file(group, "cgroup.procs", &all);
    }

    /// The process of that name, which is started where there is none.
    fn process(&mut self, name: &str) -> &mut Process {
        let start = || match name.contains("deaf") {
            true => Process::start("trap '' TERM; echo; exec sleep 1000"),
            false => Process::start("echo; exec sleep 1000"),
        };
        self.processes.entry(name.to_owned()).or_insert_with(start)
    }

    fn lives(&mut self, name: &str) -> bool {
        self.process(name).0.try_wait().unwrap().is_none()
    }

    /// What ended it; another one of its name may be started then.
    fn ended(&mut self, name: &str) -> Option<i32> {
        self.processes.remove(name).unwrap().ended().signal()
    }

    fn takes(&self, group: &str, mib: u64) {
        let stat = format!("anon {}\nfile 7\nkernel 0\nshmem 0\n", mib * MIB);
        self.file(group, "memory.stat", &stat);
        self.file(group, "memory.current", &format!("{}\n", mib * MIB));
    }

    fn leaves(&self, group: &str) {
        self.file(group, "cgroup.procs", "");
    }

    /// So many MiB are to be had.
    fn available(&self, mib: u64) {
        self.memory(mib, 900 - mib, "");
    }

    fn memory(&self, available_mib: u64, programs_mib: u64, more: &str) {
        let text = meminfo(available_mib, programs_mib, more);
        self.put("proc/meminfo", &text);
    }

    /// More groups below one than are looked at; one in `every` has a long name of no text.
    fn fills(&self, group: &str, every: usize) {
        use std::os::unix::ffi::OsStringExt;
        let group = self.folder(group);
        for number in 0..MANY_GROUPS {
            let mut name = format!("{number}").into_bytes();
            if number % every == 0 {
                name.resize(255, 0xff);
            }
            fs::create_dir_all(group.join(std::ffi::OsString::from_vec(name))).unwrap();
        }
    }

    /// So many looks, a second apart.
    fn look(&mut self, seconds: u32) -> String {
        self.looks(seconds, Duration::from_secs(1)).join("\n")
    }

    fn looks(&mut self, count: u32, apart: Duration) -> Vec<String> {
        let before = self.said.len();
        for _ in 0..count {
            self.now += apart;
            self.guard.look(self.now);
            let said = self.says.lock().unwrap().drain(..).collect::<Vec<_>>();
            let begins = "it follows this machine's memory";
            let said = said.into_iter().filter(|text| !text.starts_with(begins));
            self.said.extend(said);
        }
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

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| -> u64 { words[at].parse().unwrap() };
        let every = |at: usize| {
            names(
                [format!("{}*{}", words[at], words[at + 1])]
                    .iter()
                    .map(|it| &**it),
            )
        };
        match what {
            "rule" | "dry" => self.rule(&script.text(rest), what == "dry"),
            "threads" => start(self, &script.text(rest), |_| {}),
            "unread" => {
                let (nobody, waits) = std::sync::mpsc::channel::<()>();
                std::mem::forget(nobody);
                let say = move |_| waits.recv().unwrap_or_default();
                start(self, &script.text(rest), say);
            }
            "group" => {
                let all = names(words[2..].iter().copied());
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                self.group(words[0], number(1), &all);
            }
            "procs" => self.procs(words[0], &words[1..]),
            "groups" => {
                for group in every(0) {
                    self.group(&group, number(2), &[&group]);
                }
            }
            "takes" => self.takes(words[0], number(1)),
            "all-take" => every(0).iter().for_each(|it| self.takes(it, number(2))),
            "leaves" => self.leaves(words[0]),
            "many" => self.fills(words[0], 2),
            "available" => self.available(number(0)),
            "memory" => self.memory(number(0), number(1), &words[2..].join(" ")),
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
                let name = format!("ends /{}: ", self.name(words[1]));
                let said = self.look(number(0) as u32);
                assert!(said.contains(&name), "{place}: {said}");
            }
            "lives" => {
                for name in names(words.iter().copied()) {
                    assert!(self.lives(&name), "{place}: {name}: {:?}", self.said);
                }
            }
            "ended" => {
                let signal = if words[0] == "TERM" { TERM } else { KILL };
                for name in names(words[1..].iter().copied()) {
                    assert_eq!(self.ended(&name), Some(signal), "{place}: {name}");
                }
            }
            "some-ended" => {
                let said = self.said.join("\n");
                let is_told = |it: &String| said.contains(&format!("ends /{it}: "));
                let (told, others): (Vec<_>, Vec<_>) = every(1).into_iter().partition(is_told);
                assert_eq!(told.len() as u64, number(0), "{place}: {said}");
                for name in told {
                    assert_eq!(self.ended(&name), Some(TERM), "{place}: {name}");
                    self.leaves(&name);
                }
                assert!(others.iter().all(|it| self.lives(it)), "{place}: {said}");
            }
            "noted" => {
                let text = fs::read(self.root().join("run/zmeld/guard.json")).unwrap();
                let note: serde_json::Value = serde_json::from_slice(&text).unwrap();
                let followed = note["told"]["watched"].as_array().map_or(0, Vec::len);
                return [note["told"].to_string(), format!("followed: {followed}")]
                    .into_iter()
                    .collect();
            }
            _ => panic!("{place}: there is no such step"),
        }
        Outcome::default()
    }
}

fn meminfo(available_mib: u64, programs_mib: u64, more: &str) -> String {
    let (available, programs) = (available_mib << 10, programs_mib << 10);
    format!(
        "MemTotal: 1024000 kB\nMemFree: 0 kB\nMemAvailable: {available} kB\n\
         AnonPages: {programs} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n{more}\n"
    )
}

fn rule_of(text: &str) -> Rule {
    toml::from_str(text).unwrap()
}

/// Writes over what is there, as the kernel would: files that are open stay so.
fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn each_case_comes_out_as_it_says() {
    script::run("cases.txt", Machine::new);
}

/// While memory is short a look takes none, nor does waiting for one that was told to end.
#[test]
fn a_look_at_a_short_machine_takes_no_memory() {
    let mut machine = Machine::new();
    machine.rule("end = [\"/apps/*\"]\nend_below = \"3%\"\n", false);
    for number in 0..20 {
        machine.group(&format!("apps/{number}"), 10, &[&format!("deaf{number}")]);
    }
    machine.look(3);
    machine.available(80);
    assert!(machine.look(3).contains("memory is short"));
    let five_looks = |machine: &mut Machine| {
        let (guard, now) = (&mut machine.guard, machine.now);
        let taken = allocation_counter::measure(|| {
            for tenth in 1..=5 {
                guard.look(now + Duration::from_millis(100 * tenth));
            }
        });
        assert_eq!(taken.count_total, 0, "{taken:?}");
    };
    five_looks(&mut machine);
    machine.available(20);
    let said = machine.look(1);
    assert!(said.contains("SIGTERM to 1 process"), "{said}");
    five_looks(&mut machine);
}

/// Groups come and go, and are told of: other threads take the memory for it, free it,
/// and close their files.
#[test]
fn who_looks_neither_takes_nor_frees_memory() {
    let machine = Machine::new();
    let rule = rule_of("end = [\"/apps\"]");
    let mut guard = GuardLoop::new(machine.host.clone(), rule, false, true, |_| {}).unwrap();
    let mut now = machine.now;
    for turn in 0..10_i32 {
        for group in 0..20 {
            let group = format!("apps/{turn}-{group}");
            machine.takes(&group, 1);
            machine.file(&group, "cgroup.procs", "5000000\n");
        }
        let _ = fs::remove_dir_all(machine.folder(&format!("apps/{}-7", turn - 1)));
        now += Duration::from_secs(11);
        let taken = allocation_counter::measure(|| {
            guard.look(now);
        });
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!((taken.count_total, taken.count_current), (0, 0), "{turn}");
    }
    let note = fs::read_to_string(machine.dir.path().join("run/zmeld/guard.json")).unwrap();
    assert!(note.contains("\"/apps/1-"), "{note}");
}

/// The watch's unit may take 128 MiB.
#[test]
fn long_names_of_many_groups_take_little_memory() {
    let mut machine = Machine::of_users();
    let long = ["a".repeat(250), "b".repeat(250), "c".repeat(250)].join("/");
    machine.fills(&format!("{USER}/{long}/{}", "d".repeat(150)), 1);
    let taken = allocation_counter::measure(|| {
        machine.look(3);
    });
    let most_mib = taken.bytes_max / MIB;
    assert!(most_mib < 32, "{most_mib} MiB");
}

/// Who grows by little at a time, in as many groups as he likes, is who took it.
#[test]
fn what_grew_slowly_is_ended_and_not_the_largest() {
    let mut machine = Machine::of_users();
    machine.group("TWO/idle.scope", 300, &["idle"]);
    machine.group("TWO", 300, &[]);
    machine.group("ONE", 10, &[]);
    machine.group("ONE/a.scope", 10, &["own"]);
    machine.available(210);
    machine.look(12);
    for step in 1..=48 {
        machine.takes("ONE", 10 + 4 * step);
        machine.takes("ONE/a.scope", 10 + 4 * step);
        machine.available(210 - 4 * step);
        machine.look(7);
    }
    let said = machine.said.join("\n");
    assert!(said.contains(&format!("ends /{ONE}/a.scope")), "{said}");
    assert_eq!(machine.ended("own"), Some(TERM));
    assert!(machine.lives("idle"));
}

/// His groups are followed as one where what grows is in none that is known: he moves from
/// one to the next, and has none that could be ended in its place.
#[test]
fn who_moves_on_and_on_is_ended_with_all_that_he_has() {
    let mut machine = Machine::of_users();
    machine.group("ONE", 100, &[]);
    machine.group("OTHER/idle.scope", 300, &["idle"]);
    machine.group("ONE/0.scope", 50, &["moves"]);
    machine.look(2);
    machine.available(20);
    machine.file("ONE", "cgroup.events", "populated 1\n");
    for at in 0..8 {
        // Where he is by now nobody has looked.
        machine.takes("ONE", 200 + 20 * at);
        machine.leaves(&format!("ONE/{at}.scope"));
        machine.group(&format!("ONE/{}.scope", at + 1), 0, &["moves"]);
        machine.look(1);
        if !machine.lives("moves") {
            break;
        }
    }
    assert_eq!(machine.ended("moves"), Some(KILL), "{:?}", machine.said);
    assert!(machine.lives("idle"), "{:?}", machine.said);
}

/// No path leads there: what is too deep is killed from above, whatever is protected by its
/// name elsewhere.
#[test]
fn depth_is_no_place_to_hide() {
    let mut machine = Machine::new();
    let rule = "end = [\"/user.slice\"]\nprotect = [\"kept.scope\"]\ngrace = \"1s\"\n";
    machine.rule(rule, false);
    machine.group("ONE", 100, &[]);
    machine.group("ONE/kept.scope", 20, &["kept"]);
    let deep = format!("{ONE}/deep{}", "/d".repeat(200));
    let deep = Path::new(&deep);
    machine.group(deep.to_str().unwrap(), 100, &["deaf"]);
    let all = || deep.ancestors().take_while(|it| !it.as_os_str().is_empty());
    for group in all().map(|it| it.to_str().unwrap()) {
        machine.file(group, "cgroup.kill", "");
        if !machine.folder(group).join("cgroup.procs").exists() {
            machine.leaves(group);
        }
    }
    let takes = |machine: &Machine, mib: u64| {
        for group in all().filter(|it| it.starts_with(ONE)) {
            machine.takes(group.to_str().unwrap(), mib);
        }
    };
    takes(&machine, 100);
    machine.look(2);
    takes(&machine, 300);
    machine.available(20);
    let said = machine.look(4);
    assert!(said.contains(&format!("ends /{ONE}")), "{said}");
    let groups = machine.dir.path().join("sys/fs/cgroup");
    let kill = |at: &Path| fs::read_to_string(groups.join(at).join("cgroup.kill")).unwrap();
    let at = all().find(|it| kill(it) == "1");
    let at = at.unwrap_or_else(|| panic!("{said}"));
    assert!(at.starts_with(format!("{ONE}/deep/d")));
    assert!(machine.lives("kept") && machine.lives("deaf"));
}

/// Each group that is not looked into is remembered for a minute: of an owner who has many,
/// all are one.
#[test]
fn who_has_many_groups_that_are_not_looked_into_is_followed_as_one() {
    let mut machine = Machine::of_users();
    machine.group("ONE", 100, &[]);
    let long = ["x", "y", "z", "w"].map(|it| it.repeat(250)).join("/");
    for at in 0..100 {
        machine.group(&format!("ONE/{at}/{long}"), 1, &[]);
        machine.group(&format!("ONE/{at}/{long}/p"), 1, &["p"]);
    }
    machine.look(2);
    machine.available(90);
    // It chooses anew, however long choosing takes.
    machine.look(30);
    machine.available(20);
    let said = machine.look(4);
    assert!(said.contains(&format!("ends /{ONE}: ")), "{said}");
}

/// Whoever makes groups makes choosing them take as long as he likes.
#[test]
fn choosing_that_takes_long_keeps_it_from_nothing() {
    let mut machine = Machine::new();
    machine.group("a", 100, &["deaf1"]);
    machine.group("b", 100, &["deaf2"]);
    machine.available(20);
    let groups = machine.dir.path().join("sys/fs/cgroup");
    let say = move |text: String| {
        if text.contains("/a is killed") {
            put(&groups, "a/cgroup.procs", "");
            put(&groups, "c/memory.stat", "anon 1\n");
            // Nobody writes into it: whoever looks for processes waits.
            let pipe = groups.join("c/cgroup.procs");
            Command::new("mkfifo").arg(pipe).status().unwrap();
        }
    };
    let rule = "end = [\"/a\", \"/b\", \"/c\"]\ngrace = \"1s\"\n";
    start(&machine, rule, say);
    assert_eq!(machine.ended("deaf1"), Some(KILL));
    assert_eq!(machine.ended("deaf2"), Some(KILL));
}

/// A guard with threads of its own; one that hangs when it begins is left behind.
fn start(machine: &Machine, rule: &str, say: impl FnMut(String) + Send + 'static) {
    let rule = rule_of(rule);
    let host = machine.host.clone();
    std::thread::spawn(move || zmeld_guard::start(host, rule, false, say));
}

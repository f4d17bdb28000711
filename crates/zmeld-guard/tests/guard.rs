//! `[watch.guard]` on a machine made of files, whose groups hold real processes: who is
//! ended, when, and how, and who never is.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zmeld_guard::{Guard, GuardEvent, GuardLoop, Guarded, Rule};
use zmeld_linux::Host;

const MIB: u64 = 1 << 20;
const TERM: i32 = 15;
const KILL: i32 = 9;

/// A machine with 1,000 MiB of RAM.
struct Machine {
    dir: tempfile::TempDir,
    host: Host,
    guard: GuardLoop,
    now: Instant,
    says: Said,
    said: Vec<String>,
}

/// What the guard says.
type Said = Arc<Mutex<Vec<String>>>;

fn guard(host: &Host, rule: &str, dry_run: bool) -> (GuardLoop, Said) {
    let said = Said::default();
    let says = Arc::clone(&said);
    let say = move |event: GuardEvent| says.lock().unwrap().push(event.to_string());
    let guard = GuardLoop::new(host.clone(), rule_of(rule), dry_run, say);
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

    fn patient() -> Process {
        Process::start("echo; exec sleep 1000")
    }

    fn deaf() -> Process {
        Process::start("trap '' TERM; echo; exec sleep 1000")
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        while self.lives() {
            assert!(begin.elapsed() < Duration::from_secs(60), "it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.0.wait().unwrap()
    }
}

impl Machine {
    fn new(rule: &str) -> Machine {
        Machine::with(rule, false)
    }

    fn with(rule: &str, dry_run: bool) -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let put = |path: &str, text: &str| put(dir.path(), path, text);
        put(
            "proc/self/mountinfo",
            "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
        );
        put("proc/self/cgroup", "0::/system.slice/zmeld-guard.service\n");
        put("proc/uptime", "1000.00 1.00\n");
        put("proc/sys/kernel/random/boot_id", "boot-1\n");
        put("proc/swaps", "Filename Type Size Used Priority\n");
        put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        put("proc/meminfo", &meminfo(500));
        let (guard, says) = guard(&host, rule, dry_run);
        let mut machine = Machine {
            dir,
            host,
            guard,
            says,
            now: Instant::now(),
            said: Vec::new(),
        };
        machine.group("system.slice", 0, &[]);
        machine.group("system.slice/zmeld-guard.service", 1, &[]);
        machine
    }

    fn put(&self, path: &str, text: &str) {
        put(self.dir.path(), path, text);
    }

    /// A group that takes so much, with those processes.
    fn group(&mut self, group: &str, mib: u64, processes: &[&Process]) {
        let stat = format!("anon {}\nfile 7\nkernel 0\nshmem 0\n", mib * MIB);
        self.put(&format!("sys/fs/cgroup/{group}/memory.stat"), &stat);
        self.put(&format!("sys/fs/cgroup/{group}/memory.swap.current"), "0\n");
        self.put(
            &format!("sys/fs/cgroup/{group}/memory.current"),
            &format!("{}\n", mib * MIB),
        );
        let mut all = String::new();
        for process in processes {
            let id = process.0.id();
            all += &format!("{id}\n");
            self.put(&format!("proc/{id}/cgroup"), &format!("0::/{group}\n"));
        }
        self.put(&format!("sys/fs/cgroup/{group}/cgroup.procs"), &all);
    }

    fn takes(&self, group: &str, mib: u64) {
        let stat = format!("anon {}\nfile 7\nkernel 0\nshmem 0\n", mib * MIB);
        self.put(&format!("sys/fs/cgroup/{group}/memory.stat"), &stat);
        self.put(
            &format!("sys/fs/cgroup/{group}/memory.current"),
            &format!("{}\n", mib * MIB),
        );
    }

    fn leaves(&self, group: &str) {
        self.put(&format!("sys/fs/cgroup/{group}/cgroup.procs"), "");
    }

    /// So many MiB are to be had.
    fn available(&self, mib: u64) {
        self.put("proc/meminfo", &meminfo(mib));
    }

    /// So many empty groups below one; one in `every` has a long name of no text.
    fn fills(&self, group: &str, count: usize, every: usize) {
        use std::os::unix::ffi::OsStringExt;
        let group = self.dir.path().join("sys/fs/cgroup").join(group);
        for number in 0..count {
            let mut name = format!("{number}").into_bytes();
            if number % every == 0 {
                name.resize(255, 0xff);
            }
            fs::create_dir_all(group.join(std::ffi::OsString::from_vec(name))).unwrap();
        }
    }

    /// So many looks, a second apart.
    fn look(&mut self, seconds: u32) -> String {
        let before = self.said.len();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.guard.look(self.now);
            let said = self.says.lock().unwrap().drain(..).collect::<Vec<_>>();
            let begins = "it follows this machine's memory";
            let said = said.into_iter().filter(|text| !text.starts_with(begins));
            self.said.extend(said);
        }
        self.said[before..].join("\n")
    }
}

fn rule_of(text: &str) -> Rule {
    toml::from_str(text).unwrap()
}

/// What the guard noted.
fn noted(machine: &Machine) -> Option<Guarded> {
    let text = fs::read(machine.dir.path().join("run/zmeld/guard.json")).ok()?;
    let mut note: serde_json::Value = serde_json::from_slice(&text).unwrap();
    serde_json::from_value(note["told"].take()).unwrap()
}

fn meminfo(available_mib: u64) -> String {
    meminfo_of(available_mib, 900 - available_mib)
}

fn meminfo_of(available_mib: u64, programs_mib: u64) -> String {
    format!(
        "MemTotal: {} kB\nMemFree: 0 kB\nMemAvailable: {} kB\nAnonPages: {} kB\nSwapTotal: 0 kB\n\
         SwapFree: 0 kB\n",
        1000 << 10,
        available_mib << 10,
        programs_mib << 10
    )
}

/// Writes over what is there, as the kernel would: files that are open stay so.
fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_one_that_grew_is_told_to_end_and_nobody_else() {
    let (mut runaway, mut still) = (Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/apps\"]\nprotect = [\"kept\"]\n");
    let mut kept = Process::patient();
    machine.group("apps", 0, &[]);
    machine.group("apps/still", 400, &[&still]);
    machine.group("apps/runaway", 50, &[&runaway]);
    machine.group("apps/kept", 300, &[&kept]);
    assert_eq!(machine.look(3), "");
    machine.takes("apps/kept", 390);
    machine.takes("apps/runaway", 120);
    machine.available(90);
    let said = machine.look(1);
    assert!(
        said.starts_with("memory is short: programs can take 90.0 MiB more, 9.0 % of RAM"),
        "{said}"
    );
    assert!(machine.guard.is_short());
    assert!(runaway.lives() && still.lives() && kept.lives());
    machine.available(20);
    let said = machine.look(1);
    assert_eq!(
        said,
        "ends /apps/runaway: it holds 120 MiB, 70.0 MiB more than 10 s ago; programs can take \
         20.0 MiB more, 2.0 % of RAM, gone in 1 s (SIGTERM to 1 processes)"
    );
    assert_eq!(runaway.ended().signal(), Some(TERM));
    machine.leaves("apps/runaway");
    machine.available(500);
    let said = machine.look(1);
    assert!(
        said.contains("/apps/runaway ended after 1.0 s; programs can take 500 MiB more"),
        "{said}"
    );
    assert!(said.contains("memory is not short any more"), "{said}");
    assert_eq!(machine.look(30), "");
    assert!(still.lives() && kept.lives());

    let told = noted(&machine).expect("it is noted");
    assert_eq!((told.ended_total, told.is_short), (1, false));
    assert_eq!(told.ended[0].group, "/apps/runaway");
    assert_eq!(
        (told.ended[0].processes, told.ended[0].was_killed),
        (1, false)
    );
    assert_eq!(told.ended[0].took_ms, Some(1000));
    // Nothing is left in the other one to be ended.
    assert_eq!(told.watched, ["/apps/still"]);
    let protected: Vec<_> = told.protected.iter().map(|it| it.group.as_str()).collect();
    assert_eq!(protected, ["/apps/kept"]);
}

#[test]
fn one_that_does_not_listen_is_killed_when_its_grace_is_over() {
    let mut deaf = Process::deaf();
    let mut machine = Machine::new("end = [\"deaf\"]\nend_below = \"3%\"\ngrace = \"4s\"\n");
    machine.group("deaf", 50, &[&deaf]);
    machine.look(2);
    machine.takes("deaf", 400);
    machine.available(20);
    let said = machine.look(1);
    assert!(said.contains("ends /deaf"), "{said}");
    assert_eq!(machine.look(3), "");
    assert!(deaf.lives());
    let said = machine.look(1);
    assert!(
        said.contains("/deaf is killed (SIGKILL): it did not end within 4s"),
        "{said}"
    );
    assert_eq!(deaf.ended().signal(), Some(KILL));
}

/// There is no time to tell each, and each has begun two others by then.
#[test]
fn what_multiplies_is_killed_at_once_and_what_is_only_many_is_told() {
    let mut all: Vec<_> = (0..64).map(|_| Process::patient()).collect();
    let cases = [
        (64, 64, false),
        (10, 63, false),
        (33, 64, false),
        (0, 64, false),
        (30, 64, true),
    ];
    for (before, count, is_killed) in cases {
        let mut machine = Machine::new("end = [\"/apps\"]\n");
        machine.group("apps", 0, &[]);
        let of = |count: usize| all.iter().take(count).collect::<Vec<_>>();
        machine.available(120);
        machine.look(2);
        // One that is begun with all of them does not multiply.
        let first = if before == 0 { count } else { before };
        machine.group("apps/build", 100, &of(first));
        machine.put("sys/fs/cgroup/apps/build/cgroup.kill", "");
        machine.look(if before == 0 { 12 } else { 22 });
        machine.group("apps/build", 300, &of(count));
        machine.available(20);
        let said = machine.look(1);
        let kill = fs::read_to_string(
            machine
                .dir
                .path()
                .join("sys/fs/cgroup/apps/build/cgroup.kill"),
        );
        assert_eq!(kill.unwrap() == "1", is_killed, "{said}");
        let told = match is_killed {
            true => format!("(SIGKILL to {count} processes, which multiply)"),
            false => format!("(SIGTERM to {count} processes)"),
        };
        assert!(said.contains(&told), "{told}: {said}");
        let ended = if is_killed { 0 } else { count };
        for (at, process) in all.iter_mut().enumerate() {
            if at < ended {
                assert_eq!(process.ended().signal(), Some(TERM));
                *process = Process::patient();
            }
            assert!(process.lives());
        }
    }
}

#[test]
fn where_there_is_no_time_its_grace_is_cut_short() {
    let mut deaf = Process::deaf();
    let mut machine = Machine::new("end = [\"deaf\"]\nend_below = \"3%\"\ngrace = \"1min\"\n");
    machine.group("deaf", 400, &[&deaf]);
    machine.look(2);
    machine.available(20);
    machine.look(2);
    assert!(deaf.lives());
    machine.available(10);
    let said = machine.look(1);
    assert!(
        said.contains("/deaf is killed (SIGKILL): programs can take 10.0 MiB more"),
        "{said}"
    );
    assert_eq!(deaf.ended().signal(), Some(KILL));
}

#[test]
fn nothing_is_ended_that_no_rule_names_nor_what_is_needed_to_get_at_the_machine() {
    let (mut shell, mut init) = (Process::patient(), Process::patient());
    for rule in ["", "end = [\"/init.scope\", \"/system.slice\"]\n"] {
        let mut machine = Machine::new(rule);
        machine.group("system.slice/ssh.service", 400, &[&shell]);
        machine.group("init.scope", 300, &[&init]);
        machine.look(2);
        machine.available(5);
        let said = machine.look(20);
        let why = match rule {
            "" => "nothing is ended: [watch.guard] end names no group",
            _ => "nothing that may be ended has processes",
        };
        assert!(said.contains(why), "{said}");
        assert!(shell.lives() && init.lives());
    }
}

#[test]
fn what_is_below_a_protected_group_is_not_ended_whatever_names_it() {
    let mut process = Process::patient();
    for rule in [
        "end = [\"job.service\"]\nprotect = [\"batch.slice\"]\n",
        "end = [\"/batch.slice/job.service\"]\nprotect = [\"/batch.slice\"]\n",
    ] {
        let mut machine = Machine::new(rule);
        machine.group("batch.slice", 400, &[]);
        machine.group("batch.slice/job.service", 400, &[&process]);
        machine.look(2);
        machine.available(5);
        let said = machine.look(20);
        assert!(said.contains("nothing that may be ended"), "{said}");
        assert!(process.lives());
    }
}

/// Nothing is said of groups before they were looked for.
#[test]
fn a_guard_that_begins_where_memory_is_short_looks_for_groups_first() {
    let mut process = Process::patient();
    let mut machine = Machine::new("end = [\"/apps/*\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/one", 400, &[&process]);
    machine.available(5);
    for tenth in 0..=1 {
        machine
            .guard
            .look(machine.now + Duration::from_millis(100 * tenth));
    }
    let said = machine.says.lock().unwrap().join("\n");
    assert!(!said.contains("nothing that may be ended"), "{said}");
    assert!(said.contains("ends /apps/one"), "{said}");
    assert_eq!(process.ended().signal(), Some(TERM));
}

#[test]
fn where_nothing_goes_on_what_grows_is_ended_and_nothing_else() {
    let (mut still, mut grows) = (Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/apps/*\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/still", 600, &[&still]);
    machine.group("apps/grows", 100, &[&grows]);
    let pressure = |us: u64| {
        let averages = "avg10=0.00 avg60=0.00 avg300=0.00";
        format!("some {averages} total={us}\nfull {averages} total={us}\n")
    };
    machine.available(80);
    // It is there when the guard begins.
    let mut machine = {
        machine.put("proc/pressure/memory", &pressure(0));
        let (guard, says) = guard(&machine.host, "end = [\"/apps/*\"]\n", false);
        (machine.guard, machine.says) = (guard, says);
        machine
    };
    for second in 1..=14_u64 {
        machine.put("proc/pressure/memory", &pressure(second * 700_000));
        machine.look(1);
    }
    assert!(still.lives() && grows.lives());
    let said = machine.said.join("\n");
    assert!(said.contains("nothing that may be ended grows"), "{said}");
    machine.takes("apps/grows", 130);
    machine.put("proc/pressure/memory", &pressure(15 * 700_000));
    let said = machine.look(1);
    assert!(said.contains("ends /apps/grows"), "{said}");
    assert!(
        said.contains("nothing went on for want of memory in 70.0 % of the last 10 s"),
        "{said}"
    );
    assert_eq!(grows.ended().signal(), Some(TERM));
    assert!(still.lives());
}

#[test]
fn a_dry_run_says_whom_it_would_end_and_writes_nothing() {
    let mut process = Process::patient();
    let mut machine = Machine::with("end = [\"/a\"]\n", true);
    machine.group("a", 400, &[&process]);
    machine.look(2);
    machine.available(5);
    let said = machine.look(10);
    assert_eq!(
        said.matches("would end /a: it holds 400 MiB").count(),
        1,
        "{said}"
    );
    assert!(process.lives());
    assert!(!machine.dir.path().join("run/zmeld/guard.json").exists());
}

/// A device can be full of room and out of RAM: what counts is what still fits.
#[test]
fn free_swap_that_nothing_fits_into_is_no_room() {
    let mut machine = Machine::new("");
    machine.put(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/zram0 partition 4096000 409600 100\n",
    );
    let device = "sys/block/zram0";
    machine.put(&format!("{device}/disksize"), "4194304000\n");
    machine.put(&format!("{device}/initstate"), "1\n");
    machine.put(&format!("{device}/comp_algorithm"), "[lzo]\n");
    let swap = |ratio: u64, limit: u64| {
        let (stored, used) = (400 * MIB, 400 * MIB / ratio);
        format!("{stored} {used} {used} {} {used} 0 0 0 0\n", limit * MIB)
    };
    let memory = meminfo(20).replace("SwapFree: 0", "SwapFree: 3686400");
    machine.put("proc/meminfo", &memory);
    machine.put(&format!("{device}/mm_stat"), &swap(4, 0));
    let said = machine.look(2);
    assert_eq!(said, "", "pages still fit");
    machine.put(&format!("{device}/mm_stat"), &swap(4, 100));
    let said = machine.look(1);
    assert!(
        said.contains("memory is short: programs can take 20.0 MiB more"),
        "{said}"
    );
    // Nor where what is in RAM is locked.
    machine.put(&format!("{device}/mm_stat"), &swap(4, 0));
    machine.put("proc/meminfo", &memory);
    let said = machine.look(1);
    assert!(said.contains("memory is not short any more"), "{said}");
    let locked = format!("{memory}Mlocked: {} kB\n", 395 << 10);
    machine.put("proc/meminfo", &locked);
    let said = machine.look(1);
    assert!(said.contains("memory is short"), "{said}");
}

/// What doubles takes what is left before a group that is told to end has gone.
#[test]
fn what_goes_too_fast_is_ended_before_nothing_is_left() {
    let mut runaway = Process::patient();
    let mut machine = Machine::new("end = [\"/apps\"]\nend_below = \"2%\"\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/runaway", 50, &[&runaway]);
    assert_eq!(machine.look(3), "");
    // One large request: it may be all that is wanted.
    machine.takes("apps/runaway", 450);
    machine.available(90);
    let said = machine.look(3);
    assert!(!said.contains("ends"), "{said}");
    // Slowly is not too fast, though it is more than 1 % of RAM.
    for left in [75, 60, 50] {
        machine.available(left);
        let said = machine.look(1);
        assert!(!said.contains("ends"), "{said}");
    }
    machine.available(98);
    machine.look(1);
    machine.takes("apps/runaway", 500);
    machine.available(47);
    let said = machine.look(1);
    assert!(!said.contains("ends"), "{said}");
    machine.takes("apps/runaway", 525);
    machine.available(22);
    let said = machine.look(1);
    assert!(said.starts_with("ends /apps/runaway"), "{said}");
    assert!(
        said.contains("22.0 MiB more")
            && said.contains("before anything has ended it would be gone"),
        "{said}"
    );
    assert_eq!(runaway.ended().signal(), Some(TERM));
}

/// While memory is short a look takes none, nor does waiting for one that was told to end.
#[test]
fn a_look_at_a_short_machine_takes_no_memory() {
    let mut machine = Machine::new("end = [\"/apps/*\"]\nend_below = \"3%\"\n");
    let processes: Vec<Process> = (0..20).map(|_| Process::deaf()).collect();
    machine.group("apps", 0, &[]);
    for (number, process) in processes.iter().enumerate() {
        machine.group(&format!("apps/{number}"), 10, &[process]);
    }
    machine.look(3);
    machine.available(80);
    machine.look(3);
    assert!(machine.guard.is_short());
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
    assert!(said.contains("SIGTERM to 1 processes"), "{said}");
    five_looks(&mut machine);
}

/// An application's scope, not its user's slice; unless the kernel would end that, too.
#[test]
fn what_is_below_a_name_is_ended_each_by_itself() {
    for whole in ["0", "1"] {
        let (mut mail, mut web) = (Process::patient(), Process::patient());
        let mut machine = Machine::new("end = [\"/user.slice\"]\n");
        machine.group("user.slice", 0, &[]);
        machine.group("user.slice/user-1000.slice", 600, &[]);
        let file = "sys/fs/cgroup/user.slice/user-1000.slice/memory.oom.group";
        machine.put(file, &format!("{whole}\n"));
        machine.group("user.slice/user-1000.slice/mail.scope", 300, &[&mail]);
        machine.group("user.slice/user-1000.slice/web.scope", 100, &[&web]);
        machine.look(2);
        machine.takes("user.slice/user-1000.slice/web.scope", 200);
        machine.available(20);
        let said = machine.look(1);
        assert_eq!(web.ended().signal(), Some(TERM), "{said}");
        if whole == "1" {
            assert!(
                said.contains("ends /user.slice/user-1000.slice: "),
                "{said}"
            );
            assert_eq!(mail.ended().signal(), Some(TERM));
        } else {
            let name = "ends /user.slice/user-1000.slice/web.scope: ";
            assert!(said.contains(name), "{said}");
            assert!(mail.lives());
        }
    }
}

/// What began since groups were looked for last has grown from nothing.
#[test]
fn a_newcomer_is_not_overlooked() {
    let (mut grows, mut new) = (Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/grows", 100, &[&grows]);
    machine.look(2);
    machine.takes("apps/grows", 200);
    machine.group("apps/new", 300, &[&new]);
    machine.available(80);
    machine.look(1);
    machine.available(20);
    let said = machine.look(1);
    assert!(
        said.contains("ends /apps/new: it holds 300 MiB, 300 MiB more"),
        "{said}"
    );
    assert_eq!(new.ended().signal(), Some(TERM));
    assert!(grows.lives());
}

/// Only the largest are followed. One that comes among them again was there all the time,
/// and has not grown from nothing.
#[test]
fn one_that_was_not_followed_has_not_grown_by_all_that_it_holds() {
    let (mut old, mut runaway) = (Process::patient(), Process::patient());
    let others: Vec<_> = (0..64).map(|_| Process::patient()).collect();
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/old", 10, &[&old]);
    machine.group("apps/runaway", 50, &[&runaway]);
    for (at, other) in others.iter().enumerate() {
        machine.group(&format!("apps/other{at}"), 20, &[other]);
    }
    machine.look(3);
    let told = noted(&machine);
    assert_eq!(told.map(|told| told.watched.len()), Some(64));
    // It is among the largest from now on.
    machine.takes("apps/other0", 5);
    machine.takes("apps/other1", 5);
    machine.takes("apps/runaway", 75);
    machine.available(90);
    machine.look(3);
    machine.available(20);
    let said = machine.look(1);
    assert!(said.starts_with("ends /apps/runaway"), "{said}");
    assert_eq!(runaway.ended().signal(), Some(TERM));
    assert!(old.lives());
}

/// What goes fast and elsewhere is not what a group took that grew.
#[test]
fn what_goes_too_fast_elsewhere_ends_nobody() {
    let mut bystander = Process::patient();
    let mut machine = Machine::new("end = [\"/apps\"]\nend_below = \"2%\"\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/bystander", 50, &[&bystander]);
    machine.available(200);
    machine.look(3);
    for (left, holds) in [(99, 65), (48, 75), (23, 85)] {
        machine.available(left);
        machine.takes("apps/bystander", holds);
        let said = machine.look(1);
        assert!(!said.contains("ends"), "{said}");
    }
    assert!(bystander.lives());
}

/// Where ending gives nothing back, what takes the memory is elsewhere.
#[test]
fn not_everything_is_ended_for_what_none_of_it_holds() {
    let mut all: Vec<Process> = (0..6).map(|_| Process::patient()).collect();
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    for (number, process) in all.iter().enumerate() {
        machine.group(&format!("apps/{number}"), 50, &[process]);
    }
    machine.look(2);
    machine.available(20);
    let mut ended = 0;
    for _ in 0..40 {
        let said = machine.look(1);
        if let Some((_, number)) = said.split_once("ends /apps/") {
            let number: usize = number[..1].parse().unwrap();
            assert_eq!(all[number].ended().signal(), Some(TERM), "{said}");
            machine.leaves(&format!("apps/{number}"));
            ended += 1;
        }
    }
    assert_eq!(ended, 2);
    let lives = all.iter_mut().filter_map(|it| it.lives().then_some(()));
    assert_eq!(lives.count(), 4);
}

/// A service that is begun anew is not the one that was told to end.
#[test]
fn what_is_begun_anew_is_not_killed_for_what_was_told_to_end() {
    let mut first = Process::patient();
    let mut machine = Machine::new("end = [\"/service\"]\n");
    machine.group("service", 400, &[&first]);
    machine.look(2);
    machine.available(20);
    machine.look(1);
    assert_eq!(first.ended().signal(), Some(TERM));
    let mut second = Process::patient();
    machine.group("service", 10, &[&second]);
    machine.available(500);
    let said = machine.look(10);
    assert!(said.contains("/service ended after 1.0 s"), "{said}");
    assert!(second.lives());
}

/// Who fills memory with files in it (tmpfs) is who grows.
#[test]
fn one_that_fills_memory_with_files_is_ended_and_not_the_largest() {
    let (mut large, mut fills) = (Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/large", 400, &[&large]);
    machine.group("apps/fills", 10, &[&fills]);
    machine.look(2);
    let stat = format!("anon {}\nkernel 0\nshmem {}\n", 10 * MIB, 300 * MIB);
    machine.put("sys/fs/cgroup/apps/fills/memory.stat", &stat);
    machine.available(20);
    let said = machine.look(1);
    assert!(
        said.contains("ends /apps/fills: it holds 10.0 MiB, 300 MiB more"),
        "{said}"
    );
    assert_eq!(fills.ended().signal(), Some(TERM));
    assert!(large.lives());
}

/// One whose process ends and leaves its memory to a child has not ended.
#[test]
fn memory_that_is_left_to_a_child_does_not_get_away() {
    let mut first = Process::patient();
    let mut machine = Machine::new("end = [\"/a\"]\n");
    machine.group("a", 400, &[&first]);
    machine.look(2);
    machine.available(20);
    machine.look(1);
    assert_eq!(first.ended().signal(), Some(TERM));
    let mut child = Process::deaf();
    machine.group("a", 400, &[&child]);
    let said = machine.look(4);
    assert!(said.contains("/a is killed (SIGKILL)"), "{said}");
    assert_eq!(child.ended().signal(), Some(KILL));
}

const MANY_GROUPS: usize = 8_300;
const USER: &str = "user.slice/user-1000.slice/user@1000.service";
const OTHER: &str = "user.slice/user-1001.slice/user@1001.service/app.slice";

/// Whoever makes many groups hides those of nobody else: neither what grows nor what is
/// protected.
#[test]
fn many_groups_of_one_user_hide_nobody_elses() {
    let (mut grows, mut kept) = (Process::patient(), Process::patient());
    let idle = Process::patient();
    let mut machine = Machine::new(&format!(
        "end = [\"/user.slice\"]\nprotect = [\"kept.scope\", \"/{USER}/own.slice\"]\n"
    ));
    machine.group("user.slice", 0, &[]);
    machine.group(USER, 0, &[]);
    machine.fills(USER, MANY_GROUPS, 2);
    let mut own = Process::patient();
    machine.group(&format!("{USER}/own.slice/a.scope"), 200, &[&own]);
    machine.group(&format!("{OTHER}/grows.scope"), 50, &[&grows]);
    machine.group(&format!("{OTHER}/kept.scope"), 200, &[&kept]);
    machine.group("user.slice/user-1002.slice/idle.scope", 300, &[&idle]);
    machine.look(2);
    machine.takes(&format!("{OTHER}/grows.scope"), 150);
    machine.takes(&format!("{OTHER}/kept.scope"), 400);
    machine.available(20);
    let said = machine.look(1);
    assert!(said.contains("grows.scope: it holds 150 MiB"), "{said}");
    assert_eq!(grows.ended().signal(), Some(TERM));
    machine.leaves(&format!("{OTHER}/grows.scope"));
    machine.takes(&format!("{OTHER}/grows.scope"), 0);
    let said = machine.look(5);
    assert!(kept.lives() && own.lives(), "{said}");
}

/// The watch's unit may take 128 MiB.
#[test]
fn long_names_of_many_groups_take_little_memory() {
    let mut machine = Machine::new("end = [\"/user.slice\"]\n");
    machine.group("user.slice", 0, &[]);
    let long = ["a".repeat(250), "b".repeat(250), "c".repeat(250)].join("/");
    let group = format!("{USER}/{long}/{}", "d".repeat(150));
    machine.fills(&group, MANY_GROUPS, 1);
    let taken = allocation_counter::measure(|| {
        machine.look(3);
    });
    let most_mib = taken.bytes_max / MIB;
    assert!(most_mib < 32, "{most_mib} MiB");
}

/// What cannot be told apart is one that grows, without what is protected of it; and where
/// none grew it is not somebody else's fault.
#[test]
fn who_makes_more_groups_than_are_looked_at_is_followed_as_a_whole() {
    for grows in [true, false] {
        let (mut hidden, mut shell) = (Process::patient(), Process::patient());
        let mut idle = Process::patient();
        let mut machine = Machine::new("end = [\"/user.slice\"]\n");
        machine.group("user.slice", 0, &[]);
        machine.group(USER, 100, &[]);
        machine.fills(USER, MANY_GROUPS, 2);
        machine.group(&format!("{USER}/z"), 100, &[&hidden]);
        machine.group(&format!("{USER}/session.slice/shell"), 50, &[&shell]);
        machine.group(&format!("{OTHER}/idle.scope"), 300, &[&idle]);
        machine.look(2);
        if grows {
            machine.takes(USER, 250);
        }
        machine.available(20);
        let said = machine.look(1);
        assert!(said.contains(&format!("ends /{USER}: ")), "{said}");
        assert_eq!(hidden.ended().signal(), Some(TERM));
        assert!(idle.lives() && shell.lives());
    }
}

/// `session.slice` is in each user's own tree: it is no place to hide.
#[test]
fn what_hides_in_a_session_is_ended_in_nobody_elses_place() {
    // What the hider holds at last, and who goes for it.
    for (key, mib, ends) in [
        ("", 200, "own.scope"),
        ("", 300, "shell"),
        ("protected_max = \"40%\"\n", 300, "own.scope"),
        ("protect_sessions = false\n", 200, "shell"),
    ] {
        let (mut shell, mut own) = (Process::patient(), Process::patient());
        let mut idle = Process::patient();
        let rule = format!("end = [\"/user.slice\"]\n{key}");
        let mut machine = Machine::new(&rule);
        machine.group("user.slice", 0, &[]);
        machine.group(&format!("{USER}/session.slice/shell"), 50, &[&shell]);
        machine.group(&format!("{USER}/app.slice/own.scope"), 20, &[&own]);
        machine.group(&format!("{OTHER}/idle.scope"), 400, &[&idle]);
        machine.look(2);
        machine.takes(&format!("{USER}/session.slice/shell"), mib);
        machine.available(20);
        let said = machine.look(1);
        assert!(said.contains(&format!("/{ends}: it holds")), "{key}{said}");
        let ended = if ends == "shell" {
            &mut shell
        } else {
            &mut own
        };
        assert_eq!(ended.ended().signal(), Some(TERM));
        assert!(idle.lives());
    }
}

/// What forks when it is told to end has ended each time, and goes on.
#[test]
fn one_that_has_to_end_twice_within_a_minute_is_killed_at_once() {
    for (has_kill, waits, is_killed) in [(true, 30, true), (false, 30, true), (true, 70, false)] {
        let mut first = Process::patient();
        let mut machine = Machine::new("end = [\"/a\"]\n");
        machine.group("a", 100, &[&first]);
        if has_kill {
            machine.put("sys/fs/cgroup/a/cgroup.kill", "");
        }
        machine.look(2);
        machine.takes("a", 400);
        machine.available(20);
        let said = machine.look(1);
        assert!(said.contains("SIGTERM to 1 processes"), "{said}");
        assert_eq!(first.ended().signal(), Some(TERM));
        let mut child = Process::deaf();
        machine.group("a", 100, &[&child]);
        machine.available(500);
        machine.look(waits);
        machine.available(90);
        machine.look(3);
        machine.takes("a", 400);
        machine.available(20);
        let said = machine.look(1);
        let told = "(SIGKILL to 1 processes, again within a minute)";
        assert_eq!(said.contains(told), is_killed, "{said}");
        if has_kill {
            let kill = machine.dir.path().join("sys/fs/cgroup/a/cgroup.kill");
            assert_eq!(fs::read_to_string(kill).unwrap() == "1", is_killed);
            continue;
        }
        assert_eq!(child.ended().signal(), Some(KILL));
        // What it began meanwhile is killed as well, until nothing is there.
        let mut next = Process::deaf();
        machine.group("a", 10, &[&next]);
        machine.look(1);
        assert_eq!(next.ended().signal(), Some(KILL));
        machine.leaves("a");
        let said = machine.look(1);
        assert!(said.contains("/a ended after"), "{said}");
    }
}

/// Whoever makes groups makes choosing them take as long as he likes.
#[test]
fn choosing_that_takes_long_keeps_it_from_nothing() {
    let (mut first, mut second) = (Process::deaf(), Process::deaf());
    let rule = "end = [\"/a\", \"/b\", \"/c\"]\ngrace = \"1s\"\n";
    let mut machine = Machine::new(rule);
    machine.group("a", 100, &[&first]);
    machine.group("b", 100, &[&second]);
    machine.available(20);
    let groups = machine.dir.path().join("sys/fs/cgroup");
    let say = move |event: GuardEvent| {
        if event.to_string().contains("/a is killed") {
            put(&groups, "a/cgroup.procs", "");
            put(&groups, "c/memory.stat", "anon 1\n");
            // Nobody writes into it: whoever looks for processes waits.
            let pipe = groups.join("c/cgroup.procs");
            Command::new("mkfifo").arg(pipe).status().unwrap();
        }
    };
    start(&machine, rule, say);
    assert_eq!(first.ended().signal(), Some(KILL));
    assert_eq!(second.ended().signal(), Some(KILL));
}

/// A guard with threads of its own; one that hangs when it begins is left behind.
fn start(machine: &Machine, rule: &str, say: impl FnMut(GuardEvent) + Send + 'static) {
    let rule = rule_of(rule);
    let host = machine.host.clone();
    std::thread::spawn(move || {
        let guard = Guard::start(host, rule, false, say);
        std::thread::sleep(Duration::from_secs(60));
        drop(guard);
    });
}

/// A guard with threads of its own on a machine whose group `a` grows and does not listen;
/// it has to be killed all the same.
fn kills_though(prepare: impl FnOnce(&Machine), say: impl FnMut(GuardEvent) + Send + 'static) {
    let mut deaf = Process::deaf();
    let rule = "end = [\"/a\"]\ngrace = \"1s\"\n";
    let mut machine = Machine::new(rule);
    machine.group("a", 100, &[&deaf]);
    machine.available(20);
    prepare(&machine);
    start(&machine, rule, say);
    assert_eq!(deaf.ended().signal(), Some(KILL));
}

#[test]
fn nobody_who_reads_its_log_keeps_it_from_its_second_signal() {
    let (_nobody, waits) = std::sync::mpsc::channel::<()>();
    kills_though(|_| {}, move |_| waits.recv().unwrap_or_default());
}

/// The kernel holds a device's lock through all of a writeback.
#[test]
fn a_device_that_does_not_answer_keeps_it_from_nothing() {
    let prepare = |machine: &Machine| {
        machine.put(
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/zram0 partition 4096000 409600 100\n",
        );
        machine.put("sys/block/zram0/disksize", "4194304000\n");
        machine.put("sys/block/zram0/initstate", "1\n");
        machine.put("sys/block/zram0/comp_algorithm", "[lzo]\n");
        // Nobody writes into it: whoever opens it waits.
        let pipe = machine.dir.path().join("sys/block/zram0/mm_stat");
        let made = Command::new("mkfifo").arg(pipe).status().unwrap();
        assert!(made.success());
    };
    kills_though(prepare, |_| {});
}

/// One at a time they would outrun it, and before any of them grew by much by itself, what
/// holds still would be ended.
#[test]
fn many_that_grow_together_are_ended_in_one_go() {
    let mut still = Process::patient();
    let mut all: Vec<_> = (0..10).map(|_| Process::patient()).collect();
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/still", 400, &[&still]);
    for (at, process) in all.iter().enumerate() {
        machine.group(&format!("apps/{at}"), 16, &[process]);
    }
    machine.look(2);
    for at in 0..all.len() {
        machine.takes(&format!("apps/{at}"), 20);
    }
    machine.available(20);
    let said = machine.look(1);
    // 80 MiB are missing, and 8 go in two seconds.
    assert_eq!(
        said.matches("4.00 MiB more than 10 s ago").count(),
        5,
        "{said}"
    );
    let ended: Vec<_> = (0..10)
        .filter(|at| said.contains(&format!("ends /apps/{at}: it holds 20.0 MiB")))
        .collect();
    assert_eq!(ended.len(), 5, "{said}");
    for (at, process) in all.iter_mut().enumerate() {
        match ended.contains(&at) {
            true => assert_eq!(process.ended().signal(), Some(TERM)),
            false => assert!(process.lives()),
        }
    }
    assert!(still.lives());
    for at in ended {
        machine.leaves(&format!("apps/{at}"));
    }
    machine.available(500);
    machine.look(12);
    assert_eq!(noted(&machine).unwrap().ended_total, 5);
}

/// What was told to end is not waited for while the rest takes what is left.
#[test]
fn where_what_was_told_is_not_enough_more_of_what_grows_is_told() {
    let mut still = Process::patient();
    let all: Vec<_> = (0..8).map(|_| Process::deaf()).collect();
    let mut machine = Machine::new("end = [\"/apps\"]\ngrace = \"20s\"\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/still", 400, &[&still]);
    for (at, process) in all.iter().enumerate() {
        machine.group(&format!("apps/{at}"), 46, &[process]);
    }
    machine.look(2);
    for at in 0..all.len() {
        machine.takes(&format!("apps/{at}"), 50);
    }
    machine.available(18);
    let said = machine.look(1);
    let told = |said: &str| said.matches("ends /apps/").count();
    let first = told(&said);
    assert!((1..4).contains(&first), "{said}");
    assert_eq!(told(&machine.look(1)), 0);
    for at in 0..all.len() {
        machine.takes(&format!("apps/{at}"), 54);
    }
    machine.available(8);
    let said = machine.look(1);
    assert!(told(&said) > 0 && !said.contains("still"), "{said}");
    assert!(still.lives());
}

/// Files in memory stay, whoever is ended.
#[test]
fn what_fills_tmpfs_and_leaves_costs_nobody_else() {
    let mut still = Process::patient();
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/still", 300, &[&still]);
    machine.look(2);
    for left in [300, 150, 20] {
        let files = (500 - left) << 10;
        let memory = format!("{}Shmem: {files} kB\n", meminfo_of(left, 400));
        machine.put("proc/meminfo", &memory);
        machine.look(2);
    }
    let said = machine.look(70);
    assert!(said.contains("nothing that may be ended grows"), "{said}");
    assert!(still.lives());
}

/// It may wait in the kernel for long.
#[test]
fn one_that_does_not_go_keeps_the_next_from_nothing() {
    let (mut first, mut second) = (Process::deaf(), Process::patient());
    let mut machine = Machine::new("end = [\"/apps\"]\ngrace = \"1s\"\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/first", 50, &[&first]);
    machine.group("apps/second", 50, &[&second]);
    machine.look(2);
    machine.takes("apps/first", 200);
    machine.available(20);
    machine.look(2);
    assert_eq!(first.ended().signal(), Some(KILL));
    // What holds still is not ended in its place.
    machine.look(2);
    assert!(second.lives());
    machine.takes("apps/second", 200);
    let said = machine.look(1);
    assert!(said.contains("ends /apps/second"), "{said}");
    assert_eq!(second.ended().signal(), Some(TERM));
    let said = machine.look(8);
    assert!(
        said.contains("/apps/first does not end, it waits in the kernel"),
        "{said}"
    );
}

/// Memory stays where it was taken: who moves his processes from group to group has not got
/// rid of it, nor has he who takes it in a group that was not there yet.
#[test]
fn what_an_owner_takes_is_his_whatever_he_makes_of_his_groups() {
    let (mut own, mut other) = (Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/user.slice\"]\n");
    let slice = "user.slice/user-1000.slice";
    machine.group("user.slice", 0, &[]);
    machine.group(slice, 60, &[]);
    machine.group(&format!("{slice}/left.scope"), 40, &[&own]);
    machine.group(&format!("{slice}/own.scope"), 20, &[]);
    machine.group("user.slice/user-1001.slice", 400, &[]);
    machine.group("user.slice/user-1001.slice/a.scope", 400, &[&other]);
    machine.look(2);
    // It has grown there, and is elsewhere now.
    machine.group(&format!("{slice}/left.scope"), 300, &[]);
    machine.group(&format!("{slice}/own.scope"), 20, &[&own]);
    machine.takes(slice, 320);
    machine.available(20);
    // Where he is now is known when groups are chosen next.
    let said = machine.look(2);
    assert!(said.contains(&format!("ends /{slice}/own.scope")), "{said}");
    assert_eq!(own.ended().signal(), Some(TERM));
    assert!(other.lives());
}

const ONE: &str = "user.slice/user-1000.slice";
const TWO: &str = "user.slice/user-1001.slice";

/// What is above owners takes what all of them take: it is nobody's growth.
#[test]
fn several_owners_that_grow_hide_each_other_from_nothing() {
    let mut all: Vec<_> = (0..3).map(|_| Process::patient()).collect();
    let mut machine = Machine::new("end = [\"/user.slice\"]\n");
    let owners = [ONE, TWO, "user.slice/user-1002.slice"];
    machine.group("user.slice", 300, &[]);
    for (owner, process) in owners.iter().zip(&all) {
        machine.group(owner, 100, &[]);
        machine.group(&format!("{owner}/a.scope"), 100, &[process]);
    }
    machine.look(2);
    machine.takes("user.slice", 420);
    for owner in owners {
        machine.takes(owner, 140);
        machine.takes(&format!("{owner}/a.scope"), 140);
    }
    machine.available(20);
    let said = machine.look(1);
    assert_eq!(said.matches("ends /user.slice").count(), 1, "{said}");
    assert_eq!(all[0].ended().signal(), Some(TERM));
}

/// A figure that is missing once, or a file that cannot be opened, is no growth from nothing.
#[test]
fn a_group_that_cannot_be_read_for_a_while_has_not_grown_from_nothing() {
    for is_gone in [true, false] {
        let (mut idle, mut grows) = (Process::patient(), Process::patient());
        let mut machine = Machine::new("end = [\"/apps\"]\n");
        machine.group("apps", 0, &[]);
        machine.group("apps/idle", 400, &[&idle]);
        machine.group("apps/grows", 50, &[&grows]);
        machine.look(2);
        machine.available(90);
        machine.look(2);
        let stat = "sys/fs/cgroup/apps/idle/memory.stat";
        match is_gone {
            true => fs::remove_file(machine.dir.path().join(stat)).unwrap(),
            false => machine.put(stat, ""),
        }
        machine.look(2);
        machine.takes("apps/idle", 400);
        machine.look(2);
        machine.takes("apps/grows", 150);
        machine.available(20);
        let said = machine.look(1);
        assert!(said.starts_with("ends /apps/grows"), "{said}");
        assert_eq!(grows.ended().signal(), Some(TERM));
        assert!(idle.lives());
    }
}

/// What comes back from swap is in both for a while; what a file's locked pages or a socket
/// take is no page cache.
#[test]
fn what_a_group_takes_is_counted_once_and_wherever_it_is() {
    let (mut idle, mut grows) = (Process::patient(), Process::patient());
    let swapped = format!(
        "anon {}\nkernel 0\nshmem 0\nswapcached {}\n",
        400 * MIB,
        300 * MIB
    );
    let in_files = format!(
        "anon {}\nfile {}\nactive_anon {}\ninactive_anon 0\nunevictable {}\nkernel 0\nshmem 0\n",
        50 * MIB,
        200 * MIB,
        40 * MIB,
        110 * MIB
    );
    let in_sockets = format!("anon {}\nsock {}\nkernel 0\nshmem 0\n", 50 * MIB, 100 * MIB);
    for grown in [in_files, in_sockets] {
        let mut machine = Machine::new("end = [\"/apps\"]\n");
        machine.group("apps", 0, &[]);
        machine.group("apps/idle", 100, &[&idle]);
        let swap = "sys/fs/cgroup/apps/idle/memory.swap.current";
        machine.put(swap, &format!("{}\n", 300 * MIB));
        machine.group("apps/grows", 50, &[&grows]);
        machine.look(2);
        machine.put("sys/fs/cgroup/apps/idle/memory.stat", &swapped);
        machine.put("sys/fs/cgroup/apps/grows/memory.stat", &grown);
        machine.available(20);
        let said = machine.look(1);
        let name = "ends /apps/grows: it holds 150 MiB, 100 MiB more than 10 s ago";
        assert!(said.starts_with(name), "{said}");
        assert_eq!(grows.ended().signal(), Some(TERM));
        assert!(idle.lives());
        grows = Process::patient();
    }
    assert!(idle.lives());
}

/// Who grows by little at a time, in as many groups as he likes, is who took it.
#[test]
fn what_grew_slowly_is_ended_and_not_the_largest() {
    let (mut idle, mut own) = (Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/user.slice\"]\n");
    machine.group("user.slice", 0, &[]);
    machine.group(&format!("{TWO}/idle.scope"), 300, &[&idle]);
    machine.group(TWO, 300, &[]);
    machine.group(ONE, 10, &[]);
    machine.group(&format!("{ONE}/a.scope"), 10, &[&own]);
    machine.available(210);
    machine.look(12);
    for step in 1..=48 {
        machine.takes(ONE, 10 + 4 * step);
        machine.takes(&format!("{ONE}/a.scope"), 10 + 4 * step);
        machine.available(210 - 4 * step);
        machine.look(7);
    }
    let said = machine.said.join("\n");
    assert!(said.contains(&format!("ends /{ONE}/a.scope")), "{said}");
    assert_eq!(own.ended().signal(), Some(TERM));
    assert!(idle.lives());
}

/// No path leads there: what is too deep is killed from above, whatever is protected by its
/// name elsewhere.
#[test]
fn depth_is_no_place_to_hide() {
    let (mut hidden, mut kept) = (Process::deaf(), Process::patient());
    let rule = "end = [\"/user.slice\"]\nprotect = [\"kept.scope\"]\ngrace = \"1s\"\n";
    let mut machine = Machine::new(rule);
    machine.group("user.slice", 0, &[]);
    machine.group(ONE, 100, &[]);
    machine.group(&format!("{ONE}/kept.scope"), 20, &[&kept]);
    let deep = format!("{ONE}/deep{}", "/d".repeat(200));
    machine.group(&deep, 100, &[&hidden]);
    let groups = machine.dir.path().join("sys/fs/cgroup");
    let mut at = groups.join(&deep);
    let takes = |machine: &Machine, mib: u64| {
        for at in Path::new(&deep)
            .ancestors()
            .filter(|it| it.starts_with(ONE))
        {
            machine.takes(at.to_str().unwrap(), mib);
        }
    };
    while at != groups {
        fs::write(at.join("cgroup.kill"), "").unwrap();
        if !at.join("cgroup.procs").exists() {
            fs::write(at.join("cgroup.procs"), "").unwrap();
        }
        at.pop();
    }
    takes(&machine, 100);
    machine.look(2);
    takes(&machine, 300);
    machine.available(20);
    let said = machine.look(4);
    assert!(said.contains(&format!("ends /{ONE}")), "{said}");
    let killed = |at: &Path| fs::read_to_string(at.join("cgroup.kill")).is_ok_and(|it| it == "1");
    let mut above = Path::new(&deep).ancestors();
    let at = above.find(|it| killed(&groups.join(it)));
    let at = at.unwrap_or_else(|| panic!("{said}"));
    assert!(at.starts_with(format!("{ONE}/deep/d")));
    assert!(kept.lives() && hidden.lives());
}

/// Anybody can keep its lock for as long as he is not let run.
#[test]
fn pressure_that_does_not_answer_keeps_it_from_nothing() {
    let prepare = |machine: &Machine| {
        let pipe = machine.dir.path().join("proc/pressure/memory");
        fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    };
    kills_though(prepare, |_| {});
}

/// While what was ended gives its memory back, another one takes it.
#[test]
fn a_second_one_does_not_get_away_behind_the_first() {
    let (mut first, mut second, mut idle) =
        (Process::patient(), Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/first", 50, &[&first]);
    machine.group("apps/second", 50, &[&second]);
    machine.group("apps/idle", 300, &[&idle]);
    machine.look(2);
    machine.takes("apps/first", 200);
    machine.available(20);
    machine.look(1);
    assert_eq!(first.ended().signal(), Some(TERM));
    machine.leaves("apps/first");
    machine.takes("apps/first", 0);
    machine.available(100);
    machine.look(1);
    machine.takes("apps/second", 150);
    machine.available(10);
    let said = machine.look(1);
    assert!(said.contains("ends /apps/second"), "{said}");
    assert_eq!(second.ended().signal(), Some(TERM));
    assert!(idle.lives());
}
/// Nor does his memory get away with him, or cost others theirs: he was told to end.
#[test]
fn who_leaves_his_group_when_he_is_told_to_end_is_killed() {
    let (mut moves, mut own) = (Process::deaf(), Process::patient());
    let mut machine = Machine::new("end = [\"/user.slice\"]\nend_below = \"3%\"\n");
    machine.group("user.slice", 0, &[]);
    machine.group(ONE, 100, &[]);
    machine.group(&format!("{ONE}/a.scope"), 50, &[&moves]);
    machine.group(&format!("{ONE}/b.scope"), 20, &[&own]);
    machine.look(2);
    machine.takes(ONE, 400);
    machine.takes(&format!("{ONE}/a.scope"), 350);
    machine.available(20);
    let said = machine.look(1);
    assert!(said.contains("a.scope"), "{said}");
    machine.leaves(&format!("{ONE}/a.scope"));
    machine.group(&format!("{ONE}/fresh.scope"), 20, &[&moves]);
    let said = machine.look(4);
    assert!(said.contains("a.scope is killed (SIGKILL)"), "{said}");
    assert_eq!(moves.ended().signal(), Some(KILL));
    assert!(own.lives());
}

/// His groups are followed as one where what grows is in none that is known: he moves from
/// one to the next, and has none that could be ended in its place.
#[test]
fn who_moves_on_and_on_is_ended_with_all_that_he_has() {
    let mut moves = Process::patient();
    let mut idle = Process::patient();
    let mut machine = Machine::new("end = [\"/user.slice\"]\n");
    machine.group("user.slice", 0, &[]);
    machine.group(ONE, 100, &[]);
    machine.group(&format!("{OTHER}/idle.scope"), 300, &[&idle]);
    machine.group(&format!("{ONE}/0.scope"), 50, &[&moves]);
    machine.look(2);
    machine.available(20);
    machine.put(
        &format!("sys/fs/cgroup/{ONE}/cgroup.events"),
        "populated 1\n",
    );
    for at in 0..8 {
        // Where he is by now nobody has looked.
        machine.takes(ONE, 200 + 20 * at);
        machine.leaves(&format!("{ONE}/{at}.scope"));
        machine.group(&format!("{ONE}/{}.scope", at + 1), 0, &[&moves]);
        machine.look(1);
        if !moves.lives() {
            break;
        }
    }
    assert_eq!(moves.ended().signal(), Some(KILL), "{:?}", machine.said);
    assert!(idle.lives(), "{:?}", machine.said);
}

/// Who owns a tree may switch off that what is in it is counted.
#[test]
fn who_switches_counting_off_is_ended_as_a_whole() {
    for protects in [false, true] {
        let (mut hidden, mut idle) = (Process::patient(), Process::patient());
        let mut machine = Machine::new("end = [\"/user.slice\"]\n");
        machine.group("user.slice", 0, &[]);
        machine.group("user.slice/user-1000.slice", 100, &[]);
        machine.put(
            "sys/fs/cgroup/user.slice/user-1000.slice/cgroup.subtree_control",
            "memory pids\n",
        );
        machine.group(USER, 100, &[]);
        machine.put(
            &format!("sys/fs/cgroup/{USER}/cgroup.subtree_control"),
            "pids\n",
        );
        let name = if protects {
            "session.slice"
        } else {
            "app.slice"
        };
        let pid = format!("{}\n", hidden.0.id());
        machine.put(&format!("sys/fs/cgroup/{USER}/{name}/cgroup.procs"), &pid);
        machine.group(&format!("{OTHER}/idle.scope"), 300, &[&idle]);
        machine.look(2);
        machine.takes("user.slice/user-1000.slice", 250);
        machine.takes(USER, 250);
        machine.available(20);
        let said = machine.look(1);
        assert!(said.contains(&format!("ends /{USER}: ")), "{said}");
        assert_eq!(hidden.ended().signal(), Some(TERM));
        assert!(idle.lives());
    }
}

/// Each group that is not looked into is remembered for a minute: of an owner who has many,
/// all are one.
#[test]
fn who_has_many_groups_that_are_not_looked_into_is_followed_as_one() {
    let process = Process::patient();
    let mut machine = Machine::new("end = [\"/user.slice\"]\n");
    machine.group("user.slice", 0, &[]);
    machine.group(ONE, 100, &[]);
    for at in 0..100 {
        let long = [
            "x".repeat(250),
            "y".repeat(250),
            "z".repeat(250),
            "w".repeat(250),
        ]
        .join("/");
        let deep = format!("{ONE}/{at}/{long}");
        machine.group(&deep, 1, &[]);
        machine.group(&format!("{deep}/p"), 1, &[&process]);
    }
    machine.look(2);
    machine.available(90);
    machine.look(3);
    machine.available(20);
    let said = machine.look(4);
    assert!(said.contains(&format!("ends /{ONE}: ")), "{said}");
}

/// What went to the kernel and is charged to nobody does not come back, whoever ends.
#[test]
fn memory_that_no_group_is_charged_for_costs_nobody_else() {
    let mut still = Process::patient();
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/still", 300, &[&still]);
    machine.look(2);
    for left in [300, 150, 20] {
        machine.put("proc/meminfo", &meminfo_of(left, 400));
        machine.look(2);
    }
    let said = machine.look(70);
    assert!(said.contains("nothing that may be ended grows"), "{said}");
    assert!(still.lives());
}

/// After groups could not be chosen for long, what began meanwhile has not grown by all that
/// it holds.
#[test]
fn what_began_while_nobody_looked_has_not_grown() {
    let (mut begun, mut grows) = (Process::patient(), Process::patient());
    let mut machine = Machine::new("end = [\"/apps\"]\n");
    machine.group("apps", 0, &[]);
    machine.group("apps/grows", 50, &[&grows]);
    machine.look(2);
    let list = machine.dir.path().join("proc/self/cgroup");
    fs::remove_file(&list).unwrap();
    machine.look(60);
    machine.group("apps/begun", 300, &[&begun]);
    machine.put("proc/self/cgroup", "0::/system.slice/zmeld-guard.service\n");
    machine.look(12);
    machine.takes("apps/grows", 120);
    machine.available(20);
    let said = machine.look(1);
    assert!(said.contains("ends /apps/grows"), "{said}");
    assert_eq!(grows.ended().signal(), Some(TERM));
    assert!(begun.lives());
}

/// Any user may mount until the list of mounts is longer than what is read of a file.
#[test]
fn however_many_mounts_there_are_the_groups_are_found() {
    let mut machine = Machine::new("end = [\"/a\"]\n");
    let mut runaway = Process::patient();
    let mount = format!(
        "31 1 0:27 / /dev/shm/{} rw - fuse x rw\n",
        "\\040".repeat(4000)
    );
    let mut table = mount.repeat(300);
    table += "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
    machine.put("proc/self/mountinfo", &table);
    machine.group("a", 100, &[&runaway]);
    machine.look(2);
    machine.takes("a", 400);
    machine.available(20);
    let said = machine.look(1);
    assert!(said.contains("ends /a"), "{said}");
    assert_eq!(runaway.ended().signal(), Some(TERM));
}

/// On version 1 lists are read by another thread, since a reader waits for others who do.
#[test]
fn on_version_1_what_grows_is_told_killed_and_waited_for_too() {
    let mut deaf = Process::deaf();
    let mut machine = Machine::new("end = [\"/a\"]\ngrace = \"2s\"\n");
    machine.put(
        "proc/self/mountinfo",
        "30 1 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n",
    );
    machine.put("proc/self/cgroup", "4:memory:/guard\n");
    machine.put("sys/fs/cgroup/memory.limit_in_bytes", "1\n");
    let takes = |machine: &Machine, mib: u64| {
        machine.put("sys/fs/cgroup/a/memory.stat", "total_rss 0\n");
        let kernel = format!("{}\n", mib * MIB);
        machine.put("sys/fs/cgroup/a/memory.kmem.usage_in_bytes", &kernel);
    };
    takes(&machine, 50);
    let pid = format!("{}\n", deaf.0.id());
    machine.put("sys/fs/cgroup/a/cgroup.procs", &pid);
    machine.look(2);
    takes(&machine, 400);
    machine.available(20);
    let said = machine.look(1);
    assert!(
        said.contains("ends /a: it holds 400 MiB, 350 MiB more"),
        "{said}"
    );
    assert!(said.contains("(SIGTERM to 1 processes)"), "{said}");
    assert!(deaf.lives());
    let said = machine.look(2);
    assert!(said.contains("/a is killed (SIGKILL)"), "{said}");
    assert_eq!(deaf.ended().signal(), Some(KILL));
    machine.leaves("a");
    takes(&machine, 0);
    machine.available(500);
    let said = machine.look(2);
    assert!(said.contains("/a ended after"), "{said}");
}

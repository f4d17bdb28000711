//! `zmeld up` and `zmeld down` on the machine itself, killed at random moments:
//! afterwards it is as it was before. Needs root and zram; says so where one is
//! missing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use zmeld_linux::lock::FileLock;
use zmeld_linux::Host;
use zmeld_tests::child::Script;
use zmeld_tests::group::Group;
use zmeld_tests::turn;

use crate::errors::refuses;
use crate::own_run;
use crate::run::*;

/// How often is killed; `ZMELD_KILLS` sets another number.
pub fn rounds(usual: u32) -> u32 {
    let given = std::env::var("ZMELD_KILLS").ok();
    given.map_or(usual, |given| {
        given.parse().expect("ZMELD_KILLS is a number")
    })
}

/// How much a process of the test uses, and how much of it fits into its group.
const HELD_BYTES: u64 = 24 << 20;
const GROUP_BYTES: u64 = 12 << 20;

/// Why the machine cannot be changed by a test; nothing where it can.
fn unfit() -> Option<String> {
    if !is_root() {
        return Some("needs root".to_owned());
    }
    if !Path::new("/sys/class/zram-control/hot_add").exists() {
        return Some("needs zram".to_owned());
    }
    if own_run::is_set_up() {
        return Some("zmeld has set this machine up: zmeld down first".to_owned());
    }
    if Group::limited(GROUP_BYTES).is_none() {
        return Some("needs a memory control group".to_owned());
    }
    if Script::start("").is_none() {
        return Some("needs python3".to_owned());
    }
    None
}

/// Waits until no other test changes the machine's devices and swap. Notes in `/run`
/// of one that failed or was killed are taken back.
pub fn alone() -> FileLock {
    let held = turn::turn().expect("the lock can be taken");
    if own_run::enter(own_run::Owner::Turn) {
        let noted = |name: &str| Path::new("/run/zmeld").join(name).exists();
        for (name, down) in [
            ("state.json", "down"),
            ("experiment.json", "down --experiment"),
        ] {
            if noted(name) {
                eprintln!("a test that did not come to its end is taken back");
                succeed(&Vec::from_iter(down.split(' ')), "left by a test");
            }
        }
        let _ = fs::remove_dir_all("/run/zmeld");
    }
    held
}

/// The turn to change the machine's swap, or the reason why it cannot be had printed. Looked at when it is our turn:
/// what another test has set up is gone by then.
pub fn turn() -> Option<FileLock> {
    let held = alone();
    if let Some(reason) = unfit() {
        eprintln!("SKIP: {reason}");
        return None;
    }
    Some(held)
}

/// All that `up` touches.
pub fn machine() -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    let mut files = vec![PathBuf::from("/proc/swaps")];
    for folder in ["/sys/module/zswap/parameters", "/proc/sys/vm"] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()));
    }
    for path in files {
        // Some can only be written.
        if let Ok(value) = fs::read_to_string(&path) {
            state.insert(path.display().to_string(), value);
        }
    }
    for folder in ["/sys/block", "/dev/mapper", "/run/zmeld"] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        // Locks stay, and the kernel's counters that status remembers: neither is set up.
        let stays = [
            "lock",
            "watch",
            "experiment",
            "counters.json",
            "experiment-kills.json",
        ];
        names.retain(|name| stays.iter().all(|it| name != it));
        names.sort();
        state.insert(folder.to_owned(), format!("{names:?}"));
    }
    state
}

/// A process in a group that holds memory, more than the group does, so that the rest is
/// swapped, and can say whether it is still what was written.
struct Holder {
    script: Script,
    group: Group,
}

impl Holder {
    fn new(tag: u64) -> Holder {
        let group = Group::limited(GROUP_BYTES).expect("checked before");
        let script = format!(
            "
open({:?}, 'w').write(str(os.getpid()))
numbers = range({})
a = private(len(numbers)); fill(a, {tag}, numbers); say(1)
for line in sys.stdin: say(int(all(a[n * PAGE:(n + 1) * PAGE] == page({tag}, n) for n in numbers)))
",
            group.0.join("cgroup.procs"),
            HELD_BYTES / PAGE as u64
        );
        let mut script = Script::start(&script).expect("checked before");
        script.numbers();
        Holder { script, group }
    }

    fn is_intact(&mut self) -> bool {
        let input = self.script.child.stdin.as_mut().expect("a pipe");
        input.write_all(b"\n").expect("it listens");
        self.script.numbers() == [1]
    }
}

/// Runs the command and kills it after that time; how long it took, where it had ended before.
fn ended_within(args: &[&str], time: Duration) -> Option<Duration> {
    let mut child = zmeld(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let begin = Instant::now();
    while begin.elapsed() < time {
        if child.try_wait().expect("it can be waited for").is_some() {
            return Some(begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let ended = child.try_wait().expect("it can be waited for");
    let _ = child.kill();
    let _ = child.wait();
    ended.map(|_| begin.elapsed())
}

fn succeed(args: &[&str], what: &str) {
    let output = run(args);
    assert_eq!(
        code(&output),
        0,
        "{what}: {args:?}: {}",
        text(&output.stderr)
    );
    remove_doubtful(&output);
}

/// A run that is killed while the kernel adds a device cannot say whose it is: it is
/// named then, with what removes it. Here nobody else adds any.
pub fn remove_doubtful(output: &Output) {
    let said = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    let doubtful = " is left as it is: a run that was stopped may have made it";
    for (before, _) in said
        .match_indices(doubtful)
        .map(|(at, _)| said.split_at(at))
    {
        let number: String = before
            .chars()
            .rev()
            .map_while(|c| c.to_digit(10))
            .fold(String::new(), |number, digit| format!("{digit}{number}"));
        let size = fs::read_to_string(format!("/sys/block/zram{number}/disksize"));
        if size.is_ok_and(|size| size == "0\n") {
            fs::write("/sys/class/zram-control/hot_remove", &number).expect("it can be removed");
        }
    }
}

fn on_disk(folder: &Path, size: &str) -> String {
    let file = folder.join("swapfile");
    let file = str(&file);
    format!("[tier.file]\nkind = \"disk\"\nfile = \"{file}\"\nsize = \"{size}\"\n")
}

fn configurations(folder: &Path) -> [PathBuf; 2] {
    let disk = on_disk(folder, "16MiB");
    let ram = "[tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\nmemory_limit = \"32MiB\"\n\
               codec = \"lzo-rle\"\n";
    let zswap = "[tier.cache]\nkind = \"zswap\"\nmax_pool_percent = 10\n";
    let tunables = "[tunables]\nswappiness = 133\npage_cluster = 0\nwatermark_scale_factor = 20\n";
    let both = format!("accept = [\"lru-inversion\"]\n{ram}{disk}{tunables}");
    let cached = if Path::new("/sys/module/zswap/parameters/enabled").exists() {
        format!("{disk}{zswap}{tunables}")
    } else {
        format!("{ram}{tunables}")
    };
    [
        write(folder, "both.toml", both.as_bytes()),
        write(folder, "cached.toml", cached.as_bytes()),
    ]
}

#[test]
fn fifty_times_up_and_down_with_kills_leave_the_machine_as_it_was() {
    let Some(_lock) = turn() else { return };
    let seed = seed();
    let mut random = Random(seed);
    let folder = folder();
    let configurations = configurations(folder.path());
    let before = machine();

    // How long each takes undisturbed, so that kills fall on all of it.
    let begin = Instant::now();
    succeed(&["up", "--config", str(&configurations[0])], "undisturbed");
    let mut up_time = begin.elapsed();
    let begin = Instant::now();
    succeed(&["down"], "undisturbed");
    let mut down_time = begin.elapsed();
    assert_eq!(machine(), before, "undisturbed");

    let mut killed = 0;
    let rounds = rounds(50);
    for round in 0..rounds {
        let what = format!("seed {seed}, round {round}");
        let config = str(&configurations[(random.number() >> 40) as usize % 2]);
        let up = ["up", "--config", config];
        let mut moment =
            |time: Duration| time.mul_f64((random.number() >> 40) as f64 / (1u64 << 24) as f64);
        // If it has become faster, the next moment is to be within it again.
        match ended_within(&up, moment(up_time.mul_f64(1.1))) {
            Some(took) => up_time = took,
            None => killed += 1,
        }
        // Half of the rounds carry on, half take back what there is.
        if round % 2 == 0 {
            succeed(&up, &what);
            let again = run(&["up", "--config", config, "--json"]);
            let again: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
            assert_eq!(again["applied"], serde_json::json!([]), "{what}");
            let mut holder = Holder::new(round.into());
            let swaps = Host::here().swaps().expect("swap");
            let is_used = swaps.iter().any(|it| it.used_bytes > 0);
            assert!(is_used, "{what}: nothing was swapped: {swaps:?}");
            let status = json(&["status", "--json"]);
            assert!(status["schema"]
                .as_str()
                .is_some_and(|it| it.starts_with("zmeld.status/")));
            assert!(holder.group.limit(4 * HELD_BYTES));
            match ended_within(&["down"], moment(down_time.mul_f64(1.1))) {
                Some(took) => down_time = took,
                None => killed += 1,
            }
            succeed(&["down"], &what);
            assert!(holder.is_intact(), "{what}: memory has changed");
        } else {
            succeed(&["down"], &what);
        }
        assert_eq!(machine(), before, "{what}");
        assert!(!folder.path().join("swapfile").exists(), "{what}");
    }
    // Otherwise the rounds have shown nothing.
    assert!(killed >= rounds / 4, "only {killed} runs were killed");
    eprintln!("{killed} runs were killed");
}

/// The kernel would kill the program: its group has no room for what it has in swap.
#[test]
fn a_program_whose_group_cannot_take_its_pages_back_lives_on() {
    let Some(_lock) = turn() else { return };
    let folder = folder();
    let before = machine();
    // In RAM alone: swap on a disk that stays could take what does not fit.
    let sized = |size: &str| {
        let text =
            format!("[tier.fast]\nkind = \"zram\"\nsize = \"{size}\"\ncodec = \"lzo-rle\"\n");
        write(folder.path(), &format!("{size}.toml"), text.as_bytes())
    };
    let (ram, other) = (sized("64MiB"), sized("80MiB"));
    succeed(&["up", "--config", str(&ram)], "up");
    let mut holder = Holder::new(7);
    let swaps = || Host::here().swaps().expect("swap").len();
    let up = swaps();
    for args in [&["down"][..], &["down", "--only", "fast"]] {
        let output = run(args);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{args:?}: {said}");
        let group = holder.group.0.file_name().expect("a name");
        let group = format!("the control group /{}", group.to_string_lossy());
        let pid = format!("pid {}", holder.script.child.id());
        assert!(said.contains(&group) && said.contains(&pid), "{said}");
        assert_eq!(swaps(), up, "{args:?}");
        assert!(holder.is_intact(), "{args:?}");
    }
    // Another device of the tier takes them.
    succeed(&["up", "--config", str(&other)], "a larger one");
    assert_eq!(swaps(), up);
    assert!(holder.is_intact());
    assert!(holder.group.limit(4 * HELD_BYTES));
    succeed(&["down"], "with room");
    assert!(holder.is_intact());
    assert_eq!(machine(), before);
}

/// Switching zswap off brings no page back, so that no group needs room for any.
#[test]
fn zswap_switched_off_brings_nothing_back_to_a_group() {
    let Some(_lock) = turn() else { return };
    let enabled = || fs::read_to_string("/sys/module/zswap/parameters/enabled");
    if !enabled().is_ok_and(|it| it.trim() == "N") {
        eprintln!("SKIP: the kernel has no zswap, or it is on already");
        return;
    }
    let folder = folder();
    let before = machine();
    let disk = on_disk(folder.path(), "256MiB");
    let cached = format!("[tier.cache]\nkind = \"zswap\"\nmax_pool_percent = 10\n{disk}");
    let cached = write(folder.path(), "cached.toml", cached.as_bytes());
    let bare = write(folder.path(), "bare.toml", disk.as_bytes());
    succeed(&["up", "--config", str(&cached)], "up");
    let mut holder = Holder::new(11);
    let swapped = || {
        let swaps = Host::here().swaps().expect("swap");
        let files = swaps.iter().filter(|it| it.path.ends_with("swapfile"));
        files.map(|it| it.used_bytes).sum::<u64>()
    };
    let held = swapped();
    assert!(held >= HELD_BYTES / 4, "{held} bytes are swapped out");
    succeed(&["up", "--config", str(&bare)], "without zswap");
    assert_eq!(enabled().expect("a parameter").trim(), "N");
    // Pages used meanwhile come back; nothing else does.
    assert!(
        swapped() >= held / 2,
        "{} of {held} bytes are left",
        swapped()
    );
    assert!(holder.is_intact());
    assert!(holder.group.limit(4 * HELD_BYTES));
    succeed(&["down"], "with room");
    assert!(holder.is_intact());
    assert_eq!(machine(), before);
}

/// A command of zmeld's that was ended by it would leave a step half done.
#[test]
fn ctrl_c_reaches_zmeld_and_not_its_commands() {
    let Some(_lock) = turn() else { return };
    let folder = folder();
    let before = machine();
    let [ram, _] = configurations(folder.path());
    let command = zmeld(&["up", "--config", str(&ram)])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the command starts");
    let group = nix::unistd::Pid::from_raw(command.id() as i32);
    let state = Path::new("/run/zmeld/state.json");
    // As a terminal does: to the whole group of processes, once something was begun.
    wait_until("nothing was begun", || state.exists());
    // It may be over by now.
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT);
    let output = command.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    match code(&output) {
        0 => succeed(&["down"], "it was over"),
        130 => assert!(said.contains("nothing was changed"), "{said}"),
        other => panic!("{other}: {said}"),
    }
    assert_eq!(machine(), before, "{said}");
}

/// `zmeld watch`, killed at random moments, leaves nothing that `down` does not take back.
#[test]
fn a_watch_killed_at_any_moment_leaves_nothing() {
    let Some(_lock) = turn() else { return };
    let seed = seed();
    let mut random = Random(seed);
    let folder = folder();
    let before = machine();
    let mut config = fs::read_to_string(&configurations(folder.path())[0]).expect("one");
    config.push_str("[watch]\ninterval = \"1s\"\n[watch.writeback]\npages = \"huge\"\n");
    let config = write(folder.path(), "watched.toml", config.as_bytes());
    for round in 0..rounds(6) {
        let what = format!("seed {seed}, round {round}");
        succeed(&["up", "--config", str(&config)], &what);
        let moment = Duration::from_millis((random.number() >> 40) % 1500);
        let over = ended_within(&["watch", "--config", str(&config)], moment);
        assert!(over.is_none(), "{what}: it ended by itself");
        succeed(&["down"], &what);
        assert_eq!(machine(), before, "{what}");
    }
}

/// The configuration may have changed since: what is set up is what the journal says.
#[test]
fn down_takes_back_the_tiers_that_are_set_up_whatever_the_configuration_says() {
    let Some(_lock) = turn() else { return };
    let before = machine();
    let folder = folder();
    let tier = |name: &str| format!("[tier.{name}]\nkind = \"zram\"\nsize = \"16MiB\"\n");
    let text_of_both = format!(
        "accept = [\"second-device\"]\n{}{}",
        tier("one"),
        tier("two")
    );
    let config = write(folder.path(), "c.toml", text_of_both.as_bytes());
    for more in [&["--dry-run"][..], &[]] {
        let done = json(&[&["up", "--config", str(&config), "--json"], more].concat());
        crate::json::check(&done);
        assert!(!done["applied"].as_array().unwrap().is_empty(), "{done}");
    }
    let both = machine();
    fs::write(&config, tier("three")).unwrap();
    let words = ["no tier \"three\" is set up: there are one, two"];
    for more in [&["--dry-run"][..], &[]] {
        refuses(&[&["down", "--only", "three"], more].concat(), 2, &words);
    }
    assert_eq!(machine(), both);
    fs::remove_file(&config).unwrap();
    succeed(&["down", "--only", "one"], "one of two");
    let one = machine();
    assert!(one != both && one != before, "{one:?}");
    succeed(&["down", "--only", "two"], "the other");
    assert_eq!(machine(), before);
}

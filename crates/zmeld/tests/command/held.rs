//! Beside a process of another user whose memory nobody can read: each command ends, and says so
//! where it is left out. Needs root and FUSE.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use zmeld_linux::lock::FileLock;

use crate::interrupt::{await_handler, send};
use crate::run::*;
use crate::setup;
use crate::survey::calm;

/// Long after this, a command does not end at all.
const NEVER: Duration = Duration::from_secs(300);

/// Processes that hold up whoever reads them, until it is dropped. They hold up every swapoff of the
/// machine, hence no test has them that has not its turn.
struct Held {
    server: Child,
    pids: Vec<String>,
    /// Folder of its file system.
    _folder: tempfile::TempDir,
}

impl Held {
    fn new(turn: &FileLock, how_many: usize) -> Option<Held> {
        Held::with(turn, how_many, &[])
    }

    fn with(_turn: &FileLock, how_many: usize, more: &[&str]) -> Option<Held> {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../zmeld-linux/tests/support/held.py"
        );
        let mut python = Command::new("python3");
        python.args([script, &how_many.to_string(), str(folder.path())]);
        python.args(more);
        let python = python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Some(mut server) = is_root().then(|| python.spawn().ok()).flatten() else {
            println!("SKIP: not root, or no python3");
            return None;
        };
        let mut line = String::new();
        let said = server.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        if let Some(reason) = line.strip_prefix("SKIP: ") {
            println!("SKIP: no FUSE: {reason}");
            return None;
        }
        let pids: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let held = Held {
            server,
            pids,
            _folder: folder,
        };
        assert_eq!(held.pids.len(), how_many, "{line}");
        for pid in held.pids.iter().filter(|_| more.is_empty()) {
            assert!(!held.is_readable(pid), "it holds nobody up");
        }
        Some(held)
    }

    /// Whether its command line can be read.
    fn is_readable(&self, pid: &str) -> bool {
        let mut cat = Command::new("timeout");
        cat.args(["--signal=KILL", "1", "cat"]);
        let read = cat.arg(format!("/proc/{pid}/cmdline")).output().unwrap();
        read.status.success()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        // They end after it.
        for pid in &self.pids {
            let stat = format!("/proc/{pid}/stat");
            wait_until("a held process ends", || {
                let state = fs::read_to_string(&stat).unwrap_or_default();
                state
                    .rsplit(')')
                    .next()
                    .is_none_or(|it| it.trim_start().starts_with('Z') || it.is_empty())
            });
        }
    }
}

fn ended(mut child: Child, what: &str) -> Output {
    let begin = Instant::now();
    // Its output is short.
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > NEVER {
            let _ = child.kill();
            panic!("{what} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// Output of the command, through files: a pipe may be full before it ends.
fn run_to_end(args: &[&str]) -> Output {
    let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut command = zmeld(args);
    command.stdout(out.try_clone().unwrap());
    command.stderr(err.try_clone().unwrap());
    let status = ended(command.spawn().unwrap(), &args.join(" ")).status;
    let said = |mut file: fs::File| {
        let mut said = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut said).unwrap();
        said
    };
    let (stdout, stderr) = (said(out), said(err));
    Output {
        status,
        stdout,
        stderr,
    }
}

fn to_json(output: &Output) -> Value {
    assert_eq!(code(output), 0, "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_scan_names_the_process_that_nobody_can_read_and_reads_the_others() {
    let turn = setup::alone();
    let Some(held) = Held::new(&turn, 3) else {
        return;
    };
    let is_named = |found: &Value| {
        let notes = found["notes"].to_string();
        held.pids
            .iter()
            .all(|pid| notes.contains(&format!("({pid})")))
    };
    let found = to_json(&run_to_end(&["scan", "--codecs", "lz4", "--json"]));
    assert!(is_named(&found), "{}", found["notes"]);
    let skipped = found["skipped"].as_array().unwrap();
    let skipped = skipped
        .iter()
        .find(|it| it["reason"] == "held up by the process itself");
    let skipped = skipped.expect("it is counted");
    assert!(skipped["processes"].as_u64().unwrap() >= 3, "{skipped}");
    assert!(skipped["pages"].as_u64().unwrap() >= 3 * 256, "{skipped}");
    assert!(found["memory"]["processes"].as_u64().unwrap() > 3);

    let folder = folder();
    let key = write(folder.path(), "fleet.key", "5a".repeat(32).as_bytes());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let pids = format!("{},{}", held.pids.join(","), std::process::id());
    let place = str(folder.path());
    let survey = [
        "scan",
        "--survey",
        place,
        "--key",
        str(&key),
        "--pid",
        &pids,
        "--json",
    ];
    let found = to_json(&calm(|| run_to_end(&survey)));
    assert!(is_named(&found), "{}", found["notes"]);
    assert_eq!(
        (&found["held_processes"], &found["refused_processes"]),
        (&3.into(), &0.into())
    );

    let output = run_to_end(&["scan", "--pid", &pids, "--cold", "1"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
}

#[test]
fn what_plans_and_what_watches_goes_on_beside_it() {
    // Beside an experiment nothing is set up.
    let turn = setup::alone();
    let Some(_held) = Held::new(&turn, 1) else {
        return;
    };
    let folder = folder();
    let figures = folder.path().join("figures.prom");
    let watched = "[watch]\ninterval = \"1s\"\n[watch.reclaim]\n[watch.guard]\nend = [\"/none\"]\n";
    let config = write(folder.path(), "watch.toml", watched.as_bytes());
    for args in [
        &["plan"][..],
        &["up", "--dry-run", "--tier", "zram"],
        &["down", "--dry-run"],
        &["status", "--config", str(&config)],
        &["metrics", "--config", str(&config)],
    ] {
        let output = run_to_end(args);
        let said = text(&output.stderr);
        assert!((0..2).contains(&code(&output)), "{args:?}: {said}");
    }
    let watch = [
        "watch",
        "--dry-run",
        "--config",
        str(&config),
        "--textfile",
        str(&figures),
    ];
    // Its rounds go on; what a rule does reads no process's memory, and is not tested here.
    let mut watch = zmeld(&watch).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..3 {
        wait_until("the watch hangs", || fs::remove_file(&figures).is_ok());
    }
    send(&watch, Signal::SIGTERM);
    assert!(watch.wait().unwrap().success());
}

/// The lock is free while `up` measures; what it sets up `down` takes back.
#[test]
fn a_machine_is_set_up_beside_it() {
    let Some(turn) = setup::turn() else { return };
    let Some(_held) = Held::new(&turn, 1) else {
        return;
    };
    let before = setup::machine();
    for args in [&["up", "--tier", "zram", "--size", "16MiB"][..], &["down"]] {
        let output = run_to_end(args);
        assert_eq!(code(&output), 0, "{args:?}: {}", text(&output.stderr));
    }
    assert_eq!(setup::machine(), before);
}

/// swapoff waits for the lock of each program with pages in swap, and hears no signal then.
#[test]
fn whoever_keeps_swapoff_waiting_is_named_before_and_meanwhile() {
    let Some(turn) = setup::turn() else { return };
    let before = setup::machine();
    // Its own files say that it has no memory where its first thread has ended.
    for kind in [&[][..], &["without-first"]] {
        let output = run_to_end(&["up", "--tier", "zram", "--size", "16MiB"]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        if let Some(held) = Held::with(&turn, 1, kind) {
            for force in [&[][..], &["--force"]] {
                let output = run_to_end(&[&["down"], force].concat());
                let said = text(&output.stderr);
                assert_eq!(code(&output), 2, "{kind:?} {force:?}: {said}");
                let wanted = format!(
                    "process {} (python3): it holds the lock of its memory",
                    held.pids[0]
                );
                assert!(said.contains(&wanted), "{kind:?} {force:?}: {said}");
            }
        }
        wait_until("swapoff goes on", || code(&run_to_end(&["down"])) == 0);
        assert_eq!(setup::machine(), before);
    }
}

/// Many of one user cost as long as a few, and cost no other user's process its place.
#[test]
fn many_of_one_user_hide_nobody_else() {
    let turn = setup::alone();
    let Some(held) = Held::new(&turn, 24) else {
        return;
    };
    let pids = format!("{},{}", held.pids.join(","), std::process::id());
    let args = ["scan", "--codecs", "lz4", "--pid", &pids, "--json"];
    let found = to_json(&run_to_end(&args));
    let of = |reason: &str| {
        let skipped = found["skipped"].as_array().unwrap().iter();
        let mut skipped = skipped.filter(|it| it["reason"] == reason);
        skipped
            .next()
            .map_or(0, |it| it["processes"].as_u64().unwrap())
    };
    let waited_for = of("held up by the process itself");
    let others = of("not tried: other processes held up the reading");
    assert!((4..=8).contains(&waited_for), "{}", found["skipped"]);
    assert_eq!(waited_for + others, 24, "{}", found["skipped"]);
    assert_eq!(found["memory"]["processes"], 1, "{}", found["skipped"]);
}

/// The measuring that is left behind has nothing of the journal's open.
#[test]
fn what_is_left_behind_keeps_nothing_open() {
    let turn = setup::alone();
    let Some(_held) = Held::new(&turn, 1) else {
        return;
    };
    let folder = folder();
    let lock = folder.path().join("lock");
    let mut command = Command::new("flock");
    command.arg(&lock).arg(env!("CARGO_BIN_EXE_zmeld"));
    command.args(["plan", "--tier", "zram"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(child) = command.spawn() else {
        println!("SKIP: no flock");
        return;
    };
    ended(child, "plan");
    let free = Command::new("flock")
        .arg("-n")
        .arg(&lock)
        .arg("true")
        .status();
    assert!(free.unwrap().success(), "its lock is kept");
}

/// The first signal asks, also where all of a group get it.
#[test]
fn a_signal_to_the_group_counts_once() {
    use std::os::unix::process::CommandExt;
    let pid = std::process::id().to_string();
    let mut scan = zmeld(&["scan", "--pid", &pid, "--cold", "600"]);
    scan.process_group(0);
    let scan = scan.stdout(Stdio::null()).stderr(Stdio::piped());
    let scan = scan.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", scan.id());
    wait_until("the one that reads never listened", || {
        let child = fs::read_to_string(&children).unwrap_or_default();
        let status = format!("/proc/{}/status", child.trim());
        let status = fs::read_to_string(status).unwrap_or_default();
        let caught = zmeld_linux::process::status(&status, "SigCgt").unwrap_or("0");
        u64::from_str_radix(caught, 16).unwrap() & 1 << (Signal::SIGTERM as u32 - 1) != 0
    });
    let group = nix::unistd::Pid::from_raw(scan.id().cast_signed());
    nix::sys::signal::killpg(group, Signal::SIGTERM).unwrap();
    let output = ended(scan, "a scan");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("there is no result"), "{err}");
}

#[test]
fn ctrl_c_ends_a_scan_that_waits_for_it() {
    let turn = setup::alone();
    let Some(_held) = Held::new(&turn, 1) else {
        return;
    };
    let mut scan = zmeld(&["scan", "--codecs", "lz4"]);
    scan.stdout(Stdio::null()).stderr(Stdio::null());
    let scan = scan.spawn().unwrap();
    await_handler(&scan);
    send(&scan, Signal::SIGINT);
    assert_eq!(ended(scan, "a scan").status.code(), Some(130));
}

/// A measuring process may be ended: by the kernel, where memory runs out.
#[test]
fn a_plan_is_made_where_what_measures_is_killed() {
    // Beside another's swap there is no such plan.
    let turn = setup::alone();
    let Some(_held) = Held::new(&turn, 1) else {
        return;
    };
    let mut plan = zmeld(&["plan", "--tier", "zram"]);
    let plan = plan.stdout(Stdio::null()).stderr(Stdio::piped());
    let plan = plan.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", plan.id());
    let mut measuring = String::new();
    wait_until("nothing measures", || {
        measuring = fs::read_to_string(&children).unwrap_or_default();
        !measuring.trim().is_empty()
    });
    let pid: i32 = measuring.trim().parse().unwrap();
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    let output = ended(plan, "plan");
    let said = text(&output.stderr);
    assert!((0..2).contains(&code(&output)), "{said}");
    assert!(
        said.contains("memory is not measured (it ended with 137)"),
        "{said}"
    );
}

//! The exported script on this machine: what it sets up is what zmeld sets up,
//! twice is once, and a run that is killed anywhere can be taken back.
//!
//! Needs root and zram; elsewhere it is skipped with the reason.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use zmeld_swap::config::Config;
use zmeld_swap::execute;
use zmeld_swap::export::script::script;
use zmeld_swap::journal::{Journal, State};
use zmeld_swap::plan::{Options, Plan};
use zmeld_swap::Host;

const WANTED: &str = "\
[tier.script-test]
kind = \"zram\"
size = \"64MiB\"
memory_limit = \"32MiB\"
codec = \"lz4\"
priority = 77

[tunables]
watermark_scale_factor = 23
";

/// Why the machine cannot be used; nothing where it can.
fn unfit() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("this needs root");
    }
    if !Path::new("/sys/class/zram-control/hot_add").exists() {
        return Some("there is no zram");
    }
    if matches!(State::read(&Host::here()), Ok(None)) {
        None
    } else {
        Some("zmeld has set this machine up already")
    }
}

/// What there is of swap, without the numbers of devices.
fn look() -> Vec<String> {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let mut seen: Vec<String> = read("/proc/swaps".into())
        .lines()
        .skip(1)
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let name = words[0].trim_end_matches(|c: char| c.is_ascii_digit());
            format!("{name} {} {}", words[2], words[4])
        })
        .collect();
    for entry in fs::read_dir("/sys/block").unwrap() {
        let at = entry.unwrap().path();
        if at
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("zram")
        {
            let limit = read(at.join("mm_stat"));
            let limit = limit.split_whitespace().nth(3).unwrap_or_default();
            let attributes = ["disksize", "comp_algorithm", "initstate"];
            let attributes = attributes.map(|name| read(at.join(name)).trim().to_owned());
            let device = Path::new("/dev").join(at.file_name().unwrap());
            let label = Command::new("blkid")
                .args(["-p", "-o", "value", "-s", "LABEL"])
                .arg(device)
                .output()
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            seen.push(format!("{attributes:?} {limit} {label:?}"));
        }
    }
    let factor = "/proc/sys/vm/watermark_scale_factor";
    seen.push(read(factor.into()));
    seen.sort();
    seen
}

struct Script {
    folder: tempfile::TempDir,
    shell: &'static [&'static str],
}

impl Script {
    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(self.shell[0]);
        command
            .args(&self.shell[1..])
            .arg(self.folder.path().join("swap.sh"))
            .arg(what)
            .env("ZMELD_SCRIPT_STATE", self.folder.path().join("state"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, what: &str) {
        let output = self.command(what).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?} {what}: {said}", self.shell);
        assert_eq!(said, "", "{:?} {what}", self.shell);
    }
}

/// The machine is left as it was, whatever a test finds.
impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.command("undo").output();
    }
}

#[test]
fn the_script_sets_up_what_zmeld_sets_up_and_takes_it_back() {
    // Others on this machine change its swap under the same lock. What they have set up is gone when
    // it is our turn.
    let lock = File::create("/tmp/zmeld-host-memory.lock").unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    if let Some(why) = unfit() {
        eprintln!("SKIP: {why}");
        return;
    }
    let config = Config::from_text(Path::new("z.toml"), WANTED)
        .unwrap()
        .config;
    let before = look();
    let host = Host::here();
    let by_zmeld = {
        let mut journal = Journal::lock(&host, Duration::ZERO, &mut |_| {}).unwrap();
        let state = journal.state().clone();
        let plan = Plan::new(&host, &config, Some(&state), &Options::default()).unwrap();
        let up = execute::up(&host, &mut journal, &plan, &false.into(), &mut |_| {});
        let seen = look();
        execute::down(
            &host,
            &mut journal,
            Default::default(),
            &false.into(),
            &mut |_| {},
        )
        .unwrap();
        match up {
            Ok(_) => seen,
            Err(err) => {
                eprintln!("SKIP: {err}");
                return;
            }
        }
    };
    assert_ne!(by_zmeld, before);
    assert_eq!(look(), before);
    // Debian's busybox prefers its own swapon, which has no priorities: its shell
    // reads the script in tests/export.rs only.
    for shell in [&["dash"][..], &["bash", "--posix"]] {
        if Command::new(shell[0]).arg("-c").arg("").output().is_err() {
            eprintln!("SKIP: {} is not installed", shell[0]);
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("swap.sh"), script(&config)).unwrap();
        let script = Script { folder, shell };
        script.run("up");
        assert_eq!(look(), by_zmeld, "{shell:?}");
        script.run("up");
        assert_eq!(look(), by_zmeld, "{shell:?}, again");
        script.run("undo");
        assert_eq!(look(), before, "{shell:?}, undone");
        script.run("undo");
        // Killed after so many milliseconds, carried on or taken back.
        for after in (0..100).step_by(7) {
            let mut child = script.command("up").spawn().unwrap();
            std::thread::sleep(Duration::from_millis(after));
            let _ = child.kill();
            child.wait().unwrap();
            // What it had started ends by itself.
            std::thread::sleep(Duration::from_millis(100));
            if after % 2 == 0 {
                script.run("up");
                assert_eq!(look(), by_zmeld, "{shell:?}, killed after {after} ms");
            }
            script.run("undo");
            assert_eq!(look(), before, "{shell:?}, killed after {after} ms");
        }
    }
}

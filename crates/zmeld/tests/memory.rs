//! How much memory a survey takes itself, much less than what it reads, and a scan. Alone in
//! its process, so that the largest child is one of these.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{getrusage, UsageWho};
use zmeld_tests::child::Script;

const PAGE: usize = 4096;
/// 512 MiB of distinct pages are surveyed.
const SURVEYED: usize = 131_072;
const SURVEY_MOST: u64 = 50 << 20;
const SCANNED: u64 = 262_144;
/// Code, buffers of each thread, the sample, the sampler's bitmap.
const FIXED: u64 = 64 << 20;

/// The most that a child that has ended had.
fn peak() -> u64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() as u64 * 1024
}

#[test]
fn a_survey_takes_50_mebibytes_at_most_and_a_scan_24_bytes_a_page_and_a_fixed_amount() {
    // In another process: a child's peak begins with what its parent had when it forked.
    let script = format!(
        "
m = private({SURVEYED})
for at in range({SURVEYED}): m[at * PAGE:at * PAGE + 900] = b'%09d' % at * 100
say(1); wait()
"
    );
    // It ends last, since it would be the largest child that has ended.
    let mut holder = Script::start(&script);
    if let Some(holder) = &mut holder {
        holder.numbers();
        survey(holder.pid());
        let peak = peak();
        eprintln!("a survey of 512 MiB: peak {} KiB", peak >> 10);
        assert!(peak > 1 << 20 && peak <= SURVEY_MOST, "{peak} bytes");
    }
    scan();
    let peak = peak();
    eprintln!(
        "a scan of {SCANNED} distinct pages: peak {} KiB",
        peak >> 10
    );
    assert!(peak <= 24 * SCANNED + FIXED, "{peak} bytes");
}

fn survey(pid: i32) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let key = folder.path().join("fleet.key");
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let survey = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zmeld"));
        command.arg("scan").arg("--survey").arg(folder.path());
        command.arg("--key").arg(&key);
        command.args(["--sketch", "1600", "--pid", &pid.to_string()]);
        command.stdout(Stdio::null()).status().unwrap().code()
    };
    // If others make memory short, it gives up: then again.
    let mut tries = (0..1800).map(|_| survey()).inspect(|code| {
        if *code == Some(75) {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    assert_eq!(tries.find(|code| *code != Some(75)), Some(Some(0)));
}

fn scan() {
    let scan = "scan --file - --codecs lz4 --threads 2 --json".split(' ');
    let mut child = Command::new(env!("CARGO_BIN_EXE_zmeld"))
        .args(scan)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut chunk = vec![0; 256 * PAGE];
    for first in (0..SCANNED).step_by(256) {
        for (at, page) in chunk.chunks_exact_mut(PAGE).enumerate() {
            page[..8].copy_from_slice(&(first + at as u64 + 1).to_le_bytes());
        }
        input.write_all(&chunk).unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

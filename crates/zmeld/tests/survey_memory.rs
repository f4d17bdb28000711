//! How much memory a survey takes itself: much less than what it reads. Alone in its
//! process, so that the largest child is the survey.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use nix::sys::resource::{getrusage, UsageWho};

const PAGE: usize = 4096;
/// 512 MiB of distinct pages.
const PAGES: usize = 131_072;
const MOST: u64 = 50 << 20;

#[test]
fn a_survey_takes_50_mebibytes_at_most() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let key = folder.path().join("fleet.key");
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    // In another process: a child's peak begins with what its parent had when it forked.
    let script = format!(
        "import mmap, sys\n\
         m = mmap.mmap(-1, {PAGES} * {PAGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
         for at in range({PAGES}): m[at * {PAGE}:at * {PAGE} + 900] = b'%09d' % at * 100\n\
         print('ready', flush=True)\n\
         sys.stdin.readline()\n"
    );
    let holder = Command::new("python3")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut holder) = holder else {
        eprintln!("SKIP: python3 is not there");
        return;
    };
    let mut line = String::new();
    let out = holder.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = holder.id().to_string();
    let survey = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zmeld"));
        command.arg("scan").arg("--survey").arg(folder.path());
        command.arg("--key").arg(&key);
        command.args(["--sketch", "1600", "--pid", &pid]);
        command.stdout(Stdio::null()).status().unwrap().code()
    };
    // Where others make memory short it gives up: then again.
    let mut tries = (0..120).map(|_| survey()).inspect(|code| {
        if *code == Some(75) {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    });
    assert_eq!(tries.find(|code| *code != Some(75)), Some(Some(0)));
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() as u64 * 1024;
    holder.kill().unwrap();
    holder.wait().unwrap();
    eprintln!(
        "{} MiB of pages: peak {:.1} MiB",
        (PAGES * PAGE) >> 20,
        peak as f64 / (1 << 20) as f64
    );
    assert!(peak > 1 << 20 && peak <= MOST, "{peak} bytes");
}

//! Running the command, and pages whose composition is known.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
pub use zmeld_tests::is_root;
pub use zmeld_tests::random::Random;

use crate::own_run;

pub const PAGE: usize = 4096;

/// The command in a plain environment: 80 columns, no colours, UTF-8.
pub fn zmeld(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zmeld"));
    plain(command.args(args));
    command
}

/// Gives a command that environment, and `/run` of the test's own.
pub fn plain(command: &mut Command) -> &mut Command {
    own_run::enter(own_run::Owner::Other);
    command
        .stdin(Stdio::null())
        .env("COLUMNS", "80")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
}

pub fn run(args: &[&str]) -> Output {
    zmeld(args).output().expect("the command starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

/// The JSON of a run that has to succeed.
pub fn json(args: &[&str]) -> Value {
    let output = run(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A seed of this run, or of the one that is to be repeated; a failure shows it.
pub fn seed() -> u64 {
    let given = std::env::var("ZMELD_SEED").ok();
    let given = given.and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    eprintln!("seed {seed}: ZMELD_SEED={seed} replays it");
    seed
}

/// A page that does not compress.
pub fn noise_page(random: &mut Random) -> Vec<u8> {
    let words = (0..PAGE / 8).map(|_| random.number());
    words.flat_map(u64::to_le_bytes).collect()
}

/// A page of words that compresses.
pub fn text_page(random: &mut Random) -> Vec<u8> {
    let words = [
        "slot ", "page ", "object ", "share ", "handle ", "pool ", "span ", "class ",
    ];
    let mut page = Vec::with_capacity(PAGE + 8);
    while page.len() < PAGE {
        page.extend_from_slice(words[(random.number() >> 40) as usize % 8].as_bytes());
    }
    page.truncate(PAGE);
    page
}

/// Zeros, same-filled, distinct text, random pages, and copies of both.
pub struct Known {
    pub bytes: Vec<u8>,
    pub zero: u64,
    pub same_filled: u64,
    pub unique: u64,
    pub duplicate: u64,
}

pub fn known_pages() -> Known {
    let mut random = Random(0x7a6d_656c_6401);
    let mut pages: Vec<Vec<u8>> = Vec::new();
    pages.extend(std::iter::repeat_n(vec![0; PAGE], 40));
    for word in 1..=25u64 {
        pages.push(word.to_le_bytes().repeat(PAGE / 8));
    }
    let text: Vec<_> = (0..300).map(|_| text_page(&mut random)).collect();
    let noise: Vec<_> = (0..60).map(|_| noise_page(&mut random)).collect();
    pages.extend(text.iter().cloned());
    pages.extend(noise.iter().cloned());
    // 20 texts thrice more, 7 random pages once more.
    for page in text.iter().take(20) {
        pages.extend(std::iter::repeat_n(page.clone(), 3));
    }
    pages.extend(noise.iter().take(7).cloned());
    // In an order that depends on nothing.
    for at in (1..pages.len()).rev() {
        pages.swap(at, (random.number() >> 33) as usize % (at + 1));
    }
    Known {
        bytes: pages.concat(),
        zero: 40,
        same_filled: 25,
        unique: 360,
        duplicate: 67,
    }
}

/// A folder of the test's own; where others may write above the build's, as below `/tmp`,
/// one that root swaps to files in.
pub fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::MetadataExt;
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let is_open = |folder: &Path| folder.metadata().is_ok_and(|it| it.mode() & 0o022 != 0);
    let is_own = !is_root() || !built.ancestors().any(is_open);
    let place = if is_own { built } else { Path::new("/var/lib") };
    tempfile::tempdir_in(place).expect("a folder for the test")
}

pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("the folder takes a file");
    path
}

pub fn str(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(600), "{what}");
        let pause = begin.elapsed() / 10;
        std::thread::sleep(pause.clamp(Duration::from_millis(10), Duration::from_secs(1)));
    }
}

/// Its output is kept.
pub fn spawned(args: &[&str]) -> Child {
    let mut command = zmeld(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Starts an experiment or a search, and waits until that process has come so far.
pub fn started(args: &[&str], mut is_far: impl FnMut(u32) -> bool) -> Child {
    let mut child = spawned(args);
    wait_until("no run was made", || {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        is_far(child.id())
    });
    child
}

//! Every wrong input gets one line that names it, and the documented exit code.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::run::*;

/// Ends with that code and one line of error, which has these words, and prints no result.
pub fn refuses(args: &[&str], expected: i32, words: &[&str]) {
    let output = run(args);
    let line = text(&output.stderr);
    assert_eq!(code(&output), expected, "{args:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
    let is_named = line.starts_with("zmeld: ") && !line.contains("os error");
    assert!(is_named && output.stdout.is_empty(), "{args:?}: {line}");
    for word in words {
        assert!(line.contains(word), "{args:?}: no \"{word}\" in {line}");
    }
}

#[test]
fn a_kernel_thread_has_no_memory() {
    let kthreadd = fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if kthreadd.trim() == "kthreadd" {
        refuses(&["scan", "--pid", "2"], 2, &["kthreadd", "kernel thread"]);
    } else {
        eprintln!("SKIP: process 2 is not kthreadd here");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error_and_a_full_disk_is() {
    let folder = folder();
    let path = write(folder.path(), "pages", &known_pages().bytes);
    let missed = ["scan", "--file", str(&path), "--require-ratio", "1e9"];
    for (args, expected) in [
        (&["scan", "--file", str(&path), "--json"][..], 0),
        (&["--help"], 0),
        (&["man"], 0),
        (&["numa", "policies"], 0),
        // The exit code tells the answer, whoever reads the rest.
        (&missed, 1),
    ] {
        let mut child = spawned(args);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(code(&output), expected, "{args:?}");
        assert_eq!(said.is_empty(), expected == 0, "{args:?}: {said}");

        if expected != 0 {
            continue;
        }
        let output = zmeld(args)
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        assert_eq!(code(&output), 2, "{args:?}");
        let line = text(&output.stderr);
        assert!(
            line.contains("standard output: No space left"),
            "{args:?}: {line}"
        );
        assert_eq!(line.lines().count(), 1);
    }
}

#[test]
fn what_needs_root_is_a_missing_privilege() {
    let Some(nobody) = Nobody::new() else { return };
    // Another test's setup would be refused beside this one's.
    let _alone = crate::setup::alone();
    let place = nobody.place();
    let secret = write(place, "secret", &[1; PAGE]);
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    write(place, "c.toml", b"[tunables]\npage_cluster = 0\n");
    write(place, "tiny.toml", crate::bench::recipe(10, 1).as_bytes());
    for (args, words) in [
        (
            "scan --file secret",
            "secret: Permission denied; run it as root",
        ),
        ("up --config c.toml", "needs root"),
        ("up --dry-run --config c.toml", "the run itself needs root"),
        ("bench run tiny.toml", "needs root"),
        ("bench size -- true", "needs root"),
    ] {
        let output = nobody.zmeld().args(args.split(' ')).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(code(&output), 3, "{args}: {said}");
        // A dry run shows what root's would do.
        let is_dry = args.contains("--dry-run");
        assert!(said.contains(words), "{args}: {said}");
        assert!(is_dry || said.lines().count() == 1, "{args}: {said}");
        assert_eq!(output.stdout.is_empty(), !is_dry, "{args}");
    }
}

/// The user nobody, with a copy of the command in a folder that everybody may enter.
pub struct Nobody {
    folder: tempfile::TempDir,
    user: nix::unistd::User,
}

impl Nobody {
    /// `None`, with the reason printed, where that cannot be had.
    pub fn new() -> Option<Nobody> {
        if !is_root() {
            eprintln!("SKIP: only root can become nobody");
            return None;
        }
        let Ok(Some(user)) = nix::unistd::User::from_name("nobody") else {
            eprintln!("SKIP: there is no user nobody");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: a file that is open for writing here would be so in
        // every child that another test forks meanwhile, and could not be run.
        let copied = Command::new("cp")
            .args([env!("CARGO_BIN_EXE_zmeld"), str(folder.path())])
            .status();
        assert!(copied.unwrap().success());
        Some(Nobody { folder, user })
    }

    pub fn place(&self) -> &Path {
        self.folder.path()
    }

    /// A file or folder becomes his.
    pub fn own(&self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.user.uid.as_raw()), None).unwrap();
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .uid(self.user.uid.as_raw())
            .gid(self.user.gid.as_raw())
            .current_dir(self.place())
            .env("COLUMNS", "80")
            .stdin(Stdio::null());
        command
    }

    pub fn zmeld(&self) -> Command {
        self.command(str(&self.place().join("zmeld")))
    }
}

//! Every wrong input gets one line that names it, and the documented exit code.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
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
fn packed_and_damaged_dumps_say_the_way_out() {
    let folder = folder();
    let mut page = vec![1; PAGE];
    page[..8].copy_from_slice(b"KDUMP   ");
    let kdump = write(folder.path(), "kdump", &page);
    refuses(&["scan", "--file", str(&kdump)], 2, &["kdump", "ELF form"]);
    // An ELF core whose program headers lie beyond its end.
    let mut elf = vec![0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16] = 4; // ET_CORE
    elf[18] = 62; // x86-64
    elf[20] = 1;
    elf[33] = 0x10; // e_phoff 4096
    elf[52] = 64;
    elf[54] = 56;
    elf[56] = 3;
    let elf = write(folder.path(), "core", &elf);
    refuses(
        &["scan", "--file", str(&elf)],
        2,
        &["core", "program header"],
    );
    let output = run(&["scan", "--file", str(&elf), "--raw"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
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
fn a_page_that_cannot_be_written_leaves_nothing() {
    let folder = folder();
    let path = write(folder.path(), "pages", &known_pages().bytes);
    let scan = ["scan", "--file", str(&path), "--html"];
    let output = run(&[&scan[..], &["/dev/full"]].concat());
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("cannot write /dev/full: No space left"));
    // What was found is not lost with the page.
    assert!(text(&output.stdout).contains("zmeld scan of"));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1);
}

#[test]
fn a_page_on_a_full_disk_leaves_nothing() {
    if !is_root() {
        eprintln!("SKIP: only root can mount a tiny tmpfs");
        return;
    }
    let folder = folder();
    let path = write(folder.path(), "pages", &known_pages().bytes);
    // In a mount namespace of its own, so that nothing stays mounted whatever happens.
    let script = "mount -t tmpfs -o size=8k tmpfs \"$1\" && \
                  { \"$0\" scan --file \"$2\" --html \"$1/x.html\" >/dev/null; echo \"code $?\"; ls -A \"$1\"; }";
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let output = Command::new("unshare")
        .args([
            "-m",
            "sh",
            "-c",
            script,
            env!("CARGO_BIN_EXE_zmeld"),
            str(&disk),
            str(&path),
        ])
        .output();
    let Ok(output) = output else {
        eprintln!("SKIP: there is no unshare here");
        return;
    };
    if !text(&output.stdout).contains("code") {
        eprintln!("SKIP: cannot mount here: {}", text(&output.stderr).trim());
        return;
    }
    assert_eq!(text(&output.stdout), "code 2\n", "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("No space left"));
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
        // What was asked for is told, whoever reads the rest.
        (&missed, 1),
    ] {
        let mut child = zmeld(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{args:?}");
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
fn what_only_root_may_read_is_a_missing_privilege() {
    let (command, _copy) = as_nobody();
    let Some(mut command) = command else { return };
    // The folder must be open to others for the file to be what is refused.
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = write(open.path(), "secret", &[1; PAGE]);
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let output = command
        .args(["scan", "--file", str(&secret)])
        .output()
        .unwrap();
    let line = text(&output.stderr);
    assert_eq!(code(&output), 3, "{line}");
    assert!(
        line.contains("secret: Permission denied; run it as root"),
        "{line}"
    );
}

/// The command as user nobody, from a place that nobody may read; `None`, with
/// the reason printed, where that cannot be had.
pub fn as_nobody() -> (Option<Command>, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    if !is_root() {
        eprintln!("SKIP: only root can become nobody");
        return (None, place);
    }
    let Ok(Some(nobody)) = nix::unistd::User::from_name("nobody") else {
        eprintln!("SKIP: there is no user nobody");
        return (None, place);
    };
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("zmeld");
    // By another process: a file that is open for writing here would be so in
    // every child that another test forks meanwhile, and could not be run.
    let copied = Command::new("cp")
        .args([env!("CARGO_BIN_EXE_zmeld"), str(&copy)])
        .status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&copy);
    command
        .uid(nobody.uid.as_raw())
        .gid(nobody.gid.as_raw())
        .current_dir(place.path())
        .env("COLUMNS", "80")
        .stdin(Stdio::null());
    (Some(command), place)
}

#[test]
fn a_second_sweep_does_not_go_into_the_first_ones_file() {
    let folder = folder();
    let results = folder.path().join("r.jsonl");
    let page = folder.path().join("sweep.html");
    let sweep = |over: &[&str], more: &[&str]| {
        let mut args = vec!["numa", "sweep", "--set", "workload.processes=8"];
        args.extend(["--replications", "2", "--results", str(&results)]);
        over.iter().for_each(|axis| args.extend(["--over", axis]));
        args.extend(more);
        args.iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let words = sweep(
        &["workload.size_kb=50,100", "workload.run_time_ms=500,900"],
        &["--html", str(&page)],
    );
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = run(&args);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let html = std::fs::read_to_string(&page).unwrap();
    for said in ["Points", "on-demand", "900"] {
        assert!(html.contains(said), "{said}");
    }
    let words = sweep(&["workload.size_kb=50,100"], &[]);
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    refuses(&args, 2, &["r.jsonl", "another sweep", "--results FILE"]);
}

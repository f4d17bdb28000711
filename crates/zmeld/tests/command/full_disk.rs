//! A disk that is full: one line that says so, and nothing is there by half.
//!
//! The full disk is a small file system of the test's own, mounted where nobody
//! else sees it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::run::{code, folder, is_root, known_pages, str, text, write, zmeld};
use crate::setup::{machine, turn};

/// Runs a shell script with `$zmeld` and `$place`, a file system in memory of so
/// many KiB at that place, which is gone afterwards.
pub fn with_place(place: &Path, kib: u32, script: &str) -> Output {
    let mounted = "mount -t tmpfs -o mode=755,size=\"$size\" small \"$place\" || exit 99\n";
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("{mounted}{script}"))
        .env("zmeld", env!("CARGO_BIN_EXE_zmeld"))
        .env("place", place)
        .env("size", format!("{kib}k"))
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .expect("unshare can be started")
}

/// Root of a chroot or of a container may not mount, either.
pub fn cannot_mount() -> bool {
    if !is_root() {
        eprintln!("SKIP: mounting needs root");
        return true;
    }
    let probe = folder();
    let output = with_place(probe.path(), 4, "exit 0");
    if code(&output) != 0 {
        eprintln!("SKIP: cannot mount here: {}", text(&output.stderr).trim());
    }
    code(&output) != 0
}

/// One line that names the thing and the reason.
fn refused(output: &Output, names: &str) {
    let said = text(&output.stderr);
    assert_eq!(code(output), 2, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(names), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn the_journal_does_not_fit_and_nothing_is_changed() {
    let Some(_lock) = turn() else { return };
    if cannot_mount() {
        return;
    }
    let folder = folder();
    let config = write(
        folder.path(),
        "zmeld.toml",
        b"[tier.ram]\nkind = \"zram\"\nsize = \"16MiB\"\nmemory_limit = \"8MiB\"\n\
          codec = \"lz4\"\n[tunables]\npage_cluster = 0\nswappiness = 77\n",
    );
    fs::create_dir_all("/run/zmeld").unwrap();
    let before = machine();
    let script = format!(
        "\"$zmeld\" up --no-scan --config {} >/dev/null || exit $?
         \"$zmeld\" down >/dev/null 2>&1 || exit 98
         exit 0",
        str(&config)
    );
    let mut failed = 0;
    // A page more each time: it fails at one step after the other.
    for kib in (4..).step_by(4) {
        let output = with_place(Path::new("/run/zmeld"), kib, &script);
        assert_eq!(
            before,
            machine(),
            "with {kib} KiB: {}",
            text(&output.stderr)
        );
        if code(&output) == 0 {
            break;
        }
        failed += 1;
        refused(&output, "/run/zmeld/state.json");
        assert!(kib < 64, "it needs more than {kib} KiB");
    }
    assert!(failed > 0, "it never failed");
}

/// Old contents stay, and nothing is there by half.
#[test]
fn what_is_written_is_there_as_a_whole_or_not_at_all() {
    if cannot_mount() {
        return;
    }
    let folder = folder();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("etc/systemd")).unwrap();
    fs::create_dir_all(root.join("proc")).unwrap();
    write(&root, "proc/meminfo", b"MemTotal: 1048576 kB\n");
    let device = b"[zram0]\nzram-size = ram / 2\n";
    write(&root, "etc/systemd/zram-generator.conf", device);
    let pages = write(folder.path(), "pages", &known_pages().bytes);
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let import = format!("config import --root {} --output", str(&root));
    let scan = format!("scan --file {} --html", str(&pages));
    for (command, before) in [
        ("metrics --textfile", ""),
        ("metrics --textfile", "before"),
        (&*import, ""),
        (&*scan, ""),
        (&*scan, "before"),
    ] {
        let script = format!(
            "[ -z '{before}' ] || echo {before} >\"$place/written\"
             head -c 4096 /dev/zero >\"$place/full\"
             \"$zmeld\" {command} \"$place/written\" >/dev/null
             code=$?; ls -A \"$place\"; [ -z '{before}' ] || cat \"$place/written\"; exit $code"
        );
        let (kib, left) = match before {
            "" => (4, "full\n"),
            _ => (8, "full\nwritten\nbefore\n"),
        };
        let output = with_place(&small, kib, &script);
        refused(&output, "written");
        assert_eq!(text(&output.stdout), left, "{command}");
    }
    // To a full standard output.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let import: Vec<&str> = import.trim_end_matches(" --output").split(' ').collect();
    let output = zmeld(&import).stdout(full).output().unwrap();
    refused(&output, "standard output");
}

#[test]
fn a_swap_file_for_which_there_is_no_room_is_not_begun() {
    let Some(_lock) = turn() else { return };
    if cannot_mount() {
        return;
    }
    let folder = folder();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", str(&image)])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIP: there is no mke2fs");
        return;
    }
    let place = folder.path().join("disk");
    fs::create_dir(&place).unwrap();
    let before = machine();
    let script = format!(
        "umount \"$place\"; mount -o loop {image} \"$place\" || exit 97
         \"$zmeld\" up --no-scan --tier disk --device \"$place/swap\" --size 64MiB
         code=$?; ls \"$place\"; umount \"$place\"; exit $code",
        image = str(&image)
    );
    let output = with_place(&place, 4, &script);
    if code(&output) == 97 {
        eprintln!("SKIP: there is no loop device");
        return;
    }
    let said = text(&output.stderr);
    assert_eq!(code(&output), 2, "{said}");
    let line = said.lines().last().unwrap_or_default();
    assert!(
        line.contains("the file takes 64.0 MiB") && line.contains("smaller size"),
        "{said}"
    );
    assert_eq!(text(&output.stdout), "lost+found\n");
    assert_eq!(before, machine());
}

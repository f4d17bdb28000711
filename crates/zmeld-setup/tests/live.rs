//! What the kernel says of a device, a loop device and a file that were replaced by others of
//! the same name, which are left as they are. On this machine, whose swap is changed and put
//! back.
//!
//! Needs root and zram; elsewhere it is skipped with the reason.

#[path = "../../zmeld-linux/tests/support/turn.rs"]
mod turn;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use zmeld_config::Config;
use zmeld_linux::lock::FileLock;
use zmeld_linux::Host;
use zmeld_setup::execute::{self, Report};
use zmeld_setup::journal::{Journal, State};
use zmeld_setup::plan::{Options, Plan};
use zmeld_setup::Error;

/// Our turn, since others on this machine change its swap under the same lock; none, and a
/// word about it, where the machine cannot be used or lacks one of these files.
fn turn(needed: &[&str]) -> Option<FileLock> {
    let turn = turn::turn().unwrap();
    let missing = needed.iter().find(|path| !Path::new(path).exists());
    let why = match missing {
        _ if !rustix::process::geteuid().is_root() => "this needs root".to_owned(),
        Some(path) => format!("there is no {path}"),
        None if matches!(State::read(&Host::here()), Ok(None)) => return Some(turn),
        None => "zmeld has set this machine up already".to_owned(),
    };
    eprintln!("SKIP: {why}");
    None
}

fn config(text: &str) -> Config {
    let loaded = Config::from_text(Path::new("z.toml"), text);
    loaded.unwrap_or_else(|err| panic!("{err}")).config
}

fn up(config: &Config) -> Result<Report, Error> {
    let host = Host::here();
    let mut journal = Journal::lock(&host, Duration::ZERO, &mut |_| {})?;
    let state = journal.state().clone();
    let plan = Plan::new(&host, config, Some(&state), &Options::default())?;
    execute::up(&host, &mut journal, &plan, &false.into(), &mut |_| {})
}

fn down() -> Result<Report, Error> {
    let host = Host::here();
    let mut journal = Journal::lock(&host, Duration::ZERO, &mut |_| {})?;
    let removal = Default::default();
    execute::down(&host, &mut journal, removal, &false.into(), &mut |_| {})
}

/// What is swapped to, in order of the names.
fn areas() -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap();
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let mut areas: Vec<String> = text.lines().skip(1).filter_map(first).collect();
    areas.sort();
    areas
}

/// What a line of shell prints.
fn sh(line: &str) -> String {
    let output = Command::new("sh").args(["-ec", line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The machine is left as it was, whatever the test finds.
struct Scratch {
    folder: tempfile::TempDir,
    drive: String,
    zram: Option<String>,
}

impl Scratch {
    fn file(&self) -> String {
        self.folder.path().join("swap").display().to_string()
    }

    /// Makes an image, and puts it behind the loop device.
    fn attach(&self, name: &str) {
        let image = self.folder.path().join(name);
        let image = image.display();
        sh(&format!(
            "truncate -s 40M {image}; chmod 600 {image}; losetup {} {image}",
            self.drive
        ));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = down();
        let zram = self.zram.clone().unwrap_or_default();
        let number = zram.trim_start_matches("zram").to_owned();
        let _ = Command::new("sh")
            .arg("-c")
            .arg(format!(
                "swapoff {file}; swapoff {drive}; losetup -d {drive}; [ -z '{zram}' ] || {{ \
                 swapoff /dev/{zram}; echo {number} > /sys/class/zram-control/hot_remove; }}",
                file = self.file(),
                drive = self.drive,
            ))
            .output();
    }
}

#[test]
fn what_was_replaced_is_left_as_it_is() {
    // Older kernels do not number disks.
    let needed = [
        "/sys/class/zram-control/hot_add",
        "/sys/block/loop0/diskseq",
    ];
    let Some(_turn) = turn(&needed) else {
        return;
    };
    let mut place = Scratch {
        // Above the build others may write, where it is below /tmp.
        folder: tempfile::tempdir_in("/var/lib").unwrap(),
        drive: sh("losetup -f"),
        zram: None,
    };
    place.attach("ours");
    let (drive, file) = (place.drive.clone(), place.file());
    let text = format!(
        "accept = [\"unstable-name\", \"lru-inversion\", \"second-device\", \"priorities\"]\n\
         [tier.ram]\nkind = \"zram\"\nsize = \"32MiB\"\npriority = 77\n\
         [tier.drive]\nkind = \"disk\"\ndevice = \"{drive}\"\nformat = true\npriority = 5\n\
         [tier.file]\nkind = \"disk\"\nfile = \"{file}\"\nsize = \"16MiB\"\npriority = 4\n"
    );
    let config = config(&text);
    let before = areas();
    if let Err(err) = up(&config) {
        eprintln!("SKIP: {err}");
        return;
    }
    assert_eq!(areas().len(), before.len() + 3);
    assert!(up(&config).unwrap().is_unchanged());
    let report = down().unwrap();
    let over = format!("what stood on {drive} was written over");
    assert_eq!(report.left, [over]);
    assert_eq!(areas(), before);
    assert!(!Path::new(&file).exists());
    assert_eq!(sh(&format!("wipefs --noheadings {drive}")), "");

    up(&config).unwrap();
    let state = State::read(&Host::here()).unwrap().unwrap();
    let mut made = state.records.iter().filter_map(|it| it.outcome.as_ref());
    let zram = made.next().unwrap().name.clone();
    let number = zram.trim_start_matches("zram");
    sh(&format!(
        "swapoff /dev/{zram}; echo {number} > /sys/class/zram-control/hot_remove"
    ));
    let added = sh("cat /sys/class/zram-control/hot_add");
    place.zram = Some(format!("zram{added}"));
    assert_eq!(added, number, "the lowest free number");
    sh(&format!(
        "echo 32M > /sys/block/{zram}/disksize; mkswap -q /dev/{zram}; swapon /dev/{zram}"
    ));
    sh(&format!("swapoff {drive}; losetup -d {drive}"));
    place.attach("others");
    sh(&format!("mkswap -q -L other {drive}; swapon {drive}"));
    sh(&format!(
        "swapoff {file}; rm {file}; dd if=/dev/zero of={file} bs=1M count=16 status=none; \
         chmod 600 {file}; mkswap -q {file}; swapon {file}"
    ));
    let all = areas();
    let report = down().unwrap();
    assert_eq!(areas(), all);
    for (path, what) in [
        (format!("/dev/{zram}"), "device"),
        (drive.clone(), "device"),
        (file.clone(), "file"),
    ] {
        let line = format!("{path} is left as it is: it is another {what} by now");
        assert!(report.left.contains(&line), "{line}: {report:?}");
    }
    assert_eq!(sh(&format!("blkid -p -o value -s LABEL {drive}")), "other");
    assert!(State::read(&Host::here()).unwrap().is_none());
}

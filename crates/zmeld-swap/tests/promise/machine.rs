//! A machine that is nobody's: what is there before, and how it looks.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::FILE;
use crate::keys::keys;

/// How a command ended.
pub struct Output {
    pub code: i32,
    pub output: String,
    /// On standard error.
    pub said: String,
}

impl Output {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.output).unwrap_or_default()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = match self.output.starts_with('{') {
            true => {
                let json = self.json();
                format!("{} {}", json["applied"], json["undone"])
            }
            false => self.output.clone(),
        };
        write!(f, "{}: {} {output}", self.code, self.said)
    }
}

pub struct Machine {
    work: PathBuf,
    drives: Vec<String>,
    /// As the kernel started, by their files.
    values: Vec<(PathBuf, String)>,
    /// Its problems before anything is set up.
    furnished: RefCell<Vec<String>>,
    /// A zram device that somebody else set up.
    other: RefCell<Option<String>>,
}

const VALUES: [&str; 2] = ["/sys/module/zswap/parameters", "/proc/sys/vm"];

impl Machine {
    pub fn new(work: &str, drives: &[String]) -> Machine {
        let mut values = Vec::new();
        for folder in VALUES {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                // The kernel's name may have a unit behind the key's.
                let key = name.replace('-', "_");
                let mut tunables = keys("Tunables").map(|it| &it.name);
                if folder.starts_with("/sys") || tunables.any(|it| key.starts_with(it)) {
                    if let Ok(value) = fs::read_to_string(entry.path()) {
                        values.push((entry.path(), value));
                    }
                }
            }
        }
        values.sort();
        // A pool is made for the compressor of it.
        values.sort_by_key(|(path, _)| path.ends_with("enabled"));
        let machine = Machine {
            work: work.into(),
            drives: drives.to_vec(),
            values,
            furnished: RefCell::default(),
            other: RefCell::default(),
        };
        // As udev would name them.
        for (by, name) in [("id", "drive-"), ("partuuid", "0-")] {
            let folder = Path::new("/dev/disk").join(format!("by-{by}"));
            fs::create_dir_all(&folder).expect("/dev can be written");
            for (number, drive) in drives.iter().enumerate() {
                let link = folder.join(format!("{name}{number}"));
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(drive, link).expect("a link");
            }
        }
        machine
    }

    /// How configurations may name its drives.
    pub fn names(&self) -> Vec<String> {
        let all = self.drives.iter().enumerate();
        let names = all.flat_map(|(number, drive)| {
            [
                format!("/dev/disk/by-id/drive-{number}"),
                format!("PARTUUID=0-{number}"),
                drive.clone(),
            ]
        });
        names.collect()
    }

    pub fn write(&self, text: &str) {
        fs::write(FILE, text).expect("/etc can be written");
    }

    pub fn configuration(&self) -> String {
        fs::read_to_string(FILE).unwrap_or_default()
    }

    pub fn zmeld(&self, words: &[&str]) -> Output {
        let output = Command::new("zmeld").args(words).output();
        let output = output.expect("zmeld is there");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Output {
            code: output.status.code().unwrap_or(-1),
            output: text(&output.stdout),
            said: text(&output.stderr),
        }
    }

    /// As it was before all of this.
    pub fn renew(&self) {
        if self.zmeld(&["down", "--force"]).code != 0 {
            println!("# down --force failed");
        }
        let swaps = fs::read_to_string("/proc/swaps").expect("/proc");
        let other = self.other.take();
        for area in swaps.lines().skip(1) {
            let area = area.split_whitespace().next().unwrap_or_default();
            let is_own = Path::new(area).starts_with(&self.work)
                || self.drives.iter().any(|it| it == area)
                || other.as_ref().is_some_and(|it| area.ends_with(it));
            if is_own {
                run("swapoff", &[area]);
            }
        }
        if let Some(number) = other.as_ref().and_then(|it| it.strip_prefix("zram")) {
            put("/sys/class/zram-control/hot_remove".as_ref(), number);
        }
        for drive in &self.drives {
            run("wipefs", &["-qaf", drive]);
        }
        for entry in fs::read_dir(&self.work).into_iter().flatten().flatten() {
            if entry.file_name() != "lost+found" {
                let path = entry.path();
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
        }
        for (path, value) in &self.values {
            put(path, value.trim());
        }
        let _ = fs::remove_dir_all("/run/zmeld");
        let _ = fs::remove_file(FILE);
        fs::write("/etc/zmeld.key", [7; 64]).expect("a key");
        run("chmod", &["600", "/etc/zmeld.key"]);
        self.furnished.borrow_mut().clear();
    }

    /// Makes settings of somebody else's, now and then.
    pub fn furnish(&self, random: &mut ChaCha8Rng) {
        match random.random_range(0..16) {
            0 => put("/proc/sys/vm/swappiness".as_ref(), "10"),
            1 => put("/proc/sys/vm/page-cluster".as_ref(), "3"),
            2 => {
                put("/sys/module/zswap/parameters/enabled".as_ref(), "Y");
            }
            3 => {
                let number = fs::read_to_string("/sys/class/zram-control/hot_add");
                let name = format!("zram{}", number.expect("a device").trim());
                self.other.replace(Some(name.clone()));
                put(format!("/sys/block/{name}/disksize").as_ref(), "16M");
                run("mkswap", &["-q", &format!("/dev/{name}")]);
                run("swapon", &[&format!("/dev/{name}")]);
            }
            4 | 5 => {
                let file = self.work.join("other").to_string_lossy().into_owned();
                run("fallocate", &["-l", "24M", &file]);
                run("chmod", &["600", &file]);
                run("mkswap", &["-q", &file]);
                run("swapon", &[&file]);
            }
            6 => {
                if let Some(drive) = self.drives.first() {
                    run("mkfs.ext4", &["-q", "-F", drive]);
                }
            }
            7 => {
                if let Some(drive) = self.drives.last() {
                    run("mkswap", &["-q", drive]);
                }
            }
            8 => {
                run(
                    "fallocate",
                    &["-l", "20M", &self.work.join("swap").to_string_lossy()],
                );
            }
            _ => return,
        }
        let status = self.zmeld(&["status", "--json"]).json();
        let found = status["findings"].as_array().into_iter().flatten();
        let names = found.filter_map(|it| it["id"].as_str().map(str::to_owned));
        self.furnished.borrow_mut().extend(names);
    }

    pub fn is_furnished_with(&self, id: &str) -> bool {
        self.furnished.borrow().iter().any(|it| it == id)
    }

    pub fn has_pages_in_swap(&self) -> bool {
        let swaps = fs::read_to_string("/proc/swaps").expect("/proc");
        let mut used = swaps
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().nth(3));
        used.any(|it| it != Some("0"))
    }

    /// All that a run may change, a line each.
    pub fn look(&self) -> String {
        let mut lines = Vec::new();
        let swaps = fs::read_to_string("/proc/swaps").expect("/proc");
        for line in swaps.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [name, kind, size, _, priority] = words[..] {
                lines.push(format!("{name} {kind} {size} {priority}"));
            }
        }
        for (path, _) in &self.values {
            let value = fs::read_to_string(path).unwrap_or_default();
            lines.push(format!("{} {}", path.display(), value.trim()));
        }
        for device in zrams() {
            let attributes = [
                "disksize",
                "comp_algorithm",
                "backing_dev",
                "recomp_algorithm",
            ];
            for name in attributes {
                let value = fs::read_to_string(format!("/sys/block/{device}/{name}"));
                lines.push(format!(
                    "{device} {name} {}",
                    value.unwrap_or_default().trim()
                ));
            }
        }
        for folder in ["/dev/mapper", "/sys/block"] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                lines.push(entry.path().display().to_string());
            }
        }
        for entry in fs::read_dir(&self.work).into_iter().flatten().flatten() {
            let size = entry.metadata().map(|it| it.len()).unwrap_or_default();
            lines.push(format!("{} {size}", entry.path().display()));
        }
        for drive in &self.drives {
            let mut wipefs = Command::new("wipefs");
            let output = wipefs.args(["--noheadings", drive]).output();
            let output = output.expect("wipefs is there");
            lines.push(format!(
                "{drive} {}",
                String::from_utf8_lossy(&output.stdout).trim()
            ));
        }
        lines.join("\n")
    }

    /// A program with so many MiB that were swapped out, as far as there is room.
    pub fn hold(&self, mib: u32) -> Option<Child> {
        let _ = fs::remove_file("/tmp/enough");
        let _ = fs::remove_file("/tmp/out");
        let then = ": >/tmp/out; until [ -e /tmp/enough ]; do sleep 0.1; done";
        let mut pages = Command::new("/guest/pages");
        pages.args(["swap", &mib.to_string(), "0", "1", "0", "1", "1", then]);
        let mut child = pages.stdout(Stdio::null()).spawn().ok()?;
        while !Path::new("/tmp/out").exists() {
            if child.try_wait().ok()?.is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(child)
    }

    pub fn is_given_back(&self, mut held: Child) -> bool {
        fs::write("/tmp/enough", "").expect("/tmp can be written");
        held.wait().is_ok_and(|it| it.success())
    }
}

fn zrams() -> Vec<String> {
    let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = all.map(|it| it.file_name().to_string_lossy().into_owned());
    names.filter(|it| it.starts_with("zram")).collect()
}

/// Writes a value; [`Machine::look`] shows whether the kernel took it.
fn put(path: &Path, value: &str) {
    let _ = fs::write(path, value);
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|err| panic!("{program}: {err}"));
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        println!("# {program} {arguments:?}: {}", said.trim());
    }
}

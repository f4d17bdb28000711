//! A memory limit of its own for each run: a control group, version 2 or 1,
//! whichever has the memory controller here.
//!
//! The kernel does not charge a group for a swap device in RAM (for zswap it does, in version 2).
//! A limit that counts the store therefore shrinks the group's share while the device grows:
//! together they stay within the RAM of a machine of that size.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
pub use zmeld_linux::groups::Hierarchy;
use zmeld_linux::groups::Version;
use zmeld_linux::{pressure, Host};

use crate::error::Error;
use crate::name::{self, is_left_behind};

pub fn hierarchy() -> Result<Hierarchy, Error> {
    let missing = |what: String| Error::Missing(format!("no memory controller: {what}"));
    let found = Hierarchy::find(&Host::here()).map_err(|err| missing(err.to_string()))?;
    let hierarchy = found.ok_or_else(|| {
        missing("boot with cgroup_enable=memory, or run in a place that has it".to_owned())
    })?;
    let offered = hierarchy.top.join("cgroup.subtree_control");
    let text = fs::read_to_string(&offered).unwrap_or_default();
    match hierarchy.version {
        Version::Two if !text.split_whitespace().any(|it| it == "memory") => Err(missing(format!(
            "echo +memory > {} offers it",
            offered.display()
        ))),
        _ => Ok(hierarchy),
    }
}

/// Groups whose maker is gone.
pub fn left(hierarchy: &Hierarchy) -> Vec<PathBuf> {
    let entries = fs::read_dir(&hierarchy.top).into_iter().flatten().flatten();
    let left = entries.filter(|entry| is_left_behind(&entry.file_name()));
    left.map(|entry| entry.path()).collect()
}

/// A group of our own; dropping it kills what is in it and removes it.
#[derive(Debug)]
pub struct RunGroup {
    version: Version,
    /// From the root of the memory controller's hierarchy on: `/NAME`.
    pub path: String,
    memory: PathBuf,
}

impl RunGroup {
    /// Without a limit.
    pub fn create(hierarchy: &Hierarchy, label: &str) -> Result<RunGroup, Error> {
        let memory = hierarchy.top.join(name::own(&format!("-{label}")));
        fs::create_dir(&memory).map_err(|err| Error::io("create", &memory, err))?;
        Ok(RunGroup {
            version: hierarchy.version,
            path: hierarchy.shown(&memory),
            memory,
        })
    }

    /// Limits memory. Without `swap`, nothing of the group may be swapped out.
    pub fn limit(&self, bytes: u64, swap: bool) -> Result<(), Error> {
        let bytes_text = bytes.to_string();
        if self.version == Version::Two {
            self.write("memory.swap.max", if swap { "max" } else { "0" })?;
        }
        self.write(self.version.limit_file(), &bytes_text)?;
        // Memory and swap together: the same limit means no swap.
        let both = "memory.memsw.limit_in_bytes";
        if self.version == Version::One && !swap && self.file(both).exists() {
            self.write(both, &bytes_text)?;
        }
        Ok(())
    }

    /// Changes the limit of a running group. `false`: it cannot be reclaimed that far, yet.
    pub fn adjust(&self, bytes: u64) -> Result<bool, Error> {
        let file = self.file(self.version.limit_file());
        match fs::write(&file, bytes.to_string()) {
            Ok(()) => Ok(true),
            Err(err) if err.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            Err(err) => Err(Error::io("write", file, err)),
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.memory.join(name)
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.memory.join(file);
        fs::write(&path, value).map_err(|err| Error::io("write", path, err))
    }

    fn number(&self, file: &str) -> Option<f64> {
        Host::here().read(self.file(file)).ok()?.parse().ok()
    }

    /// Memory and swap that it uses now, bytes.
    pub fn usage(&self) -> (u64, u64) {
        let memory = self.number(self.version.usage_file()).unwrap_or(0.0);
        let swap = match self.version {
            Version::Two => self.number("memory.swap.current"),
            // Not from memory and swap together, which is another file: what is allocated between
            // two reads would be taken for swap.
            Version::One => self.keyed("memory.stat").get("swap").copied(),
        };
        (memory as u64, swap.unwrap_or(0.0) as u64)
    }

    /// Bytes in zswap's pool now, which version 2 charges to the group; none in version 1.
    pub fn zswap_bytes(&self) -> Option<u64> {
        let bytes = self.number("memory.zswap.current")?;
        Some(bytes as u64)
    }

    /// Bytes of anonymous memory now, swapped out or not: what the workload itself holds.
    ///
    /// To ask has the kernel add up the group's statistics, which it does by itself every two seconds. Reclaim goes by them:
    /// where they are old, it takes the inactive list for long when it is empty, leaves the active one alone, and kills a
    /// small group with swap free. So a group with a limit is asked often.
    pub fn footprint(&self) -> u64 {
        let (_, swap) = self.usage();
        let stat = self.keyed("memory.stat");
        let name = match self.version {
            Version::Two => "anon",
            _ => "rss",
        };
        stat.get(name).map_or(0, |&bytes| bytes as u64) + swap
    }

    fn keyed(&self, file: &str) -> BTreeMap<String, f64> {
        keyed(&fs::read_to_string(self.memory.join(file)).unwrap_or_default())
    }

    /// Everything it counted, by name.
    pub fn counters(&self) -> BTreeMap<String, f64> {
        const WANTED: [&str; 6] = [
            "pgfault",
            "pgmajfault",
            "pgscan",
            "pgsteal",
            "pswpin",
            "pswpout",
        ];
        let mut all = self.keyed("memory.stat");
        all.retain(|name, _| {
            name.starts_with("workingset")
                || name.starts_with("zsw")
                || WANTED.contains(&name.as_str())
        });
        let (events, numbers): (_, &[_]) = match self.version {
            Version::Two => (
                self.keyed("memory.events"),
                &[("memory.peak", "peak_bytes")],
            ),
            _ => (
                self.keyed("memory.oom_control"),
                &[
                    ("memory.failcnt", "event_max"),
                    ("memory.max_usage_in_bytes", "peak_bytes"),
                ],
            ),
        };
        // Version 1 has more in that file than events.
        let is_event = |name: &str| self.version == Version::Two || name == "oom_kill";
        let events = events.into_iter().filter(|(name, _)| is_event(name));
        all.extend(events.map(|(name, value)| (format!("event_{name}"), value)));
        for (file, name) in numbers {
            all.extend(self.number(file).map(|value| ((*name).to_owned(), value)));
        }
        all.extend(stalls(|what| self.file(&format!("{what}.pressure"))));
        all
    }

    /// Kills everything in it and waits until it is gone, 10 s at most.
    pub fn kill(&self) {
        empty(&self.memory);
    }
}

impl Drop for RunGroup {
    fn drop(&mut self) {
        // The next experiment removes a group that stays.
        let _ = remove(&self.memory);
    }
}

/// So long the kernel may take to let go of what was killed.
const EMPTY_MAX: Duration = Duration::from_secs(10);

/// Kills what is in a group and removes it. `false`: it stays.
pub(crate) fn remove(folder: &Path) -> bool {
    let begin = Instant::now();
    loop {
        empty(folder);
        match fs::remove_dir(folder) {
            Ok(()) => return true,
            // A process that has ended is for a moment no longer listed but still counted; one that was on its way in
            // has arrived.
            Err(err)
                if err.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < EMPTY_MAX =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(_) => return false,
        }
    }
}

/// Kills what is in a group, again and again: what it forks meanwhile too.
fn empty(folder: &Path) {
    let begin = Instant::now();
    while begin.elapsed() < EMPTY_MAX {
        let killed_at_once = fs::write(folder.join("cgroup.kill"), "1").is_ok();
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        if text.is_empty() {
            return;
        }
        for pid in text.lines().filter_map(|line| line.parse().ok()) {
            if !killed_at_once {
                // It may be gone by now.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lines of a name and a number.
pub(crate) fn keyed(text: &str) -> BTreeMap<String, f64> {
    let counters = zmeld_linux::counters::parse(text);
    counters
        .map(|(name, value)| (name.to_owned(), value as f64))
        .collect()
}

/// How long tasks have waited, in seconds, from the pressure file of each thing to wait for.
pub(crate) fn stalls(file: impl Fn(&str) -> PathBuf) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for what in ["memory", "io", "cpu"] {
        let text = fs::read_to_string(file(what)).unwrap_or_default();
        all.extend(pressure::parse(&text).map(|(kind, stall)| {
            let name = format!("stall_{what}_{kind}_s");
            (name, stall.total_us as f64 / 1e6)
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_allocated_between_two_reads_is_no_swap() {
        let (root, _) = Host::planted(&[
            ("memory.usage_in_bytes", "4096\n"),
            ("memory.memsw.usage_in_bytes", "409600\n"),
            ("memory.stat", "rss 3000\nswap 0\n"),
        ]);
        let group = RunGroup {
            version: Version::One,
            path: "/group".to_owned(),
            memory: root.path().to_owned(),
        };
        assert_eq!(group.usage(), (4096, 0));
        assert_eq!(group.footprint(), 3000);
        fs::write(group.file("memory.stat"), "rss 3000\nswap 8192\n").unwrap();
        assert_eq!(group.usage(), (4096, 8192));
        assert_eq!(group.footprint(), 11192);
    }
}

//! A memory control group of a test's own, or of a task's, of version 1 or 2. Its processes end
//! with it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Its path.
pub struct Group(pub PathBuf);

impl Group {
    /// One whose memory is limited, where one can be made.
    pub fn limited(bytes: u64) -> Option<Group> {
        let name = format!("zmeld-test-{}", std::process::id());
        let made = |base| {
            let path = Path::new(base).join(&name);
            fs::create_dir(&path).is_ok().then_some(Group(path))
        };
        let mut groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].into_iter();
        groups.find_map(|base| made(base).filter(|group| group.limit(bytes)))
    }

    /// Sets another limit, if it has one.
    pub fn limit(&self, bytes: u64) -> bool {
        // On anything but control groups there is no such file, and none is made.
        let open = |file| fs::File::options().write(true).open(self.0.join(file));
        let mut files = ["memory.limit_in_bytes", "memory.max"].into_iter();
        files.any(|file| open(file).is_ok_and(|mut it| write!(it, "{bytes}").is_ok()))
    }

    /// A line for each.
    pub fn processes(&self) -> String {
        fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default()
    }

    pub fn signal(&self, name: &str) {
        let processes = self.processes();
        // One of another PID namespace is 0, which would be all of ours.
        let known = processes.lines().filter(|it| *it != "0");
        // Some may have ended meanwhile.
        let mut command = Command::new("kill");
        let _ = command.args(["-s", name]).args(known).output();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..500 {
            self.signal("KILL");
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} is left behind", self.0.display());
    }
}

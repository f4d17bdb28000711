//! Turns to change this machine's swap and RAM devices. The tests of all crates, and the tasks that
//! do so, wait for each other here: what one sets up, another would take for what is there.
//! Additions are noted until they are gone, and the next turn takes back what a killed test left.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use zmeld_linux::lock::FileLock;

/// The file that is locked.
pub const TURN: &str = "/tmp/zmeld-host-memory.lock";

/// Holds a file for each swap area that is there: the boot that it is of, and its path.
pub const NOTES: &str = "/run/zmeld-tests";

/// Waits until nobody else changes them; it is our turn until this is dropped.
pub fn turn() -> io::Result<FileLock> {
    let turn = FileLock::wait(Path::new(TURN))?;
    take_back_what_is_left();
    Ok(turn)
}

fn take_back_what_is_left() {
    let Ok(notes) = fs::read_dir(NOTES) else {
        return;
    };
    for note in notes.filter_map(Result::ok) {
        let text = fs::read_to_string(note.path()).unwrap_or_default();
        if let Some(path) = text.strip_prefix(&format!("{}\n", boot())) {
            eprintln!("{path} was left by a test that was killed: it is taken back");
            drop(Swap {
                path: path.into(),
                note: note.path(),
            });
        } else {
            // It went with the machine's last boot.
            let _ = fs::remove_file(note.path());
        }
    }
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

fn run(command: &str, arguments: &[&str]) -> bool {
    let output = Command::new(command).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// A swap area of a test's own: switched off and gone when it is dropped. It is made
/// while it is the test's turn, and dropped before that is over.
#[derive(Debug)]
pub struct Swap {
    path: PathBuf,
    note: PathBuf,
}

impl Swap {
    /// A zram device of that size; or the reason why there can be none.
    pub fn zram(bytes: u64, priority: u32) -> Result<Swap, String> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add")
            .map_err(|error| format!("no zram device can be added: {error}"))?;
        let name = format!("zram{}", number.trim());
        let swap = Swap::noted(PathBuf::from(format!("/dev/{name}")))?;
        fs::write(format!("/sys/block/{name}/disksize"), bytes.to_string())
            .map_err(|error| format!("{name} cannot be {bytes} bytes: {error}"))?;
        // Whatever makes its node may come a moment later.
        for _ in 0..50 {
            if swap.path.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        swap.on(priority)
    }

    /// A file of that size, which must not be there yet; or the reason why there can be none.
    pub fn file(path: &Path, bytes: usize, priority: u32) -> Result<Swap, String> {
        let swap = Swap::noted(path.to_owned())?;
        fs::write(path, vec![0; bytes]).map_err(|error| error.to_string())?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|e| e.to_string())?;
        swap.on(priority)
    }

    fn noted(path: PathBuf) -> Result<Swap, String> {
        let _ = fs::DirBuilder::new().mode(0o700).create(NOTES);
        let name = path.file_name().ok_or("a swap area without a name")?;
        let note = Path::new(NOTES).join(name);
        let text = format!("{}\n{}", boot(), path.display());
        // From here on it is dropped, whatever comes.
        let swap = Swap { path, note };
        fs::write(&swap.note, text).map_err(|error| format!("{NOTES}: {error}"))?;
        Ok(swap)
    }

    fn on(self, priority: u32) -> Result<Swap, String> {
        let path = self.path.to_string_lossy().into_owned();
        if !run("mkswap", &[&path]) || !run("swapon", &["-p", &priority.to_string(), &path]) {
            return Err(format!("{path} cannot be swap"));
        }
        Ok(self)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_on(&self) -> bool {
        let areas = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let path = self.path.to_string_lossy();
        areas
            .lines()
            .any(|line| line.split_whitespace().next() == Some(&path))
    }

    fn remove(&self) -> bool {
        let path = self.path.to_string_lossy();
        if self.is_on() && !run("swapoff", &[&path]) {
            return false;
        }
        let Some(number) = path.strip_prefix("/dev/zram") else {
            return fs::remove_file(&self.path).is_ok() || !self.path.exists();
        };
        // Others may look at it for a moment.
        (0..50).any(|_| {
            let _ = fs::write(format!("/sys/block/zram{number}/reset"), "1");
            let is_removed = fs::write("/sys/class/zram-control/hot_remove", number).is_ok()
                || !Path::new(&format!("/sys/block/zram{number}")).exists();
            if !is_removed {
                std::thread::sleep(Duration::from_millis(20));
            }
            is_removed
        })
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        if self.remove() {
            let _ = fs::remove_file(&self.note);
        } else {
            // The note stays: it is tried again by whose turn is next.
            eprintln!("{} is left behind", self.path.display());
        }
    }
}

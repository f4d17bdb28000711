//! The devices that are compared: the kernel's zram, and zmeld in three modes.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// One of the things that are compared.
pub struct Side {
    /// The driver: also the start of its devices' names.
    driver: &'static str,
    /// What to write to meld_mode.
    mode: Option<&'static str>,
}

/// The kernel's own driver, in [`SIDES`].
pub const ZRAM: usize = 0;
/// Our driver, which takes no fingerprints, in [`SIDES`].
pub const MELDING_OFF: usize = 1;

/// In the order of the tables' columns.
pub const SIDES: [Side; 4] = [
    Side {
        driver: "zram",
        mode: None,
    },
    Side {
        driver: "zmeld",
        mode: Some("off"),
    },
    Side {
        driver: "zmeld",
        mode: Some("manual"),
    },
    Side {
        driver: "zmeld",
        mode: Some("inline"),
    },
];

/// A device of our own, removed when dropped.
pub struct Device {
    driver: &'static str,
    id: u32,
    /// Open for direct input and output.
    pub file: Option<File>,
}

impl Device {
    /// Adds and sets up a device for `pages` pages; the codec's own level where none is given.
    pub fn make(
        side: usize,
        codec: &str,
        level: Option<u32>,
        pages: usize,
    ) -> Result<Device, String> {
        let side = &SIDES[side];
        let control = format!("/sys/class/{}-control/hot_add", side.driver);
        let id = fs::read_to_string(&control)
            .map_err(|error| format!("cannot add a {} device: {control}: {error}", side.driver))?;
        let id = id
            .trim()
            .parse()
            .map_err(|error| format!("{control} gave {id:?}: {error}"))?;
        let mut device = Device {
            driver: side.driver,
            id,
            file: None,
        };
        device.set("comp_algorithm", codec)?;
        if let Some(level) = level {
            device.set("algorithm_params", &format!("level={level}"))?;
        }
        if let Some(mode) = side.mode {
            device.set("meld_mode", mode)?;
        }
        device.set("disksize", &(pages * zmeld_store::page_size()).to_string())?;
        let path = device.node();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path)
            .map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        device.file = Some(file);
        Ok(device)
    }

    fn node(&self) -> PathBuf {
        PathBuf::from(format!("/dev/{}{}", self.driver, self.id))
    }

    fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}{}/{name}", self.driver, self.id))
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let path = self.attribute(name);
        fs::write(&path, value)
            .map_err(|error| format!("cannot write {value:?} to {}: {error}", path.display()))
    }

    /// Bytes of memory the device's pool holds.
    pub fn memory_used(&self) -> Result<u64, String> {
        let path = self.attribute("mm_stat");
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let third = text.split_whitespace().nth(2);
        third
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| format!("{}: no third column in {text:?}", path.display()))
    }

    /// Empties the device.
    pub fn discard_all(&self) -> Result<(), String> {
        let path = self.node();
        let status = Command::new("blkdiscard")
            .args(["--force".as_ref(), path.as_os_str()])
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("blkdiscard {}: {status}", path.display())),
            Err(error) => Err(format!("cannot run blkdiscard: {error}")),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.file = None;
        // Whatever looks at new block devices may still have it open.
        for _ in 0..50 {
            if self.set("reset", "1").is_ok() {
                break;
            }
            sleep(Duration::from_millis(20));
        }
        let control = format!("/sys/class/{}-control/hot_remove", self.driver);
        if let Err(error) = fs::write(control, self.id.to_string()) {
            eprintln!("{}{} is left behind: {error}", self.driver, self.id);
        }
    }
}

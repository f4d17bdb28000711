//! The devices that are compared: the kernel's zram, and zmeld in three modes.

use std::fs::File;
use std::process::{Command, Stdio};

use zmeld_tests::zram;

/// The kernel's own driver, in [`SIDES`].
pub const ZRAM: usize = 0;
/// Our driver, which takes no fingerprints, in [`SIDES`].
pub const MELDING_OFF: usize = 1;

/// Compared sides: a driver, whose devices' names begin with its own, and what to write to
/// meld_mode. In the order of the tables' columns.
pub const SIDES: [(&str, Option<&str>); 4] = [
    ("zram", None),
    ("zmeld", Some("off")),
    ("zmeld", Some("manual")),
    ("zmeld", Some("inline")),
];

/// A device of our own, removed when dropped.
pub struct Device {
    /// Open for direct input and output; closed before the device goes.
    pub file: File,
    own: zram::Device,
}

impl Device {
    /// Adds and sets up a device for `pages` pages; the codec's own level where none is given.
    pub fn make(
        side: usize,
        codec: &str,
        level: Option<u32>,
        pages: usize,
    ) -> Result<Device, String> {
        let (driver, mode) = SIDES[side];
        let own = zram::Device::of(driver)?;
        let size = (pages * zmeld_store::page_size()).to_string();
        let level = level.map(|level| format!("level={level}"));
        let settings = [
            ("comp_algorithm", Some(codec)),
            ("algorithm_params", level.as_deref()),
            ("meld_mode", mode),
            ("disksize", Some(&size)),
        ];
        let node = own.node();
        for (name, value) in settings {
            if let Some(value) = value {
                own.set(name, value).map_err(|error| {
                    format!(
                        "{}: {name} does not take {value:?}: {error}",
                        node.display()
                    )
                })?;
            }
        }
        let file = own
            .open()
            .map_err(|error| format!("cannot open {}: {error}", node.display()))?;
        Ok(Device { file, own })
    }

    pub fn memory_used(&self) -> u64 {
        self.own.mm_stat().memory_used_bytes
    }

    pub fn discard_all(&self) -> Result<(), String> {
        let path = self.own.node();
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

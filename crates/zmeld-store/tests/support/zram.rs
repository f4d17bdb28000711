//! A zram device of a test's own: only what was added here is ever touched, and
//! it is reset and removed when it is dropped.
#![allow(dead_code)] // Each test uses its part.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The test's device; dropping it removes it.
pub struct Device {
    /// Its number.
    pub id: u32,
}

impl Device {
    /// Adds a device; or says why that cannot be.
    pub fn add() -> Result<Device, String> {
        let control = "/sys/class/zram-control/hot_add";
        if !Path::new(control).exists() {
            return Err(
                "no /sys/class/zram-control: the kernel has no zram, or it is not loaded".into(),
            );
        }
        let id = fs::read_to_string(control)
            .map_err(|error| format!("cannot add a zram device: {error}"))?;
        let id = id
            .trim()
            .parse()
            .map_err(|error| format!("zram device {id:?}: {error}"))?;
        Ok(Device { id })
    }

    fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/zram{}/{name}", self.id))
    }

    /// Writes one of its attributes.
    pub fn set(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.attribute(name), value)
    }

    /// The codecs of this kernel, as `comp_algorithm` lists them.
    pub fn algorithms(&self) -> io::Result<Vec<String>> {
        let list = fs::read_to_string(self.attribute("comp_algorithm"))?;
        Ok(list
            .split_whitespace()
            .map(|name| name.trim_matches(['[', ']']).to_owned())
            .collect())
    }

    /// A column of `mm_stat`, from 1.
    pub fn mm_stat(&self, column: usize) -> u64 {
        let stat = fs::read_to_string(self.attribute("mm_stat")).expect("mm_stat can be read");
        let value = stat.split_whitespace().nth(column - 1);
        value
            .expect("mm_stat has columns")
            .parse()
            .expect("mm_stat holds numbers")
    }

    /// Bytes of all objects on the device.
    pub fn bytes_stored(&self) -> u64 {
        self.mm_stat(2)
    }

    /// For direct input and output.
    pub fn open(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(format!("/dev/zram{}", self.id))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.set("reset", "1");
        let removed = fs::write("/sys/class/zram-control/hot_remove", self.id.to_string());
        if let Err(error) = removed {
            eprintln!("zram{} is left behind: {error}", self.id);
        }
    }
}

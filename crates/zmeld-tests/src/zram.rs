//! A zram device of a test's own, or of a benchmark's: only what was added here is ever
//! touched, and it is reset and removed when it is dropped. `ZMELD_TEST_DRIVER=zmeld` makes
//! a test's a device of zmeld.ko instead, which has the same attributes. While there is one,
//! it is this test's turn on the machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use zmeld_linux::compressed::{self, MmStat};
use zmeld_linux::lock::FileLock;

use crate::turn::{turn, TURN};

/// The test's device; dropping it removes it.
pub struct Device {
    /// The driver, and the start of the device's name.
    pub driver: String,
    /// Its number.
    pub id: u32,
    _turn: Option<FileLock>,
}

impl Device {
    /// Adds a device; or says why that cannot be.
    pub fn add() -> Result<Device, String> {
        let driver = std::env::var("ZMELD_TEST_DRIVER").unwrap_or_else(|_| "zram".to_owned());
        let turn = turn().map_err(|error| format!("cannot wait for {TURN}: {error}"))?;
        let mut device = Device::of(&driver)?;
        device._turn = Some(turn);
        Ok(device)
    }

    /// The same of that driver, whoever's turn it is.
    pub fn of(driver: &str) -> Result<Device, String> {
        let control = format!("/sys/class/{driver}-control/hot_add");
        if !Path::new(&control).exists() {
            return Err(format!(
                "no {control}: the kernel has no {driver}, or it is not loaded"
            ));
        }
        let id = fs::read_to_string(control)
            .map_err(|error| format!("cannot add a {driver} device: {error}"))?;
        let id = id
            .trim()
            .parse()
            .map_err(|error| format!("{driver} device {id:?}: {error}"))?;
        Ok(Device {
            driver: driver.to_owned(),
            id,
            _turn: None,
        })
    }

    pub fn melds(&self) -> bool {
        self.attribute("meld").exists()
    }

    fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}{}/{name}", self.driver, self.id))
    }

    pub fn set(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.attribute(name), value)
    }

    /// The codecs of this kernel, as `comp_algorithm` lists them.
    pub fn algorithms(&self) -> io::Result<Vec<String>> {
        let list = fs::read_to_string(self.attribute("comp_algorithm"))?;
        Ok(compressed::choices(&list))
    }

    pub fn mm_stat(&self) -> MmStat {
        let stat = fs::read_to_string(self.attribute("mm_stat")).expect("mm_stat can be read");
        MmStat::parse(&stat).expect("mm_stat has columns")
    }

    /// For direct input and output.
    pub fn open(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(self.node())
    }

    pub fn node(&self) -> PathBuf {
        PathBuf::from(format!("/dev/{}{}", self.driver, self.id))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
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

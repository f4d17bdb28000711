//! How large a machine is, and how it describes itself.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How large a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSize {
    /// RAM, `214MiB`.
    pub ram: String,
    /// Processors.
    #[serde(default = "one")]
    pub processors: u32,
    /// Files that a command finds there.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub files: GuestFiles,
    /// How its time passes.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub clock: GuestClock,
}

/// How time passes in a machine.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum GuestClock {
    /// As here.
    #[default]
    Real,
    /// Each instruction takes a nanosecond on an imitated processor, and waiting for a time to come none.
    /// So a figure says how much was computed, whatever else runs here, and hours with pauses take minutes.
    Instructions,
}

/// Files that a command finds in a machine.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum GuestFiles {
    /// Its program with the libraries that it is linked with, copied into the machine's RAM.
    #[default]
    Copied,
    /// All files of this machine, as they are here. Its writes stay in the machine's RAM.
    Host,
}

fn one() -> u32 {
    1
}

/// The least that a distribution's kernel boots in.
const RAM_MIN: u64 = 64 << 20;

impl GuestSize {
    /// RAM in bytes.
    pub fn ram_bytes(&self) -> Result<u64, String> {
        let bytes = self.ram.parse::<zmeld_config::Bytes>();
        match bytes.map(|bytes| bytes.0) {
            Ok(bytes) if bytes < RAM_MIN => Err(format!(
                "{} of RAM is less than a kernel boots in: give it 64 MiB or more",
                self.ram
            )),
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(format!(
                "{:?} is no size of a machine's RAM: write 214MiB or 1GiB",
                self.ram
            )),
        }
    }

    /// Checks that a machine can be like that.
    pub fn check(&self) -> Result<(), String> {
        if self.processors == 0 || self.processors > 255 {
            return Err(format!(
                "a machine of {} processors: choose 1 to 255",
                self.processors
            ));
        }
        if self.processors > 1 && self.clock == GuestClock::Instructions {
            return Err(format!(
                "a machine of {} processors whose clock counts instructions: they take turns there, so that each is \
                 slower; choose 1",
                self.processors
            ));
        }
        self.ram_bytes().map(|_| ())
    }
}

impl FromStr for GuestSize {
    type Err = String;

    /// `ram=214M`, `ram=1G,processors=2` or `ram=1G,files=host`.
    fn from_str(text: &str) -> Result<GuestSize, String> {
        const AS: &str = "write ram=214M or ram=1G,processors=2,files=host,clock=instructions";
        let mut table = toml::Table::new();
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} is not known: {AS}"))?;
            let value = match (key, value.parse()) {
                ("processors", Ok(number)) => toml::Value::Integer(number),
                _ => value.into(),
            };
            if table.insert(key.to_owned(), value).is_some() {
                return Err(format!("{key} stands twice: leave one of them out"));
            }
        }
        let size: Result<GuestSize, toml::de::Error> = table.try_into();
        let size = size.map_err(|err| format!("{}: {AS}", err.message()))?;
        size.check()?;
        Ok(size)
    }
}

/// The machine that runs were made on, as it described itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GuestFacts {
    /// RAM that it was given, bytes, without that of its own programs.
    pub ram_bytes: u64,
    /// RAM of its own programs besides, bytes: the archive that it booted into.
    pub programs_bytes: u64,
    /// RAM that its kernel leaves to all programs (`MemTotal`), bytes, those included.
    pub visible_bytes: u64,
    /// Its processors.
    pub processors: usize,
    /// Its kernel.
    pub kernel: String,
    /// Whether its times are not a machine's: its processor was imitated, or it was user-mode Linux.
    pub emulated: bool,
    /// Whether it was user-mode Linux: programs run by the processor, faults and system calls by another process.
    #[serde(default)]
    pub user_mode: bool,
    /// How its time passed.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub clock: GuestClock,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_understood_or_refused() {
        let size: GuestSize = "ram=214M,processors=2".parse().unwrap();
        assert_eq!(size.processors, 2);
        assert_eq!(size.ram_bytes(), Ok(214 << 20));
        assert_eq!(size.files, GuestFiles::Copied);
        assert_eq!("ram=1GiB".parse::<GuestSize>().unwrap().processors, 1);
        let size: GuestSize = "files=host,ram=1GiB".parse().unwrap();
        assert_eq!(size.files, GuestFiles::Host);
        let size: GuestSize = "clock=instructions,ram=1GiB".parse().unwrap();
        assert_eq!(size.clock, GuestClock::Instructions);
        for (text, word) in [
            ("ram=1G,clock=fast", "instructions"),
            ("ram=1G,clock=instructions,processors=2", "choose 1"),
            ("", "not known"),
            ("processors=2", "ram"),
            ("ram=much", "no size"),
            ("ram=8M", "64 MiB or more"),
            ("ram=1G,processors=0", "1 to 255"),
            ("ram=1G,processors=x", "invalid type"),
            ("ram=1G,disk=1G", "disk"),
            ("ram=1G,ram=2G", "ram stands twice"),
        ] {
            let err = text.parse::<GuestSize>().unwrap_err();
            assert!(err.contains(word), "{text}: {err}");
        }
    }
}

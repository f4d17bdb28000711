//! `/proc/swaps`: the active swap areas.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::{octal, Host};

/// The kernel's list of them.
pub const PATH: &str = "/proc/swaps";

/// An active swap area.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SwapArea {
    /// Its path, symbolic links resolved, as the kernel shows it. That of a
    /// deleted file ends in ` (deleted)`.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub path: PathBuf,
    /// A file on a file system, not a block device.
    pub is_file: bool,
    /// Its size, without the header page.
    pub size_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Higher is filled first; below 0 the kernel chose it.
    pub priority: i32,
}

fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

impl SwapArea {
    /// Its path for messages.
    pub fn shown(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }

    /// The name of the block device, such as `zram0`; none for a file.
    pub fn device(&self) -> Option<&str> {
        self.path.file_name()?.to_str().filter(|_| !self.is_file)
    }

    /// That name, or a file's path.
    pub fn name(&self) -> Cow<'_, str> {
        self.device().map_or(self.shown(), Cow::Borrowed)
    }

    /// Whether it is a compressed device in RAM, by its name.
    pub fn is_in_ram(&self) -> bool {
        self.device().is_some_and(is_compressed)
    }

    /// Whether it is a volume of ZFS, by its name.
    pub fn is_zvol(&self) -> bool {
        self.device().is_some_and(is_zvol)
    }

    /// Used part of the size, 0 to 1.
    pub fn fill(&self) -> f64 {
        match self.size_bytes {
            0 => 0.0,
            size => self.used_bytes as f64 / size as f64,
        }
    }
}

/// Whether a block device of that name is a compressed one: `zram0`, `zmeld12`.
pub fn is_compressed(name: &str) -> bool {
    is_numbered(name, &["zram", "zmeld"])
}

/// Whether a block device of that name is a volume of ZFS: `zd16`.
pub fn is_zvol(name: &str) -> bool {
    is_numbered(name, &["zd"])
}

/// Whether `swapon` is BusyBox's: it knows neither priorities nor another page size's header.
pub fn is_swapon_busybox(host: &Host) -> bool {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let mut places = folders.map(|it| Path::new(it).join("swapon")).into_iter();
    let found = places.find(|it| host.exists(it));
    found.is_some_and(|it| host.resolved(&it).ends_with("busybox"))
}

/// Whether a name is one of these and a number.
pub fn is_numbered(name: &str, drivers: &[&str]) -> bool {
    let mut numbers = drivers.iter().filter_map(|it| name.strip_prefix(it));
    numbers.any(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The areas in the text of `/proc/swaps`, in its order, and lines that are none. The first
/// line, a heading, and empty ones are passed over; so is what LXCFS shows in a container in
/// place of the host's areas (`none virtual`).
pub(crate) fn parse(text: &str) -> impl Iterator<Item = Result<SwapArea, &str>> {
    let is_shown = |line: &&str| {
        let mut words = line.split_ascii_whitespace();
        words.next().is_some() && words.next() != Some("virtual")
    };
    let lines = text.lines().skip(1).filter(is_shown);
    lines.map(|line| area(line).ok_or(line))
}

fn area(line: &str) -> Option<SwapArea> {
    // The kernel escapes the white space in paths, that of " (deleted)" too.
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [path, kind, size, used, priority] = fields[..] else {
        return None;
    };
    let kibibytes = |text: &str| text.parse::<u64>().ok()?.checked_mul(1024);
    Some(SwapArea {
        path: PathBuf::from(octal::unescape_name(path.as_bytes())),
        is_file: match kind {
            "partition" => false,
            "file" => true,
            _ => return None,
        },
        size_bytes: kibibytes(size)?,
        used_bytes: kibibytes(used)?,
        priority: priority.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn areas_in_ram_have_their_drivers_names() {
        assert!(["zram0", "zmeld12"].into_iter().all(is_compressed));
        assert!(is_zvol("zd16") && !is_zvol("zd") && !is_zvol("zda1"));
        assert!(!["zram", "zram1a", "sda2"].into_iter().any(is_compressed));
    }

    #[test]
    fn a_line_that_is_no_area_is_named() {
        for line in [
            "/dev/zram1 partition 1024 512",
            "/dev/zram1 partition 1024 512 high",
            "/dev/zram1 partition -1 512 1",
            "/dev/zram1 partition 99999999999999999999 0 1",
            "/dev/zram1 partition 18446744073709551615 0 1",
            "/dev/zram1 pipe 1024 0 1",
            "/a b file 1024 0 1",
        ] {
            let text = format!("{HEAD}/dev/a file 8 0 -2\n{line}\n");
            let areas: Vec<_> = parse(&text).collect();
            assert_eq!(areas[0].as_ref().unwrap().path, Path::new("/dev/a"));
            assert_eq!(areas[1], Err(line));
        }
    }
}

//! Whether a machine hibernates, by one reading for scans, plans and findings: it says
//! where to resume from on the kernel's command line, or an initramfs wrote that into
//! `/sys/power/resume`; and the kernel can (`disk` in `/sys/power/state`).

use std::path::{Path, PathBuf};

use crate::swap_header::{SwapHeader, PAGE_MAX};
use crate::{Host, HostError};

/// The kernel's command line (`resume=`).
pub const COMMAND_LINE: &str = "/proc/cmdline";
/// The device that the kernel resumes from: `8:2`, or `0:0` for none.
pub const POWER: &str = "/sys/power/resume";
/// Sleep states: `freeze mem disk`.
pub const STATES: &str = "/sys/power/state";
/// Offset of a swap file on its drive, in pages; 0 for a partition.
const OFFSET: &str = "/sys/power/resume_offset";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The device, as it is named there.
    pub device: String,
    /// Its source file.
    pub said_by: &'static str,
}

impl std::fmt::Display for Resume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.said_by {
            COMMAND_LINE => write!(f, "resume={} on the kernel's command line", self.device),
            path => write!(f, "{} in {path}", self.device),
        }
    }
}

/// A machine's resume device; none where it does not hibernate. A kernel that does not say what it
/// can do counts as one that can.
pub fn read(host: &Host) -> Result<Option<Resume>, HostError> {
    let line = host.read_optional(COMMAND_LINE)?.unwrap_or_default();
    let (power, states) = (host.read_optional(POWER)?, host.read_optional(STATES)?);
    let can = |states: String| states.split_whitespace().any(|state| state == "disk");
    let words = || line.split_whitespace();
    let never = words().any(|word| word == "noresume" || word == "nohibernate");
    if never || !states.is_none_or(can) {
        return Ok(None);
    }
    // The kernel takes the last.
    let named = words().rev().find_map(|word| word.strip_prefix("resume="));
    let named = named.filter(|device| !device.is_empty());
    let found = |device: &str, said_by| Resume {
        device: device.to_owned(),
        said_by,
    };
    let power = power.filter(|it| !it.is_empty() && it != "0:0");
    let power = || power.map(|device| found(&device, POWER));
    Ok(named
        .map(|device| found(device, COMMAND_LINE))
        .or_else(power))
}

/// The swap partition that it hibernates to; none where that is not swap, or a file, or
/// cannot be told.
pub fn partition(host: &Host) -> Option<PathBuf> {
    let found = read(host).ok()??;
    let line = host.read_optional(COMMAND_LINE).ok().flatten();
    let is_file = |offset: &str| offset.trim() != "0" && !offset.trim().is_empty();
    let line = line.unwrap_or_default();
    let mut words = line.split_whitespace();
    let offset = host.read_optional(OFFSET).ok().flatten();
    if words.any(|it| it.strip_prefix("resume_offset=").is_some_and(is_file))
        || offset.as_deref().is_some_and(is_file)
    {
        return None;
    }
    let path = match found.device.split_once('=') {
        Some((tag, value)) if !value.contains('/') => Path::new("/dev/disk")
            .join(format!("by-{}", tag.to_lowercase()))
            .join(value),
        Some(_) => return None,
        None if found.device.starts_with("/dev/") => PathBuf::from(&found.device),
        None => host.block_device(&found.device)?,
    };
    if !host.exists(&path) {
        return None;
    }
    let meta = host.tree().metadata(&path).ok()?;
    let start = host.read_header(&path, &meta, PAGE_MAX).unwrap_or_default();
    // Unreadable headers count as swap.
    (start.is_empty() || is_swap(&start)).then_some(path)
}

/// The swap area on that partition, as `/proc/swaps` has it: an image goes nowhere else.
pub fn area(host: &Host) -> Option<PathBuf> {
    Some(host.swap_on(&partition(host)?).ok()??.path)
}

/// That partition, where nothing is swapped to it.
pub fn idle(host: &Host) -> Result<Option<String>, HostError> {
    let Some(path) = partition(host) else {
        return Ok(None);
    };
    let is_on = host.swap_on(&path)?.is_some();
    Ok((!is_on).then(|| path.display().to_string()))
}

/// Whether it begins as a swap area does. One that holds an image is marked otherwise, and
/// nobody swaps to it.
fn is_swap(bytes: &[u8]) -> bool {
    SwapHeader::parse(bytes).is_some_and(|it| !it.is_suspended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_that_is_resumed_from_is_found_by_any_of_its_names() {
        let (dir, host) = Host::planted(&[]);
        let put = |path: &str, bytes: &[u8]| host.plant(path, bytes);
        let mut page = vec![0; 4096];
        page[4086..].copy_from_slice(b"SWAPSPACE2");
        put("dev/sda2", &page);
        put("dev/disk/by-uuid/12", &page);
        put("dev/sda1", &[0; 4096]);
        put("sys/devices/sda2/dev", b"8:2");
        put("sys/dev/block/x", b"");
        let link = dir.path().join("sys/dev/block/8:2");
        std::os::unix::fs::symlink("../../devices/sda2", link).unwrap();
        put("sys/power/state", b"mem disk\n");
        let found = |line: &str| {
            put("proc/cmdline", line.as_bytes());
            partition(&host).map(|it| it.display().to_string())
        };
        let some = |path: &str| Some(path.to_owned());
        assert_eq!(found("resume=/dev/sda2"), some("/dev/sda2"));
        assert_eq!(found("resume=UUID=12"), some("/dev/disk/by-uuid/12"));
        // A file on a partition, no swap at all, nothing there.
        assert_eq!(found("resume=/dev/sda2 resume_offset=34816"), None);
        assert_eq!(found("resume=/dev/sda1"), None);
        assert_eq!(found("resume=UUID=34"), None);
        assert_eq!(found("quiet"), None);
        put("sys/power/resume", b"8:2\n");
        assert_eq!(found("quiet"), some("/dev/sda2"));
        put("sys/power/state", b"freeze mem\n");
        assert_eq!(found("quiet"), None);
    }

    #[test]
    fn the_last_word_of_the_command_line_counts_and_then_what_an_initramfs_said() {
        for (line, other, text, device) in [
            ("resume=/a resume=/b", POWER, "8:2", Some("/b")),
            ("quiet resume=", POWER, "8:2\n", Some("8:2")),
            ("resume=/dev/a nohibernate", POWER, "8:2", None),
            ("", POWER, "", None),
            ("resume=/dev/a", STATES, "mem disk", Some("/dev/a")),
            // A kernel that cannot does not, whatever it was told.
            ("resume=/dev/a", STATES, "freeze mem\n", None),
        ] {
            let (_dir, host) = Host::planted(&[(COMMAND_LINE, line), (other, text)]);
            let found = read(&host).unwrap().map(|it| it.device);
            assert_eq!(found.as_deref(), device, "{line} {text}");
        }
    }
}

//! The active swap areas, as `/proc/swaps` lists them. Unlike an observation,
//! which passes over what it does not understand, this refuses it: what is
//! switched off, and whether it is, is decided by it.

use std::path::{Path, PathBuf};

use super::{short, Host};
use crate::error::Error;

const SWAPS: &str = "/proc/swaps";

/// An active swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSwap {
    /// Its path, symbolic links resolved, as the kernel shows it.
    pub path: PathBuf,
    /// A block device, not a file.
    pub is_device: bool,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Higher is filled first; below 0 the kernel chose it.
    pub priority: i32,
}

impl Host {
    /// The active swap areas.
    ///
    /// # Errors
    /// When `/proc/swaps` cannot be read or has a line that is none.
    pub fn swaps(&self) -> Result<Vec<ActiveSwap>, Error> {
        // A kernel without swap has no such file.
        let Some(text) = self.read_optional(SWAPS)? else {
            return Ok(Vec::new());
        };
        text.lines()
            .skip(1)
            .map(|line| {
                parse(line).ok_or_else(|| {
                    Error::malformed(
                        SWAPS,
                        format!("has a line that is no swap area: {}", short(line)),
                    )
                })
            })
            .collect()
    }

    /// The active swap area behind a path, which may be a symbolic link.
    ///
    /// # Errors
    /// Those of [`Host::swaps`].
    pub fn swap_on(&self, path: &Path) -> Result<Option<ActiveSwap>, Error> {
        let real = self.resolved(path);
        Ok(self
            .swaps()?
            .into_iter()
            .find(|swap| swap.path == real || swap.path == path))
    }

    /// A path with its symbolic links resolved, as the machine names it; the
    /// path itself where there is nothing.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        let Ok(real) = self.path(path).canonicalize() else {
            return path.to_path_buf();
        };
        let root = self.root().canonicalize();
        match root.ok().and_then(|root| real.strip_prefix(root).ok()) {
            Some(below) => Path::new("/").join(below),
            None => real,
        }
    }
}

fn parse(line: &str) -> Option<ActiveSwap> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [path, kind, size, used, priority] = fields[..] else {
        return None;
    };
    let kib = |text: &str| text.parse::<u64>().ok()?.checked_mul(1024);
    Some(ActiveSwap {
        path: PathBuf::from(unescaped(path)),
        is_device: match kind {
            "partition" => true,
            "file" => false,
            _ => return None,
        },
        size_bytes: kib(size)?,
        used_bytes: kib(used)?,
        priority: priority.parse().ok()?,
    })
}

/// A path as the kernel lists it, which writes white space and backslashes as
/// `\040`.
pub(crate) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match digits {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(swaps: &str) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/swaps"), swaps).unwrap();
        let host = Host::at(dir.path());
        (dir, host)
    }

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn areas_are_read() {
        let text = format!(
            "{HEAD}/dev/zram1                              partition\t1024\t\t512\t\t100\n\
             /a\\040b\\134c                             file\t\t8\t\t0\t\t-2\n"
        );
        let (dir, host) = host(&text);
        let swaps = host.swaps().unwrap();
        assert_eq!(swaps[0].path, Path::new("/dev/zram1"));
        assert_eq!(
            (swaps[0].size_bytes, swaps[0].used_bytes),
            (1 << 20, 1 << 19)
        );
        assert!(swaps[0].is_device && !swaps[1].is_device);
        assert_eq!(swaps[1].path, Path::new("/a b\\c"));
        assert_eq!(swaps[1].priority, -2);
        // By a link, as /dev/mapper has them.
        std::fs::create_dir_all(dir.path().join("dev/mapper")).unwrap();
        std::fs::write(dir.path().join("dev/zram1"), "").unwrap();
        std::os::unix::fs::symlink("../zram1", dir.path().join("dev/mapper/it")).unwrap();
        let found = host.swap_on(Path::new("/dev/mapper/it")).unwrap().unwrap();
        assert_eq!(found.priority, 100);
        assert_eq!(host.swap_on(Path::new("/dev/zram2")).unwrap(), None);
    }

    #[test]
    fn a_line_that_is_no_area_is_refused() {
        for line in [
            "/dev/zram1 partition 1024 512",
            "/dev/zram1 partition 1024 512 high",
            "/dev/zram1 partition -1 512 1",
            "/dev/zram1 partition 99999999999999999999 0 1",
            "/dev/zram1 partition 18446744073709551615 0 1",
            "/dev/zram1 pipe 1024 0 1",
        ] {
            let (_dir, host) = host(&format!("{HEAD}{line}\n"));
            let err = host.swaps().unwrap_err().to_string();
            assert!(err.starts_with("/proc/swaps has a line"), "{err}");
        }
        let (_dir, host) = host("");
        assert!(host.swaps().unwrap().is_empty());
    }
}

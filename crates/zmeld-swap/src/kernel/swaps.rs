//! The active swap areas, as `/proc/swaps` lists them. Unlike an observation,
//! which passes over what it does not understand, this refuses it: what is
//! switched off, and whether it is, is decided by it.

use std::path::{Path, PathBuf};

use zmeld_linux::swaps;

use super::{short, Host};
use crate::error::Error;

const SWAPS: &str = swaps::PATH;

pub use zmeld_linux::swaps::SwapArea as ActiveSwap;

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
        swaps::parse(&text)
            .map(|area| {
                let mut area = area.map_err(|wrong| {
                    Error::malformed(
                        SWAPS,
                        format!("has a line that is no swap area: {}", short(&wrong.line)),
                    )
                })?;
                if area.is_device {
                    area.path = self.device_path(area.path);
                }
                Ok(area)
            })
            .collect()
    }

    /// The path of a device that was swapped on in another mount namespace (a service
    /// with `PrivateTmp=`): the kernel then shows it from its file system's root,
    /// `/zram2`.
    pub(crate) fn device_path(&self, shown: PathBuf) -> PathBuf {
        if shown.starts_with("/dev") || self.exists(&shown) {
            return shown;
        }
        let below = shown.strip_prefix("/").unwrap_or(&shown);
        let here = Path::new("/dev").join(below);
        match self.exists(&here) {
            true => here,
            false => shown,
        }
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
    fn a_device_is_found_that_another_namespace_swaps_to() {
        let (dir, host) = host(&format!(
            "{HEAD}/zram1 partition 1024 0 5\n/mapper/it partition 1024 0 4\n\
             /gone partition 1024 0 3\n/zram1 file 1024 0 2\n"
        ));
        std::fs::create_dir_all(dir.path().join("dev/mapper")).unwrap();
        for name in ["dev/zram1", "dev/mapper/it"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let paths = host.swaps().unwrap().into_iter().map(|swap| swap.path);
        let seen = ["/dev/zram1", "/dev/mapper/it", "/gone", "/zram1"].map(PathBuf::from);
        assert_eq!(paths.collect::<Vec<_>>(), seen);
        let found = host.swap_on(Path::new("/dev/zram1")).unwrap().unwrap();
        assert_eq!(found.priority, 5);
    }

    #[test]
    fn a_line_that_is_no_area_is_refused() {
        let (_dir, wrong) = host(&format!("{HEAD}/dev/zram1 partition 1024 512\n"));
        let err = wrong.swaps().unwrap_err().to_string();
        assert!(err.starts_with("/proc/swaps has a line"), "{err}");
        let (_dir, host) = host("");
        assert!(host.swaps().unwrap().is_empty());
    }
}

//! How many pages a second a drive gives back at random. Only reads.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zmeld_linux::command::{read_device, ANSWERS_WITHIN};
use zmeld_linux::mounts;
use zmeld_linux::{Host, HostError};

/// As long as it takes to see past a drive's first answers.
const BUDGET: Duration = Duration::from_millis(300);
/// A slow drive is given longer, until there are so many reads: their mean is then
/// within a fifth.
const READS_MIN: u64 = 32;
/// But no longer than this.
const BUDGET_MAX: Duration = Duration::from_secs(2);

/// Size of one read: a page, aligned as O_DIRECT wants it.
const PAGE: usize = 4096;

/// Reads pages at random, around the page cache, one after the other, as page
/// faults do. Gives pages a second.
pub fn pages_per_second(host: &Host, device: &Path) -> Result<f64, HostError> {
    let failed = |cause: io::Error| HostError::io("read", device, cause);
    // It is read here only where it answers: who waits for a drive cannot be ended.
    read_device(&host.path(device), PAGE, ANSWERS_WITHIN).map_err(failed)?;
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(host.path(device))
        .map_err(failed)?;
    let pages = size(&file).map_err(failed)? / PAGE as u64;
    if pages == 0 {
        return Err(HostError::malformed(device, "is empty"));
    }
    let mut room = vec![0u8; 2 * PAGE];
    let at = room.as_ptr().align_offset(PAGE);
    let page = &mut room[at..at + PAGE];
    let chance = RandomState::new();
    let begin = host.now();
    let mut count = 0u64;
    loop {
        let number = chance.hash_one(count) % pages;
        file.read_exact_at(page, number * PAGE as u64)
            .map_err(failed)?;
        count += 1;
        let took = host.now() - begin;
        if took >= BUDGET && (count >= READS_MIN || took >= BUDGET_MAX) {
            return Ok(count as f64 / took.as_secs_f64());
        }
    }
}

/// A block device has a length too, at its end.
fn size(mut file: &File) -> io::Result<u64> {
    use std::io::Seek;
    file.seek(io::SeekFrom::End(0))
}

/// The block device under the root directory; none where it is no device's.
pub fn root_device(host: &Host) -> Result<Option<PathBuf>, HostError> {
    let mut all = mounts::read(host, mounts::PATH)?.into_iter();
    // A later mount covers an earlier one.
    let Some(root) = all.rfind(|mount| mount.point == Path::new("/")) else {
        return Ok(None);
    };
    let (major, minor) = root.device;
    // btrfs has a number that is no device's, but says what it was mounted from.
    let path = host.block_device(&format!("{major}:{minor}"));
    let path = path.unwrap_or(root.source);
    Ok((path.starts_with("/dev") && host.exists(&path)).then_some(path))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::Arc;
    use std::time::Instant;

    use zmeld_linux::host::{Access, Direct};

    use super::*;

    /// A drive that takes so long for a page, by the clock that is looked at after each.
    struct Drive {
        began: Instant,
        page_ms: u32,
        looks: AtomicU32,
    }

    impl Access for Drive {
        fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
            Direct.read(path, limit)
        }

        fn now(&self) -> Instant {
            let looks = self.looks.fetch_add(1, Ordering::Relaxed);
            self.began + Duration::from_millis((self.page_ms * looks).into())
        }
    }

    #[test]
    fn the_root_device_is_found_in_the_mount_table() {
        let (_dir, host) = Host::planted(&[("/sys/devices/sda/sda1/dev", "8:1")]);
        let mountinfo = |text: &str| host.plant(mounts::PATH, text);
        mountinfo("22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n");
        assert_eq!(root_device(&host).unwrap(), None);
        std::fs::create_dir_all(host.path("/sys/dev/block")).unwrap();
        let device = host.path("/sys/dev/block/8:1");
        std::os::unix::fs::symlink("../../devices/sda/sda1", device).unwrap();
        host.plant("/dev/sda1", "");
        assert_eq!(root_device(&host).unwrap(), Some("/dev/sda1".into()));
        mountinfo("22 1 0:30 /@ / rw - btrfs /dev/sda1 rw\n");
        assert_eq!(root_device(&host).unwrap(), Some("/dev/sda1".into()));
        mountinfo("22 1 0:30 / / rw - tmpfs tmpfs rw\n");
        assert_eq!(root_device(&host).unwrap(), None);
    }

    #[test]
    fn a_file_gives_pages_and_an_empty_one_an_error() {
        // In the crate's own directory: a tmpfs may not know O_DIRECT.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let host = Host::at(dir.path());
        std::fs::write(host.path("/disk"), vec![1u8; 64 * PAGE]).unwrap();
        // A slow drive is read until the mean is good enough, and no drive for long.
        for (page_ms, reads) in [(1, 300), (10, 32), (50, 32), (100, 20)] {
            let drive = Arc::new(Drive {
                began: Instant::now(),
                page_ms,
                looks: AtomicU32::new(0),
            });
            let host = Host::with(dir.path(), drive.clone());
            let rate = pages_per_second(&host, Path::new("/disk")).unwrap();
            assert_eq!(rate.round() as u32, 1000 / page_ms);
            assert_eq!(drive.looks.load(Ordering::Relaxed), reads + 1);
        }
        std::fs::write(host.path("/empty"), "").unwrap();
        assert!(pages_per_second(&host, Path::new("/empty")).is_err());
        assert!(pages_per_second(&host, Path::new("/none")).is_err());
    }
}

//! A regular file or a block device, read as pages from its first byte on.
//! Also a raw memory image.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::work::Queue;
use crate::{
    Batch, Counted, Error, Owner, Region, RegionId, RegionKind, SkipReason, Skips, Source, Visit,
};

/// Bytes in a worker's buffer, and in a batch at most.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// The pages of a file or block device.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    file: File,
    bytes: u64,
    page_size: usize,
}

impl FileSource {
    /// Opens a regular file or block device for reading.
    ///
    /// # Errors
    /// When it cannot be opened, is empty, or is neither; when the page size is
    /// not a power of two of at least 512 bytes.
    pub fn open(path: impl AsRef<Path>, page_size: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let (file, bytes) = open_pages(path, page_size)?;
        Ok(FileSource {
            path: path.to_path_buf(),
            file,
            bytes,
            page_size,
        })
    }
}

/// Opens what pages of that size are cut from; how many bytes it has, at least one.
pub(crate) fn open_pages(path: &Path, page_size: usize) -> Result<(File, u64), Error> {
    check_page_size(page_size)?;
    let file = open_for_reading(path)?;
    match size(&file).map_err(|cause| Error::io("measure", path, cause))? {
        0 => Err(Error::Empty {
            path: path.to_path_buf(),
        }),
        bytes => Ok((file, bytes)),
    }
}

/// Opens what has a size and can be read at any offset. Never blocks: a pipe
/// without a writer is refused, not waited for.
pub(crate) fn open_for_reading(path: &Path) -> Result<File, Error> {
    let kind = std::fs::metadata(path)
        .map_err(|cause| Error::io("open", path, cause))?
        .file_type();
    let refuse = |what| {
        Err(Error::NotReadable {
            path: path.to_path_buf(),
            what,
        })
    };
    if kind.is_dir() {
        return refuse("a directory");
    } else if kind.is_char_device() {
        return refuse("a character device");
    } else if kind.is_socket() {
        return refuse("a socket");
    } else if kind.is_fifo() {
        return refuse("a pipe, which can only be read as a stream");
    }
    File::open(path).map_err(|cause| Error::io("open", path, cause))
}

/// Bytes in a regular file or block device.
fn size(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

pub(crate) fn check_page_size(page_size: usize) -> Result<(), Error> {
    if page_size.is_power_of_two() && (512..=1 << 20).contains(&page_size) {
        return Ok(());
    }
    Err(Error::Option {
        option: "page size",
        problem: format!("{page_size} is not a power of two from 512 bytes to 1 MiB"),
    })
}

/// A stretch of a file that becomes pages of one region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) region: RegionId,
    pub(crate) kind: RegionKind,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Index within the region of the page at `offset`.
    pub(crate) first_page: u64,
}

/// Reads extents with `threads` workers: the common part of files and dumps.
pub(crate) fn visit_extents(
    file: &File,
    extents: &[Extent],
    page_size: usize,
    threads: usize,
    stop: &AtomicBool,
    sink: &(dyn Fn(Batch<'_>) + Sync),
) -> (Counted, Skips) {
    let piece = BATCH_BYTES.next_multiple_of(page_size) as u64;
    // Taken from the end, so the file is read roughly front to back.
    let queue = Queue::new(extents.iter().rev().copied().collect());
    let workers = queue.run(
        threads,
        stop,
        || FileWorker {
            buffer: Buffer::new(piece as usize),
            counted: Counted::default(),
            skipped: Skips::default(),
        },
        |worker, mut extent| {
            if extent.bytes > piece {
                queue.push(Extent {
                    offset: extent.offset + piece,
                    bytes: extent.bytes - piece,
                    first_page: extent.first_page + piece / page_size as u64,
                    ..extent
                });
                extent.bytes = piece;
            }
            worker.read(file, extent, page_size, sink);
        },
    );
    let mut counted = Counted::default();
    let mut skipped = Skips::default();
    for worker in &workers {
        counted.add(&worker.counted);
        skipped.add(&worker.skipped);
    }
    (counted, skipped)
}

struct FileWorker {
    buffer: Buffer,
    counted: Counted,
    skipped: Skips,
}

impl FileWorker {
    fn read(
        &mut self,
        file: &File,
        extent: Extent,
        page_size: usize,
        sink: &(dyn Fn(Batch<'_>) + Sync),
    ) {
        let bytes = usize::try_from(extent.bytes).expect("a piece fits in memory");
        let whole = bytes.next_multiple_of(page_size);
        self.buffer.bytes_mut()[bytes..whole].fill(0);
        match read_at_most(file, &mut self.buffer.bytes_mut()[..bytes], extent.offset) {
            Ok(got) if got == bytes => {
                self.counted.padded += u64::from(whole != bytes);
                self.deliver(extent, 0, whole, page_size, sink);
            }
            Ok(got) => {
                let pages = got / page_size;
                self.deliver(extent, 0, pages * page_size, page_size, sink);
                self.skipped
                    .pages(SkipReason::Shrunk, (whole / page_size - pages) as u64);
            }
            Err(_) => self.read_page_by_page(file, extent, bytes, page_size, sink),
        }
    }

    /// Some page of the piece cannot be read: find out which.
    fn read_page_by_page(
        &mut self,
        file: &File,
        extent: Extent,
        bytes: usize,
        page_size: usize,
        sink: &(dyn Fn(Batch<'_>) + Sync),
    ) {
        for at in (0..bytes).step_by(page_size) {
            let want = page_size.min(bytes - at);
            let page = &mut self.buffer.bytes_mut()[at..at + page_size];
            page.fill(0);
            match read_at_most(file, &mut page[..want], extent.offset + at as u64) {
                Ok(got) if got == want => {
                    self.counted.padded += u64::from(want != page_size);
                    self.deliver(extent, at, at + page_size, page_size, sink);
                }
                Ok(_) => self.skipped.pages(SkipReason::Shrunk, 1),
                Err(_) => self.skipped.pages(SkipReason::ReadFailed, 1),
            }
        }
    }

    fn deliver(
        &mut self,
        extent: Extent,
        from: usize,
        until: usize,
        page_size: usize,
        sink: &(dyn Fn(Batch<'_>) + Sync),
    ) {
        if from == until {
            return;
        }
        self.counted.delivered += ((until - from) / page_size) as u64;
        sink(Batch {
            region: extent.region,
            kind: extent.kind,
            first_page: extent.first_page + (from / page_size) as u64,
            bytes: &self.buffer.bytes()[from..until],
            maybe_shared: None,
        });
    }
}

/// Fills the buffer from `offset` on; less only at the end of the file.
pub(crate) fn read_at_most(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl Source for FileSource {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn page_size(&self) -> usize {
        self.page_size
    }

    fn expected_pages(&self) -> Option<u64> {
        Some(self.bytes.div_ceil(self.page_size as u64))
    }

    fn visit(
        &self,
        threads: usize,
        stop: &AtomicBool,
        sink: &(dyn Fn(Batch<'_>) + Sync),
    ) -> Result<Visit, Error> {
        let region = Region {
            id: RegionId(0),
            owner: Owner::File(self.path.clone()),
            kind: RegionKind::File,
            name: Arc::from(self.path.to_string_lossy()),
            start: 0,
        };
        let extent = Extent {
            region: region.id,
            kind: region.kind,
            offset: 0,
            bytes: self.bytes,
            first_page: 0,
        };
        let (counted, skipped) =
            visit_extents(&self.file, &[extent], self.page_size, threads, stop, sink);
        Ok(Visit {
            regions: vec![region],
            counted,
            skipped,
            interrupted: stop.load(Ordering::Relaxed),
            ..Visit::default()
        })
    }
}

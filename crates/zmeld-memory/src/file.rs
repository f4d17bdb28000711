//! A regular file or a block device, read as pages: from its first byte on, or a memory
//! dump segment by segment.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::buffer::Buffer;
use crate::{
    work, Batch, Counted, Error, Owner, Region, RegionId, RegionKind, Sink, SkipReason, Skips,
    Source, Visit,
};

/// Bytes in a worker's buffer, and in a batch at most.
const BATCH_BYTES: usize = 1 << 20;

/// The pages of a file, a block device, or a memory dump.
#[derive(Debug)]
pub struct FileSource {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) page_size: usize,
    pub(crate) regions: Vec<Region>,
    pub(crate) extents: Vec<Extent>,
    /// Pages that a dump does not hold.
    pub(crate) skipped: Skips,
    /// Pages that a dump shows once more.
    pub(crate) shown_again: u64,
}

impl FileSource {
    /// Opens a regular file or block device for reading, as it is.
    ///
    /// # Errors
    /// When it cannot be opened, is empty, or is neither.
    pub fn open(path: impl AsRef<Path>, page_size: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let (file, bytes) = open_pages(path)?;
        let mut source = FileSource::new(path, file, page_size);
        source.add(
            Owner::File(path.to_path_buf()),
            RegionKind::File,
            Extent {
                region: RegionId(0),
                offset: 0,
                bytes,
                first_page: 0,
            },
        );
        Ok(source)
    }

    /// One without pages.
    pub(crate) fn new(path: &Path, file: File, page_size: usize) -> Self {
        FileSource {
            path: path.to_path_buf(),
            file,
            page_size,
            regions: Vec::new(),
            extents: Vec::new(),
            skipped: Skips::default(),
            shown_again: 0,
        }
    }

    /// Adds a region that is one extent.
    pub(crate) fn add(&mut self, owner: Owner, kind: RegionKind, extent: Extent) {
        self.regions.push(Region {
            owner,
            kind,
            start: 0,
        });
        self.extents.push(extent);
    }
}

/// Opens what pages are cut from; how many bytes it has, at least one.
pub(crate) fn open_pages(path: &Path) -> Result<(File, u64), Error> {
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

/// A stretch of a file that becomes pages of one region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) region: RegionId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Index within the region of the page at `offset`.
    pub(crate) first_page: u64,
}

struct FileWorker<'a> {
    source: &'a FileSource,
    sink: Sink<'a>,
    buffer: Buffer,
    counted: Counted,
    skipped: Skips,
}

impl FileWorker<'_> {
    fn read(&mut self, extent: Extent) {
        let page_size = self.source.page_size;
        let bytes = usize::try_from(extent.bytes).expect("a piece fits in memory");
        let whole = bytes.next_multiple_of(page_size);
        let buffer = self.buffer.bytes_mut();
        buffer[bytes..whole].fill(0);
        match read_at_most(&self.source.file, &mut buffer[..bytes], extent.offset) {
            Ok(got) if got == bytes => {
                self.counted.padded += u64::from(whole != bytes);
                self.deliver(extent, 0, whole);
            }
            Ok(got) => {
                let pages = got / page_size;
                self.deliver(extent, 0, pages * page_size);
                self.skipped
                    .pages(SkipReason::Shrunk, (whole / page_size - pages) as u64);
            }
            Err(_) => self.read_page_by_page(extent, bytes),
        }
    }

    /// Some page of the piece cannot be read: find out which.
    fn read_page_by_page(&mut self, extent: Extent, bytes: usize) {
        let page_size = self.source.page_size;
        for at in (0..bytes).step_by(page_size) {
            let want = page_size.min(bytes - at);
            let page = &mut self.buffer.bytes_mut()[at..at + page_size];
            page.fill(0);
            let offset = extent.offset + at as u64;
            match read_at_most(&self.source.file, &mut page[..want], offset) {
                Ok(got) if got == want => {
                    self.counted.padded += u64::from(want != page_size);
                    self.deliver(extent, at, at + page_size);
                }
                Ok(_) => self.skipped.pages(SkipReason::Shrunk, 1),
                Err(_) => self.skipped.pages(SkipReason::ReadFailed, 1),
            }
        }
    }

    fn deliver(&mut self, extent: Extent, from: usize, until: usize) {
        if from == until {
            return;
        }
        let page_size = self.source.page_size;
        self.counted.delivered += ((until - from) / page_size) as u64;
        (self.sink)(Batch {
            region: extent.region,
            kind: self.source.regions[extent.region.0 as usize].kind,
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
        let is_dump = self.regions.iter().any(|it| it.kind == RegionKind::Dump);
        let what = if is_dump { "the memory dump " } else { "" };
        format!("{what}{}", self.path.display())
    }

    fn page_size(&self) -> usize {
        self.page_size
    }

    fn expected_pages(&self) -> Option<u64> {
        let page_size = self.page_size as u64;
        let pages = self.extents.iter().map(|it| it.bytes.div_ceil(page_size));
        Some(pages.sum())
    }

    fn visit(&self, threads: usize, stop: &AtomicBool, sink: Sink<'_>) -> Result<Visit, Error> {
        let piece = BATCH_BYTES.next_multiple_of(self.page_size) as u64;
        // Taken from the end, so the file is read roughly front to back.
        let workers = work::run(
            threads,
            stop,
            self.extents.iter().rev().copied(),
            || FileWorker {
                source: self,
                sink,
                buffer: Buffer::new(piece as usize),
                counted: Counted::default(),
                skipped: Skips::default(),
            },
            |worker, mut extent: Extent, more| {
                if extent.bytes > piece {
                    more(Extent {
                        offset: extent.offset + piece,
                        bytes: extent.bytes - piece,
                        first_page: extent.first_page + piece / self.page_size as u64,
                        ..extent
                    });
                    extent.bytes = piece;
                }
                worker.read(extent);
            },
        );
        let mut visit = Visit {
            regions: self.regions.clone(),
            skipped: self.skipped.clone(),
            interrupted: stop.load(Ordering::Relaxed),
            ..Visit::default()
        };
        for worker in &workers {
            visit.counted.add(&worker.counted);
            visit.skipped.add(&worker.skipped);
        }
        visit.counted.shared_again = self.shown_again;
        Ok(visit)
    }
}

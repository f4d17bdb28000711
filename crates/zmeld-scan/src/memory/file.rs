//! A regular file or a block device, read as pages: from its first byte on, or a memory
//! dump segment by segment. Holes are counted, not read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use object::ReadCache;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::memory::buffer::{read_at_most, Buffer};
use crate::memory::form::{self, Form, START_BYTES};
use crate::memory::layout::{Extent, Layout};
use crate::memory::{
    elf, lime, work, Batch, Counted, Error, RegionKind, Sink, SkipReason, Skips, Source, Visit,
};

/// Bytes in a worker's buffer, and in a batch at most.
const BATCH_BYTES: usize = 1 << 20;

/// The pages of a file, a block device, or a memory dump.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    file: File,
    page_size: usize,
    layout: Layout,
}

impl FileSource {
    /// Opens a regular file or block device for reading, as it is.
    ///
    /// # Errors
    /// When it cannot be opened, is empty, or is neither.
    pub fn open(path: impl AsRef<Path>, page_size: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::of_file(path, open_for_reading(path)?, page_size, true)
    }

    /// An open one, by what its first bytes say that it is; with `raw` as it is.
    pub(crate) fn of_file(
        path: &Path,
        file: File,
        page_size: usize,
        raw: bool,
    ) -> Result<Self, Error> {
        let failed = |cause| Error::io("read", path, cause);
        let bytes = size(&file).map_err(|cause| match Errno::from_io_error(&cause) {
            Some(Errno::INVAL) => Error::NotReadable {
                path: path.to_path_buf(),
                what: "without a size (--pid reads the memory of a process)",
            },
            _ => failed(cause),
        })?;
        if bytes == 0 {
            return Err(Error::Empty {
                path: path.to_path_buf(),
            });
        }
        let mut start = [0; START_BYTES];
        let (form, note) = match raw {
            true => (Form::Plain, None),
            false => {
                let got = read_at_most(&file, &mut start, 0).map_err(failed)?;
                form::recognise(&start[..got], path, Some(path))?
            }
        };
        let mut layout = match form {
            Form::Plain => Layout::plain(path, bytes),
            Form::Elf => elf::layout(&ReadCache::new(&file), bytes, path, page_size)?,
            Form::Lime => lime::layout(&file, bytes, path)?,
        };
        layout.note = note;
        Ok(Self::new(path, file, page_size, layout))
    }

    pub(crate) fn new(path: &Path, file: File, page_size: usize, layout: Layout) -> Self {
        FileSource {
            path: path.to_path_buf(),
            file,
            page_size,
            layout,
        }
    }

    /// How many bytes of an extent's start are a hole, and how many behind them are none: of
    /// whole pages both, up to the extent's end.
    fn hole_and_data(&self, extent: Extent) -> (u64, u64) {
        let Extent { offset, bytes, .. } = extent;
        // The file system does not see what swap writes.
        let is_swap = self.layout.kind(extent.region) == RegionKind::SwapDevice;
        let (page, end) = (self.page_size as u64, offset + bytes);
        let seek = |to| rustix::fs::seek(&self.file, to);
        let data = match seek(SeekFrom::Data(offset)) {
            _ if is_swap => return (0, bytes),
            Ok(data) => data.clamp(offset, end),
            // Nothing but a hole is left, unless the file has become shorter.
            Err(Errno::NXIO) if size(&self.file).is_ok_and(|size| size >= end) => end,
            // Not every file system and no block device knows.
            Err(_) => return (0, bytes),
        };
        if data == end {
            return (bytes, 0);
        }
        let hole = (data - offset) / page * page;
        let until = seek(SeekFrom::Hole(data))
            .unwrap_or(end)
            .clamp(data + 1, end);
        let until = (until - offset).next_multiple_of(page).min(bytes);
        (hole, until - hole)
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
fn size(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, SeekFrom::End(0))?)
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
            kind: self.source.layout.kind(extent.region),
            first_page: extent.first_page + (from / page_size) as u64,
            bytes: &self.buffer.bytes()[from..until],
            maybe_shared: None,
        });
    }
}

impl Source for FileSource {
    fn describe(&self) -> String {
        let is_dump = self
            .layout
            .regions
            .iter()
            .any(|it| it.kind == RegionKind::Dump);
        let what = if is_dump { "the memory dump " } else { "" };
        format!("{what}{}", self.path.display())
    }

    fn page_size(&self) -> usize {
        self.page_size
    }

    fn expected_pages(&self) -> Option<u64> {
        let mut pages = 0;
        for mut extent in self.layout.extents.iter().copied() {
            while extent.bytes > 0 {
                let (hole, data) = self.hole_and_data(extent);
                pages += data.div_ceil(self.page_size as u64);
                extent = extent.behind(hole + data, self.page_size);
            }
        }
        Some(pages)
    }

    fn visit(&self, threads: usize, stop: &AtomicBool, sink: Sink<'_>) -> Result<Visit, Error> {
        let piece = BATCH_BYTES.next_multiple_of(self.page_size) as u64;
        // Taken from the end, so the file is read roughly front to back.
        let workers = work::run(
            threads,
            stop,
            self.layout.extents.iter().rev().map(|&extent| (extent, 0)),
            || FileWorker {
                source: self,
                sink,
                buffer: Buffer::new(piece as usize),
                counted: Counted::default(),
                skipped: Skips::default(),
            },
            // Of each extent the first so many bytes are known to be no hole.
            |worker, (mut extent, mut data): (Extent, u64), more| {
                if data == 0 {
                    let (hole, known) = self.hole_and_data(extent);
                    worker.counted.never_written += hole.div_ceil(self.page_size as u64);
                    extent = extent.behind(hole, self.page_size);
                    data = known;
                }
                let bytes = data.min(piece);
                if extent.bytes > bytes {
                    let rest = extent.behind(bytes, self.page_size);
                    more((rest, data - bytes));
                }
                worker.read(Extent { bytes, ..extent });
            },
        );
        let mut visit = Visit {
            regions: self.layout.regions.clone(),
            skipped: self.layout.skipped.clone(),
            notes: self.layout.note.iter().cloned().collect(),
            interrupted: stop.load(Ordering::Relaxed),
            ..Visit::default()
        };
        for worker in &workers {
            visit.counted.add(&worker.counted);
            visit.skipped.add(&worker.skipped);
        }
        visit.counted.shared_again = self.layout.shown_again;
        Ok(visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Owner;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    /// Of a file that is open for writing each read fails.
    #[test]
    fn pages_that_cannot_be_read_are_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 3 * 4096 + 1]).unwrap();
        let unreadable = File::options().write(true).open(file.path()).unwrap();
        let source = FileSource::of_file(file.path(), unreadable, 4096, true).unwrap();
        let visit = source
            .visit(1, &AtomicBool::new(false), &|_| unreachable!())
            .unwrap();
        let failed = visit.skipped.get(SkipReason::ReadFailed).pages;
        assert_eq!((visit.counted.delivered, failed), (0, 4));
    }

    /// Below a program's first mapping there is no page.
    #[test]
    fn pages_are_delivered_beside_one_that_cannot_be_read() {
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // What it gives back it has only once it is mapped: before, its stack may be all there is.
        cat.stdin.as_ref().unwrap().write_all(b"?").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let proc = PathBuf::from(format!("/proc/{}", cat.id()));
        let maps = std::fs::read_to_string(proc.join("maps")).unwrap();
        let start = u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap();
        let memory = File::open(proc.join("mem")).unwrap();
        let page = rustix::param::page_size();
        let (offset, bytes) = (start - page as u64, 2 * page as u64 + 100);
        let mut layout = Layout::default();
        let owner = Owner::File(proc.clone());
        layout.add(owner, RegionKind::File, offset, bytes, 0);
        let extent = layout.extents[0];
        let source = FileSource::new(&proc, memory, page, layout);
        let mut worker = FileWorker {
            source: &source,
            sink: &|batch| {
                let mut expected = vec![0; page];
                let at = offset + batch.first_page * page as u64;
                let left = (offset + bytes - at).min(page as u64) as usize;
                let there = &mut expected[..left];
                assert_eq!(read_at_most(&source.file, there, at).unwrap(), left);
                assert!(batch.bytes == expected, "{}", batch.first_page);
            },
            buffer: Buffer::new(3 * page),
            counted: Counted::default(),
            skipped: Skips::default(),
        };
        worker.read(extent);
        let failed = worker.skipped.get(SkipReason::ReadFailed).pages;
        let counted = &worker.counted;
        assert_eq!((counted.delivered, counted.padded, failed), (2, 1, 1));
        cat.kill().and_then(|()| cat.wait()).unwrap();
    }
}

//! Standard input or another stream: read once, in order, of unknown length.
//!
//! A dump is recognised as in a file, and read by its ranges. Bytes between them are passed over.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::memory::buffer::Buffer;
use crate::memory::form::{self, Form, START_BYTES};
use crate::memory::layout::{Extent, Layout};
use crate::memory::{elf, lime, Batch, Error, Owner, RegionKind, Sink, Source, Visit};

/// Bytes in the one buffer that batches are cut from.
const BATCH_BYTES: usize = 1 << 20;

/// So much of a dump is kept at most to find its table of segments.
const HEAD_MAX: u64 = 256 << 20;

/// So long a silent stream is waited for before it is asked again whether to stop.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// A stream of pages. It can be visited once: a second visit finds it empty.
pub struct StreamSource {
    name: PathBuf,
    stream: Mutex<File>,
    page_size: usize,
    raw: bool,
}

impl StreamSource {
    /// A pipe or a terminal, which may be silent for long: the visit can be
    /// stopped then too. With `raw` dumps are read as plain bytes.
    pub fn of_file(name: &Path, file: File, page_size: usize, raw: bool) -> Self {
        StreamSource {
            name: name.to_path_buf(),
            stream: Mutex::new(file),
            page_size,
            raw,
        }
    }
}

/// A stream and the place read up to.
struct Input<'a> {
    name: &'a Path,
    file: &'a File,
    stop: &'a AtomicBool,
    /// Bytes read ahead.
    head: Vec<u8>,
    at: u64,
}

impl Input<'_> {
    /// At least the first so many bytes, before any other was taken; fewer only at the end of
    /// the stream or when stopped.
    fn head(&mut self, bytes: usize) -> Result<&[u8], Error> {
        let had = self.head.len();
        if had < bytes {
            self.head.resize(bytes, 0);
            let got = fill(self.file, &mut self.head[had..], self.stop);
            let got = got.map_err(|cause| Error::io("read", self.name, cause))?;
            self.head.truncate(had + got);
        }
        Ok(&self.head)
    }

    /// Fills the buffer; less only at the end of the stream or when stopped.
    fn take(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let known = self.head.get(at..).unwrap_or_default();
        let known = &known[..known.len().min(buffer.len())];
        buffer[..known.len()].copy_from_slice(known);
        let got = fill(self.file, &mut buffer[known.len()..], self.stop);
        let got = known.len() + got.map_err(|cause| Error::io("read", self.name, cause))?;
        self.at += got as u64;
        Ok(got)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

struct StreamVisit<'a> {
    input: Input<'a>,
    buffer: Buffer,
    page_size: usize,
    layout: Layout,
    sink: Sink<'a>,
    visit: Visit,
}

impl StreamVisit<'_> {
    fn read(&mut self, form: Form) -> Result<(), Error> {
        let name = self.input.name;
        match form {
            Form::Plain => {
                self.layout
                    .add(Owner::Stdin, RegionKind::Stdin, 0, u64::MAX, 0);
                self.extent(self.layout.extents[0])?;
            }
            Form::Elf => {
                self.layout = self.segments()?;
                for at in 0..self.layout.extents.len() {
                    self.extent(self.layout.extents[at])?;
                }
            }
            Form::Lime => loop {
                let at = self.input.at;
                let mut header = [0; lime::HEADER_BYTES];
                let got = self.input.take(&mut header)?;
                if got == 0 || self.input.is_stopped() {
                    break;
                }
                lime::next_range(&mut self.layout, &header[..got], at, u64::MAX, name)?;
                self.extent(self.layout.extents[self.layout.extents.len() - 1])?;
            },
        }
        // The writer gets no broken pipe.
        self.pass(u64::MAX)
    }

    /// The segments of a core whose table stands in front.
    fn segments(&mut self) -> Result<Layout, Error> {
        let Input { name, stop, .. } = self.input;
        loop {
            let head = self.input.head(START_BYTES)?;
            let (known, wanted) = (head.len(), elf::head_bytes(head));
            if wanted > HEAD_MAX {
                let problem = format!(
                    "its headers end at {wanted:#x}, too far for a stream: write it to a file"
                );
                return Err(Error::dump(name, problem));
            }
            let head = self.input.head(wanted as usize)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(Layout::default());
            } else if head.len() == known {
                return elf::layout(head, u64::MAX, name, self.page_size);
            }
        }
    }

    /// Reads on up to an offset.
    fn pass(&mut self, offset: u64) -> Result<(), Error> {
        while self.input.at < offset {
            let left = offset - self.input.at;
            let want = left.min(self.buffer.len() as u64) as usize;
            if self.input.take(&mut self.buffer.bytes_mut()[..want])? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Delivers the pages of an extent; one of a dump has to be whole.
    fn extent(&mut self, extent: Extent) -> Result<(), Error> {
        let page_size = self.page_size;
        let kind = self.layout.kind(extent.region);
        self.pass(extent.offset)?;
        let end = extent.offset.saturating_add(extent.bytes);
        let mut first_page = extent.first_page;
        while self.input.at < end && !self.input.is_stopped() {
            let want = (end - self.input.at).min(self.buffer.len() as u64) as usize;
            let got = self.input.take(&mut self.buffer.bytes_mut()[..want])?;
            let mut whole = got.next_multiple_of(page_size);
            if got < want && self.input.is_stopped() {
                whole = got / page_size * page_size; // not the end of the stream
            } else if got < want && kind == RegionKind::Dump {
                let problem = format!(
                    "its pages end at {end:#x}, and the stream at {:#x}: {}",
                    self.input.at,
                    Error::CUT_SHORT
                );
                return Err(Error::dump(self.input.name, problem));
            } else if whole != got {
                self.buffer.bytes_mut()[got..whole].fill(0);
                self.visit.counted.padded += 1;
            }
            if whole > 0 {
                (self.sink)(Batch {
                    region: extent.region,
                    kind,
                    first_page,
                    bytes: &self.buffer.bytes()[..whole],
                    maybe_shared: None,
                });
            }
            first_page += (whole / page_size) as u64;
            self.visit.counted.delivered += (whole / page_size) as u64;
            if got < want {
                break;
            }
        }
        Ok(())
    }
}

/// Reads when there is something; otherwise, after a while, it says that it was interrupted.
fn read(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut waiting = [PollFd::new(file, PollFlags::IN)];
    if poll(&mut waiting, Some(&PATIENCE))? == 0 {
        return Err(ErrorKind::Interrupted.into());
    }
    file.read(buffer)
}

impl Source for StreamSource {
    fn describe(&self) -> String {
        self.name.display().to_string()
    }

    fn page_size(&self) -> usize {
        self.page_size
    }

    fn expected_pages(&self) -> Option<u64> {
        None
    }

    /// Reads in order with one thread, whatever `threads` says: a stream has
    /// one reader, and its sink calls come one after the other.
    fn can_revisit(&self) -> bool {
        false
    }

    fn visit(&self, _threads: usize, stop: &AtomicBool, sink: Sink<'_>) -> Result<Visit, Error> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut input = Input {
            name: &self.name,
            file: &stream,
            stop,
            head: Vec::new(),
            at: 0,
        };
        let (form, note) = match self.raw {
            true => (Form::Plain, None),
            false => form::recognise(input.head(START_BYTES)?, &self.name, None)?,
        };
        let mut reading = StreamVisit {
            input,
            buffer: Buffer::new(BATCH_BYTES.next_multiple_of(self.page_size)),
            page_size: self.page_size,
            layout: Layout::default(),
            sink,
            visit: Visit::default(),
        };
        reading.read(form)?;
        let StreamVisit {
            layout, mut visit, ..
        } = reading;
        visit.interrupted = stop.load(Ordering::Relaxed);
        if form == Form::Plain && visit.counted.delivered == 0 && !visit.interrupted {
            return Err(Error::Empty {
                path: self.name.clone(),
            });
        }
        visit.counted.shared_again = layout.shown_again;
        visit.regions = layout.regions;
        visit.skipped = layout.skipped;
        visit.notes.extend(note);
        Ok(visit)
    }
}

/// Fills the buffer; less only at the end of the stream or when stopped.
fn fill(stream: &File, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() && !stop.load(Ordering::Relaxed) {
        match read(stream, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_stream_can_be_stopped() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, &[7; 5000]).unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let source = StreamSource::of_file(Path::new("pipe"), file, 4096, false);
        let stop = AtomicBool::new(false);
        let visit = std::thread::scope(|scope| {
            let visit = scope.spawn(|| source.visit(1, &stop, &|_| {}).unwrap());
            while rustix::io::ioctl_fionread(&writer).unwrap() > 0 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            visit.join().unwrap()
        });
        assert!(visit.interrupted);
        assert_eq!(visit.counted.delivered, 1);
    }

    #[test]
    fn pages_arrive_whole_and_in_order_however_the_stream_dribbles() {
        let data: Vec<u8> = (0..3_000_001_u32).map(|i| (i / 11) as u8).collect();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let source = StreamSource::of_file(Path::new("pipe"), file, 4096, false);
        assert_eq!(source.page_size(), 4096);
        let sent = data.clone();
        // In pieces of a prime size.
        let writer = std::thread::spawn(move || {
            let mut pieces = sent.chunks(4093);
            pieces.try_for_each(|piece| std::io::Write::write_all(&mut writer, piece))
        });
        let got = Mutex::new(Vec::new());
        let visit = source
            .visit(4, &AtomicBool::new(false), &|batch| {
                let mut got = got.lock().unwrap();
                assert_eq!(got.len() as u64, batch.first_page * 4096);
                got.extend_from_slice(batch.bytes);
            })
            .unwrap();
        writer.join().unwrap().unwrap();
        let got = got.into_inner().unwrap();
        assert_eq!(got.len(), data.len().next_multiple_of(4096));
        assert!(got[..data.len()] == data);
        assert!(got[data.len()..].iter().all(|&b| b == 0));
        assert_eq!(
            (visit.counted.padded, visit.counted.delivered),
            (1, got.len() as u64 / 4096)
        );
        assert!(matches!(
            source.visit(1, &AtomicBool::new(false), &|_| {}),
            Err(Error::Empty { .. })
        ));
    }
}

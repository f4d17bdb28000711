//! Standard input or another stream: read once, in order, of unknown length.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::buffer::Buffer;
use crate::{Batch, Error, Owner, Region, RegionId, RegionKind, Sink, Source, Visit};

/// Bytes in the one buffer that batches are cut from.
const BATCH_BYTES: usize = 1 << 20;

/// So long a silent stream is waited for before it is asked again whether to stop.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// A stream of pages. It can be visited once: a second visit finds it empty.
pub struct StreamSource {
    name: String,
    stream: Mutex<File>,
    page_size: usize,
}

impl StreamSource {
    /// Standard input.
    ///
    /// # Errors
    /// When there is no standard input.
    pub fn stdin(page_size: usize) -> Result<Self, Error> {
        let name = "standard input";
        // A descriptor of its own: what `Stdin` has buffered would not be polled.
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        let input = input.map_err(|cause| Error::io("read", name, cause))?;
        Ok(Self::of_file(name, File::from(input), page_size))
    }

    /// A pipe or a terminal, which may be silent for long: the visit can be
    /// stopped then too.
    pub fn of_file(name: &str, file: File, page_size: usize) -> Self {
        StreamSource {
            name: name.to_owned(),
            stream: Mutex::new(file),
            page_size,
        }
    }
}

/// Reads when there is something; otherwise, after a while, it says that it was interrupted.
fn read(mut file: &File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut waiting = [PollFd::new(file, PollFlags::IN)];
    if poll(&mut waiting, Some(&PATIENCE))? == 0 {
        return Err(ErrorKind::Interrupted.into());
    }
    file.read(buffer)
}

impl Source for StreamSource {
    fn describe(&self) -> String {
        self.name.clone()
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
        let mut buffer = Buffer::new(BATCH_BYTES.next_multiple_of(self.page_size));
        let mut visit = Visit::default();
        let mut first_page = 0;
        loop {
            if stop.load(Ordering::Relaxed) {
                visit.interrupted = true;
                break;
            }
            let mut filled = fill(&stream, buffer.bytes_mut(), stop)
                .map_err(|cause| Error::io("read", &self.name, cause))?;
            let partial = filled % self.page_size;
            let ended = filled < buffer.len();
            if partial != 0 && stop.load(Ordering::Relaxed) {
                filled -= partial; // stopped in the middle of a page, not at the end of the stream
            } else if partial != 0 {
                let whole = filled.next_multiple_of(self.page_size);
                buffer.bytes_mut()[filled..whole].fill(0);
                filled = whole;
                visit.counted.padded += 1;
            }
            if filled > 0 {
                let bytes = &buffer.bytes()[..filled];
                sink(Batch {
                    region: RegionId(0),
                    kind: RegionKind::Stdin,
                    first_page,
                    bytes,
                    maybe_shared: None,
                });
                first_page += (filled / self.page_size) as u64;
            }
            if ended {
                visit.interrupted = stop.load(Ordering::Relaxed);
                break;
            }
        }
        if first_page == 0 && !visit.interrupted {
            return Err(Error::Empty {
                path: PathBuf::from(&self.name),
            });
        }
        visit.counted.delivered = first_page;
        visit.regions.push(Region {
            owner: Owner::Stdin,
            kind: RegionKind::Stdin,
            start: 0,
        });
        Ok(visit)
    }
}

/// Fills the buffer; less only at the end of the stream or when stopped.
fn fill(stream: &File, buffer: &mut [u8], stop: &AtomicBool) -> std::io::Result<usize> {
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
        let source = StreamSource::of_file("pipe", file, 4096);
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
        let source = StreamSource::of_file("pipe", file, 4096);
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

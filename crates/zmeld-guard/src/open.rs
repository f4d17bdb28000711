//! Inputs of a look: a figure of the last ten seconds, and a file of the kernel that stays open,
//! and is read again and again into memory that is there already: whoever looks while memory is
//! short must not ask for any.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use zmeld_linux::Host;

/// Most bytes read of a file; the longest is a group's list of processes, which is read into each
/// half.
const BUFFER_BYTES: usize = 128 << 10;

/// A place to read into whose pages are all there.
pub(crate) fn touched() -> Vec<u8> {
    // Of zeros the kernel would give the pages when they are written only.
    vec![1; BUFFER_BYTES]
}

#[derive(Debug)]
pub(crate) struct OpenFile(File);

impl OpenFile {
    /// None where it is not there, or may not be opened.
    pub fn open(host: &Host, path: impl AsRef<Path>) -> Option<OpenFile> {
        File::open(host.path(path)).ok().map(OpenFile)
    }

    /// Its text now, or the part of it that there is room for.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a str> {
        let mut length = 0;
        while length < buffer.len() {
            match self.0.read_at(&mut buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        // Names in it can be of any bytes; what is asked for are numbers.
        let text = match std::str::from_utf8(&buffer[..length]) {
            Ok(text) => text,
            Err(err) => std::str::from_utf8(&buffer[..err.valid_up_to()]).unwrap_or_default(),
        };
        Ok(text)
    }
}

/// How far back it goes.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);
/// Figures nearer to each other than this are not both kept.
const APART: Duration = Duration::from_millis(900);
/// One more than the window has room for.
const KEPT: usize = 13;

/// Figures with their times, the oldest first; it takes no memory but its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring<T> {
    kept: [Option<(Instant, T)>; KEPT],
}

impl<T: Copy> Ring<T> {
    pub fn new() -> Ring<T> {
        Ring { kept: [None; KEPT] }
    }

    /// Keeps a figure, unless one of the same second is kept already.
    pub fn keep(&mut self, at: Instant, figure: T) {
        let count = self.kept.iter().flatten().count();
        let last = count.checked_sub(1).and_then(|last| self.kept[last]);
        if last.is_some_and(|(then, _)| at.duration_since(then) < APART) {
            return;
        }
        if count < KEPT {
            self.kept[count] = Some((at, figure));
            return;
        }
        self.kept.rotate_left(1);
        self.kept[KEPT - 1] = Some((at, figure));
    }

    /// The oldest of the window that ends now.
    pub fn oldest(&self, now: Instant) -> Option<(Duration, T)> {
        self.find(now).next()
    }

    /// The latest that is so old at least, or the oldest.
    pub fn since(&self, now: Instant, least: Duration) -> Option<(Duration, T)> {
        self.find(now)
            .filter(|(age, _)| *age >= least)
            .last()
            .or(self.oldest(now))
    }

    fn find(&self, now: Instant) -> impl Iterator<Item = (Duration, T)> + '_ {
        let kept = self.kept.iter().flatten();
        let all = kept.map(move |(at, figure)| (now.duration_since(*at), *figure));
        all.filter(|(age, _)| *age <= WINDOW + APART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_back_ten_seconds_however_often_it_is_asked() {
        let begin = Instant::now();
        let mut ring = Ring::new();
        assert!(ring.oldest(begin).is_none());
        for tenth in 0..1000_u64 {
            let now = begin + Duration::from_millis(100 * tenth);
            ring.keep(now, tenth);
            let (age, figure) = ring.oldest(now).unwrap();
            assert_eq!(age, Duration::from_millis(100 * (tenth - figure)));
            assert!(age <= WINDOW + APART, "{tenth}: {age:?}");
            // As soon as it can, it has the whole window.
            assert!(tenth < 100 || age >= WINDOW - APART, "{tenth}: {age:?}");
        }
        let oldest = ring.oldest(begin + Duration::from_millis(99_900));
        assert_eq!(oldest, Some((Duration::from_millis(10_800), 891)));
        // Older figures are outside of the window.
        assert!(ring.oldest(begin + Duration::from_secs(200)).is_none());
    }
}

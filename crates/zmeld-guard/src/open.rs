//! A file of the kernel that stays open, and is read again and again into memory that
//! is there already: whoever looks while memory is short must not ask for any.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;
use zmeld_linux::Host;

/// What is read of a file at most; the longest is a group's list of processes, which is read
/// into each half.
const BUFFER_BYTES: usize = 128 << 10;

/// A place to read into whose pages are all there.
pub(crate) fn touched() -> Vec<u8> {
    // Of zeros the kernel would give the pages when they are written only.
    vec![1; BUFFER_BYTES]
}

/// Whether the group that an open file is of was removed.
pub(crate) fn is_removed(err: &io::Error) -> bool {
    err.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// An open file of the kernel.
#[derive(Debug)]
pub(crate) struct OpenFile(File);

impl OpenFile {
    /// None where it is not there, or may not be opened.
    pub fn open(host: &Host, path: impl AsRef<Path>) -> Option<OpenFile> {
        File::open(host.path(path)).ok().map(OpenFile)
    }

    /// What it says now, or the part of it that there is room for.
    ///
    /// # Errors
    /// When it cannot be read: the device or the group that it is of is gone.
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

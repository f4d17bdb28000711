//! Picks the source for a path by what the file is.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::memory::file::open_for_reading;
use crate::memory::{Error, FileSource, Source, StreamSource};

/// Opens a path: `-` is standard input, a pipe is a stream, ELF cores and LiME dumps are read
/// by their ranges, and everything else as it is. `page_size` is a power of two; with `raw`
/// dumps are read as plain files too.
///
/// # Errors
/// When the path cannot be read, is empty, is a damaged dump, or is packed (the error names
/// the way out). Of a stream the form is told, and refused, when it is visited.
pub fn open_path(path: &Path, page_size: usize, raw: bool) -> Result<Box<dyn Source>, Error> {
    let stream = |name: &Path, file| -> Box<dyn Source> {
        Box::new(StreamSource::of_file(name, file, page_size, raw))
    };
    if path == Path::new("-") {
        let name = Path::new("standard input");
        // A descriptor of its own: what `Stdin` has buffered would not be polled.
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        let input = File::from(input.map_err(|cause| Error::io("read", name, cause))?);
        // A file that nobody has begun to read can be read at any offset.
        let is_file = input
            .metadata()
            .is_ok_and(|it| it.is_file() && it.len() > 0);
        if is_file && rustix::fs::tell(&input) == Ok(0) {
            return Ok(Box::new(FileSource::of_file(name, input, page_size, raw)?));
        }
        return Ok(stream(name, input));
    }
    let metadata = std::fs::metadata(path).map_err(|cause| Error::io("open", path, cause))?;
    if metadata.file_type().is_fifo() {
        let pipe = File::open(path).map_err(|cause| Error::io("open", path, cause))?;
        return Ok(stream(path, pipe));
    }
    let file = open_for_reading(path)?;
    Ok(Box::new(FileSource::of_file(path, file, page_size, raw)?))
}

//! Picks the source for a path by what the file is.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::file::{open_for_reading, read_at_most};
use crate::{elf, Error, FileSource, Source, StreamSource};

/// How dumps begin whose pages cannot be read as they lie in the file.
const PACKED: [(&str, &[u8]); 11] = [
    ("a compressed kdump", b"KDUMP   "),
    ("a diskdump", b"DISKDUMP"),
    ("a flattened kdump", b"makedumpfile\0\0\0\0"),
    ("a QEMU migration or savevm stream", b"QEVM"),
    ("a libvirt save image", b"LibvirtQemudSave"),
    ("an unfinished libvirt save image", b"LibvirtQemudPart"),
    ("a LiME dump", b"EMiL"),
    ("a Windows crash dump", b"PAGEDUMP"),
    ("a Windows crash dump", b"PAGEDU64"),
    ("a VMware suspend state", b"\xd2\xbe\xd2\xbe"),
    ("a VMware suspend state", b"\xd3\xbe\xd3\xbe"),
];

/// Opens a path: `-` is standard input, a pipe is a stream, an ELF core is a
/// dump, and everything else is read as it is. `page_size` is a power of two;
/// with `raw` dumps are read as plain files too.
///
/// # Errors
/// When the path cannot be read, is empty, is a damaged ELF core, or is a dump
/// of a packed format (the error names the way out).
pub fn open_path(path: &Path, page_size: usize, raw: bool) -> Result<Box<dyn Source>, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(StreamSource::stdin(page_size)?));
    }
    let metadata = std::fs::metadata(path).map_err(|cause| Error::io("open", path, cause))?;
    if metadata.file_type().is_fifo() {
        let pipe = std::fs::File::open(path).map_err(|cause| Error::io("open", path, cause))?;
        let name = path.display().to_string();
        return Ok(Box::new(StreamSource::of_file(&name, pipe, page_size)));
    }
    if !raw {
        let mut start = [0; 64];
        let file = open_for_reading(path)?;
        let got =
            read_at_most(&file, &mut start, 0).map_err(|cause| Error::io("read", path, cause))?;
        let start = &start[..got];
        for (format, magic) in PACKED {
            if start.starts_with(magic) {
                return Err(Error::Unsupported {
                    path: path.to_path_buf(),
                    format,
                });
            }
        }
        if elf::is_core(start) {
            return Ok(Box::new(FileSource::open_core(path, page_size)?));
        }
    }
    Ok(Box::new(FileSource::open(path, page_size)?))
}

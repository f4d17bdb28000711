//! LiME dumps: ranges of a machine's memory one behind the other, each behind a header of
//! 32 bytes. It holds, little endian, the magic and the version in 4 bytes each, the first
//! address and the last in 8 bytes each, and 8 bytes that mean nothing.

use std::fs::File;
use std::path::Path;

use crate::memory::buffer::read_at_most;
use crate::memory::layout::Layout;
use crate::memory::{Error, Owner, RegionKind};

pub(crate) const MAGIC: &[u8] = b"EMiL";
pub(crate) const HEADER_BYTES: usize = 32;

/// A dump of more ranges is no machine's.
const RANGES_MAX: u32 = 1 << 22;

/// Layout of a file of so many bytes.
pub(crate) fn layout(file: &File, bytes: u64, path: &Path) -> Result<Layout, Error> {
    let mut layout = Layout::default();
    let mut at = 0;
    while at < bytes {
        let mut header = [0; HEADER_BYTES];
        let got = read_at_most(file, &mut header, at);
        let got = got.map_err(|cause| Error::io("read", path, cause))?;
        let range = next_range(&mut layout, &header[..got], at, bytes, path)?;
        at += HEADER_BYTES as u64 + range;
    }
    Ok(layout)
}

/// Adds the range whose header is at `at`, in what has so many bytes; how many the range has.
pub(crate) fn next_range(
    layout: &mut Layout,
    header: &[u8],
    at: u64,
    bytes: u64,
    path: &Path,
) -> Result<u64, Error> {
    let range = layout.regions.len() as u32;
    let broken = |problem: String| {
        Error::dump(
            path,
            format!("header of range {range}, at {at:#x}: {problem}"),
        )
    };
    let number = |at: usize, len: usize| {
        let bytes = header[at..at + len].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    if header.len() < HEADER_BYTES {
        return Err(broken(format!("the dump ends in it, {}", Error::CUT_SHORT)));
    }
    if !header.starts_with(MAGIC) {
        return Err(broken("it does not begin with LiME's magic".to_owned()));
    }
    let (version, first, last) = (number(4, 4), number(8, 8), number(16, 8));
    let size = last.checked_sub(first).and_then(|it| it.checked_add(1));
    let Some(size) = size.filter(|_| version == 1 && range < RANGES_MAX) else {
        let problem = format!("version {version}, addresses {first:#x} to {last:#x}");
        return Err(broken(format!("{problem} are no range of version 1")));
    };
    let offset = at + HEADER_BYTES as u64;
    if offset.checked_add(size).is_none_or(|end| end > bytes) {
        let problem = format!(
            "its {size:#x} bytes do not fit in the file, which ends at {bytes:#x}: {}",
            Error::CUT_SHORT
        );
        return Err(broken(problem));
    }
    let owner = Owner::Dump {
        path: path.to_path_buf(),
        segment: range,
    };
    layout.add(owner, RegionKind::Dump, offset, size, 0);
    Ok(size)
}

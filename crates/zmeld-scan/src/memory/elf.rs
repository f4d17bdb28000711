//! Memory dumps in ELF form: a process's core, or the memory of a machine as
//! QEMU's `dump-guest-memory` and makedumpfile's `-E` write it.
//!
//! The header and the table of segments are read by `object`. A segment is believed only
//! as far as the file bears it out: its bytes lie within the file, and no sum overflows;
//! the error names the field. Two segments may show the same bytes of the file (a
//! machine's memory mapped twice); those pages are delivered once, and a second showing
//! that cuts pages differently is an error.

use std::cmp::Reverse;
use std::path::Path;

use object::elf::{FileHeader32, FileHeader64, ET_CORE, PN_XNUM, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadRef};

use crate::memory::layout::Layout;
use crate::memory::{Error, Owner, RegionKind, SkipReason};

/// A table of more segments is no dump's.
const SEGMENTS_MAX: u32 = 1 << 22;

/// Layout of an ELF core of so many bytes, from each segment's first byte on; of the bytes, `data`
/// has at least the header and the table of segments.
pub(crate) fn layout<'data>(
    data: impl ReadRef<'data>,
    bytes: u64,
    path: &Path,
    page_size: usize,
) -> Result<Layout, Error> {
    let segments = match FileKind::parse(data) {
        Ok(FileKind::Elf32) => segments::<FileHeader32<Endianness>>(data, bytes),
        Ok(FileKind::Elf64) => segments::<FileHeader64<Endianness>>(data, bytes),
        Ok(_) => Err("not an ELF file".to_owned()),
        Err(err) => Err(err.to_string()),
    };
    let segments = segments.map_err(|problem| Error::dump(path, problem))?;
    let mut core = Layout::default();
    let page = page_size as u64;
    let mut by_offset: Vec<&Segment> = segments.iter().filter(|s| s.file_bytes > 0).collect();
    // Of those that begin together the longest shows what the others do.
    by_offset.sort_by_key(|it| (it.offset, Reverse(it.file_bytes), it.index));
    let mut end = 0; // of the bytes that are spoken for
    for segment in by_offset {
        let mut from = 0; // bytes of the segment shown by another already
        if segment.offset < end {
            if (end - segment.offset) % page != 0 && end < segment.offset + segment.file_bytes {
                let problem = format!(
                    "p_offset of segment {}: it overlaps another by {} bytes, which is not a whole number of pages",
                    segment.index,
                    end - segment.offset
                );
                return Err(Error::dump(path, problem));
            }
            from = (end - segment.offset).min(segment.file_bytes);
            core.shown_again += from.div_ceil(page);
        }
        end = end.max(segment.offset + segment.file_bytes);
        if from < segment.file_bytes {
            let owner = Owner::Dump {
                path: path.to_path_buf(),
                segment: segment.index,
            };
            let (offset, bytes) = (segment.offset + from, segment.file_bytes - from);
            core.add(owner, RegionKind::Dump, offset, bytes, from / page);
        }
    }
    for segment in segments.iter().filter(|s| s.memory_bytes > s.file_bytes) {
        let missing = segment.memory_bytes.div_ceil(page) - segment.file_bytes.div_ceil(page);
        if missing > 0 {
            core.skipped.region(SkipReason::NotInDump, missing);
        }
    }
    Ok(core)
}

/// How many bytes of a core [`layout`] has to know of which the first are these; what cannot
/// be told from a wrong header is its to tell.
pub(crate) fn head_bytes(start: &[u8]) -> u64 {
    match FileKind::parse(start) {
        Ok(FileKind::Elf32) => table_end::<FileHeader32<Endianness>>(start),
        Ok(FileKind::Elf64) => table_end::<FileHeader64<Endianness>>(start),
        _ => None,
    }
    .unwrap_or(0)
}

fn table_end<H: FileHeader<Endian = Endianness>>(start: &[u8]) -> Option<u64> {
    let header = H::parse(start).ok()?;
    let endian = header.endian().ok()?;
    // More segments than the header has room for are counted by the first section's header.
    if header.e_phnum(endian) == PN_XNUM {
        let section = header.e_shoff(endian).into();
        let end = section.saturating_add(header.e_shentsize(endian).into());
        if end > start.len() as u64 {
            return Some(end);
        }
    }
    let count = header.phnum(endian, start).ok()?;
    let bytes = u64::from(count) * u64::from(header.e_phentsize(endian));
    Some(header.e_phoff(endian).into().saturating_add(bytes))
}

/// Is this the start of an ELF file of type core?
pub(crate) fn is_core(start: &[u8]) -> bool {
    start.len() >= 18
        && start.starts_with(b"\x7fELF")
        && match start[5] {
            1 => start[16..18] == [4, 0],
            2 => start[16..18] == [0, 4],
            _ => false,
        }
}

#[derive(Debug)]
struct Segment {
    index: u32,
    offset: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

/// The segments that hold memory, of a file of so many bytes.
fn segments<'data, H: FileHeader<Endian = Endianness>>(
    file: impl ReadRef<'data>,
    bytes: u64,
) -> Result<Vec<Segment>, String> {
    let end = file.len().unwrap_or(bytes);
    let text = |err: object::Error| format!("{err}, in what ends at {end:#x}");
    let header = H::parse(file).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    let kind = header.e_type(endian);
    if kind != ET_CORE {
        return Err(format!("e_type: {kind:?} is not a core (4)"));
    }
    let count = header.phnum(endian, file).map_err(text)?;
    if count > SEGMENTS_MAX {
        return Err(format!(
            "e_phnum: {count} segments are more than {SEGMENTS_MAX}"
        ));
    }
    let table = header.program_headers(endian, file).map_err(text)?;
    let mut segments = Vec::new();
    for (index, entry) in (0..).zip(table) {
        if entry.p_type(endian) != PT_LOAD {
            continue;
        }
        let segment = Segment {
            index,
            offset: entry.p_offset(endian).into(),
            file_bytes: entry.p_filesz(endian).into(),
            memory_bytes: entry.p_memsz(endian).into(),
        };
        segment
            .check(bytes)
            .map_err(|problem| format!("p_filesz of segment {index}: {problem}"))?;
        segments.push(segment);
    }
    if segments.is_empty() {
        return Err("none of its segments holds memory (PT_LOAD)".to_owned());
    }
    Ok(segments)
}

impl Segment {
    /// Refuses what the file does not bear out.
    fn check(&self, bytes: u64) -> Result<(), String> {
        let &Segment {
            offset,
            file_bytes,
            memory_bytes,
            ..
        } = self;
        let end = offset.checked_add(file_bytes);
        if end.is_none_or(|end| file_bytes > 0 && end > bytes) {
            return Err(format!(
                "{file_bytes:#x} bytes from {offset:#x} do not fit in the file, which ends at {bytes:#x}: {}",
                Error::CUT_SHORT
            ));
        }
        if file_bytes > memory_bytes {
            return Err(format!(
                "{file_bytes:#x} bytes in the file for {memory_bytes:#x} in memory"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{head_bytes, is_core};

    /// A core of so many segments that the first section's header counts them: that is read
    /// first, then their table.
    #[test]
    fn the_head_of_a_large_core_ends_where_its_segments_do() {
        let mut start = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 9], &[4, 0, 62, 0]].concat();
        start.resize(128, 0);
        start[20] = 1;
        start[32..34].copy_from_slice(&1000u16.to_le_bytes());
        start[40] = 64;
        start[52..62].copy_from_slice(&[64, 0, 56, 0, 0xff, 0xff, 64, 0, 1, 0]);
        start[64 + 44] = 3;
        assert_eq!(head_bytes(&start[..127]), 128);
        assert_eq!(head_bytes(&start), 1000 + 3 * 56);
    }

    #[test]
    fn a_core_is_one_in_either_byte_order() {
        for (order, kind, expected) in [
            (1, [4, 0], true),
            (2, [0, 4], true),
            (1, [0, 4], false),
            (2, [2, 0], false),
            (3, [4, 0], false),
        ] {
            let start = [b"\x7fELF\x02".as_slice(), &[order], &[0; 10], &kind].concat();
            assert_eq!(is_core(&start), expected, "{order} {kind:?}");
            assert!(!is_core(&start[..17]));
        }
    }
}

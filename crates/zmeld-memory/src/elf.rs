//! Memory dumps in ELF form: a process's core, or the memory of a machine as
//! QEMU's `dump-guest-memory` and makedumpfile's `-E` write it.
//!
//! The header and the table of segments are read by `object`. A segment is believed only
//! as far as the file bears it out: its bytes lie within the file, and no sum overflows;
//! the error names the field. Two segments may show the same bytes of the file (a
//! machine's memory mapped twice); those pages are delivered once, and a second showing
//! that cuts pages differently is an error.

use std::fs::File;
use std::path::Path;

use object::elf::{FileHeader32, FileHeader64, ET_CORE, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};

use crate::file::{open_pages, Extent};
use crate::{Error, FileSource, Owner, RegionId, RegionKind, SkipReason};

/// A table of more segments is no dump's.
const SEGMENTS_MAX: u32 = 1 << 22;

impl FileSource {
    /// Opens an ELF core or memory dump and checks its headers. Pages are cut from each
    /// segment's first byte on.
    ///
    /// # Errors
    /// [`Error::Elf`] for a header that is cut short or lies.
    pub fn open_core(path: impl AsRef<Path>, page_size: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let (file, bytes) = open_pages(path)?;
        let cache = ReadCache::new(&file);
        let segments = match FileKind::parse(&cache) {
            Ok(FileKind::Elf32) => segments::<FileHeader32<Endianness>>(&cache, bytes),
            Ok(FileKind::Elf64) => segments::<FileHeader64<Endianness>>(&cache, bytes),
            Ok(_) => Err("not an ELF file".to_owned()),
            Err(err) => Err(err.to_string()),
        };
        let segments = segments.map_err(|problem| broken(path, problem))?;
        let mut core = FileSource::new(path, file, page_size);
        let page = page_size as u64;
        let mut by_offset: Vec<&Segment> = segments.iter().filter(|s| s.file_bytes > 0).collect();
        by_offset.sort_by_key(|segment| (segment.offset, segment.index));
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
                    return Err(broken(path, problem));
                }
                from = (end - segment.offset).min(segment.file_bytes);
                core.shown_again += from.div_ceil(page);
            }
            end = end.max(segment.offset + segment.file_bytes);
            core.add_segment(segment, from);
        }
        for segment in segments.iter().filter(|s| s.memory_bytes > s.file_bytes) {
            let missing = segment.memory_bytes.div_ceil(page) - segment.file_bytes.div_ceil(page);
            if missing > 0 {
                core.skipped.region(SkipReason::NotInDump, missing);
            }
        }
        Ok(core)
    }

    fn add_segment(&mut self, segment: &Segment, from: u64) {
        if from == segment.file_bytes {
            return;
        }
        let region =
            RegionId(u32::try_from(self.regions.len()).expect("fewer segments than SEGMENTS_MAX"));
        let owner = Owner::Dump {
            path: self.path.clone(),
            segment: segment.index,
        };
        let extent = Extent {
            region,
            offset: segment.offset + from,
            bytes: segment.file_bytes - from,
            first_page: from / self.page_size as u64,
        };
        self.add(owner, RegionKind::Dump, extent);
    }
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

fn broken(path: &Path, problem: String) -> Error {
    Error::Elf {
        path: path.to_path_buf(),
        problem,
    }
}

/// A PT_LOAD program header.
#[derive(Debug)]
struct Segment {
    index: u32,
    offset: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

/// The segments that hold memory, of a file of so many bytes.
fn segments<H: FileHeader<Endian = Endianness>>(
    file: &ReadCache<&File>,
    bytes: u64,
) -> Result<Vec<Segment>, String> {
    let text = |err: object::Error| err.to_string();
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
                "{file_bytes:#x} bytes from {offset:#x} do not fit in the file, which ends at \
                 {bytes:#x}: it was cut short, or the header lies"
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

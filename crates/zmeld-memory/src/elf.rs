//! Memory dumps in ELF form: a process's core, or the memory of a machine as
//! QEMU's `dump-guest-memory` and makedumpfile's `-E` write it.
//!
//! A header is believed only as far as the file bears it out. What is checked,
//! with the field and its offset named in the error: identification, sizes of
//! the tables, that they lie within the file, that each segment's bytes lie
//! within the file, and that no sum overflows. Two segments may show the same
//! bytes of the file (a machine's memory mapped twice); those pages are
//! delivered once, and a second showing that cuts pages differently is an error.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::file::{open_pages, read_at_most, visit_extents, Extent};
use crate::{Batch, Error, Owner, Region, RegionId, RegionKind, SkipReason, Skips, Source, Visit};

const ET_CORE: u64 = 4;
const PT_LOAD: u64 = 1;
/// e_phnum when the real number is in section header 0.
const PN_XNUM: u64 = 0xffff;
/// A header table larger than this is no dump's.
const SEGMENTS_MAX: u64 = 1 << 22;

/// The pages of an ELF core or memory dump.
#[derive(Debug)]
pub struct ElfCore {
    path: PathBuf,
    file: File,
    page_size: usize,
    regions: Vec<Region>,
    extents: Vec<Extent>,
    skipped: Skips,
    shown_again: u64,
}

impl ElfCore {
    /// Opens a dump and checks its headers. Pages are cut from each segment's
    /// first byte on.
    ///
    /// # Errors
    /// [`Error::Elf`] for a header that is cut short or lies.
    pub fn open(path: impl AsRef<Path>, page_size: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let (file, bytes) = open_pages(path, page_size)?;
        let segments = ElfHeaders {
            path,
            file: &file,
            bytes,
        }
        .segments()?;
        Self::from_segments(path, file, page_size, &segments)
    }

    fn from_segments(
        path: &Path,
        file: File,
        page_size: usize,
        segments: &[Segment],
    ) -> Result<Self, Error> {
        let mut core = ElfCore {
            path: path.to_path_buf(),
            file,
            page_size,
            regions: Vec::new(),
            extents: Vec::new(),
            skipped: Skips::default(),
            shown_again: 0,
        };
        let page = page_size as u64;
        let mut by_offset: Vec<&Segment> = segments.iter().filter(|s| s.file_bytes > 0).collect();
        by_offset.sort_by_key(|segment| (segment.offset, segment.index));
        let mut end = 0; // of the bytes that are spoken for
        for segment in by_offset {
            let mut from = 0; // bytes of the segment shown by another already
            if segment.offset < end {
                if (end - segment.offset) % page != 0 && end < segment.offset + segment.file_bytes {
                    return Err(segment.error(
                        path,
                        HeaderField::Offset,
                        format!(
                            "the segment overlaps another by {} bytes, which is not a whole number of pages",
                            end - segment.offset
                        ),
                    ));
                }
                from = (end - segment.offset).min(segment.file_bytes);
                core.shown_again += from.div_ceil(page);
            }
            end = end.max(segment.offset + segment.file_bytes);
            core.add(segment, from);
        }
        for segment in segments.iter().filter(|s| s.memory_bytes > s.file_bytes) {
            let missing = segment.memory_bytes.div_ceil(page) - segment.file_bytes.div_ceil(page);
            if missing > 0 {
                core.skipped.region(SkipReason::NotInDump, missing);
            }
        }
        Ok(core)
    }

    fn add(&mut self, segment: &Segment, from: u64) {
        if from == segment.file_bytes {
            return;
        }
        let id =
            RegionId(u32::try_from(self.regions.len()).expect("fewer segments than SEGMENTS_MAX"));
        self.regions.push(Region {
            id,
            owner: Owner::Dump {
                path: self.path.clone(),
                segment: segment.index,
            },
            kind: RegionKind::Dump,
            name: Arc::from(self.path.to_string_lossy()),
            start: if segment.virtual_address != 0 {
                segment.virtual_address
            } else {
                segment.physical_address
            },
        });
        self.extents.push(Extent {
            region: id,
            kind: RegionKind::Dump,
            offset: segment.offset + from,
            bytes: segment.file_bytes - from,
            first_page: from / self.page_size as u64,
        });
    }
}

impl Source for ElfCore {
    fn describe(&self) -> String {
        format!("the memory dump {}", self.path.display())
    }

    fn page_size(&self) -> usize {
        self.page_size
    }

    fn expected_pages(&self) -> Option<u64> {
        Some(
            self.extents
                .iter()
                .map(|extent| extent.bytes.div_ceil(self.page_size as u64))
                .sum(),
        )
    }

    fn visit(
        &self,
        threads: usize,
        stop: &AtomicBool,
        sink: &(dyn Fn(Batch<'_>) + Sync),
    ) -> Result<Visit, Error> {
        let (mut counted, mut skipped) = visit_extents(
            &self.file,
            &self.extents,
            self.page_size,
            threads,
            stop,
            sink,
        );
        counted.shared_again = self.shown_again;
        skipped.add(&self.skipped);
        Ok(Visit {
            regions: self.regions.clone(),
            counted,
            skipped,
            interrupted: stop.load(Ordering::Relaxed),
            ..Visit::default()
        })
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

/// A PT_LOAD program header.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    index: u32,
    /// Where the header lies in the file, and how its fields are laid out.
    header: u64,
    wide: bool,
    offset: u64,
    virtual_address: u64,
    physical_address: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

/// The fields of a program header, in the order of the 64-bit form.
#[derive(Debug, Clone, Copy)]
enum HeaderField {
    Type,
    Offset,
    VirtualAddress,
    PhysicalAddress,
    FileBytes,
    MemoryBytes,
    Align,
}

impl HeaderField {
    /// Name, place and size in a 32-bit and in a 64-bit program header.
    fn layout(self, wide: bool) -> (&'static str, u64, usize) {
        let (name, narrow_at, wide_at) = match self {
            HeaderField::Type => return ("p_type", 0, 4),
            HeaderField::Offset => ("p_offset", 4, 8),
            HeaderField::VirtualAddress => ("p_vaddr", 8, 16),
            HeaderField::PhysicalAddress => ("p_paddr", 12, 24),
            HeaderField::FileBytes => ("p_filesz", 16, 32),
            HeaderField::MemoryBytes => ("p_memsz", 20, 40),
            HeaderField::Align => ("p_align", 28, 48),
        };
        if wide {
            (name, wide_at, 8)
        } else {
            (name, narrow_at, 4)
        }
    }
}

impl Segment {
    fn error(&self, path: &Path, field: HeaderField, problem: String) -> Error {
        let (name, at, _) = field.layout(self.wide);
        Error::Elf {
            path: path.to_path_buf(),
            field: format!("{name} of segment {}", self.index),
            offset: self.header + at,
            problem,
        }
    }
}

/// The file's headers, read field by field so that an error can name its field.
struct ElfHeaders<'a> {
    path: &'a Path,
    file: &'a File,
    bytes: u64,
}

/// How numbers are written in this file.
#[derive(Clone, Copy)]
struct ElfEncoding {
    wide: bool,
    big_endian: bool,
}

impl ElfEncoding {
    fn number(self, bytes: &[u8]) -> u64 {
        let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if self.big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        }
    }
}

impl ElfHeaders<'_> {
    fn error(&self, field: &str, offset: u64, problem: impl Into<String>) -> Error {
        Error::Elf {
            path: self.path.to_path_buf(),
            field: field.to_owned(),
            offset,
            problem: problem.into(),
        }
    }

    fn bytes_at<const N: usize>(
        &self,
        field: &str,
        offset: u64,
        len: usize,
    ) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        let got = read_at_most(self.file, &mut bytes[..len], offset)
            .map_err(|cause| Error::io("read", self.path, cause))?;
        if got < len {
            return Err(self.error(
                field,
                offset,
                format!("the file ends after {} bytes", self.bytes),
            ));
        }
        Ok(bytes)
    }

    fn number(
        &self,
        form: ElfEncoding,
        field: &str,
        offset: u64,
        len: usize,
    ) -> Result<u64, Error> {
        let bytes: [u8; 8] = self.bytes_at(field, offset, len)?;
        Ok(form.number(&bytes[..len]))
    }

    fn form(&self) -> Result<ElfEncoding, Error> {
        let ident: [u8; 16] = self.bytes_at("e_ident", 0, 16)?;
        if &ident[..4] != b"\x7fELF" {
            return Err(self.error("e_ident", 0, "not an ELF file"));
        }
        let wide = match ident[4] {
            1 => false,
            2 => true,
            other => {
                return Err(self.error(
                    "e_ident[EI_CLASS]",
                    4,
                    format!("{other} is neither 32-bit nor 64-bit"),
                ))
            }
        };
        let big_endian = match ident[5] {
            1 => false,
            2 => true,
            other => {
                return Err(self.error("e_ident[EI_DATA]", 5, format!("{other} is no byte order")))
            }
        };
        if ident[6] != 1 {
            return Err(self.error(
                "e_ident[EI_VERSION]",
                6,
                format!("version {} is unknown", ident[6]),
            ));
        }
        Ok(ElfEncoding { wide, big_endian })
    }

    fn segments(&self) -> Result<Vec<Segment>, Error> {
        let form = self.form()?;
        let (table, count, entry) = self.program_headers(form)?;
        let mut segments = Vec::new();
        for index in 0..count {
            segments.extend(self.segment(form, index as u32, table + index * entry)?);
        }
        if segments.is_empty() {
            return Err(self.error(
                "p_type",
                table,
                "none of the segments holds memory (PT_LOAD)",
            ));
        }
        Ok(segments)
    }

    /// Where the program headers begin, how many there are, and the bytes of each; all
    /// of them lie in the file.
    fn program_headers(&self, form: ElfEncoding) -> Result<(u64, u64, u64), Error> {
        let kind = self.number(form, "e_type", 16, 2)?;
        if kind != ET_CORE {
            return Err(self.error("e_type", 16, format!("type {kind} is not a core (4)")));
        }
        let version = self.number(form, "e_version", 20, 4)?;
        if version != 1 {
            return Err(self.error("e_version", 20, format!("version {version} is unknown")));
        }
        let (phoff_at, word, ehsize_at, phentsize_at, phnum_at, header, entry) = if form.wide {
            (32, 8, 52, 54, 56, 64, 56)
        } else {
            (28, 4, 40, 42, 44, 52, 32)
        };
        let table = self.number(form, "e_phoff", phoff_at, word)?;
        let ehsize = self.number(form, "e_ehsize", ehsize_at, 2)?;
        if ehsize != header {
            return Err(self.error(
                "e_ehsize",
                ehsize_at,
                format!("{ehsize} bytes instead of {header}"),
            ));
        }
        let phentsize = self.number(form, "e_phentsize", phentsize_at, 2)?;
        let mut count = self.number(form, "e_phnum", phnum_at, 2)?;
        if count == 0 {
            return Err(self.error("e_phnum", phnum_at, "there are no segments"));
        }
        if phentsize != entry {
            return Err(self.error(
                "e_phentsize",
                phentsize_at,
                format!("{phentsize} bytes instead of {entry}"),
            ));
        }
        let mut count_field = ("e_phnum", phnum_at);
        if count == PN_XNUM {
            (count, count_field) = self.extended_count(form)?;
        }
        if count > SEGMENTS_MAX {
            return Err(self.error(
                count_field.0,
                count_field.1,
                format!("{count} segments are more than {SEGMENTS_MAX}"),
            ));
        }
        if table < header {
            return Err(self.error(
                "e_phoff",
                phoff_at,
                format!("{table:#x} lies within the ELF header"),
            ));
        }
        let table_end = table.checked_add(count * entry);
        if table_end.is_none_or(|end| end > self.bytes) {
            return Err(self.error(
                "e_phoff",
                phoff_at,
                format!(
                    "{count} program headers at {table:#x} do not fit in the file, which ends at {:#x}",
                    self.bytes
                ),
            ));
        }
        Ok((table, count, entry))
    }

    /// With 65535 segments or more their number is in `sh_info` of section 0.
    fn extended_count(&self, form: ElfEncoding) -> Result<(u64, (&'static str, u64)), Error> {
        let (shoff_at, word, info_at, section) = if form.wide {
            (40, 8, 44, 64)
        } else {
            (32, 4, 28, 40)
        };
        let sections = self.number(form, "e_shoff", shoff_at, word)?;
        let fits = sections
            .checked_add(section)
            .is_some_and(|end| end <= self.bytes);
        if sections == 0 || !fits {
            return Err(self.error(
                "e_shoff",
                shoff_at,
                format!(
                    "e_phnum says that section header 0 has the number of segments, but at {sections:#x} there is none"
                ),
            ));
        }
        let at = sections + info_at;
        let count = self.number(form, "sh_info of section 0", at, 4)?;
        if count == 0 {
            return Err(self.error("sh_info of section 0", at, "there are no segments"));
        }
        Ok((count, ("sh_info of section 0", at)))
    }

    fn segment(
        &self,
        form: ElfEncoding,
        index: u32,
        header: u64,
    ) -> Result<Option<Segment>, Error> {
        let len = if form.wide { 56 } else { 32 };
        let bytes: [u8; 56] = self.bytes_at("program header", header, len)?;
        let get = |field: HeaderField| {
            let (_, at, len) = field.layout(form.wide);
            form.number(&bytes[at as usize..at as usize + len])
        };
        if get(HeaderField::Type) != PT_LOAD {
            return Ok(None);
        }
        let segment = Segment {
            index,
            header,
            wide: form.wide,
            offset: get(HeaderField::Offset),
            virtual_address: get(HeaderField::VirtualAddress),
            physical_address: get(HeaderField::PhysicalAddress),
            file_bytes: get(HeaderField::FileBytes),
            memory_bytes: get(HeaderField::MemoryBytes),
        };
        self.check(&segment, get(HeaderField::Align))?;
        Ok(Some(segment))
    }

    fn check(&self, segment: &Segment, align: u64) -> Result<(), Error> {
        let refuse = |field, problem| Err(segment.error(self.path, field, problem));
        let &Segment {
            offset,
            file_bytes,
            memory_bytes,
            virtual_address,
            physical_address,
            ..
        } = segment;
        if align != 0 && !align.is_power_of_two() {
            return refuse(
                HeaderField::Align,
                format!("{align:#x} is not a power of two"),
            );
        }
        if file_bytes > 0 && offset >= self.bytes {
            return refuse(
                HeaderField::Offset,
                format!(
                    "{offset:#x} is past the end of the file at {:#x}",
                    self.bytes
                ),
            );
        }
        if offset
            .checked_add(file_bytes)
            .is_none_or(|end| file_bytes > 0 && end > self.bytes)
        {
            return refuse(
                HeaderField::FileBytes,
                format!("{file_bytes:#x} bytes from {offset:#x} do not fit in the file, which ends at {:#x}: it was cut short, or the header lies", self.bytes),
            );
        }
        if file_bytes > memory_bytes {
            return refuse(
                HeaderField::FileBytes,
                format!("{file_bytes:#x} bytes in the file for {memory_bytes:#x} in memory"),
            );
        }
        let largest = if segment.wide {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        for (field, address) in [
            (HeaderField::VirtualAddress, virtual_address),
            (HeaderField::PhysicalAddress, physical_address),
        ] {
            // The last byte may be the last of the address space.
            if memory_bytes > 0
                && address
                    .checked_add(memory_bytes - 1)
                    .is_none_or(|last| last > largest)
            {
                return refuse(
                    field,
                    format!("{memory_bytes:#x} bytes from {address:#x} run past the end of the address space"),
                );
            }
        }
        Ok(())
    }
}

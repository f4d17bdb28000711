//! `/proc/PID/smaps`, read as bytes.
//!
//! Parsed here and not by the `procfs` crate because the name of a mapping may
//! be any bytes: one file name that is not UTF-8 must not cost a process. Only
//! the fields that are used are kept, without a table per mapping.

use std::io::{self, BufRead};
use std::sync::Arc;

/// One mapping, sizes in pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub readable: bool,
    /// Its pages are copied when they are written.
    pub private: bool,
    /// Of its file; 0 where it has none.
    pub inode: u64,
    /// Of its file's file system.
    pub device: (u32, u32),
    pub name: Arc<str>,
    pub rss: u64,
    /// Of these, touched since that was last forgotten.
    pub referenced: u64,
    /// Of no file.
    pub anonymous: u64,
    /// In swap.
    pub swap: u64,
    /// Shared by samepage merging.
    pub ksm: u64,
    /// In huge pages.
    pub huge: u64,
    /// Of hugetlbfs.
    pub hugetlb: u64,
    pub flags: VmFlags,
}

/// The `VmFlags` that matter here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VmFlags {
    /// `io` or `pf`: device memory or bare frame numbers.
    pub device: bool,
    /// `ht`: hugetlbfs.
    pub hugetlb: bool,
    /// `lo`: locked in memory.
    pub locked: bool,
}

impl Mapping {
    /// How many pages it spans.
    pub fn pages(&self, page_size: u64) -> u64 {
        (self.end - self.start) / page_size
    }
}

/// So much of a line is kept. A name is as long as its owner likes: folders in folders, of which
/// each line break is told as four bytes.
const LINE_MAX: usize = 4096;
/// No process has so much in longer lines, in bytes, but to hold its readers up.
const PASSED_OVER_MAX: usize = 1 << 20;

/// The mappings of an smaps file one by one: a process may have so many that the text is longer
/// than what it is read for. Lines that are not understood are passed over: newer kernels add
/// fields.
#[derive(Debug)]
pub struct Reader<R> {
    text: R,
    page_size: u64,
    /// The mapping whose fields are being read.
    last: Option<Mapping>,
    line: Vec<u8>,
    passed_over: usize,
}

impl<R: BufRead> Reader<R> {
    pub fn new(text: R, page_size: u64) -> Self {
        Reader {
            text,
            page_size,
            last: None,
            line: Vec::new(),
            passed_over: 0,
        }
    }

    /// Reads a line, of which [`LINE_MAX`] bytes are kept; false at the end.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut is_begun = false;
        loop {
            let buffer = self.text.fill_buf()?;
            if buffer.is_empty() {
                return Ok(is_begun);
            }
            is_begun = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let kept = part.len().min(LINE_MAX - self.line.len());
            self.line.extend_from_slice(&part[..kept]);
            self.passed_over += part.len() - kept;
            let used = part.len() + usize::from(end.is_some());
            self.text.consume(used);
            if self.passed_over > PASSED_OVER_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// The next mapping; none behind the last.
    ///
    /// # Errors
    /// When it cannot be read; [`io::ErrorKind::TimedOut`] where its names have no end.
    pub fn next_mapping(&mut self) -> io::Result<Option<Mapping>> {
        loop {
            if !self.next_line()? {
                return Ok(self.last.take());
            }
            let line = String::from_utf8_lossy(&self.line);
            if let Some(mapping) = parse_head(&line) {
                if let Some(whole) = self.last.replace(mapping) {
                    return Ok(Some(whole));
                }
            } else if let Some(mapping) = &mut self.last {
                parse_field(mapping, &line, self.page_size);
            }
        }
    }
}

/// `55d840ee8000-55d840eea000 r--p 00000000 fe:00 247026      /usr/bin/cat`
fn parse_head(line: &str) -> Option<Mapping> {
    // Fields begin with a capital letter, addresses are lower-case hexadecimal.
    if !line.starts_with(|c: char| c.is_ascii_digit() || ('a'..='f').contains(&c)) {
        return None;
    }
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?.as_bytes();
    let _file_offset = words.next()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or_default().trim_start_matches(' ');
    let mapping = Mapping {
        start: hex(start)?,
        end: hex(end)?,
        readable: permissions.first() == Some(&b'r'),
        private: permissions.get(3) == Some(&b'p'),
        inode,
        device: (
            u32::from_str_radix(major, 16).ok()?,
            u32::from_str_radix(minor, 16).ok()?,
        ),
        name: Arc::from(name),
        ..Mapping::default()
    };
    (mapping.start <= mapping.end).then_some(mapping)
}

fn parse_field(mapping: &mut Mapping, line: &str, page_size: u64) {
    let Some((key, value)) = line.split_once(':') else {
        return;
    };
    if key == "VmFlags" {
        for flag in value.split(' ') {
            match flag {
                "io" | "pf" => mapping.flags.device = true,
                "ht" => mapping.flags.hugetlb = true,
                "lo" => mapping.flags.locked = true,
                _ => {}
            }
        }
        return;
    }
    let field = match key {
        "Rss" => &mut mapping.rss,
        "Referenced" => &mut mapping.referenced,
        "Anonymous" => &mut mapping.anonymous,
        "Swap" => &mut mapping.swap,
        "KSM" => &mut mapping.ksm,
        "AnonHugePages" => &mut mapping.huge,
        "Shared_Hugetlb" | "Private_Hugetlb" => &mut mapping.hugetlb,
        _ => return,
    };
    let mut words = value.split_ascii_whitespace();
    if let Some(kib) = words.next().and_then(|it| it.parse::<u64>().ok()) {
        *field += kib * 1024 / page_size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
55d840ee8000-55d840eea000 r--p 00000000 fe:00 247026                     /usr/bin/with space\xff
Size:                  8 kB
Rss:                   8 kB
Referenced:            4 kB
Anonymous:             4 kB
Swap:                 12 kB
VmFlags: rd mr lo me \n\
7fff00000000-7fff00400000 -w-s 00000000 00:0e 9   anon_inode:[x]
Rss:                  16 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    2048 kB
SomethingNew: yes
VmFlags: rd pf ht
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Size:                  4 kB
";

    fn parse(text: &[u8], page_size: u64) -> Vec<Mapping> {
        // In pieces, as a file is read.
        let mut reader = Reader::new(io::BufReader::with_capacity(7, text), page_size);
        std::iter::from_fn(|| reader.next_mapping().unwrap()).collect()
    }

    #[test]
    fn a_name_is_cut_and_names_without_end_are_not_read() {
        let of = |name: &str, count: usize| {
            let line = format!("1000-3000 r--p 00000000 fe:00 7 {name}\nRss: 8 kB\n");
            line.repeat(count)
        };
        let name = "x".repeat(LINE_MAX);
        let found = parse(of(&name, 2).as_bytes(), 4096);
        assert!(found.len() == 2 && found.iter().all(|it| it.rss == 2));
        assert!(found[0].name.len() < LINE_MAX && name.starts_with(&*found[0].name));
        let endless = of(&name.repeat(64), 8);
        let mut reader = Reader::new(endless.as_bytes(), 4096);
        let err = std::iter::from_fn(|| reader.next_mapping().transpose()).find_map(Result::err);
        assert_eq!(err.unwrap().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn every_used_field_is_read_and_strange_lines_are_passed_over() {
        let mappings = parse(TEXT, 4096);
        assert_eq!(mappings.len(), 3);
        let first = &mappings[0];
        assert_eq!(
            (first.start, first.end),
            (0x55d8_40ee_8000, 0x55d8_40ee_a000)
        );
        assert!(first.readable && first.private && first.flags.locked && !first.flags.device);
        assert_eq!((first.inode, first.device), (247_026, (0xfe, 0)));
        assert_eq!(&*first.name, "/usr/bin/with space\u{fffd}");
        assert_eq!(
            (first.rss, first.referenced, first.anonymous, first.swap),
            (2, 1, 1, 3)
        );
        let second = &mappings[1];
        assert!(!second.readable && !second.private && second.flags.device && second.flags.hugetlb);
        assert_eq!(second.hugetlb, 1024);
        assert_eq!(&*mappings[2].name, "[vsyscall]");
        assert_eq!(mappings[2].pages(4096), 1);
    }
}

//! ELF dumps: whole ones in every form, and lying ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Mutex;

use proptest::prelude::*;
use zmeld_memory::{open_path, Error, FileSource, OpenOptions, Owner, SkipReason, Source};

const PAGE: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Form {
    wide: bool,
    big: bool,
}

/// The fields lie elsewhere in 32 bits, and the other way round with the other endianness.
const FORMS: [Form; 2] = [
    Form {
        wide: true,
        big: false,
    },
    Form {
        wide: false,
        big: true,
    },
];

impl Form {
    fn put(self, out: &mut [u8], at: usize, len: usize, value: u64) {
        let le = value.to_le_bytes();
        for (i, byte) in le[..len].iter().enumerate() {
            out[if self.big { at + len - 1 - i } else { at + i }] = *byte;
        }
    }
    fn pick(self, narrow: usize, wide: usize) -> usize {
        if self.wide {
            wide
        } else {
            narrow
        }
    }
    fn word(self) -> usize {
        self.pick(4, 8)
    }
    /// (offset, length) of a field of the ELF header.
    fn header(self, name: &str) -> (usize, usize) {
        let (narrow, wide, len) = match name {
            "e_type" => (16, 16, 2),
            "e_phoff" => (28, 32, self.word()),
            "e_shoff" => (32, 40, self.word()),
            "e_ehsize" => (40, 52, 2),
            "e_phentsize" => (42, 54, 2),
            "e_phnum" => (44, 56, 2),
            "e_shentsize" => (46, 58, 2),
            _ => panic!("{name}"),
        };
        (self.pick(narrow, wide), len)
    }
    fn header_bytes(self) -> usize {
        self.pick(52, 64)
    }
    fn entry_bytes(self) -> usize {
        self.pick(32, 56)
    }
    fn segment(self, index: usize, name: &str) -> (usize, usize) {
        let (narrow, wide) = match name {
            "p_type" => (0, 0),
            "p_offset" => (4, 8),
            "p_vaddr" => (8, 16),
            "p_paddr" => (12, 24),
            "p_filesz" => (16, 32),
            "p_memsz" => (20, 40),
            "p_align" => (28, 48),
            _ => panic!("{name}"),
        };
        let len = if name == "p_type" { 4 } else { self.word() };
        let at = self.header_bytes() + index * self.entry_bytes();
        (at + self.pick(narrow, wide), len)
    }
}

/// Page `n` of the dump's data.
fn page(n: usize) -> Vec<u8> {
    (0..PAGE).map(|i| (n * 31 + i / 5) as u8).collect()
}

/// A core with a note and two loaded segments: 3 pages of 5, and 2 pages and a half.
fn core(form: Form) -> Vec<u8> {
    let mut out = vec![0; 2 * PAGE];
    out[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    out[4] = 1 + u8::from(form.wide);
    out[5] = 1 + u8::from(form.big);
    for (name, value) in [
        ("e_type", 4),
        ("e_phoff", form.header_bytes() as u64),
        ("e_ehsize", form.header_bytes() as u64),
        ("e_phentsize", form.entry_bytes() as u64),
        ("e_phnum", 3),
    ] {
        let (at, len) = form.header(name);
        form.put(&mut out, at, len, value);
    }
    let p = PAGE as u64;
    let segments = [
        [4, 512, 0, 0, 100, 0, 4],
        [1, 2 * p, 0x10000, 0, 3 * p, 5 * p, p],
        [1, 5 * p, 0x40000, 0, 2 * p + p / 2, 2 * p + p / 2, p],
    ];
    for (index, values) in segments.iter().enumerate() {
        for (name, value) in [
            "p_type", "p_offset", "p_vaddr", "p_paddr", "p_filesz", "p_memsz", "p_align",
        ]
        .iter()
        .zip(values)
        {
            let (at, len) = form.segment(index, name);
            form.put(&mut out, at, len, *value);
        }
    }
    for n in 0..6 {
        out.extend(page(n));
    }
    out.truncate(7 * PAGE + PAGE / 2);
    out
}

fn read_all(source: &dyn Source) -> (BTreeMap<(u32, u64), Vec<u8>>, zmeld_memory::Visit) {
    let pages = Mutex::new(BTreeMap::new());
    let visit = source
        .visit(2, &AtomicBool::new(false), &|batch| {
            for (n, page) in (batch.first_page..).zip(batch.bytes.chunks(PAGE)) {
                assert!(pages
                    .lock()
                    .unwrap()
                    .insert((batch.region.0, n), page.to_vec())
                    .is_none());
            }
        })
        .unwrap();
    (pages.into_inner().unwrap(), visit)
}

fn open(path: &Path, bytes: &[u8]) -> Result<FileSource, Error> {
    fs::write(path, bytes).unwrap();
    FileSource::open_core(path, PAGE)
}

#[test]
fn a_whole_core_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    for form in FORMS {
        fs::write(&path, core(form)).unwrap();
        let source = open_path(
            &path,
            &OpenOptions {
                page_size: PAGE,
                raw: false,
            },
        )
        .unwrap();
        assert_eq!(source.expected_pages(), Some(6), "{form:?}");
        let (pages, visit) = read_all(&*source);
        assert_eq!(pages.len(), 6);
        for n in 0..5 {
            let key = if n < 3 {
                (0, n as u64)
            } else {
                (1, n as u64 - 3)
            };
            assert!(pages[&key] == page(n), "{form:?} page {n}");
        }
        let mut last = page(5);
        last[PAGE / 2..].fill(0);
        assert!(pages[&(1, 2)] == last);
        assert_eq!((visit.counted.padded, visit.counted.delivered), (1, 6));
        assert_eq!(visit.skipped.get(SkipReason::NotInDump).pages, 2);
        assert_eq!(visit.regions[1].start, 0x40000);
        assert_eq!(
            visit.regions[0].owner,
            Owner::Dump {
                path: path.clone(),
                segment: 1
            }
        );
        let raw = open_path(
            &path,
            &OpenOptions {
                page_size: PAGE,
                raw: true,
            },
        )
        .unwrap();
        assert_eq!(raw.expected_pages(), Some(8));
    }
}

#[test]
fn a_header_that_lies_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    let p = PAGE as u64;
    for form in FORMS {
        let largest = u64::MAX >> (64 - 8 * form.word());
        for (name, value) in [("e_type", 2), ("e_phnum", 0)] {
            let mut bytes = core(form);
            let (at, len) = form.header(name);
            form.put(&mut bytes, at, len, value);
            expect(open(&path, &bytes), "", form);
        }
        for (segment, name, value, named) in [
            (1, "p_offset", 1 << 30, "p_filesz"),
            (1, "p_offset", largest, "p_filesz"),
            (2, "p_offset", 4 * p + 7, "p_offset"),
            (1, "p_filesz", 6 * p, "p_filesz"),
            (1, "p_filesz", largest, "p_filesz"),
            (2, "p_filesz", 2 * p + p / 2 + 1, "p_filesz"),
            (1, "p_memsz", p, "p_filesz"),
            (1, "p_memsz", largest, "p_vaddr"),
            (1, "p_vaddr", largest - 10, "p_vaddr"),
            (2, "p_paddr", largest - 10, "p_paddr"),
        ] {
            let mut bytes = core(form);
            let (at, len) = form.segment(segment, name);
            form.put(&mut bytes, at, len, value);
            let named = format!("{named} of segment {segment}: ");
            expect(open(&path, &bytes), &named, form);
        }
        let mut bytes = core(form);
        for segment in 0..3 {
            let (at, len) = form.segment(segment, "p_type");
            form.put(&mut bytes, at, len, 4);
        }
        expect(open(&path, &bytes), "none of its segments", form);
    }
}

fn expect(result: Result<FileSource, Error>, start: &str, form: Form) {
    match result {
        Err(Error::Elf { problem, .. }) => {
            assert!(problem.starts_with(start), "{form:?} {start}: {problem}");
        }
        other => panic!("{form:?} {start}: {other:?}"),
    }
}

#[test]
fn more_segments_than_the_header_can_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    for form in FORMS {
        let mut bytes = core(form);
        for (name, value) in [
            ("e_phnum", 0xffff),
            ("e_shoff", 1024),
            ("e_shentsize", form.pick(40, 64) as u64),
        ] {
            let (at, len) = form.header(name);
            form.put(&mut bytes, at, len, value);
        }
        let info = 1024 + form.pick(28, 44);
        form.put(&mut bytes, info, 4, 3);
        assert_eq!(open(&path, &bytes).unwrap().expected_pages(), Some(6));
        form.put(&mut bytes, info, 4, 1 << 31);
        expect(open(&path, &bytes), "e_phnum: ", form);
    }
}

/// A machine's dump with paging shows the same memory at several addresses.
#[test]
fn memory_shown_twice_is_delivered_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    for form in FORMS {
        let mut bytes = core(form);
        let (at, len) = form.segment(2, "p_offset");
        form.put(&mut bytes, at, len, 4 * PAGE as u64); // its first page is the other's last
        let source = open(&path, &bytes).unwrap();
        let (pages, visit) = read_all(&source);
        assert_eq!(
            pages.keys().copied().collect::<Vec<_>>(),
            [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
        );
        assert!(pages[&(1, 1)] == page(3));
        assert_eq!(visit.counted.shared_again, 1);
    }
}

#[test]
fn cut_at_every_byte_it_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    for form in FORMS {
        let whole = core(form);
        let step = |len: usize| if len < 300 { 1 } else { 97 };
        let mut len = 1;
        while len < whole.len() {
            expect(open(&path, &whole[..len]), "", form);
            len += step(len);
        }
        assert!(matches!(open(&path, &[]), Err(Error::Empty { .. })));
    }
}

#[test]
fn packed_dumps_are_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dump");
    let options = OpenOptions {
        page_size: PAGE,
        raw: false,
    };
    for magic in [
        &b"KDUMP   "[..],
        b"makedumpfile\0\0\0\0",
        b"QEVM",
        b"EMiL",
        b"LibvirtQemudSave",
        b"PAGEDU64",
    ] {
        let mut bytes = magic.to_vec();
        bytes.resize(2 * PAGE, 0);
        fs::write(&path, &bytes).unwrap();
        let Err(error) = open_path(&path, &options) else {
            panic!("{magic:?} was taken")
        };
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
        assert!(open_path(
            &path,
            &OpenOptions {
                raw: true,
                ..options
            }
        )
        .is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the headers say: no panic, and never a byte from outside the file.
    #[test]
    fn random_damage_never_panics(
        form in 0..2usize,
        damage in prop::collection::vec((0..260usize, any::<u8>()), 1..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = core(FORMS[form]);
        for (at, value) in damage {
            bytes[at] = value;
        }
        if let Ok(source) = open(&dir.path().join("core"), &bytes) {
            let (pages, visit) = read_all(&source);
            prop_assert_eq!(pages.len() as u64, visit.counted.delivered);
            prop_assert_eq!(source.expected_pages(), Some(visit.counted.delivered));
        }
    }
}

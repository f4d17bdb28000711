//! ELF dumps: whole ones in every form, and lying ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Mutex;

use proptest::prelude::*;
use zmeld_scan::memory::{open_path, Error, Owner, SkipReason, Source, StreamSource};

const PAGE: usize = 4096;

const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 56;

/// Offset and length of a field of the ELF header.
fn header(name: &str) -> (usize, usize) {
    match name {
        "e_type" => (16, 2),
        "e_phoff" => (32, 8),
        "e_shoff" => (40, 8),
        "e_ehsize" => (52, 2),
        "e_phentsize" => (54, 2),
        "e_phnum" => (56, 2),
        "e_shentsize" => (58, 2),
        _ => panic!("{name}"),
    }
}

/// The fields of a program header that are used here, with their offsets.
const ENTRY: [(&str, usize); 4] = [
    ("p_type", 0),
    ("p_offset", 8),
    ("p_filesz", 32),
    ("p_memsz", 40),
];

fn put(out: &mut [u8], (at, len): (usize, usize), value: u64) {
    out[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

fn segment(index: usize, name: &str) -> (usize, usize) {
    let (_, at) = ENTRY.iter().find(|it| it.0 == name).unwrap();
    let len = if name == "p_type" { 4 } else { 8 };
    (HEADER_BYTES + index * ENTRY_BYTES + at, len)
}

fn page(n: usize) -> Vec<u8> {
    (0..PAGE).map(|i| (n * 31 + i / 5) as u8).collect()
}

/// A core with a note and two loaded segments: 3 pages of 5, and 2 pages and a half.
fn core() -> Vec<u8> {
    let mut out = vec![0; 2 * PAGE];
    out[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (name, value) in [
        ("e_type", 4),
        ("e_phoff", HEADER_BYTES as u64),
        ("e_ehsize", HEADER_BYTES as u64),
        ("e_phentsize", ENTRY_BYTES as u64),
        ("e_phnum", 3),
    ] {
        put(&mut out, header(name), value);
    }
    let p = PAGE as u64;
    let segments = [
        [4, 512, 100, 0],
        [1, 2 * p, 3 * p, 5 * p],
        [1, 5 * p, 2 * p + p / 2, 2 * p + p / 2],
    ];
    for (index, values) in segments.iter().enumerate() {
        for ((name, _), value) in ENTRY.iter().zip(values) {
            put(&mut out, segment(index, name), *value);
        }
    }
    out.extend((0..6).flat_map(page));
    out.truncate(7 * PAGE + PAGE / 2);
    out
}

fn read_all(source: &dyn Source) -> (BTreeMap<(u32, u64), Vec<u8>>, zmeld_scan::memory::Visit) {
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

fn open(path: &Path, bytes: &[u8]) -> Result<Box<dyn Source>, Error> {
    fs::write(path, bytes).unwrap();
    open_path(path, PAGE, false)
}

#[test]
fn a_whole_core() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    fs::write(&path, core()).unwrap();
    let source = open_path(&path, PAGE, false).unwrap();
    assert_eq!(source.expected_pages(), Some(6));
    let (pages, visit) = read_all(&*source);
    let mut last = page(5);
    last[PAGE / 2..].fill(0);
    let wanted = (0..5).map(page).chain([last]);
    let places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
    assert!(pages == places.into_iter().zip(wanted).collect());
    assert_eq!((visit.counted.padded, visit.counted.delivered), (1, 6));
    assert_eq!(visit.skipped.get(SkipReason::NotInDump).pages, 2);
    let owner = Owner::Dump {
        path: path.clone(),
        segment: 1,
    };
    assert_eq!(visit.regions[0].owner, owner);
    let raw = open_path(&path, PAGE, true).unwrap();
    assert_eq!(raw.expected_pages(), Some(8));
}

#[test]
fn a_header_that_lies_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    let p = PAGE as u64;
    let expect = |fields: &[((usize, usize), u64)], start: &str| {
        let mut bytes = core();
        for (field, value) in fields {
            put(&mut bytes, *field, *value);
        }
        match open(&path, &bytes) {
            Err(Error::Dump { problem, .. }) => {
                assert!(problem.starts_with(start), "{start}: {problem}");
            }
            Err(error) => panic!("{start}: {error}"),
            Ok(_) => panic!("{start}: was taken"),
        }
    };
    expect(&[(header("e_phnum"), 0)], "");
    for (at, name, value, named) in [
        (1, "p_offset", 1 << 30, "p_filesz"),
        (1, "p_offset", u64::MAX, "p_filesz"),
        (2, "p_offset", 4 * p + 7, "p_offset"),
        (1, "p_filesz", 6 * p, "p_filesz"),
        (2, "p_filesz", 2 * p + p / 2 + 1, "p_filesz"),
        (1, "p_memsz", p, "p_filesz"),
    ] {
        let named = format!("{named} of segment {at}: ");
        expect(&[(segment(at, name), value)], &named);
    }
    expect(
        &[0, 1, 2].map(|at| (segment(at, "p_type"), 4)),
        "none of its segments",
    );
    // More segments than the header can count.
    let mut many = vec![
        (header("e_phnum"), 0xffff),
        (header("e_shoff"), 1024),
        (header("e_shentsize"), 64),
        ((1024 + 44, 4), 1 << 31),
    ];
    expect(&many, "e_phnum: ");
    many[3].1 = 3;
    let mut bytes = core();
    many.into_iter()
        .for_each(|(field, value)| put(&mut bytes, field, value));
    assert_eq!(open(&path, &bytes).unwrap().expected_pages(), Some(6));
}

/// A machine's dump with paging shows the same memory at several addresses.
#[test]
fn memory_shown_twice_is_delivered_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = core();
    // Its first page is the other's last.
    put(&mut bytes, segment(2, "p_offset"), 4 * PAGE as u64);
    let source = open(&dir.path().join("core"), &bytes).unwrap();
    let (pages, visit) = read_all(&*source);
    assert_eq!(
        pages.keys().copied().collect::<Vec<_>>(),
        [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    );
    assert!(pages[&(1, 1)] == page(3));
    assert_eq!(visit.counted.shared_again, 1);
}

#[test]
fn packed_dumps_are_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dump");
    let flat = b"makedumpfile\0\0\0\0";
    for (parts, said) in [
        (&[(0, &b"KDUMP   "[..])][..], "makedumpfile -E"),
        (&[(0, b"LibvirtQemudSave")], "virsh dump --memory-only"),
        (
            &[(0, flat), (4112, b"\x7fELF")],
            "makedumpfile -R plain.vmcore < /",
        ),
        (&[(0, flat), (4112, b"KDUMP   ")], "makedumpfile -E"),
        (
            &[(0, b"\x50\x2a\x4d\x18\x04\0\0\0abcd\x28\xb5\x2f\xfd")],
            "zstd -dc /",
        ),
        (&[(0, b"\x1f\x9d\x90")], "gzip -dc /"),
        (&[(0, b"\xff\x06\0\0sNaPpY")], "snzip -dc /"),
        (&[(0, b"Rar!\x1a\x07\x01")], "unrar p -inul /"),
        (&[(0, b"hsqs")], "unsquashfs -d unpacked /"),
        (&[(0, b"LUKS\xba\xbe\0\x02")], "cryptsetup open /"),
        (
            &[(4086, b"S1SUSPEND")],
            "resume the machine from it; zmeld scan",
        ),
        (&[(0, b"HIBR")], "take it again"),
        (&[(0, b"MDMP\x93\xa7")], "take it again"),
    ] {
        let mut bytes = vec![0; 2 * PAGE];
        for (at, magic) in parts {
            bytes[*at..][..magic.len()].copy_from_slice(magic);
        }
        fs::write(&path, &bytes).unwrap();
        let Err(error) = open_path(&path, PAGE, false) else {
            panic!("{parts:?} was taken")
        };
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
        assert!(error.to_string().contains(said), "{error}");
        assert!(open_path(&path, PAGE, true).is_ok());
    }
}

/// Missing bytes at a dump's end are not read as zeros.
#[test]
fn a_stream_that_ends_within_a_dump_is_refused() {
    let whole = core().len();
    for (length, delivered) in [
        (whole, Some(6)),
        (whole - 1, None),
        (whole - 3 * PAGE, None),
    ] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, &core()[..length]).unwrap();
        drop(writer);
        let file = fs::File::from(std::os::fd::OwnedFd::from(reader));
        let source = StreamSource::of_file(Path::new("pipe"), file, PAGE, false);
        let visit = source.visit(1, &AtomicBool::new(false), &|_| {});
        match delivered {
            Some(_) => assert_eq!(visit.ok().map(|it| it.counted.delivered), delivered),
            None => {
                let said = visit.unwrap_err().to_string();
                let end = format!("and the stream at {length:#x}");
                assert!(said.contains(&end), "{said}");
            }
        }
    }
}

#[test]
fn an_archive_is_read_as_it_is_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for (at, magic) in [(257, &b"ustar\0"[..]), (0, b"070701")] {
        let path = dir.path().join("archive");
        let mut bytes = vec![0; 2 * PAGE];
        bytes[at..][..magic.len()].copy_from_slice(magic);
        fs::write(&path, &bytes).unwrap();
        for raw in [false, true] {
            let (pages, visit) = read_all(&*open_path(&path, PAGE, raw).unwrap());
            assert_eq!((pages.len(), visit.notes.is_empty()), (2, raw));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the headers say, and wherever it is cut: no panic, and never a byte from
    /// outside the file.
    #[test]
    fn random_damage_never_panics(
        damage in prop::collection::vec((0..260usize, any::<u8>()), 0..6),
        length in HEADER_BYTES..core().len(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = core();
        let is_whole = damage.is_empty();
        for (at, value) in damage {
            bytes[at] = value;
        }
        bytes.truncate(length);
        if let Ok(source) = open(&dir.path().join("core"), &bytes) {
            prop_assert!(!is_whole, "it is cut");
            let (pages, visit) = read_all(&*source);
            prop_assert_eq!(pages.len() as u64, visit.counted.delivered);
            prop_assert_eq!(source.expected_pages(), Some(visit.counted.delivered));
        }
    }
}

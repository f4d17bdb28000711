//! Files, dumps and streams of every length around a page and a buffer: each byte once and in its
//! place, behind the last one zeros; and what is said of dumps that lie.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Mutex;

use proptest::prelude::*;
use zmeld_scan::memory::{open_path, FileSource, Owner, RegionKind, Source, StreamSource, Visit};
use zmeld_tests::values::show;

const PAGE: usize = 4096;
/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// No page of it is one of zeros, or like another.
fn bytes(length: usize) -> Vec<u8> {
    let byte = |at: usize| ((at / 13) ^ (at >> 8) ^ (at >> 16)) as u8 | 1;
    (0..length).map(byte).collect()
}

/// Where a number stands, the number, and its bytes.
type Field = (usize, u64, usize);

fn put(out: &mut [u8], at: usize, value: u64, len: usize) {
    out[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

/// An ELF core of 64 bits with these parts of its contents as segments, each with so many bytes in
/// memory beyond those of the file.
fn elf(contents: &[u8], segments: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut out = vec![0; PAGE];
    out[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let fields = [(16, 4, 2), (32, 64, 8), (52, 64, 2), (54, 56, 2)];
    for (at, value, len) in fields {
        put(&mut out, at, value, len);
    }
    put(&mut out, 56, segments.len() as u64, 2);
    for (number, &(offset, length, more)) in segments.iter().enumerate() {
        let at = 64 + number * 56;
        put(&mut out, at, 1, 4);
        put(&mut out, at + 8, PAGE as u64 + offset, 8);
        put(&mut out, at + 32, length, 8);
        put(&mut out, at + 40, length + more, 8);
    }
    [out, contents.to_vec()].concat()
}

fn lime_header(version: u32, first: u64, last: u64) -> Vec<u8> {
    let mut out = b"EMiL".to_vec();
    out.extend(version.to_le_bytes());
    out.extend(first.to_le_bytes());
    out.extend(last.to_le_bytes());
    out.extend([0; 8]);
    out
}

fn lime(ranges: &[&[u8]]) -> Vec<u8> {
    let range = |bytes: &&[u8]| {
        let header = lime_header(1, 0x1000, 0x1000 + bytes.len() as u64 - 1);
        [header, bytes.to_vec()].concat()
    };
    ranges.iter().flat_map(range).collect()
}

/// A stream of these bytes, in pieces of a prime size.
fn stream(bytes: &[u8], page_size: usize, raw: bool) -> StreamSource {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let bytes = bytes.to_vec();
    std::thread::spawn(move || {
        let mut pieces = bytes.chunks(50_021);
        let _ = pieces.try_for_each(|piece| writer.write_all(piece));
    });
    let file = File::from(OwnedFd::from(reader));
    StreamSource::of_file(Path::new("pipe"), file, page_size, raw)
}

type Pages = BTreeMap<(u32, u64), Vec<u8>>;

fn read(source: &dyn Source) -> (Pages, Visit) {
    let (page_size, pages) = (source.page_size(), Mutex::new(Pages::new()));
    let visit = source.visit(2, &AtomicBool::new(false), &|batch| {
        assert!(batch.maybe_shared.is_none() && !batch.bytes.is_empty());
        for (n, page) in (batch.first_page..).zip(batch.bytes.chunks(page_size)) {
            let mut pages = pages.lock().unwrap();
            let twice = pages.insert((batch.region.0, n), page.to_vec());
            assert!(twice.is_none() && page.len() == page_size);
        }
    });
    (pages.into_inner().unwrap(), visit.unwrap())
}

/// The pages that these parts are, each a region; and how many are not whole.
fn expected(parts: &[&[u8]], page_size: usize) -> (Pages, u64) {
    let (mut pages, mut padded) = (Pages::new(), 0);
    for (region, part) in (0..).zip(parts) {
        for (number, page) in (0..).zip(part.chunks(page_size)) {
            let mut page = page.to_vec();
            padded += u64::from(page.len() < page_size);
            page.resize(page_size, 0);
            pages.insert((region, number), page);
        }
    }
    (pages, padded)
}

fn check(what: &str, source: &dyn Source, parts: &[&[u8]], kind: RegionKind) {
    let (pages, padded) = expected(parts, source.page_size());
    if let Some(expected) = source.expected_pages() {
        assert_eq!(expected, pages.len() as u64, "{what}");
    }
    let (found, visit) = read(source);
    assert!(found == pages, "{what}: {} pages", found.len());
    let counted = &visit.counted;
    assert_eq!(
        (counted.delivered, counted.padded),
        (pages.len() as u64, padded),
        "{what}"
    );
    assert_eq!(
        (counted.shared_again, counted.never_written),
        (0, 0),
        "{what}"
    );
    assert_eq!(
        (visit.skipped.iter().count(), visit.interrupted),
        (0, false),
        "{what}"
    );
    let all = visit
        .regions
        .iter()
        .all(|it| it.kind == kind && it.start == 0);
    assert!(
        all && visit.regions.len() == parts.len(),
        "{what}: {:?}",
        visit.regions
    );
}

#[test]
fn each_byte_of_every_form_and_length_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for page_size in [4096, 16_384] {
        let around = [
            page_size,
            2 * page_size,
            BUFFER,
            BUFFER + page_size,
            2 * BUFFER,
        ];
        let lengths = around.iter().flat_map(|at| [at - 1, *at, at + 1]);
        for length in [1, 4120].into_iter().chain(lengths) {
            let first = bytes(length);
            let second = bytes(page_size + 5);
            // A gap between them, and none behind the second; the third is empty.
            let both = [&first[..], &[9; 100], &second].concat();
            let (one, two) = (length as u64, second.len() as u64);
            let elf = elf(&both, &[(0, one, 0), (one + 100, two, 0), (7, 0, 0)]);
            let lime = lime(&[&first, &second]);
            for (form, bytes, parts) in [
                ("plain", &first, &[&first[..]][..]),
                ("ELF", &elf, &[&first[..], &second[..]][..]),
                ("LiME", &lime, &[&first[..], &second[..]][..]),
            ] {
                let what = format!("{form}, {length} bytes in pages of {page_size}");
                fs::write(&path, bytes).unwrap();
                let is_plain = form == "plain";
                let file = open_path(&path, page_size, false).unwrap();
                let said = file.describe();
                assert_eq!(said.starts_with("the memory dump /"), !is_plain, "{said}");
                let kind = if is_plain {
                    RegionKind::File
                } else {
                    RegionKind::Dump
                };
                check(&what, &*file, parts, kind);
                let raw = open_path(&path, page_size, true).unwrap();
                check(&what, &*raw, &[bytes], RegionKind::File);
                let kind = if is_plain {
                    RegionKind::Stdin
                } else {
                    RegionKind::Dump
                };
                check(&what, &stream(bytes, page_size, false), parts, kind);
            }
            check(
                "raw",
                &stream(&elf, page_size, true),
                &[&elf],
                RegionKind::Stdin,
            );
        }
    }
}

/// Three segments show parts of the same ten pages and a bit; the first is left out of the dump
/// in part.
#[test]
fn what_segments_share_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let p = PAGE as u64;
    let contents = bytes(10 * PAGE + 9);
    for (segments, wanted, again) in [
        // Owner's segment, its first page, and how many of the contents from where on.
        (
            vec![(0, 4 * p, 0), (4 * p, 6 * p, 0)],
            vec![(0, 0, 0, 4), (1, 0, 4, 6)],
            0,
        ),
        (
            vec![(0, 4 * p, 3 * p), (2 * p, 4 * p, 1)],
            vec![(0, 0, 0, 4), (1, 2, 4, 2)],
            2,
        ),
        (
            vec![(p, 2 * p, 0), (0, 10 * p + 9, 0)],
            vec![(1, 0, 0, 11)],
            2,
        ),
        (
            vec![(0, 3 * p, 0), (0, 5 * p, 0), (0, 5 * p, 0)],
            vec![(1, 0, 0, 5)],
            8,
        ),
        (
            vec![(9 * p, p + 9, 0), (10 * p, 9, 0)],
            vec![(0, 0, 9, 2)],
            1,
        ),
    ] {
        let core = elf(&contents, &segments);
        fs::write(&path, &core).unwrap();
        let file = open_path(&path, PAGE, false).unwrap();
        let sources: [Box<dyn Source>; 2] = [file, Box::new(stream(&core, PAGE, false))];
        for source in sources {
            let (found, visit) = read(&*source);
            let mut pages = Pages::new();
            for (region, (segment, first, from, count)) in (0..).zip(&wanted) {
                let Owner::Dump { segment: of, .. } = visit.regions[region as usize].owner else {
                    panic!("{:?}", visit.regions)
                };
                assert_eq!(of, *segment, "{segments:?}");
                for number in 0..*count {
                    let bytes = contents.iter().skip((from + number) * PAGE);
                    let mut page: Vec<u8> = bytes.take(PAGE).copied().collect();
                    page.resize(PAGE, 0);
                    pages.insert((region, (first + number) as u64), page);
                }
            }
            assert!(found == pages, "{segments:?}: {:?}", found.keys());
            assert_eq!(visit.counted.shared_again, again, "{segments:?}");
            let skipped: Vec<_> = visit.skipped.iter().collect();
            let left_out = skipped
                .iter()
                .map(|(reason, it)| (it.regions, it.pages, *reason));
            let left_out: Vec<_> = left_out.map(|it| format!("{it:?}")).collect();
            let beyond = segments.iter().any(|it| it.2 > p);
            // Of one byte more than whole pages one page is missing.
            let told = ["(2, 4, NotInDump)".to_owned()];
            assert_eq!(left_out, told[..usize::from(beyond)], "{segments:?}");
        }
    }
}

/// A core of 32 bits and one of the other byte order.
#[test]
fn cores_of_other_machines_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let contents = bytes(PAGE + 7);
    let mut small = vec![0; PAGE];
    small[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    // The header, and the one entry of the table of segments.
    for (at, value, len) in [
        (16, 4, 2),
        (28, 52, 4),
        (40, 52, 2),
        (42, 32, 2),
        (44, 1, 2),
        (52, 1, 4),
        (56, PAGE as u64, 4),
        (68, contents.len() as u64, 4),
        (72, contents.len() as u64, 4),
    ] {
        put(&mut small, at, value, len);
    }
    let mut swapped = elf(&[], &[(0, contents.len() as u64, 0)]);
    swapped[5] = 2;
    let fields = [
        (16, 2),
        (32, 8),
        (52, 2),
        (54, 2),
        (56, 2),
        (64, 4),
        (72, 8),
        (96, 8),
        (104, 8),
    ];
    for (at, len) in fields {
        swapped[at..at + len].reverse();
    }
    for head in [small, swapped] {
        let core = [&head[..], &contents].concat();
        fs::write(&path, &core).unwrap();
        let file = open_path(&path, PAGE, false).unwrap();
        check("a file", &*file, &[&contents], RegionKind::Dump);
        check(
            "a stream",
            &stream(&core, PAGE, false),
            &[&contents],
            RegionKind::Dump,
        );
    }
}

/// Each line: what is wrong, and what is said of it in a file and in a stream.
#[test]
fn what_is_said_of_dumps_that_lie() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    let mut told = String::new();
    let mut tell = |what: &str, dump: &[u8]| {
        fs::write(&path, dump).unwrap();
        let file = open_path(&path, PAGE, false).and_then(|it| delivered(&*it));
        let stream = delivered(&stream(dump, PAGE, false));
        for (source, said) in [("file", file), ("stream", stream)] {
            let said = match said {
                Ok(pages) => format!("{pages} pages"),
                Err(err) => err.to_string().replace(path.to_str().unwrap(), "DUMP"),
            };
            writeln!(told, "{what}, {source}: {said}").unwrap();
        }
    };
    let p = PAGE as u64;
    let good = elf(&bytes(4 * PAGE), &[(0, 2 * p, 0), (2 * p, 2 * p, 0)]);
    let (first, second) = (64, 64 + 56);
    let wrong: &[(&str, &[Field])] = &[
        ("nothing", &[]),
        ("no segment", &[(56, 0, 2)]),
        ("no memory", &[(first, 4, 4), (second, 4, 4)]),
        ("a program", &[(16, 2, 2)]),
        ("entries of another size", &[(54, 57, 2)]),
        ("a table that is not there", &[(32, 1 << 40, 8)]),
        ("a table that is far", &[(32, (256 << 20) - 111, 8)]),
        (
            "a table that is just too far",
            &[(32, (256 << 20) - 112, 8)],
        ),
        (
            "bytes beyond the file",
            &[(first + 8, 5 * p - 2 * p + 1, 8)],
        ),
        ("bytes up to its end", &[(first + 8, 3 * p, 8)]),
        ("bytes beyond all", &[(first + 8, u64::MAX, 8)]),
        (
            "no bytes beyond the file",
            &[(first + 8, 1 << 40, 8), (first + 32, 0, 8)],
        ),
        (
            "more bytes in the file than in memory",
            &[(second + 40, 2 * p - 1, 8)],
        ),
        (
            "an overlap by no whole pages",
            &[(second + 8, 2 * p + 7, 8)],
        ),
        (
            "an overlap of a page that begins anywhere",
            &[(first + 8, p + 7, 8), (second + 8, 2 * p + 7, 8)],
        ),
        (
            "an overlap of all",
            &[(second + 8, p + 7, 8), (second + 32, p, 8)],
        ),
        (
            "too many segments",
            &[
                (56, 0xffff, 2),
                (40, 1024, 8),
                (58, 64, 2),
                (1024 + 44, (1 << 22) + 1, 4),
            ],
        ),
        (
            "as many as may be",
            &[
                (56, 0xffff, 2),
                (40, 1024, 8),
                (58, 64, 2),
                (1024 + 44, 1 << 22, 4),
            ],
        ),
        (
            "two that are counted elsewhere",
            &[
                (56, 0xffff, 2),
                (40, 1024, 8),
                (58, 64, 2),
                (1024 + 44, 2, 4),
            ],
        ),
    ];
    for (what, fields) in wrong {
        let mut core = good.clone();
        for &(at, value, len) in *fields {
            put(&mut core, at, value, len);
        }
        tell(what, &core);
    }
    for cut in [good.len() - 1, 5 * PAGE - 1, PAGE, 119, 63, 18] {
        tell(&format!("cut at {cut}"), &good[..cut]);
    }
    let range = bytes(PAGE + 3);
    let good = lime(&[&range, &range]);
    let at = 32 + range.len();
    tell("two ranges", &good);
    for cut in [
        good.len() - 1,
        at + 32,
        at + 31,
        at + 1,
        at,
        at - 1,
        32,
        31,
        5,
    ] {
        tell(&format!("a range cut at {cut}"), &good[..cut]);
    }
    for (what, header) in [
        ("another version", lime_header(2, 0, 4095)),
        ("no address", lime_header(1, 5, 4)),
        ("one address", lime_header(1, 5, 5)),
        ("all addresses", lime_header(1, 0, u64::MAX)),
        ("nearly all addresses", lime_header(1, 1, u64::MAX)),
        ("another form", vec![b'x'; 32]),
    ] {
        let dump = [lime(&[&range]), header, vec![1]].concat();
        tell(what, &dump);
    }
    tell("empty", &[]);
    show("dumps.txt", &told);
}

fn delivered(source: &dyn Source) -> Result<u64, zmeld_scan::memory::Error> {
    let visit = source.visit(1, &AtomicBool::new(false), &|_| ())?;
    Ok(visit.counted.delivered)
}

/// So much is said of what is packed, and what is read as it is has a note.
#[test]
fn what_is_said_of_other_forms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    let flat = b"makedumpfile\0\0\0\0";
    let mut told = String::new();
    for parts in [
        &[(0, &b"KDUMP   "[..])][..],
        &[(0, b"LibvirtQemudSave")],
        &[(0, flat), (4112, b"\x7fELF")],
        &[(0, flat), (4112, b"KDUMP   ")],
        // A frame that is passed over, and what is packed behind it.
        &[(0, b"\x50\x2a\x4d\x18\x04\0\0\0abcd\x28\xb5\x2f\xfd")],
        &[(0, b"\x1f\x9d\x90")],
        &[(0, b"\xff\x06\0\0sNaPpY")],
        &[(0, b"Rar!\x1a\x07\x01")],
        &[(0, b"hsqs")],
        &[(0, b"LUKS\xba\xbe\0\x02")],
        &[(4086, b"S1SUSPEND")],
        &[(0, b"HIBR")],
        &[(0, b"MDMP\x93\xa7")],
        &[(257, b"ustar\0")],
        &[(0, b"070701")],
    ] {
        let mut bytes = vec![0; 2 * PAGE];
        for (at, magic) in parts {
            bytes[*at..][..magic.len()].copy_from_slice(magic);
        }
        fs::write(&path, &bytes).unwrap();
        for raw in [false, true] {
            let file = open_path(&path, PAGE, raw);
            let stream: Result<Box<dyn Source>, _> = Ok(Box::new(stream(&bytes, PAGE, raw)));
            for source in [file, stream] {
                let visit = source.and_then(|it| it.visit(1, &AtomicBool::new(false), &|_| ()));
                let said = match visit {
                    Ok(visit) => format!("{} pages, {:?}", visit.counted.delivered, visit.notes),
                    Err(err) => err.to_string().replace(path.to_str().unwrap(), "DUMP"),
                };
                writeln!(told, "{said}").unwrap();
            }
        }
    }
    show("forms.txt", &told);
}

#[test]
fn what_holds_no_pages_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(path("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    fs::write(path("empty"), "").unwrap();
    let told = [
        (
            "socket",
            "a socket: give a file, a block device, a dump or a pipe",
        ),
        ("pipe", "a pipe, which can only be read as a stream: give"),
        ("empty", "empty: there is no page to read"),
        (
            ".",
            "a directory: give a file, a block device, a dump or a pipe",
        ),
        ("/dev/null", "a character device: give"),
        (
            "/proc/self/pagemap",
            "without a size (--pid reads the memory of a process): give",
        ),
    ];
    for (name, words) in told {
        let said = FileSource::open(path(name), PAGE).unwrap_err().to_string();
        let said = said.replace(folder.path().to_str().unwrap(), "");
        assert!(said.contains(&format!("{name} is {words}")), "{said}");
    }
    let said = FileSource::open(path("none"), PAGE)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("cannot open") && said.contains("/none"),
        "{said}"
    );
    drop(socket);
}

/// The other half of the next test, with a standard input of its own.
#[test]
fn standard_input_inner() {
    if std::env::var_os("ZMELD_TEST_INPUT").is_some() {
        let source = open_path(Path::new("-"), PAGE, false).unwrap();
        let (name, expected) = (source.describe(), source.expected_pages());
        println!("{name}, {expected:?} expected, {:?}", delivered(&*source));
    }
}

#[test]
fn standard_input_is_a_file_where_nobody_has_begun_to_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    fs::write(&path, bytes(3 * PAGE)).unwrap();
    let read = |input: std::process::Stdio| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "standard_input_inner", "--nocapture"]);
        command.env("ZMELD_TEST_INPUT", "").stdin(input);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text
            .lines()
            .find(|it| it.contains("standard input"))
            .unwrap();
        line[line.find("standard input").unwrap()..].to_owned()
    };
    let file = File::open(&path).unwrap();
    let told = "standard input, Some(3) expected, Ok(3)";
    assert_eq!(read(file.into()), told);
    let mut begun = File::open(&path).unwrap();
    std::io::Seek::seek(&mut begun, std::io::SeekFrom::Start(PAGE as u64)).unwrap();
    let told = "standard input, None expected, Ok(2)";
    assert_eq!(read(begun.into()), told);
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&bytes(PAGE + 1)).unwrap();
    drop(writer);
    assert_eq!(read(reader.into()), told);
    fs::write(&path, "").unwrap();
    let said = read(File::open(&path).unwrap().into());
    assert!(
        said.starts_with("standard input, None expected, Err(Empty"),
        "{said}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the headers say, and wherever it is cut: no panic, and never a byte from
    /// outside the file.
    #[test]
    fn random_damage_never_panics(
        damage in prop::collection::vec((0..260usize, any::<u8>()), 0..6),
        length in 64..4 * PAGE + 5,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("core");
        let p = PAGE as u64;
        let mut core = elf(&bytes(3 * PAGE + 5), &[(0, p, 2 * p), (p, 2 * p + 5, 0)]);
        let is_whole = damage.is_empty();
        for (at, value) in damage {
            core[at] = value;
        }
        core.truncate(length);
        fs::write(&path, &core).unwrap();
        if let Ok(source) = open_path(&path, PAGE, false) {
            prop_assert!(!is_whole, "it is cut");
            let (pages, visit) = read(&*source);
            prop_assert_eq!(pages.len() as u64, visit.counted.delivered);
            prop_assert_eq!(source.expected_pages(), Some(visit.counted.delivered));
        }
    }
}

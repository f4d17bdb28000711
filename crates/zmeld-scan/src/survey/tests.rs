//! A survey of pages that are always the same, told whole: its file, its JSON, and its text.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use zmeld_linux::{Host, KernelVersion};
use zmeld_tests::script::difference;
use zmeld_tests::values::{lines, show, values};

use super::collect::{Collector, PageCounts, SharedPages};
use super::description::MachineDescription;
use super::objects::{Objects, CODECS};
use super::owners::{Owner, OwnerKind, Pod};
use super::report::{document, owner_table, SurveyResult};
use super::run::{labels, melded, OwnerResult};
use super::sketch::{Hash, Sketch, SketchRow};
use super::{parquet, reservoir, Key, Place, Survey};
use crate::kernel::PoolModel;
use crate::memory::{Counted, Note};

const PAGE: usize = 4096;

/// Text, of which less compresses the higher its number is.
fn page(number: u64) -> Vec<u8> {
    let mut chance = fastrand::Rng::with_seed(number);
    let line = |at: u64| format!("{number} {}\n", at * at % 977).into_bytes();
    let mut page: Vec<u8> = (0..).flat_map(line).take(PAGE).collect();
    let noise = (number / 100 % 8 * 500) as usize;
    page[..noise].fill_with(|| chance.u8(..));
    page
}

/// An owner of these pages, all of which may be seen before where `known` is given.
fn owner(
    owner: Owner,
    pages: impl Iterator<Item = Vec<u8>>,
    mut known: Option<&mut SharedPages>,
) -> OwnerResult {
    let version = KernelVersion::new(6, 1);
    let mut objects = Objects::new(PoolModel::of_kernel(version, None, PAGE as u32)).unwrap();
    let key = Key::new([7; 32]);
    let mut collector = Collector::new(200, PAGE, 9);
    for page in pages {
        let known = known.as_deref_mut();
        collector.add(&page, &key, known, &mut objects).unwrap();
    }
    let found = collector.finish(&mut objects).unwrap();
    let drawn = |codec: usize| found.drawn.iter().map(move |bytes| bytes[codec]);
    let rest = found.pages.rest();
    OwnerResult {
        owner,
        counted: Counted::default(),
        pages: found.pages,
        distinct: found.sketch.distinct(),
        pool: std::array::from_fn(|it| reservoir::sum(rest, PAGE as f64, drawn(it))),
        melded: melded(&found.sketch),
        idle: None,
        sketch: found.sketch,
    }
}

fn named(kind: OwnerKind, id: &str, name: &str) -> Owner {
    Owner {
        id: id.to_owned(),
        kind,
        name: name.to_owned(),
        pod: None,
    }
}

fn machine() -> (tempfile::TempDir, Host) {
    let stall = |kind, x| format!("{kind} avg10=0.00 avg60=0.00 avg300={x} total=9\n");
    let stalls = stall("some", "1.25") + &stall("full", "0.50");
    Host::planted(&[
        ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("/etc/os-release", "PRETTY_NAME=\"A system 1\"\n"),
        ("/proc/sys/kernel/hostname", "web7\n"),
        ("/proc/sys/kernel/osrelease", "6.1.0-test\n"),
        ("/proc/modules", ""),
        (
            "/proc/meminfo",
            "MemTotal: 2048 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n",
        ),
        ("/proc/pressure/memory", &stalls),
        ("/proc/uptime", "12.50 3.00\n"),
        (
            "/proc/swaps",
            "Filename Type Size Used Priority\n/dev/zram0 partition 100 60 100\n",
        ),
        ("/sys/block/zram0/comp_algorithm", "lzo [lz4] zstd\n"),
        ("/sys/kernel/mm/ksm/pages_shared", "5\n"),
        ("/sys/kernel/mm/ksm/pages_sharing", "6\n"),
    ])
}

/// Of fourteen owners, one of which could not be read.
fn known() -> Survey {
    let (_folder, host) = machine();
    let mut known = SharedPages::default();
    let text = (0..1500).chain(0..200).map(|at| page(at % 150));
    let filled = [0, 0, 0, 5, 6].map(|byte| vec![byte; PAGE]);
    let web = named(
        OwnerKind::Service,
        "/system.slice/web.service",
        "web.service",
    );
    let mut web = owner(web, (1000..2300).map(page).chain(text).chain(filled), None);
    web.idle = Some([30, 20, 10]);
    let counted = &mut web.counted;
    counted.processes = 3;
    counted.anon_present = 3001;
    counted.shmem_present = 4;
    counted.file_present = 5;
    counted.anon_swapped = 6;
    counted.shmem_swapped = 70;
    counted.ksm = 8;
    counted.huge = 9;
    counted.locked = 10;
    let container = Owner {
        pod: Some(Pod {
            namespace: "shop".to_owned(),
            pod: "web-1".to_owned(),
            image: Some("image:3".to_owned()),
        }),
        ..named(OwnerKind::Container, "container:0123", "shop/web-1 image:3")
    };
    let pages = (1000..1180).chain(0..10).chain(0..10).map(page);
    let container = owner(container, pages, Some(&mut known));
    let machine = named(OwnerKind::Vm, "vm:db", "db");
    let mut machine = owner(machine, [].into_iter(), None);
    machine.pages.skipped = 50;
    let mut owners = vec![web, container, machine];
    let kinds = [
        OwnerKind::Scope,
        OwnerKind::User,
        OwnerKind::Cgroup,
        OwnerKind::Other,
    ];
    for at in 0..11 {
        let name = format!("/small{at}");
        let small = named(kinds[at as usize % 4], &name, &name);
        // The first has them, too.
        let pages = (5 + at..7 + at).map(page).chain([vec![0; PAGE]]);
        owners.push(owner(small, pages, Some(&mut known)));
    }
    let mut facts = MachineDescription::look(&host);
    facts.architecture = Some("x86_64".to_owned());
    Survey {
        machine: Key::new([7; 32]).machine("an id"),
        id: "5a".repeat(16),
        time: UNIX_EPOCH + Duration::from_micros(1_795_000_000_123_456),
        key_id: Key::new([7; 32]).id(),
        facts,
        labels: labels(&["role=web".to_owned(), "row=5".to_owned()]).unwrap(),
        page_size: PAGE as u64,
        selection: Some("the memory of 14 processes".to_owned()),
        sketch_size: 200,
        version: "1.2.3".to_owned(),
        elapsed: Duration::from_millis(12_500),
        cpu: Duration::from_millis(3250),
        interrupted: false,
        owners,
        refused: 3,
        held: 2,
        is_pressure_told: true,
        notes: vec![Note::NoFrameNumbers, Note::held(7, "slow")],
    }
}

/// Rows of a survey's file: of those of contents the first and a sum of all.
fn rows(bytes: &[u8]) -> String {
    let mut told = String::new();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let metadata = reader.metadata();
    let values = metadata.file_metadata().key_value_metadata().unwrap();
    let digest = values.iter().find(|it| it.key == "zmeld.columns_crc32");
    let digest = digest.unwrap().value.as_deref().unwrap();
    let (sum, length) = digest.split_once(' ').unwrap();
    let columns = &bytes[4..4 + length.parse::<usize>().unwrap()];
    assert_eq!(sum, format!("{:08x}", crc32fast::hash(columns)));
    for group in metadata.row_groups() {
        let kept = group
            .columns()
            .iter()
            .filter(|it| it.dictionary_page_offset().is_some());
        let plain = group.columns().iter().filter(|it| {
            let is_packed = it.compression().to_string().starts_with("ZSTD");
            is_packed && it.dictionary_page_offset().is_none()
        });
        let plain: Vec<&str> = plain.map(|it| it.column_descr().name()).collect();
        let (count, kept) = (group.num_rows(), kept.count());
        writeln!(
            told,
            "{count} rows, {kept} dictionaries, none of {}",
            plain.join(" ")
        )
        .unwrap();
    }
    let mut contents = Vec::new();
    for row in reader.get_row_iter(None).unwrap() {
        let columns = row.unwrap().into_columns().into_iter();
        let columns = columns.filter(|(_, field)| *field != Field::Null);
        let columns: Vec<String> = columns.map(|(name, it)| format!("{name}={it}")).collect();
        let row = columns.join(" ");
        match row.contains("record=\"content\"") {
            true => contents.push(row),
            false => writeln!(told, "{row}").unwrap(),
        }
    }
    contents
        .iter()
        .take(3)
        .for_each(|it| writeln!(told, "{it}").unwrap());
    let sum = blake3::hash(contents.join("\n").as_bytes());
    writeln!(told, "{} contents, {}", contents.len(), &sum.to_hex()[..16]).unwrap();
    told
}

#[test]
fn a_survey_is_told_whole() {
    let mut survey = known();
    show("survey.rows.txt", &rows(&parquet(&survey).unwrap()));
    let result = SurveyResult::new(&survey, "FILE".to_owned(), 12_345, true);
    let json = values(&serde_json::to_value(&result).unwrap());
    show("survey.json.txt", &lines(&json));
    // The way out depends on who asks.
    let told = |survey: &Survey, is_idle| {
        let result = SurveyResult::new(survey, "FILE".to_owned(), 12_345, is_idle);
        let told = document(&result).to_markdown();
        let lines = told
            .lines()
            .map(|line| match line.contains("Processes not permitted") {
                true => line.split(';').next().unwrap_or(line),
                false => line,
            });
        lines.fold(String::new(), |told, line| told + line + "\n")
    };
    let mut before = told(&survey, true);
    let mut all = before.clone();
    let mut add = |now: String| {
        all += &difference(&before, &now);
        before = now;
    };
    survey.interrupted = true;
    survey.is_pressure_told = false;
    survey.refused = 0;
    survey.notes.clear();
    survey.owners.truncate(12);
    add(told(&survey, false));
    survey.interrupted = false;
    survey.owners.truncate(1);
    add(told(&survey, false));
    let result = SurveyResult::new(&survey, String::new(), 0, true);
    all += &owner_table(&result, usize::MAX).to_csv();
    show("survey.txt", &all);
}

#[test]
fn contents_are_in_groups_of_8192_in_the_order_of_their_hashes() {
    let mut survey = known();
    survey.labels.clear();
    survey.owners.truncate(2);
    for (at, owner) in survey.owners.iter_mut().enumerate() {
        let row = |number: i64| SketchRow {
            hash: Hash {
                high: 2 * number + at as i64,
                low: -number,
            },
            count: 1,
            content: [1024.0 + number as f64; CODECS.len()],
        };
        owner.sketch = Sketch {
            theta: 1 << 40,
            rows: (0..8192 - 4095 * at as i64).map(row).collect(),
        };
    }
    show("survey.groups.txt", &rows(&parquet(&survey).unwrap()));
}

#[test]
fn an_owner_is_there_by_any_of_its_counts() {
    let mut owner = known().owners.remove(2);
    for (at, is_there) in [(0, true), (1, true), (2, true), (3, false)] {
        let count = |of: usize| u64::from(of == at);
        owner.counted.processes = count(0);
        (owner.pages.all, owner.pages.skipped) = (count(1), count(2));
        assert_eq!(owner.is_there(), is_there, "{at}");
    }
}

/// Of a machine's memory 1 % and more, of several processes.
#[test]
fn a_survey_is_partial_by_what_it_could_not_read() {
    let mut survey = known();
    survey.owners.truncate(2);
    for (refused, all, skipped, share) in [
        (2, 990, 10, Some(0.01)),
        (2, 991, 9, None),
        (1, 500, 500, None),
        (2, 0, 0, None),
        (2, 0, 8, Some(1.0)),
    ] {
        survey.refused = refused;
        let (half, rest) = (all / 2, all - all / 2);
        for (owner, all) in survey.owners.iter_mut().zip([half, rest]) {
            owner.pages = PageCounts {
                all,
                ..PageCounts::default()
            };
        }
        survey.owners[1].pages.skipped = skipped;
        assert_eq!(survey.partial(), share, "{refused} {all} {skipped}");
    }
}

#[test]
fn a_file_has_its_day_machine_and_time_in_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::parse(folder.path().to_str().unwrap()).unwrap();
    let path = place.put(&known(), b"bytes").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let path = path.strip_prefix(folder.path().to_str().unwrap()).unwrap();
    let (name, chance) = path.rsplit_once('-').unwrap();
    let machine = Key::new([7; 32]).machine("an id");
    assert_eq!(
        name,
        format!("/zmeld-survey-2/date=2026-11-18/{machine}-20261118T110640Z")
    );
    assert_eq!(chance.len(), 8 + ".parquet".len());
    let other = place.put(&known(), b"").unwrap();
    assert!(!other.ends_with(chance));
}

//! A survey of processes whose pages are counted and hashed a second time, on a machine of a test's
//! own.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use common::see;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use zmeld_linux::Host;
use zmeld_scan::memory::{Counted, LiveMemory, LiveOptions, Selection};
use zmeld_scan::survey::{self, parquet, survey, Error, Key, Survey, SurveyOptions};
use zmeld_scan::ScanProgress;
use zmeld_tests::child::Script;
use zmeld_tests::is_root;

const SECRET: [u8; 32] = [0x5a; 32];

fn machine() -> (tempfile::TempDir, Host) {
    Host::planted(&[
        ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("/proc/sys/kernel/osrelease", "6.1.0-test\n"),
    ])
}

fn options(pids: Vec<i32>, sketch: usize) -> SurveyOptions {
    SurveyOptions {
        selection: Selection::Pids(pids),
        labels: survey::labels(&["role=test".to_owned()]).unwrap(),
        sketch,
        version: "1.2.3".to_owned(),
    }
}

type Row = BTreeMap<String, Field>;

fn rows(survey: &Survey, record: &str) -> Vec<Row> {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &parquet(survey).unwrap()).unwrap();
    let reader: SerializedFileReader<File> = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let rows = rows.map(|row| row.unwrap().into_columns().into_iter().collect::<Row>());
    rows.filter(|row| row["record"] == Field::Str(record.to_owned()))
        .collect()
}

fn int(row: &Row, column: &str) -> i64 {
    match row[column] {
        Field::Long(value) => value,
        ref other => panic!("{column}: {other:?}"),
    }
}

/// What an owner's row has to say: pages of it, of zeros and of one word, and each other content by
/// the name that the key gives it, with its pages.
#[derive(Debug, Default, PartialEq)]
struct Owned {
    pages: [i64; 3],
    contents: BTreeMap<(i64, i64), i64>,
    counted: [i64; 5],
}

fn numbers(counted: &Counted) -> [i64; 5] {
    [
        counted.processes,
        counted.anon_present,
        counted.shmem_present,
        counted.file_present,
        counted.locked,
    ]
    .map(|it| it as i64)
}

fn expected(pids: Vec<i32>) -> Owned {
    let live = LiveMemory::open(LiveOptions {
        shared: true,
        ..LiveOptions::new(Selection::Pids(pids))
    });
    let seen = see(&live.unwrap(), 1);
    let mut owned = Owned {
        counted: numbers(&seen.visit.counted),
        ..Owned::default()
    };
    for (_, page) in seen.pages.values() {
        owned.pages[0] += 1;
        if page.chunks(8).all(|word| word == &page[..8]) {
            owned.pages[if page[..8] == [0; 8] { 1 } else { 2 }] += 1;
            continue;
        }
        let hash = blake3::keyed_hash(&SECRET, page);
        let half = |at: usize| {
            let half = hash.as_bytes()[at..at + 8].try_into().unwrap();
            i64::from_be_bytes(half)
        };
        *owned.contents.entry((half(0), half(8))).or_default() += 1;
    }
    owned
}

fn found(survey: &Survey, owner: &str) -> Owned {
    let is_its = |row: &Row| row["owner"] == Field::Str(owner.to_owned());
    let owners = rows(survey, "owner");
    let row = owners.iter().find(|it| is_its(it)).expect("it has a row");
    let contents = rows(survey, "content");
    let contents = contents.iter().filter(|it| is_its(it));
    let content = |row: &Row| {
        let hash = (int(row, "hash_high"), int(row, "hash_low"));
        (hash, int(row, "count"))
    };
    let columns = [
        "processes",
        "pages_anonymous",
        "pages_shared_memory",
        "pages_file",
        "pages_locked",
    ];
    Owned {
        pages: ["pages", "pages_zero", "pages_same"].map(|it| int(row, it)),
        contents: contents.map(content).collect(),
        counted: columns.map(|it| int(row, it)),
    }
}

#[test]
fn a_survey_says_what_processes_hold() {
    let script = "
a = private(800); fill(a, int(sys.argv[1]), range(500)); fill(a, 3, [500 + at for at in range(100)])
a[600 * PAGE:650 * PAGE] = bytes(50 * PAGE); a[650 * PAGE:660 * PAGE] = b'x' * (10 * PAGE)
s = mmap.mmap(-1, 20 * PAGE); fill(s, 4, range(20))
say(1); wait()
";
    if !is_root() {
        println!("SKIP: only root knows which physical pages were read");
        return;
    }
    let python = || std::process::Command::new("python3");
    let Some(mut first) = Script::start_with(python(), script, &["1"]) else {
        return;
    };
    let mut second = Script::start_with(python(), script, &["1"]).unwrap();
    let mut third = Script::start_with(python(), script, &["2"]).unwrap();
    let mut pids = Vec::new();
    for script in [&mut first, &mut second, &mut third] {
        script.numbers();
        pids.push(script.pid());
    }
    let (_folder, host) = machine();
    for (pid, group) in pids.iter().zip(["web", "web", "database"]) {
        let text = format!("0::/system.slice/{group}.service\n");
        host.plant(format!("/proc/{pid}/cgroup"), text);
    }
    let ages = "memcg 1 /system.slice/web.service\n node 0\n\
         1 7200000 1000 40\n2 3600000 300 1\n3 90000 20 0\n4 30000 1 0\n";
    host.plant("/sys/kernel/debug/lru_gen", ages);
    let (key, stop) = (Key::new(SECRET), AtomicBool::new(false));
    let progress = ScanProgress::default();
    // One that has no memory of its own to tell.
    pids.push(std::process::id() as i32);
    let survey_of = |sketch| {
        survey(
            &host,
            &key,
            &options(pids.clone(), sketch),
            &stop,
            &progress,
        )
    };
    let all = survey_of(1 << 16).unwrap();
    let owners = [
        ("/system.slice/web.service", &pids[..2]),
        ("/system.slice/database.service", &pids[2..3]),
    ];
    let mut pages = 0;
    for (owner, pids) in owners {
        let owned = found(&all, owner);
        assert!(owned.contents.len() > 600 && owned.pages[1] >= 50 && owned.pages[2] >= 10);
        pages += owned.pages[0];
        assert_eq!(owned, expected(pids.to_vec()), "{owner}");
    }
    assert_eq!((progress.phase(), progress.done()), (1, pages as u64));
    assert!(progress.expected().unwrap() >= pages as u64);
    let [machine] = &rows(&all, "machine")[..] else {
        panic!("one row is the machine's")
    };
    let told = "the memory of 4 processes".to_owned();
    assert_eq!(machine["selection"], Field::Str(told));
    assert_eq!(machine["interrupted"], Field::Bool(false));
    for took in ["seconds", "cpu_seconds"] {
        assert!(
            matches!(machine[took], Field::Double(it) if it > 0.0),
            "{machine:?}"
        );
    }
    assert_eq!(
        (int(machine, "processes_refused"), rows(&all, "owner").len()),
        (0, 2)
    );
    let idle: Vec<_> = rows(&all, "owner")
        .iter()
        .map(|row| row["idle_1m"].clone())
        .collect();
    assert_eq!(
        idle,
        [Field::Long(1300), Field::Null],
        "the kernel tells of one group alone"
    );
    // Of a smaller sketch those that are below its bound.
    let some = survey_of(100).unwrap();
    for row in rows(&some, "owner") {
        let Field::Str(owner) = &row["owner"] else {
            panic!("{row:?}")
        };
        let mut below = found(&all, owner);
        below.contents.retain(|hash, _| hash.0 < int(&row, "theta"));
        assert_eq!((below.contents.len(), found(&some, owner)), (100, below));
    }
    stop.store(true, Ordering::Relaxed);
    assert!(matches!(survey_of(100), Err(Error::Interrupted)));
    let line = |kind| format!("{kind} avg10=55.00 avg60=0.00 avg300=0.00 total=1\n");
    host.plant("/proc/pressure/memory", line("some") + &line("full"));
    assert!(matches!(survey_of(100), Err(Error::Pressure { .. })));
    let left = Survey::refusal(&host, &key, &options(pids.clone(), 100)).unwrap();
    assert_eq!(rows(&left, "machine")[0]["interrupted"], Field::Bool(true));
    assert!(rows(&left, "owner").is_empty() && left.interrupted);
}

#[test]
fn a_survey_of_nobody_is_none() {
    let (_folder, host) = machine();
    let own = options(vec![std::process::id() as i32], 64);
    let (key, stop) = (Key::new(SECRET), AtomicBool::new(false));
    let found = survey(&host, &key, &own, &stop, &ScanProgress::default());
    let err = found.unwrap_err();
    assert!(
        matches!(err, Error::NotPermitted { processes: 0, .. }),
        "{err}"
    );
}

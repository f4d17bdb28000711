//! `zmeld scan --survey`: what the file says against what memory holds, bad input, and
//! that there is a whole file or none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use zmeld_tests::child::Script;

use crate::errors::Nobody;
use crate::full_disk::{cannot_mount, with_place};
use crate::run::*;

type Record = BTreeMap<String, Field>;

pub fn key_in(folder: &Path) -> PathBuf {
    let key = folder.join("fleet.key");
    fs::write(&key, "5a".repeat(32)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    key
}

/// Runs a survey as soon as memory is not short, which other tests may make it.
pub fn calm(mut start: impl FnMut() -> Output) -> Output {
    let mut output = start();
    wait_until("memory is short", || {
        let is_short = output.status.code() == Some(75);
        if is_short {
            output = start();
        }
        !is_short
    });
    output
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

fn surveys(folder: &Path) -> Vec<PathBuf> {
    let is_survey = |path: &PathBuf| path.extension().is_some_and(|it| it == "parquet");
    files(folder).into_iter().filter(is_survey).collect()
}

fn read(path: &Path) -> Vec<Record> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let record = |row: parquet::record::Row| -> Record {
        let columns = row.into_columns().into_iter();
        columns.filter(|(_, field)| *field != Field::Null).collect()
    };
    rows.map(|row| record(row.unwrap())).collect()
}

fn string(record: &Record, column: &str) -> String {
    match &record[column] {
        Field::Str(text) => text.clone(),
        other => panic!("{column}: {other:?}"),
    }
}

fn int(record: &Record, column: &str) -> i64 {
    match record[column] {
        Field::Long(value) => value,
        Field::Int(value) => value.into(),
        ref other => panic!("{column}: {other:?}"),
    }
}

fn real(record: &Record, column: &str) -> f64 {
    match record[column] {
        Field::Double(value) => value,
        ref other => panic!("{column}: {other:?}"),
    }
}

/// A process that holds pages and can be told from others: an owner of its own. `lines` fill
/// the mapping `m` of so many pages with `put(number, content)`.
fn holder(name: &str, pages: usize, lines: &str) -> Option<Script> {
    let script = format!(
        "
m = private({pages})
def put(at, content): m[at * PAGE:(at + 1) * PAGE] = page(1, content)
{lines}
say(1); wait()
"
    );
    let name = format!("umid={name}");
    let mut script = Script::start_with(Command::new("python3"), &script, &[&name])?;
    script.numbers();
    Some(script)
}

/// Counts of `zmeld scan` in those processes, of each page.
fn exact(pids: &str) -> serde_json::Value {
    json(&[
        "scan", "--pid", pids, "--shared", "--codecs", "lz4", "--json",
    ])["pages"]
        .clone()
}

fn survey_of<'a>(place: &'a Path, key: &'a Path, pid: &'a str) -> [&'a str; 7] {
    [
        "scan",
        "--survey",
        str(place),
        "--key",
        str(key),
        "--pid",
        pid,
    ]
}

#[test]
fn a_survey_says_what_processes_hold() {
    // 300 contents of which 200 are in both, one on 500 pages, zeros, and one word.
    let first = "for at in range(300): put(at, at)\n\
                 for at in range(300, 800): put(at, 7)\n\
                 m[800 * PAGE:850 * PAGE] = bytes(50 * PAGE)\n\
                 m[850 * PAGE:860 * PAGE] = b'x' * (10 * PAGE)";
    let second = "for at in range(400): put(at, at + 100)";
    let Some(one) = holder("first", 900, first) else {
        return;
    };
    let two = holder("second", 400, second).unwrap();
    let (place, pids) = (folder(), format!("{},{}", one.pid(), two.pid()));
    let key = key_in(place.path());
    let args = [
        "scan",
        "--survey",
        str(place.path()),
        "--key",
        str(&key),
        "--pid",
        &pids,
        "--sketch",
        "8192",
        "--label",
        "role=test",
        "--json",
    ];
    let output = calm(|| run(&args));
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::json::check(&result);
    let found = surveys(place.path());
    assert_eq!(found.len(), 1);
    assert_eq!(result["file"], str(&found[0]));
    let records = read(&found[0]);
    check_form(&found[0], &records);
    let of = |kind: &'static str| {
        records
            .iter()
            .filter(move |it| string(it, "record") == kind)
    };

    let machine = of("machine").next().unwrap();
    assert_eq!(int(machine, "rows"), records.len() as i64);
    assert!(string(machine, "selection").contains("2 processes"));
    assert!(int(machine, "ram_bytes") > 0 && real(machine, "cpu_seconds") > 0.0);
    let label = of("label").next().unwrap();
    assert_eq!(
        (string(label, "label_name"), string(label, "label_value")),
        ("role".into(), "test".into())
    );

    let owners: Vec<&Record> = of("owner").collect();
    let ids: Vec<String> = owners.iter().map(|owner| string(owner, "owner")).collect();
    assert_eq!(ids, ["vm:first", "vm:second"], "the largest first");
    let mut distinct = Vec::new();
    for (owner, holder) in owners.iter().zip([&one, &two]) {
        let exact = exact(&holder.pid().to_string());
        let is = |column: &str, field: &str| {
            assert_eq!(
                int(owner, column),
                exact[field].as_i64().unwrap(),
                "{column}"
            );
        };
        is("pages", "total");
        is("pages_zero", "zero");
        is("pages_same", "same_filled");
        assert_eq!(
            real(owner, "pages_distinct"),
            exact["unique"].as_f64().unwrap()
        );
        assert_eq!(int(owner, "theta"), i64::MAX);
        assert_eq!(int(owner, "processes"), 1);
        distinct.push(exact["unique"].as_i64().unwrap());
        check_pool(owner, &records);
    }
    let zeros = int(owners[0], "pages_zero") - int(owners[1], "pages_zero");
    assert!((40..60).contains(&zeros), "{zeros}");

    // Shared contents: the join on the hash, against both processes together.
    let hashes = |owner: &str| -> BTreeSet<(i64, i64)> {
        let rows = of("content").filter(|row| string(row, "owner") == owner);
        rows.map(|row| (int(row, "hash_high"), int(row, "hash_low")))
            .collect()
    };
    let (first, second) = (hashes("vm:first"), hashes("vm:second"));
    let shared = first.intersection(&second).count() as i64;
    let both = exact(&pids)["unique"].as_i64().unwrap();
    assert_eq!(shared, distinct[0] + distinct[1] - both);
    assert!(shared >= 200, "{shared}");
    let most = of("content").map(|row| int(row, "count")).max().unwrap();
    assert_eq!(most, 501, "one content on 501 pages");
}

/// The bytes of the pool, from classes of sizes, of a sketch that holds all contents: what
/// contents of a class take on average is of all owners, so it is near and not exact.
fn check_pool(owner: &Record, records: &[Record]) {
    let id = string(owner, "owner");
    let rows = || {
        records
            .iter()
            .filter(|row| string(row, "record") == "content" && string(row, "owner") == id)
    };
    for codec in ["lzo_rle", "lz4", "zstd", "zword"] {
        let mean = |class: i64| {
            let told = records
                .iter()
                .find(|row| string(row, "record") == "size" && int(row, "object_class") == class);
            told.map_or((class as f64 + 0.5) * 512.0, |row| {
                int(row, &format!("bytes_{codec}")) as f64 / int(row, "count") as f64
            })
        };
        let size = |row: &Record| mean(int(row, "object_class"));
        let melded: f64 = rows().map(size).sum();
        let all: f64 = rows().map(|row| size(row) * int(row, "count") as f64).sum();
        let name = |prefix: &str, suffix: &str| format!("{prefix}_{codec}{suffix}");
        let exact = real(owner, &name("melded", ""));
        assert_eq!(real(owner, &name("melded", "_low")), exact);
        assert!(
            (exact - melded).abs() <= 0.1 * exact,
            "{codec}: {exact}, {melded}"
        );
        // Drawn by chance, unless all pages are: half as much again is many intervals.
        let pool = real(owner, &name("pool", ""));
        let half = real(owner, &name("pool", "_high")) - pool;
        assert!(
            (pool - all).abs() <= 3.0 * half + 0.1 * all + 1.0,
            "{codec}: {pool} for {all}, {half}"
        );
    }
}

/// Columns are those of docs/survey.md, in types too; contents are sorted, below their
/// owner's bound, and come last.
fn check_form(path: &Path, records: &[Record]) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let written: BTreeMap<String, String> = schema
        .columns()
        .iter()
        .map(|column| {
            let kind = match column.physical_type().to_string().as_str() {
                "BYTE_ARRAY" => "STRING".to_owned(),
                "INT64" if column.logical_type_ref().is_some() => {
                    "TIMESTAMP, UTC, microseconds".to_owned()
                }
                kind => kind.to_owned(),
            };
            (column.name().to_owned(), kind)
        })
        .collect();
    assert_eq!(written, documented());
    let contents: Vec<&Record> = records
        .iter()
        .filter(|it| string(it, "record") == "content")
        .collect();
    let order: Vec<_> = contents
        .iter()
        .map(|it| (int(it, "hash_high"), int(it, "hash_low")))
        .collect();
    assert!(order.windows(2).all(|two| two[0] <= two[1]));
    let others = records.len() - contents.len();
    assert!(records[..others]
        .iter()
        .all(|it| string(it, "record") != "content"));
    let bounds: BTreeMap<String, i64> = records
        .iter()
        .filter(|it| string(it, "record") == "owner")
        .map(|it| (string(it, "owner"), int(it, "theta")))
        .collect();
    assert!(contents
        .iter()
        .all(|it| int(it, "hash_high") < bounds[&string(it, "owner")]));
}

/// The table of columns of docs/survey.md, with C written out.
fn documented() -> BTreeMap<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/survey.md");
    let page = fs::read_to_string(path).unwrap();
    let mut columns = BTreeMap::new();
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| column |"));
    for line in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for name in cells[1].split('`').skip(1).step_by(2) {
            let named = match name.contains("_C") {
                true => ["lzo_rle", "lz4", "zstd", "zword"]
                    .map(|codec| name.replace("_C", &format!("_{codec}")))
                    .to_vec(),
                false => vec![name.to_owned()],
            };
            columns.extend(named.into_iter().map(|name| (name, cells[2].to_owned())));
        }
    }
    columns
}

#[test]
fn an_ordinary_user_surveys_his_own_and_is_told() {
    let Some(nobody) = Nobody::new() else { return };
    let key = key_in(nobody.place());
    let open = nobody.place().join("surveys");
    fs::create_dir(&open).unwrap();
    nobody.own(&key);
    nobody.own(&open);
    // A process that he may not read.
    let mine = std::process::id().to_string();
    let args = survey_of(&open, &key, &mine);
    let output = calm(|| nobody.zmeld().args(args).output().unwrap());
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("run it as root"));
    assert!(surveys(&open).is_empty());
    // Of all memory he may read too little for a fleet.
    let mut own = nobody.command("sleep").arg("600").spawn().unwrap();
    let args = &survey_of(&open, &key, &mine)[..5];
    let output = calm(|| nobody.zmeld().args(args).output().unwrap());
    own.kill().and_then(|()| own.wait()).unwrap();
    let said = text(&output.stderr);
    assert_eq!((code(&output), surveys(&open).len()), (0, 1), "{said}");
    assert!(
        said.contains("of the memory in use could not be read"),
        "{said}"
    );
    // A place that he may not write to.
    let args = survey_of(nobody.place(), &key, &mine);
    let output = nobody.zmeld().args(&args[..5]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(code(&output), 2, "{said}");
    let is_told = said.contains("Permission denied") && said.lines().count() == 1;
    assert!(is_told, "{said}");
}

/// The kernel says that memory is short, as far as the command sees.
#[test]
fn it_gives_up_where_memory_is_short() {
    if cannot_mount() || !Path::new("/proc/pressure/memory").exists() {
        return;
    }
    let place = folder();
    let key = key_in(place.path());
    let line = |kind: &str, x: &str| format!("{kind} avg10={x} avg60=0.00 avg300=0.00 total=1\n");
    let short = line("some", "55.00") + &line("full", "0.00");
    let said = write(place.path(), "pressure", short.as_bytes());
    let script = format!(
        "sed 's/^MemAvailable:.*/MemAvailable: 1024 kB/' /proc/meminfo >\"$place/meminfo\"\n\
         mount --bind \"$place/meminfo\" /proc/meminfo && mount --bind {} /proc/pressure/memory || exit 99\n\
         exec \"$zmeld\" scan --survey {} --key {}",
        str(&said),
        str(place.path()),
        str(&key)
    );
    let other = folder();
    let output = with_place(other.path(), 4, &script);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 75, "{said}");
    assert!(said.contains("memory is short (some 55 %"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(output.stdout.is_empty());
    // That the machine is there is left all the same: a survey without owners.
    let [left] = &surveys(place.path())[..] else {
        panic!("no refusal")
    };
    let rows = read(left);
    let machine = &rows[0];
    assert_eq!(
        (rows.len(), string(machine, "record")),
        (1, "machine".to_owned())
    );
    assert_eq!(machine["interrupted"], Field::Bool(true));
}

#[test]
fn a_signal_ends_it_without_half_an_owner() {
    let Some(holder) = holder("stopped", 60_000, "for at in range(60000): put(at, at)") else {
        return;
    };
    let place = folder();
    let key = key_in(place.path());
    let pid = holder.pid().to_string();
    let args = survey_of(place.path(), &key, &pid);
    let child = zmeld(&args).stderr(Stdio::piped()).spawn().unwrap();
    crate::interrupt::await_handler(&child);
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        Some(130) => assert!(surveys(place.path()).is_empty()),
        // Memory is short, which is noted where it was so from the begin.
        Some(75) => assert!(surveys(place.path()).len() < 2),
        // It was faster than the signal.
        ended => assert_eq!((ended, surveys(place.path()).len()), (Some(0), 1)),
    }
}

#[test]
fn every_goes_on_until_it_is_stopped() {
    let Some(holder) = holder("again", 500, "for at in range(500): put(at, at)") else {
        return;
    };
    let place = folder();
    let key = key_in(place.path());
    let pid = holder.pid().to_string();
    let mut args = survey_of(place.path(), &key, &pid).to_vec();
    args.extend(["--every", "1s", "--label", "node=a"]);
    let child = zmeld(&args)
        .env("ZMELD_TEST_EVERY", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Short of memory, it passes moments over.
    wait_until("one survey at most", || surveys(place.path()).len() > 1);
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(matches!(code(&output), 0 | 130), "{said}");
    assert!(said.contains("the next survey is in"), "{said}");
    for file in surveys(place.path()) {
        assert_eq!(string(&read(&file)[1], "label_value"), "a");
    }
}

#[test]
fn what_fails_after_a_wait_ends_it_with_its_own_code() {
    let place = folder();
    let key = key_in(place.path());
    let survey = survey_of(place.path(), &key, "999999999");
    let output = calm(|| {
        let mut command = zmeld(&[&survey[..], &["--every", "1s"]].concat());
        command.env("ZMELD_TEST_EVERY", "1").output().unwrap()
    });
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("999999999"));
}

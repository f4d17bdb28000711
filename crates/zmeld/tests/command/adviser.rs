//! One adviser: for the same facts of a machine a scan, a plan and a status say the
//! same size, limit and codec.

use zmeld_advice::CodecVerdict;
use zmeld_config::{Config, Kind};
use zmeld_linux::Host;
use zmeld_observe::machine::Machine;
use zmeld_observe::recommend::{recommend, Choice};
use zmeld_observe::Observation;
use zmeld_scan::{CodecResult, CodecTimes, PageCounts, ScanResult};
use zmeld_status::findings::findings;
use zmeld_status::outstanding::Outstanding;

use crate::run::{code, folder, run, str, text, write};

const PAGE: u64 = 4096;

/// What is known of a machine, and what all three have to say.
struct Case {
    name: &'static str,
    ram_kib: u64,
    codec: &'static str,
    ratio: f64,
    pages: u64,
    /// Codec, size and limit in percent of RAM; `None`: too little, or nothing to gain.
    says: Option<(&'static str, u32, u32)>,
}

const CASES: &[Case] = &[
    Case {
        name: "a server of 1 GB",
        ram_kib: 983_040,
        codec: "zstd",
        ratio: 2.61,
        pages: 120_000,
        says: Some(("zstd", 100, 50)),
    },
    Case {
        name: "a laptop of 16 GB",
        ram_kib: 16_310_000,
        codec: "lz4",
        ratio: 2.12,
        pages: 1_500_000,
        says: Some(("lz4", 75, 43)),
    },
    Case {
        name: "the laptop when it has just booted",
        ram_kib: 16_310_000,
        codec: "lz4",
        ratio: 2.12,
        pages: 200_000,
        says: Some(("lz4", 50, 29)),
    },
    Case {
        name: "pages that hardly compress",
        ram_kib: 8_000_000,
        codec: "lzo-rle",
        ratio: 1.21,
        pages: 900_000,
        says: Some(("lzo-rle", 50, 50)),
    },
    Case {
        name: "pages that compress well",
        ram_kib: 8_000_000,
        codec: "zstd",
        ratio: 5.5,
        pages: 900_000,
        says: Some(("zstd", 100, 50)),
    },
    Case {
        name: "a handful of pages",
        ram_kib: 24_600_000,
        codec: "lz4",
        ratio: 2.9,
        pages: 68,
        says: None,
    },
];

fn scanned(case: &Case) -> ScanResult {
    ScanResult {
        ram_bytes: case.ram_kib * 1024,
        page_size: PAGE,
        pages: PageCounts {
            total: case.pages,
            unique: case.pages,
            ..PageCounts::default()
        },
        codecs: vec![CodecResult {
            codec: case.codec.to_owned(),
            offered: Some(true),
            pages_measured: case.pages,
            effective_ratio: case.ratio,
            times: CodecTimes {
                compress_mb_per_s: 500.0,
                decompress_mb_per_s: 2000.0,
                ..CodecTimes::default()
            },
            ..CodecResult::default()
        }],
        ..ScanResult::default()
    }
}

/// The machine as a directory, without swap.
fn machine(case: &Case) -> tempfile::TempDir {
    let dir = folder();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let zero: String = [
        "Buffers",
        "Cached",
        "SwapCached",
        "Active",
        "Inactive",
        "SwapTotal",
        "SwapFree",
        "Dirty",
        "Writeback",
        "Mapped",
        "Slab",
        "Committed_AS",
        "VmallocTotal",
        "VmallocUsed",
        "VmallocChunk",
    ]
    .map(|name| format!("{name}: 0 kB\n"))
    .concat();
    put(
        "proc/meminfo",
        &format!(
            "MemTotal: {0} kB\nMemFree: {0} kB\nMemAvailable: {0} kB\n{zero}",
            case.ram_kib
        ),
    );
    put("proc/swaps", "Filename Type Size Used Priority\n");
    put("proc/vmstat", "oom_kill 0\n");
    put("proc/sys/kernel/osrelease", "6.12.0\n");
    put("proc/sys/vm/swappiness", "150\n");
    put("proc/sys/vm/page-cluster", "0\n");
    put("sys/class/zram-control/hot_add", "");
    dir
}

/// The device that `zmeld up` makes of a configuration, empty or full.
fn set_up(dir: &std::path::Path, config: &Config, ram: u64, ratio: Option<f64>) {
    let Kind::Ram(device) = &config.tiers[0].kind else {
        panic!("{config:?}")
    };
    let size = device.size.bytes(ram);
    let limit = device.memory_limit.unwrap().bytes(ram);
    let stored = ratio.map_or(0, |_| size);
    let used = ratio.map_or(0, |ratio| (size as f64 / ratio) as u64);
    let folder = dir.join("sys/block/zram0");
    std::fs::create_dir_all(&folder).unwrap();
    let codec = device.codec.first().map_or("lzo-rle", |codec| &codec.name);
    for (name, text) in [
        ("disksize", format!("{size}\n")),
        ("initstate", "1\n".to_owned()),
        ("comp_algorithm", format!("[{codec}]\n")),
        (
            "mm_stat",
            format!("{stored} {used} {used} {limit} {used} 0 0 0 0\n"),
        ),
        ("io_stat", "0 0 0 0\n".to_owned()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let line = format!(
        "/dev/zram0 partition {} {} 100\n",
        size / 1024,
        stored / 1024
    );
    let list = format!("Filename Type Size Used Priority\n{line}");
    std::fs::write(dir.join("proc/swaps"), list).unwrap();
}

#[test]
fn scan_plan_and_status_say_the_same() {
    for case in CASES {
        let name = case.name;
        let ram = case.ram_kib * 1024;
        // The scan.
        let mut result = scanned(case);
        let measured = zmeld_scan::advice::measured(&result, 100.0);
        result.recommendation = zmeld_scan::advice::recommendation(&result, &measured, &[]);
        let said = zmeld_scan::advice::advise(&result, &measured, 100.0);
        let advised = result.recommendation.as_ref().map(|to| {
            let sizing = to.sizing.expect("a device");
            let codec = to.codec.clone().expect("it was measured");
            (codec, sizing.size_percent, sizing.memory_limit_percent)
        });
        let expected = case
            .says
            .map(|(codec, size, limit)| (codec.to_owned(), size, limit));
        assert_eq!(advised, expected, "{name}");
        match case.says {
            None => assert!(said.iter().all(|it| it.topic != "size"), "{name}: {said:?}"),
            Some((codec, size, limit)) => {
                let all: String = said.iter().map(|it| it.text.as_str()).collect();
                for words in [
                    format!("Use {codec}:"),
                    format!("({size} % of RAM)"),
                    format!("({limit} %)"),
                ] {
                    assert!(all.contains(&words), "{name}: {words}: {all}");
                }
            }
        }
        // The plan.
        let dir = machine(case);
        let host = Host::at(dir.path());
        let facts = Machine::read(&host).unwrap();
        let planned = recommend(&facts, &Choice::default(), &measured, &[]).unwrap();
        let Kind::Ram(device) = &planned.config.tiers[0].kind else {
            panic!("{name}")
        };
        let codec = device.codec.first().map(|codec| codec.name.as_str());
        let sizes = (
            device.size.to_string(),
            device.memory_limit.unwrap().to_string(),
        );
        match case.says {
            Some((wanted, size, limit)) => {
                assert_eq!(codec, Some(wanted), "{name}");
                assert_eq!(sizes, (format!("{size}%"), format!("{limit}%")), "{name}");
                assert_eq!(planned.recommendation, result.recommendation, "{name}");
            }
            None => {
                // What is usual, and nothing that was measured.
                assert_eq!(measured, CodecVerdict::TooLittle(68 * PAGE));
                assert_eq!(
                    (codec, sizes),
                    (None, ("50%".into(), "30%".into())),
                    "{name}"
                );
            }
        }
        // The status of what the plan set up, before it is filled, and full of such pages.
        for ratio in [None, Some(case.ratio)] {
            set_up(dir.path(), &planned.config, ram, ratio);
            let now = Observation::read(&host, PAGE);
            let found = findings(&now, &Outstanding::of(&planned.config));
            let of_size: Vec<_> = found
                .iter()
                .filter(|found| ["oversized", "no-memory-limit"].contains(&found.name()))
                .collect();
            assert!(of_size.is_empty(), "{name} at {ratio:?}: {of_size:?}");
            let tier = &now.tiers()[0];
            assert_eq!(tier.size_bytes, device.size.bytes(ram), "{name}");
            assert_eq!(
                tier.limit_bytes,
                Some(device.memory_limit.unwrap().bytes(ram))
            );
        }
    }
}

/// What a status advises for a device that is too large is what a plan gives.
#[test]
fn a_status_advises_what_a_plan_would_set_up() {
    let case = &CASES[1];
    let ram = case.ram_kib * 1024;
    let dir = machine(case);
    let host = Host::at(dir.path());
    let text = "[tier.fast]\nkind = \"zram\"\nsize = \"200%\"\nmemory_limit = \"50%\"\n\
                codec = \"lz4\"\n";
    let large = Config::from_text("x".as_ref(), text).unwrap().config;
    set_up(dir.path(), &large, ram, Some(case.ratio));
    let now = Observation::read(&host, PAGE);
    let found = findings(&now, &Outstanding::default());
    let found = found
        .iter()
        .find(|found| found.name() == "oversized")
        .expect("it is");
    assert!(
        found
            .remedy
            .contains("size = \"75%\" and memory_limit = \"43%\""),
        "{found:?}"
    );
}

#[test]
fn a_scan_of_other_memory_says_how_to_set_up_just_that() {
    // What is swapped to by another test would count.
    let _alone = crate::setup::alone();
    let folder = folder();
    // 20 MB of text that compresses, no page like another.
    let mut random = crate::run::Random(5);
    let pages: Vec<u8> = (0..5000)
        .flat_map(|_| crate::run::text_page(&mut random))
        .collect();
    let path = write(folder.path(), "pages", &pages);
    let output = run(&[
        "scan",
        "--file",
        str(&path),
        "--codecs",
        "lz4",
        "--ram",
        "8G",
    ]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert!(out.contains("zmeld up --tier zram --size"), "{out}");
    assert!(!out.contains("echo ") && !out.contains("modprobe"), "{out}");
    // A handful of them says nothing of a size.
    let few = write(folder.path(), "few", &pages[..68 * 4096]);
    let out = text(&run(&["scan", "--file", str(&few), "--ram", "24G"]).stdout);
    assert!(out.contains("Too little to go by"), "{out}");
    assert!(
        !out.contains("Disk size ") && !out.contains("zmeld up"),
        "{out}"
    );
}

#[test]
fn a_file_that_cannot_be_written_once_is_an_error() {
    let dir = machine(&CASES[0]);
    let figures = dir.path().join("missing/figures.prom");
    let args = ["watch", "--once", "--root", str(dir.path()), "--textfile"];
    let output = run(&[&args[..], &[str(&figures)]].concat());
    assert_eq!(code(&output), 2, "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("missing"),
        "{}",
        text(&output.stderr)
    );
    let figures = dir.path().join("figures.prom");
    let output = run(&[&args[..], &[str(&figures)]].concat());
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
}

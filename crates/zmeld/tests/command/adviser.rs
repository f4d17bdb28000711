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
use crate::script::Case as _;

const PAGE: u64 = 4096;

/// What is known of a machine, and what all three have to say: size and limit in percent of
/// RAM; `None`: too little, or nothing to gain.
struct Case {
    name: &'static str,
    ram_kib: u64,
    codec: &'static str,
    ratio: f64,
    pages: u64,
    says: Option<(u32, u32)>,
}

const CASES: [Case; 6] = [
    case("a server of 1 GB", 983_040, "zstd", 2.61, 120_000).says(100, 50),
    case("a laptop of 16 GB", 16_310_000, "lz4", 2.12, 1_500_000).says(75, 43),
    case(
        "a laptop that has just booted",
        16_310_000,
        "lz4",
        2.12,
        200_000,
    )
    .says(50, 29),
    case(
        "pages that hardly compress",
        8_000_000,
        "lzo-rle",
        1.21,
        900_000,
    )
    .says(50, 50),
    case("pages that compress well", 8_000_000, "zstd", 5.5, 900_000).says(100, 50),
    case("a handful of pages", 24_600_000, "lz4", 2.9, 68),
];

const fn case(
    name: &'static str,
    ram_kib: u64,
    codec: &'static str,
    ratio: f64,
    pages: u64,
) -> Case {
    Case {
        name,
        ram_kib,
        codec,
        ratio,
        pages,
        says: None,
    }
}

impl Case {
    const fn says(mut self, size: u32, limit: u32) -> Case {
        self.says = Some((size, limit));
        self
    }
}

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
fn machine(case: &Case) -> crate::cases::Case {
    let server = crate::cases::server();
    let ram = case.ram_kib;
    let memory = format!("MemTotal: {ram} kB\nMemFree: {ram} kB\nMemAvailable: {ram} kB\n");
    std::fs::write(server.root().join("proc/meminfo"), memory).unwrap();
    std::fs::write(server.root().join("proc/sys/vm/swappiness"), "150\n").unwrap();
    std::fs::write(server.root().join("proc/sys/vm/page-cluster"), "0\n").unwrap();
    server
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
    for case in &CASES {
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
            .map(|(size, limit)| (case.codec.to_owned(), size, limit));
        assert_eq!(advised, expected, "{name}");
        match case.says {
            None => assert!(said.iter().all(|it| it.topic != "size"), "{name}: {said:?}"),
            Some((size, limit)) => {
                let all: String = said.iter().map(|it| it.text.as_str()).collect();
                for words in [
                    format!("Use {}:", case.codec),
                    format!("({size} % of RAM)"),
                    format!("({limit} %)"),
                ] {
                    assert!(all.contains(&words), "{name}: {words}: {all}");
                }
            }
        }
        // The plan.
        let dir = machine(case);
        let host = Host::at(dir.root());
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
            Some((size, limit)) => {
                assert_eq!(codec, Some(case.codec), "{name}");
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
            set_up(&dir.root(), &planned.config, ram, ratio);
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

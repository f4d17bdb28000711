//! The rules of `zmeld watch` on a machine made of files: what is written where,
//! when, and what is left alone.

mod machine;

use std::fs;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use machine::{plant, put};
use zmeld_linux::command::{Finished, Invocation};
use zmeld_linux::host::{Access, Direct};
use zmeld_linux::Host;
use zmeld_swap::config::{
    Bytes, Config, MeldRule, Percent, RamDriver, RecompressRule, Span, Which, WritebackRule,
};
use zmeld_swap::journal::State;
use zmeld_swap::observe::Observation;
use zmeld_swap::step::{MadeDevice, Record, Step};
use zmeld_swap::steps::AddDevice;
use zmeld_swap::watch::{WatchEvent, Watcher};

/// Writes down what is written, in order; `idle` takes no ages where `no_ages`.
#[derive(Default)]
struct Notes {
    written: Mutex<Vec<(String, String)>>,
    no_ages: bool,
    /// Killed in the next writeback, of which the kernel leaves so much of the limit.
    killed_at: Mutex<Option<&'static str>>,
    /// Pages are compressed further each time, and writeback uses its limit up.
    has_pages: AtomicBool,
    /// It is told to stop while the kernel is at it.
    is_told: AtomicBool,
    stop: AtomicBool,
}

impl Access for Notes {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        Direct.read(path, limit)
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let value = String::from_utf8_lossy(value).into_owned();
        if self.no_ages && name == "idle" && value != "all" {
            return Err(io::Error::from_raw_os_error(22));
        }
        if name.starts_with("writeback_limit") {
            fs::write(path, &value)?;
        }
        if name == "writeback" {
            let killed_at = self.killed_at.lock().unwrap().take();
            if let Some(rest) = killed_at {
                fs::write(path.with_file_name("writeback_limit"), rest)?;
                std::panic::panic_any("killed");
            }
        }
        let has_pages = self.has_pages.load(Ordering::Relaxed);
        if has_pages && name == "recompress" {
            let path = path.with_file_name("mm_stat");
            let stat = fs::read_to_string(&path)?;
            let mut words: Vec<String> = stat.split_whitespace().map(str::to_owned).collect();
            words[1] = (words[1].parse::<u64>().unwrap() - 4096).to_string();
            fs::write(path, words.join(" "))?;
        }
        if has_pages && name == "writeback" {
            fs::write(path.with_file_name("writeback_limit"), "0")?;
        }
        if ["recompress", "writeback"].contains(&name.as_str()) {
            self.stop
                .store(self.is_told.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.written.lock().unwrap().push((name, value));
        Ok(())
    }

    fn run(&self, _: &Invocation) -> io::Result<Finished> {
        unreachable!("watch runs no commands")
    }
}

impl Notes {
    fn take(&self) -> Vec<String> {
        let mut written = self.written.lock().unwrap();
        written
            .drain(..)
            .map(|(name, value)| format!("{name} <- {value}"))
            .collect()
    }
}

struct Bench {
    dir: tempfile::TempDir,
    notes: Arc<Notes>,
    host: Host,
    watcher: Watcher,
    begin: Instant,
}

impl Bench {
    fn new(config: Config, no_ages: bool, dry_run: bool) -> Bench {
        let (dir, _) = plant("7.2");
        let notes = Arc::new(Notes {
            no_ages,
            ..Notes::default()
        });
        let host = Host::with(dir.path(), notes.clone());
        let bench = Bench {
            watcher: Watcher::new(host.clone(), config, dry_run),
            dir,
            notes,
            host,
            begin: Instant::now(),
        };
        // The recorded machine has used up its writeback budget.
        bench.set("writeback_limit_enable", "0");
        bench
    }

    fn set(&self, attribute: &str, value: &str) {
        let path = self.dir.path().join("sys/block/zmeld0").join(attribute);
        fs::write(path, value).unwrap();
    }

    /// A round so many seconds after the first; what was written, what was said.
    fn round(&mut self, seconds: u64) -> (Vec<String>, Vec<String>) {
        let seen = Observation::read(&self.host, 4096);
        let mut said = Vec::new();
        let now = self.begin + Duration::from_secs(seconds);
        let stop = &self.notes.stop;
        stop.store(false, Ordering::Relaxed);
        self.watcher.round(&seen, now, stop, &mut |what| {
            said.push(match what {
                WatchEvent::Acting(action) => format!("{action}"),
                WatchEvent::Done(_, text) => format!("done: {text}"),
                WatchEvent::Would(action) => format!("would {action}"),
                WatchEvent::Failed(_, err) => format!("failed: {err}"),
                WatchEvent::Appeared(name) => format!("+{name}"),
                WatchEvent::Gone(name) => format!("-{name}"),
                WatchEvent::Holding(why) => format!("holding: {why}"),
                _ => String::new(),
            });
        });
        (self.notes.take(), said)
    }
}

fn recompress(idle_after: u32, every: u32) -> Option<RecompressRule> {
    Some(RecompressRule {
        idle_after: Span::seconds(idle_after),
        every: Span::seconds(every),
        ..RecompressRule::default()
    })
}

#[test]
fn idle_pages_are_marked_by_age_and_recompressed_at_the_rules_pace() {
    let mut config = Config::default();
    config.watch.recompress = recompress(3600, 600);
    let mut bench = Bench::new(config, false, false);
    let expected = [
        "idle <- 3600",
        "recompress <- type=idle algo=zstd priority=1 max_pages=4096",
    ];
    assert_eq!(bench.round(0).0, expected);
    assert!(bench.round(599).0.is_empty());
    assert_eq!(bench.round(600).0, expected);
}

#[test]
fn without_ages_pages_are_marked_and_waited_for() {
    let mut config = Config::default();
    config.watch.recompress = recompress(100, 10);
    config.watch.writeback = Some(WritebackRule {
        pages: Which::HugeIdle,
        idle_after: Span::seconds(300),
        every: Span::seconds(10),
        ..WritebackRule::default()
    });
    let mut bench = Bench::new(config, true, false);
    // The first try finds out that ages are not known.
    assert!(bench.round(0).0.is_empty());
    assert_eq!(bench.round(20).0, ["idle <- all"]);
    assert!(bench.round(119).0.is_empty());
    assert_eq!(
        bench.round(120).0,
        ["recompress <- type=idle algo=zstd priority=1 max_pages=4096"]
    );
    // The other rule's pages are older, and the marks have not been renewed.
    let (written, _) = bench.round(320);
    assert!(
        written.contains(&"writeback <- huge_idle".to_owned()),
        "{written:?}"
    );
    assert!(!written.contains(&"idle <- all".to_owned()), "{written:?}");
    assert_eq!(bench.round(330).0, ["idle <- all"]);
}

#[test]
fn writeback_is_bounded_and_gives_the_limit_back() {
    let mut config = Config::default();
    config.watch.writeback = Some(WritebackRule {
        pages: Which::Huge,
        ..WritebackRule::default()
    });
    let mut bench = Bench::new(config.clone(), false, false);
    let (written, said) = bench.round(0);
    assert_eq!(
        written,
        [
            "writeback_limit <- 4096",
            "writeback_limit_enable <- 1",
            "writeback <- huge",
            "writeback_limit_enable <- 0",
        ],
        "{said:?}"
    );
    // A budget that stands is used, not lengthened.
    let mut bench = Bench::new(config, false, false);
    bench.set("writeback_limit_enable", "1");
    bench.set("writeback_limit", "100");
    assert_eq!(
        bench.round(0).0,
        [
            "writeback_limit <- 100",
            "writeback_limit_enable <- 1",
            "writeback <- huge",
            "writeback_limit <- 100",
        ]
    );
    bench.set("writeback_limit", "0");
    let (written, said) = bench.round(4000);
    assert!(written.is_empty());
    assert!(said.iter().any(|line| line.contains("used up")), "{said:?}");
}

#[test]
fn a_limit_that_a_killed_watch_left_is_given_back() {
    let mut config = Config::default();
    config.watch.writeback = Some(WritebackRule {
        pages: Which::Huge,
        ..WritebackRule::default()
    });
    // What was there, what the killed one leaves, and what is there afterwards.
    let cases = [
        (("0", "0"), "7", vec!["writeback_limit_enable <- 0"]),
        (("1", "100"), "7", vec!["writeback_limit <- 7"]),
        // Somebody set another limit since.
        (("0", "0"), "4097", vec![]),
    ];
    for ((enable, limit), rest, expected) in cases {
        let mut bench = Bench::new(config.clone(), false, false);
        bench.set("writeback_limit_enable", enable);
        bench.set("writeback_limit", limit);
        *bench.notes.killed_at.lock().unwrap() = Some(rest);
        let killed = catch_unwind(AssertUnwindSafe(|| bench.round(0)));
        assert!(killed.is_err());
        bench.notes.take();
        bench.watcher = Watcher::new(bench.host.clone(), Config::default(), false);
        assert_eq!(bench.round(60).0, expected, "{enable} {limit} {rest}");
        // Once.
        bench.watcher = Watcher::new(bench.host.clone(), Config::default(), false);
        assert!(bench.round(120).0.is_empty());
    }
}

/// The tier of the configuration is the device that `zmeld up` made for it: another of
/// the same priority may be somebody else's, and may write what it likes.
#[test]
fn the_daily_budget_is_given_to_the_device_that_the_journal_names() {
    const HOUR: u64 = 3600;
    let text = "[tier.ram]\nkind = \"zmeld\"\npriority = 100\n[tier.ram.writeback]\n\
                device = \"PARTLABEL=a\"\ndaily_limit = \"1MiB\"\n[watch.writeback]\n\
                above = \"99%\"\n";
    let config = Config::from_text("x".as_ref(), text).unwrap().config;
    let journal = |device: Option<&str>| State {
        schema: "zmeld.state/1".to_owned(),
        complete: true,
        config: config.clone(),
        records: device.map_or_else(Vec::new, |device| {
            vec![Record {
                group: "tier.ram".to_owned(),
                step: Step::AddDevice(AddDevice {
                    driver: RamDriver::Zmeld,
                }),
                done: true,
                before: None,
                outcome: Some(MadeDevice::from(device.to_owned())),
                identity: None,
                run: 1,
            }]
        }),
        ..State::default()
    };
    // Writes of 4096 bytes each.
    let given = ["writeback_limit <- 256", "writeback_limit_enable <- 1"];
    for (device, expected) in [
        (None, &[][..]),
        (Some("zmeld7"), &[]),
        (Some("zmeld0"), &given),
    ] {
        let mut bench = Bench::new(config.clone(), false, false);
        let state = serde_json::to_string(&journal(device)).unwrap();
        put(bench.dir.path(), "/run/zmeld/state.json", state);
        assert_eq!(bench.round(0).0, expected, "{device:?}");
        assert!(bench.round(23 * HOUR).0.is_empty(), "{device:?}");
        assert_eq!(bench.round(24 * HOUR).0, expected, "{device:?}");
    }
}

#[test]
fn writeback_waits_for_its_fill_level() {
    let mut config = Config::default();
    config.watch.writeback = Some(WritebackRule {
        pages: Which::Huge,
        above: Percent::whole(70),
        ..WritebackRule::default()
    });
    let mut bench = Bench::new(config, false, false);
    // 150 of 256 MiB.
    assert!(bench.round(0).0.is_empty());
    bench.set(
        "mm_stat",
        "500006912 150000000 200000000 268435456 1 0 0 900 1000",
    );
    assert!(!bench.round(60).0.is_empty());
}

#[test]
fn a_pass_runs_by_its_threshold_and_goes_on_where_it_was_stopped() {
    let mut config = Config::default();
    config.watch.meld = Some(MeldRule::default());
    let mut bench = Bench::new(config, false, false);
    let (written, said) = bench.round(0);
    assert_eq!(written, ["meld <- start threshold=50 time_ms=1000"]);
    assert!(said[2].contains("20.0 % of the sample repeat"), "{said:?}");
    let stopped = fs::read_to_string(bench.dir.path().join("sys/block/zmeld0/meld_stat"))
        .unwrap()
        .replace("pass_stopped             0", "pass_stopped             1");
    bench.set("meld_stat", &stopped);
    assert_eq!(
        bench.round(700).0,
        ["meld <- start threshold=50 time_ms=1000"]
    );
    assert_eq!(
        bench.round(760).0,
        ["meld <- start threshold=50 time_ms=1000 resume"]
    );
    bench.set("meld_mode", "[off] manual auto inline");
    assert!(bench.round(9000).0.is_empty());
}

#[test]
fn a_dry_run_writes_nothing_and_says_everything() {
    let mut config = Config::default();
    config.watch.recompress = recompress(3600, 600);
    config.watch.meld = Some(MeldRule::default());
    let mut bench = Bench::new(config, false, true);
    let (written, said) = bench.round(0);
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(
        said,
        [
            "+zmeld0",
            "would zmeld0: recompress idle pages with zstd",
            "would zmeld0: meld identical pages",
        ]
    );
    assert!(bench.round(60).1.is_empty());
}

#[test]
fn devices_come_and_go_and_failures_do_not_end_the_watch() {
    let mut config = Config::default();
    config.watch.recompress = recompress(3600, 600);
    let mut bench = Bench::new(config, false, false);
    bench.round(0);
    let folder = bench.dir.path().join("sys/block/zmeld0");
    let away = bench.dir.path().join("away");
    fs::rename(&folder, &away).unwrap();
    assert_eq!(bench.round(600).1, ["-zmeld0"]);
    fs::rename(&away, &folder).unwrap();
    assert_eq!(bench.round(610).1[0], "+zmeld0");
    bench.set("mm_stat", "damaged");
    assert!(bench.round(9000).0.is_empty());
}

#[test]
fn busy_processors_are_left_alone() {
    let mut config = Config::default();
    config.watch.recompress = recompress(3600, 600);
    let mut bench = Bench::new(config, false, false);
    let busy = "some avg10=55.00 avg60=0.00 avg300=0.00 total=1\n";
    machine::put(bench.dir.path(), "/proc/pressure/cpu", busy);
    let (written, said) = bench.round(0);
    assert!(written.is_empty());
    assert!(said[1].starts_with("holding"), "{said:?}");
    // Said once, not each round.
    assert!(bench.round(60).1.is_empty());
    machine::put(
        bench.dir.path(),
        "/proc/pressure/cpu",
        busy.replace("55", "1"),
    );
    assert!(!bench.round(120).0.is_empty());
}

/// The kernel holds the device's lock through a request: each is small, and between two of
/// them a stop is heard. What is asked for is the rule's in all.
#[test]
fn what_is_stopped_in_part_goes_on_where_it_was() {
    let rules: [fn(&mut Config); 2] = [
        |config| {
            config.watch.recompress = recompress(3600, 600);
            config.watch.recompress.as_mut().unwrap().max_pages = Some(10_000);
        },
        |config| {
            config.watch.writeback = Some(WritebackRule {
                pages: Which::Huge,
                at_most: Bytes(10_000 * 4096),
                ..WritebackRule::default()
            });
        },
    ];
    for rule in rules {
        let mut config = Config::default();
        rule(&mut config);
        let mut bench = Bench::new(config, false, false);
        bench.notes.has_pages.store(true, Ordering::Relaxed);
        bench.notes.is_told.store(true, Ordering::Relaxed);
        let asked = |written: &[String]| -> Vec<u64> {
            let number = |line: &String| {
                let limit = line.strip_prefix("writeback_limit <- ");
                let pages = line.split_once("max_pages=").map(|it| it.1);
                limit.or(pages)?.parse().ok()
            };
            written.iter().filter_map(number).collect()
        };
        assert_eq!(asked(&bench.round(0).0), [4096]);
        assert!(bench.watcher.has_more());
        bench.notes.is_told.store(false, Ordering::Relaxed);
        assert_eq!(asked(&bench.round(1).0), [4096, 1808]);
        assert!(!bench.watcher.has_more());
        assert!(bench.round(599).0.is_empty());
    }
}

#[test]
fn a_watch_that_is_started_anew_repeats_nothing_before_its_time() {
    let mut config = Config::default();
    config.watch.recompress = recompress(3600, 600);
    let mut bench = Bench::new(config.clone(), false, false);
    let uptime = |bench: &Bench, seconds: u64| {
        let text = format!("{}.00 1.00\n", 5000 + seconds);
        put(bench.dir.path(), "/proc/uptime", text);
    };
    uptime(&bench, 0);
    assert!(!bench.round(0).0.is_empty());
    for (seconds, is_due) in [(60, false), (599, false), (601, true)] {
        uptime(&bench, seconds);
        bench.watcher = Watcher::new(bench.host.clone(), config.clone(), false);
        assert_eq!(!bench.round(seconds).0.is_empty(), is_due, "{seconds}");
    }
}

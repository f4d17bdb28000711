//! The rules of `zmeld watch` on a machine made of files: what is written where,
//! when, and what is left alone. The cases are in `watch`.

mod machine;
mod script;

use std::fs;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use machine::plant;
use script::{Outcome, Script};
use zmeld_config::{Config, RamDriver};
use zmeld_linux::command::{Ending, Finished, Invocation};
use zmeld_linux::host::{Access, Direct};
use zmeld_linux::Host;
use zmeld_observe::Observation;
use zmeld_setup::journal::State;
use zmeld_setup::step::{MadeDevice, Record, Step};
use zmeld_setup::steps::AddDevice;
use zmeld_watch::Watcher;

/// Writes down what is written, in order; `idle` takes no ages where `no_ages`.
#[derive(Default)]
struct Notes {
    written: Mutex<Vec<(String, String)>>,
    no_ages: AtomicBool,
    /// Killed in the next writeback, of which the kernel leaves so much of the limit.
    killed_at: Mutex<Option<String>>,
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
        if self.no_ages.load(Ordering::Relaxed) && name == "idle" && value != "all" {
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

    fn run(&self, _: &Invocation, _: Option<&Ending>) -> io::Result<Finished> {
        unreachable!("watch runs no commands")
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
    fn new() -> Bench {
        let (dir, _) = plant("7.2");
        // The recorded machine has used up its writeback budget.
        let enabled = dir.path().join("sys/block/zmeld0/writeback_limit_enable");
        fs::write(enabled, "0").unwrap();
        let notes = Arc::new(Notes::default());
        let host = Host::with(dir.path(), notes.clone());
        Bench {
            watcher: Watcher::new(host.clone(), Config::default(), false, |host| {
                zmeld_setup::applied::read(host).ok()?
            }),
            dir,
            notes,
            host,
            begin: Instant::now(),
        }
    }

    /// A round so many seconds after the first: what was written, and what was said.
    fn round(&mut self, seconds: u64) -> Outcome {
        let seen = Observation::read(&self.host, 4096);
        let mut said = Vec::new();
        let now = self.begin + Duration::from_secs(seconds);
        let stop = &self.notes.stop;
        stop.store(false, Ordering::Relaxed);
        self.watcher
            .round(&seen, now, stop, &mut |line| said.push(line));
        let written = std::mem::take(&mut *self.notes.written.lock().unwrap());
        let written = written.into_iter().enumerate();
        let written = written.map(|(at, (name, value))| format!("{at} {name} <- {value}"));
        written.chain(said).collect()
    }

    /// The journal of that configuration, whose tier that device is; "-" for none.
    fn journal(&self, device: &str, config: Config) {
        let record = Record {
            group: "tier.ram".to_owned(),
            step: Step::AddDevice(AddDevice {
                driver: RamDriver::Zmeld,
            }),
            done: true,
            before: None,
            outcome: Some(MadeDevice::from(device.to_owned())),
            identity: None,
            run: 1,
        };
        let state = State {
            schema: "zmeld.state/1".to_owned(),
            complete: true,
            config,
            records: if device == "-" { vec![] } else { vec![record] },
            ..State::default()
        };
        let state = serde_json::to_string(&state).unwrap();
        machine::put(self.dir.path(), "/run/zmeld/state.json", state);
    }
}

impl script::Case for Bench {
    fn root(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    fn step(&mut self, script: &Script, what: &str, rest: &str, place: &str) -> Outcome {
        let config = |text: &str| {
            let loaded = Config::from_text("z.toml".as_ref(), &script.text(text));
            loaded.unwrap_or_else(|err| panic!("{place}: {err}")).config
        };
        let set = |flag: &AtomicBool, value| flag.store(value, Ordering::Relaxed);
        match (what, rest) {
            ("watch" | "dry", _) => {
                self.watcher =
                    Watcher::new(self.host.clone(), config(rest), what == "dry", |host| {
                        zmeld_setup::applied::read(host).ok()?
                    });
            }
            ("ask", _) => {
                let seconds = Duration::from_secs(rest.parse().unwrap());
                self.watcher.ask(self.begin + seconds);
            }
            ("round", _) => return self.round(rest.parse().unwrap()),
            // In the first round's writeback, of which the kernel leaves so much of the limit.
            ("killed-at", _) => {
                *self.notes.killed_at.lock().unwrap() = Some(rest.to_owned());
                let killed = catch_unwind(AssertUnwindSafe(|| self.round(0)));
                assert!(killed.is_err(), "{place}");
                self.notes.written.lock().unwrap().clear();
            }
            ("journal", _) => {
                let (device, text) = rest.split_once(' ').unwrap();
                self.journal(device, config(text));
            }
            ("no-ages", _) => set(&self.notes.no_ages, true),
            ("kernel", "has-pages") => set(&self.notes.has_pages, true),
            ("kernel", told) => set(&self.notes.is_told, told == "is-told"),
            ("has-more", _) => assert_eq!(self.watcher.has_more().to_string(), rest, "{place}"),
            _ => panic!("{place}: there is no such step"),
        }
        Outcome::default()
    }
}

#[test]
fn each_case_comes_out_as_it_says() {
    script::run("watch/cases.txt", Bench::new);
}

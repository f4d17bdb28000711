//! Faults of a crate: built as switches in a copy of the workspace, and each run against the tests of
//! the crate and of those that use it, what is fastest and finds most first, until one fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use serde::Deserialize;

use super::switches::{self, Mutant, REACHED, VARIABLE};
use super::{ranked, Found, RustSources, DRAWN};
use crate::process::{command_line, git, output_of, unavailable, Log, TookLonger};
use crate::rust_tests::cargo;
use crate::{tools, workspace};

/// The version of cargo-mutants.
const CARGO_MUTANTS: &str = "27.1.0";

pub fn missed(log: &Log, sources: &RustSources, seed: u64) -> Result<Found> {
    let mut list = Command::new(cargo_mutants(log)?);
    list.current_dir(workspace::root());
    list.args(["mutants", "--list", "--json", "--package", sources.package]);
    let mut mutants: Vec<Mutant> = serde_json::from_str(&output_of(&mut list)?)?;
    mutants.retain(|it| sources.have(&it.file));
    let order = ranked(seed, mutants.iter().map(Mutant::identity));
    let copy = workspace::work_folder("mutants")?.join("workspace");
    let packages = [&[sources.package], sources.tested_by].concat();
    let mut refused = BTreeSet::new();
    let (numbers, programs) = loop {
        let drawn = order.iter().filter(|it| !refused.contains(*it));
        let numbers: Vec<usize> = drawn.copied().take(DRAWN).collect();
        let folder = format!("crates/{}", sources.package);
        let put = switches::put(&folder, &mutants, &numbers)?;
        copied(&copy, &put.texts)?;
        let built = build(log, &copy, &packages)?;
        match put.without.is_empty() && built.errors.is_empty() {
            true => break (numbers, built.programs),
            false => refused.extend(put.without),
        }
        for error in &built.errors {
            let spans = |is_primary| {
                let spans = error.spans.iter();
                spans.filter(move |it| it.is_primary == is_primary)
            };
            let numbers = spans(true).chain(spans(false));
            let mut numbers = numbers.filter_map(|it| put.places.at(&it.file_name, it.byte_start));
            match numbers.next() {
                Some(number) => refused.insert(number),
                None => bail!("{}", error.rendered),
            };
        }
    };
    log.note(&format!("{} do not compile", refused.len()))?;
    let tests = timed(log, programs)?;
    let next = AtomicUsize::new(0);
    let judge = || -> Result<Found> {
        let mut tests: Vec<&Test> = tests.iter().collect();
        let mut found = Found::default();
        while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = &mutants[number].name;
            // Fast tests that have found most go first.
            tests.sort_by_key(|it| it.took / (1 + it.found.load(Ordering::Relaxed)));
            match failed(log, &tests, number)? {
                Some(by) => {
                    log.note(&format!("{name}: found by {}", by.name))?;
                    by.found.fetch_add(1, Ordering::Relaxed);
                    found.caught += 1;
                }
                None => {
                    log.note(&format!("{name}: missed"))?;
                    found.missed.push(name.clone());
                }
            }
        }
        Ok(found)
    };
    let mut found = Found::default();
    for part in at_once(judge)? {
        found.caught += part.caught;
        found.missed.extend(part.missed);
    }
    Ok(found)
}

/// The first test that fails with this fault.
fn failed<'a>(log: &Log, tests: &[&'a Test], fault: usize) -> Result<Option<&'a Test>> {
    let reach = |test: &&&Test| test.reaches.contains(&fault);
    for test in tests.iter().filter(reach) {
        if !test.passes(log, (VARIABLE, &fault.to_string()))? {
            return Ok(Some(test));
        }
    }
    Ok(None)
}

/// Makes a copy of the workspace with other texts of these files: what is the same already keeps its
/// time, and is not built again.
fn copied(copy: &Path, texts: &BTreeMap<String, String>) -> Result<()> {
    let root = workspace::root();
    let mut list = git();
    list.current_dir(&root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = output_of(&mut list)?;
    let listed: BTreeSet<&str> = listed.split_terminator('\0').collect();
    fs::create_dir_all(copy)?;
    // What is gone, such as a crate without a manifest, would be built still.
    for old in workspace::all_files(copy)? {
        let name = old.strip_prefix(copy)?.to_string_lossy().into_owned();
        if !listed.contains(&*name) {
            workspace::remove(&old)?;
            // Its folders, too, as far as they are empty now.
            let mut folders = old.ancestors().skip(1);
            folders.find(|folder| fs::remove_dir(folder).is_err());
        }
    }
    for file in listed {
        let (from, to) = (root.join(file), copy.join(file));
        let bytes = match texts.get(file) {
            Some(text) => text.clone().into_bytes(),
            None if from.is_file() => fs::read(&from)?,
            // Removed, and not committed yet.
            None => {
                workspace::remove(&to)?;
                continue;
            }
        };
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            workspace::put(&to, bytes)?;
            fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Built {
    programs: Vec<Program>,
    errors: Vec<Complaint>,
}

/// A program of tests, and the folder of its package.
struct Program {
    path: PathBuf,
    folder: PathBuf,
}

#[derive(Deserialize)]
#[serde(tag = "reason")]
enum Told {
    #[serde(rename = "compiler-message")]
    Complaint { message: Complaint },
    #[serde(rename = "compiler-artifact")]
    Built {
        manifest_path: PathBuf,
        profile: Profile,
        executable: Option<PathBuf>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Complaint {
    level: String,
    rendered: String,
    spans: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    file_name: String,
    byte_start: usize,
    is_primary: bool,
}

fn build(log: &Log, copy: &Path, packages: &[&str]) -> Result<Built> {
    let mut command = cargo(&["test", "--no-run", "--lib", "--bins", "--tests"]);
    command.current_dir(copy);
    for package in packages {
        command.args(["--package", package]);
    }
    command.arg("--message-format=json");
    command.env("CARGO_TARGET_DIR", copy.with_file_name("target"));
    let mut built = Built::default();
    log.note(&format!("$ {}", command_line(&command)))?;
    let said = command.output()?;
    for line in String::from_utf8_lossy(&said.stdout).lines() {
        let Ok(told) = serde_json::from_str(line) else {
            continue;
        };
        match told {
            Told::Complaint { message }
                if message.level == "error" && !message.spans.is_empty() =>
            {
                built.errors.push(message)
            }
            Told::Built {
                manifest_path,
                profile: Profile { test: true },
                executable: Some(path),
            } => {
                let folder = manifest_path.parent().unwrap_or(copy).to_owned();
                built.programs.push(Program { path, folder });
            }
            _ => {}
        }
    }
    if built.programs.is_empty() && built.errors.is_empty() {
        log.note(&String::from_utf8_lossy(&said.stderr))?;
        bail!("the tests cannot be built");
    }
    Ok(built)
}

struct Test {
    name: String,
    program: PathBuf,
    folder: PathBuf,
    took: Duration,
    /// The faults that it comes by.
    reaches: BTreeSet<usize>,
    /// So many faults were found by it.
    found: AtomicU32,
}

impl Test {
    /// Whether it passes with this variable; one that comes to no end does not.
    fn passes(&self, log: &Log, variable: (&str, &str)) -> Result<bool> {
        // A changed program sees no processes but its own.
        let mut command = Command::new(&self.program);
        if tools::is_root() {
            command = Command::new("unshare");
            command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
            command.arg(&self.program);
        }
        command.args(["--exact", &self.name]);
        command.current_dir(&self.folder);
        command.env(variable.0, variable.1);
        let limit = Duration::from_secs(60) + self.took * 10;
        match log.run_for(&mut command, limit) {
            Ok(ended) => Ok(ended.succeeded()),
            // It came to no end.
            Err(error) if error.is::<TookLonger>() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// All tests of these programs with how long each takes without a fault, and which ones it comes by.
fn timed(log: &Log, programs: Vec<Program>) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for program in programs {
        let mut list = Command::new(&program.path);
        list.current_dir(&program.folder)
            .args(["--list", "--format", "terse"]);
        let names = output_of(&mut list)?;
        let names = names.lines().filter_map(|it| it.strip_suffix(": test"));
        tests.extend(names.map(|name| Test {
            name: name.to_owned(),
            program: program.path.clone(),
            folder: program.folder.clone(),
            took: Duration::from_secs(300),
            reaches: BTreeSet::new(),
            found: AtomicU32::new(0),
        }));
    }
    let next = Mutex::new(tests.iter_mut());
    let time = || -> Result<()> {
        loop {
            let test = next.lock().expect("no worker panics").next();
            let Some(test) = test else {
                return Ok(());
            };
            let reached = tempfile::NamedTempFile::new()?;
            // Some programs run as nobody.
            fs::set_permissions(reached.path(), fs::Permissions::from_mode(0o666))?;
            let started = Instant::now();
            if !test.passes(log, (REACHED, &reached.path().to_string_lossy()))? {
                // One that reaches nothing is never asked.
                log.note(&format!("{} fails without a fault: left out", test.name))?;
                continue;
            }
            test.took = started.elapsed();
            let numbers = workspace::read(reached.path())?;
            test.reaches = numbers.lines().flat_map(str::parse).collect();
        }
    };
    at_once(time)?;
    Ok(tests)
}

/// Results of as many workers as there are processors.
fn at_once<T: Send>(work: impl Fn() -> Result<T> + Sync) -> Result<Vec<T>> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(&work)).collect();
        let ended = workers
            .into_iter()
            .map(|it| it.join().expect("no worker panics"));
        ended.collect()
    })
}

/// The tool, installed if it is not.
fn cargo_mutants(log: &Log) -> Result<PathBuf> {
    let root = workspace::work_folder("cargo-mutants")?;
    let tool = root.join("bin/cargo-mutants");
    if !tool.exists() {
        let mut install = cargo(&["install", "--locked", "cargo-mutants"]);
        install
            .args(["--version", CARGO_MUTANTS, "--root"])
            .arg(&root);
        if !log.run(&mut install)?.succeeded() {
            unavailable!("cargo-mutants cannot be had, is there a network? The log says more");
        }
    }
    Ok(tool)
}

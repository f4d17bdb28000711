//! Compares imports with the programs whose files are read.
//!
//! The cases of each `*.txt` are imported wherever these tests run. Where `ZMELD_WORLD` names
//! a folder with the programs, as `cargo xtask test --only world` does, they are judges of the
//! cases and of files made by a grammar; `ZMELD_WORLD_SEED` and `ZMELD_WORLD_FILES` say which
//! files, and how many.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use zmeld_config::{Config, Discard, Encryption, Kind, Location, Severity, Source};
use zmeld_swap::migrate::import::{import, Imported};
use zmeld_tests::script::{self, Outcome, Script};

mod systemd;
mod zram_generator;
mod zram_tools;

/// Areas that one program sets up, by name, with attributes.
type Areas = BTreeMap<String, BTreeMap<&'static str, String>>;

/// The program's own result for its files.
struct Theirs {
    areas: Areas,
    /// Settings that it ignores: each has to be named.
    ignored: Vec<String>,
}

/// A program that others wrote, which reads what is imported.
struct Judge {
    name: &'static str,
    /// Its path in the folder of programs.
    program: &'static str,
    cases: &'static str,
    /// Runs it on the files below a root folder.
    theirs: fn(program: &Path, root: &Path) -> Theirs,
    /// Makes files by a grammar.
    grammar: fn(&mut ChaCha8Rng, &Path),
    /// Which keys of its files say an attribute.
    keys: fn(&str) -> &'static [&'static str],
}

fn number_of(name: &str, otherwise: u64) -> u64 {
    let said = std::env::var(name).ok();
    said.map_or(otherwise, |it| it.parse().expect("a number"))
}

#[derive(Default)]
struct Count {
    cases: u64,
    files: u64,
    /// Areas set up by the programs in all of these.
    areas: usize,
    equal: u64,
    named: u64,
    wrong: Vec<String>,
}

impl Count {
    fn take(&mut self, verdict: Verdict, place: &str) {
        match verdict {
            Verdict::Equal => self.equal += 1,
            Verdict::Named => self.named += 1,
            Verdict::Wrong(what) => self.wrong.push(format!("{place}: {what}")),
        }
    }
}

enum Verdict {
    Equal,
    /// Differences are named as not carried over.
    Named,
    Wrong(String),
}

fn ram_bytes(root: &Path) -> u64 {
    let text = fs::read_to_string(root.join("proc/meminfo")).expect("it has been written");
    let kib = text.split_whitespace().nth(1).expect("MemTotal");
    kib.parse::<u64>().expect("a number") << 10
}

fn imported(root: &Path) -> Imported {
    let imported = import(root, ram_bytes(root)).expect("it is imported");
    // It is a configuration, and the same one; where it is none, `config import` says why.
    let text = imported.to_toml();
    match Config::from_text(Path::new("zmeld.toml"), &text) {
        Ok(loaded) => assert_eq!(loaded.config, imported.config, "{text}"),
        Err(err) => {
            let said = imported.config.check();
            let is_said = |it: &String| said.iter().any(|said| said.what == *it);
            let problems = err.problems.into_iter();
            let problems = problems.filter(|it| it.severity == Severity::Critical);
            let mut problems = problems.map(|it| it.what);
            assert!(problems.all(|it| is_said(&it)), "{text}");
        }
    }
    imported
}

/// Whether systemd says that there is no such unit, whatever a generator makes.
fn is_masked(root: &Path, unit: &str) -> bool {
    if !root.join("etc/systemd/system").exists() && !root.join("run/systemd/system").exists() {
        return false;
    }
    let mut root_of = std::ffi::OsString::from("--root=");
    root_of.push(root);
    let mut systemctl = std::process::Command::new("systemctl");
    let output = systemctl.arg(root_of).args(["is-enabled", unit]).output();
    let said = output.expect("systemctl is there").stdout;
    said.starts_with(b"masked")
}

/// Masks of some of these units, here and there.
fn put_masks(random: &mut ChaCha8Rng, root: &Path, units: &[&str]) {
    if !is_one_in(random, 6) {
        return;
    }
    let folder = root.join(one(random, &["etc/systemd/system", "run/systemd/system"]));
    fs::create_dir_all(&folder).expect("it can be made");
    for _ in 0..random.random_range(1..3) {
        let file = folder.join(one(random, units));
        if file.symlink_metadata().is_err() {
            match random.random_range(0..4) {
                0 => fs::write(file, "").expect("it can be written"),
                _ => std::os::unix::fs::symlink("/dev/null", file).expect("it can be made"),
            }
        }
    }
}

fn location(device: &Location) -> String {
    device.to_string()
}

fn discard(discard: Discard) -> String {
    let name = match discard {
        Discard::None => "none",
        Discard::Once => "once",
        Discard::Pages => "pages",
        Discard::Both => "both",
    };
    name.to_owned()
}

/// The first of a swap unit's options of that name.
fn swap_option<'t>(options: &'t str, name: &str) -> Option<&'t str> {
    let mut all = options.split(',');
    all.find(|it| it.split('=').next() == Some(name))
}

/// Discards in a swap unit's options, as [`discard`] writes them.
fn swap_discard(options: &str) -> &'static str {
    match swap_option(options, "discard") {
        None => "none",
        Some("discard=once") => "once",
        Some("discard=pages") => "pages",
        Some(_) => "both",
    }
}

/// The import, in the words that the judges' outcomes have.
fn ours(imported: &Imported, ram_bytes: u64) -> Areas {
    let mut areas = Areas::new();
    for tier in &imported.config.tiers {
        let mut area = BTreeMap::new();
        let swap = &tier.swap;
        area.insert("priority", swap.priority.map_or(-1, |it| it.0).to_string());
        area.insert("discard", discard(swap.discard));
        area.insert("optional", tier.swap.optional.to_string());
        let mut name = tier.name.to_string();
        match &tier.kind {
            Kind::Ram(device) => {
                area.insert("size", device.size.bytes(ram_bytes).to_string());
                let limit = device.memory_limit.as_ref();
                let limit = limit.map_or(0, |limit| limit.bytes(ram_bytes));
                area.insert("limit", limit.to_string());
                let codec = device.codec.first().map(ToString::to_string);
                area.insert("codec", codec.unwrap_or_default());
                let again = device.recompress.iter();
                let again: Vec<_> = again.map(|it| &*it.name).collect();
                area.insert("recompress", again.join(" "));
                let back = device.writeback.as_ref();
                let back = back.map(|it| location(&it.device));
                area.insert("writeback", back.unwrap_or_default());
            }
            Kind::Disk(disk) => {
                let device = match disk.source() {
                    Source::File { path, .. } => path,
                    Source::Device(device) => device.path(),
                };
                let device: PathBuf = device.components().collect();
                let device = device.display().to_string();
                let encryption = match disk.encryption() {
                    Encryption::None => String::new(),
                    Encryption::Luks { key_file, .. } => {
                        format!("luks {} {device}", key_file.display())
                    }
                    Encryption::Random { cipher } => {
                        format!("random {} {} {device}", cipher.name, cipher.key_size)
                    }
                };
                // An encrypted one is what is below the volume that fstab names.
                let comment = &imported.comments[&format!("tier.{}", tier.name)];
                let named = comment.split_whitespace().nth(1).unwrap_or_default();
                name = match encryption.is_empty() {
                    true => device,
                    false => named.to_owned(),
                };
                area.insert("encryption", encryption);
                area.insert("format", disk.format.to_string());
                area.insert("timeout", disk.timeout.to_string());
            }
            other => panic!("nothing becomes {other:?}"),
        }
        areas.insert(name, area);
    }
    areas
}

/// Whether two attributes are the same: a share of RAM is rounded otherwise than its tool
/// rounds, which takes whole MiB of RAM.
fn is_equal(attribute: &str, theirs: &str, ours: &str, ram_bytes: u64) -> bool {
    match attribute {
        "size" | "limit" => {}
        // The volume stays as it is.
        "encryption" if ours.is_empty() => return true,
        _ => return theirs == ours,
    }
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let (theirs, ours) = (number(theirs), number(ours));
    let slack = if ram_bytes.is_multiple_of(1 << 20) {
        4096
    } else {
        1 << 20
    };
    (theirs == 0) == (ours == 0) && theirs.abs_diff(ours) <= slack * (theirs / ram_bytes).max(1)
}

fn compare(judge: &Judge, theirs: &Theirs, imported: &Imported, ram_bytes: u64) -> Verdict {
    let ours = ours(imported, ram_bytes);
    let is_named = |words: &[&str]| {
        // A key may have been written with escapes, and a name may hold a backslash.
        let plain = |text: &str| text.replace('\\', "");
        let mut left = imported.left.iter().map(|left| plain(left));
        left.any(|left| words.iter().any(|word| left.contains(&plain(word))))
    };
    let mut verdict = Verdict::Equal;
    let is_by_command = is_named(&["where that fails; zmeld runs none"]);
    for name in ours.keys() {
        if theirs.areas.is_empty() && is_by_command {
            verdict = Verdict::Named;
        } else if !theirs.areas.contains_key(name) {
            return Verdict::Wrong(format!("{name} is none of theirs"));
        }
    }
    for (name, area) in &theirs.areas {
        let Some(own) = ours.get(name) else {
            if !is_named(&[name]) && !is_named((judge.keys)("size")) {
                return Verdict::Wrong(format!("{name} is not there"));
            }
            verdict = Verdict::Named;
            continue;
        };
        for (attribute, value) in area {
            if !is_equal(attribute, value, &own[attribute], ram_bytes) {
                if !is_named((judge.keys)(attribute)) {
                    let own = &own[attribute];
                    return Verdict::Wrong(format!("{name} {attribute} {value}: {own}"));
                }
                verdict = Verdict::Named;
            }
        }
    }
    match theirs.ignored.iter().find(|it| !is_named(&[it])) {
        Some(it) => Verdict::Wrong(format!("{it} is not named")),
        None => verdict,
    }
}

/// A machine of a case: what is imported of it, and what a judge says of that.
struct Machine<'a> {
    root: tempfile::TempDir,
    judge: &'a Judge,
    program: Option<&'a Path>,
    count: &'a RefCell<Count>,
}

impl script::Case for Machine<'_> {
    fn root(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    fn step(&mut self, _: &Script, what: &str, _: &str, place: &str) -> Outcome {
        assert_eq!(what, "import", "{place}");
        let root = self.root.path();
        let imported = imported(root);
        let ram = ram_bytes(root);
        if let Some(program) = self.program {
            let theirs = (self.judge.theirs)(program, root);
            let mut count = self.count.borrow_mut();
            count.cases += 1;
            count.areas += theirs.areas.len();
            let verdict = compare(self.judge, &theirs, &imported, ram);
            count.take(verdict, place);
        }
        let mut lines = imported.left.clone();
        for (name, area) in ours(&imported, ram) {
            let area = area.iter().filter(|(_, value)| !value.is_empty());
            let area: Vec<_> = area.map(|(key, value)| format!("{key}={value}")).collect();
            lines.push(format!("{name} {}", area.join(" ")));
        }
        let toml = imported.to_toml();
        let settings = toml.lines().filter(|line| !line.starts_with('#'));
        let mut more: Vec<String> = settings.map(str::to_owned).collect();
        for comment in imported.comments.values() {
            // What is left out the lines say.
            let comment = comment.split("\nNot carried over:").next().unwrap();
            more.extend(comment.lines().map(|line| cited(root, line)));
        }
        Outcome {
            more,
            ..lines.into_iter().collect()
        }
    }
}

/// A comment of an import without the line that it cites, `FILE:NUMBER: LINE`, where that stands there.
fn cited(root: &Path, comment: &str) -> String {
    let rest = || -> Option<String> {
        let (place, cited) = comment.split_once(": ")?;
        let (file, number) = place.rsplit_once(':')?;
        let text = fs::read_to_string(root.join(file.strip_prefix('/')?)).ok()?;
        let line = text
            .lines()
            .nth(number.parse::<usize>().ok()?.checked_sub(1)?)?;
        let rest = cited.strip_prefix(line.trim())?;
        Some(format!("{file}: as it stands there{rest}"))
    };
    rest().unwrap_or_else(|| comment.to_owned())
}

fn machine(meminfo_kib: u64) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder can be made");
    put(
        root.path(),
        "proc/meminfo",
        &format!("MemTotal: {meminfo_kib} kB\n"),
    );
    root
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

fn cases(judge: &Judge, program: Option<&Path>) -> Count {
    let count = RefCell::new(Count::default());
    script::run(judge.cases, || Machine {
        root: machine(16 << 20),
        judge,
        program,
        count: &count,
    });
    count.into_inner()
}

const SHOWN: usize = 8;

/// The cases; where the program is, judged by it, and so many files of the grammar, with one
/// line about both.
fn judge(judge: &Judge) {
    let Some(folder) = std::env::var_os("ZMELD_WORLD") else {
        cases(judge, None);
        return;
    };
    let program = Path::new(&folder).join(judge.program);
    if !program.exists() {
        println!("SKIP: there is no {}", program.display());
        return;
    }
    let mut count = cases(judge, Some(&program));
    let seed = number_of("ZMELD_WORLD_SEED", 1);
    for file in 0..number_of("ZMELD_WORLD_FILES", 100) {
        // Each from a seed of its own: one that is wrong is made again alone.
        let mut random = ChaCha8Rng::seed_from_u64(seed + file);
        let sizes = [16 << 20, 8 << 20, 8_013_220, 1_999_116, 500_012];
        let root = machine(*sizes.choose(&mut random).expect("one"));
        (judge.grammar)(&mut random, root.path());
        let theirs = (judge.theirs)(&program, root.path());
        let imported = imported(root.path());
        let verdict = compare(judge, &theirs, &imported, ram_bytes(root.path()));
        count.files += 1;
        count.areas += theirs.areas.len();
        let is_wrong = matches!(verdict, Verdict::Wrong(_));
        count.take(verdict, &format!("ZMELD_WORLD_SEED={}", seed + file));
        if is_wrong && count.wrong.len() <= SHOWN {
            println!("{}\nleft: {:#?}", all_of(root.path()), imported.left);
        }
    }
    println!(
        "world: {}: {} cases, {} files from seed {seed}, {} areas: {} equal, {} named, {} wrong",
        judge.name,
        count.cases,
        count.files,
        count.areas,
        count.equal,
        count.named,
        count.wrong.len()
    );
    assert!(count.wrong.is_empty(), "{:#?}", count.wrong);
}

/// All files below a folder, to be looked at.
fn all_of(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match (fs::read_link(&path), path.is_dir()) {
            (Ok(target), _) => text += &format!("--- {path:?} -> {target:?}\n"),
            (_, true) => text += &all_of(&path),
            _ => {
                let bytes = fs::read(&path).unwrap_or_default();
                text += &format!("--- {path:?}\n{}\n", String::from_utf8_lossy(&bytes));
            }
        }
    }
    text
}

/// One of these, by chance.
fn one<'t>(random: &mut ChaCha8Rng, texts: &[&'t str]) -> &'t str {
    texts.choose(random).copied().expect("one of several")
}

/// The same with a character put in or taken out here and there, every fourth time.
fn damaged(random: &mut ChaCha8Rng, text: String) -> String {
    let mut text: Vec<char> = text.chars().collect();
    if text.is_empty() || !is_one_in(random, 4) {
        return text.into_iter().collect();
    }
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..text.len());
        let signs = [
            '[', ']', '=', ':', '"', '\'', '\\', '#', ';', ' ', '\n', '\t', '\r', '0', ',',
        ];
        match is_one_in(random, 3) && text.len() > 1 {
            true => drop(text.remove(at)),
            false => text.insert(at, *signs.choose(random).expect("one")),
        }
    }
    text.into_iter().collect()
}

fn is_one_in(random: &mut ChaCha8Rng, count: u32) -> bool {
    random.random_range(0..count) == 0
}

#[test]
fn files_of_zram_generator_are_read_as_it_reads_them() {
    judge(&zram_generator::JUDGE);
}

#[test]
fn the_file_of_zram_tools_is_read_as_its_script_reads_it() {
    judge(&zram_tools::JUDGE);
}

#[test]
fn fstab_and_crypttab_are_read_as_systemd_reads_them() {
    judge(&systemd::JUDGE);
}

/// No judge of it is at hand.
#[test]
fn files_of_rpi_swap_are_read() {
    let nobody = Judge {
        cases: "world/rpi-swap.txt",
        ..systemd::JUDGE
    };
    cases(&nobody, None);
}

//! Mutants: small changes of the sources, made by tools, each of which a test has to find.
//!
//! universalmutator makes those of the store, cargo-mutants those of Rust. A run draws some of
//! each room by its seed; one is found where a test of the room fails, and the room passes where no
//! more than its share is missed. What compiles to the same is no change, and what a compiler warns
//! of no module is built from. What changes nothing that anybody could see stands in [`SAME`], with
//! the reason.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};
use serde_json::Value;

use crate::c_tests::{of_step, CTestEnvironment};
use crate::process::{output_of, reason, unavailable, was_interrupted, Log};
use crate::python;
use crate::rust_tests::cargo;
use crate::seeded;
use crate::step::{Tally, TestScope};
use crate::tools;
use crate::workspace;

/// Of each room so many are drawn at most.
const DRAWN: usize = 40;
/// The version of cargo-mutants.
const CARGO_MUTANTS: &str = "27.1.0";

/// Sources, and what tests them.
pub struct Room {
    pub name: &'static str,
    sources: Sources,
    /// So many of a hundred may be missed.
    missed_max: usize,
}

enum Sources {
    /// Files of a folder of the store, and steps with arguments of their own where they have any,
    /// what is fastest first.
    Store(&'static [&'static str]),
    /// A crate, and others whose tests are its own, too.
    Crate(&'static [&'static str]),
}

const fn store(name: &'static str, tests: &'static [&'static str]) -> Room {
    Room {
        name,
        sources: Sources::Store(tests),
        missed_max: 5,
    }
}

const fn package(name: &'static str, missed_max: usize, others: &'static [&'static str]) -> Room {
    Room {
        name,
        sources: Sources::Crate(others),
        missed_max,
    }
}

const CORE: &[&str] = &[
    "refusals-asan",
    "check_writes-asan",
    "check_writes-1-bit",
    "check_writes-64-kib",
    "fingerprint-asan",
    "recompress-asan",
    "hostile-asan",
    "model-asan S 2000",
    "model-1-bit S 1500",
    "pass-asan 6000",
    "interleave-asan",
    "adversary-1-bit 10000",
    "changing-asan 400",
    "threads-tsan 2 S",
];
const ZWORD: &[&str] = &[
    "hostile-asan",
    "round_trip-asan same",
    "small_scope-64-bytes 15000 S",
    "round_trip-asan 1 S 0 60000",
    "codec-asan",
    "small_scope-128-bytes 15000 S",
    "small_reads-64-bytes-reads 25 S",
];
const CRYPTO: &[&str] = &["crypto_page-asan", "crypto_page-64-kib"];

pub const ROOMS: &[Room] = &[
    store("core", CORE),
    store("zword", ZWORD),
    store("crypto", CRYPTO),
    package("statistics", 10, &["lab"]),
    package("advice", 10, &["setup", "status"]),
    package("config", 10, &["setup"]),
    package("memory", 5, &["scan"]),
    package("scan", 10, &[]),
    package("migrate", 5, &["setup"]),
    package("setup", 5, &["status"]),
    package("status", 10, &["setup"]),
    package("watch", 10, &["setup"]),
    package("guard", 10, &[]),
    package("linux", 10, &["setup"]),
];

/// Numbers that training gave, four fifths of what could be changed in its folder: other numbers are
/// other tables, or none.
const TRAINED: &str = "lengths";

/// Changes of the store that nobody could see: a file, what is in the changed line, and why.
#[rustfmt::skip]
const SAME: &[(&str, &str, &str)] = &[
    ("core/backing.c", "ZM_SHARE_WRITING, 1)", "the bit of the lock, which is held"),
    ("core/blocks.c", "PER_BATCH", "when others run"),
    ("core/blocks.c", "zm_port_warn", "a store that is wrong already"),
    ("core/check.c", "words_go_on", "when others run"),
    ("core/check.c", "index - WORDS_PER_BATCH", "when others run"),
    ("core/fingerprint.c", "zm_mul128_add(&low[", "both are added at last"),
    ("core/sample.c", "mixed =", "any slot of a part is as good"),
    ("core/idle.c", "accessed < now &&", "what has no age is not as old as a second"),
    ("core/recompress.c", "#define SIZE_STEP", "how fine sizes are told apart"),
    ("core/share.c", "held = share->held, freed = 0;", "of what stands on a block nobody asks"),
    ("core/sort.c", "#define LONG_RUN", "when others run"),
    ("core/sort.c", "#define STOPPED", "no number of words either"),
    ("core/sort.c", "#define SHORT_RUN", "which way short runs are sorted"),
    ("core/sort.c", "return b < c ?", "any of the three does"),
    ("core/sort.c", "return a < c ?", "any of the three does"),
    ("core/sort.c", "u64 median(", "it is that of three, in any order"),
    ("core/sort.c", "split < count - split", "which part is sorted first"),
    ("core/meld.c", "AHEAD_", "how far ahead caches are asked"),
    ("core/meld.c", "i + 1 < pass->suspect_count &&", "for which slots caches are asked"),
    ("core/meld.c", "if (has_candidate_twin(pass, i))", "for which slots caches are asked"),
    ("core/meld.c", "zm_suspect_fingerprint(pass->suspects[i", "for which slots caches are asked"),
    ("zword/decode.c", "if (keep && back > width)", "nothing is nearer than a word"),
    ("zword/decode_bytes.c", "match >= ZWORD_MATCH_FAR", "it is the last one"),
    ("zword/decode_bytes.c", "if (length > 2 * COPY_STEP)", "what is copied twice is the same"),
    ("zword/encode.c", "#define SIZE_HOPELESS", "more than any parse takes is as good"),
    ("zword/encode.c", "capacity = *dst_size", "so much is never used"),
    ("zword/tables.c", "zword_token(kind, m, 0)", "a run's length has no table of its own"),
    ("zword/encode_words.c", "*size = (struct zword_size){", "the sum takes its place"),
    ("zword/tables.c", "*mask = (struct zword_mask){", "of no bytes no place matters"),
    ("zword/tables.c", "references[ZWORD_ZERO] =", "a stride is even"),
    ("zword/tables.c", "if (code >= 1u << length)", "a length that is full is so to the one"),
    ("zword/decode.c", "mode >= ZWORD_BYTES", "it is the last one"),
    ("zword/decode.c", "job.from + ZWORD_BLOCK_SIZE != dst_size", "never beyond it"),
    ("zword/tables.c", "return code >= 2 * size", "more is refused before"),
    ("zword/parse_bytes.c", "token_take(parsed, literals, 0,", "without a match no offset is written"),
    ("zword/parse_words.c", "return back - 1 <", "all are behind, or the block is kept raw"),
    ("crypto/page.c", "=> zm_equal (", "which of two is compared with which"),
    ("crypto/selftest.c", "=> !zm_equal (", "which of two is compared with which"),
    ("crypto/selftest.c", "=> /*cond_resched", "when others run"),
    ("crypto/selftest.c", "got = ZM_PAGE_SIZE *", "room of more than a page is a page's"),
    ("crypto/selftest.c", "=> zword_grammar_page ( number,SEED", "one seed is as good as another"),
    ("crypto/selftest.c", "#define SEED", "one seed is as good as another"),
    ("crypto/selftest.c", "#define CANARY\t", "any byte may be the canary"),
    ("crypto/selftest.c", "at = (number *", "any byte of an object may be the damaged one"),
];

impl Room {
    pub fn step(&self) -> String {
        format!("mutants-{}", self.name)
    }

    pub fn test(&self, log: &Log, environment: &CTestEnvironment, seed: u64) -> Result<Tally> {
        let mut found = match self.sources {
            Sources::Store(tests) => self.of_store(log, environment, tests, seed)?,
            Sources::Crate(others) => self.of_crate(log, others, seed)?,
        };
        found.missed.sort();
        let all = found.missed.len() + found.caught;
        let text = format!(
            "{} of {all} missed:\n  {}",
            found.missed.len(),
            found.missed.join("\n  ")
        );
        log.note(&text)?;
        if all == 0 {
            bail!("no mutant could be made");
        }
        println!("  {}: {text}", self.step());
        let is_met = found.missed.len() * 100 <= all * self.missed_max;
        let mut tally = Tally::of(&self.step(), is_met, text);
        tally.passed += found.caught as u64;
        Ok(tally)
    }

    fn of_store(
        &self,
        log: &Log,
        environment: &CTestEnvironment,
        tests: &[&str],
        seed: u64,
    ) -> Result<Found> {
        let folder = workspace::root().join("store").join(self.name);
        let made = workspace::work_folder("mutants")?.join(self.name);
        workspace::empty_folder(&made)?;
        let mutate = python::mutate(log)?;
        let mut all = Vec::new();
        for file in workspace::files(&folder, "c")? {
            if is_for_kernels(&file)? || workspace::stem(&file) == TRAINED {
                continue;
            }
            let place = made.join(workspace::stem(&file));
            fs::create_dir_all(&place)?;
            let mut command = Command::new(&mutate);
            command
                // It leaves files where it is when it is stopped.
                .current_dir(&place)
                .arg(&file)
                .arg("--noCheck")
                .arg("--mutantDir")
                .arg(&place);
            log.must(&mut command)?;
            for changed in workspace::files(&place, "c")? {
                if let Some((number, line)) = changed_line(&file, &changed)? {
                    all.push((file.clone(), changed, number, line));
                }
            }
        }
        // By what is changed to what: the same wherever the checkout and the line are.
        all.sort_by_cached_key(|(file, _, _, line)| {
            let mut hash = DefaultHasher::new();
            (seed, workspace::stem(file), line).hash(&mut hash);
            hash.finish()
        });
        let mut found = Found::default();
        for (file, changed, number, line) in all {
            if found.caught + found.missed.len() == DRAWN {
                break;
            }
            if SAME
                .iter()
                .any(|(name, part, _)| file.ends_with(name) && line.contains(part))
            {
                continue;
            }
            let Some(is_same) = is_same(log, environment, &file, &changed)? else {
                continue;
            };
            if is_same {
                continue;
            }
            let line = format!("{}:{number}: {line}", workspace::shown(&file));
            log.note(&format!("{}: {line}", self.step()))?;
            let copy = seeded::copy(log, &self.step())?;
            let store = workspace::root().join("store");
            fs::copy(&changed, copy.join(file.strip_prefix(&store)?))?;
            let mut by = None;
            for test in tests {
                if fails(log, environment, test, &copy, seed)? {
                    by = Some(test);
                    break;
                }
            }
            match by {
                Some(by) => {
                    log.note(&format!("found by {by}"))?;
                    found.caught += 1;
                }
                None => found.missed.push(line),
            }
        }
        Ok(found)
    }

    fn of_crate(&self, log: &Log, others: &[&str], seed: u64) -> Result<Found> {
        let name = package_name(self.name);
        let tool = cargo_mutants(log)?;
        let mutants = |words: &[&str]| {
            // Tests of a changed program see no processes but their own.
            let mut command = match tools::is_root() {
                true => Command::new("unshare"),
                false => Command::new(&tool),
            };
            if tools::is_root() {
                command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
                command.arg(&tool);
            }
            command
                .current_dir(workspace::root())
                .args(["mutants", "--package", &name]);
            command.args(words);
            command
        };
        let listed = output_of(&mut mutants(&["--list"]))?.lines().count();
        let slices = listed.div_ceil(DRAWN).max(1);
        let slice = format!("{}/{slices}", seed as usize % slices);
        let out = workspace::work_folder("mutants")?.join(self.name);
        workspace::empty_folder(&out)?;
        let out = out.to_string_lossy().into_owned();
        let own = [
            "--shard",
            &slice,
            // Of all files, and no stretch of one.
            "--sharding",
            "round-robin",
            "--baseline",
            "skip",
            "--timeout",
            "300",
            "--output",
            &out,
        ];
        log.run(&mut mutants(&own))?;
        // What its own tests miss others may find.
        let mut found = Found::read(Path::new(&out))?;
        if !found.missed.is_empty() && !others.is_empty() {
            let others: Vec<String> = others.iter().map(|it| package_name(it)).collect();
            let others = others.join(",");
            let more = ["--iterate", "--test-package", &others];
            log.run(&mut mutants(&[&own[..], &more].concat()))?;
            let rest = Found::read(Path::new(&out))?;
            found.caught += rest.caught;
            found.missed = rest.missed;
        }
        if was_interrupted() {
            bail!("interrupted");
        }
        Ok(found)
    }
}

/// What became of the mutants of a room.
#[derive(Default)]
struct Found {
    caught: usize,
    missed: Vec<String>,
}

impl Found {
    /// As cargo-mutants writes it down.
    fn read(folder: &Path) -> Result<Found> {
        let path = folder.join("mutants.out/outcomes.json");
        let told: Value = serde_json::from_str(&workspace::read(&path)?)?;
        let mut found = Found::default();
        for outcome in told["outcomes"].as_array().context("no outcomes")? {
            match outcome["summary"].as_str() {
                Some("CaughtMutant" | "Timeout") => found.caught += 1,
                Some("MissedMutant") => {
                    let name = &outcome["scenario"]["Mutant"]["name"];
                    found
                        .missed
                        .push(name.as_str().unwrap_or_default().to_owned());
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

fn package_name(name: &str) -> String {
    format!("zmeld-{name}")
}

/// Whether user space does not compile it.
fn is_for_kernels(file: &Path) -> Result<bool> {
    Ok(workspace::read(file)?.contains("#include <linux/"))
}

/// The one line that differs, and its number; none where it is white space.
fn changed_line(file: &Path, changed: &Path) -> Result<Option<(usize, String)>> {
    let (before, after) = (workspace::read(file)?, workspace::read(changed)?);
    let bare = |line: &str| line.split_whitespace().collect::<String>();
    let lines = before.lines().zip(after.lines()).enumerate();
    let mut differ = lines.filter(|(_, (before, after))| bare(before) != bare(after));
    let found = differ
        .next()
        .map(|(at, (before, after))| (at + 1, format!("{} => {}", before.trim(), after.trim())));
    Ok(found)
}

/// Whether it compiles to the same; none where it does not compile without a warning.
fn is_same(
    log: &Log,
    environment: &CTestEnvironment,
    file: &Path,
    changed: &Path,
) -> Result<Option<bool>> {
    // What a kernel has, and a test brings, is declared nowhere: in such a file alone.
    for flag in ["-Wall", "-Wno-implicit-function-declaration"] {
        let assembly = |source: &Path| environment.compiler.assembly(log, file, source, flag);
        if let Some(before) = assembly(file)? {
            return Ok(assembly(changed)?.map(|after| after == before));
        }
    }
    Ok(None)
}

/// Whether a step fails on a copy, with these arguments or its own.
fn fails(
    log: &Log,
    environment: &CTestEnvironment,
    test: &str,
    copy: &Path,
    seed: u64,
) -> Result<bool> {
    let (step, words) = test.split_once(' ').unwrap_or((test, ""));
    let runs = match words {
        "" => of_step(step)?.arguments(TestScope::Default, seed),
        words => vec![words
            .split_whitespace()
            .map(|word| word.replace('S', &seed.to_string()))
            .collect()],
    };
    match seeded::fails(log, environment, step, &runs, copy) {
        // It does not link; where the test cannot run here nothing is found.
        Err(error) if !was_interrupted() && reason(&error).is_none() => Ok(true),
        found => found,
    }
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

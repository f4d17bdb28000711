//! Mutants: small changes of the sources, made by tools, each of which a test has to find.
//!
//! universalmutator makes those of the store, cargo-mutants those of Rust. A run draws some of each
//! room by its seed; one is found where a test of the room fails, and the room passes where no more
//! than its share is missed. Mutants that compile to the same are no change, and no module is built
//! from those that a compiler warns of. Mutants that change nothing that anybody could see stand in
//! [`SAME`], with the reason.

mod crates;
mod switches;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Result};

use crate::c_tests::{of_step, CTestEnvironment};
use crate::process::{reason, was_interrupted, Log};
use crate::python;
use crate::seeded;
use crate::step::{Tally, TestScope};
use crate::workspace;

/// Of each room so many are drawn at most.
const DRAWN: usize = 40;

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
    Rust(RustSources),
}

/// Files of a crate, and other crates whose tests are its own, too.
struct RustSources {
    package: &'static str,
    /// Below `src`; what another room has is not this one's.
    folder: &'static str,
    tested_by: &'static [&'static str],
}

impl RustSources {
    fn folder(&self) -> String {
        format!("crates/{}/src/{}", self.package, self.folder)
    }

    /// Whether a file is in this room: the one of the longest folder has it.
    fn have(&self, file: &str) -> bool {
        let folders = ROOMS.iter().filter_map(|room| match &room.sources {
            Sources::Rust(sources) => Some(sources.folder()),
            Sources::Store(_) => None,
        });
        let longest = folders
            .filter(|it| file.starts_with(it))
            .max_by_key(String::len);
        longest == Some(self.folder())
    }
}

const fn store(name: &'static str, tests: &'static [&'static str]) -> Room {
    Room {
        name,
        sources: Sources::Store(tests),
        missed_max: 5,
    }
}

const fn rust(
    name: &'static str,
    missed_max: usize,
    [package, folder]: [&'static str; 2],
    tested_by: &'static [&'static str],
) -> Room {
    Room {
        name,
        sources: Sources::Rust(RustSources {
            package,
            folder,
            tested_by,
        }),
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
    "pass-asan 20000",
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

#[rustfmt::skip]
pub const ROOMS: &[Room] = &[
    store("core", CORE),
    store("zword", ZWORD),
    store("crypto", CRYPTO),
    rust("statistics", 10, ["zmeld-report", "statistics/"], &["zmeld-lab"]),
    rust("advice", 10, ["zmeld-config", "advice/"], &["zmeld-swap"]),
    rust("config", 10, ["zmeld-config", ""], &["zmeld-swap"]),
    rust("memory", 5, ["zmeld-scan", "memory/"], &["zmeld"]),
    rust("scan", 10, ["zmeld-scan", ""], &["zmeld"]),
    rust("migrate", 5, ["zmeld-swap", "migrate/"], &["zmeld"]),
    rust("observe", 10, ["zmeld-swap", "observe/"], &[]),
    rust("setup", 5, ["zmeld-swap", "setup/"], &["zmeld"]),
    rust("status", 10, ["zmeld-swap", "status/"], &["zmeld"]),
    rust("watch", 10, ["zmeld-swap", "watch/"], &[]),
    rust("guard", 10, ["zmeld-guard", ""], &[]),
    rust("linux", 10, ["zmeld-linux", ""], &["zmeld-swap"]),
];

/// Numbers that training gave, four fifths of what could be changed in its folder: other numbers are
/// other tables, or none.
const TRAINED: &str = "lengths";

/// Changes of the store that nobody could see: a file, what is in the changed line, and why.
#[rustfmt::skip]
const SAME: &[(&str, &str, &str)] = &[
    ("core/writeback.c", "ZM_SHARE_WRITING, 1)", "the bit of the lock, which is held"),
    ("core/blocks.c", "PER_BATCH", "when others run"),
    ("core/blocks.c", "zm_port_warn", "a store that is wrong already"),
    ("core/check.c", "words_go_on", "when others run"),
    ("core/check.c", "index - WORDS_PER_BATCH", "when others run"),
    ("core/fingerprint.c", "zm_mul128_add(&low[", "both are added at last"),
    ("core/sample.c", "mixed =", "any slot of a part is as good"),
    ("core/idle.c", "accessed < now &&", "what has no age is not as old as a second"),
    (".c", "i != count; i++", "a loop ends there"),
    ("core/sample.c", "i != count; i = next", "no group ends beyond the last"),
    (".c", "index != store->slot_count; index++", "a loop ends there"),
    ("core/page.c", "zm_prefetch(", "for which slots caches are asked"),
    ("core/pass.c", "suspect_count >= pass->suspect_max) { => if (0==1)", "room is made before"),
    ("core/index.c", "=> victim = (victim + -1)", "either neighbour does"),
    ("core/index.c", "=> victim = (victim + (1+1))", "another of the bucket does"),
    ("core/index.c", "=> victim = (victim % 1)", "the first one does"),
    ("core/meld.c", "#define SUSPECTS_PER_BATCH", "when others run"),
    ("core/recompress.c", "&object, (0+1))", "it counts where there is no object alone"),
    ("core/recompress.c", "#define SIZE_STEP", "how fine sizes are told apart"),
    ("core/recompress.c", "u32 size = (0+1)", "what does not fit is passed over once more"),
    ("core/check.c", "WORDS_PER_BATCH == 0 || level", "when others run"),
    ("core/store.c", "EMPTIED_PER_BATCH", "when others run"),
    ("core/writeback.c", "if (!backed->apart) => if (0==1)", "a whole page comes back another way, too"),
    ("core/index.c", "ZM_INDEX_WAYS - -1", "a bucket more"),
    ("core/index.c", "fingerprint, (0-1)) & ~mask", "the number of a slot is masked"),
    ("core/index.c", "ZM_INDEX_WAYS - 0", "a bucket more"),
    ("core/index.c", "ZM_INDEX_WAYS * 1", "a bucket more"),
    ("core/meld.c", "<= ZM_KIND_OBJECT", "both have an object"),
    ("core/check.c", "store->slot_count) + (1+1)", "there is more room"),
    ("core/pass.c", "while (from != ZM_FINGERPRINTS_END)", "it ends there"),
    ("core/print.c", "<= ZM_KIND_OBJECT", "of what is no object all figures are 0"),
    ("core/recompress.c", "step = (0+1)", "who tries them is asked to stop, too"),
    ("core/recompress.c", "zm_port_pool_used(store->pool) >= limit", "it packs once more"),
    ("core/meld.c", "a.value == (1==1)", "what shares already is compared once more"),
    ("core/meld.c", "leader_index <= follower_index", "they are two"),
    ("core/meld.c", "--pass->compared %", "when others run"),
    ("core/meld.c", "leaders >= -EINTR", "a pass that goes on has no use for it"),
    ("core/page.c", "=> if (!err && (1==1))", "a twin more is found, later"),
    ("core/page.c", "=> if ((1==1) && mode >=", "what the index says is a hint"),
    ("core/page.c", "AUTO) => if (1==1)", "a twin more is found, and a hint is untrue"),
    ("core/meld.c", "content.fingerprint >= fingerprint", "bytes are compared"),
    ("core/meld.c", "/*return LEADER_BACKED;*/", "when others run"),
    ("core/object.c", "/*if (bytes != to)*/", "bytes are copied to where they are"),
    ("core/meld.c", "if (leaders < (0-1))", "no error is -1"),
    ("core/share.c", "held = share->held, freed = 0;", "of what stands on a block nobody asks"),
    ("core/check.c", "stored == store->slot_count ?", "there is more room"),
    ("core/pass.c", "suspects, 1, count, (u64)fingerprint + 1", "the first one is below"),
    ("core/blocks.c", "/*store->blocks.next = 0;*/", "where a search begins"),
    ("core/idle.c", "if (zm_share_is_here(share)) { => if (1==1)", "nobody picks what is on a block"),
    ("core/recompress.c", "if ((1==1) && zm_state_kind", "what a slot is not picked for its share is not"),
    ("core/check.c", "i + 1 <= count &&", "there is room for one more, which is nothing"),
    ("core/sort.c", "split >= count", "it is never more"),
    ("core/sample.c", "count >= SAMPLE_MAX", "it is reached one by one"),
    ("core/sample.c", "wanted = SAMPLE_MAX / (2-1)", "how many pages are sampled"),
    ("core/sample.c", "wanted > SAMPLE_MAX - 2", "how many pages are sampled"),
    ("core/share.c", "zm_port_warn", "a store that is wrong already"),
    ("core/store.c", "many >= few ?", "it is 0 either way"),
    ("core/writeback.c", "bytes_unpack(store, NULL, (0+1)", "a raw page has no codec"),
    ("core/page.c", "/*if (old != new)*/", "nothing is added then"),
    ("core/check.c", "(1==1) && shares[i + 1]", "there is room for one more, which is nothing"),
    ("core/share.c", "share_set(share, object, (0+1))", "the bit of the lock, which is held"),
    ("core/sort.c", "if (count <= SHORT_RUN) => if (1==1)", "equal words are sorted"),
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
    ("zword/encode_bytes.c", "if (k / 2 && !zword_flush", "three offsets fit the writer, too"),
    ("zword/parse_bytes.c", "at - place > ZWORD_CHAIN_PLACES", "that place says a later one by then"),
    ("zword/tables.c", "if (code >= 1u << length)", "a length that is full is so to the one"),
    ("zword/decode.c", "mode >= ZWORD_BYTES", "it is the last one"),
    ("zword/decode.c", "job.from + ZWORD_BLOCK_SIZE != dst_size", "never beyond it"),
    ("zword/tables.c", "return code >= 2 * size", "more is refused before"),
    ("zword/parse_bytes.c", "token_take(parsed, literals, 0,", "without a match no offset is written"),
    ("zword/parse_words.c", "return back - 1 <", "all are behind, or the block is kept raw"),
    ("zword/decode.c", "making.at >= making.end", "none writes beyond the end"),
    ("zword/decode_bytes.c", "zword_refill(&c, job->src, job->src_size); => break", "the rest of each lane is read then"),
    ("zword/encode.c", "sizes[k] >>= 8", "it is written once"),
    ("crypto/page.c", "=> zm_equal (", "which of two is compared with which"),
    ("crypto/selftest.c", "=> !zm_equal (", "which of two is compared with which"),
    ("crypto/selftest.c", "=> /*cond_resched", "when others run"),
    ("crypto/selftest.c", "trial.modes < MODES_ALL", "no mask is above that of all"),
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
        let mut found = match &self.sources {
            Sources::Store(tests) => self.of_store(log, environment, tests, seed)?,
            Sources::Rust(sources) => crates::missed(log, sources, seed)?,
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
        let mut all: Vec<Made> = Vec::new();
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
        let identity = |(file, _, _, line): &Made| format!("{}: {line}", workspace::stem(file));
        let mut found = Found::default();
        for at in ranked(seed, all.iter().map(identity)) {
            let (file, changed, number, line) = &all[at];
            if found.caught + found.missed.len() == DRAWN {
                break;
            }
            let path = file.to_string_lossy();
            if SAME
                .iter()
                .any(|(name, part, _)| path.ends_with(name) && line.contains(part))
            {
                continue;
            }
            let Some(is_same) = is_same(log, environment, file, changed)? else {
                continue;
            };
            if is_same {
                continue;
            }
            let line = format!("{}:{number}: {line}", workspace::shown(file));
            log.note(&format!("{}: {line}", self.step()))?;
            let copy = seeded::copy(log, &self.step())?;
            let store = workspace::root().join("store");
            fs::copy(changed, copy.join(file.strip_prefix(&store)?))?;
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
}

/// A file, the changed one, the number of the line, and what is changed there to what.
type Made = (PathBuf, PathBuf, usize, String);

#[derive(Default)]
struct Found {
    caught: usize,
    missed: Vec<String>,
}

/// Places in an order that the seed gives, by what is changed to what: the same wherever the checkout
/// and the line are.
fn ranked(seed: u64, identities: impl Iterator<Item = String>) -> Vec<usize> {
    let mut all: Vec<(u64, usize)> = identities
        .enumerate()
        .map(|(at, identity)| {
            let mut hash = DefaultHasher::new();
            (seed, identity).hash(&mut hash);
            (hash.finish(), at)
        })
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, at)| at).collect()
}

/// Whether only kernels compile it.
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

/// Whether it compiles to the same, for speed or for size; none where it does not compile without a
/// warning.
fn is_same(
    log: &Log,
    environment: &CTestEnvironment,
    file: &Path,
    changed: &Path,
) -> Result<Option<bool>> {
    // Kernel functions that a test brings are declared nowhere: in such a file alone.
    for flag in ["-Wall", "-Wno-implicit-function-declaration"] {
        let assembly = |source: &Path, level: &str| {
            environment
                .compiler
                .assembly(log, file, source, [flag, level])
        };
        if let Some(before) = assembly(file, "-O2")? {
            let after = assembly(changed, "-O2")?;
            let small = || -> Result<bool> {
                let (before, after) = (assembly(file, "-Os")?, assembly(changed, "-Os")?);
                Ok(before.is_some() && after == before)
            };
            return match after {
                Some(after) => Ok(Some(after == before || small()?)),
                None => Ok(None),
            };
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

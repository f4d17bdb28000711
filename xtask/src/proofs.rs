//! Proofs of the store's C by CBMC, which looks at all paths of a function up to a
//! bound, with all values that its input may have.
//!
//! CBMC is Debian's, of a suite that has version 6, unpacked and run with that suite's
//! own loader and libraries.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::apt::Suite;
use crate::c_build;
use crate::process::{unavailable, Log};
use crate::recipes::Arch;
use crate::step::{Tally, TestScope};
use crate::workspace;

pub const STEP: &str = "proofs";

const SUITE: &str = "trixie";
const PACKAGES: &str = "cbmc libc6 libgcc-s1 libstdc++6 minisat zlib1g";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

const LIMIT: Duration = Duration::from_secs(900);
const LIMIT_LONG: Duration = Duration::from_secs(4 * 3600);

/// zword's limits beside the size of a block.
const LIMITS: &str = "-DZWORD_MATCH_MAX=12u -DZWORD_RUN_MAX=3u -DZWORD_COUNT_MAX=3u \
    -DZWORD_NARROW_MAX=7u -DZWORD_NEAR_MAX=8u -DZWORD_POSITION_BITS=1 -DZWORD_CHAIN_LINKS=2u \
    -DZWORD_SKIP_SHIFT=2";

/// Checks at every access, besides those of a proof itself. A loop that
/// may go on behind its bound is a failure.
const CHECKS: &str =
    "--unwinding-assertions --bounds-check --pointer-check --slice-formula --object-bits 12";

/// One `PROOF(name, block, block_long, loops)` of `store/tests/proofs/FILE.c`.
struct Proof {
    file: PathBuf,
    name: String,
    blocks: [u32; 2],
    /// How often a loop is followed in the smaller one.
    loops: u32,
}

fn proofs() -> Result<Vec<Proof>> {
    let mut proofs = Vec::new();
    for file in workspace::files(&c_build::tests_folder().join("proofs"), "c")? {
        for line in std::fs::read_to_string(&file)?.lines() {
            let Some(line) = line.strip_prefix("PROOF(") else {
                continue;
            };
            let unclear = || format!("{}: PROOF({line}", workspace::shown(&file));
            let words: Vec<&str> = line.trim_end_matches(')').split(", ").collect();
            let numbers: Vec<u32> = words
                .iter()
                .skip(1)
                .map(|word| word.parse().with_context(unclear))
                .collect::<Result<_>>()?;
            let &[block, block_long, loops] = &numbers[..] else {
                anyhow::bail!(unclear());
            };
            proofs.push(Proof {
                file: file.clone(),
                name: words[0].to_owned(),
                blocks: [block, block_long],
                loops,
            });
        }
    }
    Ok(proofs)
}

fn cbmc(log: &Log) -> Result<PathBuf> {
    if std::env::consts::ARCH != "x86_64" {
        unavailable!("CBMC is fetched for x86-64 alone");
    }
    let packages: Vec<&str> = PACKAGES.split(' ').collect();
    let folder = workspace::work_folder("cbmc")?.join("root");
    Suite::unpacked(log, (SUITE, Arch::Amd64), &packages, folder)
}

impl Proof {
    fn command(&self, root: &Path, scope: TestScope) -> Command {
        let store = workspace::root().join("store");
        let block = self.blocks[usize::from(scope == TestScope::Long)];
        let loops = self.loops + block - self.blocks[0];
        let libraries = root.join(LIBRARIES);
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        command
            .arg("--library-path")
            .arg(format!(
                "{}:{}",
                libraries.display(),
                root.join("usr/lib").display()
            ))
            .arg(root.join("usr/bin/cbmc"))
            .arg(&self.file)
            .args(["--function", &self.name])
            .arg("-I")
            .arg(store.join("include"))
            .arg("-I")
            .arg(store.join("port/user"))
            .arg(format!("-DZWORD_BLOCK_SIZE={block}u"))
            .args(LIMITS.split(' '))
            .args(CHECKS.split(' '))
            .args(["--unwind", &loops.to_string()]);
        command
    }
}

pub fn test(log: &Log, scope: TestScope) -> Result<Tally> {
    let root = cbmc(log)?;
    let limit = match scope {
        TestScope::Long => LIMIT_LONG,
        _ => LIMIT,
    };
    let waiting = Mutex::new(proofs()?);
    // One at a time for each processor, with a log of its own until it has ended.
    let worker = |number: usize| -> Result<Tally> {
        let own = Log::create(&log.path().with_extension(format!("{number}.log")))?;
        let mut tally = Tally::default();
        loop {
            let next = waiting.lock().map(|mut proofs| proofs.pop());
            let Ok(Some(proof)) = next else {
                return Ok(tally);
            };
            let begin = Instant::now();
            let ran = own.run_for(&mut proof.command(&root, scope), limit)?;
            let name = format!("{}: {}", workspace::stem(&proof.file), proof.name);
            let seconds = begin.elapsed().as_secs();
            log.note(&format!("{}{name}: {seconds} s", ran.text))?;
            let why = format!("{name}: {}", ran.status);
            tally.add(Tally::of(STEP, ran.succeeded(), why));
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || worker(number));
        let workers: Vec<_> = (0..processors).map(start).collect();
        let mut tally = Tally::default();
        for ended in workers.into_iter().map(|worker| worker.join()) {
            tally.add(ended.unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(tally)
    })
}

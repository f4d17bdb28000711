//! zmeld held against what others wrote: their programs are the judges of what it makes of
//! their files.

use std::path::Path;

use anyhow::Result;

use crate::apt::Suite;
use crate::debian;
use crate::process::{unavailable, Log};
use crate::recipes::Arch;
use crate::rust_tests::{cargo, run_tests};
use crate::step::{Tally, TestScope};
use crate::tools;
use crate::workspace;

pub const STEP: &str = "world";

/// Tests that judges take part in where `ZMELD_WORLD` names the folder with their programs.
/// Of each judge they print one line that begins with `world: `.
struct Judged {
    package: &'static str,
    test: &'static str,
    /// How many files are made by a grammar for each judge, by default and where `--long`.
    files: [u32; 2],
    /// Puts what the judges are into the folder; each is had or skipped by itself.
    programs: &'static [Program],
}

type Program = (&'static str, fn(&Log, &Path) -> Result<()>);

const SUITES: &[Judged] = &[Judged {
    package: "zmeld-swap",
    test: "world",
    files: [100, 2000],
    programs: &[
        ("zram-generator", zram_generator),
        ("zram-tools", zram_tools),
    ],
}];

pub fn test(log: &Log, scope: TestScope, seed: u64) -> Result<Tally> {
    tools::need_root("judges are kept from the machine by mounts")?;
    let folder = workspace::target().join("world");
    std::fs::create_dir_all(&folder)?;
    let mut tally = Tally::default();
    for suite in SUITES {
        for (name, program) in suite.programs {
            let had = program(log, &folder).map(|()| Tally::default());
            tally.add(Tally::or_skip(&format!("{STEP} {name}"), had)?);
        }
        let mut command = cargo(&["test", "--package", suite.package, "--test", suite.test]);
        command.args(["--", "--show-output"]);
        command.env("ZMELD_WORLD", &folder);
        command.env("ZMELD_WORLD_SEED", seed.to_string());
        let files = suite.files[usize::from(scope == TestScope::Long)];
        command.env("ZMELD_WORLD_FILES", files.to_string());
        let before = log.text()?.len();
        tally.add(run_tests(log, suite.package, &mut command)?);
        for line in log.text()?[before..].lines() {
            if let Some(told) = line.strip_prefix("world: ") {
                println!("  {told}");
            }
        }
    }
    Ok(tally)
}

const ZRAM_GENERATOR: &str = "1.2.1";

/// Built once, with what it would format devices by where nothing is.
fn zram_generator(log: &Log, folder: &Path) -> Result<()> {
    if folder.join("bin/zram-generator").exists() {
        return Ok(());
    }
    let mut command = cargo(&["install", "zram-generator", "--locked", "--no-track"]);
    command.args(["--version", ZRAM_GENERATOR]);
    command.arg("--root").arg(folder);
    command.env("CARGO_TARGET_DIR", folder.join("build"));
    command.env("SYSTEMD_UTIL_DIR", "/nonexistent");
    if !log.run(&mut command)?.succeeded() {
        unavailable!("zram-generator {ZRAM_GENERATOR} cannot be fetched and built");
    }
    Ok(())
}

fn zram_tools(log: &Log, folder: &Path) -> Result<()> {
    let suite = debian::own_suite()?;
    let folder = folder.join("zram-tools");
    Suite::unpacked(log, (&suite, Arch::Amd64), &["zram-tools"], folder).map(|_| ())
}

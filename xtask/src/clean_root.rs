//! The README's command where somebody tries it first: in a Debian that has Rust, a
//! C compiler and nothing else, and in a container that may do nothing. Each run has a
//! copy of that Debian and of this checkout.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use zmeld_tests::turn::TURN;

use crate::debian::{self, Root};
use crate::process::{output_of, FinishedProgram, Log};
use crate::rust_tests::cargo;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "clean-root";

/// The C compiler that the README asks for.
const PACKAGES: &str = "gcc,libc6-dev";

/// Takes what no container has by default, too, so that nothing is left.
const NO_PRIVILEGES: &[&str] = &[
    "setpriv",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--no-new-privs",
];

/// In front of each command there: the toolchain, no network for cargo, the checkout.
const BEFORE: &[&str] = &[
    "PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "CARGO_NET_OFFLINE=true",
    "sh",
    "-c",
    "cd /zmeld && exec \"$@\"",
    "sh",
];

/// All tests of cargo in the clean Debian, and again where nothing is allowed.
pub fn test(log: &Log) -> Result<Tally> {
    tools::need_not_set_up()?;
    let base = debian::base(log, "clean", None, PACKAGES)?;
    let root = debian::copy(log, &base, STEP)?;
    check_out(log, &root)?;
    let command = ["cargo", "xtask", "test"];
    let all = ["--only", "cargo-test", "--only", "format"];
    let mut tally = Tally::default();
    let ran = enter(log, &root.0, &[&command[..], &all].concat())?;
    let installed = ran.text.contains("Installed all of it.");
    let lacks = ran.text.contains("NOT A FULL RUN: missing here");
    tally.add(judged("all tests of cargo in a clean Debian", &ran));
    tally.add(Tally::of(STEP, installed, "it installed nothing there"));
    tally.add(Tally::of(STEP, !lacks, "something could not be installed"));
    let words = [NO_PRIVILEGES, &command, &all].concat();
    let ran = enter(log, &root.0, &words)?;
    tally.add(judged("all tests of cargo without privileges", &ran));
    Ok(tally)
}

fn judged(what: &str, ran: &FinishedProgram) -> Tally {
    let last = ran.text.lines().last().unwrap_or_default();
    let ok = ran.succeeded() && last.contains(" passed, 0 failed, ");
    Tally::of(STEP, ok, format!("{what}: {last}"))
}

fn check_out(log: &Log, root: &Root) -> Result<()> {
    let checkout = root.0.join("zmeld");
    fs::create_dir(&checkout)?;
    let script =
        "git ls-files -z | tar --null -T - -c | tar -x -C \"$0\" && test -e \"$0/Cargo.toml\"";
    let mut files = Command::new("sh");
    files.current_dir(workspace::root()).args(["-c", script]);
    log.must(files.arg(&checkout))?;
    Ok(())
}

/// Runs a command in the copy's checkout. The machine's other tests must know whose turn it is,
/// since the kernel is the same.
fn enter(log: &Log, root: &Path, words: &[&str]) -> Result<FinishedProgram> {
    log.must(&mut cargo(&["fetch"]))?;
    let mut sysroot = Command::new("rustc");
    sysroot
        .current_dir(workspace::root())
        .args(["--print", "sysroot"]);
    let (toolchain, registry) = (output_of(&mut sysroot)?, cargo_home()?.join("registry"));
    let mounts = [
        (Path::new(&toolchain), "/opt/rust", "ro"),
        (&registry, "/root/.cargo/registry", "ro"),
        (Path::new(TURN), TURN, ""),
    ];
    log.run(&mut debian::enter(root, &mounts, &[BEFORE, words].concat()))
}

fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or(home)
        .context("neither CARGO_HOME nor HOME is set")
}

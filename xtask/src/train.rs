//! The tables of zword, from pages that were swapped out.

use std::process::ExitCode;

use anyhow::{bail, ensure, Result};

use crate::pages::{self, Set};
use crate::process::run_in_front;
use crate::rust_tests::cargo;
use crate::workspace;

/// The arguments of `train`.
pub const USAGE: &str = "zword";

/// What `train` does.
pub const ABOUT: &str = "\
Makes store/zword/lengths.c from the pages of the programs that are for training,
which `cargo xtask pages` keeps. The same pages give the same file.";

/// Runs `train`.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    if arguments != ["zword"] {
        bail!("name what to train: zword");
    }
    let programs = pages::programs()?;
    let train = programs.iter().filter(|program| program.set == Set::Train);
    let files: Vec<_> = train.map(pages::file_of).collect();
    for file in &files {
        ensure!(
            file.exists(),
            "{} is missing: cargo xtask pages makes it",
            workspace::shown(file)
        );
    }
    let mut command = cargo(&["run", "--quiet", "--release", "--package", "zmeld-store"]);
    command.args(["--example", "train_zword", "--"]);
    command
        .arg(workspace::root().join("store/zword/lengths.c"))
        .args(files);
    let status = run_in_front(&mut command)?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

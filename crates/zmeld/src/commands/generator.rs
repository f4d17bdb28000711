//! `zmeld generator`, and zmeld under the name `zmeld-generator`: the systemd
//! generator. It never fails a boot: whatever happens it exits with 0.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use zmeld_swap::migrate::generator::{generate, BootEnvironment, GeneratorOutcome};

use crate::exit::Outcome;
use crate::output;

/// Arguments from systemd.
#[derive(Args)]
pub struct GeneratorArgs {
    /// Folder of units that the administrator's override
    pub normal: PathBuf,
    /// Folder of units that would override the administrator's
    pub early: Option<PathBuf>,
    /// Folder of units that everything else would override
    pub late: Option<PathBuf>,

    /// Read the files of another machine below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// The command line with the command that the program's name stands for.
pub fn arguments(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    let called = words.first().map(PathBuf::from);
    let name = called.as_deref().and_then(Path::file_name);
    if name.is_some_and(|name| name == "zmeld-generator") {
        words.insert(1, "generator".into());
    }
    words
}

pub fn program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/zmeld"))
}

pub fn run(args: &GeneratorArgs) -> anyhow::Result<Outcome> {
    let variable = |name| std::env::var(name).ok();
    let environment = BootEnvironment {
        root: args.root.clone(),
        program: program(),
        virtualization: variable("SYSTEMD_VIRTUALIZATION"),
        in_initrd: variable("SYSTEMD_IN_INITRD"),
    };
    if let GeneratorOutcome::Failed(why) = generate(&environment, &args.normal) {
        output::say(why);
    }
    Ok(Outcome::Done)
}

//! On this machine, whose swap is changed and put back.
//!
//! Needs root, and what each test names; elsewhere it is skipped with the reason.

mod renamed;
mod replaced;

#[path = "../../../zmeld-linux/tests/support/turn.rs"]
mod turn;

use std::fs;
use std::path::Path;
use std::time::Duration;

use zmeld_config::Config;
use zmeld_linux::lock::FileLock;
use zmeld_linux::Host;
use zmeld_setup::execute::{self, Report};
use zmeld_setup::journal::{Journal, State};
use zmeld_setup::plan::{Options, Plan};
use zmeld_setup::Error;

/// Our turn, since others on this machine change its swap under the same lock; none, and a
/// word about it, where the machine cannot be used or lacks one of these files.
fn turn(needed: &[&str]) -> Option<FileLock> {
    let turn = turn::turn().unwrap();
    let missing = needed.iter().find(|path| !Path::new(path).exists());
    let why = match missing {
        _ if !rustix::process::geteuid().is_root() => "this needs root".to_owned(),
        Some(path) => format!("there is no {path}"),
        None if matches!(State::read(&Host::here()), Ok(None)) => return Some(turn),
        None => "zmeld has set this machine up already".to_owned(),
    };
    eprintln!("SKIP: {why}");
    None
}

fn config(text: &str) -> Config {
    let loaded = Config::from_text(Path::new("z.toml"), text);
    loaded.unwrap_or_else(|err| panic!("{err}")).config
}

fn up(config: &Config) -> Result<Report, Error> {
    let host = Host::here();
    let mut journal = Journal::lock(&host, Duration::ZERO, &mut |_| {})?;
    let state = journal.state().clone();
    let plan = Plan::new(&host, config, Some(&state), &Options::default())?;
    execute::up(&host, &mut journal, &plan, &false.into(), &mut |_| {})
}

fn down() -> Result<Report, Error> {
    let host = Host::here();
    let mut journal = Journal::lock(&host, Duration::ZERO, &mut |_| {})?;
    let removal = Default::default();
    execute::down(&host, &mut journal, removal, &false.into(), &mut |_| {})
}

/// What is swapped to, in order of the names.
fn areas() -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap();
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let mut areas: Vec<String> = text.lines().skip(1).filter_map(first).collect();
    areas.sort();
    areas
}

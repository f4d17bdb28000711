//! `up` and `down` on this machine.

use std::time::Duration;

use zmeld_linux::Host;
use zmeld_swap::config::Config;
use zmeld_swap::execute::{self, Report};
use zmeld_swap::journal::Journal;
use zmeld_swap::plan::{Options, Plan};

pub fn up(config: &Config) -> Result<Report, zmeld_swap::Error> {
    let host = Host::here();
    let mut journal = Journal::lock(&host, Duration::ZERO, &mut |_| {})?;
    let state = journal.state().clone();
    let plan = Plan::new(&host, config, Some(&state), &Options::default())?;
    execute::up(&host, &mut journal, &plan, &false.into(), &mut |_| {})
}

pub fn down() -> Result<Report, zmeld_swap::Error> {
    let host = Host::here();
    let mut journal = Journal::lock(&host, Duration::ZERO, &mut |_| {})?;
    let removal = Default::default();
    execute::down(&host, &mut journal, removal, &false.into(), &mut |_| {})
}

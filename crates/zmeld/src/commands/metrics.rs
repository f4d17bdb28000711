//! `zmeld metrics`: an observation as Prometheus reads it, printed or written.

use std::path::PathBuf;

use clap::Args;
use zmeld_config::Config;
use zmeld_linux::{file, Host};
use zmeld_swap::observe::{Device, Observation};
use zmeld_swap::status::outstanding::Outstanding;
use zmeld_swap::status::{findings::findings, metrics};

use super::status::page_size;
use crate::args::MachineArgs;
use crate::exit::{Outcome, EXIT_CODES};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zmeld metrics                        to standard output
  zmeld metrics --textfile /var/lib/prometheus/node-exporter/zmeld.prom
                                       for node_exporter; whole or not at all";

#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct MetricsArgs {
    /// Write this file instead, under another name first
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,

    #[command(flatten)]
    pub place: MachineArgs,
}

pub fn run(args: &MetricsArgs) -> anyhow::Result<Outcome> {
    let (host, config) = (args.place.host(), args.place.config()?);
    let text = match &args.textfile {
        Some(_) => text_for_others(&host, &config),
        None => text(&host, &config),
    };
    match &args.textfile {
        Some(path) => file::replace(path, text.as_bytes(), None)?,
        None => output::print(&text)?,
    }
    Ok(Outcome::Done)
}

/// Metrics for other users, as that of node_exporter. Whether a page had a twin is told only where
/// the configuration says so.
pub fn text_for_others(host: &Host, config: &Config) -> String {
    let mut now = Observation::read(host, page_size());
    if !config.metrics.melding {
        now.devices.iter_mut().for_each(Device::hide_melding);
    }
    rendered(host, config, &now)
}

fn text(host: &Host, config: &Config) -> String {
    rendered(host, config, &Observation::read(host, page_size()))
}

fn rendered(host: &Host, config: &Config, now: &Observation) -> String {
    // A journal that cannot be read is the business of `zmeld status`.
    let outstanding = Outstanding::read(host, Some(config), None);
    metrics::render(now, &findings(now, &outstanding))
}

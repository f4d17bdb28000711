//! Every command, option and help text, once. The man page and the shell
//! completions are made from the same definitions.

use clap::{CommandFactory, Parser, Subcommand};

use crate::args::{CodecsArgs, CompletionsArgs, ScanArgs};
use crate::exit::EXIT_CODES;

const EXAMPLES: &str = "\
Examples:
  zmeld scan                   what would this machine gain?
  zmeld scan --html scan.html  the same, as a page with plots
  zmeld codecs /usr/bin/perl   every codec on the pages of a file
  zmeld scan --help            more examples; exit codes";

/// zmeld makes the memory of a Linux machine go further.
#[derive(Parser)]
#[command(
    name = "zmeld",
    version,
    about = "Makes the memory of a Linux machine go further",
    long_about = "Makes the memory of a Linux machine go further: says what compressing memory \
                  and melding identical pages would save, sets it up, watches it, and proves what \
                  it gains.",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"),
    max_term_width = 80
)]
pub struct Cli {
    /// Command to run
    #[command(subcommand)]
    pub command: Command,

    /// Show no progress (scan --survey: print nothing but errors)
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// How much would compression and melding save here, with which codec?
    Scan(Box<ScanArgs>),
    /// How does each codec do on these pages, one page at a time?
    Codecs(CodecsArgs),
    /// What suits this machine, and what would zmeld up do?
    Plan(Box<crate::commands::setup::PlanArgs>),
    /// Set compressed swap up
    Up(Box<crate::commands::setup::UpArgs>),
    /// Put everything back as it was
    Down(crate::commands::setup::DownArgs),
    /// Set up what is configured, now and at every boot
    Enable(crate::commands::enable::EnableArgs),
    /// Put everything back, now and for every boot
    Disable(crate::commands::enable::DisableArgs),
    /// How are memory's tiers doing, and what is wrong with them?
    Status(crate::commands::status::StatusArgs),
    /// Tiers, findings and whose pages are in swap, live
    Top(crate::commands::top::TopArgs),
    /// Run a melding pass on a device now
    Meld(crate::commands::meld::MeldArgs),
    /// Recompress, write back, meld and reclaim by rules, as a daemon
    Watch(crate::commands::watch::WatchArgs),
    /// Metrics for Prometheus, once
    Metrics(crate::commands::metrics::MetricsArgs),
    /// Does it help my workload? Experiments under real memory pressure
    Bench(crate::commands::bench::BenchArgs),
    /// The configuration: check it, show it, take another tool's over
    Config(crate::commands::config::ConfigArgs),
    /// The configuration as units of systemd
    Export(crate::commands::export::ExportArgs),
    /// Write systemd units at boot; systemd calls this
    #[command(hide = true)]
    Generator(crate::commands::generator::GeneratorArgs),
    /// Say which of these codecs suits the memory of all processes; plan and up call this
    #[command(hide = true)]
    Measure(crate::commands::setup::MeasureArgs),
    /// Print the JSON Schema of what a command prints with --json
    Schema(crate::commands::schema::SchemaArgs),
    /// Write the man page to standard output
    Man,
    /// Write shell completions to standard output
    Completions(CompletionsArgs),
    Numa(Box<crate::commands::numa::NumaArgs>),
}

impl Command {
    /// Whether it reads the memory of processes, which may not let go of it: it takes no lock and
    /// changes nothing.
    pub fn reads_processes(&self) -> bool {
        match self {
            Command::Scan(args) => args.source.file.is_none(),
            Command::Measure(_) => true,
            _ => false,
        }
    }
}

/// The whole command line as clap knows it, for the man page and completions.
pub fn definition() -> clap::Command {
    Cli::command()
}

/// [`definition`] for parsing: `--cold -5` is a wrong amount and no unknown option.
pub fn strict() -> clap::Command {
    negative_checked(definition())
}

fn negative_checked(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_action().takes_values() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
        .mut_subcommands(negative_checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        strict().debug_assert();
        definition().debug_assert();
    }

    /// Text broken by hand is broken again where it does not fit, in the middle of a line.
    fn fits(mut command: clap::Command) {
        let rendered = [command.render_help(), command.render_long_help()];
        let by_hand = [command.get_after_help(), command.get_after_long_help()];
        for text in by_hand.into_iter().flatten().chain(&rendered) {
            let text = text.to_string();
            let wide = text.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{}", command.get_name());
        }
        command.get_subcommands().cloned().for_each(fits);
    }

    #[test]
    fn no_line_of_any_help_is_wider_than_a_terminal() {
        let mut all = definition();
        all.build();
        fits(all);
    }
}

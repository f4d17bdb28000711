//! `zmeld`: the command line. It parses, checks, runs and prints; what it runs
//! is in the libraries.

// All output goes through `output`, where other people's text is made harmless and a closed pipe is
// no panic.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod apart;
mod args;
mod cli;
mod commands;
mod exit;
mod output;
mod progress;

use std::process::ExitCode;

use clap::FromArgMatches;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let arguments = commands::generator::arguments(std::env::args_os());
    let parsed = cli::strict().try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(err) => return exit::refuse(&err, cli::definition(), &arguments),
    };
    progress::set_quiet(cli.quiet);
    if cli.command.reads_processes() {
        match apart::run() {
            Ok(None) => {}
            Ok(Some(code)) => return code,
            Err(err) => return exit::conclude(Err(err.into())),
        }
    }
    let result = match cli.command {
        Command::Scan(args) => commands::scan::run(&args),
        Command::Codecs(args) => commands::codecs::run(&args),
        Command::Plan(args) => commands::setup::plan(&args),
        Command::Up(args) => commands::setup::up(&args),
        Command::Down(args) => commands::setup::down(&args),
        Command::Enable(args) => commands::enable::enable(&args),
        Command::Disable(args) => commands::enable::disable(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Numa(args) => commands::numa::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Meld(args) => commands::meld::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::Config(args) => commands::config::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Generator(args) => commands::generator::run(&args),
        Command::Measure(args) => commands::setup::measure(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Man => commands::generate::man(&cli::definition()),
        Command::Completions(args) => commands::generate::completions(&args, cli::definition()),
    };
    let code = exit::conclude(result);
    apart::leave();
    code
}

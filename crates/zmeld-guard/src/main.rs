//! `zmeld-guard`: the guard as a service. It reads `[watch.guard]` of the configuration,
//! looks until it is told to end, and says a line on standard error for each thing that it
//! does.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use zmeld_config::{Config, Finding, GuardRule};
use zmeld_guard::Error;
use zmeld_linux::Host;

const HELP: &str = "\
Usage: zmeld-guard [--dry-run] [--config FILE]

Before the machine stands still, ends what the kernel's OOM killer would end,
a process at a time, of the user or service that holds most, as [watch.guard]
of /etc/zmeld.toml says; tells zmeld watch to make room before that. See
docs/guard.md. SIGTERM ends it.

  --dry-run      list who holds memory and what would go first of each, then
                 only say what would be ended, and why, until Ctrl-C
  --config FILE  this file in place of /etc/zmeld.toml and its drop-ins
  --version      print the version";

fn main() -> ExitCode {
    let (mut dry_run, mut file) = (false, None);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--dry-run") => dry_run = true,
            Some("--config") => match arguments.next() {
                Some(path) => file = Some(PathBuf::from(path)),
                None => {
                    log("--config needs a file; see --help");
                    return ExitCode::from(2);
                }
            },
            Some("--help" | "-h") => return said(HELP),
            Some("--version") => return said(concat!("zmeld-guard ", env!("CARGO_PKG_VERSION"))),
            _ => {
                log(&format!("there is no argument {argument:?}; see --help"));
                return ExitCode::from(2);
            }
        }
    }
    match run(dry_run, file) {
        Ok(code) => code,
        Err(err) => {
            log(&err.to_string());
            ExitCode::from(match err {
                Error::Missing(_) => 3,
                _ => 2,
            })
        }
    }
}

fn said(text: &str) -> ExitCode {
    // A closed pipe is no failure.
    let _ = writeln!(std::io::stdout(), "{text}");
    ExitCode::SUCCESS
}

/// The rule, and whether it is only to say what it would do. Faults of tiers and other rules keep
/// it from nothing; a section or rule that does not exist may be its own, misspelt.
fn wanted(root: &Path, file: Option<&Path>) -> Result<(Option<GuardRule>, bool), Error> {
    let wrong = |err: &dyn std::fmt::Display| Error::Config(err.to_string());
    let loaded = Config::load_at_boot(root, file).map_err(|err| wrong(&err))?;
    let concerns_it = |(part, it): &(&String, &Finding)| {
        let is_rule = ["watch", "watch.guard"].contains(&part.as_str());
        is_rule || it.about == **part && !part.starts_with("tier.")
    };
    match loaded.left_out.iter().find(concerns_it) {
        Some((_, it)) => Err(wrong(it)),
        None => Ok((loaded.config.watch.guard, loaded.config.watch.dry_run)),
    }
}

fn run(dry_run: bool, file: Option<PathBuf>) -> Result<ExitCode, Error> {
    let host = Host::here();
    let (rule, is_dry) = wanted(host.root(), file.as_deref())?;
    let Some(rule) = rule.or_else(|| dry_run.then(Default::default)) else {
        zmeld_linux::service::notify("READY=1");
        log(
            "nothing is guarded: [watch.guard] is not there, or not enabled; write it into \
             /etc/zmeld.toml, or see what it would do: zmeld-guard --dry-run",
        );
        return Ok(ExitCode::SUCCESS);
    };
    // A guard that lacks one of its threads is none: its service begins it anew.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        log("this is a fault of zmeld, please report it");
        std::process::abort();
    }));
    let dry_run = dry_run || is_dry;
    let mut lock = None;
    if dry_run {
        let lines = zmeld_guard::overview(&host, &rule)?;
        lines.iter().for_each(|line| log(line));
        log("from now on it says what it would end; Ctrl-C ends it");
    } else if !rustix::process::geteuid().is_root() {
        let why = "zmeld-guard needs root, to end what others run: begin it with sudo, or have \
                   --dry-run say what it would do";
        return Err(Error::Missing(why.to_owned()));
    } else {
        match zmeld_guard::note::lock(&host) {
            Ok(taken) => lock = Some(taken),
            Err(err @ Error::CannotGuard { .. }) => return Err(err),
            // It guards all the same, though status cannot tell that it does.
            Err(err) => log(&err.to_string()),
        }
        zmeld_guard::unmatched(&host, &rule).for_each(|line| log(&line));
    }
    zmeld_guard::start(host, rule, dry_run, |text| log(&text))?;
    zmeld_linux::service::notify("READY=1");
    loop {
        // HeldMemory as long as this is.
        let _ = &lock;
        std::thread::park();
    }
}

/// A line on standard error, as the journal likes it.
fn log(text: &str) {
    let text = zmeld_linux::text::inert(text);
    // Nobody may read it.
    let _ = writeln!(std::io::stderr(), "zmeld-guard: {text}");
}

#[test]
fn no_line_of_the_help_is_wider_than_a_terminal() {
    let wide = HELP.lines().find(|line| line.len() > 80);
    assert_eq!(wide, None);
}

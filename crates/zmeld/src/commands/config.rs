//! `zmeld config`: checking, showing and taking over configurations.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context};
use clap::{Args, Subcommand};
use serde::Serialize;
use zmeld_config::advice::machine::Machine;
use zmeld_config::advice::{Choice, CodecVerdict, Recommended};
use zmeld_config::{Comments, Config, ConfigError, Finding, FindingId, Loaded, Severity};
use zmeld_linux::file;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::Host;
use zmeld_report::text::inert;
use zmeld_swap::migrate::import::{import, import_file};
use zmeld_swap::setup::journal::State;
use zmeld_swap::setup::Error;
use zmeld_swap::status::config_check::{config_check, not_offered};

use crate::exit::{Outcome, EXIT_CODES};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zmeld config check               every mistake and warning, one line each
  zmeld config check swap.toml     of one file
  zmeld config show                all files as one, as zmeld understands them
  zmeld config import              what other tools and fstab set up
  zmeld config import ~/zram-generator.conf

docs/keys.md has every key.";

#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub action: Action,
}

/// Actions on a configuration.
#[derive(Subcommand)]
pub enum Action {
    /// Name every mistake and every warning; exit with 1 for warnings, 2 for mistakes and
    /// for what zmeld up would refuse here
    Check(FileArgs),
    /// Print all files as one
    Show(ShowArgs),
    /// Print a configuration for what other tools set up on this machine
    Import(ImportArgs),
}

/// Which configuration.
#[derive(Args)]
pub struct FileArgs {
    /// This file alone [default: /etc/zmeld.toml and its drop-ins]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// The same, as other commands take it
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "file",
        hide_short_help = true
    )]
    config: Option<PathBuf>,

    /// Read the files of another machine below this directory
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    pub root: PathBuf,
}

impl FileArgs {
    /// Reads it. A file that is named has to be there; without one, nothing may be.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        Config::load(&self.root, self.named())
    }

    pub fn named(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }
}

#[derive(Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub file: FileArgs,

    /// Print JSON; zmeld schema describes it
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ImportArgs {
    /// This file of another tool alone, such as zram-generator.conf, zramswap or fstab
    /// [default: all of this machine's]
    #[arg(value_name = "FILE", conflicts_with = "root")]
    pub file: Option<PathBuf>,

    /// Read the files below this directory, such as DIR/etc/systemd/zram-generator.conf
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,

    /// Write to this file, which must not be there yet
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub fn run(args: &ConfigArgs) -> anyhow::Result<Outcome> {
    match &args.action {
        Action::Check(args) => check(args),
        Action::Show(args) => show(args),
        Action::Import(args) => take_over(args),
    }
}

fn check(args: &FileArgs) -> anyhow::Result<Outcome> {
    let loaded = match args.load() {
        Ok(loaded) => loaded,
        Err(err) => {
            err.problems.iter().for_each(tell);
            output::print(&unchecked(&err.problems))?;
            return Ok(Outcome::Refused);
        }
    };
    let files: Vec<_> = loaded
        .files
        .iter()
        .map(|file| inert(&file.to_string_lossy()).into_owned())
        .collect();
    let count = loaded.config.tiers.len();
    let is_empty = loaded.config == Config::default();
    let (findings, how) = look(&Host::at(&args.root), loaded)?;
    findings.iter().for_each(tell);
    let count_of = |severity| findings.iter().filter(|it| it.severity == severity).count();
    let (warnings, refused) = (count_of(Severity::Warning), count_of(Severity::Critical));
    let said_of_warnings = match warnings {
        0 => "no mistake, no warning".to_owned(),
        1 => "1 warning".to_owned(),
        count => format!("{count} warnings"),
    };
    let found = match (warnings, refused) {
        (0, 0) => said_of_warnings,
        (_, 0) => format!("no mistake, {said_of_warnings}"),
        (0, count) => format!("{count} refused here by zmeld up"),
        (_, count) => format!("{said_of_warnings}, {count} refused here by zmeld up"),
    };
    let s = if count == 1 { "" } else { "s" };
    let said = match count {
        0 if is_empty && findings.is_empty() => match files.is_empty() {
            true => "nothing is asked for".to_owned(),
            false => "empty".to_owned(),
        },
        0 => found,
        count => format!("{count} tier{s}, {found}"),
    };
    let files = match files.is_empty() {
        true => "there is no /etc/zmeld.toml".to_owned(),
        false => files.join(", "),
    };
    output::print(&format!("{files}: {said}{how}\n"))?;
    Ok(match (warnings, refused) {
        (0, 0) => Outcome::Done,
        (_, 0) => Outcome::Missed,
        _ => Outcome::Refused,
    })
}

/// What mistakes keep from being checked.
fn unchecked(problems: &[Finding]) -> String {
    let is_mistake =
        |found: &&Finding| found.severity == Severity::Critical && found.place.is_some();
    let count = problems.iter().filter(is_mistake).count();
    let (s, them) = match count {
        0 => return String::new(),
        1 => ("", "it"),
        _ => ("s", "them"),
    };
    format!(
        "{count} mistake{s}. Mend {them} and check again: not all was checked, such as whether it \
         suits this machine.\n"
    )
}

fn tell(found: &Finding) {
    match found.severity {
        Severity::Notice => output::say(format_args!("notice: {found}")),
        Severity::Warning => output::say(format_args!("warning: {found}")),
        Severity::Critical => output::say(found),
    }
}

/// Completes a configuration without tiers, unmeasured: with the tiers that are set up, else with
/// those that are recommended. One with tiers stays as it is.
fn completed(
    host: &Host,
    machine: &Machine,
    loaded: Loaded,
    state: Option<&State>,
) -> anyhow::Result<Loaded> {
    if loaded.config.says_of_tiers() {
        return Ok(loaded);
    }
    let found = match state.filter(|state| state.config.says_of_tiers()) {
        Some(state) => state.config.clone(),
        None => {
            let own = super::setup::own_swaps(host);
            let found = Recommended::new(machine, &Choice::default(), &CodecVerdict::Not, &own);
            found.map_err(|what| Error::Refused { what })?.config
        }
    };
    Ok(loaded.completed(found))
}

/// Findings in a configuration that has no mistake, and the reference they are held against.
/// Another machine's file may be checked here: what this one lacks is no mistake. A warning may be
/// meant; what is critical `zmeld up` refuses there; a notice may be no fault.
fn look(host: &Host, loaded: Loaded) -> anyhow::Result<(Vec<Finding>, &'static str)> {
    let Ok(machine) = Machine::read(host) else {
        let how = "; the file alone was looked at, and no machine";
        return Ok((loaded.warnings, how));
    };
    let state = super::setup::readable_state(host)?;
    let is_set_up = state.as_ref().is_some_and(|it| it.config.says_of_tiers());
    let is_asked_for = loaded.config.says_of_tiers() || is_set_up;
    let (count, is_without) = (loaded.config.tiers.len(), loaded.config.without_tiers);
    let loaded = completed(host, &machine, loaded, state.as_ref())?;
    let how = match is_asked_for {
        _ if is_without => "; every tier is switched off: zmeld up sets up none",
        false => "; zmeld up would choose the tiers, and that choice was checked",
        true if count == 0 => "; looked at with the tiers that are set up",
        true => "",
    };
    let found = config_check(host, &machine, &loaded.config, state.as_ref());
    let found = found.into_iter().map(|problem| Finding {
        place: loaded.place(&problem.about).cloned(),
        ..problem
    });
    let mut findings: Vec<Finding> = loaded.warnings.iter().cloned().chain(found).collect();
    // A warning of tiers that nobody asked for is none of the file; what zmeld up refuses, it
    // refuses whoever asked.
    findings.retain(|it| is_asked_for || it.place.is_some() || it.severity == Severity::Critical);
    // What is refused needs no rule.
    let is_refused = |it: &&Finding| it.severity == Severity::Critical;
    let refused = findings.iter().filter(is_refused);
    let refused: Vec<String> = refused.map(|it| it.about.clone()).collect();
    findings.retain(|it| it.id != Some(FindingId::NoRule) || !refused.contains(&it.about));
    Ok((loaded.in_order(findings), how))
}

/// The configuration as it was read.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Shown<'a> {
    /// The files that were read, the first one first.
    files: &'a [PathBuf],
    /// The files' joint configuration.
    config: &'a Config,
    /// Warnings, one line each.
    warnings: Vec<String>,
}

fn show(args: &ShowArgs) -> anyhow::Result<Outcome> {
    let loaded = args.file.load()?;
    if args.json {
        let shown = Shown {
            files: &loaded.files,
            config: &loaded.config,
            warnings: loaded.warnings.iter().map(Finding::to_string).collect(),
        };
        output::print(&output::json(("zmeld.config", 1), &shown))?;
        return Ok(Outcome::Done);
    }
    loaded.warnings.iter().for_each(tell);
    let files: Vec<_> = loaded.files.iter().map(|it| it.to_string_lossy()).collect();
    let head = match files.as_slice() {
        [] => "Nothing is configured.".to_owned(),
        files => format!("From {}.", files.join(", ")),
    };
    let comments = Comments::from([(String::new(), head)]);
    output::print(&loaded.config.to_toml(&comments))?;
    Ok(Outcome::Done)
}

fn take_over(args: &ImportArgs) -> anyhow::Result<Outcome> {
    let root = &args.root;
    ensure!(root.is_dir(), "{}: no such folder", root.display());
    let imported = match &args.file {
        Some(file) => import_file(file, ram_bytes(root)?)?.with_context(|| {
            format!(
                "{}: no file of zram-generator, zram-tools or rpi-swap, and no fstab; --root DIR \
                 reads all files of another machine",
                file.display()
            )
        })?,
        None => import(root, ram_bytes(root)?)?,
    };
    if args.file.is_some() && imported.files.is_empty() && !imported.left.is_empty() {
        bail!("{}", imported.left.join("; "));
    }
    for left in &imported.left {
        output::say(format_args!("not carried over: {left}"));
    }
    if imported.files.is_empty() && imported.left.is_empty() {
        bail!(
            "nothing to take over: none of zram-generator, zram-tools and rpi-swap is configured, \
             and /etc/fstab has no swap line; zmeld plan suggests a configuration"
        );
    }
    if imported.config.tiers.is_empty() {
        match &args.file {
            Some(file) => bail!(
                "nothing to take over: {} sets up no swap on this machine; --root DIR reads all \
                 files of another",
                file.display()
            ),
            None => bail!("nothing to take over: no file that zmeld reads here sets up swap"),
        }
    }
    if args.root != Path::new("/") && !args.root.join("proc/meminfo").exists() {
        output::say(format_args!(
            "{} has no proc/meminfo: sizes that depend on RAM are for the RAM of this machine",
            args.root.display()
        ));
    }
    let findings = imported.config.check();
    findings.iter().for_each(tell);
    let is_mistake = |it: &Finding| it.severity == Severity::Critical;
    let is_refused = findings.iter().any(is_mistake);
    let text = imported.to_toml();
    match &args.output {
        Some(path) if is_refused => bail!(
            "{} is not written, since zmeld config check would refuse it; mend the lines above, or \
             take the file from standard output and mend it there",
            path.display()
        ),
        None => output::print(&text)?,
        Some(path) => {
            // Nobody's configuration is overwritten.
            file::create(path, text.as_bytes(), None)?;
        }
    }
    if is_refused {
        output::say(
            "zmeld config check refuses this configuration: first mend what is named above",
        );
        return Ok(Outcome::Refused);
    }
    not_offered(&Host::at(root), &imported.config)
        .iter()
        .for_each(tell);
    Ok(Outcome::Done)
}

/// `MemTotal` of the machine in that directory; of this one where it has none.
pub fn ram_bytes(root: &Path) -> anyhow::Result<u64> {
    for host in [Host::at(root), Host::here()] {
        let Some(text) = host.read_optional(meminfo::PATH)? else {
            continue;
        };
        if let Some(bytes) = Meminfo::new(&text).total_bytes() {
            return Ok(bytes);
        }
    }
    bail!("/proc/meminfo has no MemTotal; mount proc on /proc")
}

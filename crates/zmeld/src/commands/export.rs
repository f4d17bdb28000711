//! `zmeld export`: the configuration as units of systemd.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context};
use clap::Args;
use zmeld_config::Config;
use zmeld_linux::fstab::Fstab;
use zmeld_linux::{file, Host};
use zmeld_swap::migrate::units;

use super::config::FileArgs;
use crate::exit::{Outcome, EXIT_CODES};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zmeld export systemd                 the units, one after the other
  zmeld export systemd --dir units     as files, for /etc/systemd/system";

#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct ExportArgs {
    /// Form of what is printed: systemd, units for machines without zmeld's generator
    #[arg(value_parser = ["systemd"])]
    pub form: String,

    #[command(flatten)]
    pub file: FileArgs,

    /// Write units into this directory, which is created
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub fn run(args: &ExportArgs) -> anyhow::Result<Outcome> {
    let loaded = args.file.load()?;
    let config = &loaded.config;
    if *config == Config::default() {
        bail!("nothing is configured; zmeld plan --toml --output /etc/zmeld.toml writes a configuration");
    }
    for warning in &loaded.warnings {
        output::say(warning);
    }
    let program = super::generator::program();
    let file = args.file.named().map(|file| {
        let what = || format!("cannot find {} again", file.display());
        file.canonicalize().with_context(what)
    });
    let file = file.transpose()?;
    if let Some(file) = file.as_ref().filter(|file| !stays(file)) {
        output::say(format_args!(
            "the units read {} at every boot: keep it where they can, under /etc, and export that",
            file.display()
        ));
    }
    let maker = units::Maker {
        program: &program,
        source: file.as_deref(),
        fstab: &Fstab::read(Host::here().tree()),
        install: true,
    };
    let units = units::units(config, &maker);
    match &args.dir {
        None => output::print(&text(&units))?,
        Some(dir) => write(dir, &units)?,
    }
    Ok(Outcome::Done)
}

/// Whether a file is there at boot, and for services that see neither homes nor
/// other people's temporary files.
pub fn stays(file: &Path) -> bool {
    let gone = [
        "/home", "/root", "/tmp", "/var/tmp", "/run", "/dev", "/proc",
    ];
    !gone.iter().any(|folder| file.starts_with(folder))
}

fn text(units: &[units::Unit]) -> String {
    let mut text = String::new();
    for unit in units {
        text.push_str(&format!("### {}\n", unit.path.display()));
        match &unit.content {
            units::Content::Text(content) => text.push_str(content),
            units::Content::Link(target) => {
                text.push_str(&format!("# a link to {}\n", target.display()));
            }
        }
        text.push('\n');
    }
    text
}

/// Writes new files: all, or none where one is there already.
fn write(dir: &Path, units: &[units::Unit]) -> anyhow::Result<()> {
    for unit in units {
        let path = dir.join(&unit.path);
        if path.symlink_metadata().is_ok() {
            bail!("{} is there already; remove it first", path.display());
        }
    }
    for unit in units {
        let path = dir.join(&unit.path);
        let what = || format!("cannot write {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(what)?;
        }
        match &unit.content {
            units::Content::Text(content) => file::create(&path, content.as_bytes(), None)?,
            units::Content::Link(target) => symlink(target, &path).with_context(what)?,
        }
    }
    Ok(())
}

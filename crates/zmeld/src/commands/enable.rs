//! `zmeld enable` and `zmeld disable`: what is configured, now and at every boot.
//!
//! Swap is set up by `up` and taken down by `down`; what is added here is the
//! configuration, systemd's generator, and the services.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context};
use clap::Args;
use zmeld_config::Config;
use zmeld_linux::command::Invocation;
use zmeld_linux::fstab::Fstab;
use zmeld_linux::root_owned::{self, Pinned};
use zmeld_linux::service::runs_systemd;
use zmeld_linux::{Host, HostError};
use zmeld_swap::migrate::units::{units, Maker};

use super::setup::{self, DownArgs, PlanArgs, ProfileArgs, TierArgs, UpArgs};
use crate::exit::{Outcome, EXIT_CODES};
use crate::output;

const ENABLE_EXAMPLES: &str = "\
Examples:
  zmeld enable            what /etc/zmeld.toml says, or what suits this machine
  zmeld enable --dry-run  only say what would be done
  zmeld enable --tier zram --size 50% --codec zstd
  zmeld enable --profile desktop

zmeld disable takes it back.";

const DISABLE_EXAMPLES: &str = "\
Examples:
  zmeld disable            put everything back, now and at every boot
  zmeld disable --dry-run  only say what would be done

/etc/zmeld.toml becomes /etc/zmeld.toml.disabled. zmeld enable takes it from
there.";

#[derive(Args)]
#[command(after_help = ENABLE_EXAMPLES, after_long_help = format!("{ENABLE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct EnableArgs {
    #[command(flatten)]
    pub tier: TierArgs,

    /// Further parts of the configuration
    #[command(flatten)]
    pub profile: ProfileArgs,

    /// Only say what would be written, set up and started
    #[arg(long, help_heading = "How")]
    pub dry_run: bool,
}

#[derive(Args)]
#[command(after_help = DISABLE_EXAMPLES, after_long_help = format!("{DISABLE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct DisableArgs {
    /// Only say what would be undone, stopped and renamed
    #[arg(long)]
    pub dry_run: bool,
}

const CONFIG: &str = "/etc/zmeld.toml";
const DISABLED: &str = "/etc/zmeld.toml.disabled";
/// Place of a generator that no package installs.
const GENERATOR: &str = "/etc/systemd/system-generators/zmeld-generator";
const PACKAGED: [&str; 2] = [
    "/usr/lib/systemd/system-generators/zmeld-generator",
    "/lib/systemd/system-generators/zmeld-generator",
];
/// Those that may run with a configuration that was changed since.
const SERVICES: [&str; 2] = ["zmeld-watch.service", "zmeld-guard.service"];
/// Those that have nothing left to do once all is taken down: patterns, since systemctl fails
/// for the name of a unit that is not there, and passes over a pattern.
const LEFT: [&str; 2] = ["zmeld.service*", "zmeld-tier-*.service"];
const BESIDES: &str = "\nThis would be done besides; nothing was changed:\n";

pub fn enable(args: &EnableArgs) -> anyhow::Result<Outcome> {
    let host = by_root_under_systemd(
        "zmeld enable",
        "zmeld plan --toml --output /etc/zmeld.toml, with these options, zmeld up and rc-update add \
         zmeld boot",
        args.dry_run,
    )?;
    let program = installed()?;
    let generator = masked_or_found()?;
    let wrote = Wrote::of(args)?;
    if args.dry_run {
        return would_enable(args, &host, &wrote, &program, generator);
    }
    wrote.write(args)?;
    let set_up = || {
        let loaded = Config::load(host.root(), None)?;
        has_its_guard(&loaded.config, &program)?;
        anyhow::Ok((setup::up(&UpArgs::default())?, loaded))
    };
    let loaded = match set_up() {
        Ok((Outcome::Done, loaded)) => loaded,
        other => {
            wrote.undo()?;
            return other.map(|(outcome, _)| outcome);
        }
    };
    if !generator {
        let folder = Path::new(GENERATOR).parent().expect("it has one");
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        symlink(&program, GENERATOR).with_context(|| format!("cannot link {GENERATOR}"))?;
    }
    systemctl(&host, "daemon-reload", &[""; 0])?;
    let [start, restart, stop] = services(&host, &loaded.config, &program);
    for (verb, services) in [&start, &restart, &stop] {
        systemctl(&host, verb, services)?;
    }
    let files: Vec<_> = loaded
        .files
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    let ran = [start.1, restart.1].concat();
    output::print(&format!(
        "Enabled, now and at every boot, as {} says: {}.\nzmeld disable takes it back.\n",
        files.join(", "),
        ran.join(", ")
    ))?;
    Ok(Outcome::Done)
}

/// Services by fate: those to run, those whose rules may have changed, and those that the
/// configuration does not ask for any more.
fn services(host: &Host, config: &Config, program: &Path) -> [(&'static str, Vec<String>); 3] {
    let maker = Maker {
        program,
        source: None,
        fstab: &Fstab::read(host.tree()),
        install: false,
    };
    let made = units(config, &maker);
    let services = made.iter().filter_map(|unit| unit.path.to_str());
    let services = services.filter(|path| path.ends_with(".service") && !path.contains('/'));
    let (rules, tiers): (Vec<String>, Vec<_>) = services
        .map(str::to_owned)
        .partition(|it| SERVICES.contains(&it.as_str()));
    let ran = SERVICES.map(str::to_owned).into_iter();
    let ran = ran.filter(|it| !rules.contains(it) && is_active(host, it));
    let ran = ran.collect();
    [("start", tiers), ("restart", rules), ("stop", ran)]
}

/// Says what `enable` would do: the plan, then its own part.
fn would_enable(
    args: &EnableArgs,
    host: &Host,
    wrote: &Wrote,
    program: &Path,
    generator: bool,
) -> anyhow::Result<Outcome> {
    let mut plan = PlanArgs {
        toml: false,
        output: None,
        ..plan_of(args)
    };
    let file = match wrote {
        Wrote::Nothing => "the configuration stays as it is".to_owned(),
        Wrote::New => format!("{CONFIG} has the configuration above"),
        Wrote::Renamed => {
            zmeld_linux::config_files::read_trusted(host.tree(), Path::new(DISABLED))?;
            plan.wanted.config = Some(DISABLED.into());
            format!("{DISABLED} becomes {CONFIG}")
        }
    };
    let (config, outcome) = setup::planned_for(&plan)?;
    if outcome != Outcome::Done {
        return Ok(outcome);
    }
    has_its_guard(&config, program)?;
    let link = format!("\n{GENERATOR} leads to {}", program.display());
    let link = if generator { "" } else { &link };
    let services = services(host, &config, program).into_iter();
    let services = services.filter(|(_, services)| !services.is_empty());
    let services = services.map(|(verb, services)| format!("\n{verb} {}", services.join(" ")));
    let services: String = services.collect();
    output::print(&format!("{BESIDES}{file}{link}{services}\n"))?;
    setup::as_the_run_would_end()
}

/// Takes it back, now and for every boot.
pub fn disable(args: &DisableArgs) -> anyhow::Result<Outcome> {
    let with_openrc = "zmeld down and rc-update del zmeld boot";
    let host = by_root_under_systemd("zmeld disable", with_openrc, args.dry_run)?;
    let is_there = Path::new(CONFIG).symlink_metadata().is_ok();
    if is_there && Path::new(DISABLED).symlink_metadata().is_ok() {
        bail!("{DISABLED} is there already, and {CONFIG} would take its place: move one away");
    }
    let ran: Vec<_> = SERVICES
        .into_iter()
        .filter(|service| is_active(&host, service))
        .collect();
    let link = fs::read_link(GENERATOR);
    let is_linked = link.is_ok_and(|to| to.file_name().is_some_and(|it| it == "zmeld"));
    if args.dry_run {
        setup::would_go_down(&DownArgs::default(), &host)?;
        let stop = [&ran[..], &LEFT].concat().join(" ");
        let file = is_there.then(|| format!("\n{CONFIG} becomes {DISABLED}"));
        let link = is_linked.then(|| format!("\n{GENERATOR} is removed"));
        let more = [file, link].map(Option::unwrap_or_default).concat();
        output::print(&format!("{BESIDES}stop {stop}{more}\n"))?;
        return setup::as_the_run_would_end();
    }
    systemctl(&host, "stop", &ran)?;
    match setup::down(&DownArgs::default()) {
        Ok(Outcome::Done) => {}
        other => {
            systemctl(&host, "start", &ran)?;
            return other;
        }
    }
    if is_there {
        fs::rename(CONFIG, DISABLED).with_context(|| format!("cannot rename {CONFIG}"))?;
        output::print(&format!("{CONFIG} is {DISABLED} now.\n"))?;
    }
    if is_linked {
        fs::remove_file(GENERATOR).with_context(|| format!("cannot remove {GENERATOR}"))?;
    }
    systemctl(&host, "daemon-reload", &[""; 0])?;
    systemctl(&host, "stop", &LEFT)?;
    for file in Config::load(host.root(), None)?.files {
        output::say(format_args!(
            "{} is still there: what it says is set up at the next boot",
            file.display()
        ));
    }
    Ok(Outcome::Done)
}

fn by_root_under_systemd(command: &str, with_openrc: &str, dry: bool) -> anyhow::Result<Host> {
    let is_root = rustix::process::geteuid().is_root();
    if !dry && !is_root {
        let what = command.to_owned();
        return Err(zmeld_swap::setup::Error::Privilege { what, is_root }.into());
    }
    let host = Host::here();
    if !runs_systemd(&host) {
        bail!("this machine does not run systemd; with OpenRC: {with_openrc}");
    }
    Ok(host)
}

/// This program, where root alone may change it: it runs at every boot.
fn installed() -> anyhow::Result<PathBuf> {
    let program = super::generator::program();
    let check = || -> Result<(), HostError> {
        let pinned = Pinned::open(Path::new("/"), &program, Some(0))?;
        match pinned.metadata()? {
            Some(meta) => root_owned::check(&program, &meta, 0),
            None => Ok(()),
        }
    };
    let way_out = || {
        format!(
            "it would run as root at every boot: first run sudo install -m 755 {} \
             /usr/local/bin/zmeld, then that one",
            program.display()
        )
    };
    check().with_context(way_out)?;
    if !super::export::stays(&program) {
        bail!("{} may be gone at a boot; {}", program.display(), way_out());
    }
    Ok(program)
}

/// A guard that is asked for is a program of its own, beside this one.
fn has_its_guard(config: &Config, program: &Path) -> anyhow::Result<()> {
    let guard = program.with_file_name("zmeld-guard");
    if config.watch.guard.is_some() && !guard.is_file() {
        bail!(
            "[watch.guard] needs {}: build it (cargo build --release -p zmeld-guard) and install \
             it there",
            guard.display()
        );
    }
    Ok(())
}

fn masked_or_found() -> anyhow::Result<bool> {
    match fs::read_link(GENERATOR) {
        Ok(to) if to == Path::new("/dev/null") => {
            bail!("{GENERATOR} is masked, a link to /dev/null: remove it first")
        }
        Ok(_) => Ok(true),
        Err(_) => Ok(PACKAGED.iter().any(|path| Path::new(path).exists())),
    }
}

/// Changes to the configuration, so that there is one.
enum Wrote {
    Nothing,
    New,
    Renamed,
}

impl Wrote {
    fn of(args: &EnableArgs) -> anyhow::Result<Wrote> {
        let asked = args.tier.is_given() || args.profile.profile.is_some();
        if let Some(file) = Config::load(Path::new("/"), None)?.files.first() {
            if asked {
                bail!(
                    "{} is there: change it and run zmeld enable without options, or zmeld \
                     disable first",
                    file.display()
                );
            }
            return Ok(Wrote::Nothing);
        }
        match !asked && Path::new(DISABLED).symlink_metadata().is_ok() {
            true => Ok(Wrote::Renamed),
            false => Ok(Wrote::New),
        }
    }

    fn write(&self, args: &EnableArgs) -> anyhow::Result<()> {
        match self {
            Wrote::Nothing => Ok(()),
            Wrote::Renamed => {
                fs::rename(DISABLED, CONFIG).with_context(|| format!("cannot rename {DISABLED}"))
            }
            Wrote::New => match setup::plan(&plan_of(args))? {
                Outcome::Done => Ok(()),
                _ => bail!("nothing was enabled"),
            },
        }
    }

    fn undo(&self) -> anyhow::Result<()> {
        let undone = match self {
            Wrote::Nothing => Ok(()),
            Wrote::New => fs::remove_file(CONFIG),
            Wrote::Renamed => fs::rename(CONFIG, DISABLED),
        };
        undone.with_context(|| format!("cannot take {CONFIG} back"))
    }
}

/// The plan whose configuration is written.
fn plan_of(args: &EnableArgs) -> PlanArgs {
    let mut plan = PlanArgs {
        profile: args.profile.clone(),
        toml: true,
        output: Some(CONFIG.into()),
        root: "/".into(),
        ..PlanArgs::default()
    };
    plan.wanted.tier = args.tier.clone();
    plan
}

fn is_active(host: &Host, service: &str) -> bool {
    let asked = Invocation::new("systemctl").args(["--quiet", "is-active", service]);
    host.run(&asked).is_ok()
}

fn systemctl(host: &Host, verb: &str, units: &[impl AsRef<str>]) -> anyhow::Result<()> {
    if verb != "daemon-reload" && units.is_empty() {
        return Ok(());
    }
    // A start may wait for a drive, a stop for pages that come back.
    let asked = Invocation::new("systemctl").unlimited().arg(verb);
    host.run(&asked.args(units.iter().map(AsRef::as_ref)))?;
    Ok(())
}

//! systemd units that set a configuration up at boot.
//!
//! Tiers that need no drive are one service, `zmeld.service`, which waits for
//! nothing. A tier with a drive has a service of its own, so that a drive that
//! is slow or missing holds up nothing but itself. What the boot waits for is
//! ordered before `swap.target`; an optional tier is not, and a drive that shows
//! up late starts its tier then.
//!
//! At shutdown nothing is taken down: systemd itself switches swap off and takes
//! mappings apart, when nothing is left that needs the pages. So the services do
//! not conflict with `shutdown.target`, and `zmeld down` runs only when somebody
//! stops them, and at a soft reboot: systemd switches swap off there, too, and a
//! service that stayed active would not set it up again.

use std::path::{Path, PathBuf};

use zmeld_config::{Config, Location, Place, Span, Tier};
use zmeld_linux::fstab::{unit_name, Fstab};

/// A file or link below a directory of units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    pub path: PathBuf,
    pub content: Content,
}

/// A [`Unit`]'s content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    Link(PathBuf),
}

/// The context in which units are made.
#[derive(Debug, Clone)]
pub struct Maker<'a> {
    /// The absolute path of `zmeld`.
    pub program: &'a Path,
    /// The main file of the configuration. Exported units read it when they run; those of
    /// the generator, and those without it, read `/etc/zmeld.toml` and its drop-ins.
    pub source: Option<&'a Path>,
    /// The fstab of the machine that the units are for.
    pub fstab: &'a Fstab,
    /// They are exported, with an `[Install]` section, and not the generator's, with links.
    pub install: bool,
}

/// Targets that want services.
const SWAP: &str = "swap.target";
const MULTI_USER: &str = "multi-user.target";

/// The longest name of a device's unit: with `.wants` behind it it is a folder's.
const UNIT_NAME_MAX: usize = 249;

/// How long setting up RAM devices may take: they are not waited for longer.
const RAM_TIMEOUT: Span = Span::seconds(90);
/// The same for tiers with a drive, where a file may have to be written.
const DRIVE_TIMEOUT: Span = Span::seconds(300);

/// All units for a configuration, in the order of their paths. None for one
/// that sets nothing up.
pub fn units(config: &Config, maker: &Maker<'_>) -> Vec<Unit> {
    let mut units = Vec::new();
    let without_drive: Vec<&Tier> = config
        .tiers
        .iter()
        .filter(|tier| tier.kind.place().is_none())
        .collect();
    // The boot waits for no service that waits for what comes after swap.
    let is_late = |files: &[&Path]| files.iter().any(|path| maker.fstab.is_late(path));
    let files: Vec<&Path> = without_drive
        .iter()
        .flat_map(|it| it.kind.files())
        .collect();
    let is_ram_late = is_late(&files);
    if !without_drive.is_empty() || config.tunables != Default::default() {
        let mut service = ram_service(config, &without_drive);
        service.detached |= is_ram_late;
        maker.service(&mut units, &service);
    }
    for tier in &config.tiers {
        if let Some(place) = tier.kind.place() {
            let mut service = drive_service(tier, &place);
            service.detached |= is_late(&tier.kind.files());
            if !is_ram_late {
                service.unit.insert(0, "After=zmeld.service".to_owned());
            }
            if let Some(device) = place.device {
                maker.device(
                    &mut units,
                    device,
                    &service,
                    place.timeout,
                    tier.swap.optional,
                );
            }
            maker.service(&mut units, &service);
        }
    }
    if config.watch.has_rules() || config.metrics != Default::default() {
        let text = include_str!("../../../../packaging/systemd/zmeld-watch.service");
        maker.packaged(&mut units, "zmeld-watch.service", text, config);
    }
    if config.watch.guard.is_some() {
        let text = include_str!("../../../../packaging/systemd/zmeld-guard.service");
        maker.packaged(&mut units, "zmeld-guard.service", text, config);
    }
    units.sort_by(|one, other| one.path.cmp(&other.path));
    units
}

/// How long a service may take to end. While pages come back into RAM, `zmeld down` asks for
/// more. A start that failed ends at once, though a command of its own waits for a drive:
/// the boot goes on.
const LIFETIME: [&str; 3] = [
    "TimeoutStopSec=180",
    "NotifyAccess=exec",
    "KillMode=process",
];

struct Service {
    /// Without `.service`.
    name: String,
    description: String,
    /// Lines of `[Unit]` beyond those that all have.
    unit: Vec<String>,
    /// The tiers; none for tunables alone.
    tiers: Vec<String>,
    timeout: Span,
    /// The boot does not wait for it.
    detached: bool,
}

fn ram_service(config: &Config, tiers: &[&Tier]) -> Service {
    let names: Vec<String> = tiers.iter().map(|tier| tier.name.to_string()).collect();
    let description = if names.is_empty() {
        "Memory tunables of zmeld".to_owned()
    } else {
        format!("Compressed swap of zmeld: {}", names.join(", "))
    };
    // A dictionary is read when the device is made.
    let files: Vec<&Path> = tiers.iter().flat_map(|tier| tier.kind.files()).collect();
    let optional = !tiers.is_empty() && tiers.iter().all(|tier| tier.swap.optional);
    Service {
        name: "zmeld".to_owned(),
        description,
        unit: files.iter().map(|path| mounted(path)).collect(),
        tiers: names,
        timeout: RAM_TIMEOUT,
        detached: optional && config.tunables == Default::default(),
    }
}

fn drive_service(tier: &Tier, place: &Place<'_>) -> Service {
    // As systemd orders its own: a file is swapped to once its file system may be written.
    let mut unit = vec!["After=systemd-remount-fs.service".to_owned()];
    if let Some(device) = place.device.and_then(device_unit) {
        // A tier that may be missing is passed over without a failed unit. One
        // that may not be is tried all the same, so that zmeld says what is
        // missing; and so is one that can do without the device.
        let need = if tier.swap.optional && !place.is_dispensable {
            "Requires"
        } else {
            "Wants"
        };
        unit.push(format!("{need}={device}"));
        unit.push(format!("After={device}"));
    }
    let files = tier.kind.files();
    unit.extend(files.iter().map(|path| mounted(path)));
    Service {
        name: format!("zmeld-tier-{}", tier.name),
        description: format!("Swap tier {} of zmeld", tier.name),
        unit,
        tiers: vec![tier.name.to_string()],
        timeout: DRIVE_TIMEOUT,
        detached: tier.swap.optional || place.is_dispensable,
    }
}

fn mounted(path: &Path) -> String {
    format!("RequiresMountsFor={}", quoted(&path.to_string_lossy()))
}

impl Maker<'_> {
    fn service(&self, units: &mut Vec<Unit>, service: &Service) {
        let file = format!("{}.service", service.name);
        let mut text = self.head();
        let mut line = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        line("[Unit]");
        line(&format!("Description={}", escaped(&service.description)));
        line("Documentation=man:zmeld(1)");
        if let Some(source) = self.source {
            line(&format!(
                "SourcePath={}",
                escaped(&source.to_string_lossy())
            ));
        }
        line("DefaultDependencies=no");
        line("IgnoreOnIsolate=yes");
        line("Conflicts=soft-reboot.target");
        line("Before=soft-reboot.target");
        line("ConditionVirtualization=!container");
        line("ConditionKernelCommandLine=!zmeld=0");
        line("After=systemd-modules-load.service systemd-udevd.service");
        for unit in &service.unit {
            line(unit);
        }
        if !service.detached {
            line(&format!("Before={SWAP}"));
        }
        line("");
        line("[Service]");
        line("Type=oneshot");
        line("RemainAfterExit=yes");
        let only = if service.tiers.is_empty() {
            String::new()
        } else {
            format!(" --only {}", service.tiers.join(","))
        };
        let program = argument(&self.program.to_string_lossy());
        let config = self.config_words();
        line(&format!("ExecStart={program} up --boot{config}{only}"));
        line(&format!("ExecStop={program} down --boot{only}"));
        line(&format!("TimeoutStartSec={}", service.timeout));
        for set in LIFETIME {
            line(set);
        }
        if self.install {
            line("");
            line("[Install]");
            line(&format!("WantedBy={SWAP}"));
        }
        units.push(Unit {
            path: PathBuf::from(&file),
            content: Content::Text(text),
        });
        self.link(units, SWAP, &file);
    }

    /// How long a device is waited for, and what it brings with it when it
    /// comes later.
    fn device(
        &self,
        units: &mut Vec<Unit>,
        device: &Location,
        service: &Service,
        timeout: Span,
        optional: bool,
    ) {
        let Some(unit) = device_unit(device) else {
            return;
        };
        let mut text = self.head();
        text.push_str("[Unit]\n");
        text.push_str(&format!("JobRunningTimeoutSec={timeout}\n"));
        units.push(Unit {
            path: PathBuf::from(format!("{unit}.d/50-zmeld.conf")),
            content: Content::Text(text),
        });
        if optional {
            let file = format!("{}.service", service.name);
            let content = Content::Link(PathBuf::from(format!("../{file}")));
            units.push(Unit {
                path: PathBuf::from(format!("{unit}.wants/{file}")),
                content,
            });
        }
    }

    /// A unit that is shipped as a file, with this program's path and what the
    /// configuration says.
    fn packaged(&self, units: &mut Vec<Unit>, file: &str, text: &str, config: &Config) {
        let program = argument(&self.program.to_string_lossy());
        let guard = argument(&self.program.with_file_name("zmeld-guard").to_string_lossy());
        let mut filled = self.head();
        let (body, install) = text.split_once("\n[Install]").unwrap_or((text, ""));
        let comment = |line: &&str| line.is_empty() || line.starts_with('#');
        for line in body.lines().skip_while(comment) {
            let line = line.replace("/usr/bin/zmeld-guard", &guard);
            let mut line = line.replace("/usr/bin/zmeld ", &format!("{program} "));
            if line.starts_with("ExecStart=") {
                line.push_str(&self.config_words());
            }
            let is_watch = file == "zmeld-watch.service";
            filled.push_str(&line);
            filled.push('\n');
            if line == "ProtectSystem=strict" {
                let folder = config.metrics.textfile.as_deref().and_then(Path::parent);
                if let (true, Some(folder)) = (is_watch, folder) {
                    // The folder may belong to an exporter that is not installed.
                    let folder = quoted(&format!("-{}", folder.display()));
                    filled.push_str(&format!("ReadWritePaths={folder}\n"));
                }
            }
        }
        if self.install {
            filled.push_str("\n[Install]");
            filled.push_str(install);
        }
        units.push(Unit {
            path: PathBuf::from(file),
            content: Content::Text(filled),
        });
        self.link(units, MULTI_USER, file);
    }

    /// The command's option for its configuration.
    fn config_words(&self) -> String {
        let file = self.source.filter(|_| self.install);
        file.map_or_else(String::new, |file| {
            format!(" --config {}", argument(&file.to_string_lossy()))
        })
    }

    fn link(&self, units: &mut Vec<Unit>, target: &str, file: &str) {
        if self.install {
            return;
        }
        units.push(Unit {
            path: PathBuf::from(format!("{target}.wants/{file}")),
            content: Content::Link(PathBuf::from(format!("../{file}"))),
        });
    }

    fn head(&self) -> String {
        let made = match self.install {
            true => "Written by zmeld export systemd.",
            false => {
                "Made by zmeld's generator from its configuration at each boot; changes are lost."
            }
        };
        format!("# {made}\n\n")
    }
}

/// The name of a device's unit. None where it is longer than systemd knows: a tier waits for its
/// drive by itself then.
fn device_unit(device: &Location) -> Option<String> {
    let name = unit_name(&device.path(), "device");
    (name.len() <= UNIT_NAME_MAX).then_some(name)
}

/// A value in which systemd expands nothing.
fn escaped(value: &str) -> String {
    value.replace('%', "%%")
}

/// A word of a command, in which systemd would expand variables, too.
fn argument(word: &str) -> String {
    quoted(&word.replace('$', "$$"))
}

/// A word of a list, quoted where it has to be.
fn quoted(word: &str) -> String {
    let word = escaped(word);
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    let inner = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{inner}\"")
}

//! Other tools that set swap up at boot, which are only named. And masks, which an administrator
//! put in place of a unit or a generator, so that it sets nothing up.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zmeld_config::{Kind, FROM_EARLYOOM};
use zmeld_linux::fstab::{unit_name, PACKAGED_UNITS};
use zmeld_linux::tree::Tree;
use zmeld_linux::{swaps, Host, HostError};

use super::imported::{command_line, lines, Imported, SourceLine, COMMAND_LINE};

/// Files of other tools, with whose they are.
const FILES: [(&str, &str); 19] = [
    ("/etc/dphys-swapfile", "dphys-swapfile"),
    ("/etc/swapspace.conf", "swapspace"),
    ("/etc/systemd/swap.conf", "systemd-swap"),
    ("/etc/conf.d/zram-init", "zram-init"),
    ("/etc/conf.d/zramen", "zramen"),
    ("/etc/sv/zramen/conf", "zramen"),
    ("/etc/default/armbian-zram-config", "Armbian's zram"),
    ("/etc/default/pop-zram", "Pop!_OS's zram"),
    ("/usr/bin/pop-zram-config", "Pop!_OS's zram"),
    ("/etc/systemd/nvzramconfig.sh", "Jetson's zram"),
    ("/etc/init.d/zram", "OpenWrt's zram-swap"),
    ("/etc/default/zramd", "zramd"),
    ("/etc/default/zram-swap", "zram-swap"),
    ("/etc/zramswap.conf", "zramswap"),
    ("/etc/zram.conf", "Fedora's former zram"),
    ("/etc/ztab", "zram-config"),
    ("/usr/bin/init-zram-swapping", "Ubuntu's zram-config"),
    ("/usr/sbin/zramstart", "Fedora's former zram"),
    (
        "/usr/lib/systemd/system/zramswap.service",
        "zramswap.service",
    ),
];
const NOT_READ: &str =
    "zmeld does not read it; what it sets up has to be written as a tier, and switched off there";
const EARLYOOM: &str = "/etc/default/earlyoom";
/// Azure's agent, which sets swap up where this line says so.
const AGENT: (&str, &str) = ("/etc/waagent.conf", "ResourceDisk.EnableSwap=y");
/// A program of the package that is read.
const ZRAM_TOOLS: &str = "/usr/sbin/zramswap";

/// Folders whose units override generated ones, the strongest first.
const UNITS: [&str; 4] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
];
/// Those of generators, over packaged ones.
const GENERATORS: [&str; 3] = [
    "/run/systemd/system-generators",
    "/etc/systemd/system-generators",
    "/usr/local/lib/systemd/system-generators",
];
const UDEV_RULES: [&str; 2] = ["/etc/udev/rules.d", "/run/udev/rules.d"];

const BYTES_MAX: u64 = 1 << 20;

/// A file that an administrator put in the place of a unit, and whether there is none for it.
pub(super) fn in_place_of(tree: &Tree, unit: &str) -> Option<(PathBuf, bool)> {
    let mut files = UNITS.iter().map(|folder| Path::new(folder).join(unit));
    let file = files.find(|file| tree.has(file).unwrap_or(false))?;
    let is_mask = is_mask(tree, &file);
    Some((file, is_mask))
}

/// The mask of one of these units.
pub(super) fn mask(tree: &Tree, units: &[&str]) -> Option<PathBuf> {
    let mut found = units.iter().filter_map(|unit| in_place_of(tree, unit));
    found.find(|(_, is_mask)| *is_mask).map(|(file, _)| file)
}

/// The link that keeps a generator from being run.
pub(super) fn mask_of_generator(tree: &Tree, name: &str) -> Option<PathBuf> {
    let mut files = GENERATORS.iter().map(|folder| Path::new(folder).join(name));
    let file = files.find(|file| tree.has(file).unwrap_or(false))?;
    leads_nowhere(tree, &file).then_some(file)
}

fn is_mask(tree: &Tree, file: &Path) -> bool {
    let is_empty = |it: std::fs::Metadata| it.len() == 0 && it.is_file();
    leads_nowhere(tree, file) || tree.metadata(file).is_ok_and(is_empty)
}

fn leads_nowhere(tree: &Tree, file: &Path) -> bool {
    tree.link(file)
        .is_some_and(|target| target.ends_with("dev/null"))
}

/// What `-m` says last in a line of earlyoom's file, where it is a whole percent that `end_below`
/// may have beside its defaults.
fn earlyoom_percent(line: &str) -> Option<u8> {
    let options = line
        .strip_prefix("EARLYOOM_ARGS=")?
        .trim_matches(['"', '\'']);
    let words: Vec<&str> = options.split_whitespace().collect();
    let after = words.iter().zip(words.iter().skip(1).chain([&""]));
    let given = after.filter_map(|(word, next)| match word.strip_prefix("-m")? {
        "" => Some(*next),
        value => Some(value),
    });
    let percents = given.filter_map(|it| it.split(',').next()?.parse().ok());
    percents.last().filter(|it| (1..=15).contains(it))
}

pub(super) fn name(root: &Path, into: &mut Imported) {
    let tree = Tree::new(root);
    let is_there = |path: &str| tree.metadata(Path::new(path)).is_ok_and(|it| it.is_file());
    for (path, tool) in FILES {
        if is_there(path) && !(path.contains("zramswap.") && is_there(ZRAM_TOOLS)) {
            let line = SourceLine::of_tool(Path::new(path), tool);
            into.left(&line, NOT_READ);
        }
    }
    if is_there(EARLYOOM) {
        let options = lines(root, Path::new(EARLYOOM)).ok().flatten();
        let options = options.iter().flatten().map(|it| it.text.as_str());
        // Of several the last counts.
        let mut options = options.rev();
        let options = options.find(|it| it.starts_with("EARLYOOM_ARGS="));
        let nearest = match options.and_then(earlyoom_percent) {
            None => "the line [watch.guard] in /etc/zmeld.toml gives a guard with its defaults".to_owned(),
            Some(percent) => format!(
                "nearest to -m {percent} are the lines [watch.guard] and end_below = \"{percent}%\" \
                 in /etc/zmeld.toml"
            ),
        };
        into.left
            .push(format!("{EARLYOOM}: {FROM_EARLYOOM}; {nearest}"));
    }
    let agent = lines(root, Path::new(AGENT.0)).ok().flatten();
    if let Some(line) = agent.iter().flatten().find(|it| it.text == AGENT.1) {
        into.left(line, NOT_READ);
    }
    let folders = UNITS.iter().chain(&PACKAGED_UNITS).map(Path::new);
    // One may be a link to another.
    let folders: BTreeSet<PathBuf> = folders.filter_map(|it| tree.resolved(it)).collect();
    for folder in &folders {
        units(&tree, folder, into);
    }
    for folder in UDEV_RULES {
        for (name, _) in tree.entries(Path::new(folder)).unwrap_or_default() {
            let file = Path::new(folder).join(name);
            let rules = tree.read(&file, BYTES_MAX).unwrap_or_default();
            let rules = String::from_utf8_lossy(&rules);
            let mut lines = rules.lines().map(str::trim);
            let is_device = |line: &&str| !line.starts_with('#') && line.contains("disksize");
            if let Some(rule) = lines.find(|line| is_device(line) && line.contains("zram")) {
                let line = SourceLine::of_tool(&file, rule);
                into.left(
                    &line,
                    "a rule of udev makes the device; name a zram tier instead",
                );
            }
        }
    }
    for word in command_line(root).split_whitespace() {
        let line = SourceLine::of_tool(Path::new(COMMAND_LINE), word);
        if word.starts_with("systemd.swap-extra=") || word.starts_with("systemd.swap_extra=") {
            into.left(&line, NOT_READ);
        } else if word.starts_with("zswap.") {
            into.left(&line, "what the kernel does with zswap by itself; with a tier that has kind = \"zswap\" it does what that says");
        }
    }
}

/// Names what is swapped to now and no file sets up. Where zmeld has a configuration, it may be
/// its own.
pub(super) fn in_use(root: &Path, into: &mut Imported) -> Result<(), HostError> {
    let host = Host::at(root);
    if host.exists("/etc/zmeld.toml") {
        return Ok(());
    }
    let tree = Tree::new(root);
    // A link of udev's leads nowhere where only a copy of the files is.
    let may_be = |named: &PathBuf, area: &Path| match tree.resolved(named) {
        Some(real) => real == area,
        None => named == area || named.starts_with("/dev") && named.parent() != area.parent(),
    };
    let tiers = into.config.tiers.iter().map(|tier| &tier.kind);
    let places = tiers
        .filter(|kind| kind.is_on_disk())
        .filter_map(Kind::place);
    let named = places
        .map(|place| place.path)
        .chain(into.named.iter().cloned());
    let named: Vec<PathBuf> = named.collect();
    for area in host.swaps()? {
        let unit = unit_name(&area.path, "swap");
        let is_known = match area.is_in_ram() {
            true => into.tools.iter().any(|tool| tool.is_for_ram()),
            false => named.iter().any(|it| may_be(it, &area.path)),
        };
        let is_said = |left: &String| left.contains(&*area.shown()) || left.contains(&unit);
        if !is_known && !into.left.iter().any(is_said) {
            let line = SourceLine::of_tool(Path::new(swaps::PATH), &area.shown());
            into.left(
                &line,
                "it is in use, and no file that zmeld reads sets it up; write it as a tier",
            );
        }
    }
    Ok(())
}

/// Units of swap, and what is added to one.
fn units(tree: &Tree, folder: &Path, into: &mut Imported) {
    for (name, is_folder) in tree.entries(folder).unwrap_or_default() {
        let file = folder.join(&name);
        let name = name.to_string_lossy();
        let added = name.strip_suffix(".d").filter(|_| is_folder);
        let is_swap = |name: &str| name.ends_with(".swap");
        let why = match added {
            Some(unit) if is_swap(unit) => {
                let all = tree.entries(&file).unwrap_or_default();
                let mut names = all.iter().map(|(name, _)| Path::new(name));
                if !names.any(|it| it.extension() == Some("conf".as_ref())) {
                    continue;
                }
                "zmeld does not read what it says of that unit"
            }
            None if !is_folder && is_swap(&name) && !is_mask(tree, &file) => NOT_READ,
            _ => continue,
        };
        into.left(&SourceLine::of_tool(&file, "a unit of systemd"), why);
    }
}

//! Raspberry Pi OS's rpi-swap: `/etc/rpi/swap.conf` and its drop-ins, after swap.conf(5).
//!
//! Its zram device is made by zram-generator, which it tells so in a drop-in of its own;
//! here that drop-in's place is taken by what `swap.conf` says.

use std::path::{Path, PathBuf};

use super::expression::{self, Failure};
use super::imported::{lines, Imported, SourceLine, Tool};
use super::ini::{self, get, Rules, Section, Sections};
use super::others::mask_of_generator;
use zmeld_config::{DiskSwap, Kind, Location, Swap};
use zmeld_linux::tree::Tree;
use zmeld_linux::HostError;

/// From the weakest to the strongest.
const DIRECTORIES: [&str; 4] = ["/usr/lib", "/usr/local/lib", "/run", "/etc"];

const FILE: &str = "rpi/swap.conf";

/// Files of the package, whoever removed its configuration.
const GENERATORS: [&str; 2] = [
    "/usr/lib/systemd/system-generators/rpi-swap-generator",
    "/lib/systemd/system-generators/rpi-swap-generator",
];

/// The drop-in by which it tells zram-generator what to make.
pub(super) const CONTROL: &str = "20-rpi-swap-zram0-ctrl.conf";

const BY_DEFAULT: &str = "rpi-swap's default";

const KNOWN: [(&str, &[&str]); 3] = [
    ("Main", &["Mechanism"]),
    (
        "File",
        &[
            "Path",
            "RamMultiplier",
            "MaxSizeMiB",
            "MaxDiskPercent",
            "FixedSizeMiB",
        ],
    ),
    (
        "Zram",
        &[
            "RamMultiplier",
            "MaxSizeMiB",
            "FixedSizeMiB",
            "WritebackTrigger",
            "WritebackInitialDelay",
            "WritebackPeriodicInterval",
        ],
    ),
];

pub(super) enum ZramWanted {
    /// The package is not there: zram-generator's own files say all.
    NotAsked,
    /// No device, whatever else says so.
    Nothing,
    /// This one; a later drop-in can say more of it.
    Device(Section),
}

/// Reads the files and adds the swap file, where there is to be one.
pub(super) fn import(
    root: &Path,
    ram_bytes: u64,
    into: &mut Imported,
) -> Result<ZramWanted, HostError> {
    let files = ini::files(root, &DIRECTORIES, FILE, Rules::Systemd, into)?;
    let tree = Tree::new(root);
    let generator = GENERATORS
        .iter()
        .find(|path| tree.metadata(Path::new(path)).is_ok());
    let Some(first) = files.first().cloned().or(generator.map(PathBuf::from)) else {
        return Ok(ZramWanted::NotAsked);
    };
    if let Some(file) = mask_of_generator(&tree, "rpi-swap-generator") {
        let line = SourceLine::of_tool(&file, "a mask");
        into.left(&line, "it keeps rpi-swap from setting up anything");
        return Ok(ZramWanted::NotAsked);
    }
    let mut sections = Sections::new();
    into.found(Tool::RpiSwap, &first);
    for file in files {
        let Some(lines) = lines(root, &file)? else {
            continue;
        };
        if !lines.is_empty() {
            into.found(Tool::RpiSwap, &file);
        }
        ini::read(lines, &mut sections, into, |name| {
            let known = KNOWN.iter().any(|(section, _)| *section == name);
            (!known).then_some("rpi-swap knows no such section")
        });
    }
    note_unknown(&sections, into);
    let by_default = SourceLine::of_tool(&first, BY_DEFAULT);
    let empty = Section::new();
    let section = |name: &str| sections.get(name).unwrap_or(&empty);
    Ok(match mechanism(section("Main"), into) {
        "swapfile" => {
            swap_file(section("File"), ram_bytes, &by_default, into);
            ZramWanted::Nothing
        }
        "none" => ZramWanted::Nothing,
        with => {
            if with == "zram+file" {
                not_written_back(section("File"), section("Zram"), &by_default, into);
            }
            ZramWanted::Device(device(section("Zram"), &by_default, into))
        }
    })
}

fn note_unknown(sections: &Sections, into: &mut Imported) {
    for (name, keys) in KNOWN {
        for (key, (_, line)) in sections.get(name).into_iter().flatten() {
            if !key.is_empty() && !keys.contains(&key.as_str()) {
                into.left(line, "this key is not known");
            }
        }
    }
}

/// The mechanism, also where the file says nothing, `auto`, or an unknown word.
fn mechanism<'s>(main: &'s Section, into: &mut Imported) -> &'s str {
    const BOTH: &str = "zram+file";
    match get(main, "Mechanism") {
        None | Some(("auto", _)) => BOTH,
        Some((known @ ("swapfile" | "zram" | "zram+file" | "none"), _)) => known,
        Some((_, line)) => {
            into.left(
                line,
                "rpi-swap knows no such mechanism, and takes zram+file",
            );
            BOTH
        }
    }
}

/// The keys of zram-generator that stand for its device.
fn device(zram: &Section, by_default: &SourceLine, into: &mut Imported) -> Section {
    let (size, line) = size(zram, by_default, into);
    let key = |key: &str, value: &str, line: &SourceLine| {
        (key.to_owned(), (value.to_owned(), line.clone()))
    };
    Section::from([
        key("", "", &line),
        key("zram-size", &size, &line),
        key("host-memory-limit", "none", &line),
        key("fs-type", "swap", &line),
    ])
}

/// A size as zram-generator's arithmetic has it, and the line that says it: a fixed one,
/// or a multiple of RAM up to a limit, which an empty value takes away. A negative one is a
/// number to its scripts, too, of which nothing comes.
fn size(section: &Section, by_default: &SourceLine, into: &mut Imported) -> (String, SourceLine) {
    if let Some((value, line)) = get(section, "FixedSizeMiB").filter(|(value, _)| !value.is_empty())
    {
        match value.parse::<i64>() {
            Ok(mebibytes) => return (mebibytes.max(0).to_string(), line.clone()),
            Err(_) => into.left(line, "it is no number of MiB, and rpi-swap passes it over"),
        }
    }
    let mut said = by_default;
    let mut factor = "1";
    if let Some((value, line)) = get(section, "RamMultiplier") {
        let is_whole = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
        if value.splitn(2, '.').all(is_whole) {
            (factor, said) = (value, line);
        } else {
            into.left(line, "it is no number, and rpi-swap takes 1");
        }
    }
    let mut limit = Some(2048);
    if let Some((value, line)) = get(section, "MaxSizeMiB") {
        match value.parse::<i64>() {
            Ok(mebibytes) => (limit, said) = (Some(mebibytes.max(0)), line),
            Err(_) if value.is_empty() => (limit, said) = (None, line),
            Err(_) => {
                into.left(line, "it is no number of MiB, and rpi-swap takes no limit");
                limit = None;
            }
        }
    }
    let size = match limit {
        Some(limit) => format!("min(ram * {factor}, {limit})"),
        None => format!("ram * {factor}"),
    };
    (size, said.clone())
}

/// Its file as a tier. It has no priority there.
fn swap_file(file: &Section, ram_bytes: u64, by_default: &SourceLine, into: &mut Imported) {
    let path = get(file, "Path").map_or("/var/swap", |(path, _)| path);
    if let Some((_, line)) = get(file, "Path").filter(|(path, _)| !path.starts_with('/')) {
        return into.left(line, "it is no absolute path, so there is no file here");
    }
    let (text, line) = size(file, by_default, into);
    let found = match expression::bytes(&text, ram_bytes, &[]) {
        Ok(0) => return into.left(&line, "its size is 0, so there is no file"),
        Ok(bytes) => expression::size(&text, bytes, ram_bytes),
        Err(Failure::Wrong(why) | Failure::Unknown(why)) => return into.left(&line, &why),
    };
    // A fixed size is not held against what is free.
    let is_fixed = text.parse::<i64>().is_ok();
    let share = get(file, "MaxDiskPercent").map_or(("50", by_default), |found| found);
    if !is_fixed && !share.0.is_empty() {
        let why = format!(
            "rpi-swap takes at most {} % of what is free on the disk; zmeld makes a file of the \
             size that it is told, or none",
            share.0
        );
        into.left(share.1, &why);
    }
    let path = PathBuf::from(path);
    let disk = match path.starts_with("/dev") {
        true if is_fixed => DiskSwap {
            // It is taken as it is.
            device: Some(Location::Path(path)),
            ..DiskSwap::default()
        },
        true => return into.left(&line, "rpi-swap swaps to a device only with a FixedSizeMiB"),
        false => DiskSwap {
            format: true,
            file: Some(path),
            size: Some(found.size),
            ..DiskSwap::default()
        },
    };
    let comment = get(file, "Path").map_or(by_default, |(_, line)| line);
    let tier = into.add(
        "file",
        Swap::default(),
        Kind::Disk(disk),
        comment.to_string(),
    );
    into.comment(&tier, "size", line.to_string());
}

/// Pages that the device writes to a file are not carried over: a swap file below the
/// device instead would hold the pages in use.
fn not_written_back(file: &Section, zram: &Section, by_default: &SourceLine, into: &mut Imported) {
    let path = get(file, "Path").map_or("/var/swap", |(path, _)| path);
    let line = ["WritebackTrigger", "WritebackPeriodicInterval"]
        .iter()
        .find_map(|key| get(zram, key))
        .or(get(file, "Path"))
        .map_or(by_default, |(_, line)| line);
    let why = format!(
        "it writes pages back to the file {path}; zmeld writes back to a block device: name \
         one in [tier.NAME.writeback]"
    );
    into.left(line, &why);
}

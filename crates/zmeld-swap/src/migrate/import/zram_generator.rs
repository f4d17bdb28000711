//! `zram-generator.conf`, as zram-generator itself reads it: with its libraries, and with
//! nothing made where it gives up.

use std::path::{Component, Path, PathBuf};

use super::expression::{self, Failure};
use super::imported::{
    bytes, command_line, swap_options, Imported, SourceLine, Tool, COMMAND_LINE,
};
use super::ini::{self, get, Entry, Rules, Section, Sections};
use super::others::{mask, mask_of_generator};
use super::rpi_swap::{self, ZramWanted};
use zmeld_config::{
    Bytes, Codec, Discard, Kind, Number, PageFilter, RamDevice, RecompressRule, Size, Swap,
    Writeback,
};
use zmeld_linux::tree::Tree;
use zmeld_linux::HostError;

/// From the weakest to the strongest.
const DIRECTORIES: [&str; 4] = ["/usr/lib", "/usr/local/lib", "/etc", "/run"];

const FIRST: &str = "zram0";

const MIB: u64 = 1 << 20;

/// The least that can be swapped to.
const SWAP_MIN: u64 = 40 << 10;

/// For so many bytes of a device zram takes at least one byte of RAM at once.
const BYTES_PER_BYTE: u64 = 256;

/// Of a rule for its second codecs.
const NEVER_RECOMPRESSES: &str = "zram-generator never recompresses; zmeld watch does by this rule";

/// The line for which zram-generator makes no device at all, and what is wrong with it.
type Refused = (SourceLine, String);

#[derive(Default)]
struct MergedFiles {
    devices: Sections,
    /// Those whose values commands would tell.
    variables: Vec<String>,
}

/// Reads the files and adds a tier for each device that is swapped to.
pub(super) fn import(
    root: &Path,
    ram_bytes: u64,
    rpi: ZramWanted,
    into: &mut Imported,
) -> Result<(), HostError> {
    let before = into.clone();
    let refused = match read(root, &rpi, into)? {
        Ok(said) => devices(&said, &Tree::new(root), ram_bytes, into).err(),
        Err(refused) => Some(refused),
    };
    if let Some((line, why)) = refused {
        let left = std::mem::take(&mut into.left);
        *into = Imported { left, ..before };
        into.left(
            &line,
            &format!("{why}; zram-generator makes no device at all for that"),
        );
    }
    Ok(())
}

/// Reads the files and the kernel's command line.
fn read(
    root: &Path,
    rpi: &ZramWanted,
    into: &mut Imported,
) -> Result<Result<MergedFiles, Refused>, HostError> {
    let mut files = ini::files(
        root,
        &DIRECTORIES,
        "systemd/zram-generator.conf",
        Rules::ZramGenerator,
        into,
    )?;
    let mut said = MergedFiles::default();
    let tree = Tree::new(root);
    let asked = switch(root);
    let off = match &asked {
        Some((word, false)) => Some(SourceLine::of_tool(Path::new(COMMAND_LINE), word)),
        _ => mask_of_generator(&tree, "zram-generator")
            .or_else(|| mask(&tree, &["swap.target"]))
            .map(|file| SourceLine::of_tool(&file, "a mask")),
    };
    if let Some(line) = off {
        if !files.is_empty() || matches!(rpi, ZramWanted::Device(_)) {
            into.left(&line, "it keeps zram-generator from making any device");
        }
        return Ok(Ok(said));
    }
    let is_asked_for = asked.map(|(word, _)| word);
    if !matches!(rpi, ZramWanted::NotAsked) {
        files.retain(|file| !file.ends_with(rpi_swap::CONTROL));
    }
    // The settings of rpi-swap take the place of its drop-in.
    let before =
        |file: &PathBuf| !is_drop_in(file) || file.file_name() < Some(rpi_swap::CONTROL.as_ref());
    let place = files.iter().take_while(|file| before(file)).count();
    for at in 0..=files.len() {
        if at == place {
            add(rpi, &mut said.devices);
        }
        let Some(file) = files.get(at) else { continue };
        let of_file = |why: &str| (SourceLine::of_tool(file, ""), why.to_owned());
        let Some(text) = bytes(root, file)? else {
            match tree.metadata(file) {
                Ok(it) if it.is_dir() => return Ok(Err(of_file("it is a directory"))),
                _ => continue,
            }
        };
        let Ok(text) = String::from_utf8(text) else {
            return Ok(Err(of_file("it is no UTF-8")));
        };
        let entries = match ini::entries(file, &text) {
            Ok(entries) => entries,
            Err(refused) => return Ok(Err(refused)),
        };
        for entry in entries {
            if let Err(refused) = take(entry, &mut said, into) {
                return Ok(Err(refused));
            }
        }
    }
    if matches!(rpi, ZramWanted::Nothing) {
        said.devices.remove(FIRST);
    }
    if let Some(word) = is_asked_for {
        let line = SourceLine::of_tool(Path::new(COMMAND_LINE), &word);
        let head = || Section::from([(String::new(), (String::new(), line))]);
        said.devices.entry(FIRST.to_owned()).or_insert_with(head);
    }
    Ok(Ok(said))
}

/// `systemd.zram` on the kernel's command line, and whether it asks for a device.
fn switch(root: &Path) -> Option<(String, bool)> {
    let line = command_line(root);
    let mut words = line.split_whitespace().rev();
    words.find_map(|word| {
        let is_on = match word.strip_prefix("systemd.zram")? {
            "" | "=1" | "=yes" | "=true" | "=on" => true,
            "=0" | "=no" | "=false" | "=off" => false,
            _ => return None,
        };
        Some((word.to_owned(), is_on))
    })
}

/// Adds rpi-swap's settings over those of weaker files.
fn add(rpi: &ZramWanted, sections: &mut Sections) {
    if let ZramWanted::Device(device) = rpi {
        let section = sections.entry(FIRST.to_owned()).or_default();
        section.extend(device.clone());
    }
}

fn is_drop_in(file: &Path) -> bool {
    file.parent()
        .is_some_and(|folder| folder.extension().is_some_and(|end| end == "d"))
}

/// Takes what a line says.
fn take(entry: Entry, said: &mut MergedFiles, into: &mut Imported) -> Result<(), Refused> {
    let Entry {
        section,
        says,
        line,
    } = entry;
    let Some(name) = section else {
        let (key, value) = says.unwrap_or_default();
        let why = match key.split_once('!') {
            Some(("set", _)) if value.is_empty() => {
                return Err((line, "there is no command".to_owned()));
            }
            Some(("set", variable)) => {
                said.variables.push(variable.to_owned());
                "zram-generator runs this command for a variable, and makes no device at all where \
                 that fails; zmeld runs none"
            }
            Some(_) => "zram-generator has no such operation, and ignores it",
            None => "it stands before any section, and zram-generator ignores it",
        };
        into.left(&line, why);
        return Ok(());
    };
    let number = name.strip_prefix("zram").unwrap_or_default();
    if number.parse::<u64>().is_err() {
        if says.is_none() {
            into.left(&line, "it is no device, and zram-generator ignores it too");
        }
        return Ok(());
    }
    let device = said.devices.entry(name).or_default();
    let Some((key, value)) = says else {
        device.entry(String::new()).or_insert((String::new(), line));
        return Ok(());
    };
    match checked(&key, &value) {
        Ok(None) => into.left(&line, "this key is not known"),
        Ok(Some((key, value))) => {
            device.insert(key.to_owned(), (value, line));
        }
        Err(why) => return Err((line, why)),
    }
    Ok(())
}

/// The key by the name that it has today with its value; none where zram-generator does not
/// know it.
fn checked<'k>(key: &'k str, value: &str) -> Result<Option<(&'k str, String)>, String> {
    let is_limit = || value == "none" || value.parse::<u64>().is_ok();
    let (key, is_right, what) = match key {
        "host-memory-limit" | "memory-limit" => (
            "host-memory-limit",
            is_limit(),
            "a limit is a whole number of MiB or none",
        ),
        "max-zram-size" => (key, is_limit(), "a limit is a whole number of MiB or none"),
        "zram-size" | "zram-resident-limit" => (
            key,
            expression::is_expression(value),
            "its arithmetic is not understood",
        ),
        "writeback-device" | "mount-point" => {
            let path = Path::new(value);
            let is_above = path.components().any(|it| it == Component::ParentDir);
            if path.is_absolute() && !is_above {
                let path: PathBuf = path.components().collect();
                return Ok(Some((key, path.to_string_lossy().into_owned())));
            }
            (key, false, "its path is not absolute, or leads upwards")
        }
        "swap-priority" => (
            key,
            matches!(value.parse::<i32>(), Ok(-1..=0x7fff)),
            "a priority is a number from -1 to 32767",
        ),
        "zram-fraction" => (
            key,
            value.parse::<f64>().is_ok_and(|share| share >= 0.0),
            "it is no share of RAM",
        ),
        "compression-algorithm" | "fs-type" | "options" => (key, true, ""),
        _ => return Ok(None),
    };
    match is_right {
        true => Ok(Some((key, value.to_owned()))),
        false => Err(what.to_owned()),
    }
}

/// Adds a tier for each device. Nothing of it counts where there is an error.
fn devices(
    said: &MergedFiles,
    tree: &Tree,
    ram_bytes: u64,
    into: &mut Imported,
) -> Result<(), Refused> {
    for (name, section) in &said.devices {
        let Some((_, head)) = section.values().next() else {
            continue;
        };
        let head = get(section, "").map_or(head, |(_, line)| line);
        into.found(Tool::ZramGenerator, &head.file.clone());
        if is_of_another_machine(name, section, ram_bytes, into) {
            continue;
        }
        let size = size(name, section, ram_bytes, said, into)?;
        let limit = limit(section, ram_bytes, said, into)?;
        let number = name.trim_start_matches("zram");
        if number.parse::<u64>().map(|it| it.to_string()).as_deref() != Ok(number) {
            into.left(head, &format!("there is never a /dev/{name}"));
        } else if let (false, Some(size)) = (is_file_system(name, section, into), size) {
            let units = [
                format!("dev-{name}.swap"),
                format!("systemd-zram-setup@{name}.service"),
            ];
            if let Some(file) = mask(tree, &units.each_ref().map(String::as_str)) {
                let why = format!("{} masks it, so there is no {name}", file.display());
                into.left(head, &why);
                continue;
            }
            device(name, head, section, (size, limit), into);
        }
    }
    Ok(())
}

/// Whether it is no swap; that is noted.
fn is_file_system(name: &str, section: &Section, into: &mut Imported) -> bool {
    let mount = get(section, "mount-point");
    let other = get(section, "fs-type").filter(|(kind, _)| *kind != "swap");
    if let Some((_, line)) = mount.or(other) {
        into.left(line, &format!("{name} is a file system, not swap"));
        into.has_mount = true;
        return true;
    }
    false
}

/// Whether there is no such device on a machine of that much RAM; that is noted.
fn is_of_another_machine(
    name: &str,
    section: &Section,
    ram_bytes: u64,
    into: &mut Imported,
) -> bool {
    let limit = get(section, "host-memory-limit");
    let Some((Ok(limit), line)) = limit.map(|(value, line)| (value.parse::<u64>(), line)) else {
        return false;
    };
    let is_more = ram_bytes / MIB > limit;
    match is_more {
        true => into.left(
            line,
            &format!("this machine has more RAM, so there is no {name}"),
        ),
        false => into.left(line, "this machine has less RAM; the condition is dropped"),
    }
    is_more
}

/// A key's new value, with the comment that names its source.
type Commented<T> = (T, String);

fn device(
    name: &str,
    head: &SourceLine,
    section: &Section,
    (size, limit): (Commented<Size>, Option<Commented<Size>>),
    into: &mut Imported,
) {
    let mut device = RamDevice {
        size: size.0,
        ..RamDevice::default()
    };
    let mut comments = vec![("size", size.1)];
    if let Some((limit, comment)) = limit {
        device.memory_limit = Some(limit);
        comments.push(("memory_limit", comment));
    }
    if let Some((value, line)) = get(section, "compression-algorithm") {
        comments.push(("codec", line.to_string()));
        comments.extend(codecs(value, line, &mut device, into));
    }
    comments.extend(writeback(section, &mut device, into));
    let (swap, said) = swap(section, into);
    comments.extend(said);
    let tier = into.add(name, swap, Kind::Ram(device), head.to_string());
    for (key, comment) in comments {
        into.comment(&tier, key, comment);
    }
}

/// Sets the writeback device, and returns a comment on it.
fn writeback(
    section: &Section,
    device: &mut RamDevice,
    into: &mut Imported,
) -> Option<(&'static str, String)> {
    let (value, line) = get(section, "writeback-device")?;
    match value.parse() {
        Ok(location) => {
            device.writeback = Some(Writeback {
                device: location,
                ..Writeback::default()
            });
            Some(("writeback", line.to_string()))
        }
        Err(why) => {
            into.left(line, &why);
            None
        }
    }
}

/// How it is used as swap, with comments on what was taken.
fn swap(section: &Section, into: &mut Imported) -> (Swap, Vec<(&'static str, String)>) {
    let comment = |line: Option<&SourceLine>| {
        let by_default = || "zram-generator's default".to_owned();
        line.map_or_else(by_default, SourceLine::to_string)
    };
    let mut by = get(section, "swap-priority");
    let mut swap = Swap {
        priority: by
            .map_or(Some(100), |(value, _)| value.parse().ok())
            .map(Number),
        discard: Discard::Both,
        ..Swap::default()
    };
    let options = get(section, "options");
    if let Some((value, line)) = options {
        let options = swap_options(value);
        options.note(line, into);
        swap.discard = options.discard;
        swap.optional = options.may_fail;
        // systemd prefers it to what the unit says.
        if options.priority.is_some() {
            (swap.priority, by) = (options.priority, Some((value, line)));
        }
    }
    let comments = vec![
        ("priority", comment(by.map(|(_, line)| line))),
        ("discard", comment(options.map(|(_, line)| line))),
    ];
    (swap, comments)
}

/// The size, from `zram-size` or from the two obsolete keys that override it. None where
/// there is no such device; that is noted.
fn size(
    name: &str,
    section: &Section,
    ram_bytes: u64,
    said: &MergedFiles,
    into: &mut Imported,
) -> Result<Option<Commented<Size>>, Refused> {
    let fraction = get(section, "zram-fraction");
    let max = get(section, "max-zram-size");
    let (text, line, bytes) = match (fraction.or(max), get(section, "zram-size")) {
        (Some((_, line)), _) => {
            let share: f64 = fraction.and_then(|it| it.0.parse().ok()).unwrap_or(0.5);
            let limit = max.and_then(|it| it.0.parse::<u64>().ok());
            let text = match limit {
                Some(limit) => format!("min(ram * {share}, {limit})"),
                None => format!("ram * {share}"),
            };
            // It takes whole MiB.
            let mebibytes = (share * (ram_bytes / MIB) as f64) as u64;
            let mebibytes = mebibytes.min(limit.unwrap_or(u64::MAX));
            (text, Some(line), Ok(mebibytes.saturating_mul(MIB)))
        }
        (None, Some((text, line))) => {
            let bytes = expression::bytes(text, ram_bytes, &said.variables);
            (text.to_owned(), Some(line), bytes)
        }
        (None, None) => {
            let text = "min(ram / 2, 4096)";
            let bytes = expression::bytes(text, ram_bytes, &[]);
            (text.to_owned(), None, bytes)
        }
    };
    let by_default = SourceLine::of_tool(Path::new("zram-size"), "zram-generator's default");
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(Failure::Wrong(why)) => return Err((line.unwrap_or(&by_default).clone(), why)),
        Err(Failure::Unknown(why)) => {
            let why = format!("{why}, so there is no {name} here");
            into.left(line.unwrap_or(&by_default), &why);
            return Ok(None);
        }
    };
    let why = match bytes {
        0 => format!("its size is 0, so there is no {name}"),
        bytes if bytes < SWAP_MIN => "it is too small to be swapped to".to_owned(),
        bytes if bytes / BYTES_PER_BYTE > ram_bytes => format!(
            "it comes to {} MiB, since zram-generator counts in MiB and G stands for a thousand \
             million; 4 GiB is 4096",
            bytes / MIB
        ),
        bytes => {
            let found = expression::size(&text, bytes, ram_bytes);
            let comment = match line {
                Some(line) => remark(line, found.remark.as_deref()),
                None => by_default.text,
            };
            return Ok(Some((found.size, comment)));
        }
    };
    into.left(line.unwrap_or(&by_default), &why);
    Ok(None)
}

/// How much RAM it may take, where that is limited.
fn limit(
    section: &Section,
    ram_bytes: u64,
    said: &MergedFiles,
    into: &mut Imported,
) -> Result<Option<Commented<Size>>, Refused> {
    let Some((text, line)) = get(section, "zram-resident-limit") else {
        return Ok(None);
    };
    match expression::bytes(text, ram_bytes, &said.variables) {
        // That is none.
        Ok(0) => Ok(None),
        Ok(bytes) if bytes > ram_bytes => {
            into.left(line, "it is more than all of RAM, and limits nothing");
            Ok(None)
        }
        Ok(bytes) => {
            let found = expression::size(text, bytes, ram_bytes);
            let comment = remark(line, found.remark.as_deref());
            Ok(Some((found.size, comment)))
        }
        Err(Failure::Wrong(why)) => Err((line.clone(), why)),
        Err(Failure::Unknown(why)) => {
            into.left(line, &why);
            Ok(None)
        }
    }
}

fn remark(line: &SourceLine, remark: Option<&str>) -> String {
    match remark {
        Some(remark) => format!("{line} ({remark})"),
        None => line.to_string(),
    }
}

/// `lzo-rle zstd(level=3) (type=idle)`: the codec, those to compress again with,
/// and when. Returns a comment on what counts here and does not there.
fn codecs(
    value: &str,
    line: &SourceLine,
    device: &mut RamDevice,
    into: &mut Imported,
) -> Option<(&'static str, String)> {
    let mut comment = None;
    let mut rule = None;
    let mut priority = 0;
    for word in value.split_whitespace() {
        let (name, parameters) = word.split_once('(').unwrap_or((word, ""));
        let parameters = parameters.strip_suffix(')').unwrap_or(parameters);
        if name.is_empty() {
            rule = Some(parameters);
            continue;
        }
        let mut left = |why: String| into.left(line, &why);
        let codec = Codec::of_zram_generator(name, parameters, &mut left);
        match (priority, codec) {
            (_, None) => {}
            (0, Some(codec)) => device.codec = vec![codec],
            (4.., Some(_)) => into.left(line, "zram takes 3 more codecs; the others are dropped"),
            (_, Some(codec)) => {
                if !parameters.is_empty() {
                    let what = "a level or dictionary of these has no effect with zram-generator";
                    comment = Some(("recompress", what.to_owned()));
                }
                device.recompress.push(codec);
            }
        }
        priority += 1;
    }
    match rule {
        Some(_) if device.recompress.is_empty() => {
            into.left(line, "there is no second codec to recompress with");
        }
        Some(parameters) => {
            recompression(parameters, line, into);
        }
        None => {}
    }
    if !device.recompress.is_empty() && into.config.watch.recompress.is_none() {
        into.config.watch.recompress = Some(RecompressRule::default());
        into.comments.insert(
            "watch.recompress".to_owned(),
            format!("{NEVER_RECOMPRESSES}, with its defaults"),
        );
    }
    comment
}

/// Imports zram's `recompress` parameters, as far as a rule has them.
fn recompression(parameters: &str, line: &SourceLine, into: &mut Imported) {
    let mut rule = RecompressRule::default();
    for parameter in parameters
        .split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty())
    {
        match parameter.split_once('=') {
            Some(("type", "idle")) => rule.pages = PageFilter::Idle,
            Some(("type", "huge")) => rule.pages = PageFilter::Huge,
            Some(("type", "huge_idle")) => rule.pages = PageFilter::HugeIdle,
            Some(("threshold", bytes)) if bytes.parse().is_ok_and(|bytes: u64| bytes <= 4096) => {
                rule.threshold = Bytes(bytes.parse().unwrap_or_default());
            }
            Some(("max_pages", pages)) if pages.parse().is_ok_and(|pages: u64| pages > 0) => {
                rule.max_pages = pages.parse().ok().map(Number);
            }
            _ => into.left(
                line,
                &format!("parameter {parameter:?} of recompression is left out"),
            ),
        }
    }
    into.config.watch.recompress = Some(rule);
    let why = format!("{NEVER_RECOMPRESSES}; what the line does not say is zmeld's default");
    into.comments
        .insert("watch.recompress".to_owned(), remark(line, Some(&why)));
}

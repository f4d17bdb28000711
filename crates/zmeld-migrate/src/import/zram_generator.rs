//! `zram-generator.conf`, after zram-generator.conf(5).

use std::path::{Path, PathBuf};

use super::ini::{self, get, Section, Sections};
use super::rpi_swap::{self, ZramWanted};
use super::{expression, lines, Imported, Line, Tool};
use zmeld_config::{
    Bytes, Codec, Discard, PageFilter, RamDevice, RecompressRule, Recompression, Size, Swap,
    Writeback,
};
use zmeld_linux::HostError;

/// From the weakest to the strongest.
const DIRECTORIES: [&str; 4] = ["/usr/lib", "/usr/local/lib", "/etc", "/run"];

const RPI_DEVICE: &str = "zram0";

/// Reads the files and adds a tier for each device that is swapped to.
pub(super) fn import(
    root: &Path,
    ram_bytes: u64,
    rpi: ZramWanted,
    into: &mut Imported,
) -> Result<(), HostError> {
    let mut sections = Sections::new();
    let mut files = ini::files(root, &DIRECTORIES, "systemd/zram-generator.conf")?;
    if !matches!(rpi, ZramWanted::NotAsked) {
        files.retain(|file| !file.ends_with(rpi_swap::CONTROL));
    }
    // What the drop-in of rpi-swap has to say comes where that would stand.
    let before =
        |file: &PathBuf| !is_drop_in(file) || file.file_name() < Some(rpi_swap::CONTROL.as_ref());
    let place = files.iter().take_while(|file| before(file)).count();
    for (at, file) in files.iter().enumerate() {
        if at == place {
            add(&rpi, &mut sections);
        }
        if let Some(lines) = lines(root, file)? {
            ini::read(lines, &mut sections, into, refusal);
        }
    }
    if place == files.len() {
        add(&rpi, &mut sections);
    }
    if matches!(rpi, ZramWanted::Nothing) {
        sections.remove(RPI_DEVICE);
    }
    for (name, section) in &sections {
        if let Some((_, line)) = section.values().next() {
            into.found(Tool::ZramGenerator, &line.file.clone());
        }
        device(name, section, ram_bytes, into);
    }
    Ok(())
}

/// What rpi-swap asks for, over what weaker files said.
fn add(rpi: &ZramWanted, sections: &mut Sections) {
    if let ZramWanted::Device(device) = rpi {
        let section = sections.entry(RPI_DEVICE.to_owned()).or_default();
        section.extend(device.clone());
    }
}

fn is_drop_in(file: &Path) -> bool {
    file.parent()
        .is_some_and(|folder| folder.extension().is_some_and(|end| end == "d"))
}

fn refusal(name: &str) -> Option<&'static str> {
    let number = name.strip_prefix("zram").unwrap_or_default();
    let is_device = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (!is_device).then_some("it is no device, and zram-generator ignores it too")
}

/// The keys of a device; the empty one stands for the section itself.
const KNOWN: [&str; 13] = [
    "",
    "host-memory-limit",
    "memory-limit",
    "zram-size",
    "zram-fraction",
    "max-zram-size",
    "zram-resident-limit",
    "compression-algorithm",
    "writeback-device",
    "swap-priority",
    "mount-point",
    "fs-type",
    "options",
];

/// Whether it is no swap, or not for a machine of that much RAM; that is noted.
fn is_left_out(name: &str, section: &Section, ram_bytes: u64, into: &mut Imported) -> bool {
    for key in ["mount-point", "fs-type"] {
        match get(section, key) {
            Some((value, line)) if !(key == "fs-type" && value == "swap") => {
                into.left(line, &format!("{name} is a file system, not swap"));
                into.has_mount = true;
                return true;
            }
            _ => {}
        }
    }
    let limit = get(section, "host-memory-limit").or(get(section, "memory-limit"));
    let Some((value, line)) = limit.filter(|(value, _)| *value != "none") else {
        return false;
    };
    match value.parse::<f64>() {
        Ok(limit) if ram_bytes as f64 > limit * 1_048_576.0 => {
            let why = format!("this machine has more RAM, so there is no {name}");
            into.left(line, &why);
            return true;
        }
        Ok(_) => into.left(line, "this machine has less RAM; the condition is dropped"),
        Err(_) => into.left(line, "it is no number of megabytes"),
    }
    false
}

fn device(name: &str, section: &Section, ram_bytes: u64, into: &mut Imported) {
    let Some((_, head)) = section.values().next() else {
        return;
    };
    let head = get(section, "").map_or(head, |(_, line)| line);
    if is_left_out(name, section, ram_bytes, into) {
        return;
    }
    let Some((size, size_comment)) = size(name, section, ram_bytes, into) else {
        return;
    };
    let mut device = RamDevice {
        size,
        swap: Swap {
            priority: Some(100),
            discard: Discard::Both,
        },
        ..RamDevice::default()
    };
    let mut comments = vec![("size", size_comment)];
    if let Some((value, line)) = get(section, "zram-resident-limit") {
        match expression::size(value, ram_bytes) {
            Ok(Some(found)) => {
                device.memory_limit = Some(found.size);
                comments.push(("memory_limit", remark(line, found.remark.as_deref())));
            }
            // Zero is no limit.
            Ok(None) => {}
            Err(why) => into.left(line, &why),
        }
    }
    if let Some((value, line)) = get(section, "compression-algorithm") {
        codecs(value, line, &mut device, into);
        comments.push(("codec", line.to_string()));
    }
    comments.extend(writeback(section, &mut device, into));
    comments.extend(swap(section, &mut device.swap, into));
    for (key, (_, line)) in section {
        if !KNOWN.contains(&key.as_str()) {
            into.left(line, "this key is not known");
        }
    }
    let tier = into.add(name, false, device, head.to_string());
    for (key, comment) in comments {
        into.comment(&tier, key, comment);
    }
}

/// Where the device writes back to, with a comment where it does.
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
fn swap(section: &Section, swap: &mut Swap, into: &mut Imported) -> Vec<(&'static str, String)> {
    let by_default = || "zram-generator's default".to_owned();
    let mut comments = Vec::new();
    match get(section, "swap-priority") {
        Some((value, line)) => match value.parse::<i16>() {
            Ok(priority @ -1..) => {
                swap.priority = Some(priority);
                comments.push(("priority", line.to_string()));
            }
            _ => into.left(line, "a priority is a number from -1 to 32767"),
        },
        None => comments.push(("priority", by_default())),
    }
    match get(section, "options") {
        Some((value, line)) => {
            swap.discard = discard(value, line, into);
            comments.push(("discard", line.to_string()));
        }
        None => comments.push(("discard", by_default())),
    }
    comments
}

/// The size, from `zram-size` or from the two obsolete keys that override it.
fn size(
    name: &str,
    section: &Section,
    ram_bytes: u64,
    into: &mut Imported,
) -> Option<(Size, String)> {
    let fraction = get(section, "zram-fraction");
    let max = get(section, "max-zram-size");
    let (text, line) = if fraction.is_some() || max.is_some() {
        let share = fraction.map_or("0.5", |(value, _)| value);
        let limit = max.map_or("4096", |(value, _)| value);
        let text = match limit {
            "none" => format!("ram * ({share})"),
            _ => format!("min(ram * ({share}), {limit})"),
        };
        (text, fraction.or(max).map(|(_, line)| line))
    } else {
        match get(section, "zram-size") {
            Some((value, line)) => (value.to_owned(), Some(line)),
            None => ("min(ram / 2, 4096)".to_owned(), None),
        }
    };
    match (expression::size(&text, ram_bytes), line) {
        (Ok(Some(found)), Some(line)) => Some((found.size, remark(line, found.remark.as_deref()))),
        (Ok(Some(found)), None) => Some((found.size, "zram-generator's default".to_owned())),
        (Ok(None), Some(line)) => {
            into.left(line, &format!("its size is 0, so there is no {name}"));
            None
        }
        (Err(why), Some(line)) => {
            into.left(line, &format!("{why}, so there is no {name} here"));
            None
        }
        (_, None) => None,
    }
}

fn remark(line: &Line, remark: Option<&str>) -> String {
    match remark {
        Some(remark) => format!("{line} ({remark})"),
        None => line.to_string(),
    }
}

/// `lzo-rle zstd(level=3) (type=idle)`: the codec, those to compress again with,
/// and when.
fn codecs(value: &str, line: &Line, device: &mut RamDevice, into: &mut Imported) {
    let mut codecs = Vec::new();
    let mut rest = value.trim();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c.is_whitespace() || c == '(')
            .unwrap_or(rest.len());
        let name = &rest[..end];
        rest = &rest[end..];
        let mut parameters = "";
        if let Some(inner) = rest.strip_prefix('(') {
            let (inside, after) = inner.split_once(')').unwrap_or((inner, ""));
            parameters = inside;
            rest = after;
        }
        rest = rest.trim_start();
        if name.is_empty() {
            recompression(parameters, line, into);
        } else {
            codecs.extend(codec(name, parameters, line, into));
        }
    }
    let mut codecs = codecs.into_iter();
    device.codec = codecs.next().into_iter().collect();
    device.recompress = codecs
        .zip(1..)
        .map(|(codec, priority)| Recompression { priority, codec })
        .collect();
    if device.recompress.len() > 3 {
        into.left(line, "zram takes 3 more codecs; the others are dropped");
        device.recompress.truncate(3);
    }
    if !device.recompress.is_empty() && into.config.watch.recompress.is_none() {
        into.config.watch.recompress = Some(RecompressRule::default());
        into.comments.insert(
            "watch.recompress".to_owned(),
            "The kernel compresses nothing again by itself.".to_owned(),
        );
    }
}

fn codec(name: &str, parameters: &str, line: &Line, into: &mut Imported) -> Option<Codec> {
    let mut codec: Codec = match name.parse() {
        Ok(codec) => codec,
        Err(why) => {
            into.left(line, &why);
            return None;
        }
    };
    for parameter in parameters
        .split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty())
    {
        let text = match parameter.split_once('=') {
            Some(("level", level)) => format!("{name}:{level}"),
            Some(("dict", path)) => format!("{name}:dict={path}"),
            _ => {
                into.left(line, &format!("parameter {parameter:?} of {name}"));
                continue;
            }
        };
        match text.parse::<Codec>() {
            Ok(with) => {
                codec.level = with.level.or(codec.level);
                codec.dict = with.dict.or(codec.dict);
            }
            Err(why) => into.left(line, &why),
        }
    }
    Some(codec)
}

/// What zram's `recompress` is told, as far as a rule has words for it.
fn recompression(parameters: &str, line: &Line, into: &mut Imported) {
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
                rule.max_pages = pages.parse().ok();
            }
            _ => into.left(line, &format!("parameter {parameter:?} of recompression")),
        }
    }
    into.config.watch.recompress = Some(rule);
    into.comments
        .insert("watch.recompress".to_owned(), line.to_string());
}

fn discard(options: &str, line: &Line, into: &mut Imported) -> Discard {
    let mut discard = Discard::None;
    for option in options.split(',').map(str::trim) {
        match option {
            "" | "defaults" => {}
            "discard" => discard = Discard::Both,
            "discard=once" => discard = Discard::Once,
            "discard=pages" => discard = Discard::Pages,
            _ => into.left(line, &format!("option {option:?}")),
        }
    }
    discard
}

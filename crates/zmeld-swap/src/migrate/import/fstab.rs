//! Swap lines of `/etc/fstab`, after fstab(5) and systemd.swap(5), and the
//! volumes under them in `/etc/crypttab`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use zmeld_linux::fstab::unit_name;
use zmeld_linux::octal::unescape;
use zmeld_linux::tree::Tree;

use super::imported::{
    bytes, carriage_return, command_line, swap_options, Imported, SourceLine, Tool, COMMAND_LINE,
};
use super::others::{in_place_of, mask, mask_of_generator};
use crate::migrate::generator::is_off;
use zmeld_config::{Cipher, Discard, DiskSwap, Encryption, Kind, Location, Number, Span, Swap};
use zmeld_linux::HostError;

const FSTAB: &str = "/etc/fstab";
const CRYPTTAB: &str = "/etc/crypttab";

/// Reads both files and adds a tier for each swap line.
pub(super) fn import(root: &Path, into: &mut Imported) -> Result<(), HostError> {
    let kernels = command_line(root);
    let tree = Tree::new(root);
    let volumes = volumes(root, &kernels)?;
    let word = ["fstab", "systemd.swap"]
        .into_iter()
        .find(|word| is_off(&kernels, word));
    let off = match word {
        Some(word) => Some(SourceLine::of_tool(Path::new(COMMAND_LINE), word)),
        None => mask(&tree, &["swap.target"])
            .or_else(|| mask_of_generator(&tree, "systemd-fstab-generator"))
            .map(|file| SourceLine::of_tool(&file, "a mask")),
    };
    // Numbers of the lines that systemd takes, by the path that they lead to.
    let mut seen: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (line, fields) in table(root, FSTAB, |c| c == ' ' || c == '\t')? {
        let [device, _, kind, more @ ..] = fields.as_slice() else {
            continue;
        };
        let options = more.first().map(String::as_str).unwrap_or_default();
        let has_no_value = |it: &str| it == "x-systemd.device-timeout";
        if options.split(',').any(has_no_value) {
            let why = "systemd's generator ends at an option without its value: it switches on \
                       neither this line nor those behind it";
            into.left(&line, why);
            return Ok(());
        }
        if kind != "swap" {
            if kind == "swap\r" {
                into.left(&line, &carriage_return(FSTAB));
            }
            continue;
        }
        if let Some(off) = &off {
            into.left(off, "it keeps systemd from taking swap lines of /etc/fstab");
            return Ok(());
        }
        into.found(Tool::Fstab, Path::new(FSTAB));
        if more.get(3).is_some_and(|more| !more.starts_with('#')) {
            into.left(&line, "what stands behind its sixth field is not read");
        }
        let path: PathBuf = match device.parse::<Location>() {
            Ok(location) => location.path().components().collect(),
            Err(why) => {
                into.left(&line, &why);
                continue;
            }
        };
        if path.components().any(|part| part == Component::ParentDir) {
            into.left(&line, "its path leads upwards, and systemd refuses it");
            continue;
        }
        if let Some(number) = seen.get(&path) {
            let why = format!("line {number} has it already, and systemd takes that one");
            into.left(&line, &why);
            continue;
        }
        let unit = unit_name(&path, "swap");
        into.named.push(path.clone());
        seen.insert(path, line.number);
        if let Some((file, is_mask)) = in_place_of(&tree, &unit) {
            let file = file.display();
            let why = match is_mask {
                true => format!("{file} masks it, and systemd does not switch it on"),
                false => format!("systemd takes {file} in its place, which zmeld does not read"),
            };
            into.left(&line, &why);
            continue;
        }
        area(device, options, &line, &volumes, into);
    }
    Ok(())
}

/// The lines of a table, with their fields.
fn table(
    root: &Path,
    file: &str,
    is_between: impl Fn(char) -> bool + Copy,
) -> Result<Vec<(SourceLine, Vec<String>)>, HostError> {
    let text = bytes(root, Path::new(file))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = (1..).zip(text.split('\n')).map(|(number, text)| {
        let text = text.trim_matches(is_between);
        let fields = text.split(is_between).filter(|field| !field.is_empty());
        let line = SourceLine {
            file: file.into(),
            number,
            text: text.to_owned(),
        };
        (line, fields.map(unescape).collect())
    });
    let is_said = |(line, _): &(SourceLine, Vec<String>)| !line.text.starts_with('#');
    Ok(lines.filter(is_said).collect())
}

fn area(device: &str, options: &str, line: &SourceLine, volumes: &[Volume], into: &mut Imported) {
    if device.starts_with("/dev/zram") {
        into.left(
            line,
            "another tool has to make the device first; name a zram tier instead",
        );
        return;
    }
    let is_file = device.starts_with('/') && !device.starts_with("/dev/");
    let mut comment = line.to_string();
    let mut encryption = Encryption::None;
    let mut discards = false;
    let mut may_fail = false;
    let mut disk = DiskSwap::default();
    if is_file {
        disk.file = Some(PathBuf::from(device));
    } else {
        let volume = device
            .strip_prefix("/dev/mapper/")
            .and_then(|name| volumes.iter().find(|volume| volume.name == name));
        may_fail = volume.is_some_and(|volume| volume.may_fail);
        let named = match volume {
            Some(volume) => match &volume.encryption {
                Some(known) => {
                    encryption = known.clone();
                    discards = volume.discards;
                    if let Some(what) = volume.remark {
                        into.left(&volume.line, what);
                    }
                    comment = format!("{comment}\n{}", volume.line);
                    into.found(Tool::Crypttab, Path::new(CRYPTTAB));
                    volume.device.clone()
                }
                None => {
                    comment = format!("{comment}\n{} stays as it is", volume.line);
                    if let Some(why) = &volume.unknown {
                        into.left(&volume.line, &format!("{why}: it stays as it is"));
                    }
                    device.to_owned()
                }
            },
            None => device.to_owned(),
        };
        match named.parse::<Location>() {
            Ok(location) => disk.device = Some(location),
            Err(why) => {
                into.left(line, &why);
                return;
            }
        }
    }
    let mut disk = disk.encrypted(encryption);
    let Some(mut swap) = read_options(options, line, &mut disk, into) else {
        return;
    };
    swap.optional |= may_fail;
    if swap.discard == Discard::None && discards {
        comment.push_str("\ndiscards are let through by the volume and not asked for by swap");
    }
    let path = match &disk.device {
        Some(Location::Path(path)) => Some(path),
        _ => disk.file.as_ref(),
    };
    let path = path.and_then(|path| path.file_name());
    let name = path.map_or("disk".into(), |name| name.to_string_lossy());
    let name = name.into_owned();
    into.add(&name, swap, Kind::Disk(disk), comment);
}

/// Reads the options into a tier: how it is swapped to. None where it is not set up at boot.
fn read_options(
    options: &str,
    line: &SourceLine,
    disk: &mut DiskSwap,
    into: &mut Imported,
) -> Option<Swap> {
    let mut known = swap_options(options);
    let mut is_at_boot = true;
    let mut others = Vec::new();
    for option in std::mem::take(&mut known.others) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("noauto", "") => is_at_boot = false,
            ("auto", "") => is_at_boot = true,
            ("x-initrd.mount", "") => {}
            ("x-systemd.device-timeout", value) => match timeout(value) {
                Some(span) => disk.timeout = span,
                None => into.left(line, "its time-out has no counterpart"),
            },
            ("x-systemd.makefs", "") => disk.format = true,
            _ => others.push(option),
        }
    }
    if !is_at_boot {
        into.left(line, "noauto: it is not set up at boot");
        return None;
    }
    if disk.format && disk.file.is_some() {
        into.left(
            line,
            "systemd makes swap space of no file, and does not set it up",
        );
        return None;
    }
    known.others = others;
    known.note(line, into);
    Some(Swap {
        optional: known.may_fail,
        // Without one the kernel chooses, below all that are given.
        priority: known.priority.or(Some(Number(-1))),
        discard: known.discard,
        ..Swap::default()
    })
}

/// systemd's bare number is seconds.
fn timeout(value: &str) -> Option<Span> {
    value.parse().or_else(|_| format!("{value}s").parse()).ok()
}

struct Volume {
    name: String,
    device: String,
    /// Nothing where it asks for a passphrase or does what zmeld does not.
    encryption: Option<Encryption>,
    /// Unsupported by zmeld: an option, a key on another device.
    unknown: Option<String>,
    /// A difference here.
    remark: Option<&'static str>,
    discards: bool,
    may_fail: bool,
    line: SourceLine,
}

/// Options of every volume that say what zmeld does as well. Any other may say where its
/// data begins, or what else has to be there: a volume with one stays as it is.
const KNOWN: [&str; 4] = ["discard", "nofail", "noearly", ""];
/// Those of a volume with a random key, which no passphrase is hashed for.
const KNOWN_OF_RANDOM: [&str; 5] = ["swap", "plain", "cipher", "size", "hash"];
/// Those of a LUKS volume, whose header says the rest.
const KNOWN_OF_LUKS: [&str; 1] = ["luks"];

/// The remark on a key that is a path on another device, as `/keyfile:LABEL=keydev`.
fn elsewhere(key: &str) -> Option<String> {
    let (_, device) = key.rsplit_once(':')?;
    let is_tag = matches!(device.parse(), Ok(Location::Tag { .. }));
    (is_tag || device.starts_with("/dev/")).then(|| format!("its key is on {device}"))
}

/// Defaults of systemd where crypttab has a size and no cipher, or the other way round.
const CIPHER: &str = "aes-cbc-essiv:sha256";
const KEY_SIZE: u16 = 256;

fn volumes(root: &Path, kernels: &str) -> Result<Vec<Volume>, HostError> {
    let mut volumes = Vec::new();
    // The reason why systemd opens none, or none of later lines.
    let word = ["luks", "luks.crypttab"]
        .into_iter()
        .find(|word| is_off(kernels, word));
    let mut off = word
        .map(|word| format!("{word} on the kernel's command line keeps systemd from opening it"));
    for (line, fields) in table(root, CRYPTTAB, |c| c.is_ascii_whitespace() || c == '\x0b')? {
        let [name, device, more @ ..] = fields.as_slice() else {
            continue;
        };
        if volumes.iter().any(|it: &Volume| it.name == *name) {
            let number = line.number;
            let why =
                format!("systemd reads no further than line {number}, which names {name} again");
            off.get_or_insert(why);
            continue;
        }
        let key = more.first().map_or("none", String::as_str);
        let options: Vec<&str> = more.get(1).map_or("", String::as_str).split(',').collect();
        // The last one counts.
        let value = |key: &str| {
            let mut options = options.iter().rev();
            options.find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
        };
        let random = ["/dev/urandom", "/dev/random", "/dev/hwrng"].contains(&key);
        let is_random = random && options.contains(&"swap");
        let (mut remark, mut unknown) = (None, None);
        let (encryption, known) = if is_random {
            let (name, size) = (value("cipher"), value("size"));
            let is_bare = name.is_none() && size.is_none();
            let cipher = match size.map_or(Ok(KEY_SIZE), str::parse) {
                _ if is_bare => {
                    remark = Some(
                        "no cipher is named: what systemd takes then is aes-cbc-essiv:sha256 \
                         with 256 bits, and zmeld aes-xts-plain64 with 512",
                    );
                    Cipher::default()
                }
                Ok(key_size) => Cipher {
                    name: name.unwrap_or(CIPHER).to_owned(),
                    key_size,
                },
                Err(_) => {
                    unknown = Some(format!(
                        "option {:?}",
                        format!("size={}", size.unwrap_or(""))
                    ));
                    Cipher::default()
                }
            };
            unknown = unknown.or_else(|| cipher.problem());
            (Encryption::Random { cipher }, &KNOWN_OF_RANDOM[..])
        } else if key.starts_with('/') && !key.starts_with("/dev/") && !options.contains(&"plain") {
            let luks = Encryption::Luks {
                key_file: PathBuf::from(key),
                cipher: Cipher::default(),
            };
            (luks, &KNOWN_OF_LUKS[..])
        } else {
            (Encryption::None, &[][..])
        };
        let is_zmelds = encryption != Encryption::None;
        let mut other = options.iter().filter(|option| {
            let name = option.split_once('=').map_or(**option, |(name, _)| name);
            !known.contains(&name) && !KNOWN.contains(&name)
        });
        unknown = unknown.or_else(|| other.next().map(|option| format!("option {option:?}")));
        unknown = unknown.or_else(|| elsewhere(key));
        if device.starts_with('/') && !device.starts_with("/dev/") {
            unknown = Some("zmeld encrypts no file".to_owned());
        }
        unknown = unknown.filter(|_| is_zmelds);
        let is_tmp = options.contains(&"tmp") || value("tmp").is_some();
        if off.is_none() && options.contains(&"swap") && is_tmp {
            let number = line.number;
            let why = "swap and tmp at once";
            off = Some(format!(
                "systemd reads no further than line {number}, for {why}"
            ));
        }
        unknown = off.clone().or(unknown);
        volumes.push(Volume {
            name: name.clone(),
            device: device.clone(),
            encryption: Some(encryption).filter(|_| is_zmelds && unknown.is_none()),
            unknown,
            remark,
            may_fail: off.is_none() && options.contains(&"nofail"),
            discards: options.contains(&"discard"),
            line,
        });
    }
    Ok(volumes)
}

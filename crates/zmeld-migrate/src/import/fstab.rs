//! Swap lines of `/etc/fstab`, after fstab(5) and systemd.swap(5), and the
//! volumes under them in `/etc/crypttab`.

use std::path::{Path, PathBuf};
use zmeld_linux::octal::unescape;

use super::{lines, Imported, Line, Tool};
use zmeld_config::{Cipher, Discard, DiskSwap, Encryption, Location, Source, Span};
use zmeld_linux::HostError;

const FSTAB: &str = "/etc/fstab";
const CRYPTTAB: &str = "/etc/crypttab";

/// Reads both files and adds a tier for each swap line.
pub(super) fn import(root: &Path, into: &mut Imported) -> Result<(), HostError> {
    let volumes = volumes(root)?;
    for line in lines(root, Path::new(FSTAB))?.unwrap_or_default() {
        let fields: Vec<String> = line.text.split_whitespace().map(unescape).collect();
        let [device, _, kind, more @ ..] = fields.as_slice() else {
            continue;
        };
        if kind != "swap" {
            continue;
        }
        into.found(Tool::Fstab, Path::new(FSTAB));
        let options = more.first().map_or("", String::as_str);
        area(device, options, &line, &volumes, into);
    }
    Ok(())
}

fn area(device: &str, options: &str, line: &Line, volumes: &[Volume], into: &mut Imported) {
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
    let source = if is_file {
        Source::File {
            path: PathBuf::from(device),
            size: None,
        }
    } else {
        let volume = device
            .strip_prefix("/dev/mapper/")
            .and_then(|name| volumes.iter().find(|volume| volume.name == name));
        let named = match volume {
            Some(volume) => match &volume.encryption {
                Some(known) => {
                    encryption = known.clone();
                    discards = volume.discards;
                    may_fail = volume.may_fail;
                    comment = format!("{comment}\n{}", volume.line);
                    into.found(Tool::Crypttab, Path::new(CRYPTTAB));
                    volume.device.clone()
                }
                None => {
                    comment = format!("{comment}\n{} stays as it is", volume.line);
                    if let Some(unknown) = &volume.unknown {
                        into.left(&volume.line, &format!("{unknown}: it stays as it is"));
                    }
                    device.to_owned()
                }
            },
            None => device.to_owned(),
        };
        match named.parse::<Location>() {
            Ok(location) => Source::Device(location),
            Err(why) => {
                into.left(line, &why);
                return;
            }
        }
    };
    let mut disk = DiskSwap {
        source,
        encryption,
        ..DiskSwap::default()
    };
    let Some(optional) = read_options(options, line, &mut disk, into) else {
        return;
    };
    if disk.swap.discard == Discard::None && discards {
        comment.push_str("\ndiscards are let through by the volume and not asked for by swap");
    }
    let path = match &disk.source {
        Source::File { path, .. } | Source::Device(Location::Path(path)) => path.file_name(),
        Source::Device(Location::Tag { .. }) => None,
    };
    let name = path.map_or("disk".into(), |name| name.to_string_lossy());
    let name = name.into_owned();
    into.add(&name, optional || may_fail, disk, comment);
}

/// Reads the options into a tier: whether the boot goes on without it. None where it is
/// not set up at boot.
fn read_options(
    options: &str,
    line: &Line,
    disk: &mut DiskSwap,
    into: &mut Imported,
) -> Option<bool> {
    let mut optional = false;
    // Without one the kernel chooses, below all that are given.
    disk.swap.priority = Some(-1);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("defaults" | "sw" | "auto" | "x-initrd.mount", "") => {}
            ("noauto", "") => {
                into.left(line, "noauto: it is not set up at boot");
                return None;
            }
            ("nofail", "") => optional = true,
            ("pri", value) => match value.parse::<i16>() {
                Ok(priority @ -1..) => disk.swap.priority = Some(priority),
                _ => into.left(line, "a priority is a number from -1 to 32767"),
            },
            ("discard", "") => disk.swap.discard = Discard::Both,
            ("discard", "once") => disk.swap.discard = Discard::Once,
            ("discard", "pages") => disk.swap.discard = Discard::Pages,
            ("x-systemd.device-timeout", value) => match timeout(value) {
                Some(span) => disk.timeout = span,
                None => into.left(line, "its time-out has no counterpart"),
            },
            ("x-systemd.makefs", "") => disk.format = true,
            _ => into.left(line, &format!("option {option:?}")),
        }
    }
    Some(optional)
}

/// systemd's bare number is seconds.
fn timeout(value: &str) -> Option<Span> {
    value.parse().or_else(|_| format!("{value}s").parse()).ok()
}

/// A line of crypttab.
struct Volume {
    name: String,
    device: String,
    /// Nothing where it asks for a passphrase or does what zmeld does not.
    encryption: Option<Encryption>,
    /// What zmeld would have to do and does not: an option, a key on another device.
    unknown: Option<String>,
    discards: bool,
    may_fail: bool,
    line: Line,
}

/// Options of every volume that say what zmeld does as well. Any other may say where its
/// data begins, or what else has to be there: a volume with one stays as it is.
const KNOWN: [&str; 4] = ["discard", "nofail", "noearly", ""];
/// Those of a volume with a random key, which no passphrase is hashed for.
const KNOWN_OF_RANDOM: [&str; 5] = ["swap", "plain", "cipher", "size", "hash"];
/// Those of a LUKS volume, whose header says the rest.
const KNOWN_OF_LUKS: [&str; 1] = ["luks"];

/// What is to be said of a key that is a path on another device, as `/keyfile:LABEL=keydev`.
fn elsewhere(key: &str) -> Option<String> {
    let (_, device) = key.rsplit_once(':')?;
    let is_tag = matches!(device.parse(), Ok(Location::Tag { .. }));
    (is_tag || device.starts_with("/dev/")).then(|| format!("its key is on {device}"))
}

fn volumes(root: &Path) -> Result<Vec<Volume>, HostError> {
    let mut volumes = Vec::new();
    for line in lines(root, Path::new(CRYPTTAB))?.unwrap_or_default() {
        let fields: Vec<String> = line.text.split_whitespace().map(unescape).collect();
        let [name, device, more @ ..] = fields.as_slice() else {
            continue;
        };
        let key = more.first().map_or("none", String::as_str);
        let options: Vec<&str> = more.get(1).map_or("", String::as_str).split(',').collect();
        let value = |key: &str| {
            options
                .iter()
                .find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
        };
        let random = ["/dev/urandom", "/dev/random", "/dev/hwrng"].contains(&key);
        let standard = Cipher::default();
        let key_size = value("size").and_then(|size| size.parse().ok());
        let cipher = Cipher {
            name: value("cipher").map_or(standard.name, str::to_owned),
            key_size: key_size.unwrap_or(standard.key_size),
        };
        let (encryption, known) = if random && options.contains(&"swap") {
            (Encryption::Random { cipher }, &KNOWN_OF_RANDOM[..])
        } else if key.starts_with('/') && !random && !options.contains(&"plain") {
            let luks = Encryption::Luks {
                key_file: PathBuf::from(key),
                cipher: Cipher::default(),
            };
            (luks, &KNOWN_OF_LUKS[..])
        } else {
            (Encryption::None, &[][..])
        };
        let is_zmelds = encryption != Encryption::None;
        let unknown = options.iter().find(|option| {
            let name = option.split_once('=').map_or(**option, |(name, _)| name);
            let is_wrong = **option != "size" && name == "size" && key_size.is_none();
            is_zmelds && (is_wrong || !known.contains(&name) && !KNOWN.contains(&name))
        });
        let unknown = unknown.map(|option| format!("option {option:?}"));
        let unknown = unknown.or_else(|| elsewhere(key).filter(|_| is_zmelds));
        volumes.push(Volume {
            name: name.clone(),
            device: device.clone(),
            encryption: Some(encryption).filter(|_| is_zmelds && unknown.is_none()),
            unknown,
            may_fail: options.contains(&"nofail"),
            discards: options.contains(&"discard"),
            line,
        });
    }
    Ok(volumes)
}

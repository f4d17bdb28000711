//! How a device or file is named.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use zmeld_linux::text_form;

/// A device by its path or by a tag that udev knows it by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Location {
    /// An absolute path. Text: the path.
    Path(PathBuf),
    /// A tag of the device. Text: `UUID=...`, as in `/etc/fstab`.
    Tag {
        /// Which tag: `UUID`.
        tag: String,
        /// Its value, not empty, without `/`.
        value: String,
    },
}

/// Tags of devices; in small letters udev has them below `/dev/disk/by-`. The first two are of what
/// is on the device, and go away when that is overwritten.
const TAGS: [&str; 4] = ["UUID", "LABEL", "PARTUUID", "PARTLABEL"];

impl Location {
    /// The path under which the device appears: the path itself, or udev's
    /// link for the tag, with the characters escaped that udev escapes.
    pub fn path(&self) -> PathBuf {
        match self {
            Location::Path(path) => path.clone(),
            Location::Tag { tag, value } => {
                let by = tag.to_lowercase();
                PathBuf::from(format!("/dev/disk/by-{by}/{}", udev_escaped(value)))
            }
        }
    }

    /// Whether the name lasts when all of the device is overwritten.
    pub fn outlives_its_contents(&self) -> bool {
        let path = self.path();
        let mut lost = TAGS[..2].iter().map(|tag| tag.to_lowercase());
        !lost.any(|tag| path.starts_with(format!("/dev/disk/by-{tag}")))
    }
}

/// udev keeps letters, digits, `#+-.:=@_`, and valid UTF-8 beyond ASCII; the
/// rest becomes `\xNN` (`udev_util.c`, `encode_devnode_name`).
fn udev_escaped(value: &str) -> String {
    let mut escaped = String::new();
    for c in value.chars() {
        if c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) || !c.is_ascii() {
            escaped.push(c);
        } else {
            escaped.push_str(&format!("\\x{:02x}", c as u32));
        }
    }
    escaped
}

/// Text between a pair of quotes, which fstab allows around a value.
fn unquoted(value: &str) -> Option<&str> {
    let between = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    between('"').or_else(|| between('\''))
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} names no device; write an absolute path, or UUID=, LABEL=, PARTUUID= or \
                 PARTLABEL= with its value"
            )
        };
        if text.contains(|c: char| c.is_control()) {
            return Err(wrong());
        }
        if text.starts_with('/') {
            return Ok(Location::Path(PathBuf::from(text)));
        }
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let value = unquoted(value).unwrap_or(value);
        let is_text = name.ends_with("LABEL");
        if !TAGS.contains(&name) || value.is_empty() || (!is_text && value.contains('/')) {
            return Err(wrong());
        }
        Ok(Location::Tag {
            tag: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Path(path) => write!(f, "{}", path.display()),
            Location::Tag { tag, value } if unquoted(value).is_some() => {
                write!(f, "{tag}=\"{value}\"")
            }
            Location::Tag { tag, value } => write!(f, "{tag}={value}"),
        }
    }
}

text_form!(Location: str::parse);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_the_links_of_udev() {
        for (text, path) in [
            ("/dev/sda2", "/dev/sda2"),
            ("UUID=12-34", "/dev/disk/by-uuid/12-34"),
            ("LABEL=my swap/1", "/dev/disk/by-label/my\\x20swap\\x2f1"),
            ("PARTUUID=ab-01", "/dev/disk/by-partuuid/ab-01"),
            ("PARTLABEL=Größe", "/dev/disk/by-partlabel/Größe"),
            ("LABEL=\"'a'\"", "/dev/disk/by-label/\\x27a\\x27"),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!(location.path(), PathBuf::from(path));
            assert_eq!(location.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_device_is_refused() {
        for text in [
            "",
            "sda2",
            "UUID=",
            "uuid=1",
            "ID=1",
            "UUID=../x",
            "/dev/a\nb",
        ] {
            assert!(text.parse::<Location>().is_err(), "{text}");
        }
    }
}

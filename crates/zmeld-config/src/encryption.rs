//! How what is written to a drive is kept from whoever reads the drive.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::keys::Section;
use super::named::named;
use super::read::{OpenTable, Reader};
use super::section::{section, KeyValue, Keys, Row, Setting};

/// How what is written to a drive is kept from whoever reads the drive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// It is not.
    #[default]
    None,
    /// A LUKS2 volume that a key file opens; outlives a reboot.
    Luks {
        /// Its absolute path. Only root may read it.
        key_file: PathBuf,
        /// For a volume that is created; an existing one knows its own.
        cipher: Cipher,
    },
    /// dm-crypt with a key from the kernel's random numbers, new each boot.
    Random {
        /// How.
        cipher: Cipher,
    },
}

/// A cipher of dm-crypt and the size of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cipher {
    /// As `cryptsetup --cipher` takes it.
    pub name: String,
    /// In bits. For xts this is two keys: 512 is AES-256, 256 is AES-128.
    pub key_size: u16,
}

impl Default for Cipher {
    /// aes-xts-plain64 with 512 bits, cryptsetup's own default for LUKS2.
    fn default() -> Self {
        Cipher {
            name: "aes-xts-plain64".to_owned(),
            key_size: 512,
        }
    }
}

impl Cipher {
    /// Why the kernel would not take it, where that is known: its name is none, or it has
    /// no key of that size.
    pub fn problem(&self) -> Option<String> {
        let Cipher { name, key_size } = self;
        if let Err(why) = cipher_name(name) {
            return Some(why);
        }
        let is_block_cipher = ["aes-", "serpent-", "twofish-", "camellia-"]
            .iter()
            .any(|block| name.starts_with(block));
        let sizes = match name.contains("-xts-") {
            true => [256, 384, 512],
            false => [128, 192, 256],
        };
        let [least, middle, most] = sizes;
        (is_block_cipher && !sizes.contains(key_size)).then(|| {
            format!("{name} has no key of {key_size} bits; write {least}, {middle} or {most}")
        })
    }
}

named! {
    enum Name {
        None = "none",
        Luks = "luks",
        Random = "random",
    }
}

section! {
    /// The keys of a disk tier or a backing device.
    struct EncryptionKeys in Disk {
        encryption: Name = Name::None;
        key_file: Option<PathBuf>, without("has to be given with luks");
        cipher: String = Cipher::default().name, by(cipher_name);
        key_size: u16 = Cipher::default().key_size, range(128, 1024);
    }
}

impl Setting for Encryption {
    fn read(_: &Row<Self>, reader: &mut Reader, open: &OpenTable<'_>) -> Option<Self> {
        let before = reader.problems.len();
        let mut keys = EncryptionKeys::default();
        keys.take(reader, open);
        let cipher = Cipher {
            name: keys.cipher,
            key_size: keys.key_size,
        };
        if reader.problems.len() > before {
            return None;
        }
        check(reader, open, keys.encryption);
        if let (true, Some(problem)) = (keys.encryption != Name::None, cipher.problem()) {
            let key = if open.node("key_size").is_some() {
                "key_size"
            } else {
                "cipher"
            };
            if let Some(node) = open.node(key) {
                reader.wrong(&node.place, &open.key(key), problem);
            }
        }
        match keys.encryption {
            Name::None => None,
            Name::Random => Some(Encryption::Random { cipher }),
            Name::Luks => Some(Encryption::Luks {
                key_file: keys.key_file?,
                cipher,
            }),
        }
    }

    fn lines(&self, row: &Row<Self>) -> Vec<KeyValue> {
        let standard = Cipher::default();
        let (encryption, key_file, cipher) = match self {
            Encryption::None => (Name::None, None, &standard),
            Encryption::Luks { key_file, cipher } => (Name::Luks, Some(key_file.clone()), cipher),
            Encryption::Random { cipher } => (Name::Random, None, cipher),
        };
        let keys = EncryptionKeys {
            encryption,
            key_file,
            cipher: cipher.name.clone(),
            key_size: cipher.key_size,
        };
        let mut lines = keys.rows();
        if row.key.section == Section::Writeback {
            lines.retain(|line| line.key.name != "key_file");
            lines
                .iter_mut()
                .for_each(|line| line.key.section = row.key.section);
        }
        lines
    }
}

/// Checks those keys together.
fn check(reader: &mut Reader, open: &OpenTable<'_>, name: Name) {
    let unused = "says how, but nothing is encrypted; add encryption = \"luks\" or \"random\", or \
                  remove it";
    let lasting = "what is written back is lost with RAM, so a key that lasts protects nothing \
                   more; write \"random\"";
    let keyless = "luks needs a key file, since nobody types a passphrase when swap is set up; \
                   write key_file = \"/etc/zmeld/NAME.key\"";
    let wrong: &[(&str, &str)] = match name {
        Name::None => &[
            ("key_file", unused),
            ("cipher", unused),
            ("key_size", unused),
        ],
        Name::Luks if !open.takes("key_file") => &[("encryption", lasting)],
        Name::Luks if open.node("key_file").is_none() => &[("encryption", keyless)],
        Name::Luks | Name::Random => &[],
    };
    for (key, what) in wrong {
        if let Some(node) = open.node(key) {
            reader.wrong(&node.place, &open.key(key), *what);
        }
    }
    if let (Name::Random, Some(node)) = (name, open.node("key_file")) {
        let what = "is for encryption = \"luks\"; a random key is kept nowhere: remove it";
        reader.wrong(&node.place, &open.key("key_file"), what);
    }
}

fn cipher_name(text: &str) -> Result<String, String> {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_,():".contains(c));
    if !plain || text.split('-').count() < 3 {
        return Err(format!(
            "{text:?} is no cipher; write it as cryptsetup does, such as aes-xts-plain64"
        ));
    }
    if text.contains("-ecb") {
        return Err(format!(
            "{text:?} shows which blocks are equal; write aes-xts-plain64"
        ));
    }
    Ok(text.to_owned())
}

//! How what is written to a drive is kept from whoever reads the drive.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use smart_default::SmartDefault;

use crate::check::Check;
use crate::key::by;

/// What `encryption` may be.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EncryptionKind {
    /// No encryption.
    #[default]
    None,
    /// LUKS2.
    Luks,
    /// A random key.
    Random,
}

/// How what is written to a drive is kept from whoever reads the drive.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Encryption {
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
    Random { cipher: Cipher },
}

/// The least and the most bits that a key of any cipher has.
pub(super) const KEY_SIZES: [u16; 2] = [128, 1024];

/// A cipher of dm-crypt and the size of its key.
#[derive(
    Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Cipher {
    /// As `cryptsetup --cipher` takes it.
    // Of both: cryptsetup's own for LUKS2.
    #[default = "aes-xts-plain64"]
    pub name: String,
    /// In bits. For xts this is two keys: 512 is AES-256, 256 is AES-128.
    #[default = 512]
    pub key_size: u16,
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
        let [shortest, longest] = KEY_SIZES;
        let way_out = match is_block_cipher {
            true if !sizes.contains(key_size) => format!("{least}, {middle} or {most}"),
            false if !(shortest..=longest).contains(key_size) => format!("{shortest} to {longest}"),
            _ => return None,
        };
        Some(format!(
            "{name} has no key of {key_size} bits; write {way_out}"
        ))
    }
}

impl Encryption {
    /// What the keys of a tier or a backing device say.
    pub(super) fn of(
        kind: EncryptionKind,
        key_file: Option<&Path>,
        cipher: &Option<String>,
        key_size: Option<u16>,
    ) -> Encryption {
        let standard = Cipher::default();
        let cipher = Cipher {
            name: cipher.clone().unwrap_or(standard.name),
            key_size: key_size.unwrap_or(standard.key_size),
        };
        match kind {
            EncryptionKind::None => Encryption::None,
            EncryptionKind::Luks => Encryption::Luks {
                key_file: key_file.unwrap_or(Path::new("")).to_owned(),
                cipher,
            },
            EncryptionKind::Random => Encryption::Random { cipher },
        }
    }
}

impl Check<'_> {
    /// Checks those keys of a table together.
    pub(super) fn encryption(
        &mut self,
        table: &str,
        kind: EncryptionKind,
        key_file: Option<&Path>,
        cipher: &Option<String>,
        key_size: Option<u16>,
    ) {
        let mut wrong = |key: &str, what: &str| self.error(&format!("{table}.{key}"), what);
        let unused =
            "says how, but nothing is encrypted; add encryption = \"luks\" or \"random\", \
                      or remove it";
        let keyless =
            "luks needs a key file, since nobody types a passphrase when swap is set up; \
                       write key_file = \"/etc/zmeld/NAME.key\"";
        let lasting = "is for encryption = \"luks\"; a random key is kept nowhere: remove it";
        match (kind, key_file) {
            (EncryptionKind::None, Some(_)) => wrong("key_file", unused),
            (EncryptionKind::Luks, None) => wrong("encryption", keyless),
            (EncryptionKind::Random, Some(_)) => wrong("key_file", lasting),
            _ => {}
        }
        let key = if key_size.is_some() {
            "key_size"
        } else {
            "cipher"
        };
        match Encryption::of(kind, None, cipher, key_size) {
            Encryption::None if key_size.is_some() || cipher.is_some() => wrong(key, unused),
            Encryption::None => {}
            Encryption::Luks { cipher, .. } | Encryption::Random { cipher } => {
                cipher.problem().iter().for_each(|it| wrong(key, it));
            }
        }
    }
}

/// Reads the key `cipher`.
pub(super) fn cipher_key<'de, D: Deserializer<'de>>(it: D) -> Result<Option<String>, D::Error> {
    by(it, cipher_name)
}

fn cipher_name(text: &str) -> Result<String, String> {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_,():".contains(c));
    if !plain || text.split('-').count() < 3 {
        return Err(format!(
            "{text:?} is no cipher; write it as cryptsetup does, such as \"aes-xts-plain64\""
        ));
    }
    if text.contains("-ecb") {
        return Err(format!(
            "{text:?} shows which blocks are equal; write \"aes-xts-plain64\""
        ));
    }
    Ok(text.to_owned())
}

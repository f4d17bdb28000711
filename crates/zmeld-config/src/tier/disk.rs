//! Swap on a drive or in a file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use zmeld_linux::amount::Span;

use super::ram::Size;
use super::swap::{Place, Swap, TIMEOUT};
use crate::check::{in_ram, Check};
use crate::encryption::{cipher_key, Cipher, Encryption, EncryptionKind, KEY_SIZES};
use crate::finding::FindingId;
use crate::key::absolute;
use crate::location::Location;

/// Swap on a drive.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DiskSwap {
    /// Used whole.
    pub device: Option<Location>,
    /// A swap file, [root's alone as are its folders](refusals.md#swap-files-and-devices). Its file
    /// system encrypts it.
    #[serde(deserialize_with = "absolute")]
    pub file: Option<PathBuf>,
    /// The file is created with this size; one that is there is used as it is. 1 GiB of the file
    /// system, or a twentieth, stays free.
    pub size: Option<Size>,
    /// A device that carries nothing known is made a swap area, or a LUKS volume; `random` does not
    /// need it.
    pub format: bool,
    /// `luks`: a LUKS2 volume that a key file opens. `random`: dm-crypt with a new key at each
    /// boot; it is overwritten, so name the device by `PARTUUID=`, `PARTLABEL=` or
    /// `/dev/disk/by-id`.
    pub encryption: EncryptionKind,
    /// Root's alone, as are its folders, and no link leads to it.
    #[serde(deserialize_with = "absolute")]
    pub key_file: Option<PathBuf>,
    /// The cipher, as `cryptsetup --cipher` takes it; a LUKS volume that is there knows its own.
    #[serde(deserialize_with = "cipher_key")]
    pub cipher: Option<String>,
    /// In bits; for xts this is two keys: 512 is AES-256.
    #[schemars(range(min = KEY_SIZES[0], max = KEY_SIZES[1]))]
    pub key_size: Option<u16>,
    /// The image goes here, for the checks; `resume=` tells the kernel.
    pub hibernation: bool,
    /// How long after the kernel's start a boot waits for the drive.
    #[default(TIMEOUT)]
    pub timeout: Span,
}

/// Swap space of a disk tier.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    Device(Location),
    File {
        /// Its absolute path.
        path: PathBuf,
        /// Created with this size if it is not there; without, it has to be.
        size: Option<Size>,
    },
}

impl DiskSwap {
    /// Whether nothing on it can be read after a reboot.
    pub fn encryption_is_random(&self) -> bool {
        self.encryption == EncryptionKind::Random
    }

    /// How what is written is kept from whoever reads the drive.
    pub fn encryption(&self) -> Encryption {
        Encryption::of(
            self.encryption,
            self.key_file.as_deref(),
            &self.cipher,
            self.key_size,
        )
    }

    pub fn encrypted(self, how: Encryption) -> DiskSwap {
        let (encryption, key_file, cipher) = match how {
            Encryption::None => (EncryptionKind::None, None, Cipher::default()),
            Encryption::Luks { key_file, cipher } => (EncryptionKind::Luks, Some(key_file), cipher),
            Encryption::Random { cipher } => (EncryptionKind::Random, None, cipher),
        };
        let standard = Cipher::default();
        DiskSwap {
            encryption,
            key_file,
            key_size: Some(cipher.key_size).filter(|it| *it != standard.key_size),
            cipher: Some(cipher.name).filter(|it| *it != standard.name),
            ..self
        }
    }

    /// Where it is, once it was checked.
    pub fn source(&self) -> Source {
        let nowhere = || Location::Path(PathBuf::new());
        match (&self.device, &self.file) {
            (None, Some(path)) => Source::File {
                path: path.clone(),
                size: self.size,
            },
            (device, _) => Source::Device(device.clone().unwrap_or_else(nowhere)),
        }
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place {
            table: "",
            device: self.device.as_ref(),
            path: match self.source() {
                Source::Device(device) => device.path(),
                Source::File { path, .. } => path,
            },
            encryption: self.encryption(),
            timeout: self.timeout,
            is_dispensable: false,
        }
    }

    /// The file may have to be made: its folder is what has to be there.
    pub(super) fn files(&self) -> Vec<&Path> {
        let folder = self.file.as_ref().and_then(|file| file.parent());
        folder.into_iter().chain(self.key_file.as_deref()).collect()
    }

    pub(super) fn check(&self, key: &str, swap: &Swap, check: &mut Check<'_>) {
        match (&self.device, &self.file) {
            (Some(_), None) if self.size.is_some() => {
                let what =
                    "is for a swap file; a device is used whole: remove it, or write file = \
                            for device =";
                check.error(&format!("{key}.size"), what);
            }
            (None, None) => {
                let what = "names no place; write device = \"UUID=...\" or file = \"/swapfile\"";
                check.error(key, what);
            }
            (Some(_), Some(_)) => {
                let what = "a tier is one place; remove either device or file, or make two tiers";
                check.error(&format!("{key}.file"), what);
            }
            _ => {}
        }
        let key_file = self.key_file.as_deref();
        check.encryption(key, self.encryption, key_file, &self.cipher, self.key_size);
        if let Some(device) = &self.device {
            let key = format!("{key}.device");
            check.device(device, &key);
            if self.encryption_is_random() {
                check.overwritten(device, &key, "the area");
            }
        }
        if let Some(path) = &self.file {
            file(path, &format!("{key}.file"), check);
            if self.encryption != EncryptionKind::None {
                let what = "is for devices; put the file on an encrypted file system, or use \
                            a partition";
                check.error(&format!("{key}.encryption"), what);
            }
        }
        if let Some(key_file) = key_file {
            if in_ram(key_file) || key_file.starts_with("/dev") {
                let what = format!(
                    "{} does not outlive a reboot, and without it the volume stays shut; put it \
                     below /etc",
                    key_file.display()
                );
                check.error_of_value(&format!("{key}.key_file"), what);
            }
        }
        if self.hibernation && self.encryption_is_random() {
            let what = "the key is new at each boot, so the image could not be read back; use \
                        encryption = \"luks\" or hibernate elsewhere";
            check.error(&format!("{key}.hibernation"), what);
        }
        if self.hibernation && swap.optional {
            let what = "the image of hibernation is on a drive that may be missing; it is lost \
                        with it";
            check.warning(FindingId::Hibernation, &format!("{key}.optional"), what);
        }
    }
}

fn file(path: &Path, key: &str, check: &mut Check<'_>) {
    let shown = path.display();
    let mut no_place = ["/dev", "/proc", "/sys"].iter();
    if no_place.any(|no| path.starts_with(no)) {
        let way_out = format!("for a device write device = \"{shown}\"");
        check.error_of_value(key, format!("{shown} is no place for a file; {way_out}"));
    } else if in_ram(path) {
        let what = format!(
            "{shown} is often kept in RAM, where a swap file cannot be; put it on a disk, such \
                 as /var/swap"
        );
        check.warning(FindingId::FileInRam, key, what);
    }
}

//! The fleet's secret: 32 bytes that its machines share and that those who read
//! surveys need not have.

use std::fmt::Write;
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use zmeld_linux::{file, FileError};

use crate::survey::sketch::Hash;
use crate::survey::Error;

pub const PATH: &str = "/etc/zmeld/fleet.key";

const SECRET_BYTES: usize = 32;
/// More than a key's file can have.
const FILE_BYTES_MAX: u64 = 4096;
/// The rights of others than the owner.
const OTHERS: u32 = 0o077;
/// Hash context of the machine's id. Never changed: it would be another machine.
const MACHINE_CONTEXT: &str = "zmeld 2026-11-22 survey machine id";
/// Context of the id that tells keys apart.
const KEY_ID_CONTEXT: &str = "zmeld 2026-11-22 survey key id";

/// The fleet's secret.
#[derive(Clone)]
pub struct Key([u8; SECRET_BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

impl Key {
    /// A secret that somebody else keeps.
    pub fn new(secret: [u8; SECRET_BYTES]) -> Key {
        Key(secret)
    }

    /// Reads a key's file: 64 hexadecimal digits, readable by its owner alone, who is
    /// root or this user.
    ///
    /// # Errors
    /// When it is not there, others may read it, or it holds something else.
    pub fn read(path: &Path) -> Result<Key, Error> {
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::NotFound => Error::NoKey {
                path: path.to_owned(),
            },
            _ => FileError::new("read", path, cause).into(),
        };
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        let bad = |problem: String| Error::BadKey {
            path: path.to_owned(),
            problem,
        };
        if !meta.is_file() {
            return Err(bad("it is no regular file".to_owned()));
        }
        if meta.mode() & OTHERS != 0 {
            let mode = meta.mode() & 0o7777;
            return Err(bad(format!(
                "others may read it (mode {mode:04o}): make it a secret again with chmod 600, \
                 and take a new key if it may be known"
            )));
        }
        let owner = meta.uid();
        if ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
            return Err(bad(format!("it belongs to another user (uid {owner})")));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let secret = blake3::Hash::from_hex(text.trim());
        secret.map(|it| Key(*it.as_bytes())).map_err(|_| {
            bad("a key is 64 hexadecimal digits: zmeld scan --survey-new-key makes one".to_owned())
        })
    }

    /// Makes a new key's file, which must not be there yet.
    ///
    /// # Errors
    /// When something is there, it cannot be written, or there is no chance to be had.
    pub fn create(path: &Path) -> Result<Key, Error> {
        let key = Key(chance()?);
        if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o755).create(folder);
            made.map_err(|cause| FileError::new("make", folder, cause))?;
        }
        if path.symlink_metadata().is_ok() {
            return Err(Error::BadKey {
                path: path.to_owned(),
                problem: "it is there already, and surveys made with another cannot be compared \
                          with those made with it: keep it, or name another file"
                    .to_owned(),
            });
        }
        file::create(path, format!("{}\n", hex(&key.0)).as_bytes(), Some(0o600))?;
        Ok(key)
    }

    /// A page's name for who has the key.
    pub(crate) fn hash(&self, page: &[u8]) -> Hash {
        let hash = blake3::keyed_hash(&self.0, page);
        let bytes = hash.as_bytes();
        Hash {
            high: signed(&bytes[..8]),
            low: signed(&bytes[8..16]),
        }
    }

    /// Tells whether two surveys were made with one key: 16 hexadecimal digits.
    pub fn id(&self) -> String {
        hex(&blake3::derive_key(KEY_ID_CONTEXT, &self.0)[..8])
    }

    /// A machine id's name in surveys: 32 hexadecimal digits.
    pub(crate) fn machine(&self, machine_id: &str) -> String {
        let key = blake3::derive_key(MACHINE_CONTEXT, &self.0);
        hex(&blake3::keyed_hash(&key, machine_id.as_bytes()).as_bytes()[..16])
    }
}

/// Bytes that nobody can foretell.
pub(crate) fn chance<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes, flags) {
        Ok(got) if got == N => Ok(bytes),
        Ok(_) => Err(Error::NoChance(io::ErrorKind::UnexpectedEof.into())),
        Err(cause) => Err(Error::NoChance(cause.into())),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

/// Eight bytes as a big-endian number in two's complement.
fn signed(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_new_key_is_its_owners_alone_makes_its_folder_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etc/zmeld/fleet.key");
        let key = Key::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_ne!(key.0, [0; SECRET_BYTES]);
        let said = Key::create(&path).unwrap_err().to_string();
        assert!(said.contains("it is there already"), "{said}");
        assert_eq!(Key::read(&path).unwrap().id(), key.id());
    }

    #[test]
    fn a_key_that_is_none_or_not_secret_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.key");
        let said = || Key::read(&path).unwrap_err().to_string();
        assert!(said().contains("--survey-new-key"), "{}", said());
        let set = |text: &str, mode| {
            // Not everybody writes a file of mode 400.
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        let good = "0f".repeat(32);
        for mode in [0o640, 0o604, 0o660, 0o601] {
            set(&good, mode);
            assert!(said().contains(&format!("mode {mode:04o}")), "{}", said());
        }
        for mode in [0o600, 0o400] {
            set(&good, mode);
            assert_eq!(Key::read(&path).unwrap().0, [0x0f; 32]);
        }
        for wrong in [
            "",
            "0f",
            &good[1..],
            &format!("{good}0f"),
            &good.replace('0', "g"),
        ] {
            set(wrong, 0o600);
            assert!(said().contains("64 hexadecimal digits"), "{}", said());
        }
        set(&good, 0o600);
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(said().contains("another user (uid 65534)"), "{}", said());
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(said().contains("no regular file"), "{}", said());
    }

    #[test]
    fn names_depend_on_the_key_and_tell_nothing_of_it() {
        let (one, other) = (Key::new([1; 32]), Key::new([2; 32]));
        assert_ne!(one.id(), other.id());
        assert_ne!(one.machine("abc"), other.machine("abc"));
        assert_ne!(one.machine("abc"), one.machine("abd"));
        assert_eq!((one.id().len(), one.machine("abc").len()), (16, 32));
        assert!(!format!("{one:?}").contains(&hex(&one.0)));
    }

    /// Reference for other programs: the first test vector of BLAKE3 that is a whole chunk long,
    /// under its key.
    #[test]
    fn the_hash_is_blake3_with_a_key() {
        let key = Key::new(*b"whats the Elvish word for friend");
        let input: Vec<u8> = (0..1024).map(|i| (i % 251) as u8).collect();
        let hash = key.hash(&input);
        assert_eq!(hash.high as u64, 0x75c4_6f6f_3d9e_b4f5);
        assert_eq!(hash.low as u64, 0x5eca_aee4_80db_732e);
    }
}

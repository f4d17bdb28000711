//! Which form a file or a stream has, by how it begins.

use std::path::Path;

use crate::{elf, lime, Error};

/// So many of the first bytes tell the form.
pub(crate) const START_BYTES: usize = 64;

/// How the pages lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// From the first byte on.
    Plain,
    /// In the segments of an ELF core.
    Elf,
    /// In ranges, each behind a header.
    Lime,
}

const AGAIN: &str = "take it again in ELF or raw form";

/// What is packed: how it is called, how it begins, and how to get what can be read, with
/// FILE in the place of its name.
const PACKED: [(&str, &[u8], &str); 17] = [
    (
        "compressed by zstd",
        b"\x28\xb5\x2f\xfd",
        "zstd -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by lz4",
        b"\x04\x22\x4d\x18",
        "lz4 -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by gzip",
        b"\x1f\x8b\x08",
        "gzip -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by xz",
        b"\xfd7zXZ\0",
        "xz -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by bzip2",
        b"BZh91AY&SY",
        "bzip2 -dc FILE | zmeld scan --file -",
    ),
    (
        "a compressed AVML dump",
        b"AVML",
        "avml-convert FILE plain.lime; zmeld scan --file plain.lime",
    ),
    (
        "a flattened dump of makedumpfile",
        b"makedumpfile\0\0\0\0",
        "makedumpfile -R plain.vmcore < FILE; zmeld scan --file plain.vmcore",
    ),
    ("a compressed kdump", b"KDUMP   ", AGAIN),
    ("a diskdump", b"DISKDUMP", AGAIN),
    ("a QEMU migration or savevm stream", b"QEVM", AGAIN),
    ("a libvirt save image", b"LibvirtQemudSave", AGAIN),
    (
        "an unfinished libvirt save image",
        b"LibvirtQemudPart",
        AGAIN,
    ),
    ("a Windows crash dump", b"PAGEDUMP", AGAIN),
    ("a Windows crash dump", b"PAGEDU64", AGAIN),
    ("a VMware suspend state", b"\xd2\xbe\xd2\xbe", AGAIN),
    ("a VMware suspend state", b"\xd3\xbe\xd3\xbe", AGAIN),
    ("a LiME dump of the other byte order", b"LiME", AGAIN),
];

/// The form of what begins so; `file` is its path, where it can be opened once more.
///
/// # Errors
/// [`Error::Unsupported`] for what is packed, with the way out.
pub(crate) fn recognise(start: &[u8], name: &Path, file: Option<&Path>) -> Result<Form, Error> {
    let packed = PACKED.iter().find(|(_, magic, _)| start.starts_with(magic));
    if let Some(&(format, _, way_out)) = packed {
        let path = file.map_or_else(|| "FILE".to_owned(), shell_word);
        return Err(Error::Unsupported {
            path: name.to_path_buf(),
            format,
            way_out: way_out.replace("FILE", &path),
        });
    }
    Ok(match start {
        start if elf::is_core(start) => Form::Elf,
        start if start.starts_with(lime::MAGIC) => Form::Lime,
        _ => Form::Plain,
    })
}

/// A path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

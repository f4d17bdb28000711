//! Which form a file or a stream has, by how it begins.

use std::path::Path;

use zmeld_linux::shell;

use crate::{elf, lime, Error};

/// So many of the first bytes tell the form.
pub(crate) const START_BYTES: usize = 72;

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

/// For an image of a drive: of its forms only the plain one has pages where they are in memory.
const IMAGE: &str = "qemu-img convert -O raw FILE plain.img; zmeld scan --file plain.img";

/// What is packed: how it is called, where it is told by which bytes, and how to get what can be
/// read, with FILE in the place of its name.
const PACKED: &[(&str, usize, &[u8], &str)] = &[
    (
        "compressed by zstd",
        0,
        b"\x28\xb5\x2f\xfd",
        "zstd -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by lz4",
        0,
        b"\x04\x22\x4d\x18",
        "lz4 -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by lz4",
        0,
        b"\x02\x21\x4c\x18",
        "lz4 -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by gzip",
        0,
        b"\x1f\x8b\x08",
        "gzip -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by xz",
        0,
        b"\xfd7zXZ\0",
        "xz -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by bzip2",
        0,
        b"BZh91AY&SY",
        "bzip2 -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by lzop",
        0,
        b"\x89LZO\0\r\n\x1a\n",
        "lzop -dc FILE | zmeld scan --file -",
    ),
    (
        "compressed by lzip",
        0,
        b"LZIP\x01",
        "lzip -dc FILE | zmeld scan --file -",
    ),
    (
        "a zip archive",
        0,
        b"PK\x03\x04",
        "unzip -p FILE | zmeld scan --file -",
    ),
    (
        "a 7z archive",
        0,
        b"7z\xbc\xaf\x27\x1c",
        "7z x -so FILE | zmeld scan --file -",
    ),
    (
        "a compressed AVML dump",
        0,
        b"AVML",
        "avml-convert FILE plain.lime; zmeld scan --file plain.lime",
    ),
    (
        "a flattened dump of makedumpfile",
        0,
        b"makedumpfile\0\0\0\0",
        "makedumpfile -R plain.vmcore < FILE; zmeld scan --file plain.vmcore",
    ),
    ("a compressed kdump", 0, b"KDUMP   ", AGAIN),
    ("a diskdump", 0, b"DISKDUMP", AGAIN),
    ("a QEMU migration or savevm stream", 0, b"QEVM", AGAIN),
    ("a libvirt save image", 0, b"LibvirtQemudSave", AGAIN),
    (
        "an unfinished libvirt save image",
        0,
        b"LibvirtQemudPart",
        AGAIN,
    ),
    ("a Windows crash dump", 0, b"PAGEDUMP", AGAIN),
    ("a Windows crash dump", 0, b"PAGEDU64", AGAIN),
    ("a minidump", 0, b"MDMP\x93\xa7", AGAIN),
    ("a VMware suspend state", 0, b"\xd2\xbe\xd2\xbe", AGAIN),
    ("a VMware suspend state", 0, b"\xd3\xbe\xd3\xbe", AGAIN),
    (
        "a VirtualBox saved state",
        0,
        b"\x7fVirtualBox SavedState",
        AGAIN,
    ),
    ("a Mach-O file", 0, b"\xcf\xfa\xed\xfe", AGAIN),
    ("an EWF image", 0, b"EVF\x09\x0d\x0a\xff\0", AGAIN),
    ("a LiME dump of the other byte order", 0, b"LiME", AGAIN),
    ("a qcow2 image", 0, b"QFI\xfb", IMAGE),
    ("a QED image", 0, b"QED\0", IMAGE),
    ("a VMDK image", 0, b"KDMV", IMAGE),
    ("a VMDK image", 0, b"COWD", IMAGE),
    ("a VMDK image", 0, b"# Disk DescriptorFile", IMAGE),
    ("a VDI image", 64, b"\x7f\x10\xda\xbe", IMAGE),
    ("a VHDX image", 0, b"vhdxfile", IMAGE),
    ("a VHD image", 0, b"conectix", IMAGE),
    ("a Parallels image", 0, b"WithoutFreeSpace", IMAGE),
    ("a Parallels image", 0, b"WithouFreSpacExt", IMAGE),
    (
        "a sparse image of Android",
        0,
        b"\x3a\xff\x26\xed",
        "simg2img FILE plain.img; zmeld scan --file plain.img",
    ),
];

/// The form of what begins so; `file` is its path, where it can be opened once more.
///
/// # Errors
/// [`Error::Unsupported`] for what is packed, with the way out.
pub(crate) fn recognise(start: &[u8], name: &Path, file: Option<&Path>) -> Result<Form, Error> {
    let is_it = |&&(_, at, magic, _): &&(_, usize, &[u8], _)| {
        start.get(at..).is_some_and(|it| it.starts_with(magic))
    };
    if let Some(&(format, _, _, way_out)) = PACKED.iter().find(is_it) {
        let path = file.map_or_else(|| "FILE".to_owned(), shell::path);
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

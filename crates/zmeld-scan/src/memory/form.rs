//! Which form a file or a stream has, by how it begins.

use std::path::Path;

use zmeld_linux::shell;

use crate::memory::{elf, lime, Error, Note};

/// So many of the first bytes tell the form.
pub(crate) const START_BYTES: usize = 4120;

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
/// For what crash kernels write: makedumpfile makes an ELF dump of memory alone, not of this.
const KDUMP: &str =
    "take it again in ELF form (makedumpfile -E -d 0 /proc/vmcore plain.vmcore in the crash \
    kernel; dump-guest-memory plain.vmcore in QEMU's monitor): zmeld scan --file plain.vmcore";
const GUEST: &str =
    "take it again in ELF form: virsh dump --memory-only DOMAIN plain.elf (or dump-guest-memory \
    plain.elf in QEMU's monitor); zmeld scan --file plain.elf";
/// For an image of a drive: of its forms only the plain one has pages where they are in memory.
const IMAGE: &str = "qemu-img convert -O raw FILE plain.img; zmeld scan --file plain.img";
const ZSTD: &str = "zstd -dc FILE | zmeld scan --file -";
const LZ4: &str = "lz4 -dc FILE | zmeld scan --file -";
const GZIP: &str = "gzip -dc FILE | zmeld scan --file -";
/// For what is read as it is, with a note.
const AS_IT_IS: &str = "";

/// Formats that are not memory as it is: name, offset and bytes that tell it, and how to get what
/// can be read, with FILE in the place of its name.
#[rustfmt::skip]
const KNOWN: &[(&str, usize, &[u8], &str)] = &[
    ("compressed by zstd", 0, b"\x28\xb5\x2f\xfd", ZSTD),
    // Behind any byte of sixteen: a frame that is passed over.
    ("compressed by zstd", 1, b"\x2a\x4d\x18", ZSTD),
    ("compressed by lz4", 0, b"\x04\x22\x4d\x18", LZ4),
    ("compressed by lz4", 0, b"\x02\x21\x4c\x18", LZ4),
    ("compressed by gzip", 0, b"\x1f\x8b\x08", GZIP),
    ("compressed by compress", 0, b"\x1f\x9d\x90", GZIP),
    ("compressed by xz", 0, b"\xfd7zXZ\0", "xz -dc FILE | zmeld scan --file -"),
    ("compressed by bzip2", 0, b"BZh91AY&SY", "bzip2 -dc FILE | zmeld scan --file -"),
    ("compressed by lzop", 0, b"\x89LZO\0\r\n\x1a\n", "lzop -dc FILE | zmeld scan --file -"),
    ("compressed by lzip", 0, b"LZIP\x01", "lzip -dc FILE | zmeld scan --file -"),
    ("compressed by snappy", 0, b"\xff\x06\0\0sNaPpY", "snzip -dc FILE | zmeld scan --file -"),
    ("a zip archive", 0, b"PK\x03\x04", "unzip -p FILE | zmeld scan --file -"),
    ("a 7z archive", 0, b"7z\xbc\xaf\x27\x1c", "7z x -so FILE | zmeld scan --file -"),
    ("a rar archive", 0, b"Rar!\x1a\x07", "unrar p -inul FILE | zmeld scan --file -"),
    ("a squashfs image", 0, b"hsqs", "unsquashfs -d unpacked FILE; zmeld scan --file unpacked/NAME"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe", "cryptsetup open FILE plain; zmeld scan --file /dev/mapper/plain"),
    ("a compressed AVML dump", 0, b"AVML", "avml-convert FILE plain.lime; zmeld scan --file plain.lime"),
    ("a flattened dump of a compressed kdump", 4112, b"KDUMP   ", KDUMP),
    ("a flattened dump of makedumpfile", 0, b"makedumpfile\0\0\0\0", "makedumpfile -R plain.vmcore < FILE; zmeld scan --file plain.vmcore"),
    ("a compressed kdump", 0, b"KDUMP   ", KDUMP),
    ("a diskdump", 0, b"DISKDUMP", KDUMP),
    ("an LKCD dump", 0, b"\xed\x23\x8f\x61", KDUMP),
    ("a hibernation image", 4086, b"S1SUSPEND", "resume the machine from it; zmeld scan reads its memory there"),
    ("a Windows hibernation file", 0, b"HIBR", AGAIN),
    ("a Windows hibernation file", 0, b"hibr", AGAIN),
    ("a QEMU migration or savevm stream", 0, b"QEVM", GUEST),
    ("a libvirt save image", 0, b"LibvirtQemudSave", GUEST),
    ("an unfinished libvirt save image", 0, b"LibvirtQemudPart", GUEST),
    ("a Windows crash dump", 0, b"PAGEDUMP", AGAIN),
    ("a Windows crash dump", 0, b"PAGEDU64", AGAIN),
    ("a minidump", 0, b"MDMP", AGAIN),
    ("a VMware suspend state", 0, b"\xd2\xbe\xd2\xbe", AGAIN),
    ("a VMware suspend state", 0, b"\xd3\xbe\xd3\xbe", AGAIN),
    ("a VirtualBox saved state", 0, b"\x7fVirtualBox SavedState", AGAIN),
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
    ("a sparse image of Android", 0, b"\x3a\xff\x26\xed", "simg2img FILE plain.img; zmeld scan --file plain.img"),
    ("a tar archive", 257, b"ustar", AS_IT_IS),
    ("a cpio archive", 0, b"07070", AS_IT_IS),
];

/// The form of what begins so, and what is to be said of it; `file` is its path, where it can
/// be opened once more.
///
/// # Errors
/// [`Error::Unsupported`] for what is packed, with the way out.
pub(crate) fn recognise(
    start: &[u8],
    name: &Path,
    file: Option<&Path>,
) -> Result<(Form, Option<Note>), Error> {
    let is_it = |&&(_, at, magic, _): &&(_, usize, &[u8], _)| {
        start.get(at..).is_some_and(|it| it.starts_with(magic))
    };
    match KNOWN.iter().find(is_it) {
        None if elf::is_core(start) => Ok((Form::Elf, None)),
        None if start.starts_with(lime::MAGIC) => Ok((Form::Lime, None)),
        None => Ok((Form::Plain, None)),
        Some(&(format, .., AS_IT_IS)) => Ok((Form::Plain, Some(Note::AsItIs { format }))),
        Some(&(format, .., way_out)) => Err(Error::Unsupported {
            path: name.to_path_buf(),
            format,
            way_out: way_out.replace("FILE", &file.map_or_else(|| "FILE".to_owned(), shell::path)),
        }),
    }
}

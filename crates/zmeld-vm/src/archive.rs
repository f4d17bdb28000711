//! An archive as the kernel unpacks it into memory when it boots: cpio, newc.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::{write::GzEncoder, Compression};

use cpio::newc::{trailer, Builder, ModeFileType};

use zmeld_linux::command::Invocation;
use zmeld_linux::Host;

use crate::Error;

const PAGE: u64 = 4096;
/// The kernel takes another archive behind one only at a multiple of that.
const BLOCK: u64 = 4;

/// An archive that is being written. Its methods fail where it cannot be written, or what goes in cannot be read.
#[derive(Debug)]
pub struct Archive<W: Write> {
    out: W,
    place: PathBuf,
    entries: u32,
    there: BTreeSet<String>,
    bytes: u64,
}

impl<W: Write> Archive<W> {
    /// An empty one, written to `out`; errors name `place`.
    pub fn new(out: W, place: &Path) -> Archive<W> {
        Archive {
            out,
            place: place.to_owned(),
            entries: 0,
            there: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Adds an entry unless one of this name is there.
    fn entry(
        &mut self,
        name: &str,
        kind: ModeFileType,
        permissions: u32,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let name = name.trim_matches('/');
        if name.is_empty() || !self.there.insert(name.to_owned()) {
            return Ok(());
        }
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder(folder)?;
        }
        self.entries += 1;
        let size = u32::try_from(bytes.len()).map_err(|_| {
            Error::Missing(format!(
                "/{name} has more than 4 GiB, which no archive can hold"
            ))
        })?;
        let mut writer = Builder::new(name)
            .ino(self.entries)
            .mode(permissions)
            .set_mode_file_type(kind)
            .write(&mut self.out, size);
        writer
            .write_all(bytes)
            .and_then(|()| writer.finish().map(|_| ()))
            .map_err(|err| Error::io("write", &self.place, err))?;
        self.bytes += bytes.len().next_multiple_of(PAGE as usize) as u64;
        Ok(())
    }

    /// A folder, with those above it.
    pub fn folder(&mut self, name: &str) -> Result<(), Error> {
        self.entry(name, ModeFileType::Directory, 0o755, &[])
    }

    /// A file with these contents.
    pub fn file(&mut self, name: &str, bytes: &[u8], executable: bool) -> Result<(), Error> {
        let permissions = if executable { 0o755 } else { 0o644 };
        self.entry(name, ModeFileType::Regular, permissions, bytes)
    }

    /// A link to another name.
    pub fn link(&mut self, name: &str, target: &str) -> Result<(), Error> {
        self.entry(name, ModeFileType::Symlink, 0o777, target.as_bytes())
    }

    /// A file of this machine under another name.
    pub fn copy(&mut self, from: &Path, name: &str) -> Result<(), Error> {
        let read = |path| fs::read(path).map_err(|err| Error::io("read", path, err));
        let mode = fs::metadata(from)
            .map_err(|err| Error::io("read", from, err))?
            .permissions()
            .mode();
        self.file(name, &read(from)?, mode & 0o111 != 0)
    }

    /// A program with the libraries that it is linked with.
    pub fn program(&mut self, from: &Path, name: &str) -> Result<(), Error> {
        self.copy(from, name)?;
        for library in libraries_of(from) {
            // Under its own name: that is where the program looks.
            self.copy(&library, &library.display().to_string())?;
        }
        Ok(())
    }

    /// All that is in a folder of this machine, below another name. Links to folders and
    /// to nothing are left out: a kernel's modules have some that lead to its sources.
    pub fn tree(&mut self, from: &Path, name: &str) -> Result<(), Error> {
        let entries = fs::read_dir(from).map_err(|err| Error::io("read", from, err))?;
        for entry in entries {
            let entry = entry.map_err(|err| Error::io("read", from, err))?;
            let below = format!("{name}/{}", entry.file_name().to_string_lossy());
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                self.folder(&below)?;
                self.tree(&path, &below)?;
            } else if path.is_file() {
                self.copy(&path, &below)?;
            }
        }
        Ok(())
    }

    /// Ends the archive. Returns where it was written, and the bytes that its files take up in memory.
    pub fn finish(self) -> Result<(W, u64), Error> {
        let (place, bytes) = (self.place, self.bytes);
        let end = |out: W| {
            let mut out = trailer(out)?;
            out.flush()?;
            Ok(out)
        };
        match end(self.out) {
            Ok(out) => Ok((out, bytes)),
            Err(err) => Err(Error::io("write", place, err)),
        }
    }
}

impl Archive<GzEncoder<File>> {
    /// An empty one in a file, compressed: while it is unpacked both are in the guest's memory.
    pub fn compressed(to: &Path) -> Result<Self, Error> {
        let file = File::create(to).map_err(|err| Error::io("create", to, err))?;
        Ok(Archive::new(GzEncoder::new(file, Compression::fast()), to))
    }

    /// Ends it, so that another one may follow in the file. Returns the bytes that its files take up in memory.
    pub fn close(self) -> Result<u64, Error> {
        let place = self.place.clone();
        let (encoder, bytes) = self.finish()?;
        let end = || {
            let mut file = encoder.finish()?;
            let written = file.metadata()?.len();
            file.write_all(&vec![
                0;
                (written.next_multiple_of(BLOCK) - written) as usize
            ])
        };
        end().map_err(|err| Error::io("write", place, err))?;
        Ok(bytes)
    }
}

/// The shared libraries that a program is linked with, and its loader. None where it is a script, or has all in it.
pub fn libraries_of(program: &Path) -> Vec<PathBuf> {
    let said = Host::here().attempt(&Invocation::new("ldd").arg(program));
    let text = said.map(|said| said.output).unwrap_or_default();
    text.lines().filter_map(ldd_line).collect()
}

/// `name => /path (address)` or `/path (address)`.
fn ldd_line(line: &str) -> Option<PathBuf> {
    let path = match line.split_once("=>") {
        Some((_, path)) => path,
        None => line,
    };
    let path = path.split_whitespace().next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_what_was_put_in_with_its_folders() {
        let mut archive = Archive::new(Vec::new(), Path::new("test"));
        archive.file("/etc/a/b", b"text", false).unwrap();
        archive.file("etc/a/b", b"again", false).unwrap();
        archive.file("bin/run", b"", true).unwrap();
        archive.link("/init", "bin/run").unwrap();
        let (bytes, size) = archive.finish().unwrap();
        assert_eq!(bytes.len() as u64 % BLOCK, 0);
        // A page each for what is not empty.
        assert_eq!(size, 2 * PAGE);
        let mut rest = bytes.as_slice();
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut text = String::new();
            std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
            found.push((name, mode, text));
            rest = reader.finish().unwrap();
        }
        let expected = [
            ("etc", 0o040_755, ""),
            ("etc/a", 0o040_755, ""),
            ("etc/a/b", 0o100_644, "text"),
            ("bin", 0o040_755, ""),
            ("bin/run", 0o100_755, ""),
            ("init", 0o120_777, "bin/run"),
        ];
        let found: Vec<(&str, u32, &str)> = found
            .iter()
            .map(|(name, mode, text)| (name.as_str(), *mode, text.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tree_is_packed_without_what_it_links_to() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, sources) = (folder.path().join("tree"), folder.path().join("sources"));
        for path in [tree.join("kernel"), sources.clone()] {
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("a"), "bytes").unwrap();
        }
        std::os::unix::fs::symlink(&sources, tree.join("build")).unwrap();
        std::os::unix::fs::symlink("nowhere", tree.join("source")).unwrap();
        let mut archive = Archive::new(Vec::new(), Path::new("test"));
        archive.tree(&tree, "usr/lib").unwrap();
        let there: Vec<&str> = archive.there.iter().map(String::as_str).collect();
        assert_eq!(
            there,
            ["usr", "usr/lib", "usr/lib/kernel", "usr/lib/kernel/a"]
        );
    }

    #[test]
    fn libraries_are_read_from_ldd() {
        let paths: Vec<_> = [
            "\tlinux-vdso.so.1 (0x00007ffc)",
            "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)",
            "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)",
            "\tlibgone.so => not found",
        ]
        .iter()
        .filter_map(|line| ldd_line(line))
        .collect();
        assert_eq!(
            paths,
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
    }
}

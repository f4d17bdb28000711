//! A kernel to boot: its image, what `uname -r` will say, its modules.

use std::fs;
use std::path::{Path, PathBuf};

use zmeld_linux::command::Invocation;
use zmeld_linux::Host;

use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its image, as QEMU boots it.
    pub image: PathBuf,
    /// Its release, as `uname -r` says.
    pub release: String,
    /// The folder of its modules; none where there is none.
    pub modules: Option<PathBuf>,
    pub kind: KernelKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// QEMU: an image for x86-64.
    Image,
    /// QEMU: an image for arm64, which it imitates.
    Arm64Image,
    /// Nothing: user-mode Linux is a program.
    UserMode,
}

/// Offsets in an image for x86, by its boot protocol: of the magic number and the version's place.
const MAGIC_AT: usize = 0x202;
const VERSION_AT: usize = 0x20e;

impl Kernel {
    /// The one that runs on this machine, or the newest that is installed.
    pub fn installed() -> Result<Kernel, Error> {
        let running = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let running = running.trim();
        let own = [
            format!("/boot/vmlinuz-{running}"),
            format!("/usr/lib/modules/{running}/vmlinuz"),
        ];
        if let Some(path) = own.iter().map(Path::new).find(|path| path.is_file()) {
            return Kernel::at(path);
        }
        let mut others: Vec<PathBuf> = fs::read_dir("/boot")
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"))
            .map(|entry| entry.path())
            .collect();
        let age = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
        others.sort_by_key(age);
        match others.last() {
            Some(path) => Kernel::at(path),
            None => Err(Error::Missing(format!(
                "there is no kernel image for a virtual machine ({}): name one, with its modules in ../lib/modules \
                 or /lib/modules",
                own[0]
            ))),
        }
    }

    /// This image. Its modules are looked for beside it (`../lib/modules`) and where the system has them.
    pub fn at(image: &Path) -> Result<Kernel, Error> {
        let bytes = fs::read(image).map_err(|err| Error::io("read", image, err))?;
        let found = match bytes.starts_with(b"\x7fELF") {
            true => (KernelKind::UserMode, said_release(image)),
            false => (KernelKind::Image, release_of(&bytes)),
        };
        let (kind, Some(release)) = found else {
            return Err(Error::Missing(format!(
                "{} is no kernel image of the x86 boot protocol (vmlinuz, bzImage), nor user-mode Linux",
                image.display()
            )));
        };
        // An image is often a link to the newest one.
        let folder = image.canonicalize().ok().and_then(|path| {
            let folder = path.parent()?.parent()?;
            Some(folder.to_owned())
        });
        let modules = folder
            .into_iter()
            .flat_map(|folder| {
                ["lib/modules", "modules/lib/modules", "modules"].map(|below| folder.join(below))
            })
            .chain(["/lib/modules".into(), "/usr/lib/modules".into()])
            .map(|folder| folder.join(&release))
            .find(|folder| folder.join("modules.dep").is_file());
        Ok(Kernel {
            image: image.to_owned(),
            release,
            modules,
            kind,
        })
    }

    /// Copies those of these modules that there are, and what they depend on, to `lib/modules`
    /// below a folder, with an index of their own. A part built into the kernel is no module, so a
    /// name that is not found is no error.
    pub fn copy_modules(&self, names: &[&str], to: &Path) -> Result<(), Error> {
        let Some(from) = &self.modules else {
            return Ok(());
        };
        let index = from.join("modules.dep");
        let text = fs::read_to_string(&index).map_err(|err| Error::io("read", &index, err))?;
        let target = to.join("lib/modules").join(&self.release);
        let copy = |name: &str| -> Result<(), Error> {
            let (from, to) = (from.join(name), target.join(name));
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).map_err(|err| Error::io("create", folder, err))?;
            }
            fs::copy(&from, &to).map_err(|err| Error::io("copy", from, err))?;
            Ok(())
        };
        for path in with_dependencies(&text, names) {
            copy(&path)?;
        }
        // Depmod asks for the first two; the kernel's own modules are found through the last.
        for name in [
            "modules.order",
            "modules.builtin",
            "modules.builtin.modinfo",
        ] {
            if from.join(name).exists() {
                copy(name)?;
            }
        }
        let depmod = Invocation::new("depmod").arg("-b").arg(to);
        match Host::here().run(&depmod.arg(&self.release)) {
            Ok(_) => Ok(()),
            Err(err) => Err(Error::Missing(format!(
                "no index of {} can be made: {err}",
                target.display()
            ))),
        }
    }
}

/// Release of user-mode Linux by its own word; none for other programs.
fn said_release(program: &Path) -> Option<String> {
    let strings = fs::read(program).ok()?;
    // Nothing is started that does not carry the kernel's banner.
    let banner = b"Linux version ";
    if !strings.windows(banner.len()).any(|part| part == banner) {
        return None;
    }
    let program = program.canonicalize().ok()?;
    let version = Invocation::new(program.to_str()?).arg("--version");
    let said = Host::here().attempt(&version).ok()?;
    let release = said.output.trim();
    let is_release =
        release.starts_with(|c: char| c.is_ascii_digit()) && !release.contains(char::is_whitespace);
    is_release.then(|| release.to_owned())
}

/// The release from an image's header: the first word of its version.
fn release_of(image: &[u8]) -> Option<String> {
    if image.get(MAGIC_AT..MAGIC_AT + 4)? != b"HdrS" {
        return None;
    }
    let place = image.get(VERSION_AT..VERSION_AT + 2)?;
    // Counted from behind the first sector.
    let begin = usize::from(u16::from_le_bytes([place[0], place[1]])) + 0x200;
    let text = image.get(begin..)?;
    let text = &text[..text.iter().take(256).position(|&byte| byte == 0)?];
    let text = std::str::from_utf8(text).ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// The files of modules and of all that they depend on, from a `modules.dep`.
fn with_dependencies(index: &str, names: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    for line in index.lines() {
        let Some((file, needs)) = line.split_once(':') else {
            continue;
        };
        let base = file.rsplit('/').next().unwrap_or(file);
        let name = base.split(".ko").next().unwrap_or(base).replace('-', "_");
        if names.iter().any(|wanted| wanted.replace('-', "_") == name) {
            files.push(file.to_owned());
            files.extend(needs.split_whitespace().map(str::to_owned));
        }
    }
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_with_what_they_need() {
        let text = "kernel/a/zram.ko.xz: kernel/b/zsmalloc.ko.xz\n\
                    kernel/b/zsmalloc.ko.xz:\nkernel/c/dm-flakey.ko: kernel/c/dm-mod.ko\n\
                    kernel/d/other.ko: kernel/e/x.ko\n";
        assert_eq!(
            with_dependencies(text, &["zram", "dm_flakey"]),
            [
                "kernel/a/zram.ko.xz",
                "kernel/b/zsmalloc.ko.xz",
                "kernel/c/dm-flakey.ko",
                "kernel/c/dm-mod.ko"
            ]
        );
    }

    #[test]
    fn an_image_says_its_release() {
        let mut image = vec![0; 0x400];
        image[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(b"HdrS");
        image[VERSION_AT..VERSION_AT + 2].copy_from_slice(&0x100u16.to_le_bytes());
        let text = b"6.12.1-amd64 (builder) #1 SMP\0";
        image[0x300..0x300 + text.len()].copy_from_slice(text);
        assert_eq!(release_of(&image).as_deref(), Some("6.12.1-amd64"));
        // Cut off, without the magic number, without an end.
        assert_eq!(release_of(&image[..0x302]), None);
        assert_eq!(release_of(&image[..0x204]), None);
        image[0x300..].fill(b'x');
        assert_eq!(release_of(&image), None);
        image[MAGIC_AT] = b'h';
        assert_eq!(release_of(&image), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmlinuz");
        fs::write(&path, image).unwrap();
        let err = Kernel::at(&path).unwrap_err().to_string();
        assert!(err.contains("vmlinuz is no kernel image"), "{err}");
    }
}

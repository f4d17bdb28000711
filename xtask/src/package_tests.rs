//! The packages of `cargo xtask dist` as people meet them: built a second time from
//! the source archive, installed, upgraded, removed and purged in a Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::apt::{self, Reason};
use crate::clean_root;
use crate::debian;
use crate::dist::{self, Release};
use crate::kernels::Arch;
use crate::process::Log;
use crate::step::Tally;
use crate::tools;
use crate::turn::turn;
use crate::workspace;

/// The steps' names.
pub const LIFE: &str = "packages-life";
/// Twice the same bytes.
pub const TWICE: &str = "packages-twice";

const LIMIT: Duration = Duration::from_secs(3600);

/// What zmeld-dkms needs there.
const PACKAGES: &str = "dkms,linux-headers-amd64,kmod,mount,procps";

/// What a .rpm needs there: no Fedora can be had.
const RPM_PACKAGES: &str = "rpm,kmod,mount,procps";

/// Into the Debian; what the machine's other tests must know of is shared.
const ENTER: &str = r#"
set -e
mkdir -p "$root/packages" "$root/run/zmeld" /run/zmeld
mount --bind "$packages" "$root/packages"
mount --bind /run/zmeld "$root/run/zmeld"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
cp "$script" "$root/tmp/packages.sh"
exec chroot "$root" env -i HOME=/root LC_ALL=C.UTF-8 \
	PATH=/usr/sbin:/usr/bin:/sbin:/bin http_proxy="$http_proxy" https_proxy="$https_proxy" \
	sh /tmp/packages.sh "$@"
"#;

/// What is released, made where `cargo xtask dist` makes it: what that compiled is not
/// compiled once more.
fn made(log: &Log) -> Result<(Release, Vec<PathBuf>)> {
    let release = Release::of_commit(&workspace::target().join("dist"))?;
    let made = dist::make(log, &release)?;
    Ok((release, made))
}

/// The program's package and the same as a later version, for guests of that processor;
/// if they cannot be made here, why.
pub fn for_guests(log: &Log, arch: Arch) -> Result<std::result::Result<[PathBuf; 2], Reason>> {
    let release = Release::of_commit(&workspace::target().join("dist"))?;
    let now = match dist::make_program_deb(log, &release, arch)? {
        Ok(now) => now,
        Err(reason) => return Ok(Err(reason)),
    };
    let folder = release.folder.join("next");
    let next = dist::make_program_deb_of(log, &release, arch, "99.0.0", &folder)?;
    Ok(Ok([now, next]))
}

/// The kernels of a machine that has both packages: the one that it has when they are
/// installed, and the one that comes then.
pub const DKMS_KERNELS: [&str; 2] = ["6.1", "6.12"];

/// The suite that has the second, beside the machine's own.
const BACKPORTS: &str = "-backports";

/// Whether the module's sources build for every kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// As they are released.
    Sound,
    /// Not for what comes later.
    Broken,
}

/// With two kernels' headers and a compiler.
const DKMS_IMAGE_MIB: u64 = 4096;

/// A Debian that systemd starts, where both packages were installed under the first of
/// those kernels, and the second kernel later, as an image for guests. What DKMS did then
/// is in the log.
pub fn image_with_dkms(
    log: &Log,
    releases: &[String],
    sources: Sources,
) -> Result<std::result::Result<PathBuf, Reason>> {
    if !tools::is_root() {
        return Ok(Err("packages are installed by root".into()));
    }
    let [now, next] = releases else {
        bail!("there are two kernels to install");
    };
    let base = match dkms_base(log, now, next)? {
        Ok(base) => base,
        Err(reason) => return Ok(Err(reason)),
    };
    let release = Release::of_commit(&workspace::target().join("dist"))?;
    let program = match dist::make_program_deb(log, &release, Arch::Amd64)? {
        Ok(program) => program,
        Err(reason) => return Ok(Err(reason)),
    };
    let packages = [program, dist::make_module_deb(log, &release)?];
    let folder = workspace::work_folder("packages")?;
    let name = match sources {
        Sources::Sound => "dkms",
        Sources::Broken => "dkms-broken",
    };
    let image = folder.join(format!("{name}.ext4"));
    let made_of = folder.join(format!("{name}.made-of"));
    let mut bytes = format!("{now} {next} {}", include_str!("../guest/dkms.sh")).into_bytes();
    for package in &packages {
        bytes.extend(fs::read(package)?);
    }
    if image.exists() && fs::read(&made_of).is_ok_and(|known| known == bytes) {
        return Ok(Ok(image));
    }
    let place = folder.join("for-dkms");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place)?;
    for package in &packages {
        fs::copy(package, place.join(package.file_name().unwrap_or_default()))?;
    }
    let root = clean_root::copy(log, &base, name)?;
    let broken = match sources {
        Sources::Sound => "",
        Sources::Broken => "broken",
    };
    let ran = log.run(
        &mut within(&root.0, &place, "dkms.sh", &[next, now, broken]),
        LIMIT,
    )?;
    if !ran.succeeded() || !ran.text.contains("\nok done") {
        let why = workspace::shown(log.path());
        bail!("the machine with both packages cannot be made, see {why}");
    }
    debian::pack(log, &root.0, &image, DKMS_IMAGE_MIB)?;
    fs::write(&made_of, bytes)?;
    Ok(Ok(image))
}

/// What such a machine is made from, with the second kernel's packages fetched and not
/// installed: made once.
fn dkms_base(log: &Log, now: &str, next: &str) -> Result<std::result::Result<PathBuf, Reason>> {
    let packages = format!(
        "{},dkms,linux-headers-{now},linux-base,initramfs-tools,procps",
        debian::PACKAGES
    );
    let base = match clean_root::base(log, "two-kernels", &packages)? {
        Ok(base) => base,
        Err(reason) => return Ok(Err(reason)),
    };
    let there = base.join(format!("etc/apt/has-{next}"));
    let headers = base.join(format!("usr/src/linux-headers-{now}"));
    if !headers.exists() {
        let why = format!("{} has no headers of {now}: remove it", base.display());
        return Ok(Err(why));
    }
    if !there.exists() {
        let Some(source) = apt::own_source() else {
            return Ok(Err("the machine's apt names no Debian mirror".into()));
        };
        let Some(suite) = debian::own_suite() else {
            return Ok(Err("this machine is no Debian".into()));
        };
        let lines = source.line(&suite) + &source.line(&format!("{suite}{BACKPORTS}"));
        fs::write(base.join("etc/apt/sources.list"), lines)?;
        fs::copy("/etc/resolv.conf", base.join("etc/resolv.conf"))?;
        fs::copy("/etc/hosts", base.join("etc/hosts"))?;
        let mut fetch = within(&base, &base, "fetch-kernel.sh", &[next]);
        if !log.run(&mut fetch, LIMIT)?.succeeded() {
            let why = workspace::shown(log.path());
            return Ok(Err(format!("kernel {next} cannot be fetched, see {why}")));
        }
        fs::write(&there, "")?;
    }
    Ok(Ok(base))
}

/// Made again elsewhere, from the same commit, all is the same to the byte.
pub fn twice(log: &Log) -> Result<Tally> {
    let (_, made) = made(log)?;
    let mut tally = names_no_place(&made)?;
    // A longer path: neither its name nor its length shows.
    let place = workspace::work_folder("packages")?.join("a-second-time-at-another-place");
    let _ = fs::remove_dir_all(&place);
    let again = Release::of_commit(&place)?;
    dist::make(log, &again)?;
    for path in &made {
        let name = path.file_name().context("a product without a name")?;
        let same = fs::read(path)? == fs::read(again.folder.join(name))?;
        let why = format!("{} differs when it is made again", name.to_string_lossy());
        tally.add(Tally::of(TWICE, same, why));
    }
    fs::remove_dir_all(&place)?;
    Ok(tally)
}

/// Nothing in a product tells where it was built, or where crates came from.
fn names_no_place(made: &[PathBuf]) -> Result<Tally> {
    let program = made
        .iter()
        .find(|path| path.to_string_lossy().ends_with("-x86_64"))
        .context("no program was made")?;
    let bytes = fs::read(program)?;
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    let root = workspace::root().display().to_string();
    // A registry's folder is its name with a hash behind it.
    let registries = fs::read_dir(clean_root::cargo_home()?.join("registry/src"))?;
    let mut names = vec![root, "registry/src".to_owned()];
    for folder in registries {
        let folder = folder?.file_name().to_string_lossy().into_owned();
        let name = folder.rsplit_once('-').map(|(name, _)| name.to_owned());
        names.push(name.unwrap_or(folder));
    }
    let named = names.iter().find(|name| has(name));
    Ok(Tally::of(
        TWICE,
        named.is_none(),
        format!("the program names {named:?}: a folder of this machine, or a registry"),
    ))
}

/// Installed, upgraded, removed, purged.
pub fn life(log: &Log) -> Result<Tally> {
    if !tools::is_root() {
        return Ok(Tally::skip(LIFE, "packages are installed by root"));
    }
    if !Path::new("/sys/class/zram-control").exists() {
        return Ok(Tally::skip(LIFE, "the kernel has no zram to swap to"));
    }
    let (release, _) = made(log)?;
    dist::make_next(log, &release, "99.0.0", &release.folder.join("next"))?;
    let (mut text, mut tally) = (String::new(), Tally::default());
    for (name, packages, parts) in [
        ("dkms", PACKAGES, &["program deb", "module"][..]),
        ("rpm", RPM_PACKAGES, &["program rpm"]),
    ] {
        let base = match clean_root::base(log, name, packages)? {
            Ok(base) => base,
            Err(reason) => {
                tally.add(Tally::skip(LIFE, reason));
                continue;
            }
        };
        let root = clean_root::copy(log, &base, LIFE)?;
        for part in parts {
            // The machine's swap, whose turn others wait for.
            let turn = part.starts_with("program").then(turn).transpose();
            let _turn = turn.context("cannot wait for this machine's swap")?;
            text += &enter(log, &root.0, &release, part)?;
        }
    }
    fs::write(workspace::work_folder("packages")?.join("life.log"), &text)?;
    tally.add(judged(&text));
    Ok(tally)
}

/// Runs a part of the script there; what it said.
fn enter(log: &Log, root: &Path, release: &Release, part: &str) -> Result<String> {
    let words: Vec<&str> = part.split_whitespace().collect();
    let mut command = within(root, &release.folder, "packages.sh", &words);
    let ran = log.run(&mut command, LIMIT)?;
    if !ran.succeeded() || !ran.text.contains("\n1..") {
        bail!(
            "the test of the packages ended early, see {}",
            workspace::shown(log.path())
        );
    }
    Ok(ran.text)
}

/// A script of `xtask/guest` in a Debian, with that folder of packages.
fn within(root: &Path, packages: &Path, script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["sh", "-c", ENTER, "sh"]).args(arguments);
    command.env("root", root).env("packages", packages);
    let guests = workspace::root().join("xtask/guest");
    command.env("script", guests.join(script));
    command
}

fn judged(text: &str) -> Tally {
    let mut tally = Tally::default();
    for line in text.lines() {
        if line.starts_with("ok ") {
            tally.add(Tally::pass());
        } else if line.starts_with("not ok ") {
            tally.add(Tally::fail(LIFE, line));
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted() {
        let tally = judged("$ dpkg\n    ok said dpkg\nok 1 - a\nnot ok 2 - b\n1..2\n");
        assert_eq!((tally.passed, tally.failed.len()), (1, 1));
    }
}

//! The packages of `cargo xtask dist` as people meet them: built a second time from
//! the source archive, installed, upgraded, removed and purged in a Debian.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};
use zmeld_tests::turn::turn;

use crate::apt;
use crate::debian;
use crate::dist::repository::{self, Signer};
use crate::dist::{self, Release};
use crate::process::{reason, unavailable, Log};
use crate::recipes::Arch;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const LIFE: &str = "packages-life";
pub const TWICE: &str = "packages-twice";
pub const REPOSITORY: &str = "packages-repository";

const NEXT: &str = "99.0.0";

const PACKAGES: &str = "dkms,linux-headers-amd64,kmod,mount,procps";

/// Packages that a .rpm needs there: no Fedora can be had.
const RPM_PACKAGES: &str = "rpm,kmod,mount,procps";

/// The release, made where `cargo xtask dist` makes it: what that compiled is not compiled once
/// more.
fn release() -> Result<Release> {
    Release::of_commit(&workspace::target().join("dist"))
}

/// The program's package and the same as a later version, for guests of that processor.
pub fn for_guests(log: &Log, arch: Arch) -> Result<Vec<PathBuf>> {
    let release = release()?;
    let folder = release.folder.join("next");
    dist::program_debs(log, &release, arch, Some((NEXT, &folder)))
}

/// The kernels of a machine that has both packages: the one that it has when they are
/// installed, and the one that comes then.
pub const DKMS_KERNELS: [&str; 2] = ["6.1", "6.12"];

const DKMS_IMAGE_MIB: u64 = 4096;

/// A Debian that systemd starts, where both packages were installed under the first of those
/// kernels' releases, and the second kernel later, as an image for guests. The log shows what DKMS
/// did then.
pub fn image_with_dkms(log: &Log, releases: &[String; 2]) -> Result<PathBuf> {
    tools::need_root("packages are installed")?;
    tools::need_not_set_up()?;
    let [now, next] = releases;
    let base = dkms_base(log, now, next)?;
    let release = release()?;
    let mut packages = dist::program_debs(log, &release, Arch::Amd64, None)?;
    packages.push(dist::module_deb(log, &release)?);
    let folder = workspace::work_folder("packages")?;
    let image = folder.join("dkms.ext4");
    let made_of = folder.join("dkms.made-of");
    let mut bytes = format!("{now} {next} {}", include_str!("../guest/dkms.sh")).into_bytes();
    let place = folder.join("for-dkms");
    workspace::empty_folder(&place)?;
    for package in &packages {
        bytes.extend(fs::read(package)?);
        fs::copy(package, place.join(package.file_name().unwrap_or_default()))?;
    }
    if image.exists() && fs::read(&made_of).is_ok_and(|known| known == bytes) {
        return Ok(image);
    }
    let root = debian::copy(log, &base, "dkms")?;
    let said = log.must(&mut within(&root.0, &place, "dkms.sh", &[next, now]))?;
    if !said.contains("\nok done") {
        bail!("the machine with both packages cannot be made");
    }
    debian::pack(log, &root.0, &image, DKMS_IMAGE_MIB)?;
    fs::write(&made_of, bytes)?;
    Ok(image)
}

/// Base of such a machine, with the second kernel's packages fetched and not
/// installed: made once.
fn dkms_base(log: &Log, now: &str, next: &str) -> Result<PathBuf> {
    let packages = format!(
        "{},dkms,linux-headers-{now},linux-base,initramfs-tools,procps",
        debian::PACKAGES
    );
    let base = debian::base(log, "two-kernels", None, &packages)?;
    if !base.join(format!("usr/src/linux-headers-{now}")).exists() {
        unavailable!("{} has no headers of {now}: remove it", base.display());
    }
    let there = base.join(format!("etc/apt/has-{next}"));
    if !there.exists() {
        let suite = debian::own_suite()?;
        let lines = apt::source_line(&suite)? + &apt::source_line(&format!("{suite}-backports"))?;
        fs::write(base.join("etc/apt/sources.list"), lines)?;
        debian::give_names(&base)?;
        log.must(&mut within(&base, &base, "fetch-kernel.sh", &[next]))?;
        fs::write(&there, "")?;
    }
    Ok(base)
}

/// Made again elsewhere, from the same commit, all is the same to the byte.
pub fn twice(log: &Log) -> Result<Tally> {
    let made = dist::make(log, &release()?)?;
    let mut tally = Tally::default();
    // A longer path: neither its name nor its length shows.
    let place = workspace::work_folder("packages")?.join("a-second-time-at-another-place");
    workspace::remove(&place)?;
    let again = Release::of_commit(&place)?;
    dist::make(log, &again)?;
    for path in &made {
        let name = path.file_name().context("a product without a name")?;
        let same = fs::read(path)? == fs::read(again.folder.join(name))?;
        let why = format!("{} differs when it is made again", name.to_string_lossy());
        tally.add(Tally::of(TWICE, same, why));
    }
    workspace::remove(&place)?;
    Ok(tally)
}

pub fn life(log: &Log) -> Result<Tally> {
    tools::need_root("packages are installed")?;
    if !Path::new("/sys/class/zram-control").exists() {
        unavailable!("the kernel has no zram to swap to");
    }
    // Of what is released that is left out where it cannot be made.
    dist::program::target()?;
    let release = release()?;
    dist::make(log, &release)?;
    dist::make_next(log, &release, NEXT, &release.folder.join("next"))?;
    let mut tally = Tally::default();
    for (name, packages, parts) in [
        ("dkms", PACKAGES, &["program deb", "module"][..]),
        ("rpm", RPM_PACKAGES, &["program rpm"]),
    ] {
        let base = match debian::base(log, name, None, packages) {
            Ok(base) => base,
            Err(error) => {
                tally.add(Tally::skip(
                    LIFE,
                    reason(&error).context(error.to_string())?,
                ));
                continue;
            }
        };
        let root = debian::copy(log, &base, LIFE)?;
        for part in parts {
            // The machine's swap, whose turn others wait for.
            let turn = part.starts_with("program").then(turn).transpose();
            let _turn = turn.context("cannot wait for this machine's swap")?;
            let words: Vec<&str> = part.split_whitespace().collect();
            let mut script = within(&root.0, &release.folder, "packages.sh", &words);
            tally.add(Tally::of_tap(LIFE, &log.must(&mut script)?));
        }
    }
    Ok(tally)
}

/// Tests repositories of two versions, changed by others, from which a Debian installs.
pub fn repository(log: &Log) -> Result<Tally> {
    tools::need_root("packages are installed")?;
    tools::need(&["python3", "rpmbuild"])?;
    dist::program::target()?;
    let private = fs::Permissions::from_mode(0o700);
    let home = tempfile::Builder::new().permissions(private).tempdir()?;
    let key = "zmeld tests";
    let mut generate = Command::new("gpg");
    generate.env("GNUPGHOME", home.path());
    generate.args(["--batch", "--passphrase", "", "--quick-generate-key", key]);
    log.must(generate.args(["rsa3072", "sign", "never"]))?;
    let signed = serve_signed(log, &Signer::new(log, key, Some(home.path().to_owned()))?);
    let mut end = Command::new("gpgconf");
    end.env("GNUPGHOME", home.path());
    log.run(end.args(["--kill", "gpg-agent"]))?;
    let served = signed?;
    let mut tally = Tally::default();
    for (format, packages) in [
        ("deb", "curl,python3,mount"),
        ("rpm", "dnf,rpm,python3,mount"),
    ] {
        let base = match debian::base(log, &format!("{format}-server"), None, packages) {
            Ok(base) => base,
            Err(error) => {
                tally.add(Tally::or_skip(REPOSITORY, Err(error))?);
                continue;
            }
        };
        let root = debian::copy(log, &base, REPOSITORY)?;
        let mut script = within(&root.0, &served, "repository.sh", &[format]);
        tally.add(Tally::of_tap(REPOSITORY, &log.must(&mut script)?));
    }
    Ok(tally)
}

/// The folder of repositories, as `xtask/guest/repository.sh` names them.
fn serve_signed(log: &Log, signer: &Signer) -> Result<PathBuf> {
    let served = workspace::work_folder(REPOSITORY)?.join("served");
    workspace::empty_folder(&served)?;
    let copy = |from: &Path, name: &str| {
        log.must(
            Command::new("cp")
                .arg("-a")
                .arg(from)
                .arg(served.join(name)),
        )
    };
    let now = release()?;
    let made = dist::make(log, &now)?;
    let (next, later) = dist::make_next(log, &now, NEXT, &now.folder.join("next"))?;
    for (release, made, name) in [(&now, &made, "now"), (&next, &later, "next")] {
        repository::make(log, release, made, signer)?;
        copy(&release.folder.join("repository"), name)?;
    }
    for name in ["package", "index", "signature"] {
        copy(&served.join("next"), name)?;
    }
    for package in &later {
        let name = package.file_name().context("a package without a name")?;
        for folder in ["apt", "dnf"] {
            let place = served.join("package").join(folder).join(name);
            if place.exists() {
                change(&place)?;
            }
        }
    }
    change(&served.join("index/apt/Packages"))?;
    for primary in workspace::files(&served.join("index/dnf/repodata"), "gz")? {
        change(&primary)?;
    }
    for signed in ["apt/InRelease", "dnf/repodata/repomd.xml"] {
        change(&served.join("signature").join(signed))?;
    }
    fs::write(served.join("lines"), repository::LINES)?;

    let spec = served.with_file_name("system.spec");
    fs::write(
        &spec,
        "Name: system\nVersion: 1\nRelease: 1\nSummary: What every system has\nLicense: none\n\
         BuildArch: noarch\nProvides: util-linux /bin/sh\n%description\nThe same.\n%files\n",
    )?;
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--define"]);
    build.arg(format!("_rpmdir {}", served.join("system").display()));
    log.must(build.arg(&spec))?;
    log.must(Command::new("createrepo_c").arg(served.join("system")))?;
    Ok(served)
}

/// Changes one byte in the midst of a file.
fn change(path: &Path) -> Result<()> {
    let mut bytes = fs::read(path)?;
    let at = bytes.len() / 2;
    *bytes.get_mut(at).context("nothing to change")? ^= 1;
    Ok(fs::write(path, bytes)?)
}

/// A script of `xtask/guest` in a Debian, with that folder of packages.
fn within(root: &Path, packages: &Path, script: &str, arguments: &[&str]) -> Command {
    let guests = workspace::root().join("xtask/guest");
    let mounts = [(packages, "/packages", ""), (&guests, "/tmp/scripts", "")];
    let script = format!("/tmp/scripts/{script}");
    debian::enter(root, &mounts, &[&["sh", &script], arguments].concat())
}

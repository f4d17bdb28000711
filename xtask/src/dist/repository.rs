//! Repositories for servers: a signed one for apt and one for dnf.
//!
//! A folder to be put on a web server. Both are flat: one index for all processors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use super::release::{checksums, Release};
use crate::process::{output_of, Log};
use crate::tools;
use crate::workspace;

/// A secret key that gpg knows, and where it keeps it if not at the usual place.
pub struct Signer {
    pub key: String,
    pub home: Option<PathBuf>,
}

impl Signer {
    /// Fails where gpg does not know the key's secret part.
    pub fn new(log: &Log, key: &str, home: Option<PathBuf>) -> Result<Signer> {
        tools::need(&["gpg", "rpmsign", "apt-ftparchive", "createrepo_c"])?;
        let key = key.to_owned();
        let signer = Signer { key, home };
        let mut list = signer.command("gpg");
        list.args(["--batch", "--list-secret-keys", &signer.key]);
        if !log.run(&mut list)?.succeeded() {
            bail!(
                "gpg has no secret key {}: `gpg --list-secret-keys` names those it has",
                signer.key
            );
        }
        Ok(signer)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Some(home) = &self.home {
            command.env("GNUPGHOME", home);
        }
        command
    }

    /// Signs a file, `--clearsign` within or `--detach-sign` beside it.
    fn sign(&self, log: &Log, how: &str, file: &Path, to: &Path) -> Result<()> {
        let mut gpg = self.command("gpg");
        gpg.args(["--yes", "--armor", "--local-user", &self.key]);
        gpg.arg("--output").arg(to).arg(how).arg(file);
        log.must(&mut gpg).map(|_| ())
    }
}

/// Signs what was made, which has a new SHA256SUMS then, and lays the repositories out; the paths
/// of what is new.
pub fn make(
    log: &Log,
    release: &Release,
    made: &[PathBuf],
    signer: &Signer,
) -> Result<Vec<PathBuf>> {
    let folder = release.folder.join("repository");
    workspace::empty_folder(&folder)?;
    let key = folder.join("zmeld.asc");
    let mut export = signer.command("gpg");
    export.args(["--yes", "--armor", "--output"]).arg(&key);
    log.must(export.args(["--export", &signer.key]))?;

    let gpg = tools::on_path("gpg").context("gpg is gone")?;
    let dnf = folder.join("dnf");
    for package in of_kind(made, "rpm") {
        let mut sign = signer.command("rpmsign");
        sign.args(["--define", &format!("_gpg_name {}", signer.key)]);
        // Debian's rpm looks for another name.
        sign.args(["--define", &format!("__gpg {}", gpg.display())]);
        log.must(sign.arg("--resign").arg(package))?;
    }
    copy(of_kind(made, "rpm"), &dnf)?;
    let revision = release.epoch.to_string();
    let mut index = Command::new("createrepo_c");
    index.args(["--set-timestamp-to-revision", "--revision", &revision]);
    log.must(index.arg(&dnf))?;
    let repomd = dnf.join("repodata/repomd.xml");
    signer.sign(
        log,
        "--detach-sign",
        &repomd,
        &repomd.with_extension("xml.asc"),
    )?;

    let apt = folder.join("apt");
    copy(of_kind(made, "deb"), &apt)?;
    for (what, file) in [("packages", "Packages"), ("release", "Release")] {
        let mut index = Command::new("apt-ftparchive");
        index.current_dir(&apt);
        index.args(["-o", "APT::FTPArchive::Release::Origin=zmeld"]);
        let text = output_of(index.args([what, "."]))?;
        fs::write(apt.join(file), text + "\n")?;
    }
    let unsigned = apt.join("Release");
    signer.sign(log, "--clearsign", &unsigned, &apt.join("InRelease"))?;
    fs::remove_file(unsigned)?;

    let sums = checksums(release, made)?;
    let signature = release.folder.join("SHA256SUMS.asc");
    signer.sign(log, "--detach-sign", &sums, &signature)?;
    Ok(vec![signature, folder])
}

/// Lines for a server, with SERVER in place of where the folder is served.
pub const LINES: &str = "\
Debian, Ubuntu:
  sudo curl -o /usr/share/keyrings/zmeld.asc https://SERVER/zmeld.asc
  echo 'deb [signed-by=/usr/share/keyrings/zmeld.asc] https://SERVER/apt ./' |
    sudo tee /etc/apt/sources.list.d/zmeld.list
  sudo apt update && sudo apt install zmeld

Fedora and what comes from it:
  printf '%s\\n' '[zmeld]' name=zmeld baseurl=https://SERVER/dnf gpgcheck=1 \\
    repo_gpgcheck=1 gpgkey=https://SERVER/zmeld.asc |
    sudo tee /etc/yum.repos.d/zmeld.repo
  sudo dnf install zmeld
";

fn of_kind<'a>(made: &'a [PathBuf], kind: &'a str) -> impl Iterator<Item = &'a PathBuf> {
    let is_that = move |path: &&PathBuf| path.extension().is_some_and(|it| it == kind);
    made.iter().filter(is_that)
}

fn copy<'a>(packages: impl Iterator<Item = &'a PathBuf>, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for package in packages {
        let name = package.file_name().context("a package without a name")?;
        fs::copy(package, to.join(name))?;
    }
    Ok(())
}

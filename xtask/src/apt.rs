//! Debian packages of any suite, fetched by name and unpacked beside the system.
//!
//! The mirror and its keyring are those of the machine's own apt; only the suite
//! differs. Lists and packages are kept in a folder of ours; nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::kernels::Arch;
use crate::process::Log;
use crate::progress::Progress;
use crate::tools;

const UPDATE_LIMIT: Duration = Duration::from_secs(300);
const FETCH_LIMIT: Duration = Duration::from_secs(1800);

/// Why something cannot be had here.
pub type Reason = String;

/// One suite of the machine's mirror.
pub struct Suite {
    name: String,
    arch: Arch,
    folder: PathBuf,
    options: Vec<String>,
}

impl Suite {
    /// Sets up `folder` for a suite and reads its lists from the mirror; if that
    /// is not possible here, why.
    pub fn open(
        log: &Log,
        name: &str,
        arch: Arch,
        folder: &Path,
    ) -> Result<std::result::Result<Suite, Reason>> {
        if !tools::is_there("apt-get") || !tools::is_there("dpkg-deb") {
            return Ok(Err(
                "there is no apt-get and dpkg-deb to fetch it with".into()
            ));
        }
        let source = match own_source() {
            Some(source) => source,
            None => return Ok(Err("the machine's apt names no Debian mirror".into())),
        };
        for part in ["lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("sources.list"), source.line(name))?;
        let option = |key: &str, value: &str| format!("{key}={value}");
        let path = |part: &str| folder.join(part).display().to_string();
        let mut suite = Suite {
            name: name.to_owned(),
            arch,
            folder: folder.to_path_buf(),
            options: vec![
                option("Dir::State::lists", &path("lists")),
                option("Dir::Cache", &path("cache")),
                option("Dir::Etc::sourcelist", &path("sources.list")),
                option("Dir::Etc::sourceparts", "-"),
                option("APT::Get::List-Cleanup", "0"),
                // Its own user may not write to our folders.
                option("APT::Sandbox::User", "root"),
                option("Acquire::Languages", "none"),
                option("Acquire::Retries", "3"),
            ],
        };
        if arch != Arch::Amd64 {
            for name in [Arch::Amd64.debian(), arch.debian()] {
                suite.options.push(option("APT::Architectures::", name));
            }
        }
        let mut update = suite.command("apt-get");
        update.args(["-q", "update", "--error-on=any"]);
        if !log.run(&mut update, UPDATE_LIMIT)?.succeeded() {
            let why = format!(
                "no package lists of {name}: is there a network? (see {})",
                { crate::workspace::shown(log.path()) }
            );
            return Ok(Err(why));
        }
        Ok(Ok(suite))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C");
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }

    /// A package's name with the processor that it is for, where that is not this
    /// machine's.
    pub fn of_arch(&self, package: &str) -> String {
        match self.arch {
            Arch::Amd64 => package.to_owned(),
            other => format!("{package}:{}", other.debian()),
        }
    }

    /// The names of packages that fit a regular expression, of any processor.
    pub fn names(&self, pattern: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache");
        command.args(["search", "--names-only", pattern]);
        let output = command.output().context("cannot start apt-cache")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        Ok(text.lines().filter_map(first).collect())
    }

    /// What a package depends on, by name, alternatives left out.
    pub fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache");
        command.args(["depends", "--important", package]);
        let output = command.output().context("cannot start apt-cache")?;
        if !output.status.success() {
            bail!("there is no package {package} in {}", self.name);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(depends_lines(&text))
    }

    /// The first dependency of `package` whose name begins with `prefix`.
    pub fn dependency(&self, package: &str, prefix: &str) -> Result<String> {
        self.dependencies(package)?
            .into_iter()
            .find(|name| name.starts_with(prefix))
            .with_context(|| format!("{package} in {} depends on no {prefix}*", self.name))
    }

    /// Fetches packages, or takes those fetched before, and unpacks them into
    /// `folder`, which appears only when all are unpacked.
    pub fn unpack(&self, log: &Log, packages: &[String], folder: &Path) -> Result<()> {
        let files = self.fetch(log, packages)?;
        let unfinished = folder.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir_all(&unfinished)?;
        for file in &files {
            let mut command = Command::new("dpkg-deb");
            command.arg("-x").arg(file).arg(&unfinished);
            if !log.run(&mut command, FETCH_LIMIT)?.succeeded() {
                // It would be the same file again, and fail again.
                fs::remove_file(file)?;
                bail!("{} is damaged and was removed: try again", file.display());
            }
        }
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::rename(&unfinished, folder)?;
        for file in &files {
            fs::remove_file(file)?;
        }
        Ok(())
    }

    fn fetch(&self, log: &Log, packages: &[String]) -> Result<Vec<PathBuf>> {
        let place = self.folder.join("packages");
        let wanted = self.wanted(packages)?;
        let total: u64 = wanted.iter().map(|file| file.bytes).sum();
        let name = format!("fetching {} from {}", packages.join(", "), self.name);
        let mut progress = Progress::new(&name, total);
        let mut command = self.command("apt-get");
        command.current_dir(&place);
        command.args(["-q", "download"]).args(packages);
        let there = |partial: &Path| -> u64 {
            let sizes = [place.as_path(), partial].map(folder_bytes);
            sizes.iter().sum()
        };
        let partial = self.folder.join("cache/archives/partial");
        let ran = log.run_watched(&mut command, FETCH_LIMIT, &mut |_| {
            progress.at(there(&partial));
        })?;
        if !ran.succeeded() {
            bail!("apt-get cannot fetch {}", packages.join(", "));
        }
        let files: Vec<PathBuf> = wanted.iter().map(|file| place.join(&file.name)).collect();
        match files.iter().find(|file| !file.exists()) {
            Some(file) => bail!("apt-get left no {}", file.display()),
            None => Ok(files),
        }
    }

    fn wanted(&self, packages: &[String]) -> Result<Vec<Wanted>> {
        let mut command = self.command("apt-get");
        command.args(["download", "--print-uris"]).args(packages);
        let output = command.output().context("cannot start apt-get")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let wanted: Vec<Wanted> = text.lines().filter_map(Wanted::read).collect();
        if !output.status.success() || wanted.len() != packages.len() {
            bail!(
                "{} has not all of {}: {}",
                self.name,
                packages.join(", "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(wanted)
    }
}

/// A file that apt would fetch.
#[derive(Debug, PartialEq)]
struct Wanted {
    name: String,
    bytes: u64,
}

impl Wanted {
    /// A line of `--print-uris`: `'address' name bytes hash`.
    fn read(line: &str) -> Option<Wanted> {
        let mut words = line.strip_prefix('\'')?.split_whitespace().skip(1);
        Some(Wanted {
            name: words.next()?.to_owned(),
            bytes: words.next()?.parse().ok()?,
        })
    }
}

/// A name in angle brackets is one that others provide, but for one with a processor
/// in it: that package is for all of them.
fn depends_lines(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|name| !name.starts_with('<') || name.contains(':'))
        .map(|name| name.trim_start_matches('<'))
        .map(|name| name.split(':').next().unwrap_or(name).to_owned())
        .collect()
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

/// A mirror, and what signs its lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its address.
    pub address: String,
    /// A keyring, where it is not apt's own.
    pub signed_by: Option<String>,
}

impl Source {
    /// The line of `sources.list` for a suite.
    pub fn line(&self, suite: &str) -> String {
        let signed = match &self.signed_by {
            Some(path) => format!("[signed-by={path}] "),
            None => String::new(),
        };
        format!("deb {signed}{} {suite} main\n", self.address)
    }
}

/// The machine's own Debian mirror, from both forms of apt's files.
pub fn own_source() -> Option<Source> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten();
    files.extend(parts.flatten().map(|entry| entry.path()));
    files.sort();
    files.iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        match file.extension()?.to_str()? {
            "sources" => text.split("\n\n").find_map(read_stanza),
            "list" => text.lines().find_map(read_line),
            _ => None,
        }
    })
}

/// Security and other archives have other suites.
fn is_debian_archive(address: &str) -> bool {
    address.trim_end_matches('/').ends_with("/debian")
}

fn read_stanza(stanza: &str) -> Option<Source> {
    let field = |name: &str| {
        stanza
            .lines()
            .filter(|line| !line.starts_with('#'))
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let mut addresses = field("URIs")?.split_whitespace();
    Some(Source {
        address: addresses.find(|address| is_debian_archive(address))?.into(),
        signed_by: field("Signed-By")
            .filter(|path| path.starts_with('/'))
            .map(str::to_owned),
    })
}

fn read_line(line: &str) -> Option<Source> {
    let rest = line.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracket) => bracket.split_once(']')?,
        None => ("", rest),
    };
    let address = rest.split_whitespace().next()?;
    is_debian_archive(address).then(|| Source {
        address: address.into(),
        signed_by: options
            .split_whitespace()
            .find_map(|option| option.strip_prefix("signed-by="))
            .map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_found_in_both_forms() {
        let stanza = "\
Types: deb
# URIs: http://old.example/debian
URIs: http://security.example/debian-security http://mirror.example/debian
Suites: bookworm
Signed-By: /usr/share/keyrings/archive.gpg";
        let source = read_stanza(stanza).unwrap();
        assert_eq!(
            source.line("sid"),
            "deb [signed-by=/usr/share/keyrings/archive.gpg] http://mirror.example/debian sid main\n"
        );
        let line = "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian/ bookworm main";
        assert_eq!(
            read_line(line).unwrap().signed_by.as_deref(),
            Some("/k.gpg")
        );
        assert_eq!(
            read_line("deb http://mirror.example/debian x main")
                .unwrap()
                .signed_by,
            None
        );
        assert_eq!(read_line("deb http://mirror.example/ubuntu x main"), None);
        assert_eq!(read_line("# deb http://mirror.example/debian x main"), None);
    }

    #[test]
    fn what_apt_prints_is_read() {
        let line = "'http://m.example/debian/pool/l.deb' linux-image_6.1-1_amd64.deb 123 SHA256:ab";
        let wanted = Wanted::read(line).unwrap();
        assert_eq!(wanted.name, "linux-image_6.1-1_amd64.deb");
        assert_eq!(wanted.bytes, 123);
        assert_eq!(Wanted::read("N: some note"), None);
        let text =
            "linux-image-amd64\n  Depends: linux-image-6.1\n |Depends: <x>\n  Depends: gcc-12:any\n  \
             Depends: <y>\n  Depends: <common:arm64>\n    common\n";
        assert_eq!(depends_lines(text), ["linux-image-6.1", "gcc-12", "common"]);
    }
}

//! Debian packages of any suite, fetched by name and unpacked beside the system.
//!
//! The mirror is that of the machine's own apt; only the suite differs. Lists are kept in
//! a folder of ours; nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{output_of, unavailable, Log};
use crate::recipes::Arch;
use crate::tools;
use crate::workspace;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub struct Suite {
    name: String,
    arch: Arch,
    folder: PathBuf,
}

impl Suite {
    /// Sets up `folder` for a suite and reads its lists from the mirror.
    pub fn open(log: &Log, name: &str, arch: Arch, folder: &Path) -> Result<Suite> {
        tools::need(&["apt-get", "dpkg-deb"])?;
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("sources.list"), source_line(name)?)?;
        let own = folder.display();
        // Apt's own user may not write to our folders.
        let mut settings = format!(
            "Dir::State::lists \"{own}/lists\";\nDir::Cache \"{own}/cache\";\n\
             Dir::Etc::sourcelist \"{own}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
             APT::Get::List-Cleanup \"0\";\nAPT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\n"
        );
        if arch != Arch::Amd64 {
            settings += &format!(
                "APT::Architectures {{ \"amd64\"; \"{}\"; }};\n",
                arch.debian()
            );
        }
        fs::write(folder.join("apt.conf"), settings)?;
        let suite = Suite {
            name: name.to_owned(),
            arch,
            folder: folder.to_path_buf(),
        };
        let mut update = suite.command("apt-get", &["-q", "update", "--error-on=any"]);
        if !log.run(&mut update)?.succeeded() {
            let log = workspace::shown(log.path());
            unavailable!("no package lists of {name}: is there a network? (see {log})");
        }
        Ok(suite)
    }

    /// Packages of a suite in `folder`, fetched and unpacked if they are not there.
    pub fn unpacked(
        log: &Log,
        (name, arch): (&str, Arch),
        packages: &[&str],
        folder: PathBuf,
    ) -> Result<PathBuf> {
        if !folder.exists() {
            let lists = folder.with_file_name(format!("apt-{name}-{}", arch.debian()));
            let suite = Suite::open(log, name, arch, &lists)?;
            let names: Vec<String> = packages.iter().map(|it| suite.of_arch(it)).collect();
            suite.unpack(log, &names, &folder)?;
        }
        Ok(folder)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C");
        command.arg("-c").arg(self.folder.join("apt.conf"));
        command.args(arguments);
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

    pub fn names(&self, pattern: &str) -> Result<Vec<String>> {
        let text = output_of(&mut self.command("apt-cache", &["search", "--names-only", pattern]))?;
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        Ok(text.lines().filter_map(first).collect())
    }

    /// Dependencies of a package, by name, alternatives left out.
    pub fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache", &["depends", "--important", package]);
        Ok(depends_lines(&output_of(&mut command)?))
    }

    pub fn dependency(&self, package: &str, prefix: &str) -> Result<String> {
        self.dependencies(package)?
            .into_iter()
            .find(|name| name.starts_with(prefix))
            .with_context(|| format!("{package} in {} depends on no {prefix}*", self.name))
    }

    /// Fetches packages and unpacks them into `folder`, which appears only when all are
    /// unpacked.
    pub fn unpack(&self, log: &Log, packages: &[String], folder: &Path) -> Result<()> {
        let place = self.folder.join("packages");
        workspace::empty_folder(&place)?;
        eprintln!("fetching {} from {}", packages.join(", "), self.name);
        let mut fetch = self.command("apt-get", &["-q", "download"]);
        log.must(fetch.current_dir(&place).args(packages))?;
        workspace::whole(folder, |unfinished| {
            fs::create_dir_all(unfinished)?;
            unpack_all(log, &place, unfinished)
        })?;
        workspace::remove(&place)
    }
}

pub fn unpack_all(log: &Log, from: &Path, to: &Path) -> Result<()> {
    for package in workspace::files(from, "deb")? {
        log.must(Command::new("dpkg-deb").arg("-x").arg(package).arg(to))?;
    }
    Ok(())
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

pub fn source_line(suite: &str) -> Result<String> {
    let signed = match Path::new(KEYRING).exists() {
        true => format!("[signed-by={KEYRING}] "),
        false => String::new(),
    };
    Ok(format!("deb {signed}{} {suite} main\n", mirror()?))
}

/// The machine's own Debian mirror. Security and other archives have other suites.
pub fn mirror() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)"]);
    let addresses = output_of(&mut targets).unwrap_or_default();
    let mirror = addresses
        .lines()
        .find(|address| address.ends_with("/debian/"));
    match mirror {
        Some(mirror) => Ok(mirror.to_owned()),
        None => unavailable!("the machine's apt names no Debian mirror"),
    }
}

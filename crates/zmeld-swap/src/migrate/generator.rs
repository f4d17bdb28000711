//! The systemd generator: at boot, before any unit is started, from
//! `/etc/zmeld.toml` to units.
//!
//! It must never keep a machine from booting: whatever is wrong, it says so in
//! one line in the kernel's log, where it is seen, and writes nothing.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use zmeld_linux::error::words;
use zmeld_linux::fstab::Fstab;
use zmeld_linux::tree::Tree;

use crate::migrate::units::{units, Content, Maker, Unit};
use zmeld_config::Config;

/// How systemd started the generator.
#[derive(Debug, Clone)]
pub struct BootEnvironment {
    /// The root directory of the machine, `/` but in tests.
    pub root: PathBuf,
    /// The absolute path of `zmeld`, as units call it.
    pub program: PathBuf,
    /// `SYSTEMD_VIRTUALIZATION`, from systemd 251 on.
    pub virtualization: Option<String>,
    /// `SYSTEMD_IN_INITRD`, from systemd 251 on.
    pub in_initrd: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GeneratorOutcome {
    /// So many files and links were written.
    Written(usize),
    /// None, on purpose, for that reason.
    None(&'static str),
    /// None, because of that.
    Failed(String),
}

impl fmt::Display for GeneratorOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeneratorOutcome::Written(count) => write!(f, "{count} files written"),
            GeneratorOutcome::None(why) => f.write_str(why),
            GeneratorOutcome::Failed(why) => f.write_str(why),
        }
    }
}

/// Writes units for the configuration below `normal`, the first of the
/// directories that systemd names.
///
/// Errors are written to the kernel's log as well as told.
pub fn generate(environment: &BootEnvironment, normal: &Path) -> GeneratorOutcome {
    if let Some(skip_reason) = environment.skip_reason() {
        return GeneratorOutcome::None(skip_reason);
    }
    let loaded = match Config::load_at_boot(&environment.root, None) {
        Ok(loaded) => loaded,
        Err(err) => return environment.failed(format!("{err}; no swap is set up")),
    };
    // Warnings are the business of `zmeld config check`, not of every boot.
    let source = loaded.files.first().map(PathBuf::as_path);
    let units = units(
        &loaded.config,
        &Maker {
            program: &environment.program,
            source,
            fstab: &Fstab::read(&Tree::new(&environment.root)),
            install: false,
        },
    );
    let left_out = loaded.left_out.values().next();
    if let (true, Some(problem)) = (units.is_empty(), left_out) {
        return environment.failed(format!("{problem}; no swap is set up"));
    }
    for (part, problem) in &loaded.left_out {
        environment.log(&format!("{problem}; {part} is left out"));
    }
    if units.is_empty() {
        return GeneratorOutcome::None("nothing is configured");
    }
    let mut written = Vec::new();
    for unit in &units {
        let path = normal.join(&unit.path);
        if let Err(cause) = write(&path, unit) {
            // Half of the units could wait for the other half.
            for path in written {
                let _ = fs::remove_file(path);
            }
            return environment.failed(format!(
                "cannot write {}: {}; no swap is set up",
                path.display(),
                words(&cause)
            ));
        }
        written.push(path);
    }
    GeneratorOutcome::Written(units.len())
}

fn write(path: &Path, unit: &Unit) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match &unit.content {
        Content::Text(text) => {
            // Not over what another generator made, nor through its link.
            let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
            let done = file.write_all(text.as_bytes());
            if done.is_err() {
                let _ = fs::remove_file(path);
            }
            done
        }
        Content::Link(target) => symlink(target, path),
    }
}

impl BootEnvironment {
    /// Why there is nothing to do, if that can be told without the configuration.
    fn skip_reason(&self) -> Option<&'static str> {
        let set = |value: &Option<String>| {
            value
                .as_deref()
                .is_some_and(|value| !value.is_empty() && value != "0")
        };
        // The configuration of an initial RAM disk is not the machine's.
        if set(&self.in_initrd) || self.root.join("etc/initrd-release").exists() {
            return Some("nothing to do in an initial RAM disk");
        }
        let container = self
            .virtualization
            .as_deref()
            .is_some_and(|kind| kind.starts_with("container:"));
        // Marks of systemd itself, then of podman and docker.
        let marks = ["run/systemd/container", "run/.containerenv", ".dockerenv"];
        if container || marks.iter().any(|mark| self.root.join(mark).exists()) {
            return Some("nothing to do in a container: swap is its host's");
        }
        // An unreadable command line is one without our words.
        let line = fs::read(self.root.join("proc/cmdline")).unwrap_or_default();
        let is_off = is_switched_off(&String::from_utf8_lossy(&line));
        is_off.then_some("switched off on the kernel's command line")
    }

    fn failed(&self, why: String) -> GeneratorOutcome {
        self.log(&why);
        GeneratorOutcome::Failed(why)
    }

    /// One line in the kernel's log, of the severity of errors.
    fn log(&self, why: &str) {
        let line = format!(
            "<3>zmeld-generator: {}\n",
            why.replace(char::is_control, "?")
        );
        // Without such a log, standard error has it all the same.
        let _ = OpenOptions::new()
            .append(true)
            .open(self.root.join("dev/kmsg"))
            .and_then(|mut log| log.write_all(line.as_bytes()));
    }
}

/// `zmeld=0` is ours, `systemd.swap=0` is for all swap.
fn is_switched_off(command_line: &str) -> bool {
    is_off(command_line, "zmeld") || is_off(command_line, "systemd.swap")
}

/// Whether that word of the kernel's command line says no; the last of each counts.
pub(crate) fn is_off(command_line: &str, name: &str) -> bool {
    let last = command_line
        .split_whitespace()
        // The rest is for init, not for us.
        .take_while(|word| *word != "--")
        .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .last();
    matches!(last, Some("0" | "no" | "off" | "false" | "n" | "f"))
}

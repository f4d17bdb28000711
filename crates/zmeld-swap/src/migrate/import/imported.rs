//! The result of an import, the lines that it comes from, and options of swap units.

use std::io;
use std::path::{Path, PathBuf};

use zmeld_config::{Comments, Config, Discard, Kind, Number, Swap, Tier, TierName};
use zmeld_linux::tree::Tree;
use zmeld_linux::HostError;

/// The result of an import.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// The tiers, sorted by their priorities.
    pub config: Config,
    /// Each tier's source.
    pub comments: Comments,
    /// Settings not carried over, each with file, line and reason.
    pub left: Vec<String>,
    /// The files that said something about swap.
    pub files: Vec<PathBuf>,
    /// The tools found.
    pub tools: Vec<Tool>,
    /// Paths in swap lines of `/etc/fstab`.
    pub(super) named: Vec<PathBuf>,
    /// zram-generator makes a file system, too, which stays with it.
    pub(super) has_mount: bool,
}

/// A boot-time swap tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Fstab,
    Crypttab,
    ZramTools,
    ZramGenerator,
    RpiSwap,
}

impl Tool {
    pub(super) fn is_for_ram(self) -> bool {
        matches!(self, Tool::ZramTools | Tool::ZramGenerator | Tool::RpiSwap)
    }

    fn ways_off(self) -> &'static [&'static str] {
        match self {
            // Without any line, systemd takes the swap partitions of a GPT by itself.
            Tool::Fstab => &["put noauto among the options of the lines quoted below in /etc/fstab (without any swap line, systemd may switch swap partitions on by itself)"],
            Tool::Crypttab => &["remove from /etc/crypttab the lines quoted below, but for those that stay as they are; zmeld enable needs their volumes closed (swapoff /dev/mapper/NAME; cryptsetup close NAME), a boot does not"],
            Tool::ZramTools => &["systemctl disable zramswap"],
            Tool::ZramGenerator => &[
                "mkdir -p /etc/systemd/system-generators",
                "ln -sf /dev/null /etc/systemd/system-generators/zram-generator",
            ],
            // Its own Mechanism=none would remove the swap file at each boot.
            Tool::RpiSwap => &[
                "mkdir -p /etc/systemd/system-generators",
                "ln -sf /dev/null /etc/systemd/system-generators/rpi-swap-generator",
            ],
        }
    }
}

impl Imported {
    /// Steps that switch off the tools that set swap up at boot, in order: all of them, or those
    /// that make compressed devices. None touches active swap: its pages have to fit back first.
    pub fn ways_off(&self, only_for_ram: bool) -> Vec<&'static str> {
        let tools = self.tools.iter();
        let tools = tools.filter(|tool| tool.is_for_ram() || !only_for_ram);
        let ways = tools.flat_map(|tool| match tool {
            Tool::ZramGenerator if self.has_mount => {
                &["remove from zram-generator.conf the sections that the tiers below come from, and keep the others"][..]
            }
            tool => tool.ways_off(),
        });
        ways.copied().collect()
    }

    /// The configuration as a file, with comments that say where each line came
    /// from and what was left out.
    pub fn to_toml(&self) -> String {
        self.config.to_toml(&self.comments)
    }

    pub(super) fn head(&self) -> String {
        let mut head = String::from("For /etc/zmeld.toml: the settings of");
        for (at, file) in self.files.iter().enumerate() {
            head.push_str(if at == 0 { " " } else { ", " });
            head.push_str(&file.to_string_lossy());
        }
        head.push('.');
        head.push_str("\nSwitch off what sets this up at boot, or both will:");
        for way in self.ways_off(false) {
            head.push_str("\n    ");
            head.push_str(way);
        }
        if self.config.in_ram().next().is_some() {
            head.push_str("\nWhat is swapped to now gives its place to zmeld up --take-over.");
        }
        if !self.left.is_empty() {
            head.push_str("\nNot carried over:");
            for left in &self.left {
                head.push_str("\n- ");
                head.push_str(left);
            }
        }
        head
    }

    /// Adds a tier under a name that is not taken yet.
    pub(super) fn add(&mut self, name: &str, swap: Swap, kind: Kind, comment: String) -> TierName {
        let clean: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' {
                    c
                } else {
                    '-'
                }
            })
            .collect();
        let clean = clean.trim_matches('-');
        let clean = if clean.is_empty() { "swap" } else { clean };
        let mut number = 1;
        let name = loop {
            let short: String = clean.chars().take(28).collect();
            let tried = if number == 1 {
                short
            } else {
                format!("{short}-{number}")
            };
            match tried.parse::<TierName>() {
                Ok(name) if self.config.tier(&tried).is_none() => break name,
                _ => number += 1,
            }
        };
        self.comments.insert(format!("tier.{name}"), comment);
        self.config.tiers.push(Tier {
            name: name.clone(),
            swap,
            kind,
        });
        name
    }

    pub(super) fn comment(&mut self, tier: &TierName, key: &str, comment: impl Into<String>) {
        self.comments
            .insert(format!("tier.{tier}.{key}"), comment.into());
    }

    pub(super) fn left(&mut self, line: &SourceLine, why: &str) {
        self.left.push(format!("{line}: {why}"));
    }

    /// A file, and whose it is where another tool has not named it before.
    pub(super) fn found(&mut self, tool: Tool, file: &Path) {
        if self.files.iter().any(|known| known == file) {
            return;
        }
        self.files.push(file.to_owned());
        if !self.tools.contains(&tool) {
            self.tools.push(tool);
        }
    }
}

/// Options of a swap unit, as systemd passes them to `swapon`.
pub(super) struct SwapOptions<'o> {
    pub discard: Discard,
    /// None where none is given.
    pub priority: Option<Number<i16, -1, 32767>>,
    pub may_fail: bool,
    /// Options not understood, with the reason; others, which may be known elsewhere.
    pub wrong: Vec<(&'o str, &'static str)>,
    pub others: Vec<&'o str>,
}

/// Reads them: of two the first counts, as for `swapon`.
pub(super) fn swap_options(options: &str) -> SwapOptions<'_> {
    let mut found = SwapOptions {
        discard: Discard::None,
        priority: None,
        may_fail: false,
        wrong: Vec::new(),
        others: Vec::new(),
    };
    let (mut has_discard, mut has_priority, mut goes_on) = (false, false, false);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        // swapon splits at each comma, and systemd at none that is escaped.
        let is_rest = std::mem::replace(&mut goes_on, option.ends_with('\\'));
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        match (name, value) {
            ("defaults" | "sw", None) => {}
            ("nofail", None) if !is_rest => found.may_fail = true,
            ("fail", None) if !is_rest => found.may_fail = false,
            ("discard", _) if has_discard => found.wrong.push((option, "it is not the first")),
            ("pri", _) if has_priority => found.wrong.push((option, "it is not the first")),
            ("discard", value) => {
                has_discard = true;
                match value {
                    None => found.discard = Discard::Both,
                    Some("once") => found.discard = Discard::Once,
                    Some("pages") => found.discard = Discard::Pages,
                    Some(_) => found.wrong.push((option, "there is no such discarding")),
                }
            }
            ("pri", value) => {
                has_priority = true;
                match value.and_then(|value| value.parse::<i16>().ok()) {
                    Some(priority @ -1..) => found.priority = Some(Number(priority)),
                    _ => found
                        .wrong
                        .push((option, "a priority is a number from -1 to 32767")),
                }
            }
            _ => found.others.push(option),
        }
    }
    found
}

impl SwapOptions<'_> {
    pub(super) fn note(&self, line: &SourceLine, into: &mut Imported) {
        for (option, why) in &self.wrong {
            into.left(line, &format!("option {option:?}: {why}"));
        }
        for option in &self.others {
            into.left(line, &format!("option {option:?} is left out"));
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct SourceLine {
    pub file: PathBuf,
    /// From 1; 0 where no line says it.
    pub number: usize,
    pub text: String,
}

impl SourceLine {
    /// A remark on a whole file, such as a tool's default.
    pub(super) fn of_tool(file: &Path, text: &str) -> SourceLine {
        SourceLine {
            file: file.to_owned(),
            number: 0,
            text: text.to_owned(),
        }
    }
}

impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MAX: usize = 160;
        match self.number {
            0 => write!(f, "{}: ", self.file.display())?,
            number => write!(f, "{}:{number}: ", self.file.display())?,
        }
        if self.text.chars().count() <= MAX {
            return f.write_str(&self.text);
        }
        let cut: String = self.text.chars().take(MAX).collect();
        write!(f, "{cut}...")
    }
}

/// Message for a line with a DOS line ending.
pub(super) fn carriage_return(file: &str) -> String {
    format!("it ends with a carriage return, which is read as a part of it (sed -i 's/\\r$//' {file} removes them)")
}

/// More than any of these files is long.
const LENGTH_MAX: u64 = 1 << 20;

pub(super) const COMMAND_LINE: &str = "/proc/cmdline";

/// The kernel's command line; an unreadable one is empty.
pub(super) fn command_line(root: &Path) -> String {
    let line = Tree::new(root).read(Path::new(COMMAND_LINE), LENGTH_MAX);
    String::from_utf8_lossy(&line.unwrap_or_default()).into_owned()
}

/// The bytes of a file of the machine; nothing if there is no such file.
pub(super) fn bytes(root: &Path, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
    let tree = Tree::new(root);
    let failed = |cause| HostError::io("read", path, cause);
    let metadata = match tree.metadata(path) {
        Ok(metadata) => metadata,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    // A link to /dev/null hides a file; a pipe would be waited for.
    if !metadata.is_file() {
        return Ok(None);
    }
    let bytes = tree.read(path, LENGTH_MAX + 1).map_err(failed)?;
    if bytes.len() as u64 > LENGTH_MAX {
        return Err(HostError::malformed(path, "is longer than 1 MiB"));
    }
    Ok(Some(bytes))
}

/// The lines of a file of the machine, without comments and blank lines; nothing
/// if there is no such file.
pub(super) fn lines(root: &Path, path: &Path) -> Result<Option<Vec<SourceLine>>, HostError> {
    let Some(bytes) = bytes(root, path)? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().enumerate().filter_map(|(at, line)| {
        let line = line.trim();
        (!line.is_empty() && !line.starts_with(['#', ';'])).then(|| SourceLine {
            file: path.to_owned(),
            number: at + 1,
            text: line.to_owned(),
        })
    });
    Ok(Some(lines.collect()))
}

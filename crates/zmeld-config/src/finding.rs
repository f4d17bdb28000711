//! Something that is wrong, with a configuration or a machine, and the catalogue of
//! what is known by name: all that `accept` takes.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use zmeld_linux::config_files;
use zmeld_linux::text_form;

use crate::choices::choices;
use crate::key::Named;

/// A place in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// The file, as the machine itself names it.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Could be better, or may not do yet what it is for.
    Notice,
    /// Costs memory or time now, or will when memory gets short.
    Warning,
    /// Data is damaged, or requests fail; a configuration that cannot be used.
    Critical,
}

impl Severity {
    pub fn name(self) -> &'static str {
        Named::name(self)
    }
}

/// The least first.
impl Named for Severity {
    const ALL: &'static [(&'static str, Self)] = &[
        ("notice", Severity::Notice),
        ("warning", Severity::Warning),
        ("critical", Severity::Critical),
    ];
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// The rule's name, which stays the same.
    #[serde(serialize_with = "as_name")]
    #[schemars(with = "String")]
    pub id: Option<FindingId>,
    /// How much it matters.
    pub severity: Severity,
    /// The tier, device or setting that it is about.
    #[serde(rename = "subject")]
    pub about: String,
    /// The problem, a sentence.
    pub what: String,
    /// The numbers that say so.
    #[serde(rename = "evidence")]
    pub why: String,
    /// The remedy, a sentence.
    pub remedy: String,
    /// Its commands on this machine: lines for root's shell, each only after the one before it
    /// succeeded. None where somebody has to choose, or nothing here can do it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Its place in a file.
    #[serde(skip)]
    pub place: Option<FilePosition>,
}

/// The way out of what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    words: String,
    commands: Vec<String>,
}

impl Remedy {
    /// These commands, which are all that there is to say.
    pub fn run<S: Into<String>>(commands: impl IntoIterator<Item = S>) -> Remedy {
        let commands: Vec<String> = commands.into_iter().map(Into::into).collect();
        Remedy {
            words: commands.join(" && "),
            commands,
        }
    }

    /// This remedy in words, which say more than the commands.
    pub fn said(self, words: impl Into<String>) -> Remedy {
        let words = words.into();
        Remedy { words, ..self }
    }

    /// This remedy with what it is for in front; where there are several commands, they follow by
    /// themselves.
    pub fn that(self, words: &str) -> Remedy {
        let words = match self.commands.len() {
            0 | 1 => format!("{words}: {}", self.words),
            _ => words.to_owned(),
        };
        self.said(words)
    }

    /// This remedy with what is worth knowing beside it.
    pub fn and(mut self, words: &str) -> Remedy {
        self.words += words;
        self
    }
}

impl From<String> for Remedy {
    fn from(words: String) -> Remedy {
        Remedy {
            words,
            commands: Vec::new(),
        }
    }
}

impl From<&str> for Remedy {
    fn from(words: &str) -> Remedy {
        Remedy::from(words.to_owned())
    }
}

fn as_name<S: Serializer>(id: &Option<FindingId>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.map_or("", FindingId::name))
}

impl Finding {
    /// Its name in the catalogue; empty where it has none.
    pub fn name(&self) -> &'static str {
        self.id.map_or("", FindingId::name)
    }

    /// One of a configuration, whose `what` says why and the way out: without a place, and
    /// of no name.
    pub fn new(severity: Severity, about: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding {
            severity,
            ..Finding::of_machine(about, what, "", "")
        }
    }

    /// One of a machine, of no name and of any severity: both are its rule's.
    pub fn of_machine(
        about: impl Into<String>,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<Remedy>,
    ) -> Finding {
        let found = Finding {
            id: None,
            severity: Severity::Critical,
            about: about.into(),
            what: what.into(),
            why: why.into(),
            remedy: String::new(),
            commands: Vec::new(),
            place: None,
        };
        found.with(remedy)
    }

    /// This finding with that way out.
    pub fn with(self, remedy: impl Into<Remedy>) -> Finding {
        let Remedy { words, commands } = remedy.into();
        Finding {
            remedy: words,
            commands,
            ..self
        }
    }

    /// This finding under a known name.
    pub fn of(self, id: FindingId) -> Finding {
        Finding {
            id: Some(id),
            ..self
        }
    }
}

/// In one line: `FILE:LINE:COLUMN: KEY: WHAT; WAY OUT`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        if let Some(place) = &self.place {
            line += &format!("{place}: ");
        }
        let begins_with_it = self.what.starts_with(&format!("{} ", self.about));
        if !self.about.is_empty() && !begins_with_it {
            line += &format!("{}: ", self.about);
        }
        line += &self.what;
        if !self.why.is_empty() {
            line += &format!(" ({})", self.why);
        }
        if !self.remedy.is_empty() {
            line += &format!("; {}", self.remedy);
        }
        if let Some(id) = self.id {
            line += &format!(" (if it is meant: accept = [\"{id}\"])");
        }
        // Names of files and keys are other people's text.
        f.write_str(&line.replace(char::is_control, "?"))
    }
}

/// All that `accept` may name, for a macro. Rules of `zmeld status` come first, the gravest before
/// others, each with how much it matters at most, what it is asked of, and its function.
#[macro_export]
macro_rules! catalogue {
    ($what:ident) => {
        $what! {
            VerifyMismatch "verify-mismatch" Critical Device melding::mismatch;
            EncodeErrors "encode-errors" Critical All melding::encode_errors;
            FailedWrites "failed-writes" Critical Device sizing::failed_writes;
            NotEncrypted "not-encrypted" Critical All applied::in_plain;
            OomKills "oom-kills" Critical One pressure::oom_kills;
            GroupOomKills "group-oom-kills" Warning All pressure::group_oom_kills;
            UnattributedOomKills "unattributed-oom-kills" Warning One pressure::unattributed_oom_kills;
            ZramWithZswap "zram-with-zswap" Warning Area combination::zram_with_zswap;
            SecondDevice "second-device" Warning All combination::second_device;
            LruInversion "lru-inversion" Warning Area combination::lru_inversion;
            EqualPriority "equal-priority" Warning Area combination::equal_priority;
            Priorities "priorities" Warning Area combination::below_disk;
            ReadableFile "readable-file" Warning All upkeep::readable_file;
            Zvol "zvol" Warning All combination::zvol;
            FileInRam "file-in-ram" Warning All combination::file_in_ram;
            Incompressible "incompressible" Warning Area sizing::incompressible;
            Hibernation "hibernation" Warning One combination::hibernation;
            NotApplied "not-applied" Warning All applied::not_applied;
            StandIn "stand-in" Warning All applied::stand_in;
            ZswapCompressor "zswap-compressor" Warning One applied::zswap_compressor;
            NoMemoryLimit "no-memory-limit" Warning Area sizing::no_memory_limit;
            Oversized "oversized" Warning Area sizing::oversized;
            NearLimit "near-limit" Warning All sizing::near_limit;
            GroupRefused "group-refused" Warning All sizing::group_refused;
            Pressure "pressure" Warning All pressure::high;
            StaleSlots "stale-slots" Warning Area upkeep::stale_slots;
            DiscardBlocked "discard-blocked" Warning All upkeep::discard_blocked;
            NoWatch "no-watch" Warning All upkeep::no_watch;
            MountedWithoutDiscard "mounted-without-discard" Notice Device upkeep::mounted_without_discard;
            NoRule "no-rule" Notice All upkeep::no_rule;
            UnusedRule "unused-rule" Notice All upkeep::unused_rule;
            TwoGuards "two-guards" Notice All upkeep::two_guards;
            TwoReclaimers "two-reclaimers" Notice All upkeep::two_reclaimers;
            UnusedZswap "unused-zswap" Notice One combination::unused_zswap;
            Swappiness "swappiness" Notice One pressure::swappiness;
            ReadAhead "read-ahead" Notice One pressure::read_ahead;
            DuplicatesUnused "duplicates-unused" Notice Device melding::unused;
            ReadableCopy "readable-copy";
            UnstableName "unstable-name";
            ConfigurationUnread "configuration-unread";
        }
    };
}

macro_rules! names {
    ($($name:ident $text:literal $($severity:ident $of:ident $file:ident::$rule:ident)?;)*) => {
        /// A problem, with a configuration or with a machine that `zmeld status` looks at:
        /// all that `accept` may name. It says that it is meant: what was an error, a
        /// warning or a finding is then passed over in silence.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub enum FindingId {
            $($name,)*
        }

        impl FindingId {
            /// All of them.
            pub const ALL: &'static [FindingId] = &[$(FindingId::$name,)*];

            /// Its name in the configuration.
            pub const fn name(self) -> &'static str {
                match self { $(FindingId::$name => $text,)* }
            }
        }
    };
}

catalogue!(names);

impl FromStr for FindingId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        FindingId::ALL
            .iter()
            .copied()
            .find(|id| id.name() == text)
            .ok_or_else(|| {
                let names: Vec<_> = FindingId::ALL.iter().map(|id| id.name()).collect();
                format!(
                    "{text:?} is not the name of a known warning or finding; {}",
                    choices(text, &names)
                )
            })
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

text_form!(FindingId: str::parse);

/// A configuration that cannot be used. Its text is the first error, and how many more
/// there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// All that was found, in the order of the files and their lines: at least one error.
    pub problems: Vec<Finding>,
}

impl ConfigError {
    /// One mistake alone.
    pub fn of(place: Option<FilePosition>, about: &str, what: impl Into<String>) -> ConfigError {
        let mut problem = Finding::new(Severity::Critical, about, what);
        problem.place = place;
        let problems = vec![problem];
        ConfigError { problems }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems.iter();
        let mut errors = problems.filter(|it| it.severity == Severity::Critical);
        match (errors.next(), errors.count()) {
            (None, _) => f.write_str("the configuration is wrong"),
            (Some(one), 0) => one.fmt(f),
            (Some(first), more) => {
                // Without a file it checks the machine's own.
                let file = first.place.as_ref().map(|it| &it.file);
                let file = file.filter(|it| !config_files::is_one(it));
                let file = file.map_or(String::new(), |it| format!(" {}", it.display()));
                write!(f, "{first} (and {more} more: zmeld config check{file})")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_done_of_every_finding_or_it_is_said_why_not() {
        let rows = include_str!("../../zmeld-swap/tests/guest/remedies.sh");
        let starts = |with: &str| rows.lines().any(|it| it.trim_start().starts_with(with));
        for id in FindingId::ALL {
            let has_row = starts(&format!("row {id} "));
            assert!(has_row != starts(&format!("# {id}: ")), "{id}");
        }
    }
}

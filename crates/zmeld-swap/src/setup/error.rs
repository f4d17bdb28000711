//! Errors, each with the thing that it happened to and, where there is one, the way out.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use zmeld_linux::host::NoCommands;
use zmeld_linux::programs::Program;
use zmeld_linux::{Host, HostError};
use zmeld_report::units::bytes;

use super::steps::PARAMETERS;

/// Why something could not be read, planned, set up or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine did not say or do what it was asked for.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A privilege is missing.
    #[error("{what} needs {}", way_to_root(*is_root))]
    Privilege { what: String, is_root: bool },
    /// The running kernel lacks something.
    #[error("{what}, which this kernel does not offer: {way_out}")]
    KernelFeature { what: String, way_out: String },
    /// The kernel's device lacks an attribute, which a key of the tier sets.
    #[error(
        "{group} sets {attribute}, which this kernel does not offer: leave it out of the \
         configuration{}, or boot a kernel that was built with it",
        match (&**attribute, *key) {
            (_, "") => String::new(),
            (PARAMETERS, key) => format!(" (the level or dictionary in {key})"),
            (_, key) => format!(" ({key})"),
        }
    )]
    NoAttribute {
        group: String,
        attribute: String,
        key: &'static str,
    },
    /// The machine lacks something.
    #[error("{what}: {way_out}")]
    Lacks { what: String, way_out: &'static str },
    /// The kernel did not take a module.
    #[error(
        "{group} needs the module {module} ({said}), which this kernel does not offer: {way_out}"
    )]
    ModuleRefused {
        group: String,
        module: String,
        said: String,
        way_out: String,
    },
    /// The kernel has other codecs.
    #[error("the kernel has no codec {codec}: it has {there}")]
    NoCodec { codec: String, there: String },
    /// Another run of zmeld is at work.
    #[error("another run of zmeld {holder} is changing swap: wait for it to end, and try again")]
    Locked { holder: String },
    /// The pages in swap do not fit into RAM.
    #[error(
        "{} in {areas} do not fit back into RAM: {} are missing; end some programs, or add \
         other swap first",
        bytes(*swapped_bytes),
        bytes(*missing_bytes)
    )]
    NoRam {
        areas: String,
        swapped_bytes: u64,
        missing_bytes: u64,
    },
    /// The pages of a control group do not fit back into it.
    #[error(
        "{}; the kernel would kill a process of the group: {way_out}",
        listed(groups)
    )]
    NoRoomInGroup {
        groups: Vec<SwapoffConflict>,
        way_out: &'static str,
    },
    /// There are control groups, and what they have in swap is not seen.
    #[error(
        "the memory controller's groups are not mounted here, so it is unknown whether their \
         pages in swap fit back: run it where /proc/self/mountinfo lists them, or use --force; \
         the kernel kills programs of a group whose pages do not fit"
    )]
    GroupsUnseen,
    /// The swap use of control groups could not be read.
    #[error(
        "{source}, so it is unknown whether pages in swap fit back into control groups: try \
         again, or use --force"
    )]
    GroupsUnread { source: HostError },
    /// A plan's warning is to be resolved or accepted.
    #[error("{what}")]
    Refused { what: String },
    /// Parts of the plan cannot be.
    #[error("{}", named(refused))]
    Planned { refused: Refused },
    /// A step failed; what had been done before was undone.
    #[error("{}; {after}", of(group, source))]
    Step {
        group: String,
        source: Box<Error>,
        after: String,
    },
    /// Ctrl-C.
    #[error("stopped; {after}")]
    Interrupted { after: String },
}

/// The groups of tiers that cannot be planned, each with what keeps it from that.
pub type Refused = Vec<(String, Error)>;

/// The kinds of error that a caller may want to tell apart, for instance to
/// choose an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The input or what was asked for is wrong, or cannot be had now.
    Input,
    /// A privilege or a kernel feature is missing.
    Missing,
    /// The user stopped it.
    Interrupted,
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Privilege { .. }
            | Error::KernelFeature { .. }
            | Error::NoAttribute { .. }
            | Error::Lacks { .. }
            | Error::ModuleRefused { .. }
            | Error::NoCodec { .. } => ErrorKind::Missing,
            Error::Step { source, .. } => source.kind(),
            Error::Planned { refused } => refused
                .first()
                .map_or(ErrorKind::Input, |(_, err)| err.kind()),
            Error::Interrupted { .. } => ErrorKind::Interrupted,
            err if err.refused_with() == Some(io::ErrorKind::PermissionDenied) => {
                ErrorKind::Missing
            }
            _ => ErrorKind::Input,
        }
    }

    /// A file, device or place that cannot be used as it was asked for.
    pub(crate) fn place(
        path: impl AsRef<Path>,
        problem: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Error {
        HostError::not_ours(path, problem, way_out).into()
    }

    pub(crate) fn feature(what: impl Into<String>, way_out: impl Into<String>) -> Error {
        Error::KernelFeature {
            what: what.into(),
            way_out: way_out.into(),
        }
    }

    /// It without its part's name, and without what the machine's owner would do: for a tier that
    /// is tried and not asked for.
    pub fn without_remedy(&self) -> String {
        const LACKS: &str = "which this kernel does not offer";
        match self {
            Error::Planned { refused } => {
                let parts = refused.iter().map(|(_, err)| err.without_remedy());
                parts.collect::<Vec<_>>().join("; ")
            }
            Error::KernelFeature { what, .. } => format!("{what}, {LACKS}"),
            Error::ModuleRefused { module, said, .. } => {
                format!("it needs the module {module} ({said}), {LACKS}")
            }
            err => err.to_string(),
        }
    }

    /// The key that it is about, where one key of `group` is known to be.
    pub(crate) fn key(&self, group: &str) -> String {
        match self {
            Error::NoAttribute { key, .. } if !key.is_empty() => format!("{group}.{key}"),
            _ => group.to_owned(),
        }
    }

    /// That these parts cannot be planned, where there are any.
    pub fn planned(refused: Refused) -> Option<Error> {
        (!refused.is_empty()).then_some(Error::Planned { refused })
    }

    /// The module that the kernel did not take, and what was said, where it is that.
    pub(crate) fn refused_module(&self) -> Option<(&str, &str)> {
        match self {
            Error::ModuleRefused { module, said, .. } => Some((module, said)),
            Error::Step { source, .. } => source.refused_module(),
            _ => None,
        }
    }

    /// An operation on a file that the system refused.
    pub fn io(
        action: impl Into<Cow<'static, str>>,
        path: impl AsRef<Path>,
        cause: impl Into<io::Error>,
    ) -> Error {
        HostError::io(action, path, cause).into()
    }

    /// A file that does not say what it should.
    pub fn malformed(path: impl AsRef<Path>, problem: impl Into<String>) -> Error {
        HostError::malformed(path, problem).into()
    }

    /// How the system refused an operation on a file, if it did.
    pub(crate) fn refused_with(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Host(err) => err.cause().map(io::Error::kind),
            _ => None,
        }
    }

    /// Whether this user may not look, or no command was to be run for it.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Error::Step { source, .. } => source.is_denied(),
            err => err.refused_with() == Some(io::ErrorKind::PermissionDenied),
        }
    }

    /// Whether no command is run for anybody, so that none could be asked.
    pub(crate) fn is_unasked(&self) -> bool {
        let cause = match self {
            Error::Host(err) => err.cause().and_then(io::Error::get_ref),
            _ => None,
        };
        cause.is_some_and(|it| it.is::<NoCommands>())
    }

    /// Whether nothing is known for want of a look: this user may not, or no command is run.
    pub(crate) fn is_unseen(&self, host: &Host) -> bool {
        let is_refused = self.is_denied() || matches!(self, Error::Privilege { .. });
        self.is_unasked() || is_refused && !host.is_root()
    }

    pub(crate) fn is_timeout(&self) -> bool {
        self.refused_with() == Some(io::ErrorKind::TimedOut)
    }
}

/// User needed; root is not told to become root.
fn way_to_root(is_root: bool) -> &'static str {
    match is_root {
        false => "root: run it with sudo",
        true => {
            "more than root has here: a container or a security module (SELinux, AppArmor) refuses it"
        }
    }
}

/// All parts that cannot be planned, each with the reason.
fn named(refused: &Refused) -> String {
    let parts = refused.iter().map(|(group, err)| of(group, err));
    parts.collect::<Vec<_>>().join("; ")
}

/// An error of a group; some name it themselves.
fn of(group: &str, err: &Error) -> String {
    match err.to_string() {
        said if said.starts_with(&format!("{group} ")) => said,
        said => format!("{group}: {said}"),
    }
}

/// So many groups are named in one line.
const GROUPS_NAMED: usize = 3;

fn listed(groups: &[SwapoffConflict]) -> String {
    let named = groups
        .iter()
        .take(GROUPS_NAMED)
        .map(SwapoffConflict::to_string);
    let mut line = named.collect::<Vec<_>>().join("; ");
    if let Some(more) = groups.len().checked_sub(GROUPS_NAMED).filter(|it| *it > 0) {
        line.push_str(&format!("; and {more} more groups"));
    }
    line
}

/// A control group whose pages in swap do not fit back into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapoffConflict {
    /// Its path below the root of its hierarchy: `/app`.
    pub group: String,
    /// Bytes that would come back to it, at most.
    pub swapped_bytes: u64,
    /// Its room, in bytes.
    pub room_bytes: u64,
    /// Its limit in bytes.
    pub limit_bytes: u64,
    /// The program in it with the most pages in swap; none where none has any.
    pub largest: Option<Program>,
}

impl fmt::Display for SwapoffConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} would return to the control group {}, which has {} left below its limit of {}",
            bytes(self.swapped_bytes),
            self.group,
            bytes(self.room_bytes),
            bytes(self.limit_bytes),
        )?;
        match &self.largest {
            Some(program) => write!(
                f,
                " ({}, pid {}, has most of it: {} in swap)",
                program.name,
                program.pid,
                bytes(program.swapped_bytes)
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_privilege_is_named_with_the_way_to_it() {
        for (is_root, way) in [(false, "root: run it"), (true, "more than root has here")] {
            let what = "this".to_owned();
            let err = Error::Privilege { what, is_root };
            let said = err.to_string();
            assert!(said.starts_with(&format!("this needs {way}")), "{said}");
            assert_eq!(err.kind(), ErrorKind::Missing);
        }
    }
}

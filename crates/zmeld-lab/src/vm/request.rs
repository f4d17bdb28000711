//! What a guest is asked, and what it answers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zmeld_vm::{KernelKind, VirtualMachine};

use crate::error::Error;
use crate::experiment::result::Run;
use crate::measure::HostFacts;
use crate::recipe::Recipe;
use crate::variant::GuestDisk;

/// Files and an environment that are not the supervisor's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct World {
    pub root: PathBuf,
    /// The working directory, below it.
    pub folder: PathBuf,
    pub environment: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuestRequest {
    /// One case, without a limit of its own, and one variant.
    pub(crate) recipe: Recipe,
    pub(crate) footprint_bytes: u64,
    pub(crate) block: usize,
    pub(crate) answer: String,
    pub(crate) disk: Option<GuestDisk>,
    pub(crate) files: Option<FilesHere>,
}

/// This machine's files, as a command finds them in a guest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FilesHere {
    /// How they are mounted: the source, the kind of file system, its options.
    pub(super) mount: [String; 3],
    /// The command's folders and environment.
    pub(super) world: World,
}

impl FilesHere {
    /// For a guest with this kernel, and a command that runs as this program does.
    pub(crate) fn new(kind: KernelKind) -> Result<FilesHere, Error> {
        let folder = std::env::current_dir().map_err(|err| Error::io("find", ".", err))?;
        // Commands start without variables that are no text.
        let texts = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Ok(FilesHere {
            mount: VirtualMachine::files_mount(kind).map(str::to_owned),
            world: World {
                root: FILES.into(),
                folder,
                environment: std::env::vars_os().filter_map(texts).collect(),
            },
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuestAnswer {
    pub(super) machine: HostFacts,
    pub(crate) run: Result<Run, GuestRefusal>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuestRefusal {
    /// This kernel or archive lacks something: another one may have it.
    pub(super) missing: bool,
    /// Wrong bytes.
    pub(super) integrity: bool,
    pub(super) what: String,
}

impl From<GuestRefusal> for Error {
    /// The error as it would be here.
    fn from(refusal: GuestRefusal) -> Error {
        let what = format!("in the virtual machine: {}", refusal.what);
        match refusal.missing {
            true => Error::Missing(what),
            false if refusal.integrity => Error::Integrity(what),
            false => Error::Workload(what),
        }
    }
}

/// Mount point of the host's files, with changes to them.
pub(super) const FILES: &str = "/host/files";
/// Modules by which a guest has this machine's files, if not built into its kernel.
pub(super) const FILE_MODULES: &[&str] = &["9pnet_virtio", "9p", "overlay"];

pub(super) const REQUEST: &str = "/request.json";
/// Marks before and after the answer, so that half of one is not taken for a whole.
pub(super) const BEGIN: &str = "zmeld answers: ";
pub(super) const END: &str = " :zmeld has answered";

//! The compilers of another Debian, for kernels that this machine's are too old for:
//! the kernel's own tools, which come with its headers, need that Debian's C library,
//! too. Nothing runs in it but make.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::debian;
use crate::process::Log;
use crate::workspace;

const PACKAGES: &str =
    "make,gcc,libc6-dev,libelf1t64,kmod,xz-utils,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross";

/// Its root, made if it is not here.
pub fn root(log: &Log, suite: &str) -> Result<PathBuf> {
    debian::base(log, &format!("compilers-{suite}"), Some(suite), PACKAGES)
}

/// `make` there, which sees what is built and what with, at their own places.
pub fn make(root: &Path) -> Command {
    let kernels = root.ancestors().find(|folder| folder.ends_with("kernels"));
    let places = [kernels.unwrap_or(root).to_owned(), workspace::target()];
    let shown = places.each_ref().map(|place| place.display().to_string());
    let mounts = [0, 1].map(|at| (places[at].as_path(), shown[at].as_str(), ""));
    debian::enter(root, &mounts, &["LC_ALL=C", "make"])
}

//! The program of a release: static, so that one file runs on every distribution.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::source::cargo;
use super::Release;
use crate::process::Log;
use crate::progress::Progress;
use crate::tools;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// What it is built for: with musl, or where the toolchain has no musl, with the
/// machine's own C library linked in.
pub const MUSL: &str = "x86_64-unknown-linux-musl";
const GNU: &str = "x86_64-unknown-linux-gnu";

/// A target of the compiler, and its C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// As rustc names it.
    pub triple: &'static str,
    flags: &'static [&'static str],
}

/// The target that this machine can build for, and what would be better, where it is
/// not the best.
pub fn target() -> Result<(Target, Option<&'static str>)> {
    let musl = Target {
        triple: MUSL,
        flags: &[],
    };
    let gnu = Target {
        triple: GNU,
        flags: &["-Ctarget-feature=+crt-static"],
    };
    if !tools::is_on_path("musl-gcc") {
        return Ok((
            gnu,
            Some("with glibc: the package musl-tools has musl's compiler"),
        ));
    }
    let output = Command::new("rustc")
        .current_dir(workspace::root())
        .args(["--print=target-libdir", "--target", MUSL])
        .output()
        .context("cannot start rustc")?;
    let library = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && Path::new(&library).exists() {
        return Ok((musl, None));
    }
    Ok((
        gnu,
        Some("with glibc: `rustup target add x86_64-unknown-linux-musl` adds musl"),
    ))
}

/// Builds it from a release's tree, without a network. Nothing in it says where.
pub fn build(
    log: &Log,
    release: &Release,
    tree: &Path,
    target: Target,
    products: &Path,
) -> Result<PathBuf> {
    let shown = format!("/usr/src/{}", release.name());
    let places = [(tree, shown.as_str()), (products, "/usr/src/build")];
    let mut rust_flags: Vec<String> = places
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    rust_flags.extend(target.flags.iter().map(|flag| (*flag).to_owned()));
    let c_flags = places.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    let mut command = cargo(tree);
    command.args(["build", "--offline", "--locked", "--profile=dist"]);
    command.args(["--package=zmeld", "--target", target.triple]);
    command.env("CARGO_TARGET_DIR", products);
    command.env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join("\x1f"));
    command.env("CFLAGS", c_flags.join(" "));
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    let mut progress = Progress::new("building the static program", 230);
    let ran = log.run_watched(&mut command, LIMIT, &mut |text| {
        progress.add(text.matches("Compiling ").count() as u64);
    })?;
    drop(progress);
    if !ran.succeeded() {
        bail!(
            "the program does not build, see {}",
            workspace::shown(log.path())
        );
    }
    let program = products.join(target.triple).join("dist/zmeld");
    if !program.exists() {
        bail!("cargo left no {}", program.display());
    }
    Ok(program)
}

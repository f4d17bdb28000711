//! The programs of a release: static, so that one file runs on every distribution.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::source::cargo;
use super::Release;
use crate::apt::{Reason, Suite};
use crate::kernels::{self, Arch};
use crate::process::Log;
use crate::progress::Progress;
use crate::tools;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(3 * 3600);

const MUSL: &str = "x86_64-unknown-linux-musl";
const GNU: &str = "x86_64-unknown-linux-gnu";
const ARM64_MUSL: &str = "aarch64-unknown-linux-musl";

/// A target of the compiler, its C library, and what compiles C for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As rustc names it.
    pub triple: &'static str,
    /// The processor.
    pub arch: Arch,
    flags: &'static [&'static str],
    /// The compiler of C and linker, where it is not the one that cargo finds.
    compiler: Option<String>,
    /// Folders with headers, in place of the compiler's own.
    headers: Vec<PathBuf>,
}

impl Target {
    fn new(triple: &'static str, arch: Arch) -> Target {
        Target {
            triple,
            arch,
            flags: &[],
            compiler: None,
            headers: Vec::new(),
        }
    }

    /// What the compiler of Rust is told besides.
    pub fn flags(&self) -> &'static [&'static str] {
        self.flags
    }
}

/// How names of files and packages of RPM call a processor.
pub fn machine(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "x86_64",
        Arch::Arm64 => "aarch64",
    }
}

/// This machine's target, with musl, or where there is none with its own C library
/// linked in; and what would be better, where that is not the best.
pub fn target() -> Result<(Target, Option<&'static str>)> {
    let musl = Target::new(MUSL, Arch::Amd64);
    let gnu = Target {
        flags: &["-Ctarget-feature=+crt-static"],
        ..Target::new(GNU, Arch::Amd64)
    };
    if !tools::is_on_path("musl-gcc") {
        return Ok((
            gnu,
            Some("with glibc: the package musl-tools has musl's compiler"),
        ));
    }
    match has_library(MUSL)? {
        true => Ok((musl, None)),
        false => Ok((
            gnu,
            Some("with glibc: `rustup target add x86_64-unknown-linux-musl` adds musl"),
        )),
    }
}

/// The target for arm64; if it cannot be built for here, why.
pub fn arm64(log: &Log) -> Result<std::result::Result<Target, Reason>> {
    let Some(prefix) = Arch::Arm64.cross() else {
        return Ok(Err("no compiler is known".into()));
    };
    let compiler = format!("{prefix}gcc");
    if !tools::is_on_path(&compiler) {
        let why = "the package gcc-aarch64-linux-gnu has the compiler of C for it";
        return Ok(Err(why.into()));
    }
    if !has_library(ARM64_MUSL)? {
        let why = format!("`rustup target add {ARM64_MUSL}` adds what Rust needs for it");
        return Ok(Err(why));
    }
    let musl = match musl_headers(log)? {
        Ok(headers) => headers,
        Err(reason) => return Ok(Err(reason)),
    };
    let own = Command::new(&compiler)
        .arg("-print-file-name=include")
        .output()
        .with_context(|| format!("cannot start {compiler}"))?;
    let own = String::from_utf8_lossy(&own.stdout).trim().to_owned();
    Ok(Ok(Target {
        compiler: Some(compiler),
        headers: vec![musl, own.into()],
        ..Target::new(ARM64_MUSL, Arch::Arm64)
    }))
}

/// Whether the compiler has its library for a target.
fn has_library(triple: &str) -> Result<bool> {
    let output = Command::new("rustc")
        .current_dir(workspace::root())
        .args(["--print=target-libdir", "--target", triple])
        .output()
        .context("cannot start rustc")?;
    let library = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success() && Path::new(&library).exists())
}

/// Musl's headers for arm64, from Debian's package: those of the cross compiler are
/// glibc's.
fn musl_headers(log: &Log) -> Result<std::result::Result<PathBuf, Reason>> {
    let place = kernels::folder("packages")?;
    let _held = kernels::lock(&place)?;
    let folder = place.join("musl-dev-arm64");
    if !folder.exists() {
        let suite = match Suite::open(log, "bookworm", Arch::Arm64, &place.join("apt-arm64"))? {
            Ok(suite) => suite,
            Err(reason) => return Ok(Err(reason)),
        };
        suite.unpack(log, &[suite.of_arch("musl-dev")], &folder)?;
    }
    Ok(Ok(folder.join("usr/include/aarch64-linux-musl")))
}

/// Builds it from a release's tree, without a network, with the guard beside it. Nothing in
/// them says where.
pub fn build(
    log: &Log,
    release: &Release,
    tree: &Path,
    target: &Target,
    products: &Path,
) -> Result<PathBuf> {
    let shown = format!("/usr/src/{}", release.name());
    let mut places = vec![
        (tree.to_owned(), shown),
        (products.to_owned(), "/usr/src/build".to_owned()),
    ];
    for (index, headers) in target.headers.iter().enumerate() {
        places.push((headers.clone(), format!("/usr/src/headers{index}")));
    }
    let mut rust_flags: Vec<String> = places
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    rust_flags.extend(target.flags.iter().map(|flag| (*flag).to_owned()));
    let mut c_flags: Vec<String> = places
        .iter()
        .map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()))
        .collect();
    if !target.headers.is_empty() {
        c_flags.push("-nostdinc".to_owned());
    }
    for headers in &target.headers {
        c_flags.push(format!("-isystem {}", headers.display()));
    }
    let mut command = cargo(tree);
    command.args(["build", "--offline", "--locked", "--profile=dist"]);
    command.args(["--package=zmeld", "--package=zmeld-guard"]);
    command.args(["--target", target.triple]);
    command.env("CARGO_TARGET_DIR", products);
    command.env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join("\x1f"));
    command.env("CFLAGS", c_flags.join(" "));
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    if let Some(compiler) = &target.compiler {
        let name = target.triple.replace('-', "_");
        command.env(format!("CC_{name}"), compiler);
        let linker = format!("CARGO_TARGET_{}_LINKER", name.to_uppercase());
        command.env(linker, compiler);
    }
    let what = format!("building the static program for {}", machine(target.arch));
    let mut progress = Progress::new(&what, 230);
    let ran = log.run_watched(&mut command, LIMIT, &mut |text| {
        progress.add(text.matches("Compiling ").count() as u64);
    })?;
    drop(progress);
    if !ran.succeeded() {
        bail!(
            "the program does not build for {}, see {}",
            machine(target.arch),
            workspace::shown(log.path())
        );
    }
    let program = products.join(target.triple).join("dist/zmeld");
    if !program.exists() {
        bail!("cargo left no {}", program.display());
    }
    Ok(program)
}

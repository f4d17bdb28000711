//! The programs of a release: static, so that one file runs on every distribution.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::release::Release;
use super::source::cargo;
use crate::apt::Suite;
use crate::process::{output_of, unavailable, Log};
use crate::recipes::{self, Arch};
use crate::tools;
use crate::workspace;

const MUSL: &str = "x86_64-unknown-linux-musl";
const ARM64_MUSL: &str = "aarch64-unknown-linux-musl";

/// A target of the compiler, its C library, and what compiles C for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub triple: &'static str,
    pub arch: Arch,
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
            compiler: None,
            headers: Vec::new(),
        }
    }
}

/// How names of files and packages of RPM call a processor.
pub fn machine(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "x86_64",
        Arch::Arm64 => "aarch64",
    }
}

pub fn target() -> Result<Target> {
    if !tools::is_on_path("musl-gcc") {
        unavailable!("the package musl-tools has the compiler of C for it");
    }
    if !has_library(MUSL) {
        unavailable!("`rustup target add {MUSL}` adds what Rust needs for it");
    }
    Ok(Target::new(MUSL, Arch::Amd64))
}

pub fn arm64(log: &Log) -> Result<Target> {
    let compiler = "aarch64-linux-gnu-gcc";
    if !tools::is_on_path(compiler) {
        unavailable!("the package gcc-aarch64-linux-gnu has the compiler of C for it");
    }
    if !has_library(ARM64_MUSL) {
        unavailable!("`rustup target add {ARM64_MUSL}` adds what Rust needs for it");
    }
    let own = output_of(Command::new(compiler).arg("-print-file-name=include"))?;
    Ok(Target {
        compiler: Some(compiler.to_owned()),
        headers: vec![musl_headers(log)?, own.into()],
        ..Target::new(ARM64_MUSL, Arch::Arm64)
    })
}

/// Whether Rust can compile for it here.
pub fn has_library(triple: &str) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(workspace::root());
    let library = output_of(rustc.args(["--print=target-libdir", "--target", triple]));
    library.is_ok_and(|library| Path::new(&library).exists())
}

/// Musl's headers for arm64, from Debian's package: those of the cross compiler are
/// glibc's.
fn musl_headers(log: &Log) -> Result<PathBuf> {
    let place = recipes::folder("packages")?;
    let _held = recipes::lock(&place)?;
    let suite = ("bookworm", Arch::Arm64);
    let folder = place.join("musl-dev-arm64");
    let folder = Suite::unpacked(log, suite, &["musl-dev"], folder)?;
    Ok(folder.join("usr/include/aarch64-linux-musl"))
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
    let rust_flags: Vec<String> = places
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
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
    let machine = machine(target.arch);
    eprintln!("building the static program for {machine}, which takes minutes");
    log.must(&mut command)?;
    Ok(products.join(target.triple).join("dist/zmeld"))
}

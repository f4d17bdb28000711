//! What the tests need of the machine, and how it comes: as root on Debian or
//! Ubuntu what is missing is installed, elsewhere the line that would is said.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use crate::fuzz;
use crate::process::Log;
use crate::rust_tests::cargo;
use crate::step::TestScope;
use crate::tools;
use crate::workspace;

/// The log's name.
const NAME: &str = "setup";

const LIMIT: Duration = Duration::from_secs(1800);

/// How it is seen that something is there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Detection {
    /// A program on the path, or where administrators' programs are.
    Program(&'static str),
    File(&'static str),
    /// A module of python3, or of the system's own.
    PythonModule(&'static str),
    /// A subcommand of cargo.
    Cargo(&'static str),
    /// What clang links into programs that are fuzzed.
    FuzzerRuntime,
}

/// Where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// This package, of Debian and of Ubuntu.
    Package(&'static str),
    /// `libclang-rt-N-dev` of the clang that is here.
    ClangRuntime,
    /// A component of rustup's toolchain; where there is no rustup, a package.
    Component(&'static str, &'static str),
}

/// One thing that tests need.
#[derive(Debug)]
struct Requirement {
    seen: Detection,
    origin: Origin,
    why: &'static str,
    /// The steps that need it begin with one of these.
    steps: &'static [&'static str],
}

const fn need(
    seen: Detection,
    origin: Origin,
    why: &'static str,
    steps: &'static [&'static str],
) -> Requirement {
    Requirement {
        seen,
        origin,
        why,
        steps,
    }
}

const COMMANDS: &[&str] = &["cargo-test"];
const C: &[&str] = &[
    "c-", "codec-", "model-", "pass-", "threads-", "fuzz_", "seeded",
];
/// The same, and what only looks whether something compiles.
#[rustfmt::skip]
const C_COMPILER: &[&str] = &["c-", "codec-", "round_trip-", "model-", "pass-", "threads-", "fuzz_", "features", "seeded", "shares-model"];
const FLEET: &[&str] = &["fleet", "kubernetes"];
const FUZZ: &[&str] = &["fuzz_", "soak"];
/// A guest's kernel is made by the first step that asks for it.
#[rustfmt::skip]
const KERNELS: &[&str] = &["kernel-", "module-", "guest-", "machine-", "dkms", "checkpatch", "kcsan", "soak"];
const GUESTS: &[&str] = &["guest-", "machine-", "numa-boot", "kcsan", "soak"];
/// Guests, and tests on the machine itself.
const DEVICES: &[&str] = &["guest-", "machine-", "cargo-test", "kcsan", "soak"];
const QEMU: &[&str] = &[
    "guest-6",
    "guest-7",
    "machine-6",
    "dkms",
    "numa-boot",
    "kcsan",
    "soak",
];
const PROCESSORS: &[&str] = &["processors"];
const NARROW: &[&str] = &["processors", "store-32-bits"];
#[rustfmt::skip]
const ARM64_GUESTS: &[&str] = &["guest-6.1-arm64", "guest-6.12-arm64", "guest-7.3-arm64"];
#[rustfmt::skip]
const ARM64: &[&str] = &[
    "processors", "packages", "module-6.1-arm64", "module-6.12-arm64", "module-7.3-arm64",
    "guest-6.1-arm64", "guest-6.12-arm64", "guest-7.3-arm64",
];
/// A Debian is made to test in, to take programs from, or to compile in.
#[rustfmt::skip]
const DEBIANS: &[&str] = &[
    "guest-", "clean-root", "packages", "kernel-7", "module-7",
    "kernel-6.1-arm64", "module-6.1-arm64", "kernel-6.12-arm64", "module-6.12-arm64",
];

use Detection::{Cargo, File, FuzzerRuntime, Program, PythonModule};
use Origin::{ClangRuntime, Component, Package};

#[rustfmt::skip]
const NEEDS: &[Requirement] = &[
    need(Cargo("fmt"), Component("rustfmt", "rustfmt"), "says how code is formatted", &["format"]),
    need(Cargo("clippy"), Component("clippy", "rust-clippy"), "lints", &["clippy"]),
    need(Program("cc"), Package("build-essential"), "compiles the store", C_COMPILER),
    need(Program("ld"), Package("binutils"), "links the core alone", &["freestanding"]),
    need(Program("setarch"), Package("util-linux"), "starts what the thread sanitizer watches", C),
    need(Program("patch"), Package("patch"), "puts faults into the store", &["seeded"]),
    need(Program("spin"), Package("spin"), "checks the model of shares", &["shares-model"]),
    need(Program("clang"), Package("clang"), "fuzzes", FUZZ),
    need(FuzzerRuntime, ClangRuntime, "fuzzes", FUZZ),
    // What tests of the commands start.
    need(Program("python3"), Package("python3"), "holds memory of known pages", COMMANDS),
    need(PythonModule("prometheus_client"), Package("python3-prometheus-client"), "reads metrics", COMMANDS),
    need(Program("perl"), Package("perl"), "holds memory; checks the kernel's style", &["cargo-test", "checkpatch"]),
    need(Program("kill"), Package("procps"), "ends commands half-way", COMMANDS),
    need(Program("setpriv"), Package("util-linux"), "becomes an ordinary user", COMMANDS),
    need(Program("losetup"), Package("mount"), "makes disks of files", DEVICES),
    need(Program("cryptsetup"), Package("cryptsetup-bin"), "encrypts swap", DEVICES),
    need(Program("dmsetup"), Package("dmsetup"), "makes disks that are slow or fail", DEVICES),
    need(Program("mkfs.ext4"), Package("e2fsprogs"), "makes file systems", DEVICES),
    need(Program("busybox"), Package("busybox-static"), "is the guests' shell", DEVICES),
    need(Program("depmod"), Package("kmod"), "finds and loads modules", DEVICES),
    need(Program("shellcheck"), Package("shellcheck"), "reads the services of OpenRC", COMMANDS),
    need(Program("nix-instantiate"), Package("nix-bin"), "reads exported NixOS modules", COMMANDS),
    need(Program("systemd-analyze"), Package("systemd"), "reads units", COMMANDS),
    need(Program("groff"), Package("groff"), "renders manual pages", COMMANDS),
    need(Program("bash"), Package("bash"), "reads its completions", COMMANDS),
    need(Program("zsh"), Package("zsh"), "reads its completions", COMMANDS),
    need(Program("fish"), Package("fish"), "reads its completions", COMMANDS),
    // The Python package.
    need(Program("python3"), Package("python3"), "runs zmeld-fleet, reads manifests", FLEET),
    need(PythonModule("ensurepip"), Package("python3-venv"), "installs what these need", FLEET),
    need(Program("podman"), Package("podman"), "makes an image and runs it", &["kubernetes-run"]),
    need(Program("runc"), Package("runc"), "runs containers", &["kubernetes-run"]),
    need(Program("conmon"), Package("conmon"), "runs containers", &["kubernetes-run"]),
    // Programs for other processors.
    need(Program("qemu-arm"), Package("qemu-user"), "runs programs of other processors", NARROW),
    need(Program("s390x-linux-gnu-gcc"), Package("gcc-s390x-linux-gnu"), "compiles zword, big endian", PROCESSORS),
    need(File("/usr/s390x-linux-gnu/include/stdio.h"), Package("libc6-dev-s390x-cross"), "compiles zword, big endian", PROCESSORS),
    need(Program("powerpc-linux-gnu-gcc"), Package("gcc-powerpc-linux-gnu"), "compiles zword, 32 bits", PROCESSORS),
    need(File("/usr/powerpc-linux-gnu/include/stdio.h"), Package("libc6-dev-powerpc-cross"), "compiles zword, 32 bits", PROCESSORS),
    need(Program("arm-linux-gnueabihf-gcc"), Package("gcc-arm-linux-gnueabihf"), "compiles for armhf", NARROW),
    need(File("/usr/arm-linux-gnueabihf/include/stdio.h"), Package("libc6-dev-armhf-cross"), "compiles for armhf", NARROW),
    need(Program("i686-linux-gnu-gcc"), Package("gcc-i686-linux-gnu"), "compiles for i386", &["store-32-bits"]),
    need(File("/usr/i686-linux-gnu/include/stdio.h"), Package("libc6-dev-i386-cross"), "compiles for i386", &["store-32-bits"]),
    need(Program("aarch64-linux-gnu-gcc"), Package("gcc-aarch64-linux-gnu"), "compiles for arm64", ARM64),
    need(File("/usr/aarch64-linux-gnu/include/stdio.h"), Package("libc6-dev-arm64-cross"), "compiles for arm64", ARM64),
    need(Program("qemu-system-aarch64"), Package("qemu-system-arm"), "runs kernels for arm64", ARM64_GUESTS),
    // Kernels, and what works in them.
    need(Program("make"), Package("make"), "builds kernels and the module", KERNELS),
    need(Program("gcc"), Package("gcc"), "builds kernels and the module", KERNELS),
    need(Program("flex"), Package("flex"), "builds kernels", KERNELS),
    need(Program("patch"), Package("patch"), "builds kernels", KERNELS),
    need(Program("bison"), Package("bison"), "builds kernels", KERNELS),
    need(Program("bc"), Package("bc"), "builds kernels", KERNELS),
    need(Program("xz"), Package("xz-utils"), "unpacks kernels", KERNELS),
    need(File("/usr/include/libelf.h"), Package("libelf-dev"), "builds the module", KERNELS),
    need(File("/usr/include/openssl/ssl.h"), Package("libssl-dev"), "builds the module", KERNELS),
    need(Program("sparse"), Package("sparse"), "reads the module", &["module-"]),
    need(Program("openssl"), Package("openssl"), "makes a key for the module", &["dkms"]),
    need(Program("dkms"), Package("dkms"), "installs the module as users do", &["dkms"]),
    need(Program("fio"), Package("fio"), "writes to the device in guests", GUESTS),
    need(Program("strace"), Package("strace"), "kills zmeld at a step in guests", &["guest-um-boot-drills"]),
    need(Program("mkfs.btrfs"), Package("btrfs-progs"), "checks what it reads, in guests", GUESTS),
    need(Program("zramctl"), Package("util-linux"), "sets devices up in guests", GUESTS),
    need(Program("qemu-system-x86_64"), Package("qemu-system-x86"), "runs Debian's kernels", QEMU),
    need(Program("git"), Package("git"), "copies the checkout", &["clean-root", "packages"]),
    need(Program("unshare"), Package("util-linux"), "mounts where nobody else sees it", &["cargo-test", "clean-root", "packages"]),
    need(Program("debootstrap"), Package("debootstrap"), "makes a Debian", DEBIANS),
    need(Program("musl-gcc"), Package("musl-tools"), "compiles the static program", &["packages", "kubernetes-run"]),
    need(Program("rpmbuild"), Package("rpm"), "makes packages", &["packages"]),
    need(Program("dpkg-deb"), Package("dpkg"), "makes packages", &["packages"]),
    need(Program("xz"), Package("xz-utils"), "packs sources", &["packages"]),
];

impl Requirement {
    /// Whether one of these steps needs it. The short form of cargo's tests is
    /// those inside the crates, which start nothing.
    fn is_for(&self, steps: &[String], scope: TestScope) -> bool {
        let is_left_out = |prefix: &str| scope == TestScope::Quick && COMMANDS.contains(&prefix);
        let is_chosen = |prefix: &str| steps.iter().any(|step| step.starts_with(prefix));
        self.steps
            .iter()
            .any(|prefix| !is_left_out(prefix) && is_chosen(prefix))
    }

    fn name(&self) -> String {
        match self.seen {
            Detection::Program(name) | Detection::File(name) | Detection::PythonModule(name) => {
                name.to_owned()
            }
            Detection::Cargo(name) => format!("cargo {name}"),
            Detection::FuzzerRuntime => "libFuzzer".to_owned(),
        }
    }

    fn is_met(&self, log: &Log) -> Result<bool> {
        Ok(match self.seen {
            Detection::Program(name) => tools::is_on_path(name),
            Detection::File(path) => Path::new(path).exists(),
            Detection::PythonModule(name) => ["python3", "/usr/bin/python3"]
                .iter()
                .any(|python| runs(Command::new(python).args(["-c", &format!("import {name}")]))),
            Detection::Cargo(name) => runs(&mut cargo(&[name, "--version"])),
            Detection::FuzzerRuntime => fuzz::why_not(log)?.is_none(),
        })
    }
}

fn runs(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Something that is not here.
#[derive(Clone, Debug, PartialEq)]
struct MissingTool {
    name: String,
    from: Remedy,
    why: &'static str,
}

/// What would bring it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Remedy {
    Package(String),
    Component(String),
    /// Nothing does by itself: what it belongs to.
    With(&'static str),
}

/// What this run did without.
#[derive(Debug, Default, PartialEq)]
pub struct MissingTools {
    names: Vec<String>,
    line: String,
}

impl MissingTools {
    /// Why the run was not a full one, and the line that changes it.
    pub fn describe(&self) -> Option<String> {
        (!self.names.is_empty()).then(|| {
            format!(
                "missing here: {}. This brings it:\n  {}",
                self.names.join(", "),
                self.line
            )
        })
    }
}

/// Who runs the tests, and what may bring what they lack.
#[derive(Clone, Copy, Debug)]
struct InstallContext {
    root: bool,
    apt: bool,
    rustup: bool,
    /// Rust is a package of the distribution.
    packaged_rust: bool,
    /// Whether anything may be installed.
    install: bool,
}

/// Looks for what these steps need, installs what is missing where that is
/// possible, and says what it does; what is missing after that.
///
/// # Errors
/// When it was interrupted, or the log cannot be written.
pub fn set_up(steps: &[String], scope: TestScope, install: bool) -> Result<MissingTools> {
    let log = Log::create(&workspace::work_folder("logs")?.join(format!("{NAME}.log")))?;
    let means = InstallContext {
        root: tools::is_root(),
        apt: tools::is_on_path("apt-get"),
        rustup: tools::is_on_path("rustup"),
        packaged_rust: tools::on_path("cargo").is_some_and(|cargo| cargo.starts_with("/usr/bin")),
        install,
    };
    let mut missing = find_missing(&log, steps, scope, means)?;
    if missing.is_empty() {
        return Ok(MissingTools::default());
    }
    println!("Missing for these tests:");
    print_missing(&missing);
    if means.install && means.root && means.apt {
        update(&log)?;
        // What clang lacks is known when there is a clang.
        for _ in 0..2 {
            let before = missing.clone();
            install_missing(&log, &missing)?;
            missing = find_missing(&log, steps, scope, means)?;
            if missing.is_empty() || missing == before {
                break;
            }
        }
        match missing.is_empty() {
            true => println!("Installed all of it."),
            false => {
                println!(
                    "Could not be installed, see {}:",
                    workspace::shown(log.path())
                );
                print_missing(&missing);
            }
        }
    }
    println!();
    Ok(describe_missing(&missing, means))
}

fn find_missing(
    log: &Log,
    steps: &[String],
    scope: TestScope,
    means: InstallContext,
) -> Result<Vec<MissingTool>> {
    let mut missing = Vec::new();
    for need in NEEDS.iter().filter(|need| need.is_for(steps, scope)) {
        if need.is_met(log)? {
            continue;
        }
        let from = match need.origin {
            Package(name) => Remedy::Package(name.to_owned()),
            ClangRuntime => match tools::clang_major() {
                Some(major) => Remedy::Package(format!("libclang-rt-{major}-dev")),
                None => Remedy::With("clang"),
            },
            Component(name, _) if means.rustup => Remedy::Component(name.to_owned()),
            // Of the suite's own Rust, and of no other.
            Component(_, package) if means.packaged_rust => Remedy::Package(package.to_owned()),
            Component(..) => Remedy::With("the Rust toolchain"),
        };
        missing.push(MissingTool {
            name: need.name(),
            from,
            why: need.why,
        });
    }
    Ok(missing)
}

fn print_missing(missing: &[MissingTool]) {
    for tool in missing {
        let from = match &tool.from {
            Remedy::Package(name) => format!("package {name}"),
            Remedy::Component(name) => format!("Rust component {name}"),
            Remedy::With(name) => format!("with {name}"),
        };
        println!("  {:<26} {from:<36} {}", tool.name, tool.why);
    }
}

fn packages(missing: &[MissingTool]) -> BTreeSet<&str> {
    missing
        .iter()
        .filter_map(|tool| match &tool.from {
            Remedy::Package(name) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

fn components(missing: &[MissingTool]) -> BTreeSet<&str> {
    missing
        .iter()
        .filter_map(|tool| match &tool.from {
            Remedy::Component(name) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

const INSTALL: &[&str] = &["install", "--no-install-recommends"];

/// The one line that brings all of it.
fn line(missing: &[MissingTool], means: InstallContext) -> String {
    let words = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join(" ");
    let (packages, components) = (packages(missing), components(missing));
    let mut commands = Vec::new();
    if !packages.is_empty() && means.apt {
        let sudo = if means.root { "" } else { "sudo " };
        let install = INSTALL.join(" ");
        commands.push(format!("{sudo}apt-get {install} {}", words(packages)));
    } else if !packages.is_empty() {
        commands.push(format!("install what Debian calls {}", words(packages)));
    }
    if !components.is_empty() {
        commands.push(format!("rustup component add {}", words(components)));
    }
    commands.join(" && ")
}

fn describe_missing(missing: &[MissingTool], means: InstallContext) -> MissingTools {
    MissingTools {
        names: missing.iter().map(|tool| tool.name.clone()).collect(),
        line: line(missing, means),
    }
}

fn apt(log: &Log, arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["-q", "-y", "-o", "Acquire::Retries=2"]);
    command.args(arguments);
    Ok(log.run(&mut command, LIMIT)?.succeeded())
}

fn update(log: &Log) -> Result<()> {
    if !apt(log, &["update"])? {
        println!("The package lists cannot be read anew; trying with those that are here.");
    }
    Ok(())
}

/// Installs what can be had: together, or where that fails one by one.
fn install_missing(log: &Log, missing: &[MissingTool]) -> Result<()> {
    let known: Vec<&str> = packages(missing)
        .into_iter()
        .filter(|package| runs(Command::new("apt-cache").args(["show", package])))
        .collect();
    if !known.is_empty() {
        println!("Installing {} ...", known.join(" "));
        if !apt(log, &[INSTALL, &known].concat())? {
            for package in known {
                apt(log, &[INSTALL, &[package]].concat())?;
            }
        }
    }
    let components = components(missing);
    if !components.is_empty() {
        let mut command = Command::new("rustup");
        command.current_dir(workspace::root());
        command.args(["component", "add"]).args(&components);
        println!("Adding the Rust components {components:?} ...");
        log.run(&mut command, LIMIT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn needed(names: &[&str], scope: TestScope) -> Vec<String> {
        let steps = steps(names);
        let needs = NEEDS.iter().filter(|need| need.is_for(&steps, scope));
        needs.map(Requirement::name).collect()
    }

    #[test]
    fn only_what_the_chosen_steps_need_is_looked_for() {
        assert_eq!(needed(&["format"], TestScope::Default), ["cargo fmt"]);
        assert!(needed(&["core-sources"], TestScope::Default).is_empty());
        let tests = needed(&["cargo-test"], TestScope::Default);
        assert!(tests.contains(&"python3".to_owned()) && !tests.contains(&"flex".to_owned()));
        assert!(needed(&["cargo-test"], TestScope::Quick).is_empty());
        let kernels = needed(&["kernel-um", "guest-6.1-swap"], TestScope::Default);
        for name in ["flex", "bison", "bc", "qemu-system-x86_64"] {
            assert!(kernels.contains(&name.to_owned()), "{name}");
        }
        assert!(needed(&["fuzz_store"], TestScope::Quick).contains(&"clang".to_owned()));
    }

    #[test]
    fn every_need_has_its_reason_and_some_step() {
        for need in NEEDS {
            assert!(!need.why.is_empty() && !need.steps.is_empty(), "{need:?}");
        }
    }

    fn tool(name: &str, from: Remedy) -> MissingTool {
        MissingTool {
            name: name.to_owned(),
            from,
            why: "tests",
        }
    }

    #[test]
    fn one_line_brings_all_that_is_missing() {
        let missing = [
            tool("flex", Remedy::Package("flex".into())),
            tool("cargo fmt", Remedy::Component("rustfmt".into())),
            tool("zramctl", Remedy::Package("util-linux".into())),
            tool("setpriv", Remedy::Package("util-linux".into())),
            tool("libFuzzer", Remedy::With("clang")),
        ];
        let user = InstallContext {
            root: false,
            apt: true,
            rustup: true,
            packaged_rust: false,
            install: true,
        };
        assert_eq!(
            line(&missing, user),
            "sudo apt-get install --no-install-recommends flex util-linux \
             && rustup component add rustfmt"
        );
        let root = InstallContext { root: true, ..user };
        assert!(line(&missing, root).starts_with("apt-get install "));
        let elsewhere = InstallContext { apt: false, ..user };
        assert!(line(&missing, elsewhere).starts_with("install what Debian calls flex util-linux"));
        let told = describe_missing(&missing, user).describe().unwrap();
        assert!(told.contains("flex") && told.contains("sudo apt-get"));
        assert_eq!(MissingTools::default().describe(), None);
    }
}

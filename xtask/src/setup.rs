//! Needs of the tests, and how they are met: as root on Debian or Ubuntu what is missing is
//! installed, elsewhere the line that would is said.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::dist::program;
use crate::fuzz;
use crate::process::{output_of, Log};
use crate::tools;
use crate::workspace;

#[derive(Debug, PartialEq)]
struct Need {
    /// A program on the path, or where administrators' programs are; the path of a file;
    /// `python3 MODULE`; `rust TARGET`; [`LIBFUZZER`].
    what: &'static str,
    /// The package of Debian and of Ubuntu that has it; of a target of Rust's none.
    package: &'static str,
    why: &'static str,
    /// The steps that need it begin with one of these.
    steps: &'static [&'static str],
}

const fn need(
    what: &'static str,
    package: &'static str,
    why: &'static str,
    steps: &'static [&'static str],
) -> Need {
    Need {
        what,
        package,
        why,
        steps,
    }
}

/// Library that clang links into fuzzed programs: `libclang-rt-N-dev` of the clang that is here.
const LIBFUZZER: &str = "libFuzzer";
const RUST: &str = "rust";

const COMMANDS: &[&str] = &["cargo-test", "alone"];
const C: &[&str] = &[
    "c-", "codec-", "model-", "pass-", "threads-", "fuzz_", "seeded", "mutants-",
];
/// The same, and what only looks whether something compiles.
#[rustfmt::skip]
const C_COMPILER: &[&str] = &["c-", "codec-", "round_trip-", "model-", "pass-", "threads-", "fuzz_", "features", "seeded", "mutants-"];
const WORLD: &[&str] = &["world"];
const FLEET: &[&str] = &["fleet", "kubernetes", "world-dumps"];
const DUMPS: &[&str] = &["world-dumps"];
const FUZZ: &[&str] = &["fuzz_"];
/// A guest's kernel is made by the first step that asks for it.
#[rustfmt::skip]
const KERNELS: &[&str] = &["kernel-", "module-", "guest-", "machine-", "dkms", "checkpatch", "kernel-patch", "kcsan"];
const GUESTS: &[&str] = &["guest-", "machine-", "kcsan"];
/// Guests, and tests on the machine itself.
const DEVICES: &[&str] = &["guest-", "machine-", "cargo-test", "alone", "kcsan"];
/// Releases, and guests that are given them.
const RELEASES: &[&str] = &[
    "packages",
    "kubernetes-run",
    "guest-6.1-boot-",
    "guest-6.12-boot-",
    "guest-6.1-arm64-boot-",
    "guest-6.12-arm64-16k-boot-",
];
#[rustfmt::skip]
const ARM64_RELEASES: &[&str] = &["packages", "guest-6.1-arm64-boot-", "guest-6.12-arm64-16k-boot-"];
/// Steps that list or load modules.
#[rustfmt::skip]
const MODULES: &[&str] = &["kernel-", "module-", "guest-", "machine-", "cargo-test", "alone", "kcsan"];
const QEMU: &[&str] = &["guest-6", "guest-7", "machine-6", "kcsan", "world-dumps"];
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

#[rustfmt::skip]
const NEEDS: &[Need] = &[
    need("cc", "build-essential", "compiles the store", C_COMPILER),
    need("make", "make", "compiles the store", C_COMPILER),
    need("ld", "binutils", "links the core alone", &["freestanding"]),
    need("setarch", "util-linux", "starts what the thread sanitizer watches", C),
    need("patch", "patch", "puts faults into the store", &["seeded"]),
    need("python3 ensurepip", "python3-venv", "makes mutants of the store", &["mutants-"]),
    need("clang", "clang", "fuzzes", FUZZ),
    need(LIBFUZZER, "libclang-rt", "fuzzes", FUZZ),
    // Programs that tests of the commands start.
    need("python3", "python3", "holds memory of known pages", COMMANDS),
    need("python3 prometheus_client", "python3-prometheus-client", "reads metrics", COMMANDS),
    need("perl", "perl", "checks the kernel's style", &["checkpatch", "kernel-patch"]),
    need("kill", "procps", "ends commands half-way", COMMANDS),
    need("setpriv", "util-linux", "becomes an ordinary user", COMMANDS),
    need("setfacl", "acl", "opens a device to others", COMMANDS),
    need("losetup", "mount", "makes disks of files", DEVICES),
    need("cryptsetup", "cryptsetup-bin", "encrypts swap", DEVICES),
    need("dmsetup", "dmsetup", "makes disks that are slow or fail", DEVICES),
    need("mkfs.ext4", "e2fsprogs", "makes file systems", DEVICES),
    need("jq", "jq", "reads findings in guests", DEVICES),
    need("busybox", "busybox-static", "is the guests' shell", DEVICES),
    need("depmod", "kmod", "finds and loads modules", MODULES),
    need("shellcheck", "shellcheck", "reads the services of OpenRC", COMMANDS),
    need("nix-instantiate", "nix-bin", "reads the flake and the module of NixOS", COMMANDS),
    need("systemd-analyze", "systemd", "reads units", COMMANDS),
    need("groff", "groff", "renders manual pages", COMMANDS),
    need("bash", "bash", "reads its completions", COMMANDS),
    need("zsh", "zsh", "reads its completions", COMMANDS),
    need("fish", "fish", "reads its completions", COMMANDS),
    // Programs of others.
    need("/lib/systemd/system-generators/systemd-fstab-generator", "systemd", "judges imports of fstab", WORLD),
    need("unshare", "util-linux", "keeps judges from the machine", WORLD),
    need("bash", "bash", "runs the script of zram-tools", WORLD),
    // The Python package.
    need("python3", "python3", "runs zmeld-fleet, reads manifests and dumps", FLEET),
    need("python3 ensurepip", "python3-venv", "installs what these need", FLEET),
    need("gcore", "gdb", "makes a core of a process", DUMPS),
    need("makedumpfile", "makedumpfile", "puts a flattened dump together", DUMPS),
    need("zstd", "zstd", "compresses dumps", DUMPS),
    need("lz4", "lz4", "compresses dumps", DUMPS),
    need("bzip2", "bzip2", "compresses dumps", DUMPS),
    need("xz", "xz-utils", "compresses dumps", DUMPS),
    need("lzop", "lzop", "compresses dumps", DUMPS),
    need("qemu-img", "qemu-utils", "makes images of drives", DUMPS),
    need("podman", "podman", "makes an image and runs it", &["kubernetes-run"]),
    need("runc", "runc", "runs containers", &["kubernetes-run"]),
    need("conmon", "conmon", "runs containers", &["kubernetes-run"]),
    // Programs for other processors.
    need("qemu-arm", "qemu-user", "runs programs of other processors", NARROW),
    need("s390x-linux-gnu-gcc", "gcc-s390x-linux-gnu", "compiles zword, big endian", PROCESSORS),
    need("/usr/s390x-linux-gnu/include/stdio.h", "libc6-dev-s390x-cross", "compiles zword, big endian", PROCESSORS),
    need("powerpc-linux-gnu-gcc", "gcc-powerpc-linux-gnu", "compiles zword, 32 bits", PROCESSORS),
    need("/usr/powerpc-linux-gnu/include/stdio.h", "libc6-dev-powerpc-cross", "compiles zword, 32 bits", PROCESSORS),
    need("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf", "compiles for armhf", &["processors", "store-32-bits", "module-32-bits"]),
    need("/usr/arm-linux-gnueabihf/include/stdio.h", "libc6-dev-armhf-cross", "compiles for armhf", NARROW),
    need("clang-19", "clang-19", "compiles for i386 and armhf", &["module-32-bits"]),
    need("ld.lld-19", "lld-19", "compiles for i386 and armhf", &["module-32-bits"]),
    need("llvm-nm-19", "llvm-19", "compiles for i386 and armhf", &["module-32-bits"]),
    need("i686-linux-gnu-gcc", "gcc-i686-linux-gnu", "compiles for i386", &["store-32-bits", "module-32-bits"]),
    need("/usr/i686-linux-gnu/include/stdio.h", "libc6-dev-i386-cross", "compiles for i386", &["store-32-bits"]),
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "compiles for arm64", ARM64),
    need("/usr/aarch64-linux-gnu/include/stdio.h", "libc6-dev-arm64-cross", "compiles for arm64", ARM64),
    need("qemu-system-aarch64", "qemu-system-arm", "runs kernels for arm64", ARM64_GUESTS),
    // Kernels, and what works in them.
    need("make", "make", "builds kernels and the module", KERNELS),
    need("gcc", "gcc", "builds kernels and the module", KERNELS),
    need("flex", "flex", "builds kernels", KERNELS),
    need("patch", "patch", "builds kernels", KERNELS),
    need("bison", "bison", "builds kernels", KERNELS),
    need("bc", "bc", "builds kernels", KERNELS),
    need("xz", "xz-utils", "unpacks kernels", KERNELS),
    need("/usr/include/libelf.h", "libelf-dev", "builds the module", KERNELS),
    need("/usr/include/openssl/ssl.h", "libssl-dev", "builds the module", KERNELS),
    need("sparse", "sparse", "reads the module", &["module-"]),
    need("openssl", "openssl", "makes a key for the module", &["dkms"]),
    need("dkms", "dkms", "installs the module as users do", &["dkms"]),
    need("zramctl", "util-linux", "sets devices up in guests", GUESTS),
    need("qemu-system-x86_64", "qemu-system-x86", "runs Debian's kernels, dumps a machine", QEMU),
    need("git", "git", "copies the checkout", &["clean-root", "packages"]),
    need("unshare", "util-linux", "mounts where nobody else sees it", &["cargo-test", "alone", "clean-root", "packages"]),
    need("debootstrap", "debootstrap", "makes a Debian", DEBIANS),
    need("musl-gcc", "musl-tools", "compiles the static program", RELEASES),
    need("rust x86_64-unknown-linux-musl", "", "compiles the static program", RELEASES),
    need("rust aarch64-unknown-linux-musl", "", "compiles the static program for arm64", ARM64_RELEASES),
    need("rpmbuild", "rpm", "makes packages", &["packages"]),
    need("dpkg-deb", "dpkg", "makes packages", &["packages"]),
    need("gpg", "gnupg", "signs", &["packages-repository"]),
    need("apt-ftparchive", "apt-utils", "makes apt's index", &["packages-repository"]),
    need("createrepo_c", "createrepo-c", "makes dnf's index", &["packages-repository"]),
    need("xz", "xz-utils", "packs sources", &["packages"]),
];

impl Need {
    fn is_for(&self, steps: &[String]) -> bool {
        let is_chosen = |prefix: &&str| steps.iter().any(|step| step.starts_with(*prefix));
        self.steps.iter().any(is_chosen)
    }

    fn is_met(&self, log: &Log) -> Result<bool> {
        Ok(match self.what.split_once(' ') {
            Some((RUST, triple)) => program::has_library(triple),
            Some((_, module)) => ["python3", "/usr/bin/python3"].iter().any(|python| {
                let script = format!("import {module}");
                output_of(Command::new(python).args(["-c", &script])).is_ok()
            }),
            None if self.what == LIBFUZZER => fuzz::why_not(log)?.is_none(),
            None if self.what.starts_with('/') => Path::new(self.what).exists(),
            None => tools::is_on_path(self.what),
        })
    }

    /// The package that would bring it: of what clang lacks known where there is a clang.
    fn remedy(&self) -> String {
        match (self.what, tools::clang_major()) {
            (LIBFUZZER, Some(major)) => format!("{}-{major}-dev", self.package),
            (LIBFUZZER, None) => "clang".to_owned(),
            _ => self.package.to_owned(),
        }
    }
}

/// Missing needs, and the package that would bring each.
type Missing = Vec<(&'static Need, String)>;

fn packages(missing: &Missing) -> BTreeSet<&str> {
    let packages = missing.iter().map(|(_, package)| package.as_str());
    packages.filter(|it| !it.is_empty()).collect()
}

/// Missing Rust targets, as `rustup target add` takes them.
fn targets(missing: &Missing) -> Vec<&str> {
    let targets = missing.iter().map(|(need, _)| need.what.split_once(' '));
    let targets = targets.filter_map(|it| it.filter(|(kind, _)| *kind == RUST));
    targets.map(|(_, triple)| triple).collect()
}

/// Looks for what these steps need, installs what is missing where that is
/// possible, and says what it does; why the run will not be a full one, where something is
/// missing after that.
pub fn set_up(steps: &[String], install: bool) -> Result<Option<String>> {
    let log = Log::named("setup")?;
    let (root, apt) = (tools::is_root(), tools::is_on_path("apt-get"));
    let mut missing = find_missing(&log, steps)?;
    if missing.is_empty() {
        return Ok(None);
    }
    println!("Missing for these tests:");
    print_missing(&missing);
    if install && root && apt {
        if !apt_get(&log, &["update"])? {
            println!("The package lists cannot be read anew; trying with those that are here.");
        }
        // Needs of clang are known when there is a clang.
        for _ in 0..2 {
            install_missing(&log, &missing)?;
            let before = std::mem::replace(&mut missing, find_missing(&log, steps)?);
            if missing.is_empty() || missing == before {
                break;
            }
        }
        match missing.is_empty() {
            true => println!("Installed all of it."),
            false => {
                let log = workspace::shown(log.path());
                println!("Could not be installed, see {log}:");
                print_missing(&missing);
            }
        }
    }
    println!();
    Ok(describe(&missing, root, apt))
}

fn find_missing(log: &Log, steps: &[String]) -> Result<Missing> {
    let mut missing = Vec::new();
    for need in NEEDS.iter().filter(|need| need.is_for(steps)) {
        if !need.is_met(log)? {
            missing.push((need, need.remedy()));
        }
    }
    Ok(missing)
}

fn print_missing(missing: &Missing) {
    for (need, package) in missing {
        println!("  {:<26} {package:<36} {}", need.what, need.why);
    }
}

const INSTALL: &[&str] = &["install", "--no-install-recommends"];

/// Why the run was not a full one, and the one line that brings all of it.
fn describe(missing: &Missing, root: bool, apt: bool) -> Option<String> {
    let names: Vec<&str> = missing.iter().map(|(need, _)| need.what).collect();
    let packages: Vec<&str> = packages(missing).into_iter().collect();
    let packages = packages.join(" ");
    let sudo = if root { "" } else { "sudo " };
    let mut lines: Vec<String> = targets(missing)
        .iter()
        .map(|triple| format!("rustup target add {triple}"))
        .collect();
    if !packages.is_empty() {
        lines.push(match apt {
            true => format!("{sudo}apt-get {} {packages}", INSTALL.join(" ")),
            false => format!("install what Debian calls {packages}"),
        });
    }
    let lines = lines.join("\n  ");
    let names = names.join(", ");
    (!missing.is_empty()).then(|| format!("missing here: {names}. This brings it:\n  {lines}"))
}

fn apt_get(log: &Log, arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    let options = ["Acquire::Retries=2", "-o", "DPkg::Lock::Timeout=300"];
    command.args(["-q", "-y", "-o"]).args(options);
    Ok(log.run(command.args(arguments))?.succeeded())
}

/// Installs what can be had: together, or where that fails one by one.
fn install_missing(log: &Log, missing: &Missing) -> Result<()> {
    for triple in targets(missing) {
        println!("Installing what Rust needs for {triple} ...");
        let mut rustup = Command::new("rustup");
        rustup.current_dir(workspace::root());
        // Without rustup, that is what is missing in the end.
        let _ = log.run(rustup.args(["target", "add", triple]));
    }
    let mut known = Vec::from_iter(packages(missing));
    known.retain(|it| output_of(Command::new("apt-cache").args(["show", it])).is_ok());
    if !known.is_empty() {
        println!("Installing {} ...", known.join(" "));
        if !apt_get(log, &[INSTALL, &known].concat())? {
            for package in known {
                apt_get(log, &[INSTALL, &[package]].concat())?;
            }
        }
    }
    Ok(())
}

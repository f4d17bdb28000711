//! Features of kernels, as `store/kmod/probe.sh` finds them for both modules: in the kernels that
//! are here, and for zword.ko in headers after the public sources of those that cannot be had. Of
//! the latter nothing is built and nothing runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use zmeld_linux::KernelVersion;

use crate::module_build::{Flavour, ZWORD};
use crate::process::{FinishedProgram, Log};
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "features";

/// Mainline's features for zmeld.ko, and since or until when.
const HISTORY: &[(&str, std::ops::Range<u32>)] = &[
    ("RW_PAGE", 0..603),
    ("POOL_CLASSES", 602..NEVER),
    ("SYNCHRONOUS_FLAG", 603..611),
    ("CONST_CLASSES", 604..NEVER),
    ("BLK_MODE", 605..NEVER),
    ("LIMITS_AT_ALLOC", 609..NEVER),
    ("QUEUE_FEATURES", 611..NEVER),
    ("POOL_COPIES", 615..NEVER),
    ("POOL_NODES", 616..NEVER),
    ("POOL_SIZED_READS", 700..NEVER),
];

const CODEC_HISTORY: &[(&str, std::ops::Range<u32>)] = &[
    ("OLD_COMPRESSORS", 0..615),
    ("SCOMP_TFM_CONTEXT", 0..615),
    ("SCOMP_STREAMS", 616..NEVER),
];

const NEVER: u32 = u32::MAX;

/// Kernels whose headers we wrote: the version, 606 for 6.6.
const WRITTEN: &[u32] = &[601, 603, 606, 608, 609, 611, 615, 616, 618, 700];

fn mainline(flavour: Flavour, version: u32) -> BTreeSet<&'static str> {
    let history = match flavour {
        Flavour::Codec => CODEC_HISTORY,
        _ => HISTORY,
    };
    let has = history.iter().filter(|(_, when)| when.contains(&version));
    has.map(|(name, _)| *name).collect()
}

/// The features that a result's lines have with 1; None where a line is another's.
fn features(header: &str) -> Option<BTreeSet<&str>> {
    let mut found = BTreeSet::new();
    for line in header.lines().filter(|line| line.starts_with('#')) {
        let (name, value) = line.strip_prefix("#define ZM_HAS_")?.split_once(' ')?;
        match value {
            "1" => found.insert(name),
            "0" => false,
            _ => return None,
        };
    }
    Some(found)
}

/// Checks that the module's build found in this kernel the features of Debian's kernel
/// of that version, which are mainline's.
pub fn judge_build(
    step: &str,
    kernel_release: &str,
    flavour: Flavour,
    built: &Path,
) -> Result<Tally> {
    let path = built.with_file_name(flavour.module().features);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("the build made no {}", path.display()))?;
    let version = KernelVersion::parse(kernel_release).context("a release without a version")?;
    let version = version.major * 100 + version.minor;
    Ok(judge(step, &text, &mainline(flavour, version)))
}

fn judge(what: &str, header: &str, wanted: &BTreeSet<&str>) -> Tally {
    let found = features(header);
    let why = format!("{what}: found {found:?} and not {wanted:?}");
    Tally::of(STEP, found.as_ref() == Some(wanted), why)
}

/// Result expected where headers have a piece carried back, or what no kernel has.
enum Expected {
    /// The features of a version of mainline, without one where it is named, and with others.
    Features(u32, &'static str, &'static [&'static str]),
    Error(&'static str),
}
use Expected::{Error, Features};

const SPECIAL: &[(&str, &str, Expected)] = &[
    (
        "6.10 with backported compressors",
        "-DKERNEL=610 -DBACKPORTED_SCOMP",
        Features(610, "SCOMP_TFM_CONTEXT", &["SCOMP_STREAMS"]),
    ),
    (
        "a form of contexts that nobody has seen",
        "-DKERNEL=615 -DUNKNOWN_FORM",
        Error("zword: scomp_streams: does not compile for this kernel"),
    ),
    (
        "a wrong flag",
        "-DKERNEL=606 --no-such-flag",
        Error("no-such-flag"),
    ),
];

/// The probes with headers that we wrote: kernels of mainline, some with backports, and
/// what must be an error.
pub fn test(log: &Log) -> Result<Tally> {
    let mut tally = Tally::default();
    for version in WRITTEN {
        let name = format!("headers of {version}");
        let flag = format!("-DKERNEL={version}");
        let (ran, header) = probe(log, &flag)?;
        tally.add(match ran.succeeded() {
            true => judge(&name, &header, &mainline(Flavour::Codec, *version)),
            false => Tally::fail(STEP, format!("{name}: the probes fail")),
        });
        let why = format!("zword.ko does not compile with headers of {version}");
        tally.add(Tally::of(STEP, codec_compiles(log, &flag)?, why));
    }
    for (name, flags, expected) in SPECIAL {
        let (ran, header) = probe(log, flags)?;
        tally.add(match expected {
            Features(version, without, with) => {
                let mut wanted = mainline(Flavour::Codec, *version);
                wanted.remove(without);
                wanted.extend(with.iter());
                judge(name, &header, &wanted)
            }
            Error(said) => {
                let ok = !ran.succeeded() && header.is_empty() && ran.text.contains(said);
                Tally::of(STEP, ok, format!("{name} is no error"))
            }
        });
    }
    Ok(tally)
}

/// One run of the script with our headers, and the result it wrote.
fn probe(log: &Log, flags: &str) -> Result<(FinishedProgram, String)> {
    let store = workspace::root().join("store");
    let module = store.join(ZWORD.folder);
    let header = workspace::work_folder(STEP)?.join(ZWORD.features);
    let _ = fs::remove_file(&header);
    let mut command = Command::new("sh");
    command.env("MODULE", ZWORD.name);
    command.arg(store.join("kmod/probe.sh")).arg(&header);
    command.arg(module.join("probes")).arg(tools::c_compiler());
    command.args(["-std=gnu11", "-nostdlib", "-DCONFIG_CRYPTO_ACOMP2=1"]);
    command.arg("-isystem").arg(module.join("tests/headers"));
    command.args(flags.split(' '));
    let ran = log.run(&mut command)?;
    Ok((ran, fs::read_to_string(&header).unwrap_or_default()))
}

/// Whether zword.ko's own sources compile with our headers and what was last found in
/// them. The types are user space's.
fn codec_compiles(log: &Log, kernel: &str) -> Result<bool> {
    let store = workspace::root().join("store");
    let module = store.join("crypto");
    let mut command = Command::new(tools::c_compiler());
    command.args(["-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", kernel]);
    command.arg("-isystem").arg(module.join("tests/headers"));
    for folder in [workspace::work_folder(STEP)?, store.join("include")] {
        command.arg("-I").arg(folder);
    }
    command.arg("-I").arg(store.join("port/user"));
    command.args(["library.c", "module.c", "scomps.c"].map(|file| module.join(file)));
    Ok(log.run(&mut command)?.succeeded())
}

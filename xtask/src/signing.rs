//! Installing as users do: DKMS builds and signs the module with a machine owner
//! key, and a kernel that wants signatures refuses what is not signed by a key
//! that it knows. The firmware's part, enrolling the key, cannot be tested here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Result};

use crate::guest::Addition;
use crate::kernels::Kernel;
use crate::machine::{self, BootOptions};
use crate::package;
use crate::process::Log;
use crate::step::Tally;
use crate::tools;
use crate::vm;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(900);

/// The name in the certificate, by which `modinfo` tells the signer.
const SIGNER: &str = "zmeld test key";

/// `dkms build` with a key of ours; then three boots' worth of refusals in one.
pub fn test(log: &Log, kernel: &Kernel) -> Result<Tally> {
    const STEP: &str = "dkms";
    let needed = ["dkms", "openssl", "modinfo"];
    if let Some(missing) = needed.iter().find(|name| !tools::is_on_path(name)) {
        return Ok(Tally::skip(STEP, format!("{missing} is not installed")));
    }
    let place = workspace::work_folder("dkms")?;
    fs::remove_dir_all(&place)?;
    fs::create_dir_all(place.join("tree"))?;
    let key = make_key(log, &place, "ours", SIGNER)?;
    let built = match dkms_build(log, kernel, &place, &key) {
        Ok(built) => built,
        Err(error) => return Ok(Tally::fail(STEP, format!("{error:#}"))),
    };
    let mut tally = Tally::pass();
    let signer = modinfo(&built, "signer")?;
    let why = format!("modinfo names the signer {signer:?} and not {SIGNER:?}");
    tally.add(Tally::of(STEP, signer == SIGNER, why));
    if let Some(reason) = machine::cannot_run(kernel) {
        tally.add(Tally::skip(STEP, reason));
        return Ok(tally);
    }
    let unsigned = place.join("unsigned.ko");
    let mut strip = Command::new("strip");
    strip
        .arg("--strip-debug")
        .arg(&built)
        .arg("-o")
        .arg(&unsigned);
    if !log.run(&mut strip, LIMIT)?.succeeded() {
        bail!("strip fails on {}", built.display());
    }
    tally.add(refusals(log, kernel, &built, &unsigned)?);
    Ok(tally)
}

struct Key {
    private: PathBuf,
    certificate: PathBuf,
}

fn make_key(log: &Log, place: &Path, name: &str, signer: &str) -> Result<Key> {
    let key = Key {
        private: place.join(format!("{name}.key")),
        certificate: place.join(format!("{name}.der")),
    };
    let mut command = Command::new("openssl");
    command.args([
        "req", "-new", "-x509", "-nodes", "-days", "2", "-newkey", "rsa:2048",
    ]);
    command.args(["-subj", &format!("/CN={signer}/"), "-outform", "DER"]);
    command.arg("-keyout").arg(&key.private);
    command.arg("-out").arg(&key.certificate);
    if !log.run(&mut command, LIMIT)?.succeeded() {
        bail!("openssl makes no key");
    }
    Ok(key)
}

/// The module that DKMS built and signed, in a tree of ours.
fn dkms_build(log: &Log, kernel: &Kernel, place: &Path, key: &Key) -> Result<PathBuf> {
    let source = place.join("source");
    package::ZMELD.tree(&source, &package::module_version()?)?;
    let version = package::module_version()?;
    let tree = place.join("tree");
    let dkms = |action: &str| {
        let mut command = Command::new("dkms");
        command.args([action, "-m", "zmeld", "-v", &version]);
        command.arg("--dkmstree").arg(&tree);
        command.arg("--sourcetree").arg(&source);
        // What the machine's own kernels have is not touched.
        command.env("sign_file", kernel.build.join("scripts/sign-file"));
        command.env("mok_signing_key", &key.private);
        command.env("mok_certificate", &key.certificate);
        command
    };
    if !log.run(&mut dkms("add"), LIMIT)?.succeeded() {
        bail!("`dkms add` fails");
    }
    let mut build = dkms("build");
    build.args(["-k", &kernel.release]);
    build.arg("--kernelsourcedir").arg(&kernel.build);
    if !log.run(&mut build, LIMIT)?.succeeded() {
        let make_log = tree.join(format!("zmeld/{version}/build/make.log"));
        log.note(&fs::read_to_string(make_log).unwrap_or_default())?;
        bail!("`dkms build` fails");
    }
    let folder = tree.join(format!("zmeld/{version}/{}", kernel.release));
    let find = Command::new("find")
        .arg(&folder)
        .args(["-name", "zmeld.ko*"])
        .output()?;
    let text = String::from_utf8_lossy(&find.stdout).into_owned();
    let Some(module) = text.lines().next().map(PathBuf::from) else {
        bail!("`dkms build` left no module in {}", folder.display());
    };
    if module
        .extension()
        .is_some_and(|extension| extension == "xz")
    {
        let mut unpack = Command::new("xz");
        unpack.arg("-d").arg(&module);
        log.run(&mut unpack, LIMIT)?;
        return Ok(module.with_extension(""));
    }
    Ok(module)
}

fn modinfo(module: &Path, field: &str) -> Result<String> {
    let program = tools::on_path("modinfo").unwrap_or_else(|| "modinfo".into());
    let output = Command::new(program)
        .args(["-F", field])
        .arg(module)
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// In a kernel that enforces signatures.
fn refusals(log: &Log, kernel: &Kernel, signed: &Path, unsigned: &Path) -> Result<Tally> {
    let script = workspace::root().join("xtask/guest/signatures.sh");
    let boot = BootOptions {
        script: Some(vm::script(&script)?),
        append: "module.sig_enforce=1".to_owned(),
        files: vec![
            Addition::file("/guest/foreign.ko", signed)?,
            Addition::file("/guest/unsigned.ko", unsigned)?,
        ],
        ..BootOptions::default()
    };
    let mut output = Vec::new();
    let outcome = machine::run(kernel, &boot, &mut output)?;
    log.note(&String::from_utf8_lossy(&output))?;
    log.note(&outcome.messages)?;
    Ok(Tally::of(
        "dkms",
        outcome.code == Some(0),
        "a kernel that enforces signatures takes what it must not, see above",
    ))
}

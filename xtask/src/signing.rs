//! Installing as users do: DKMS builds and signs the module with a machine owner key.
//! Enrolling the key, and refusing what is signed by no known one, is the firmware's and
//! the kernel's part.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Result};

use crate::module_build::ZMELD;
use crate::package;
use crate::process::{output_of, Log};
use crate::recipes::Kernel;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "dkms";

/// The name in the certificate, by which `modinfo` tells the signer.
const SIGNER: &str = "zmeld test key";
const KEY: &str = "ours.key";
const CERTIFICATE: &str = "ours.der";

/// `dkms build` with a key of ours.
pub fn test(log: &Log, kernel: &Kernel) -> Result<Tally> {
    tools::need(&["dkms", "openssl", "modinfo"])?;
    let place = workspace::work_folder("dkms")?;
    workspace::remove(&place)?;
    fs::create_dir_all(place.join("tree"))?;
    let mut make_key = Command::new("openssl");
    make_key.args("req -new -x509 -nodes -days 2 -newkey rsa:2048 -outform DER".split(' '));
    make_key.args(["-subj", &format!("/CN={SIGNER}/")]);
    make_key.arg("-keyout").arg(place.join(KEY));
    log.must(make_key.arg("-out").arg(place.join(CERTIFICATE)))?;
    let built = match dkms_build(log, kernel, &place) {
        Ok(built) => built,
        Err(error) => return Ok(Tally::fail(STEP, format!("{error:#}"))),
    };
    let mut tally = Tally::pass();
    let modinfo = tools::on_path("modinfo").unwrap_or_else(|| "modinfo".into());
    let signer = output_of(Command::new(modinfo).args(["-F", "signer"]).arg(&built))?;
    let why = format!("modinfo names the signer {signer:?} and not {SIGNER:?}");
    tally.add(Tally::of(STEP, signer == SIGNER, why));
    Ok(tally)
}

/// The module that DKMS built and signed, in a tree of ours.
fn dkms_build(log: &Log, kernel: &Kernel, place: &Path) -> Result<PathBuf> {
    let source = place.join("source");
    ZMELD.tree(&source, &package::module_version()?)?;
    let version = package::module_version()?;
    let tree = place.join("tree");
    let dkms = |action: &str| {
        let mut command = Command::new("dkms");
        command.args([action, "-m", "zmeld", "-v", &version]);
        command.arg("--dkmstree").arg(&tree);
        command.arg("--sourcetree").arg(&source);
        // The machine's own keys are not touched.
        command.env("sign_file", kernel.build.join("scripts/sign-file"));
        command.env("mok_signing_key", place.join(KEY));
        command.env("mok_certificate", place.join(CERTIFICATE));
        command
    };
    log.must(&mut dkms("add"))?;
    let mut build = dkms("build");
    build.args(["-k", &kernel.release]);
    build.arg("--kernelsourcedir").arg(&kernel.build);
    if !log.run(&mut build)?.succeeded() {
        let make_log = tree.join(format!("zmeld/{version}/build/make.log"));
        log.note(&fs::read_to_string(make_log).unwrap_or_default())?;
        bail!("`dkms build` fails");
    }
    let folder = tree.join(format!("zmeld/{version}/{}", kernel.release));
    let mut find = Command::new("find");
    let found = output_of(find.arg(&folder).args(["-name", "zmeld.ko*"]))?;
    let Some(module) = found.lines().next().map(PathBuf::from) else {
        bail!("`dkms build` left no module in {}", folder.display());
    };
    Ok(module)
}

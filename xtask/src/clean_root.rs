//! The README's command where somebody tries it first: in a Debian that has Rust, a
//! C compiler and nothing else, and in a container that may do nothing.
//!
//! The Debian is a folder that debootstrap fills once; each run has a copy of it and
//! of this checkout. Mounts are those of a namespace that ends with the run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::debian;
use crate::kernels;
use crate::process::{FinishedProgram, Log};
use crate::rust_tests::cargo;
use crate::step::Tally;
use crate::turn::TURN;
use crate::workspace;

/// The step's name.
pub const STEP: &str = "clean-root";

const LIMIT: Duration = Duration::from_secs(2 * 3600);
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// The C compiler that the README asks for.
const PACKAGES: &str = "gcc,libc6-dev";

/// Takes what no container has by default, too, so that nothing is left.
const NO_PRIVILEGES: &[&str] = &[
    "setpriv",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--no-new-privs",
];

/// Runs the command there. What the machine's other tests must know of, since the
/// kernel is the same, is shared: `/run/zmeld`, and whose turn it is.
const ENTER: &str = r#"
set -e
into() {
	mkdir -p "$root$2"
	mount --bind "$1" "$root$2"
}
into "$toolchain" /opt/rust
into "$cargo_home/registry" /root/.cargo/registry
mount -o remount,bind,ro "$root/opt/rust"
mount -o remount,bind,ro "$root/root/.cargo/registry"
mkdir -p /run/zmeld
into /run/zmeld /run/zmeld
touch "$turn" "$root$turn"
mount --bind "$turn" "$root$turn"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot "$root" env -i HOME=/root LC_ALL=C.UTF-8 \
	PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	http_proxy="$http_proxy" https_proxy="$https_proxy" \
	CARGO_NET_OFFLINE=true \
	sh -c 'cd /zmeld && exec "$@"' sh "$@"
"#;

/// A copy that goes with the test.
pub struct Root(pub PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command in the clean Debian, short and with all tests of the commands, and
/// these again where nothing is allowed.
pub fn test(log: &Log) -> Result<Tally> {
    let base = match base(log, "clean", PACKAGES)? {
        Ok(base) => base,
        Err(reason) => return Ok(Tally::skip(STEP, reason)),
    };
    let root = copy(log, &base, STEP)?;
    check_out(log, &root)?;
    let command = ["cargo", "xtask", "test"];
    let all = ["--only", "cargo-test", "--only", "format"];
    let mut tally = Tally::default();
    let ran = enter(log, &root.0, &[&command[..], &["--quick"]].concat())?;
    let installed = ran.text.contains("Installed all of it.");
    tally.add(judged("--quick in a clean Debian", &ran));
    tally.add(Tally::of(STEP, installed, "it installed nothing there"));
    let ran = enter(log, &root.0, &[&command[..], &all].concat())?;
    let lacks = ran.text.contains("NOT A FULL RUN: missing here");
    tally.add(judged("all tests of cargo in a clean Debian", &ran));
    tally.add(Tally::of(STEP, !lacks, "something could not be installed"));
    let words = [NO_PRIVILEGES, &command, &all].concat();
    let ran = enter(log, &root.0, &words)?;
    tally.add(judged("all tests of cargo without privileges", &ran));
    Ok(tally)
}

fn judged(what: &str, ran: &FinishedProgram) -> Tally {
    let last = ran.text.lines().last().unwrap_or_default();
    let ok = ran.succeeded() && last.contains(" passed, 0 failed, ");
    Tally::of(STEP, ok, format!("{what}: {last}"))
}

/// A Debian of that name with packages more, made if it is not here.
pub fn base(log: &Log, name: &str, packages: &str) -> Result<std::result::Result<PathBuf, String>> {
    let place = kernels::folder("debian")?;
    let _held = kernels::lock(&place)?;
    let base = place.join(name);
    if base.exists() {
        return Ok(Ok(base));
    }
    let unfinished = place.join(format!("{name}.unfinished"));
    if let Err(reason) = debian::install(log, &unfinished, packages)? {
        return Ok(Err(reason));
    }
    fs::rename(&unfinished, &base)?;
    Ok(Ok(base))
}

/// A copy of it for a step.
pub fn copy(log: &Log, base: &Path, step: &str) -> Result<Root> {
    let root = Root(workspace::work_folder(step)?.join("root"));
    let _ = fs::remove_dir_all(&root.0);
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(base).arg(&root.0);
    if !log.run(&mut copy, COPY_LIMIT)?.succeeded() {
        bail!("cannot copy {}", base.display());
    }
    // Names of mirrors are found there, and no daemon is started by a package.
    fs::copy("/etc/resolv.conf", root.0.join("etc/resolv.conf"))?;
    fs::copy("/etc/hosts", root.0.join("etc/hosts"))?;
    let policy = root.0.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
    fs::set_permissions(&policy, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(root)
}

/// This checkout in it.
fn check_out(log: &Log, root: &Root) -> Result<()> {
    let checkout = root.0.join("zmeld");
    fs::create_dir(&checkout)?;
    let mut files = Command::new("sh");
    files
        .current_dir(workspace::root())
        .env("to", &checkout)
        .args([
            "-c",
            "git ls-files -z | tar --null -T - -c | tar -x -C \"$to\"",
        ]);
    if !log.run(&mut files, COPY_LIMIT)?.succeeded() || !checkout.join("Cargo.toml").exists() {
        bail!("the checkout cannot be copied: is it a clone, and is git installed?");
    }
    Ok(())
}

/// Runs a command in the copy's checkout.
fn enter(log: &Log, root: &Path, words: &[&str]) -> Result<FinishedProgram> {
    if !log.run(&mut cargo(&["fetch"]), COPY_LIMIT)?.succeeded() {
        bail!("`cargo fetch` fails");
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["sh", "-c", ENTER, "sh"]).args(words);
    command.env("root", root);
    command.env("turn", TURN);
    command.env("toolchain", sysroot()?);
    command.env("cargo_home", cargo_home()?);
    log.run(&mut command, LIMIT)
}

fn sysroot() -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(workspace::root())
        .output()
        .context("cannot start rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Where cargo keeps what it fetched.
pub fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or(home)
        .context("neither CARGO_HOME nor HOME is set")
}

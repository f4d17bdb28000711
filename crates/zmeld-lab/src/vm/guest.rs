//! The guest's side: the first program of a machine that lives for one run.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use rustix::mount::{mount, mount_bind_recursive, MountFlags};
use rustix::system::{reboot, RebootCommand};

use super::request::{
    FilesHere, GuestAnswer, GuestRefusal, GuestRequest, BEGIN, END, FILES, FILE_MODULES, REQUEST,
};
use crate::error::Error;
use crate::experiment::result::{CaseFacts, Run};
use crate::experiment::{Lab, Settings};
use crate::measure::HostFacts;

/// File systems that programs expect.
const MOUNTS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Modules that nothing requests by name; variants load those of compressed devices.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk"];

/// Mount points of the host's files, and of changes to them.
const BELOW: &str = "/host/below";
const ABOVE: &str = "/host/above";

/// File systems of this machine's that stand in the place of the host's.
const OWN: &[&str] = &["/proc", "/sys", "/dev"];
/// Mount point of shared memory.
const SHARED: &str = "/dev/shm";

/// Makes a machine of what was booted, makes the run and answers.
///
/// # Errors
/// A failure before there is a way to answer, or with the answer; the host finds it on the console.
pub fn first_program(settings: impl FnOnce() -> Result<Settings, String>) -> Result<(), String> {
    let request = prepare()?;
    // Only now there is a `/proc`, by which a program finds itself.
    answer(&request, &settings()?)
}

/// Ends the machine; returns only if that fails.
pub fn end() -> std::io::Result<()> {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // QEMU ends where a guest starts anew, which every kernel can; user-mode Linux does start anew.
    let how = match processors.contains("User Mode Linux") {
        true => RebootCommand::PowerOff,
        false => RebootCommand::Restart,
    };
    Ok(reboot(how)?)
}

fn prepare() -> Result<GuestRequest, String> {
    if std::process::id() != 1 {
        return Err("this is for the first program of a virtual machine".to_owned());
    }
    for (kind, place) in MOUNTS {
        fs::create_dir_all(place)
            .and_then(|()| Ok(mount(*kind, *place, *kind, MountFlags::empty(), None)?))
            .map_err(|err| format!("cannot mount {place}: {err}"))?;
    }
    // A kernel that tracks the age of pages shows it there.
    let _ = mount(
        "debugfs",
        "/sys/kernel/debug",
        "debugfs",
        MountFlags::empty(),
        None,
    );
    // Without it groups do not count memory.
    let controllers = "/sys/fs/cgroup/cgroup.subtree_control";
    fs::write(controllers, "+memory")
        .map_err(|err| format!("no control group counts memory: {err}"))?;
    // Whoever asks for a slow disk hears it if this one is missing.
    let _ = fs::write(controllers, "+io");
    std::env::set_var("PATH", "/bin");
    for module in MODULES {
        // A built-in module cannot be loaded; a missing one shows when it is used.
        let _ = Command::new("modprobe").arg(module).output();
    }
    // It is what is unpacked last.
    let text = fs::read(REQUEST).map_err(|err| {
        format!("what it boots into does not fit into its RAM, give it more ({REQUEST}: {err})")
    })?;
    serde_json::from_slice(&text).map_err(|err| format!("{REQUEST}: {err}"))
}

fn answer(request: &GuestRequest, settings: &Settings) -> Result<(), String> {
    let run = run(request, settings).map_err(|err| GuestRefusal {
        missing: err.is_missing(),
        integrity: matches!(err, Error::Integrity(_)),
        what: err.to_string(),
    });
    let answer = GuestAnswer {
        machine: HostFacts::here(2),
        run,
    };
    let text = serde_json::to_string(&answer).map_err(|err| format!("no answer: {err}"))?;
    let place = &request.answer;
    File::options()
        .write(true)
        .open(place)
        .and_then(|mut line| {
            writeln!(line, "\n{BEGIN}{text}{END}")?;
            // All of it has left when this returns.
            Ok(rustix::termios::tcdrain(&line)?)
        })
        .map_err(|err| format!("cannot write to {place}: {err}"))
}

/// Mounts the host's files below [`FILES`], so that they are read from there and what is written stays here.
fn mount_files(files: &FilesHere) -> Result<(), String> {
    for module in FILE_MODULES {
        // As above.
        let _ = Command::new("modprobe").arg(module).output();
    }
    let at = |source: &str, place: &str, kind: &str, flags: MountFlags, options: &str| {
        let options = CString::new(options).map_err(|err| err.to_string())?;
        fs::create_dir_all(place)
            .and_then(|()| Ok(mount(source, place, kind, flags, options.as_c_str())?))
            .map_err(|err| {
                format!("the host's files cannot be had: no {kind} can be mounted here ({err}): another kernel, or files=copied")
            })
    };
    let [source, kind, options] = &files.mount;
    at(source, BELOW, kind, MountFlags::RDONLY, options)?;
    at("tmpfs", ABOVE, "tmpfs", MountFlags::empty(), "size=75%")?;
    for folder in ["data", "work"] {
        let folder = format!("{ABOVE}/{folder}");
        fs::create_dir_all(&folder).map_err(|err| format!("cannot make {folder}: {err}"))?;
    }
    let layers = format!("lowerdir={BELOW},upperdir={ABOVE}/data,workdir={ABOVE}/work");
    at("overlay", FILES, "overlay", MountFlags::empty(), &layers)?;
    at("tmpfs", SHARED, "tmpfs", MountFlags::empty(), "mode=1777")?;
    for place in OWN {
        let there = format!("{FILES}{place}");
        mount_bind_recursive(*place, there.as_str())
            .map_err(|err| format!("cannot mount {there}: {err}"))?;
    }
    Ok(())
}

fn run(request: &GuestRequest, settings: &Settings) -> Result<Run, Error> {
    let stop = AtomicBool::new(false);
    let mut listener = |_: crate::experiment::Event<'_>| {};
    let mut lab = Lab::open(settings, &stop, &mut listener)?;
    lab.disk = request.disk.clone();
    if let Some(files) = &request.files {
        mount_files(files).map_err(Error::Missing)?;
        lab.world = Some(files.world.clone());
    }
    let recipe = &request.recipe;
    let (Some(case), Some(variant)) = (recipe.cases.first(), recipe.variants.first()) else {
        return Err(Error::Result("a request without case or variant".into()));
    };
    let facts = CaseFacts::new(case, request.footprint_bytes);
    lab.run_once(recipe, case, variant, &facts, request.block)
}

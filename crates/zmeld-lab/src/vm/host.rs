//! The host's side: what a machine boots into, starting it, reading its answer.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use zmeld_linux::command::Invocation;
use zmeld_linux::Host;
use zmeld_swap::run_folder::FOLDER;
use zmeld_vm::{hardware_runs, on_path, Archive, Disk, Kernel, KernelKind, Lines, VirtualMachine};

use super::machine::{GuestClock, GuestFacts, GuestFiles, GuestSize};
use super::request::{FilesHere, GuestAnswer, GuestRequest, BEGIN, END, FILE_MODULES, REQUEST};
use crate::error::Error;
use crate::experiment::result::Outcome;
use crate::measure::supervise::Launch;
use crate::recipe::Case;
use crate::variant::slow_disk::{bytes_per_s, DiskFile};
use crate::variant::{self, SizeBases};
use crate::workload::Workload;

/// Modules that guests need. Codecs come when zram asks for them, by an alias.
const MODULES: &str = "\
    virtio_pci virtio_blk zram zmeld zsmalloc zbud z3fold lzo lzo-rle lz4 lz4hc \
    zstd deflate 842";

/// Programs that variants are set up with, and the package that has each.
const PROGRAMS: &[(&str, &str)] = &[
    ("kmod", "kmod"),
    ("mkswap", "util-linux"),
    ("swapoff", "util-linux (mount on Debian)"),
    ("swapon", "util-linux (mount on Debian)"),
    ("wipefs", "util-linux"),
];

/// So long a machine may take to boot and to set up a variant, besides its run.
const BOOT_MAX: Duration = Duration::from_secs(120);
/// The same where its processor is imitated.
const BOOT_EMULATED_MAX: Duration = Duration::from_secs(600);
/// RAM of QEMU itself, bytes.
const QEMU_BYTES: u64 = 192 << 20;
/// Bytes of the kernel's last messages in which a reason is looked for.
const TAIL_BYTES: usize = 4096;

/// Everything that the machines of a case boot from.
#[derive(Debug)]
pub(crate) struct BootImage {
    kernel: Kernel,
    hardware: bool,
    archive: PathBuf,
    programs_bytes: u64,
    size: GuestSize,
}

pub(crate) enum MachineEnd {
    Answer(Box<GuestAnswer>, GuestFacts),
    /// It was ended, or its kernel found nothing to kill any more.
    Ended(Outcome),
}

impl BootImage {
    /// Looks whether machines of this case can be had here, and packs what they boot into.
    pub(crate) fn new(
        case: &Case,
        size: &GuestSize,
        kernel: Option<&Path>,
        own: &Path,
        folder: &Path,
    ) -> Result<BootImage, Error> {
        let kernel = match kernel {
            Some(path) => Kernel::at(path),
            None => Kernel::installed(),
        }
        .map_err(|err| Error::Missing(format!("{err} (--kernel)")))?;
        if kernel.kind == KernelKind::UserMode && size.clock == GuestClock::Instructions {
            return Err(Error::Missing(
                "the instructions of user-mode Linux are not counted: name an image for QEMU (--kernel), or \
                 clock=real"
                    .to_owned(),
            ));
        }
        if kernel.kind == KernelKind::Image && on_path(zmeld_vm::PROGRAM).is_none() {
            return Err(Error::Missing(format!(
                "{} is not installed: install qemu-system-x86",
                zmeld_vm::PROGRAM
            )));
        }
        let path = folder.join("machine.cpio");
        let programs_bytes = pack(case, size.files, &kernel, own, folder, &path)
            .map_err(|err| Error::Missing(err.to_string()))?;
        Ok(BootImage {
            hardware: kernel.kind == KernelKind::Image
                && size.clock == GuestClock::Real
                && hardware_runs(&kernel.image, &Path::new(FOLDER).join("hardware")),
            kernel,
            archive: path,
            programs_bytes,
            size: size.clone(),
        })
    }

    /// RAM that the machine takes here, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.ram_mib() << 20) + QEMU_BYTES
    }

    fn ram_mib(&self) -> u64 {
        // Recipes were checked when they were read.
        let ram = self.size.ram_bytes().unwrap_or(0);
        (ram + self.programs_bytes).div_ceil(1 << 20)
    }

    /// Boots a machine, lets it make a run, reads its answer. `own`: this program, which becomes QEMU, so that it ends with us.
    pub(crate) fn run(
        &self,
        mut request: GuestRequest,
        own: &Path,
        folder: &Path,
        stopped: &dyn Fn() -> bool,
    ) -> Result<MachineEnd, Error> {
        let [archive, console, answer, complaints] =
            ["run.cpio", "console", "answer", "complaints"].map(|name| folder.join(name));
        let kind = self.kernel.kind;
        // The guest's disk is there as long as the guest.
        let disk = disk(&request, &self.size)?;
        let lines = Lines::ToFiles {
            messages: console.clone(),
            answer: answer.clone(),
        };
        request.answer = VirtualMachine::line_device(kind, &lines).to_owned();
        request.disk = disk.as_ref().map(|_| variant::GuestDisk {
            device: VirtualMachine::disk_device(kind).into(),
            // QEMU slows its disks down itself.
            is_fast: kind == KernelKind::UserMode,
        });
        if self.size.files == GuestFiles::Host {
            request.files = Some(FilesHere::new(kind)?);
        }
        self.add_request(&request, &archive)?;
        let machine = VirtualMachine {
            kernel: self.kernel.image.clone(),
            kind,
            archive,
            ram_mib: self.ram_mib(),
            processors: self.size.processors,
            disks: disk.iter().map(|(disk, _)| disk.clone()).collect(),
            // A root file system of the other kind holds half of the memory at most.
            lines,
            folder: folder.to_owned(),
            shows_files: request.files.is_some(),
            append: "quiet rootfstype=ramfs rdinit=/bin/zmeld -- bench guest".to_owned(),
            qemu: Vec::new(),
            hardware: self.hardware,
            counts_time: self.size.clock == GuestClock::Instructions,
        };
        for file in [&console, &answer] {
            // Of the run before.
            let _ = fs::remove_file(file);
        }
        let create = |path: &Path| File::create(path).map_err(|err| Error::io("create", path, err));
        let (said, complained): (Stdio, Stdio) = match kind {
            KernelKind::Image | KernelKind::Arm64Image => {
                (Stdio::null(), create(&complaints)?.into())
            }
            KernelKind::UserMode => (create(&answer)?.into(), create(&console)?.into()),
        };
        let launch = Launch {
            parent: std::process::id(),
            command: machine.command(),
            ..Launch::default()
        };
        let begin = |err| Error::io("start", own, err);
        let mut child = launch
            .program(own, "launch")
            .map_err(begin)?
            // Ctrl-C is for the experiment, which then ends the machine.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(complained)
            .spawn()
            .map_err(begin)?;
        let limit = Duration::from_secs_f64(request.recipe.run_max_s.min(1e9))
            + match self.hardware {
                true => BOOT_MAX,
                false => BOOT_EMULATED_MAX,
            };
        match wait(&mut child, limit, stopped)? {
            Some(outcome) => Ok(MachineEnd::Ended(outcome)),
            None => self.answered(&answer, &console, &complaints),
        }
    }

    /// The archive with the request behind it: the kernel unpacks one after the other.
    fn add_request(&self, request: &GuestRequest, to: &Path) -> Result<(), Error> {
        fs::copy(&self.archive, to).map_err(|err| Error::io("copy", &self.archive, err))?;
        let file = File::options()
            .append(true)
            .open(to)
            .map_err(|err| Error::io("open", to, err))?;
        let text = serde_json::to_vec(request).map_err(|err| Error::Result(err.to_string()))?;
        let mut archive = Archive::new(file, to);
        let packed = archive
            .file(REQUEST, &text, false)
            .and_then(|()| archive.finish());
        packed
            .map(|_| ())
            .map_err(|err| Error::Missing(err.to_string()))
    }

    fn answered(
        &self,
        answer: &Path,
        console: &Path,
        complaints: &Path,
    ) -> Result<MachineEnd, Error> {
        let text = |path: &Path| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (answer, console, complaints) = (text(answer), text(console), text(complaints));
        if let Some(answer) = between(&answer) {
            let answer: GuestAnswer = serde_json::from_str(answer)
                .map_err(|err| Error::Result(format!("the guest's answer: {err}")))?;
            let facts = GuestFacts {
                ram_bytes: self.size.ram_bytes().unwrap_or(0),
                programs_bytes: self.programs_bytes,
                visible_bytes: answer.machine.ram_bytes,
                processors: answer.machine.processors,
                kernel: answer.machine.kernel.clone(),
                user_mode: self.kernel.kind == KernelKind::UserMode,
                emulated: !self.hardware,
                clock: self.size.clock,
            };
            return Ok(MachineEnd::Answer(Box::new(answer), facts));
        }
        if console.contains("deadlocked on memory") {
            return Ok(MachineEnd::Ended(Outcome::OutOfMemory));
        }
        let why = reason(&console, &complaints);
        let (release, mib) = (&self.kernel.release, self.ram_mib());
        Err(Error::Workload(format!(
            "the virtual machine ended without an answer: {why} (kernel {release}, {mib} MiB)"
        )))
    }
}

/// Waits until QEMU ends by itself (`None`), or ends it.
fn wait(
    child: &mut Child,
    limit: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Outcome>, Error> {
    let begin = Instant::now();
    loop {
        let ended = child
            .try_wait()
            .map_err(|err| Error::io("wait for", zmeld_vm::PROGRAM, err))?;
        let why = match (ended, stopped()) {
            (Some(_), _) => return Ok(None),
            (None, true) => Outcome::Stopped,
            (None, false) if begin.elapsed() > limit => Outcome::TimedOut,
            (None, false) => {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
        };
        // It may have ended by itself meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return Ok(Some(why));
    }
}

/// The answer in what came over the serial line.
fn between(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(BEGIN)?;
    Some(rest.split_once(END)?.0)
}

/// Why a machine ended, as far as it or QEMU says so.
fn reason(console: &str, complaints: &str) -> String {
    let tail = console
        .char_indices()
        .rev()
        .nth(TAIL_BYTES)
        .map_or(console, |(at, _)| &console[at..]);
    let lines = || tail.lines().rev().map(str::trim);
    let of_interest = lines()
        .find(|line| line.starts_with("zmeld: "))
        .or_else(|| lines().find(|line| line.contains("Kernel panic")))
        .or_else(|| complaints.lines().map(str::trim).next_back())
        .or_else(|| lines().find(|line| !line.is_empty()));
    of_interest.unwrap_or("it said nothing").to_owned()
}

/// Packs zmeld, the programs of variant and workload, and modules. Returns what they take in memory.
fn pack(
    case: &Case,
    files: GuestFiles,
    kernel: &Kernel,
    own: &Path,
    folder: &Path,
    to: &Path,
) -> Result<u64, zmeld_vm::Error> {
    let missing = zmeld_vm::Error::Missing;
    let mut archive = Archive::compressed(to)?;
    let slim = folder.join("zmeld");
    archive.program(stripped(own, &slim), "bin/zmeld")?;
    for (program, package) in PROGRAMS {
        let path = on_path(program)
            .ok_or_else(|| missing(format!("{program} is not installed: install {package}")))?;
        archive.program(&path, &format!("bin/{program}"))?;
    }
    // Kmod is one program with many names; the kernel calls it by this one.
    archive.link("bin/modprobe", "kmod")?;
    archive.link("sbin", "bin")?;
    if let Workload::Command(command) = &case.workload {
        let name = command.command.first().map_or("", String::as_str);
        let path = on_path(name).ok_or_else(|| {
            let way_out = command.package.as_ref().map_or_else(
                || "give its path".to_owned(),
                |package| format!("install {package}"),
            );
            missing(format!("{name} is not on this machine: {way_out}"))
        })?;
        let at = match name.contains('/') {
            true => name.to_owned(),
            false => format!("bin/{name}"),
        };
        if files == GuestFiles::Copied {
            archive.program(&path, &at)?;
        }
    }
    let tree = folder.join("modules");
    let mut modules: Vec<&str> = MODULES.split(' ').collect();
    if files == GuestFiles::Host {
        modules.extend(FILE_MODULES);
    }
    kernel.copy_modules(&modules, &tree)?;
    if tree.exists() {
        archive.tree(&tree, "")?;
    }
    archive.close()
}

/// The program without what only a debugger reads, where that can be taken out: it lies in the guest's RAM.
fn stripped<'a>(program: &'a Path, to: &'a Path) -> &'a Path {
    let strip = Invocation::new("strip").arg("-o").args([to, program]);
    match Host::here().run(&strip) {
        Ok(_) => to,
        _ => program,
    }
}

/// The disk of the variant, if it has one.
fn disk(request: &GuestRequest, size: &GuestSize) -> Result<Option<(Disk, DiskFile)>, Error> {
    let Some(slow) = request
        .recipe
        .variants
        .first()
        .and_then(|variant| variant.slow_disk.as_ref())
    else {
        return Ok(None);
    };
    let bases = SizeBases {
        limit: size.ram_bytes().unwrap_or(0),
        footprint: request.footprint_bytes,
    };
    let file = slow.create(slow.bytes(&request.recipe.name, bases)?)?;
    let disk = Disk {
        file: file.path.clone(),
        read_bytes_per_s: bytes_per_s(slow.read_mb_per_s),
        write_bytes_per_s: bytes_per_s(slow.write_mb_per_s),
        reads_per_s: slow.reads_per_s,
        writes_per_s: slow.writes_per_s,
        ..Disk::default()
    };
    Ok(Some((disk, file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_or_none() {
        assert_eq!(
            between("boot\nzmeld answers: {} :zmeld has answered\n"),
            Some("{}")
        );
        assert_eq!(between("zmeld answers: {\"a\""), None);
    }

    #[test]
    fn a_machine_that_ends_is_asked_why() {
        let console = "Linux\nKernel panic - not syncing: x\nmore\n";
        assert_eq!(reason(console, ""), "Kernel panic - not syncing: x");
        assert_eq!(reason("", "qemu: no memory\n"), "qemu: no memory");
        assert_eq!(reason("", ""), "it said nothing");
        let console = format!("zmeld: cannot mount\n{}", "é".repeat(TAIL_BYTES));
        assert!(reason(&console, "").starts_with('é'));
    }
}

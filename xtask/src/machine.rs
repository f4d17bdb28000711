//! A guest from power-on to power-off: its output, its exit code, its kernel's
//! messages.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{bail, Context, Result};
use smart_default::SmartDefault;
use zmeld_vm::{Disk, DiskWrites, KernelKind, Lines, VirtualMachine};

use crate::debian;
use crate::guest::{self, Addition};
use crate::process::{output_of, tail, was_interrupted, Log};
use crate::recipes::{self, Arch, Kernel, Kind};
use crate::splats;
use crate::tools;
use crate::workspace;

/// Setup left to a guest of another processor; the packages are there, unpacked
/// in part.
const SECOND_STAGE: &str = include_str!("../guest/second-stage.sh");

const BOOTS_MAX: usize = 3;

const TAIL_LINES: usize = 40;

#[derive(SmartDefault)]
pub struct BootOptions {
    /// The script, or none for a shell in front of the user.
    pub script: Option<Addition>,
    pub arguments: Vec<String>,
    pub variables: Vec<(&'static str, String)>,
    /// Our module, where there is one to load, under its file's name.
    pub module: Option<Addition>,
    #[default = true]
    pub load: bool,
    pub files: Vec<Addition>,
    pub programs: Vec<String>,
    #[default = 512]
    pub memory: u64,
    #[default = 2]
    pub processors: u32,
    /// Files that are disks, in front of the empty ones; the script only reads them.
    pub contents: Vec<PathBuf>,
    /// MiB of each empty disk; in QEMU with the serial number `diskN`, from 0.
    pub disks: Vec<u64>,
    /// A file system with an init of its own, which the script prepares and then
    /// runs in; what is written to it is forgotten.
    pub root: Option<PathBuf>,
    /// A file that is a disk, and keeps what is written.
    pub kept: Option<PathBuf>,
    pub append: String,
    /// Before all other programs of this machine, for what is timed.
    pub urgent: bool,
    pub counts_time: bool,
    /// Whether QEMU begins anew where its guest does.
    pub reboots: bool,
    #[default(Duration::from_secs(900))]
    pub limit: Duration,
}

pub struct GuestOutcome {
    begun: bool,
    /// The script's exit code; none where the guest died before.
    pub code: Option<i32>,
    /// The kernel's complaints that a boot alone does not show.
    pub complaints: Vec<String>,
    pub messages: String,
}

impl GuestOutcome {
    pub fn tail(&self) -> String {
        tail(&self.messages, TAIL_LINES)
    }
}

pub fn need(kernel: &Kernel) -> Result<()> {
    tools::need(match (kernel.recipe.kind, kernel.recipe.arch()) {
        (Kind::UserMode, _) => &["busybox"],
        (_, Arch::Amd64) => &["busybox", zmeld_vm::PROGRAM],
        (_, Arch::Arm64) => &["aarch64-linux-gnu-gcc", zmeld_vm::ARM64_PROGRAM],
    })
}

/// Boots, runs the script to its end with its output into `sink`, and reads what
/// the kernel had to say.
pub fn run(kernel: &Kernel, boot: &BootOptions, sink: &mut dyn Write) -> Result<GuestOutcome> {
    let mut outcome = run_once(kernel, boot, sink)?;
    for _ in 1..BOOTS_MAX {
        // Emulated machines now and then die while they boot, before anything of
        // ours is in them. A guest that got as far as our script is not retried.
        if outcome.begun || boot.script.is_none() {
            break;
        }
        let name = kernel.recipe.name;
        eprintln!("{name} died before its script began: once more");
        outcome = run_once(kernel, boot, sink)?;
    }
    if !outcome.complaints.is_empty() {
        let alone = messages_of_boot_alone(kernel)?;
        outcome.complaints = splats::new_ones(outcome.complaints, &alone);
    }
    Ok(outcome)
}

/// The same with all that it says in the log; what the script said.
pub fn logged(log: &Log, kernel: &Kernel, boot: &BootOptions) -> Result<(String, GuestOutcome)> {
    let mut output = Vec::new();
    let ended = run(kernel, boot, &mut output);
    let output = String::from_utf8_lossy(&output).into_owned();
    log.note(&output)?;
    let outcome = ended?;
    let messages = &outcome.messages;
    log.note(&format!("---- the kernel's messages ----\n{messages}"))?;
    Ok((output, outcome))
}

/// An image of a Debian for the processor of that kernel, in which it is set up.
pub fn foreign_image(log: &Log, kernel: &Kernel) -> Result<PathBuf> {
    let arch = kernel.recipe.arch();
    let place = recipes::folder("debian")?;
    let _held = recipes::lock(&place)?;
    let image = place.join(format!("root-{}.ext4", arch.debian()));
    workspace::kept(image, |unfinished| {
        let root = place.join(format!("root-{}", arch.debian()));
        debian::fetch(log, &root, arch, debian::PACKAGES)?;
        debian::make_file_system(log, &root, unfinished, debian::IMAGE_MIB)?;
        workspace::remove(&root)?;
        let boot = BootOptions {
            script: Some(Addition::text("/guest/script", SECOND_STAGE, true)),
            kept: Some(unfinished.to_owned()),
            memory: 1024,
            limit: Duration::from_secs(1800),
            ..BootOptions::default()
        };
        let (_, outcome) = logged(log, kernel, &boot)?;
        if outcome.code != Some(0) {
            bail!("a Debian for {} cannot be set up", arch.debian());
        }
        Ok(())
    })
}

/// This kernel's messages of a boot with nothing of ours in it.
fn messages_of_boot_alone(kernel: &Kernel) -> Result<String> {
    let kept = kernel.folder()?.join(recipes::BOOT_ALONE);
    if let Ok(text) = fs::read_to_string(&kept) {
        return Ok(text);
    }
    let script = Addition::text("/guest/script", "#!/bin/sh\nexit 0\n", true);
    let boot = BootOptions {
        script: Some(script),
        ..BootOptions::default()
    };
    let outcome = run_once(kernel, &boot, &mut std::io::sink())?;
    if outcome.code != Some(0) {
        bail!(
            "{} does not boot even alone:\n{}",
            kernel.recipe.name,
            outcome.tail()
        );
    }
    // Another guest of this kernel may read it meanwhile.
    zmeld_linux::file::replace(&kept, outcome.messages.as_bytes(), None)?;
    Ok(outcome.messages)
}

fn run_once(kernel: &Kernel, boot: &BootOptions, sink: &mut dyn Write) -> Result<GuestOutcome> {
    let folder = tempfile::TempDir::with_prefix_in("run-", recipes::folder("")?)?;
    let folder = folder.path();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let token = format!("zmeld-guest-{}", now.as_nanos());
    let archive = folder.join("guest.cpio");
    let additions = additions(kernel, boot, &token)?;
    guest::write_archive(kernel, &boot.programs, &additions, &archive)?;
    let mut disks: Vec<Disk> = boot.contents.iter().map(|file| forgetful(file)).collect();
    for (index, mib) in boot.disks.iter().enumerate() {
        let name = format!("disk{index}");
        let file = folder.join(&name);
        fs::File::create(&file)?.set_len(mib << 20)?;
        disks.push(Disk {
            file,
            serial: Some(name),
            writes: DiskWrites::Cached,
            ..Disk::default()
        });
    }
    disks.extend(boot.root.as_deref().map(forgetful));
    disks.extend(boot.kept.iter().map(|file| Disk {
        file: file.clone(),
        writes: DiskWrites::Cached,
        ..Disk::default()
    }));
    let mut command = command(kernel, boot, folder, &archive, disks)?;
    if boot.urgent && can_be_urgent(kernel) {
        command = urgent(&command);
    }
    let messages = folder.join("messages");
    let mut log = Log::create(&folder.join("output"))?;
    if kernel.recipe.kind == Kind::UserMode {
        log.errors = Some(messages.clone());
    }
    let ended = match boot.script {
        None => in_front(&mut command, log.errors.as_deref()).map(|()| (true, Some(0))),
        Some(_) => {
            let mut cut = ScriptOutput::new(&token, sink);
            let ended = log.watched(&mut command, boot.limit, &mut |bytes| cut.take(bytes));
            ended.and_then(|_| cut.end())
        }
    };
    let bytes = fs::read(&messages).unwrap_or_default();
    let messages = String::from_utf8_lossy(&bytes).replace('\r', "");
    let (begun, code) = match ended {
        Err(error) if !was_interrupted() => {
            let tail = tail(&messages, TAIL_LINES);
            return Err(error.context(format!("{tail}\nthe guest's kernel said the above last")));
        }
        ended => ended?,
    };
    Ok(GuestOutcome {
        begun,
        code,
        complaints: splats::found(&messages),
        messages,
    })
}

/// A disk that is this file, which stays as it is: in QEMU, whatever is written.
fn forgetful(file: &Path) -> Disk {
    Disk {
        file: file.to_owned(),
        writes: DiskWrites::Forgotten,
        ..Disk::default()
    }
}

fn additions(kernel: &Kernel, boot: &BootOptions, token: &str) -> Result<Vec<Addition>> {
    // Line of the scripts: not that of the kernel.
    let kind = kernel_kind(kernel);
    let terminal = VirtualMachine::line_device(kind, &lines(Path::new("")));
    let mut environment = format!("token={token}\nterminal={terminal}\n");
    let mut set = |name: &str, value: &str| {
        environment += &format!("{name}='{}'\n", value.replace('\'', r"'\''"));
    };
    set("arguments", &boot.arguments.join(" "));
    set("interactive", if boot.script.is_none() { "1" } else { "" });
    set("leaks", if boot.module.is_some() { "1" } else { "" });
    set("root", boot.root.as_ref().map_or("", |_| debian::LABEL));
    let mut all = Vec::new();
    if let Some(module) = &boot.module {
        if boot.load {
            set("load", module.name.trim_end_matches(".ko"));
        }
        let updates = format!("/usr/lib/modules/{}/updates", kernel.release);
        all.push(Addition {
            name: format!("{updates}/{}", module.name),
            ..module.clone()
        });
    }
    for (name, value) in &boot.variables {
        environment += &format!("export {name}='{}'\n", value.replace('\'', r"'\''"));
    }
    all.push(Addition::text("/guest/run.env", environment, false));
    let own = recipes::guest_folder();
    all.push(Addition::file("/init", &own.join("init"))?);
    if boot.root.is_some() {
        for name in ["service", "guest.service"] {
            all.push(Addition::file(&format!("/guest/{name}"), &own.join(name))?);
        }
    }
    for addition in boot.script.iter().chain(&boot.files) {
        all.push(addition.clone());
    }
    Ok(all)
}

/// One that is emulated would leave nothing to others, and its times say nothing.
pub fn can_be_urgent(kernel: &Kernel) -> bool {
    let is_native = kernel.recipe.kind == Kind::UserMode;
    is_native && output_of(Command::new("chrt").args(["--fifo", "1", "true"])).is_ok()
}

/// The same at a real-time priority: others wait, but for the twentieth of the
/// time that the kernel keeps for them.
fn urgent(command: &Command) -> Command {
    let mut urgent = Command::new("chrt");
    urgent.args(["--fifo", "1"]).arg(command.get_program());
    urgent.args(command.get_args());
    urgent
}

/// The guest's lines; its messages go to that file.
fn lines(messages: &Path) -> Lines {
    Lines::OfScript {
        messages: messages.to_owned(),
    }
}

fn command(
    kernel: &Kernel,
    boot: &BootOptions,
    folder: &Path,
    archive: &Path,
    disks: Vec<Disk>,
) -> Result<Command> {
    let kind = kernel_kind(kernel);
    let kept = kernel.folder()?.join("kvm");
    let machine = VirtualMachine {
        shows_files: false,
        kernel: kernel.image.clone(),
        kind,
        archive: archive.to_owned(),
        ram_mib: boot.memory,
        processors: boot.processors,
        disks,
        lines: lines(&folder.join("messages")),
        folder: folder.to_owned(),
        // A busy machine may keep a processor of the guest's waiting for longer than the 20 s
        // that its watchdog gives it by default.
        append: format!(
            "rdinit=/init ignore_loglevel watchdog_thresh=60 {}",
            boot.append
        ),
        qemu: match boot.reboots {
            true => vec!["-action".to_owned(), "reboot=reset".to_owned()],
            false => Vec::new(),
        },
        hardware: kind == KernelKind::Image && zmeld_vm::hardware_runs(&kernel.image, &kept),
        counts_time: boot.counts_time,
    };
    let mut words = machine.command().into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    Ok(command)
}

fn kernel_kind(kernel: &Kernel) -> KernelKind {
    match (kernel.recipe.kind, kernel.recipe.arch()) {
        (Kind::UserMode, _) => KernelKind::UserMode,
        (_, Arch::Amd64) => KernelKind::Image,
        (_, Arch::Arm64) => KernelKind::Arm64Image,
    }
}

/// A shell: the guest has the user's terminal until it ends.
fn in_front(command: &mut Command, errors: Option<&Path>) -> Result<()> {
    // It looks at the user's terminal.
    let stty = |word: &str| -> Option<String> {
        let mut stty = Command::new("stty");
        let output = stty.arg(word).stdin(Stdio::inherit()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let before = stty("-g").unwrap_or_default();
    eprintln!("a shell in the guest; `exit` ends it");
    if let Some(errors) = errors {
        command.stderr(fs::File::create(errors)?);
    }
    let status = command.status().context("cannot start the guest")?;
    if !before.is_empty() {
        stty(&before);
    }
    if !status.success() {
        bail!("the guest ended with {status}");
    }
    Ok(())
}

/// Cuts the script's output out of all that comes from the guest.
struct ScriptOutput<'a> {
    token: &'a str,
    sink: &'a mut dyn Write,
    line: Vec<u8>,
    begun: bool,
    code: Option<i32>,
    /// An end of line that is held back: the last one is ours.
    held: bool,
    failed: std::io::Result<()>,
}

impl<'a> ScriptOutput<'a> {
    fn new(token: &'a str, sink: &'a mut dyn Write) -> ScriptOutput<'a> {
        ScriptOutput {
            token,
            sink,
            line: Vec::new(),
            begun: false,
            code: None,
            held: false,
            failed: Ok(()),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                _ => self.line.push(byte),
            }
        }
        let flushed = self.sink.flush();
        self.keep(flushed);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        match text.trim_end().strip_prefix(self.token) {
            Some(" begin") => self.begun = true,
            Some(rest) => self.code = rest.strip_prefix(" exit ").and_then(|n| n.parse().ok()),
            None if self.begun && self.code.is_none() => {
                let end: &[u8] = if std::mem::replace(&mut self.held, true) {
                    b"\n"
                } else {
                    b""
                };
                let written = self.sink.write_all(&[end, &line].concat());
                self.keep(written);
            }
            None => {}
        }
    }

    fn keep(&mut self, written: std::io::Result<()>) {
        if self.failed.is_ok() {
            self.failed = written;
        }
    }

    /// Whether the script began, and its exit code where it came to its end.
    fn end(mut self) -> Result<(bool, Option<i32>)> {
        // The last words of a guest that died.
        if self.begun && self.code.is_none() && !self.line.is_empty() {
            self.take(b"\n\n");
        }
        self.failed?;
        Ok((self.begun, self.code))
    }
}

//! A guest from power-on to power-off: its output, its exit code, its kernel's
//! messages.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{bail, Context, Result};
use zmeld_vm::{Disk, DiskWrites, KernelKind, Lines, VirtualMachine};

use crate::apt::Reason;
use crate::debian;
use crate::guest::{self, Addition};
use crate::kernels::{self, Arch, Kernel, Kind};
use crate::process::{end_group, was_interrupted};
use crate::splats;
use crate::tools;

/// How often a guest may die while it boots.
const BOOTS_MAX: usize = 3;

/// The lines of the kernel's messages that are shown when a guest dies.
const TAIL_LINES: usize = 40;

/// What to boot, and with what.
pub struct BootOptions {
    /// The script, or none for a shell in front of the user.
    pub script: Option<Addition>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it sees.
    pub variables: Vec<(String, String)>,
    /// Our module, where there is one to load, under its file's name.
    pub module: Option<Addition>,
    /// Whether the guest's first program loads it.
    pub load: bool,
    /// Further files.
    pub files: Vec<Addition>,
    /// Programs of this machine besides the usual ones.
    pub programs: Vec<String>,
    /// MiB of memory.
    pub memory: u64,
    /// Processors.
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
    /// More for the kernel's command line.
    pub append: String,
    /// More for QEMU's command line.
    pub qemu: Vec<String>,
    /// Before all other programs of this machine, for what is timed.
    pub urgent: bool,
    /// The longest that it may take.
    pub limit: Duration,
}

impl Default for BootOptions {
    fn default() -> BootOptions {
        BootOptions {
            script: None,
            arguments: Vec::new(),
            variables: Vec::new(),
            module: None,
            load: true,
            files: Vec::new(),
            programs: Vec::new(),
            memory: 512,
            processors: 2,
            contents: Vec::new(),
            disks: Vec::new(),
            root: None,
            kept: None,
            append: String::new(),
            qemu: Vec::new(),
            urgent: false,
            limit: Duration::from_secs(900),
        }
    }
}

/// How a guest ended.
pub struct GuestOutcome {
    /// The script's exit code; none where the guest died before.
    pub code: Option<i32>,
    /// The kernel's complaints that a boot alone does not show.
    pub complaints: Vec<String>,
    /// All that the kernel said.
    pub messages: String,
}

impl GuestOutcome {
    /// The last of what the kernel said.
    pub fn tail(&self) -> String {
        let lines: Vec<&str> = self.messages.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

/// A folder of one run, gone with it.
struct RunFolder(PathBuf);

impl RunFolder {
    fn new() -> Result<RunFolder> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let name = format!("run-{}-{}", std::process::id(), now.as_nanos());
        Ok(RunFolder(kernels::folder(&name)?))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Why guests of this kernel cannot run here.
pub fn cannot_run(kernel: &Kernel) -> Option<Reason> {
    let needed: &[&str] = match (kernel.recipe.kind, kernel.recipe.arch) {
        (Kind::UserMode, _) => &["busybox"],
        (_, Arch::Amd64) => &["busybox", zmeld_vm::PROGRAM],
        (_, Arch::Arm64) => &["aarch64-linux-gnu-gcc", zmeld_vm::ARM64_PROGRAM],
    };
    let missing: Vec<&str> = needed
        .iter()
        .copied()
        .filter(|program| !tools::is_on_path(program))
        .collect();
    (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")))
}

/// Boots, runs the script to its end with its output into `sink`, and reads what
/// the kernel had to say.
pub fn run(kernel: &Kernel, boot: &BootOptions, sink: &mut dyn Write) -> Result<GuestOutcome> {
    let mut counted = ActivityWriter { sink, bytes: 0 };
    let mut outcome = run_once(kernel, boot, &mut counted)?;
    for _ in 1..BOOTS_MAX {
        // Emulated machines now and then die while they boot, before anything of
        // ours is in them. A guest that got as far as our script is not retried.
        if outcome.code.is_some() || counted.bytes > 0 || boot.script.is_none() {
            break;
        }
        eprintln!(
            "{} died before its script began: once more",
            kernel.recipe.name
        );
        outcome = run_once(kernel, boot, &mut counted)?;
    }
    if !outcome.complaints.is_empty() {
        let alone = messages_of_boot_alone(kernel)?;
        outcome.complaints = splats::new_ones(outcome.complaints, &alone);
    }
    Ok(outcome)
}

/// Knows whether anything was written.
struct ActivityWriter<'a> {
    sink: &'a mut dyn Write,
    bytes: usize,
}

impl Write for ActivityWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len();
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

/// What this kernel says when it boots and nothing of ours is in it.
fn messages_of_boot_alone(kernel: &Kernel) -> Result<String> {
    let kept = kernel.folder()?.join("boot-alone.log");
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
    zmeld_linux::file::replace(&kept, outcome.messages.as_bytes())?;
    Ok(outcome.messages)
}

fn run_once(kernel: &Kernel, boot: &BootOptions, sink: &mut dyn Write) -> Result<GuestOutcome> {
    let folder = RunFolder::new()?;
    let token = format!(
        "zmeld-guest-{}",
        folder.0.display().to_string().len() as u64 ^ seed()
    );
    let archive = folder.0.join("guest.cpio");
    let additions = additions(kernel, boot, &token)?;
    guest::write_archive(kernel, &boot.programs, &additions, &archive)?;
    let messages = folder.0.join("messages");
    let mut disks: Vec<Disk> = boot.contents.iter().map(|file| forgetful(file)).collect();
    for (index, mib) in boot.disks.iter().enumerate() {
        let name = format!("disk{index}");
        let file = folder.0.join(&name);
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
    let mut command = command(kernel, boot, &folder.0, &archive, disks)?;
    if boot.urgent && can_be_urgent() {
        command = urgent(&command);
    }
    let code = match boot.script {
        None => {
            in_front(&mut command, &messages, kernel.recipe.kind)?;
            Some(0)
        }
        Some(_) => with_script(&mut command, kernel, boot, &token, &messages, sink)?,
    };
    let bytes = fs::read(&messages).unwrap_or_default();
    let messages = String::from_utf8_lossy(&bytes).replace('\r', "");
    Ok(GuestOutcome {
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

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64)
}

fn additions(kernel: &Kernel, boot: &BootOptions, token: &str) -> Result<Vec<Addition>> {
    // Where scripts write: not where the kernel does.
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
    let own = kernels::guest_folder();
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

/// Whether this user may put a program before all others.
pub fn can_be_urgent() -> bool {
    tools::is_on_path("chrt")
        && Command::new("chrt")
            .args(["--fifo", "1", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

/// The same at a real-time priority: others wait, but for the twentieth of the
/// time that the kernel keeps for them.
fn urgent(command: &Command) -> Command {
    let mut urgent = Command::new("chrt");
    urgent.args(["--fifo", "1"]).arg(command.get_program());
    urgent.args(command.get_args());
    urgent
}

/// What the guest's lines are; its messages go to that file.
fn lines(messages: &Path) -> Lines {
    Lines::OfScript {
        messages: messages.to_owned(),
    }
}

/// The command that runs the guest.
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
        append: format!("rdinit=/init ignore_loglevel {}", boot.append),
        qemu: boot.qemu.clone(),
        hardware: kind == KernelKind::Image && zmeld_vm::hardware_runs(&kernel.image, &kept),
        counts_time: false,
    };
    let mut words = machine.command().into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    Ok(command)
}

fn kernel_kind(kernel: &Kernel) -> KernelKind {
    match (kernel.recipe.kind, kernel.recipe.arch) {
        (Kind::UserMode, _) => KernelKind::UserMode,
        (_, Arch::Amd64) => KernelKind::Image,
        (_, Arch::Arm64) => KernelKind::Arm64Image,
    }
}

/// A shell: the guest has the user's terminal until it ends.
fn in_front(command: &mut Command, messages: &Path, kind: Kind) -> Result<()> {
    let stty = |word: &str| {
        Command::new("stty")
            .arg(word)
            .stdin(Stdio::inherit())
            .output()
    };
    let before = stty("-g")
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    eprintln!("a shell in the guest; `exit` ends it");
    if kind == Kind::UserMode {
        command.stderr(fs::File::create(messages)?);
    }
    let status = command.status().context("cannot start the guest")?;
    if !before.is_empty() {
        let _ = stty(&before);
    }
    if !status.success() {
        bail!("the guest ended with {status}");
    }
    Ok(())
}

/// Cuts the script's output out of all that comes from the guest.
struct ScriptOutput<'a> {
    token: &'a str,
    line: Vec<u8>,
    begun: bool,
    code: Option<i32>,
    /// An end of line that is held back: the last one is ours.
    held: bool,
}

impl ScriptOutput<'_> {
    fn take(&mut self, bytes: &[u8], sink: &mut dyn Write) -> Result<()> {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, sink)?;
        }
        sink.flush()?;
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], sink: &mut dyn Write) -> Result<()> {
        let text = String::from_utf8_lossy(line);
        match text.trim_end().strip_prefix(self.token) {
            Some(" begin") => self.begun = true,
            Some(rest) => self.code = rest.strip_prefix(" exit ").and_then(|n| n.parse().ok()),
            None if self.begun && self.code.is_none() => {
                if std::mem::take(&mut self.held) {
                    sink.write_all(b"\n")?;
                }
                sink.write_all(line)?;
                self.held = true;
            }
            None => {}
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn Write) -> Result<()> {
        // What a guest that died was about to say.
        if self.begun && self.code.is_none() && !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, sink)?;
            sink.write_all(b"\n")?;
        }
        sink.flush()?;
        Ok(())
    }
}

fn with_script(
    command: &mut Command,
    kernel: &Kernel,
    boot: &BootOptions,
    token: &str,
    messages: &Path,
    sink: &mut dyn Write,
) -> Result<Option<i32>> {
    let mut cut = ScriptOutput {
        token,
        line: Vec::new(),
        begun: false,
        code: None,
        held: false,
    };
    if kernel.recipe.kind == Kind::UserMode {
        command.stderr(fs::File::create(messages)?);
    }
    let ended = run_and_forward(command, boot.limit, &mut |bytes| cut.take(bytes, sink));
    cut.end(sink)?;
    if let Err(error) = ended {
        if was_interrupted() {
            return Err(error);
        }
        let text = fs::read(messages).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        return Err(error.context(format!("{tail}\nthe guest's kernel said the above last")));
    }
    Ok(cut.code)
}

/// Runs a program and hands on what it writes, until it ends.
fn run_and_forward(
    command: &mut Command,
    limit: Duration,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<ExitStatus> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    let pieces = pieces_of(&mut child)?;
    let started = Instant::now();
    loop {
        match pieces.recv_timeout(Duration::from_millis(100)) {
            Ok(bytes) => take(&bytes)?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if was_interrupted() {
            end_group(&mut child)?;
            bail!("interrupted");
        }
        if started.elapsed() > limit {
            end_group(&mut child)?;
            bail!(
                "the guest took longer than {} s and was ended",
                limit.as_secs()
            );
        }
    }
    // Its output has ended, so it will, too; what it started ends with it.
    crate::process::wait_watching(&mut child, Duration::from_secs(20), &mut || {})
}

fn pieces_of(child: &mut Child) -> Result<Receiver<Vec<u8>>> {
    let mut output = child.stdout.take().context("the guest has no output")?;
    let (sender, pieces) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0u8; 8192];
        while let Ok(count) = output.read(&mut buffer) {
            if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> (String, Option<i32>) {
        let mut sink = Vec::new();
        let mut cut = ScriptOutput {
            token: "T",
            line: Vec::new(),
            begun: false,
            code: None,
            held: false,
        };
        // In pieces, as they come.
        for piece in text.as_bytes().chunks(3) {
            cut.take(piece, &mut sink).unwrap();
        }
        cut.end(&mut sink).unwrap();
        (String::from_utf8(sink).unwrap(), cut.code)
    }

    #[test]
    fn the_scripts_output_is_cut_out() {
        let (text, code) = cut("firmware\nT begin\none\ntwo\n\nT exit 3\nmore\n");
        assert_eq!((text.as_str(), code), ("one\ntwo\n", Some(3)));
        let (text, code) = cut("T begin\nno end of line\nT exit 0\n");
        assert_eq!((text.as_str(), code), ("no end of line", Some(0)));
        let (text, code) = cut("T begin\none\ndied he");
        assert_eq!((text.as_str(), code), ("one\ndied he\n", None));
    }
}

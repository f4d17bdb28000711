//! A machine of so much memory, so many processors, such disks: QEMU's, or a
//! program that is a kernel.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use zmeld_linux::file;

use crate::KernelKind;

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// Starting a kernel in hardware takes no longer where it works at all.
const PROBE_MAX: Duration = Duration::from_secs(20);

/// A disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// The file that it is.
    pub file: PathBuf,
    /// Bytes per second that are read at most; none: as fast as it can.
    pub read_bytes_per_s: Option<u64>,
    /// The same for writes.
    pub write_bytes_per_s: Option<u64>,
    /// Reads a second at most.
    pub reads_per_s: Option<u64>,
    /// Writes a second at most.
    pub writes_per_s: Option<u64>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualMachine {
    /// The kernel's image, or user-mode Linux.
    pub kernel: PathBuf,
    /// Which of the two.
    pub kind: KernelKind,
    /// The archive that it boots into.
    pub archive: PathBuf,
    /// RAM, MiB.
    pub ram_mib: u64,
    /// Processors.
    pub processors: u32,
    /// Its disks, the first of them [`VirtualMachine::disk_device`]. In user-mode Linux their rates are the caller's to limit.
    pub disks: Vec<Disk>,
    /// More for the kernel's command line; what stands behind `--` is for its first program.
    pub append: String,
    /// Whether the processor runs it ([`hardware_runs`]), and not a program that imitates one.
    pub hardware: bool,
}

impl VirtualMachine {
    /// Where the guest writes what standard output, or QEMU's file, takes up.
    pub fn answer_device(kind: KernelKind) -> &'static str {
        match kind {
            KernelKind::Image => "/dev/ttyS1",
            KernelKind::UserMode => "/dev/tty1",
        }
    }

    /// What the guest calls its first disk.
    pub fn disk_device(kind: KernelKind) -> &'static str {
        match kind {
            KernelKind::Image => "/dev/vda",
            KernelKind::UserMode => "/dev/ubda",
        }
    }

    /// The command that runs it. The kernel's messages, and what the guest writes to [`VirtualMachine::answer_device`], go to
    /// these files; from user-mode Linux they come on standard error and standard output, and the caller has them
    /// written there. It ends when the guest ends or starts anew, and when its kernel panics.
    pub fn command(&self, messages: &Path, answer: &Path) -> Vec<String> {
        match self.kind {
            KernelKind::Image => self.qemu(messages, answer),
            KernelKind::UserMode => self.user_mode(),
        }
    }

    fn user_mode(&self) -> Vec<String> {
        let mut words = vec![
            self.kernel.display().to_string(),
            format!("mem={}M", self.ram_mib),
            format!("initrd={}", self.archive.display()),
            format!("ncpus={}", self.processors),
        ];
        for (index, disk) in self.disks.iter().enumerate() {
            words.push(format!("ubd{index}={}", disk.file.display()));
        }
        let more = ["seccomp=on", "con=null", "con0=null,fd:2", "con1=null,fd:1"];
        words.extend(more.map(str::to_owned));
        // Where the last two are not named they are added behind everything, to what the first program is given.
        let more = ["panic=-1", "root=none", "console=tty0"];
        words.extend(more.map(str::to_owned));
        words.extend(self.append.split_whitespace().map(str::to_owned));
        words
    }

    fn qemu(&self, messages: &Path, answer: &Path) -> Vec<String> {
        let mut words: Vec<String> = vec![PROGRAM.into()];
        let mut say = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
        say(accelerator(self.hardware));
        say(&["-nodefaults", "-no-reboot", "-display", "none"]);
        say(&["-m", &format!("{}M", self.ram_mib)]);
        say(&["-smp", &self.processors.to_string()]);
        say(&["-kernel", &self.kernel.display().to_string()]);
        say(&["-initrd", &self.archive.display().to_string()]);
        for file in [messages, answer] {
            say(&["-serial", &format!("file:{}", file.display())]);
        }
        for (index, disk) in self.disks.iter().enumerate() {
            // A comma would begin the next option.
            let file = disk.file.display().to_string().replace(',', ",,");
            let mut drive = format!("file={file},format=raw,if=none,cache=none,id=disk{index}");
            for (name, rate) in [
                ("bps-read", disk.read_bytes_per_s),
                ("bps-write", disk.write_bytes_per_s),
                ("iops-read", disk.reads_per_s),
                ("iops-write", disk.writes_per_s),
            ] {
                if let Some(rate) = rate {
                    drive += &format!(",throttling.{name}={rate}");
                }
            }
            say(&["-drive", &drive]);
            say(&["-device", &format!("virtio-blk-pci,drive=disk{index}")]);
        }
        say(&[
            "-append",
            &format!("console=ttyS0,115200 panic=-1 {}", self.append),
        ]);
        words
    }
}

/// The options for a machine that hardware runs, or one that is imitated.
pub fn accelerator(hardware: bool) -> &'static [&'static str] {
    if hardware {
        &["-accel", "kvm", "-cpu", "host"]
    } else {
        &["-accel", "tcg,thread=multi", "-cpu", "max"]
    }
}

/// Whether hardware virtualisation runs this kernel here: tried out, since `/dev/kvm` alone does not say so. The
/// answer is `kept` in a file and good for this boot of the machine, and for this image. Takes 20 s at most, and no
/// time where there is no such device.
pub fn hardware_runs(kernel: &Path, kept: &Path) -> bool {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let image = std::fs::metadata(kernel).and_then(|image| image.modified());
    let changed = image.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let changed_ms = changed.map_or(0, |since| since.as_millis());
    let question = format!("{} {} {changed_ms}", boot.trim(), kernel.display());
    let known = std::fs::read_to_string(kept).unwrap_or_default();
    match known.trim_end().rsplit_once(": ") {
        Some((asked, answer)) if asked == question => answer == "yes",
        _ => {
            let runs = hardware_starts(kernel);
            let answer = if runs { "yes" } else { "no" };
            // Where it cannot be kept it is asked again.
            let _ = file::replace(kept, format!("{question}: {answer}\n").as_bytes());
            runs
        }
    }
}

/// Whether the kernel starts and gets as far as it can.
fn hardware_starts(kernel: &Path) -> bool {
    let usable = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    if usable.is_err() {
        return false;
    }
    let mut command = Command::new(PROGRAM);
    command.args(accelerator(true));
    command.args(["-nodefaults", "-no-reboot", "-display", "none"]);
    command.args(["-m", "256M", "-serial", "stdio"]);
    command.arg("-kernel").arg(kernel);
    // Without a root file system it gets to a panic, and so to a reboot.
    command.args(["-append", "console=ttyS0 panic=-1"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read has not been said.
        let _ = output.map(|mut output| output.read_to_end(&mut bytes));
        bytes
    });
    let begin = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begin.elapsed() > PROBE_MAX {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = reader.join().unwrap_or_default();
    String::from_utf8_lossy(&said).contains("Kernel panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_what_was_asked_for() {
        let mut machine = VirtualMachine {
            kernel: "k".into(),
            kind: KernelKind::Image,
            archive: "a".into(),
            ram_mib: 214,
            processors: 1,
            disks: vec![Disk {
                file: "x,y".into(),
                read_bytes_per_s: Some(6_870_000),
                write_bytes_per_s: None,
                reads_per_s: None,
                writes_per_s: Some(9),
            }],
            append: "rdinit=/bin/run -- one two".into(),
            hardware: false,
        };
        let words = machine.command(Path::new("m"), Path::new("r")).join(" ");
        for part in [
            "-accel tcg,thread=multi",
            "-m 214M -smp 1 -kernel k -initrd a",
            "-serial file:m -serial file:r",
            "file=x,,y,format=raw",
            "throttling.bps-read=6870000,throttling.iops-write=9 -device",
            "panic=-1 rdinit=/bin/run -- one two",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        machine.kind = KernelKind::UserMode;
        let words = machine.command(Path::new("m"), Path::new("r")).join(" ");
        assert!(
            words.starts_with("k mem=214M initrd=a ncpus=1 ubd0=x,y"),
            "{words}"
        );
        assert!(words.ends_with("rdinit=/bin/run -- one two"), "{words}");
    }
}

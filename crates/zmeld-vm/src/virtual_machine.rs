//! A machine of so much memory, so many processors, such disks: QEMU's, or a
//! program that is a kernel.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use zmeld_linux::boot::boot_id;
use zmeld_linux::command::Invocation;
use zmeld_linux::{file, Host};

use crate::KernelKind;

/// The program for x86-64.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// The program for arm64.
pub const ARM64_PROGRAM: &str = "qemu-system-aarch64";

/// The machine that it imitates: a board without a make, with the processor of a Raspberry
/// Pi 5, which has pages of 4 and of 16 KiB.
const ARM64_MACHINE: &[&str] = &["-machine", "virt", "-cpu", "cortex-a76"];

/// QEMU's tag for this machine's files.
const FILES_TAG: &str = "files";

/// Starting a kernel in hardware takes no longer where it works at all.
const PROBE_MAX: Duration = Duration::from_secs(20);

/// A disk. As fast as it can where a rate is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    pub file: PathBuf,
    /// Its serial number, in QEMU.
    pub serial: Option<String>,
    pub writes: DiskWrites,
    /// Bytes per second that are read at most.
    pub read_bytes_per_s: Option<u64>,
    /// The same for writes.
    pub write_bytes_per_s: Option<u64>,
    /// Reads a second at most.
    pub reads_per_s: Option<u64>,
    /// Writes a second at most.
    pub writes_per_s: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiskWrites {
    /// It goes past this machine's page cache, so that times are a disk's.
    #[default]
    Direct,
    /// It stays in this machine's page cache: for a file that goes with the guest.
    Cached,
    /// The same, and it is forgotten: the file stays as it is.
    Forgotten,
}

/// Use of a guest's two lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lines {
    /// The kernel's messages go to one file and what the guest writes to its line
    /// ([`VirtualMachine::line_device`]) to the other. User-mode Linux has them on standard
    /// error and standard output, and the caller has them written there.
    ToFiles { messages: PathBuf, answer: PathBuf },
    /// The guest's line is standard input and output, and the kernel's messages go to a
    /// file; those of user-mode Linux are on standard error.
    OfScript { messages: PathBuf },
}

#[derive(Debug, Clone, PartialEq)]
pub struct VirtualMachine {
    /// The kernel's image, or user-mode Linux.
    pub kernel: PathBuf,
    pub kind: KernelKind,
    pub archive: PathBuf,
    pub ram_mib: u64,
    pub processors: u32,
    /// Its disks, the first of them [`VirtualMachine::disk_device`]. In user-mode Linux their rates are the caller's to limit.
    pub disks: Vec<Disk>,
    /// Its lines, and where they go.
    pub lines: Lines,
    /// Folder of user-mode Linux's files while it runs.
    pub folder: PathBuf,
    /// Whether the guest may mount this machine's files ([`VirtualMachine::files_mount`]). QEMU lets it read them
    /// alone; what user-mode Linux mounts read-only it could mount anew.
    pub shows_files: bool,
    /// More for the kernel's command line; what stands behind `--` is for its first program.
    pub append: String,
    /// More for QEMU's.
    pub qemu: Vec<String>,
    /// Whether the processor runs it ([`hardware_runs`]), and not a program that imitates one.
    pub hardware: bool,
    /// Whether the time of QEMU's guest is a count: each instruction that it runs takes a nanosecond, and where all
    /// its processors wait for a time to come, it has come. For one that is imitated.
    pub counts_time: bool,
}

impl VirtualMachine {
    /// The guest's name of its own line, on which its kernel says nothing.
    pub fn line_device(kind: KernelKind, lines: &Lines) -> &'static str {
        match (kind, lines) {
            (KernelKind::UserMode, _) => "/dev/tty1",
            (KernelKind::Image, Lines::ToFiles { .. }) => "/dev/ttyS1",
            (KernelKind::Image, Lines::OfScript { .. }) => "/dev/ttyS0",
            // The board has one line; the other is a card.
            (KernelKind::Arm64Image, _) => "/dev/ttyS0",
        }
    }

    /// The guest's name of its first disk.
    pub fn disk_device(kind: KernelKind) -> &'static str {
        match kind {
            KernelKind::Image | KernelKind::Arm64Image => "/dev/vda",
            KernelKind::UserMode => "/dev/ubda",
        }
    }

    /// How the guest mounts this machine's files: the source, the kind of file system, its options.
    pub fn files_mount(kind: KernelKind) -> [&'static str; 3] {
        match kind {
            KernelKind::Image | KernelKind::Arm64Image => {
                // They do not change under the guest, so that it may keep what it read.
                let options = "trans=virtio,version=9p2000.L,msize=512000,cache=loose";
                [FILES_TAG, "9p", options]
            }
            KernelKind::UserMode => ["none", "hostfs", "/"],
        }
    }

    /// The command that runs it. It ends when the guest ends or starts anew, and when its kernel panics.
    pub fn command(&self) -> Vec<String> {
        match self.kind {
            KernelKind::Image | KernelKind::Arm64Image => self.qemu(),
            KernelKind::UserMode => self.user_mode(),
        }
    }

    fn user_mode(&self) -> Vec<String> {
        let mut words = vec![
            self.kernel.display().to_string(),
            format!("mem={}M", self.ram_mib),
            format!("initrd={}", self.archive.display()),
            format!("uml_dir={}/", self.folder.display()),
            format!("ncpus={}", self.processors),
        ];
        for (index, disk) in self.disks.iter().enumerate() {
            let file = disk.file.display();
            words.push(match disk.writes {
                // Writes go to a file of the run's own.
                DiskWrites::Forgotten => {
                    format!("ubd{index}={}/ubd{index}.cow,{file}", self.folder.display())
                }
                DiskWrites::Direct | DiskWrites::Cached => format!("ubd{index}={file}"),
            });
        }
        let line = match self.lines {
            Lines::ToFiles { .. } => "con1=null,fd:1",
            Lines::OfScript { .. } => "con1=fd:0,fd:1",
        };
        let more = ["seccomp=on", "con=null", "con0=null,fd:2", line];
        words.extend(more.map(str::to_owned));
        // If not named, the last two are added behind everything: to the first program's arguments.
        let more = ["panic=-1", "root=none", "console=tty0"];
        words.extend(more.map(str::to_owned));
        words.extend(self.append.split_whitespace().map(str::to_owned));
        words
    }

    fn qemu(&self) -> Vec<String> {
        let is_arm64 = self.kind == KernelKind::Arm64Image;
        let program = if is_arm64 { ARM64_PROGRAM } else { PROGRAM };
        let mut words: Vec<String> = vec![program.into()];
        let mut say = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
        match is_arm64 {
            true => say(ARM64_MACHINE),
            false => say(accelerator(self.hardware, self.counts_time)),
        }
        if self.counts_time {
            say(&["-icount", "shift=0,sleep=off", "-rtc", "clock=vm"]);
        }
        say(&["-nodefaults", "-no-reboot", "-display", "none"]);
        say(&["-m", &format!("{}M", self.ram_mib)]);
        say(&["-smp", &self.processors.to_string()]);
        say(&["-kernel", &self.kernel.display().to_string()]);
        say(&["-initrd", &self.archive.display().to_string()]);
        let to_file = |file: &Path| format!("file:{}", file.display());
        const CARD: [&str; 2] = ["-device", "pci-serial,chardev=out"];
        let console = match (&self.lines, is_arm64) {
            (Lines::ToFiles { messages, answer }, false) => {
                say(&["-serial", &to_file(messages), "-serial", &to_file(answer)]);
                "ttyS0"
            }
            (Lines::ToFiles { messages, answer }, true) => {
                let answer = answer.display().to_string().replace(',', ",,");
                say(&["-chardev", &format!("file,path={answer},id=out")]);
                say(&["-serial", &to_file(messages)]);
                say(&CARD);
                "ttyAMA0"
            }
            (Lines::OfScript { messages }, false) => {
                say(&["-chardev", "stdio,id=out,signal=off"]);
                say(&["-serial", "chardev:out", "-serial", &to_file(messages)]);
                "ttyS1"
            }
            (Lines::OfScript { messages }, true) => {
                say(&["-chardev", "stdio,id=out,signal=off"]);
                say(&["-serial", &to_file(messages)]);
                say(&CARD);
                "ttyAMA0"
            }
        };
        for (index, disk) in self.disks.iter().enumerate() {
            for option in disk.options(index) {
                say(&[&option]);
            }
        }
        if self.shows_files {
            let readable = "security_model=none,readonly=on,multidevs=remap";
            words.push("-virtfs".to_owned());
            words.push(format!("local,path=/,mount_tag={FILES_TAG},{readable}"));
        }
        words.extend(self.qemu.iter().cloned());
        words.push("-append".to_owned());
        words.push(format!("console={console},115200 panic=-1 {}", self.append));
        words
    }
}

impl Disk {
    fn options(&self, index: usize) -> [String; 4] {
        // A comma would begin the next option.
        let file = self.file.display().to_string().replace(',', ",,");
        let writes = match self.writes {
            DiskWrites::Direct => "cache=none",
            DiskWrites::Cached => "cache=unsafe",
            DiskWrites::Forgotten => "cache=unsafe,snapshot=on",
        };
        let mut drive = format!("file={file},format=raw,if=none,{writes},id=disk{index}");
        for (name, rate) in [
            ("bps-read", self.read_bytes_per_s),
            ("bps-write", self.write_bytes_per_s),
            ("iops-read", self.reads_per_s),
            ("iops-write", self.writes_per_s),
        ] {
            if let Some(rate) = rate {
                drive += &format!(",throttling.{name}={rate}");
            }
        }
        let mut device = format!("virtio-blk-pci,drive=disk{index}");
        if let Some(serial) = &self.serial {
            device += &format!(",serial={serial}");
        }
        ["-drive".to_owned(), drive, "-device".to_owned(), device]
    }
}

/// The options for a machine that hardware runs, or one that is imitated.
fn accelerator(hardware: bool, counts_time: bool) -> &'static [&'static str] {
    match (hardware, counts_time) {
        // Processors take turns then.
        (_, true) => &["-accel", "tcg,thread=single", "-cpu", "max"],
        (true, false) => &["-accel", "kvm", "-cpu", "host"],
        (false, false) => &["-accel", "tcg,thread=multi", "-cpu", "max"],
    }
}

/// Whether hardware virtualisation runs this kernel here: tried out, since `/dev/kvm` alone does not say so. The
/// answer is `kept` in a file and good for this boot of the machine, and for this image. Takes 20 s at most, and no
/// time where there is no such device.
pub fn hardware_runs(kernel: &Path, kept: &Path) -> bool {
    let boot = boot_id(&Host::here()).unwrap_or_default();
    let image = std::fs::metadata(kernel).and_then(|image| image.modified());
    let changed = image.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let changed_ms = changed.map_or(0, |since| since.as_millis());
    let question = format!("{} {} {changed_ms}", boot, kernel.display());
    let known = std::fs::read_to_string(kept).unwrap_or_default();
    match known.trim_end().rsplit_once(": ") {
        Some((asked, answer)) if asked == question => answer == "yes",
        _ => {
            let runs = hardware_starts(kernel);
            let answer = if runs { "yes" } else { "no" };
            // An answer that cannot be kept is asked for again.
            let _ = file::replace(kept, format!("{question}: {answer}\n").as_bytes(), None);
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
    let start = Invocation::new(PROGRAM)
        .args(accelerator(true, false))
        .args(["-nodefaults", "-no-reboot", "-display", "none"])
        .args(["-m", "256M", "-serial", "stdio", "-kernel"])
        .arg(kernel)
        // Without a root file system it gets to a panic, and so to a reboot.
        .args(["-append", "console=ttyS0 panic=-1"])
        .within(PROBE_MAX);
    let said = Host::here().attempt(&start);
    said.is_ok_and(|said| said.output.contains("Kernel panic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings that a boot does not show.
    #[test]
    fn names_rates_and_what_runs_it_are_as_asked_for() {
        let disk = Disk {
            file: "x,y".into(),
            serial: Some("disk0".to_owned()),
            writes: DiskWrites::Forgotten,
            read_bytes_per_s: Some(6_870_000),
            writes_per_s: Some(9),
            ..Disk::default()
        };
        let messages = "m".into();
        let mut machine = VirtualMachine {
            kernel: "k".into(),
            kind: KernelKind::Image,
            archive: "a".into(),
            ram_mib: 214,
            processors: 1,
            disks: vec![disk],
            lines: Lines::OfScript { messages },
            folder: "f".into(),
            shows_files: true,
            append: "rdinit=/init -- one".into(),
            qemu: vec!["-s".to_owned()],
            hardware: true,
            counts_time: false,
        };
        let arm64 = "qemu-system-aarch64 -machine virt -cpu cortex-a76 -nodefaults";
        for (kind, parts) in [
            (
                KernelKind::Image,
                &[
                    "-accel kvm -cpu host",
                    "-m 214M -smp 1 -kernel k -initrd a",
                    "file=x,,y,format=raw,if=none,cache=unsafe,snapshot=on,id=disk0",
                    "throttling.bps-read=6870000,throttling.iops-write=9 -device",
                    "drive=disk0,serial=disk0",
                    "mount_tag=files,security_model=none,readonly=on,",
                    "-s -append console=ttyS1,115200 panic=-1 rdinit=/init -- one",
                ][..],
            ),
            (KernelKind::Arm64Image, &[arm64, "console=ttyAMA0,115200"]),
            (KernelKind::UserMode, &[" ubd0=f/ubd0.cow,x,y "]),
        ] {
            machine.kind = kind;
            let words = machine.command().join(" ");
            for part in parts {
                assert!(words.contains(part), "{part}: {words}");
            }
        }
    }
}

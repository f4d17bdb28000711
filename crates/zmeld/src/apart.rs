//! Other processes' memory is read in a process apart.
//!
//! A page fault on a page of somebody's file system is answered when he likes, and no signal ends
//! that wait once he has been asked. The command's caller, or systemd, would wait for its process
//! as long. So this process begins itself once more, passes on signals, and goes on when the other
//! one has ended but for a thread that waits, too. A scan is done there as a whole. Of what sets
//! the machine up only the measuring is: a thread that waits keeps what its process had open, as
//! the journal's lock.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::process::{getppid, set_parent_process_death_signal};
use zmeld_linux::{others, process};

/// Tells the process apart who began it.
const FOR: &str = "ZMELD_APART_FOR";
/// How soon it is seen that only a thread that waits is left.
const LOOKED_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// A signal waits for the one that listens to it, but no longer.
const READY_WITHIN: Duration = Duration::from_millis(500);

fn passed() -> SigSet {
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
    [SIGINT, SIGTERM, SIGHUP, SIGCHLD].into_iter().collect()
}

/// Does the command in a process apart, unless this is that one already: none.
pub fn run() -> io::Result<Option<ExitCode>> {
    let passed = passed();
    if let Ok(parent) = std::env::var(FOR) {
        // That one has them blocked, and so had this.
        passed.thread_unblock()?;
        // A command that this one runs is another one.
        std::env::remove_var(FOR);
        set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
        if now != Some(parent) {
            return Err(io::Error::other("whoever began this has ended"));
        }
        // Else it is called by the link that it was begun by.
        let _ = fs::write("/proc/self/comm", "zmeld");
        return Ok(None);
    }
    let mut begun = Command::new("/proc/self/exe");
    begun.args(std::env::args_os().skip(1));
    Ok(Some(code(supervised(begun)?).into()))
}

/// Output of this program, called with these words, if it succeeds.
pub fn answer(words: &[String]) -> io::Result<Result<String, u8>> {
    // A process left behind would keep a pipe open.
    let mut answer = File::from(memfd_create("answer", MemfdFlags::CLOEXEC)?);
    let mut begun = Command::new("/proc/self/exe");
    begun.args(words).stdout(answer.try_clone()?);
    let status = supervised(begun)?;
    if !status.success() {
        return Ok(Err(code(status)));
    }
    let mut said = String::new();
    answer.rewind()?;
    answer.read_to_string(&mut said)?;
    Ok(Ok(said))
}

/// Begins it, passes signals on, and says how it ended.
fn supervised(mut begun: Command) -> io::Result<ExitStatus> {
    let passed = passed();
    passed.thread_block()?;
    let result = await_end(&mut begun, &passed);
    passed.thread_unblock()?;
    result
}

fn await_end(begun: &mut Command, passed: &SigSet) -> io::Result<ExitStatus> {
    let signals = SignalFd::with_flags(passed, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    begun.arg0(std::env::args_os().next().unwrap_or_default());
    let mut child = begun.env(FOR, std::process::id().to_string()).spawn()?;
    loop {
        if let Some(status) = ended(&mut child)? {
            return Ok(status);
        }
        let mut ready = [PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOKED_EVERY)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
        while let Some(info) = signals.read_signal()? {
            let signal = Signal::try_from(info.ssi_signo as i32)?;
            // A child that got it already takes both for one.
            if signal != Signal::SIGCHLD {
                await_listener(&child, signal);
                let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
            }
        }
    }
}

/// At the end of the process apart: what waits for others' pages keeps nothing open, of this
/// program's or of what began it.
pub fn leave() {
    if others::are_left() {
        let null = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null");
        if let Ok(null) = null {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        let open = fs::read_dir("/proc/self/fd").into_iter().flatten();
        let open = open.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
        for descriptor in open.collect::<Vec<i32>>() {
            if descriptor > 2 {
                let _ = nix::unistd::close(descriptor);
            }
        }
    }
}

/// How it ended, where it did: also where one of its threads never does.
fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields = process::fields(&stat).unwrap_or_default();
    // Its first thread waits to be collected with the others: the last field is how it ended.
    Ok(match (fields.first(), fields.last()) {
        (Some(&"Z"), Some(last)) => match child.try_wait()? {
            Some(status) => Some(status),
            None => Some(ExitStatus::from_raw(last.parse().unwrap_or_default())),
        },
        _ => None,
    })
}

fn code(status: ExitStatus) -> u8 {
    let killed = || 128 + status.signal().unwrap_or_default();
    u8::try_from(status.code().unwrap_or_else(killed)).unwrap_or(u8::MAX)
}

fn await_listener(child: &Child, signal: Signal) {
    let begin = Instant::now();
    loop {
        let path = format!("/proc/{}/status", child.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        let has = |name| {
            let signals = process::status(&text, name).unwrap_or("0");
            let signals = u64::from_str_radix(signals, 16).unwrap_or(0);
            signals & 1 << (signal as u32 - 1) != 0
        };
        // A shell's background job ignores it until it listens.
        let patience = match has("SigIgn") {
            true => READY_WITHIN * 20,
            false => READY_WITHIN,
        };
        if has("SigCgt") || begin.elapsed() >= patience {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

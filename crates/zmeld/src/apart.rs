//! A command that reads other processes' memory does its work in a process apart.
//!
//! A page fault on a page of somebody's file system is answered when he likes, and no signal ends
//! that wait once he has been asked. Who ran the command, or systemd, would wait for its process
//! as long. So this process begins the same command once more, passes on signals, and ends with
//! it: when the other one has ended but for a thread that waits, too.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
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
/// What was sent by the terminal (`SI_KERNEL`), which both of them have got.
const OF_TERMINAL: i32 = 0x80;

/// Does the command in a process apart, unless this is that one already: none.
pub fn run() -> io::Result<Option<ExitCode>> {
    let passed = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGCHLD,
    ];
    let passed: SigSet = passed.into_iter().collect();
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
    passed.thread_block()?;
    let signals = SignalFd::with_flags(&passed, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut begun = Command::new("/proc/self/exe");
    begun.arg0(std::env::args_os().next().unwrap_or_default());
    begun.args(std::env::args_os().skip(1));
    let mut child = begun.env(FOR, std::process::id().to_string()).spawn()?;
    loop {
        if let Some(status) = ended(&mut child)? {
            return Ok(Some(code(status)));
        }
        let mut ready = [PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOKED_EVERY)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
        while let Some(info) = signals.read_signal()? {
            let signal = Signal::try_from(info.ssi_signo as i32)?;
            if signal != Signal::SIGCHLD && info.ssi_code != OF_TERMINAL {
                await_listener(&child, signal);
                let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
            }
        }
    }
}

/// At the end of the process apart: what waits for others' pages keeps nothing of its output open.
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

fn code(status: ExitStatus) -> ExitCode {
    let killed = || 128 + status.signal().unwrap_or_default();
    ExitCode::from(u8::try_from(status.code().unwrap_or_else(killed)).unwrap_or(u8::MAX))
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
        // What a shell begins in the background ignores it until it listens.
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

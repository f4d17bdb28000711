//! Two processes stand between the experiment and a workload. The *launcher*
//! joins the control group, makes itself the first to be killed when memory runs
//! out, and then becomes the workload. The *supervisor* starts the launcher,
//! waits, and asks the kernel what its children used: alone with one child, that
//! is the workload's usage, descendants included. Joining a group takes the kernel
//! tens of milliseconds, so the launcher says when it is done, by a pipe that it has
//! in place of standard input: from then on the workload's time is counted.
//!
//! Both die with whoever started them, so that an experiment that is killed
//! leaves nothing running.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::prctl::set_thp_disable;
use nix::sys::resource::{getrusage, UsageWho};
use nix::time::{clock_gettime, ClockId};
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{chroot, set_parent_process_death_signal, Signal};
use serde::{Deserialize, Serialize};

/// How a command is started. The supervisor is given it, and gives it on to the launcher with itself as the parent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Launch {
    /// The process that asks; the command ends with it.
    pub parent: u32,
    /// The file of the control group that it joins.
    pub join: Option<PathBuf>,
    /// Whether it is refused huge pages.
    pub no_huge_pages: bool,
    /// Its root folder and the working directory there, where these are not the launcher's.
    pub root: Option<[PathBuf; 2]>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// File to which the supervisor reports.
    pub report: PathBuf,
}

impl Launch {
    /// This program as launcher (`launch`) or supervisor (`supervise`).
    pub(crate) fn program(&self, own: &Path, role: &str) -> io::Result<Command> {
        let mut program = Command::new(own);
        program.args(["bench", role, &serde_json::to_string(self)?]);
        Ok(program)
    }
}

/// Usage of a run, as the kernel counts it for the workload and its descendants. It includes the
/// launcher's hundreds of faults before it becomes the workload, the same in every variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// From the moment at which the launcher becomes the workload, to the end.
    pub elapsed_s: f64,
    /// Processor time in user space.
    pub user_s: f64,
    /// Processor time in the kernel, reclaim and compression on its behalf included.
    pub system_s: f64,
    /// The most memory that one of its processes had in RAM; 0 where it was no more than the
    /// launcher's, which the kernel counts as the workload's.
    pub rss_max_bytes: u64,
    /// Faults served without I/O.
    pub faults_minor: u64,
    /// Faults that waited for a page to be read.
    pub faults_major: u64,
    /// Times it waited.
    pub switches_voluntary: u64,
    /// Times it was preempted.
    pub switches_involuntary: u64,
    /// Blocks of 512 bytes read from file systems, for it.
    pub file_inputs: u64,
    /// Blocks of 512 bytes written to file systems, for it.
    pub file_outputs: u64,
}

/// How a workload ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkloadEnd {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its usage.
    pub usage: Usage,
}

/// Starts a workload, waits for it and writes how it ended: the supervisor's whole life. The
/// workload's output goes where the supervisor's own does.
pub fn supervise(launch: Launch) -> io::Result<()> {
    end_with(launch.parent)?;
    let report = launch.report.clone();
    let launch = Launch {
        parent: std::process::id(),
        ..launch
    };
    let mut command = launch.program(&std::env::current_exe()?, "launch")?;
    // None of it is left when the launcher, which has the other end, is the workload.
    let (started, launched) = pipe_with(PipeFlags::CLOEXEC)?;
    command.stdin(Stdio::from(launched));
    let mut begin = now()?;
    let mut child = command.spawn()?;
    // Our copy of the launcher's end goes with it, or the pipe would not end.
    drop(command);
    let status = child.wait()?;
    let end = now()?;
    let (mut launched_at, mut launcher_rss) = ([0; 8], [0; 8]);
    let mut started = File::from(started);
    if started.read_exact(&mut launched_at).is_ok() && started.read_exact(&mut launcher_rss).is_ok()
    {
        begin = Duration::from_nanos(u64::from_ne_bytes(launched_at));
    }
    let of_launcher = i64::from_ne_bytes(launcher_rss);
    let elapsed_s = end.saturating_sub(begin).as_secs_f64();
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let ended = WorkloadEnd {
        code: status.code(),
        signal: status.signal(),
        usage: Usage {
            elapsed_s,
            user_s: seconds(used.user_time()),
            system_s: seconds(used.system_time()),
            rss_max_bytes: match used.max_rss() {
                most if most > of_launcher => most as u64 * 1024,
                _ => 0,
            },
            faults_minor: used.minor_page_faults() as u64,
            faults_major: used.major_page_faults() as u64,
            switches_voluntary: used.voluntary_context_switches() as u64,
            switches_involuntary: used.involuntary_context_switches() as u64,
            file_inputs: used.block_reads() as u64,
            file_outputs: used.block_writes() as u64,
        },
    };
    fs::write(report, serde_json::to_vec(&ended)?)
}

/// KiB that the launcher may take between saying what it took and being the workload, with what the
/// kernel has not yet added up by then.
const LAUNCHER_GROWS_KIB: i64 = 1024;

/// The same clock in all processes. Not rustix's, which takes it for granted that the
/// kernel maps one into each of them; user-mode Linux does not.
fn now() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

/// Has the kernel kill this process when its parent ends.
///
/// # Errors
/// When the parent has ended already: the kernel says it once.
fn end_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if std::os::unix::process::parent_id() == parent {
        Ok(())
    } else {
        Err(io::Error::other("whoever started it has ended"))
    }
}

/// Joins control groups and becomes the command: the launcher's whole life. Returns only if that failed.
pub fn launch(launch: &Launch) -> io::Error {
    let become_it = || -> io::Result<io::Error> {
        let (program, arguments) = launch
            .command
            .split_first()
            .ok_or_else(|| io::Error::other("no command"))?;
        end_with(launch.parent)?;
        if launch.no_huge_pages {
            set_thp_disable(true)?;
        }
        if let Some(join) = &launch.join {
            fs::write(join, std::process::id().to_string())?;
        }
        // If the whole machine runs short after all, this process goes first. Without root the kernel may refuse.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        if let Some([root, folder]) = &launch.root {
            chroot(root)?;
            std::env::set_current_dir(folder)?;
        }
        // Whether somebody listens is not the workload's concern.
        let now_ns = u64::try_from(now()?.as_nanos()).unwrap_or(0);
        // To be the workload ends this process's own memory, and grows it a little before.
        let rss = getrusage(UsageWho::RUSAGE_SELF)?.max_rss() + LAUNCHER_GROWS_KIB;
        let said = [now_ns.to_ne_bytes(), rss.to_ne_bytes()].concat();
        let _ = rustix::io::write(rustix::stdio::stdin(), &said);
        let mut command = Command::new(program);
        Ok(command.args(arguments).stdin(Stdio::null()).exec())
    };
    become_it().unwrap_or_else(|err| err)
}

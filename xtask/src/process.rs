//! Running programs: output into a log, a limit of time, and an end to all of them when the user
//! presses Ctrl-C. A program that cannot be had or run here is an error of its own,
//! [`Unavailable`], for which steps are skipped.
//!
//! Each program leads a process group of its own, so that what it started ends
//! with it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;
use zmeld_linux::shell::word;

use crate::workspace::{shown, work_folder};

const LIMIT: Duration = Duration::from_secs(2 * 3600);

#[derive(Debug)]
pub struct Unavailable(pub String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// A program had not ended in time.
#[derive(Debug)]
pub struct TookLonger(Duration);

impl std::fmt::Display for TookLonger {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(out, "took longer than {} s and was ended", self.0.as_secs())
    }
}

impl std::error::Error for TookLonger {}

/// Ends a function with the reason why something cannot be had or run here.
macro_rules! unavailable {
    ($($reason:tt)*) => {
        return Err($crate::process::Unavailable(format!($($reason)*)).into())
    };
}
pub(crate) use unavailable;

/// The reason, where that is what the error is about.
pub fn reason(error: &anyhow::Error) -> Option<&str> {
    error.downcast_ref::<Unavailable>().map(|it| it.0.as_str())
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C, a hang-up and a request to end stop what runs.
pub fn stop_children_when_interrupted() {
    // Without a handler Ctrl-C still ends this program, only less tidily.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst));
}

pub fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

pub struct Log {
    path: PathBuf,
    file: File,
    /// File of errors, if not the same.
    pub errors: Option<PathBuf>,
}

pub struct FinishedProgram {
    pub status: ExitStatus,
    /// Its output, both streams as they came.
    pub text: String,
}

impl FinishedProgram {
    pub fn succeeded(&self) -> bool {
        self.status.success()
    }

    pub fn or_fail(self, command: &Command, log: &Log) -> Result<String> {
        if self.succeeded() {
            return Ok(self.text);
        }
        let line = command_line(command);
        let line = line.get(..300).unwrap_or(&line);
        bail!("`{line}`: {}, see {}", self.status, shown(&log.path));
    }
}

impl Log {
    pub fn named(name: &str) -> Result<Log> {
        Log::create(&work_folder("logs")?.join(format!("{name}.log")))
    }

    pub fn create(path: &Path) -> Result<Log> {
        // Truncated here, appended to by every program that gets the handle.
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Log {
            path: path.to_path_buf(),
            file,
            errors: None,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn note(&self, line: &str) -> Result<()> {
        writeln!(&self.file, "{line}").context("cannot write the log")
    }

    pub fn text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes_from(0)?).into_owned())
    }

    fn bytes_from(&self, offset: u64) -> Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn run(&self, command: &mut Command) -> Result<FinishedProgram> {
        self.run_for(command, LIMIT)
    }

    pub fn run_for(&self, command: &mut Command, limit: Duration) -> Result<FinishedProgram> {
        self.watched(command, limit, &mut |_| {})
    }

    /// Runs a program that must succeed; what it wrote.
    pub fn must(&self, command: &mut Command) -> Result<String> {
        self.run(command)?.or_fail(command, self)
    }

    /// Runs a program to its end, or kills it after `limit`, and hands on what it writes.
    pub fn watched(
        &self,
        command: &mut Command,
        limit: Duration,
        watch: &mut dyn FnMut(&[u8]),
    ) -> Result<FinishedProgram> {
        let from = self.file.metadata()?.len();
        let mut told = from;
        let mut hand_on = || {
            let bytes = self.bytes_from(told).unwrap_or_default();
            told += bytes.len() as u64;
            watch(&bytes);
        };
        let mut child = self.spawn(command)?;
        let status = wait_watching(&mut child, limit, &mut hand_on);
        hand_on();
        Ok(FinishedProgram {
            status: status?,
            text: String::from_utf8_lossy(&self.bytes_from(from)?).into_owned(),
        })
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        self.note(&format!("$ {}", command_line(command)))?;
        let errors = match &self.errors {
            Some(path) => File::create(path)?,
            None => self.file.try_clone()?,
        };
        command.stdin(Stdio::null()).process_group(0);
        command.stdout(self.file.try_clone()?).stderr(errors);
        started(command)
    }
}

fn started(command: &mut Command) -> Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn();
    child.with_context(|| format!("cannot start {program}"))
}

pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Git without what a hook or a rebase of the caller's has set: that names his repository.
pub fn git() -> Command {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            git.env_remove(name);
        }
    }
    git
}

/// Standard output of a program that must succeed, without white space at its end.
pub fn output_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{}`: {}", command_line(command), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// Runs a program that talks to the user itself.
pub fn run_in_front(command: &mut Command) -> Result<ExitStatus> {
    let mut child = started(command.stdin(Stdio::null()).process_group(0))?;
    wait_watching(&mut child, Duration::MAX, &mut || {})
}

/// Waits for the end, ends the program after `limit` or when interrupted, and
/// calls `watch` between.
fn wait_watching(
    child: &mut Child,
    limit: Duration,
    watch: &mut dyn FnMut(),
) -> Result<ExitStatus> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if was_interrupted() {
            end_group(child)?;
            bail!("interrupted");
        }
        if started.elapsed() > limit {
            end_group(child)?;
            return Err(TookLonger(limit).into());
        }
        watch();
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Asks the child's whole group to end, and does not ask twice.
fn end_group(child: &mut Child) -> Result<()> {
    let group = Pid::from_raw(i32::try_from(child.id())?);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // It may have ended meanwhile.
        let _ = killpg(group, signal);
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(2) {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
    }
    child.wait()?;
    Ok(())
}

/// A command as it would be typed, its environment in front.
pub fn command_line(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        words.push(format!("{}={}", name.to_string_lossy(), word(&value)));
    }
    words.push(word(&command.get_program().to_string_lossy()));
    for argument in command.get_args() {
        words.push(word(&argument.to_string_lossy()));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_ended_with_what_it_started() {
        let log = Log::named("unit-too-long").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep infinity & sleep infinity"]);
        let said = log.run_for(&mut command, Duration::from_millis(50));
        assert!(said.err().unwrap().to_string().contains("was ended"));
    }
}
